#!/usr/bin/env bash
# Stages an installation: packaging/stage.sh BINARY FOLDER [ZSH-FOLDER]. Every package contains its result: program,
# manual page, completions, systemd units, documentation, and a sample capture.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
binary=$(realpath "$1")
mkdir -p "$2"
to=$(realpath "$2")
zsh=${3:-usr/share/zsh/vendor-completions}

put() { install -D -m 644 "$1" "$to/$2"; }
# Writes the program's output to a file.
say() { "$binary" "${@:2}" | install -D -m 644 /dev/stdin "$to/$1"; }

install -D -m 755 "$binary" "$to/usr/bin/netalytics"
say usr/share/bash-completion/completions/netalytics completions bash
say "$zsh/_netalytics" completions zsh
say usr/share/fish/vendor_completions.d/netalytics.fish completions fish
"$binary" man | gzip -9n | install -D -m 644 /dev/stdin "$to/usr/share/man/man1/netalytics.1.gz"
for unit in netalytics-record@ netalytics-publish@ netalytics-server netalytics-agent; do
  put "$here/packaging/systemd/$unit.service" "usr/lib/systemd/system/$unit.service"
done
doc=usr/share/doc/netalytics
for file in "$here"/docs/*.{md,png} "$here"/docs/truth/*.md "$here"/docs/plots/*.svg \
  "$here"/{README,GLOSSARY,ARCHITECTURE,CONTRIBUTING}.md; do
  put "$file" "$doc/${file#"$here"/}"
done
gzip -9n <"$here/CHANGELOG.md" | install -D -m 644 /dev/stdin "$to/$doc/changelog.gz"
put "$here/LICENSE" "$doc/copyright"
for example in shop publish server agent; do put "$here/packaging/systemd/$example.conf" "$doc/examples/$example.conf"; done
# The capture of the examples in the help, which work in this folder.
put "$here/captures/shop/in.pcap" "$doc/captures/shop/in.pcap"
ln -sf ../captures/shop/in.pcap "$to/$doc/examples/shop.pcap"
