#!/usr/bin/env python3
"""Coverage of the 95 % intervals of SAMPLE.

Computes exact values from all tuples of a capture; then runs one query over many samples of it, each with a different
--sample-seed. Prints for every aggregate and rate the number of runs whose interval contained the exact value, the number of
intervals closed at both ends, and their mean width; with --out, writes the same as JSON.

    python3 bench/coverage.py --capture get256_10k.pcap --out bench/runs/DATE/coverage.json
"""

import argparse
import json
import math
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

PROCESSORS = (
    "(count), (diff-sum), (diff-avg), (diff-quantile: q=0.5,0.99), (group-count-top-k: group={group}, k=10)"
)


def run(program, capture, query, seed=0):
    command = [program, "query", query, "-r", capture, "-q", "--format", "jsonl", "--workers", "1"]
    done = subprocess.run([*command, "--sample-seed", str(seed)], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def intervals(rows, group):
    """Each aggregate, its group, and its interval."""
    for row in rows:
        for name in row.keys() - {"rank"}:
            if name + "_low" in row:
                label = "top-k count" if group in row else name
                yield (label, row.get(group)), row[name + "_low"], row[name + "_high"]


def truth_of(tuples, group):
    """The exact aggregates, computed by sorting and adding."""
    times = sorted(t["response_time_ns"] for t in tuples if t["response_time_ns"] is not None)
    truth = {("count", None): len(tuples), ("sum_ns", None): sum(times), ("avg_ns", None): sum(times) / len(times)}
    for percent in (50, 99):
        truth[f"p{percent}_ns", None] = times[math.ceil(percent / 100 * len(times)) - 1]
    for key, count in Counter(t[group] for t in tuples).items():
        truth["top-k count", key] = count
    return truth


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--netalytics", default="target/release/netalytics")
    parser.add_argument("--capture", required=True)
    parser.add_argument("--parser", default="http_get")
    parser.add_argument("--group", default="url")
    parser.add_argument("--rates", default="0.01,0.1")
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()

    query = f"PARSE {args.parser} SAMPLE {{rate}} PROCESS {PROCESSORS.format(group=args.group)}"
    truth = truth_of(run(args.netalytics, args.capture, f"PARSE {args.parser}"), args.group)
    table = []
    for rate in args.rates.split(","):
        tally = defaultdict(lambda: [0, 0, 0, 0.0])
        for seed in range(1, args.seeds + 1):
            rows = run(args.netalytics, args.capture, query.format(rate=rate), seed)
            for which, low, high in intervals(rows, args.group):
                true, closed = truth[which], None not in (low, high)
                covers = (low is None or low <= true) and (high is None or true <= high)
                found = (1, covers, closed, (high - low) / true if closed else 0.0)
                tally[which[0]] = [a + b for a, b in zip(tally[which[0]], found)]
        for label, (n, hits, closed, width) in tally.items():
            table.append(
                {
                    "rate": float(rate),
                    "aggregate": label,
                    "intervals": n,
                    "covered": hits / n,
                    "closed": closed / n,
                    "relative_width": width / closed if closed else None,
                }
            )
    print(f"{'SAMPLE':>7}  {'aggregate':<12} {'intervals':>9} {'covered':>8} {'closed':>7} {'width':>7}")
    for row in table:
        width = "–" if row["relative_width"] is None else f"{row['relative_width']:.1%}"
        print(
            f"{row['rate']:>7}  {row['aggregate']:<12} {row['intervals']:>9} {row['covered']:>8.1%} "
            f"{row['closed']:>7.1%} {width:>7}"
        )
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        facts = {"capture": Path(args.capture).name, "query": query, "seeds": args.seeds, "table": table}
        args.out.write_text(json.dumps(facts, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
