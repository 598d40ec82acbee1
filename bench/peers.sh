#!/usr/bin/env bash
# Installs the peers of run.py into bench/target/peers: Debian's packages (system-wide, needs root), the C++ queues'
# headers, our Go and C++ counterparts of bench/queues, and with --packetbeat also Packetbeat 7.17 from its Go module
# (some minutes, 2 GB). Peers that cannot be installed are reported; run.py skips them.
set -uo pipefail
cd "$(dirname "$0")"
mkdir -p target/peers
cd target/peers
missing() { echo "peers: $*" >&2; }
packages=(tshark tcpdump argus-server nfdump softflowd libndpi-bin nfstrace)
DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 install -y -qq --no-install-recommends "${packages[@]}" >/dev/null ||
  missing "not all of ${packages[*]} could be installed"
g++ -O3 -march=native -std=c++17 -o ringlimit ../../queues/cpp/limit.cpp -lpthread || missing "the limit of the rings could not be built"
if apt-get download -qq libconcurrentqueue-dev libreaderwriterqueue-dev 2>/dev/null; then
  for package in *.deb; do dpkg -x "$package" headers && rm "$package"; done
  g++ -O3 -std=c++17 -Wno-stringop-overflow -I headers/usr/include/concurrentqueue -I headers/usr/include/readerwriterqueue \
    -o cppqueues ../../queues/cpp/queues.cpp -lpthread || missing "the C++ queues could not be built"
else
  missing "the headers of the C++ queues could not be had"
fi
if command -v go >/dev/null; then
  (cd ../../queues/go && go build -o ../../target/peers/goqueues .) || missing "the Go channels could not be built"
else
  missing "no go: no Go channels and no Packetbeat"
fi
if [ "${1:-}" = --packetbeat ]; then
  module=$(go mod download -json github.com/elastic/beats/v7@v7.17.29 | sed -n 's/.*"Dir": "\(.*\)",*/\1/p')
  rm -rf beats && cp -r "$module" beats && chmod -R u+w beats && (cd beats/packetbeat && go build -o ../../packetbeat .) ||
    missing "Packetbeat could not be built (it needs libpcap-dev)"
  rm -rf beats
fi
