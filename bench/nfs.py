#!/usr/bin/env python3
"""NFS: how fast, by how many cores, in how much memory, and what is found when packets are missing.

    bench/nfs.py --captures DIR [-o bench/runs/DATE-nfs]

Wants the captures nfs_64k, nfs_1byte and nfs_chronicle (bench/run.py makes them) and, as far as they can be had, tshark,
nfstrace and Packetbeat (bench/peers.sh). Writes nfs.json and README.md; bench/plots.py draws docs/plots/nfs-*.svg."""
import argparse, bisect, collections, json, os, random, shutil, statistics, struct, subprocess, sys, tempfile, threading, time
import run
from jobs import peer
from run import HERE, machine, medians, say

CAPTURES = ["nfs_64k", "nfs_chronicle", "nfs_1byte"]
# What is asked; {} stands for a folder to write to.
JOBS = {
    "recording": ["record", "PARSE nfs", "-o", "{}/recording"],
    "one Parquet file": ["query", "PARSE nfs", "--format", "parquet", "-o", "{}/out.parquet"],
    "JSON lines": ["query", "PARSE nfs", "--format", "jsonl", "-o", "{}/out.json"],
    "recording without check-sums": ["record", "PARSE nfs", "--checksums", "off", "-o", "{}/recording"],
    "workload profile": ["query", "PARSE nfs PROCESS (workload-profile)", "-o", "{}/out.txt"],
    "response times by procedure": ["query", "PARSE nfs PROCESS (diff-group: group=procedure)", "-o", "{}/out.txt"],
}
PEERS = ["tshark rpc srt", "nfstrace breakdown", "packetbeat nfs"]
BARS = {("nfs_64k", "recording"): ("gbps", 20), ("nfs_64k", "one Parquet file"): ("gbps", 20), ("nfs_1byte", "recording"): ("mops", 1), ("nfs_1byte", "one Parquet file"): ("mops", 1)}
RATES = {"nfs_64k": [0.5, 1, 2, 4, 8], "nfs_1byte": [0.05, 0.1, 0.2, 0.4, 0.8]}  # Gb/s; million operations a second
DROPS = [0, 0.5, 1, 2, 3, 5]
LOSS_PACKETS, LOSS_GBPS = 400_000, 4  # so many packets, at this rate: the captures are of 66 and 100 Gb/s, which no link has
TCP, IPV4 = 6, 0x0800


