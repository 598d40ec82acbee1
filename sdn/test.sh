#!/usr/bin/env bash
# Runs the controller's tests: sdn/test.sh [TEST…]. Tests with Open vSwitch require root.
set -euo pipefail
cd "$(dirname "$0")"
./install.sh
exec ../target/sdn/bin/python -m unittest "${@:-discover}"
