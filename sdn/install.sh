#!/usr/bin/env bash
# Creates a Python virtual environment for the controller: sdn/install.sh [DIR] (default target/sdn). Its Python is
# DIR/bin/python.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:-$here/../target/sdn}
if ! cmp -s "$here/requirements.txt" "$dir/complete"; then
  python3 -m venv "$dir"
  "$dir/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$here/requirements.txt"
  cp "$here/requirements.txt" "$dir/complete"
fi