class Bench:
    def __init__(self, args):
        self.args, self.work, self.cpu = args, tempfile.mkdtemp(prefix="netalytics-nfs-"), str(os.cpu_count() - 1)
        self.facts = {name: json.load(open(self.capture(name) + ".json")) for name in CAPTURES}

    def capture(self, name):
        return f"{self.args.captures}/{name}.pcap"

    def ours(self, job, capture, *flags):
        """Runs into an empty folder each time."""
        shutil.rmtree(f"{self.work}/recording", ignore_errors=True)
        words = [word.format(self.work) for word in JOBS[job]]
        return [self.args.netalytics, *words[:2], "-r", capture, *words[2:], "--summary-json", f"{self.work}/summary", *flags]

    def rates(self, name, found):
        facts = self.facts[name]
        return found | dict(gbps=facts["wire_bytes_no_fcs"] * 8e-9 / found["cpu_s"], mops=facts["calls"] * 1e-6 / found["cpu_s"])

    def speeds(self):
        for name in CAPTURES:
            forget(self.capture(name))
            for job in JOBS:
                yield from self.speed(name, job, self.capture(name), job)
            written = f"{self.work}/written.pcap"
            shutil.copyfile(self.capture(name), written)
            yield from self.speed(name, "recording", written, "recording, file as its writer left it in memory")
            os.remove(written)
            for other in PEERS:
                command, _ = peer(other, self.capture(name), HERE, self.work)
                found = shutil.which(command[0]) and medians(command, 1, self.cpu, self.work)
                shutil.rmtree(f"{self.work}/data", ignore_errors=True)
                for left in os.listdir(self.work):
                    if left.startswith("packetbeat"):
                        os.remove(f"{self.work}/{left}")
                if found:
                    yield dict(capture=name, program=other) | self.rates(name, found)

    def speed(self, name, job, capture, title):
        found = medians(self.ours(job, capture), self.args.runs, self.cpu, self.work)
        if found:
            summary = json.load(open(f"{self.work}/summary"))
            yield dict(capture=name, program="ours", job=title, tuples=summary["tuples"], copied=summary["parsers"]) | self.rates(name, found)

    def cores(self):
        for name in CAPTURES:
            for job in ("recording", "response times by procedure"):
                for n in range(1, os.cpu_count() + 1):
                    cpus = ",".join(map(str, range(n))) if n > 1 else self.cpu
                    if found := medians(self.ours(job, self.capture(name), "--workers", str(n)), self.args.runs, cpus, self.work):
                        yield dict(capture=name, job=job, cores=n) | self.rates(name, found | dict(cpu_s=found["wall_s_min"]))

    def memory(self):
        """Resident MiB of a recording every half second, fed at a steady rate."""
        for name, rates in RATES.items():
            facts = self.facts[name]
            a_round = facts["wire_bytes_no_fcs"] * 8e-9 if name == "nfs_64k" else facts["calls"] * 1e-6
            for rate in rates:
                rounds = max(1, round(rate * self.args.seconds / a_round))
                yield dict(capture=name, rate=rate, unit="Gb/s" if name == "nfs_64k" else "M/s") | self.fed(name, rounds, rounds * a_round / rate)

    def fed(self, name, rounds, seconds):
        source = subprocess.Popen([f"{HERE}/target/release/repeat", str(rounds), self.capture(name)], stdout=subprocess.PIPE)
        command = self.ours("recording", "-")
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        size, points, began = os.path.getsize(self.capture(name)) * rounds, [], time.monotonic()

        def feed():
            sent = 0
            while piece := source.stdout.read(1 << 18):
                wait = began + seconds * sent / size - time.monotonic()
                if wait > 0:
                    time.sleep(wait)
                child.stdin.write(piece)
                sent += len(piece)
            child.stdin.close()

        feeder = threading.Thread(target=feed)
        feeder.start()
        while feeder.is_alive():
            feeder.join(0.5)
            status = open(f"/proc/{child.pid}/status").read()
            points.append([round(time.monotonic() - began, 2), *(round(int(l.split()[1]) / 1024, 1) for l in status.splitlines() if l.startswith("VmRSS"))])
        child.wait()
        source.wait()
        return dict(seconds=time.monotonic() - began, wanted_seconds=seconds, resident_mib=[p for p in points if len(p) == 2])

    def operations(self, capture):
        """By connection and xid; of an operation that is told of twice the fuller tuple."""
        out = f"{self.work}/operations"
        command = [self.args.netalytics, "query", "PARSE nfs", "--checksums", "off", "-q", "-r", capture, "--format", "jsonl", "-o", out, "--summary-json", f"{self.work}/summary"]
        subprocess.run(command, check=True)
        found = {}
        for row in map(json.loads, open(out)):
            key = row["client_ip"], row["client_port"], row["xid"]
            if key not in found or row["quality"] != "half":
                found[key] = row
        return found, json.load(open(f"{self.work}/summary"))["parsers"]

    def losses(self):
        for name in CAPTURES:
            facts = self.facts[name]
            slower = max(1, round(facts["wire_bytes_no_fcs"] * 8e-9 / facts["seconds"] / LOSS_GBPS))
            for percent in DROPS:
                damaged = f"{self.work}/damaged.pcap"
                gaps, dropped, packets = drop(self.capture(name), damaged, percent / 100, slower)
                found, counters = self.operations(damaged)
                if percent == 0:
                    truth = {key: row for key, row in found.items() if row["quality"] == "exact"}
                    messages, halves = Messages(truth), found.keys() - truth.keys()
                count = collections.Counter(judge(truth[key], found.get(key)) for key in truth)
                count["made up"] = sum(key not in truth and key not in halves for key in found)
                yield dict(capture=name, percent=percent, slower=slower, packets=packets, dropped=dropped, gaps=len(gaps), operations=len(truth), resyncs=counters["resyncs"],
                           skipped_bytes=counters["skipped_bytes"], **count, recovery=messages.recovery(gaps, found))
                os.remove(damaged)


