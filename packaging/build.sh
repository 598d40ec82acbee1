#!/usr/bin/env bash
# Builds packages into target/packages: packaging/build.sh [static] [deb] [rpm] [oci]; all without arguments.
#
#   static  the program alone, for any Linux of this architecture: nothing is linked dynamically
#   deb     Debian, Ubuntu: linked with the system's libc and libpcap
#   rpm     Fedora, RHEL, SUSE and others: the static program, since there libpcap has another name
#   oci     an image with the static program in it and nothing else, for docker, podman and Kubernetes
#
# With NETALYTICS_PROGRAM, deb contains that program and compiles nothing; for tests of the package itself.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
host=$(rustc -vV | sed -n 's/^host: //p')
machine=${host%%-*}
out=$PWD/target/packages
work=$out/stage
static=$out/netalytics-$version-$machine-linux
# Reproducible: the same commit gives the same packages.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 0)
export SOURCE_DATE_EPOCH
mkdir -p "$work"
# The program contains its page.
web/build.sh

fresh() { rm -rf "${work:?}/$1" && mkdir -p "$work/$1"; }

# Recompiles and links the program only; dependencies are those of the release build.
static() {
  [ -z "${static_is_built:-}" ] || return 0
  packaging/libpcap.sh "$PWD/target/libpcap"
  cargo rustc --release --locked --quiet -p netalytics --bin netalytics -- \
    -C target-feature=+crt-static -L "native=$PWD/target/libpcap"
  install -m 755 target/release/netalytics "$static"
  strip "$static"
  static_is_built=1
}

deb() {
  local root=$work/deb program=${NETALYTICS_PROGRAM:-} arch libc
  if [ -z "$program" ]; then
    cargo build --release --locked --quiet -p netalytics
    program=target/release/netalytics
  fi
  fresh deb
  packaging/stage.sh "$program" "$root"
  strip "$root/usr/bin/netalytics"
  arch=$(dpkg --print-architecture)
  libc=$(objdump -T "$root/usr/bin/netalytics" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
  mkdir "$root/DEBIAN"
  sed "s/@VERSION@/$version/; s/@ARCH@/$arch/; s/@LIBC@/${libc#GLIBC_}/; s/@SIZE@/$(du -ks "$root/usr" | cut -f1)/" \
    packaging/control >"$root/DEBIAN/control"
  dpkg-deb --root-owner-group -Zxz --build "$root" "$out/netalytics_${version}_$arch.deb" >/dev/null
}

rpm() {
  static
  fresh rpm
  packaging/stage.sh "$static" "$work/rpm/tree" usr/share/zsh/site-functions
  rpmbuild -bb --quiet --target "$machine" --define "_topdir $work/rpm" --define "_rpmdir $out" \
    --define "version_ $version" --define "tree $work/rpm/tree" packaging/netalytics.spec >/dev/null
}

oci() {
  static
  fresh oci
  local root=$work/oci/root image=$work/oci/layout:$version
  # The program switches to `nobody` once a capture is open.
  install -D -m 755 "$static" "$root/usr/bin/netalytics"
  install -D -m 644 packaging/passwd "$root/etc/passwd"
  mkdir -p "$root/data" && mkdir -m 1777 "$root/tmp"
  umoci init --layout "$work/oci/layout"
  umoci new --image "$image"
  for part in usr etc data tmp; do umoci insert --image "$image" "$root/$part" "/$part"; done
  umoci config --image "$image" --config.entrypoint /usr/bin/netalytics --config.workingdir /data \
    --config.label "org.opencontainers.image.title=netalytics" \
    --config.label "org.opencontainers.image.version=$version" \
    --config.label "org.opencontainers.image.licenses=Apache-2.0"
  umoci gc --layout "$work/oci/layout"
  tar -C "$work/oci/layout" --sort=name --owner=0 --group=0 --mtime="@$SOURCE_DATE_EPOCH" \
    -cf "$out/netalytics-$version-$machine-oci.tar" .
}

[ $# -gt 0 ] || set -- static deb rpm oci
for what in "$@"; do
  case $what in
    static | deb | rpm | oci) "$what" ;;
    *) echo "build: unknown package '$what'; known packages: static, deb, rpm, oci" >&2; exit 2 ;;
  esac
done
find "$out" -maxdepth 2 -type f -not -path "$work/*" -not -path "$out/test/*" -printf '%P  %k kB\n' | sort
