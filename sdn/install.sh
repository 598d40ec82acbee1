#!/usr/bin/env bash
# Makes a Python virtual environment that the controller runs in: sdn/install.sh [DIR] (else target/sdn). DIR/bin/python is its Python.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:-$here/../target/sdn}
if ! cmp -s "$here/requirements.txt" "$dir/complete"; then
  python3 -m venv "$dir"
  "$dir/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$here/requirements.txt"
  cp "$here/requirements.txt" "$dir/complete"
fi
