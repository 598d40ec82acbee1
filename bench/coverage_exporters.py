#!/usr/bin/env python3
"""Coverage of the 95 % intervals over export messages of real exporters: Open vSwitch (sFlow), softflowd, and pmacct's probe.

    bench/coverage_exporters.py --netalytics PROGRAM [-o bench/runs/DATE-coverage-exporters] [--runs 200]

Every run has traffic of its own, with known numbers of packets and bytes. An exporter samples it, its datagrams are captured, and one query
computes the totals with their intervals. Open vSwitch (datapath in user space) forwards the packets of a raw socket, and the kernel counts those
that leave it; softflowd and pmacctd read them from a file. Exporters that are not installed are left out. Requires root. Writes runs.csv and
README.md."""
import argparse, csv, datetime, json, os, random, select, socket, struct, subprocess, sys, tempfile, time
from pathlib import Path
from shutil import which

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from measuring_lab import PATIENCE, SCHEMA, end_with_input, interfaces, isolate, sh

SFLOW = "PARSE packet PROCESS (count-sum: value=packet_bytes)"
FLOWS = "PARSE flow PROCESS (sum: value=client_packets, client_bytes)"
BRIDGES, PROBES = 4, 8
NOW = 1_700_000_000


def frames(rng, flows, packets):
    """UDP frames of flows of unequal length and size, mixed."""
    weights = [rng.paretovariate(2.5) for _ in range(flows)]
    sizes = [rng.choice((26, 200, 600, 1400)) for _ in range(flows)]
    found = []
    for number in rng.choices(range(flows), weights, k=packets):
        payload = bytes(sizes[number] + rng.randrange(20))
        udp = struct.pack(">HHHH", 10_000 + number, 53, 8 + len(payload), 0) + payload
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0) + bytes([10, 1, number >> 8, number & 255, 10, 2, 0, 1])
        checksum = sum(struct.unpack(">10H", ip))
        checksum = ~(checksum % 0xFFFF) & 0xFFFF
        found.append(bytes.fromhex("020000000002020000000001") + b"\x08\x00" + ip[:10] + struct.pack(">H", checksum) + ip[12:] + udp)
    return found


