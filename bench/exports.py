#!/usr/bin/env python3
"""Speed of export messages: CPU time per sFlow sample and IPFIX record, beside nfcapd on the same datagrams.

    bench/exports.py --netalytics PROGRAM [-o bench/runs/DATE-exports] [--rounds 5]

Files are read by one worker. Over loopback, netalytics and nfcapd each receive the same IPFIX datagrams, which are sent
at a steady rate. nfcapd stores records only; the same job, the ten receivers with the most bytes, takes nfdump in addition.
Writes results.json and README.md, which has the largest loss of a round."""
import argparse, datetime, json, os, resource, shutil, signal, socket, statistics, struct, subprocess, sys, tempfile, time

NOW = 1_700_000_000
SAMPLES_PER_DATAGRAM, RECORDS_PER_DATAGRAM = 7, 24
DATAGRAMS = 40_000
RATE = 8_000  # datagrams a second over loopback
QUERY = "PARSE {} PROCESS (count-sum: value={})"
RANKING = "PARSE flow PROCESS (group-sum-top-k: k=10, value=client_bytes, group=server_ip)"


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
        records += struct.pack(">HHBH", 40_000 + number % 1000, 443, 6, 24) + words(3, 4, 1000, 10, NOW - 5, NOW - 1)
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
    """CPU seconds of a process that ends."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def summary_of(path):
    with open(path) as file:
        return json.load(file)


def read_file(program, path, parser, value, folder):
    summary = f"{folder}/summary.json"
    command = [program, "query", "-q", "-r", path, "--exports", QUERY.format(parser, value), "--summary-json", summary]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    cpu = waited(process)
    exports = summary_of(summary)["exports"]
    return cpu, exports["samples_read"] + exports["flow_records_read"]


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def send(datagrams, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect(("127.0.0.1", port))
        started = time.monotonic()
        for n, datagram in enumerate(datagrams):
            if n % 50 == 0:
                time.sleep(max(0, started + n / RATE - time.monotonic()))
            sender.send(datagram)


def listen(program, datagrams, folder, query):
    port, summary = free_port(), f"{folder}/live.json"
    command = [program, "query", "-q", query, "--listen", f"ipfix://127.0.0.1:{port}", "--summary-json", summary]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    time.sleep(1)
    send(datagrams, port)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    return waited(process), summary_of(summary)["exports"]["flow_records_read"]


def nfcapd(datagrams, folder):
    port, flows = free_port(), f"{folder}/flows"
    shutil.rmtree(flows, ignore_errors=True)
    os.mkdir(flows)
    process = subprocess.Popen(["nfcapd", "-b", "127.0.0.1", "-p", str(port), "-w", flows, "-B", str(32 << 20)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(1)
    send(datagrams, port)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    cpu = waited(process)
    ranking = subprocess.Popen(["nfdump", "-R", flows, "-q", "-s", "dstip/bytes", "-n", "10"], stdout=subprocess.DEVNULL)
    ranked_cpu = cpu + waited(ranking)
    counted = subprocess.run(["nfdump", "-R", flows, "-I"], capture_output=True, text=True).stdout
    records = next((int(line.split()[1]) for line in counted.splitlines() if line.startswith("Flows:")), 0)
    return (cpu, records), (ranked_cpu, records)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--netalytics", required=True)
    parser.add_argument("-o", default=f"{os.path.dirname(os.path.abspath(__file__))}/runs/{datetime.date.today()}-exports")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    samples = [sflow(n) for n in range(DATAGRAMS)]
    records = [ipfix(n) for n in range(DATAGRAMS)]
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        pcap(f"{folder}/sflow.pcap", samples, 6343)
        pcap(f"{folder}/ipfix.pcap", records, 4739)
        read_file(asked.netalytics, f"{folder}/sflow.pcap", "packet", "packet_bytes", folder)
        for _ in range(asked.rounds):
            measured = {
                "sflow file": read_file(asked.netalytics, f"{folder}/sflow.pcap", "packet", "packet_bytes", folder),
                "ipfix file": read_file(asked.netalytics, f"{folder}/ipfix.pcap", "flow", "client_bytes", folder),
                "ipfix received": listen(asked.netalytics, records, folder, QUERY.format("flow", "client_bytes")),
                "ipfix received, ranking": listen(asked.netalytics, records, folder, RANKING),
            }
            if shutil.which("nfcapd"):
                measured["nfcapd received"], measured["nfcapd, nfdump ranking"] = nfcapd(records, folder)
            rounds.append(measured)
            print(measured, file=sys.stderr)
    sent = {"sflow file": DATAGRAMS * SAMPLES_PER_DATAGRAM}
    rows, median = [], {}
    for name in rounds[0]:
        rates = [count / cpu / 1e6 for cpu, count in (one[name] for one in rounds)]
        whole = sent.get(name, DATAGRAMS * RECORDS_PER_DATAGRAM)
        lost = max(whole - one[name][1] for one in rounds)
        median[name] = statistics.median(rates)
        rows.append(f"| {name} | {median[name]:.2f} | {min(rates):.2f}–{max(rates):.2f} | {lost} of {whole} |")
    ratio = ""
    if "nfcapd received" in median:
        stored = median["ipfix received"] / median["nfcapd received"]
        ranked = median["ipfix received, ranking"] / median["nfcapd, nfdump ranking"]
        ratio = (f"\nFor the same datagrams, netalytics handles {stored:.1f} times as many records per CPU second as nfcapd, which stores them, "
                 f"and {ranked:.1f} times as many as nfcapd and nfdump together for the ten receivers with the most bytes.\n")
    os.makedirs(asked.o, exist_ok=True)
    with open(f"{asked.o}/results.json", "w") as out:
        json.dump({"rounds": rounds, "load": os.getloadavg()}, out, indent=1)
    with open(f"{asked.o}/README.md", "w") as out:
        out.write("# Speed of export messages\n\n")
        out.write(f"Measured {datetime.datetime.now():%Y-%m-%d %H:%M}: {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} at the end; median of {asked.rounds} rounds. ")
        out.write("Million samples or records per CPU second (user and system) of the whole process, including its start.\n\n")
        out.write("| input | million per CPU second | range | largest loss of a round |\n| --- | --- | --- | --- |\n" + "\n".join(rows) + "\n" + ratio)
        out.write("\n`sflow file` and `ipfix file` are captures, read by one worker for a count and a sum. nfcapd writes its usual file. Repeat: `bench/exports.py --netalytics PROGRAM`.\n")


main()