def forget(path):
    """Takes a file out of the page cache: the run that warms it up brings it back as a reader would."""
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def drop(path, to, share, slower, seed=15):
    """Writes a copy of the first packets, so many times slower, without a random share of them; where TCP data are missing: (client, is
    it a call's side, time)."""
    source, chance, gaps, packets, dropped = bytearray(open(path, "rb").read()), random.Random(seed), [], 0, 0
    scale = 1 if source[:4] in (b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d") else 1000
    at, kept_from, first = 24, 0, None
    with open(to, "wb") as out:
        while at < len(source) and packets < LOSS_PACKETS:
            seconds, fraction, length = struct.unpack_from("<III", source, at)
            time_ns = seconds * 10**9 + fraction * scale
            first = time_ns if first is None else first
            time_ns = first + (time_ns - first) * slower
            struct.pack_into("<II", source, at, time_ns // 10**9, time_ns % 10**9 // scale)
            packets += 1
            if chance.random() < share:
                dropped += 1
                out.write(source[kept_from:at])
                kept_from = at + 16 + length
                frame = at + 16
                if struct.unpack_from(">H", source, frame + 12)[0] == IPV4 and source[frame + 23] == TCP:
                    ip = frame + 14
                    tcp = ip + 4 * (source[ip] & 15)
                    src, dst = struct.unpack_from(">HH", source, tcp)
                    if struct.unpack_from(">H", source, ip + 2)[0] > tcp - ip + 4 * (source[tcp + 12] >> 4):
                        end = ip + (12 if dst == 2049 else 16)
                        client = ".".join(map(str, source[end:end + 4])), src if dst == 2049 else dst
                        gaps.append((client, dst == 2049, time_ns))
            at += 16 + length
        out.write(source[kept_from:at])
    return gaps, dropped, packets


def judge(true, found):
    """What became of an operation."""
    if found is None:
        return "lost"
    if any(found[field] != true[field] for field in ("procedure", "status", "offset", "count", "result_count", "request_bytes", "response_bytes") if found[field] is not None):
        return "wrong"
    if found["quality"] == "half":
        return "half"
    return "exact" if found["quality"] == "exact" else "marked"


class Messages:
    """Calls and replies of every connection in the order in which they begin."""

    def __init__(self, truth):
        self.lists = collections.defaultdict(list)
        for key, row in truth.items():
            end = row["ts"] + row["call_time_ns"]
            reply = end + row["response_time_ns"]
            self.lists[key[:2], True].append((row["ts"], end, key))
            self.lists[key[:2], False].append((reply, reply + row["transfer_time_ns"], key))
        for messages in self.lists.values():
            messages.sort()

    def recovery(self, gaps, found):
        """From missing data to the end of the next message of that direction that was found whole or by its lengths: time, beside
        the time to the end of the next message that there was, and how many were passed over."""
        times, least, passed = [], [], []
        for client, is_call, at in gaps:
            messages = self.lists[client, is_call]
            first = bisect.bisect_right(messages, (at, float("inf")))
            length = "request_bytes" if is_call else "response_bytes"
            for n, (_, end, key) in enumerate(messages[first:]):
                if found.get(key, {}).get(length) is not None:
                    times.append(end - at)
                    least.append(messages[first][1] - at)
                    passed.append(n)
                    break
        shares = lambda list: {str(p): statistics.quantiles(list, n=1000, method="inclusive")[int(10 * p) - 1] for p in (50, 90, 99)} if len(list) > 1 else {}
        return dict(gaps=len(times), ns=shares(times), least_ns=shares(least), passed_over=collections.Counter(min(n, 5) for n in passed))


def verdict(row):
    unit, bar = BARS.get((row["capture"], row.get("job")), (None, None))
    return f"{bar}: {'met' if row[unit] >= bar else '**missed**'}" if bar else "–"


def markdown(title, r):
    m, r = r["machine"], collections.defaultdict(list, r)
    yield f"# {title}\n\nCommit {m['commit']}; {m['cpu']}, {m['cores']} cores, Linux {m['kernel']}, {m['rustc']}; load {m['load']:.1f} when it began. `bench/nfs.py`.\n"
    yield f"## One core\n\nUser and system time of the whole process, medians of {m['runs']} runs (others: one) after one that warms the page cache.\n"
    yield "| capture | what | Gb/s | M operations/s | at least | CPU s | peak MiB | bytes copied | × the CPU time of recording | of response times |\n|" + " --- |" * 10
    for row in r["speeds"]:
        ours = {o["job"]: o["cpu_s"] for o in r["speeds"] if o["capture"] == row["capture"] and "job" in o}
        copied = f"{row['copied']['copied_bytes'] / max(row['copied']['parsed_bytes'], 1):.2%}" if "copied" in row else "–"
        ratios = " | ".join("–" if row["program"] == "ours" else f"{row['cpu_s'] / ours[job]:.1f}" for job in ("recording", "response times by procedure"))
        yield f"| {row['capture']} | {row.get('job', row['program'])} | {row['gbps']:.2f} | {row['mops']:.3f} | {verdict(row)} | {row['cpu_s']:.3f} | {row['mib']:.0f} | {copied} | {ratios} |"
    yield "\n## By cores\n\nWall time, the shortest of the runs, as many workers as cores.\n\n| capture | what | cores | Gb/s | M operations/s |\n| --- | --- | --- | --- | --- |"
    for row in r["cores"]:
        yield f"| {row['capture']} | {row['job']} | {row['cores']} | {row['gbps']:.2f} | {row['mops']:.3f} |"
    yield "\n## Memory by rate\n\nA recording fed through a pipe.\n\n| capture | rate | taken | resident MiB in the middle | at the end |\n| --- | --- | --- | --- | --- |"
    for row in r["memory"]:
        mib = [p[1] for p in row["resident_mib"]]
        yield f"| {row['capture']} | {row['rate']} {row['unit']} | {row['rate'] * row['wanted_seconds'] / row['seconds']:.2f} | {mib[len(mib) // 2]:.0f} | {mib[-1]:.0f} |"
    yield ("\n## When packets are missing\n\nShares of the operations, and milliseconds from missing data to the end of the next message of that direction that was found; in "
           "brackets to the end of the next that there was.\n")
    yield "| capture | % dropped | found exactly | found, marked | half | lost | wrong | recovery p50 | p99 | next message found at once |\n|" + " --- |" * 10
    for row in r["losses"]:
        share = lambda what: f"{100 * row.get(what, 0) / row['operations']:.2f} %"
        recovery = row["recovery"]
        ms = lambda p: f"{recovery['ns'][p] / 1e6:.3f} ({recovery['least_ns'][p] / 1e6:.3f})" if recovery["ns"] else "–"
        once = f"{100 * recovery['passed_over'].get('0', 0) / recovery['gaps']:.2f} %" if recovery["gaps"] else "–"
        yield f"| {row['capture']} | {row['percent']} | {share('exact')} | {share('marked')} | {share('half')} | {share('lost')} | {row.get('wrong', 0) + row['made up']} | {ms('50')} | {ms('99')} | {once} |"


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--captures", required=True, help="folder of the captures, as for run.py")
    args.add_argument("-o", default=os.path.join(HERE, "runs", time.strftime("%Y-%m-%d") + "-nfs"))
    args.add_argument("--runs", type=int, default=5)
    args.add_argument("--seconds", type=float, default=10, help="how long each rate is fed")
    args.add_argument("--parts", default="speeds,cores,memory,losses", help="measure these, and keep what was measured of the others")
    args.add_argument("--netalytics", help="the binary to measure (default: built here)")
    args = args.parse_args()
    if not args.netalytics:
        run.build()
        args.netalytics = os.path.join(run.ROOT, "target/release/netalytics")
    os.makedirs(args.o, exist_ok=True)
    path, bench = f"{args.o}/nfs.json", Bench(args)
    results = (json.load(open(path)) if os.path.exists(path) else {}) | dict(machine=machine(argparse.Namespace(runs=args.runs, quick=False)))
    for part in args.parts.split(","):
        say(part)
        results[part] = []
        for row in getattr(bench, part)():
            say(json.dumps(row)[:200])
            results[part].append(json.loads(json.dumps(row)))
        with open(path, "w") as f:
            json.dump(results, f, indent=1)
    with open(f"{args.o}/README.md", "w") as f:
        f.write("\n".join(markdown(os.path.basename(os.path.abspath(args.o)), results)) + "\n")
    shutil.rmtree(bench.work, ignore_errors=True)
    say("wrote", args.o)


if __name__ == "__main__":
    main()