def write_pcap(path, link_type, packets, seconds):
    """Packets at even distances within `seconds`."""
    with open(path, "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, link_type))
        for n, packet in enumerate(packets):
            ns = int(n * seconds * 1e9 / len(packets))
            out.write(struct.pack("<IIII", NOW + ns // 10**9, ns % 10**9, len(packet), len(packet)) + packet)


def datagram_packet(datagram):
    """IPv4 and UDP headers for the payload of an exporter."""
    udp = struct.pack(">HHHH", 50_000, 2055, 8 + len(datagram), 0) + datagram
    return struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0) + bytes([10, 0, 0, 254, 10, 9, 9, 9]) + udp


def answer(program, text, datagrams, folder):
    """The row of a query over datagrams, and its exports summary."""
    path, summary = f"{folder}/exports.pcap", f"{folder}/summary.json"
    write_pcap(path, 101, [datagram_packet(datagram) for datagram in datagrams], 0.5)
    command = [program, "query", "-q", "-r", path, "--exports", "--format", "jsonl", text, "--summary-json", summary]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[0]), json.loads(Path(summary).read_text())["exports"]


def receiver():
    found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    found.bind(("127.0.0.1", 0))
    return found


def received(sockets, quiet):
    """Datagrams by socket, until none arrives for `quiet` seconds."""
    found = {of: [] for of in sockets}
    while readable := select.select(sockets, [], [], quiet)[0]:
        for of in readable:
            found[of].append(of.recv(65_536))
    return [found[of] for of in sockets]


def outcomes(exporter, run, truth, row, exports, names):
    """A line of runs.csv for packets and for bytes."""
    for what, true, name in zip(("packets", "bytes"), truth, names):
        low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
        covers = (low is None or low <= true) and (high is None or true <= high)
        yield {"exporter": exporter, "run": run, "total": what, "true": true, "estimate": row[name], "low": low, "high": high,
               "covers": int(covers), "assumed_rates": exports["assumed_rates"], "lost": exports["loss"]}


class Switch:
    """Bridges of Open vSwitch that forward from a port to another, each with an sFlow agent."""

    def __init__(self, rate):
        self.run = tempfile.mkdtemp()
        self.environment = os.environ | {name: self.run for name in ("OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR")}
        sh("ip link set lo up")
        database = f"unix:{self.run}/db.sock"
        quiet = ("-vconsole:off", "--detach", "--no-chdir")
        self.call("ovsdb-tool", "create", f"{self.run}/conf.db", SCHEMA)
        self.call("ovsdb-server", f"{self.run}/conf.db", f"--remote=p{database}", f"--pidfile={self.run}/db.pid", f"--unixctl={self.run}/db.ctl", *quiet)
        self.vsctl("--no-wait init")
        self.call("ovs-vswitchd", database, f"--pidfile={self.run}/switch.pid", f"--unixctl={self.run}/switch.ctl", *quiet)
        self.sockets, self.senders = [receiver() for _ in range(BRIDGES)], []
        for n, to in enumerate(self.sockets):
            self.vsctl(f"add-br br{n} -- set bridge br{n} datapath_type=netdev fail_mode=secure other_config:disable-in-band=true")
            for end in ("a", "b"):
                sh(f"ip link add {end}{n} type veth peer name {end}p{n}")
                for name in (f"{end}{n}", f"{end}p{n}"):
                    sh(f"ip link set {name} addrgenmode none")
                    sh(f"ip link set {name} up")
                self.vsctl(f"add-port br{n} {end}p{n}")
            self.ofctl("add-flow", n, f"in_port=ap{n},actions=output:bp{n}")
            target = f"127.0.0.1:{to.getsockname()[1]}"
            self.vsctl(f'-- --id=@x create sflow agent=lo targets="{target}" header=128 sampling={rate} polling=0 -- set bridge br{n} sflow=@x')
            sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
            sender.bind((f"a{n}", 0))
            self.senders.append(sender)
        time.sleep(1)

    def call(self, *words):
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=PATIENCE)
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def vsctl(self, text):
        return self.call("ovs-vsctl", f"--db=unix:{self.run}/db.sock", f"--timeout={PATIENCE}", *text.split())

    def ofctl(self, verb, bridge, *words):
        return self.call("ovs-ofctl", "-O", "OpenFlow13", verb, f"unix:{self.run}/br{bridge}.mgmt", *words)

    def measure(self, traffic):
        """Sends frames through the bridges; returns what each forwarded, and its datagrams."""
        before = interfaces()
        for at in range(max(map(len, traffic))):
            for sender, packets in zip(self.senders, traffic):
                if at < len(packets):
                    sender.send(packets[at])
            if at % 20 == 0:
                time.sleep(0.002)
        # An agent sends pending samples once per second.
        datagrams = received(self.sockets, 1.5)
        after = interfaces()
        # Sent packets and bytes of the port that they leave by.
        counts = [[now - then for now, then in zip(after[port][1:], before[port][1:])] for port in (f"bp{n}" for n in range(BRIDGES))]
        return list(zip(counts, datagrams))


def open_vswitch(program, runs, folder):
    switch, rng = Switch(50), random.Random(1)
    for first in range(0, runs, BRIDGES):
        traffic = [frames(rng, 200, rng.randrange(4000, 8000)) for _ in range(BRIDGES)]
        for n, (truth, datagrams) in enumerate(switch.measure(traffic)):
            row, exports = answer(program, SFLOW, datagrams, folder)
            yield from outcomes("Open vSwitch, sFlow 1:50", first + n, truth, row, exports, ("count", "sum_bytes"))


