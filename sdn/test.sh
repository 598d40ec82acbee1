#!/usr/bin/env bash
# The controller's tests: sdn/test.sh [TEST…]. Those before Open vSwitch need root, and say loudly where they have checked nothing.
set -euo pipefail
cd "$(dirname "$0")"
./install.sh
exec ../target/sdn/bin/python -m unittest "${@:-discover}"
