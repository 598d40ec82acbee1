#!/usr/bin/env python3
"""Wall time of one worker, of two, and of two processes with one worker each, on the same files: workers.py NETALYTICS FOLDER.

The folder has tcp64_10k, tcp64_1m, and get256_10k of the generator (bench/README.md), in the page cache. Medians of five rounds in turn."""

import statistics
import subprocess
import sys
import time

JOBS = [
    ("packets and bytes by source", "tcp64_10k", "PARSE packet PROCESS (group-count-sum: group=src_ip, value=packet_bytes)"),
    ("flow records, 10,000 flows", "tcp64_10k", "PARSE flow PROCESS (count)"),
    ("connection times", "tcp64_10k", "PARSE tcp_conn_time PROCESS (diff)"),
    ("flow records, 1,000,000 flows", "tcp64_1m", "PARSE flow PROCESS (count)"),
    ("GETs counted", "get256_10k", "PARSE http_get PROCESS (count)"),
    ("GETs by URL", "get256_10k", "PARSE http_get PROCESS (diff-group: group=url)"),
]
ROUNDS = 5


def seconds(program, capture, query, workers, processes):
    words = [program, "query", query, "-r", capture, "--workers", str(workers)]
    begun = time.monotonic()
    running = [subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(processes)]
    if any(process.wait() for process in running):
        sys.exit(f"failed: {words}")
    return time.monotonic() - begun


def main():
    program, folder = sys.argv[1:]
    print("| job | one worker | two workers | gain | two processes | share of two processes |\n|---|---|---|---|---|---|")
    for job, capture, query in JOBS:
        shapes = [(1, 1), (2, 1), (1, 2)]
        rounds = [[seconds(program, f"{folder}/{capture}.pcap", query, *shape) for shape in shapes] for _ in range(ROUNDS)]
        one, two, pair = (statistics.median(times) for times in zip(*rounds))
        print(f"| {job} | {one:.3f} s | {two:.3f} s | {one / two:.2f} | {pair:.3f} s, {2 * one / pair:.2f} | {pair / 2 / two:.2f} |", flush=True)


main()