def probe(exporter, command, program, runs, folder, seed):
    """Runs a probe over a file per run, several at once. `command`: its words, of a folder with the capture, and a port."""
    rng = random.Random(seed)
    for first in range(0, runs, PROBES):
        sinks, processes, truths = [receiver() for _ in range(PROBES)], [], []
        for n, sink in enumerate(sinks):
            own = Path(folder, str(n))
            own.mkdir(exist_ok=True)
            packets = frames(rng, 600, rng.randrange(8000, 16_000))
            truths.append((len(packets), sum(len(packet) - 14 for packet in packets)))
            write_pcap(own / "traffic.pcap", 1, packets, 5)
            words = command(own, sink.getsockname()[1])
            processes.append(subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        datagrams = [[] for _ in sinks]
        is_running = True
        while is_running:
            # Read once more after the end of the last one.
            is_running = any(process.poll() is None for process in processes)
            for found, more in zip(datagrams, received(sinks, 0.3)):
                found += more
        for n, truth in enumerate(truths[:runs - first]):
            sinks[n].close()
            row, exports = answer(program, FLOWS, datagrams[n], folder)
            yield from outcomes(exporter, first + n, truth, row, exports, ("sum_client_packets", "sum_client_bytes"))


def softflowd(version):
    def command(folder, port):
        files = ("-r", f"{folder}/traffic.pcap", "-p", f"{folder}/pid", "-c", "none")
        return ["softflowd", "-d", *files, "-n", f"127.0.0.1:{port}", "-v", str(version), "-s", "20"]
    return command


def pmacctd(folder, port):
    settings = {"plugins": "nfprobe", "pcap_savefile": f"{folder}/traffic.pcap", "nfprobe_receiver": f"127.0.0.1:{port}", "nfprobe_version": 10,
                "sampling_rate": 20, "aggregate": "src_host,dst_host,src_port,dst_port,proto,tos", "daemonize": "false"}
    Path(f"{folder}/pmacctd.conf").write_text("".join(f"{name}: {value}\n" for name, value in settings.items()))
    return ["pmacctd", "-f", f"{folder}/pmacctd.conf"]


def report(lines, path, runs):
    """Shares of runs whose interval contains the total, by exporter."""
    table = {}
    for line in lines:
        table.setdefault((line["exporter"], line["total"]), []).append(line)
    with open(path, "w") as out:
        out.write("# Coverage of intervals over real exporters\n\n")
        out.write(f"Measured {datetime.datetime.now():%Y-%m-%d %H:%M}, load average {os.getloadavg()[0]:.1f}. {runs} runs for each exporter, with traffic of their own. "
                  "Repeat: `bench/coverage_exporters.py --netalytics PROGRAM`.\n\n")
        out.write("| exporter | total | inside the 95 % interval | inside a closed interval | mean half width, % | mean error, % |\n| --- | --- | --- | --- | --- | --- |\n")
        for (exporter, total), rows in table.items():
            closed = [row for row in rows if None not in (row["low"], row["high"])]
            width = sum((row["high"] - row["low"]) / 2 / row["true"] for row in closed) / max(len(closed), 1)
            error = sum(abs(row["estimate"] - row["true"]) / row["true"] for row in rows) / len(rows)
            covered, inside = (sum(row["covers"] for row in of) for of in (rows, closed))
            out.write(f"| {exporter} | {total} | {covered} of {len(rows)} ({covered / len(rows):.1%}) | {inside} of {len(closed)} | {width:.1%} | {error:.1%} |\n".replace("%", " %"))
        out.write("\nAn open upper end (few samples, or a few large flows) contains every larger total. softflowd takes every 20th packet: its "
                  "number of packets is exact. Open vSwitch samples at random.\n")


def measure(asked):
    exporters = []
    if which("ovs-vswitchd"):
        exporters.append(lambda folder: open_vswitch(asked.netalytics, asked.runs, folder))
    if which("softflowd"):
        for version, name in ((9, "NetFlow 9"), (10, "IPFIX")):
            exporters.append(lambda folder, version=version, name=name: probe(f"softflowd, {name} 1:20", softflowd(version), asked.netalytics, asked.runs, folder, version))
    if which("pmacctd"):
        exporters.append(lambda folder: probe("pmacctd, IPFIX 1:20", pmacctd, asked.netalytics, asked.runs, folder, 7))
    os.makedirs(asked.o, exist_ok=True)
    lines = []
    with tempfile.TemporaryDirectory() as folder, open(f"{asked.o}/runs.csv", "w", newline="") as out:
        for exporter in exporters:
            for line in exporter(folder):
                if not lines:
                    writer = csv.DictWriter(out, line)
                    writer.writeheader()
                lines.append(line)
                writer.writerow(line)
                out.flush()
    report(lines, f"{asked.o}/README.md", asked.runs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--netalytics", required=True)
    parser.add_argument("-o", default=f"{os.path.dirname(os.path.abspath(__file__))}/runs/{datetime.date.today()}-coverage-exporters")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--inner", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    asked.netalytics = os.path.abspath(asked.netalytics)
    if not asked.inner:
        # Interfaces, switches, and probes are in namespaces, which end with this process.
        code, said = isolate([sys.executable, os.path.abspath(__file__), "--inner", *sys.argv[1:]])
        print(said, end="")
        return code
    end_with_input()
    sh("ip link set lo up")
    measure(asked)
    return 0


if __name__ == "__main__":
    sys.exit(main())
