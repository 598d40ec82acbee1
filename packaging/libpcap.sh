#!/usr/bin/env bash
# Builds a static libpcap in FOLDER that depends on the C library only: packaging/libpcap.sh FOLDER. The distribution's
# depends on D-Bus and systemd, for devices that are not supported here.
set -euo pipefail
version=1.10.3
sum=2a8885c403516cf7b0933ed4b14d6caa30e02052489ebd414dc75ac52e7559e6
mkdir -p "$1"
cd "$1"
[ -e libpcap.a ] && exit 0
for url in "http://deb.debian.org/debian/pool/main/libp/libpcap/libpcap_$version.orig.tar.gz" \
  "https://www.tcpdump.org/release/libpcap-$version.tar.gz"; do
  curl -fsSL --max-time 60 -o libpcap.tar.gz "$url" && break
done
echo "$sum  libpcap.tar.gz" | sha256sum --check --quiet
tar xf libpcap.tar.gz
cd "libpcap-$version"
{
  CFLAGS="-O2 -fPIC" ./configure --disable-shared --disable-dbus --disable-usb --disable-rdma --disable-bluetooth \
    --without-libnl --without-dag --without-dpdk --without-snf
  make libpcap.a
} >../libpcap.log 2>&1 || { tail -n 20 ../libpcap.log >&2; exit 1; }
mv libpcap.a ..
