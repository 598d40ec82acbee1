#!/usr/bin/env bash
# Installs what building and testing need on Debian: a C and C++ compiler (zstd, the fuzzer's runtime) and libpcap
# (capture filters); with `dpdk` as its argument also what the feature of that name needs. Rust comes from rustup
# (stable, at least the rust-version of Cargo.toml).
set -euo pipefail
if ! command -v cargo >/dev/null; then
  echo "setup: cargo is missing; install Rust from https://rustup.rs first" >&2
  exit 1
fi
missing=()
command -v cc >/dev/null || missing+=(gcc libc6-dev)
command -v c++ >/dev/null || missing+=(g++)
[ -e /usr/include/pcap/pcap.h ] || missing+=(libpcap-dev)
# What the live tests start in namespaces of their own. Debian may start the services as well when it installs them.
for need in ip:iproute2 nginx:nginx-light mariadbd:mariadb-server mariadb:mariadb-client memcached:memcached \
  curl:curl wrk:wrk tcpdump:tcpdump python3:python3 setcap:libcap2-bin ping:iputils-ping; do
  PATH=$PATH:/usr/sbin:/sbin command -v "${need%%:*}" >/dev/null || missing+=("${need#*:}")
done
# Readers of Parquet go into a virtual environment.
python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
if [ "${1:-}" = dpdk ] && ! pkg-config --exists libdpdk 2>/dev/null; then
  missing+=(libdpdk-dev pkg-config)
fi
if [ ${#missing[@]} -gt 0 ]; then
  sudo=""
  [ "$(id -u)" = 0 ] || sudo=sudo
  $sudo apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $sudo apt-get -o DPkg::Lock::Timeout=600 install -y -qq --no-install-recommends "${missing[@]}"
fi
