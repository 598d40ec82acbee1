#!/usr/bin/env python3
"""netalytics beside tshark on the same captures, one core, in one run.

    bench/compare.py CAPTURE_DIR [--runs 5] [--cpu 1] [--out bench/runs/DATE]

CAPTURE_DIR holds http_web.pcap, mysql_text.pcap, mc_ascii.pcap and others (see README.md in this folder). Every command runs pinned
to one CPU with its input in the page cache and its output to a file; figures are medians of user + system seconds of the
whole process. Rates are wire bits, packets or transactions by those seconds. Quote the ratios: they were taken in turn on
the same machine; the absolute rates are this machine's on that day.
"""
import argparse, json, os, platform, resource, statistics, subprocess, sys, time

NETALYTICS = "target/release/netalytics"
HTTP_TIMES = ["-Y", "http", "-T", "fields", "-e", "http.request.method", "-e", "http.request.full_uri", "-e", "http.response.code", "-e", "http.time"]
MYSQL_QUERIES = ["-Y", "mysql", "-T", "fields", "-e", "mysql.command", "-e", "mysql.query", "-e", "mysql.error_code"]
# (capture, what is asked, our query, what tshark is asked that comes nearest to it)
JOBS = [
    ("http_web", "responses by status", "PARSE http PROCESS (group-count: group=status)", ["-q", "-z", "http,tree"]),
    ("http_web", "every request with its response time", "PARSE http", HTTP_TIMES),
    ("http_web", "response times by URL", "PARSE http PROCESS (diff-group: group=url)", HTTP_TIMES),
    ("http_api", "responses by status", "PARSE http PROCESS (group-count: group=status)", ["-q", "-z", "http,tree"]),
    ("http_api", "response times by template", "PARSE http PROCESS (diff-group: group=url_template)", HTTP_TIMES),
    ("mysql_text", "response times by statement", "PARSE mysql_query PROCESS (diff-group: group=fingerprint)", MYSQL_QUERIES),
    ("mysql_prep", "response times by statement", "PARSE mysql_query PROCESS (diff-group: group=fingerprint)", MYSQL_QUERIES),
    ("mc_ascii", "response times by command", "PARSE memcached PROCESS (diff-group: group=command)", ["-Y", "memcache", "-T", "fields", "-e", "memcache.command", "-e", "memcache.key", "-e", "memcache.response"]),
    ("mc_bin", "response times by command", "PARSE memcached PROCESS (diff-group: group=command)", ["-Y", "memcache", "-T", "fields", "-e", "memcache.opcode", "-e", "memcache.key"]),
    ("get256_10k", "response times by URL", "PARSE http_get PROCESS (diff-group: group=url)", None),
    ("tcp64_10k", "packets and bytes by source", "PARSE packet PROCESS (group-count-sum: group=src_ip)", None),
    ("tcp128_10k", "connection times", "PARSE tcp_conn_time PROCESS (diff)", None),
    ("tcp64_1m", "flow records, a million live", "PARSE flow PROCESS (count)", None),
]


def measure(command, runs, cpu, sink):
    """Median CPU seconds, wall seconds and peak MiB of a command pinned to one CPU."""
    rows = []
    for n in range(runs + 1):
        with open(sink, "wb") as out, open(sink + ".err", "wb") as err:
            begin = time.monotonic()
            child = subprocess.Popen(["taskset", "-c", str(cpu), *command], stdout=out, stderr=err, stdin=subprocess.DEVNULL)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            if child.returncode != 0:
                sys.exit(f"{command}: exit {child.returncode}\n" + open(sink + ".err").read())
            if n:  # the first run warms the page cache
                rows.append((usage.ru_utime + usage.ru_stime, time.monotonic() - begin, usage.ru_maxrss / 1024))
    return [statistics.median(column) for column in zip(*rows)]


def packets_and_bits(capture):
    """Packets and wire bits of a classic little-endian pcap, from its record headers."""
    import struct
    packets = octets = 0
    with open(capture, "rb") as f:
        f.read(24)
        while len(head := f.read(16)) == 16:
            _, _, kept, original = struct.unpack("<IIII", head)
            f.seek(kept, 1)
            packets, octets = packets + 1, octets + original
    return packets, octets * 8


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("captures")
    args.add_argument("--runs", type=int, default=5)
    args.add_argument("--peer-runs", type=int, default=1)
    args.add_argument("--cpu", type=int, default=os.cpu_count() - 1)
    args.add_argument("--out", default=time.strftime("bench/runs/%Y-%m-%d"))
    args = args.parse_args()
    os.makedirs(args.out, exist_ok=True)
    sink = os.path.join(args.captures, "out.tmp")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    version = subprocess.run(["tshark", "--version"], capture_output=True, text=True).stdout.split("\n")[0]
    results, table = [], []
    for name, job, query, peer in JOBS:
        capture = os.path.join(args.captures, name + ".pcap")
        if not os.path.exists(capture):
            print(f"{name}: no such capture, left out", file=sys.stderr)
            continue
        packets, bits = packets_and_bits(capture)
        summary = sink + ".json"
        ours = [NETALYTICS, "query", query, "-r", capture, "--format", "jsonl", "--summary-json", summary]
        cpu, wall, mib = measure(ours, args.runs, args.cpu, sink)
        tuples = json.load(open(summary)).get("tuples")
        row = dict(capture=name, job=job, query=query, packets=packets, wire_bits=bits, tuples=tuples,
                   cpu_s=cpu, wall_s=wall, peak_mib=mib, peers=[])
        if peer:
            p_cpu, p_wall, p_mib = measure(["tshark", "-n", "-r", capture, *peer], args.peer_runs, args.cpu, sink)
            row["peers"].append(dict(command=["tshark", *peer], cpu_s=p_cpu, wall_s=p_wall, peak_mib=p_mib, ratio=p_cpu / cpu))
        results.append(row)
        best = row["peers"][0]["ratio"] if peer else None
        table.append(f"| {name} | {job} | {packets / cpu / 1e6:.2f} | {bits / cpu / 1e9:.2f} | {(tuples or 0) / cpu / 1e6:.3f} | {cpu:.3f} | {mib:.0f} | {f'{best:.0f} ×' if best else '–'} |")
        print(table[-1], flush=True)
    machine = dict(cpu=next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if "model name" in l), platform.machine()),
                   cores=os.cpu_count(), kernel=platform.release(), commit=commit, peer=version)
    json.dump(dict(machine=machine, results=results), open(os.path.join(args.out, "results.json"), "w"), indent=1)
    with open(os.path.join(args.out, "README.md"), "w") as f:
        f.write(f"# {os.path.basename(args.out)}\n\nCommit {commit}; {machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}; {version}.\n"
                f"One core, medians of {args.runs} runs ({args.peer_runs} for tshark) after one warm-up; `bench/compare.py`.\n\n"
                "| capture | job | Mpackets/s | Gb/s | Mtuples/s | CPU s | peak MiB | tshark's CPU time by ours |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n" + "\n".join(table) + "\n")
    for leftover in (sink, sink + ".err", sink + ".json"):
        if os.path.exists(leftover):
            os.remove(leftover)


main()
