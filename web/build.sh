#!/usr/bin/env bash
# Builds the page of `netalytics serve` into web/dist, where Cargo embeds it. Does nothing if no source has changed.
set -euo pipefail
cd "$(dirname "$0")"
sources() { cat README.md package.json package-lock.json tsconfig.json build.mjs build.sh $(find src -type f | LC_ALL=C sort); }
sum=$(sources | sha256sum | cut -d' ' -f1)
if [ -e dist/index.html ] && [ "$(cat dist/.built 2>/dev/null)" = "$sum" ]; then exit 0; fi
if ! command -v npm >/dev/null || ! command -v node >/dev/null; then
  echo "page: node and npm are missing: ./setup.sh build installs them" >&2
  exit 1
fi
if [ "$(cat node_modules/.sum 2>/dev/null)" != "$(sha256sum <package-lock.json)" ]; then
  npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2
  sha256sum <package-lock.json >node_modules/.sum
fi
npm run --silent build >&2
printf '%s\n' "$sum" >dist/.built
