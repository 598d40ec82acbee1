#!/usr/bin/env python3
"""Rate of false differences reported by comparisons of unchanged traffic: bench/compare.py BINARY CAPTURE… [--pairs N] [-o FILE].

Each capture of a steady load is recorded; its middle nine tenths are split into equal periods, and each period is compared with the
previous one. At 95 % about one verdict in twenty may be "differs". Captures named my… or mc… contain MySQL or memcached, others
HTTP. bench/steady.py generates a steady load."""
import argparse, collections, datetime, json, os, subprocess, tempfile

QUERIES = {
    "http": "PARSE http {} PROCESS (diff-group: group=url_template), (group-sum-success-share: group=client_ip, value=response_bytes), (count-sum-avg-success: value=response_bytes)",
    "mysql_query": "PARSE mysql_query {} PROCESS (diff-group-top-k: group=fingerprint, k=20), (group-sum-success-share: group=client_ip, value=response_time), (count-sum-avg-success: value=response_time)",
    "memcached": "PARSE memcached {} PROCESS (diff-group: group=command), (group-sum-success-share: group=client_ip, value=response_time), (count-sum-avg-success: value=response_time)",
}


def lines(binary, *arguments):
    result = subprocess.run([binary, *arguments, "-q", "--format", "jsonl"], capture_output=True, text=True)
    if result.returncode:
        raise SystemExit(f"{arguments}: {result.stderr}")
    return [json.loads(line) for line in result.stdout.splitlines()]


def instant(ns):
    seconds, rest = divmod(ns, 10**9)
    return f"'{datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc):%Y-%m-%dT%H:%M:%S}.{rest:09}Z'"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("captures", nargs="+")
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("-o", "--output")
    arguments = parser.parse_args()
    table = {}
    with tempfile.TemporaryDirectory() as folder:
        for capture in arguments.captures:
            name = os.path.basename(capture).removesuffix(".pcap")
            parser_name = {"my": "mysql_query", "mc": "memcached"}.get(name[:2], "http")
            recording = os.path.join(folder, name)
            subprocess.run([arguments.binary, "record", f"PARSE {parser_name}", "-r", capture, "-o", recording, "-q", "--no-redact"], check=True)
            times = [row for row in lines(arguments.binary, "query", f"PARSE {parser_name} SELECT ts_end", "-r", recording)]
            times = sorted(row["ts_end"] for row in times)
            first, last = times[0], times[-1]
            first, last = first + (last - first) // 20, last - (last - first) // 20
            border = [first + (last - first) * i // (arguments.pairs + 1) for i in range(arguments.pairs + 2)]
            verdicts = collections.defaultdict(lambda: [0, 0, 0])
            for i in range(arguments.pairs):
                a, b, c = (instant(ns) for ns in border[i : i + 3])
                clauses = f"SINCE {b} UNTIL {c} BASELINE SINCE {a} UNTIL {b}"
                for row in lines(arguments.binary, "query", QUERIES[parser_name].format(clauses), "-r", recording):
                    for column, differs in row.items():
                        if column.startswith("differs_") and not column.startswith(("differs_min", "differs_max")):
                            place = {True: 0, False: 1, None: 2}[differs]
                            verdicts[column.removeprefix("differs_")][place] += 1
            table[name] = {measure: dict(zip(("differs", "same", "unjudged"), counts)) for measure, counts in verdicts.items()}
            yes = sum(v[0] for v in verdicts.values())
            judged = yes + sum(v[1] for v in verdicts.values())
            print(f"{name}: {yes} of {judged} differ, {100 * yes / max(judged, 1):.1f} %")
            for measure, (differs, same, unjudged) in verdicts.items():
                print(f"    {measure:24} {differs:5} of {differs + same:5}  {100 * differs / max(differs + same, 1):5.1f} %   {unjudged} unjudged")
    if arguments.output:
        with open(arguments.output, "w") as f:
            json.dump(table, f, indent=1)


main()
