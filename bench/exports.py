#!/usr/bin/env python3
"""Speed of export messages: CPU time per sFlow sample and IPFIX record, beside nfcapd with nfdump and goflow2 on the same datagrams.

    bench/exports.py --netalytics PROGRAM [--goflow2 PROGRAM] [-o bench/runs/DATE-exports] [--rounds 5]

Files are read by one worker. Over loopback, each program receives the same datagrams, which are sent at a steady rate, and does equal work: the ten
senders with the most bytes (nfcapd stores the records and nfdump ranks them; the rows are compared), or storage of every record. goflow2 does neither:
it decodes and writes each record, to /dev/null. Writes results.json and README.md, which has the largest loss of a round."""
import argparse, datetime, json, os, shutil, signal, socket, statistics, struct, subprocess, sys, tempfile, time

NOW = 1_700_000_000
SAMPLES_PER_DATAGRAM, RECORDS_PER_DATAGRAM = 7, 24
DATAGRAMS = 200_000
SENT = 80_000  # of them over loopback
COUNT = "PARSE {} PROCESS (count-sum: value={})"
RANKING = "PARSE {} PROCESS (group-sum-top-k: k=10, value={}, group={})"
FLOW, PACKET = ("flow", "client_bytes"), ("packet", "packet_bytes")
# The fields of the template.
STORED = "SELECT client_ip, server_ip, client_port, server_port, transport, tcp_flags, input_interface, output_interface, client_bytes, client_packets, ts, duration_ns FROM flow"


def words(*numbers):
    return struct.pack(f">{len(numbers)}I", *numbers)


def sflow(n):
    """A datagram of samples with headers of 128 bytes, of frames of 1,400 bytes."""
    samples = b""
    for i in range(SAMPLES_PER_DATAGRAM):
        number = n * SAMPLES_PER_DATAGRAM + i
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 1386, 1, 0, 64, 6, 0) + bytes([10, 1, number >> 8 & 255, number & 255, 10, 2, 0, 1])
        tcp = struct.pack(">HHIIBBHHH", 40_000 + number % 1000, 443, 1, 1, 0x50, 0x18, 1000, 0, 0)
        header = (bytes([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]) + ip + tcp).ljust(128, b"\0")
        record = words(1, 1400, 4, len(header)) + header
        sample = words(number + 1, 3, 256, number * 256, 0, 3, 4, 1, 1, len(record)) + record
        samples += words(1, len(sample)) + sample
    return words(5, 1, 0x0A0000FE, 0, n + 1, 1000 + n, SAMPLES_PER_DATAGRAM) + samples


def ipfix(n):
    """A message of flow records of 41 bytes; the first one has their template."""
    template = [(8, 4), (12, 4), (7, 2), (11, 2), (4, 1), (6, 2), (10, 4), (14, 4), (1, 4), (2, 4), (150, 4), (151, 4)]
    body = b""
    if n % 1000 == 0:
        fields = b"".join(struct.pack(">HH", *field) for field in template)
        body = struct.pack(">HHHH", 2, 8 + len(fields), 300, len(template)) + fields
    records = b""
    for i in range(RECORDS_PER_DATAGRAM):
        number = n * RECORDS_PER_DATAGRAM + i
        records += bytes([10, 1, number >> 8 & 255, number & 255, 10, 2, 0, 1])
        records += struct.pack(">HHBH", 40_000 + number % 1000, 443, 6, 24) + words(3, 4, 1000 + number % 251, 10, NOW - 5, NOW - 1)
    body += struct.pack(">HH", 300, 4 + len(records)) + records
    return struct.pack(">HHIII", 10, 16 + len(body), NOW, n * RECORDS_PER_DATAGRAM & 0xFFFFFFFF, 7) + body


def pcap(path, datagrams, port):
    with open(path, "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 101))
        for n, datagram in enumerate(datagrams):
            udp = struct.pack(">HHHH", 50_000, port, 8 + len(datagram), 0) + datagram
            ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), n & 65535, 0, 64, 17, 0) + bytes([10, 0, 0, 254, 10, 9, 9, 9])
            # One second of traffic in all.
            out.write(struct.pack("<IIII", NOW, n * 999_999_999 // len(datagrams), len(ip) + len(udp), len(ip) + len(udp)) + ip + udp)


def waited(process):
    """CPU seconds of a process that ends, in user mode and in the kernel."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return [usage.ru_utime, usage.ru_stime]


def plus(a, b):
    return [x + y for x, y in zip(a, b)]


def exports_of(path):
    with open(path) as file:
        exports = json.load(file)["exports"]
    return exports["samples_read"] + exports["flow_records_read"]


def rows(path):
    """Addresses and bytes of a ranking."""
    with open(path) as file:
        found = [json.loads(line) for line in file]
    return [[next(row[name] for name in ("client_ip", "src_ip") if name in row), row["sum_bytes"]] for row in found]


def read_file(program, path, query, folder):
    summary, out = f"{folder}/summary.json", f"{folder}/rows"
    with open(out, "w") as file:
        command = [program, "query", "-q", "--workers", "1", "--format", "jsonl", "-r", path, "--exports", query, "--summary-json", summary]
        cpu = waited(subprocess.Popen(command, stdout=file))
    return cpu, exports_of(summary), rows(out) if "top-k" in query else None


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def send(datagrams, port, rate):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect(("127.0.0.1", port))
        started = time.monotonic()
        for n, datagram in enumerate(datagrams):
            if n % 20 == 0:
                time.sleep(max(0, started + n / rate - time.monotonic()))
            sender.send(datagram)


def received(command, port, datagrams, rate, out=os.devnull):
    """CPU seconds of a program that receives the datagrams."""
    with open(out, "w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.DEVNULL)
        time.sleep(1)
        send(datagrams, port, rate)
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        return waited(process)


def listen(program, scheme, datagrams, rate, query, folder):
    port, summary, out = free_port(), f"{folder}/live.json", f"{folder}/rows"
    command = [program, "query", "-q", "--format", "jsonl", query, "--listen", f"{scheme}://127.0.0.1:{port}", "--summary-json", summary]
    cpu = received(command, port, datagrams, rate, out)
    return cpu, exports_of(summary), rows(out) if "top-k" in query else None


def record(program, datagrams, rate, folder):
    port, summary, out = free_port(), f"{folder}/record.json", f"{folder}/recording"
    shutil.rmtree(out, ignore_errors=True)
    command = [program, "record", "-q", STORED, "--listen", f"ipfix://127.0.0.1:{port}", "-o", out, "--summary-json", summary]
    cpu = received(command, port, datagrams, rate)
    return cpu, exports_of(summary), size(out)


def size(folder):
    return sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(folder) for name in names)


def nfcapd(datagrams, rate, folder, flags):
    """Storage alone, and with the ranking."""
    port, flows = free_port(), f"{folder}/flows"
    shutil.rmtree(flows, ignore_errors=True)
    os.mkdir(flows)
    command = ["nfcapd", "-b", "127.0.0.1", "-p", str(port), "-w", flows, "-B", str(64 << 20), *flags]
    cpu = received(command, port, datagrams, rate)
    counted = subprocess.run(["nfdump", "-R", flows, "-I"], capture_output=True, text=True).stdout
    records = next((int(line.split()[1]) for line in counted.splitlines() if line.startswith("Flows:")), 0)
    with open(f"{folder}/ranking", "w") as file:
        ranking = waited(subprocess.Popen(["nfdump", "-R", flows, "-q", "-N", "-s", "srcip/bytes", "-n", "10", "-o", "csv"], stdout=file))
    with open(f"{folder}/ranking") as file:
        lines = [line.split(",") for line in file if line.count(",") > 8 and "10." in line]
    # Columns: first, last, duration, protocol, address, flows, share, packets, share, bytes.
    ranked = [[line[4], int(line[9])] for line in lines]
    return (cpu, records, size(flows)), (plus(cpu, ranking), records, ranked)


def goflow2(program, scheme, datagrams, rate, form):
    port, http = free_port(), free_port()
    command = [program, "-listen", f"{scheme}://127.0.0.1:{port}", "-format", form, "-transport.file", os.devnull, "-addr", f"127.0.0.1:{http}", "-loglevel", "error"]
    return received(command, port, datagrams, rate), None, None


def same(measured, names):
    """Whether rankings without losses agree. The order of equal sums is free."""
    rankings = [sorted(measured[name][2], key=lambda row: (-row[1], row[0])) for name in names if name in measured]
    return all([row[1] for row in ranking] == [row[1] for row in rankings[0]] for ranking in rankings)


def one_round(asked, samples, records, folder):
    program, rate = asked.netalytics, asked.rate
    few_samples, few_records = samples[:SENT], records[:SENT]
    file = lambda kind, query: read_file(program, f"{folder}/{kind}.pcap", query, folder)
    measured = {
        "sFlow file, count": file("sflow", COUNT.format(*PACKET)),
        "sFlow file, ranking": file("sflow", RANKING.format(*PACKET, "src_ip")),
        "IPFIX file, count": file("ipfix", COUNT.format(*FLOW)),
        "IPFIX file, ranking": file("ipfix", RANKING.format(*FLOW, "client_ip")),
        "sFlow received, count": listen(program, "sflow", few_samples, rate, COUNT.format(*PACKET), folder),
        "IPFIX received, count": listen(program, "ipfix", few_records, rate, COUNT.format(*FLOW), folder),
        "IPFIX received, ranking": listen(program, "ipfix", few_records, rate, RANKING.format(*FLOW, "client_ip"), folder),
        "IPFIX received, stored": record(program, few_records, rate, folder),
    }
    if shutil.which("nfcapd"):
        measured["nfcapd, stored"], measured["nfcapd and nfdump, ranking"] = nfcapd(few_records, rate, folder, [])
        measured["nfcapd, stored with LZ4"], _ = nfcapd(few_records, rate, folder, ["-y"])
    if asked.goflow2:
        for form in ("bin", "json"):
            measured[f"goflow2, IPFIX, {form}"] = goflow2(asked.goflow2, "netflow", few_records, rate, form)
            measured[f"goflow2, sFlow, {form}"] = goflow2(asked.goflow2, "sflow", few_samples, rate, form)
    return measured


def whole(name):
    datagrams = DATAGRAMS if "file" in name else SENT
    return datagrams * (SAMPLES_PER_DATAGRAM if "sFlow" in name else RECORDS_PER_DATAGRAM)


def report(rounds, asked):
    lines, median = [], {}
    for name in rounds[0]:
        took = [one[name] for one in rounds]
        # goflow2 does not report how many records it decodes.
        rates = [(count or whole(name)) / sum(cpu) / 1e6 for cpu, count, _ in took]
        kernel = statistics.median(cpu[1] / sum(cpu) for cpu, _, _ in took)
        median[name] = statistics.median(rates)
        lost = "not reported" if took[0][1] is None else f"{max(whole(name) - count for _, count, _ in took)} of {whole(name)}"
        stored = f"{statistics.median(more for _, _, more in took) / whole(name):.1f}" if "stored" in name else ""
        lines.append(f"| {name} | {median[name]:.2f} | {min(rates):.2f}–{max(rates):.2f} | {100 * kernel:.0f} | {stored} | {lost} |")
    pairs = [("IPFIX received, ranking", "nfcapd and nfdump, ranking"), ("IPFIX received, stored", "nfcapd, stored"), ("IPFIX received, count", "nfcapd, stored"),
             ("IPFIX received, count", "goflow2, IPFIX, bin"), ("IPFIX received, count", "goflow2, IPFIX, json"),
             ("sFlow received, count", "goflow2, sFlow, bin"), ("sFlow received, count", "goflow2, sFlow, json")]
    ratios = [f"| {ours} | {theirs} | {median[ours] / median[theirs]:.1f} |" for ours, theirs in pairs if theirs in median]
    rankings = ("IPFIX received, ranking", "nfcapd and nfdump, ranking")
    is_equal = all(same(one, rankings) for one in rounds if all(one[name][1] == whole(name) for name in rankings if name in one))
    return (f"Measured {datetime.datetime.now():%Y-%m-%d %H:%M}: {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} at the end; median of {asked.rounds} rounds. "
            f"Million samples or records per CPU second (user and kernel) of the whole process, including its start. Received datagrams were sent at {asked.rate:,} per second.\n\n"
            "| input | million per CPU second | range | kernel, % of the time | bytes stored per record | largest loss of a round |\n| --- | --- | --- | --- | --- | --- |\n"
            + "\n".join(lines) + "\n\n| netalytics | beside | times as many per CPU second |\n| --- | --- | --- |\n" + "\n".join(ratios)
            + f"\n\nRankings without losses have {'the same' if is_equal else 'DIFFERENT'} sums.\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--netalytics", required=True)
    parser.add_argument("--goflow2")
    parser.add_argument("-o", default=f"{os.path.dirname(os.path.abspath(__file__))}/runs/{datetime.date.today()}-exports")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rate", type=int, default=10_000, help="datagrams per second over loopback")
    asked = parser.parse_args()
    samples = [sflow(n) for n in range(DATAGRAMS)]
    records = [ipfix(n) for n in range(DATAGRAMS)]
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        pcap(f"{folder}/sflow.pcap", samples, 6343)
        pcap(f"{folder}/ipfix.pcap", records, 4739)
        read_file(asked.netalytics, f"{folder}/sflow.pcap", COUNT.format(*PACKET), folder)
        for _ in range(asked.rounds):
            rounds.append(one_round(asked, samples, records, folder))
            print({name: (sum(cpu), count) for name, (cpu, count, _) in rounds[-1].items()}, file=sys.stderr)
    os.makedirs(asked.o, exist_ok=True)
    with open(f"{asked.o}/results.json", "w") as out:
        json.dump({"rounds": rounds, "load": os.getloadavg()}, out, indent=1)
    with open(f"{asked.o}/README.md", "w") as out:
        out.write("# Speed of export messages\n\n" + report(rounds, asked) + "\nRepeat: `bench/exports.py --netalytics PROGRAM --goflow2 PROGRAM`.\n")


main()
