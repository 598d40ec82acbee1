"""Requests pages of the test bed's shop with Zipf-distributed products, one at a time per client. The seed determines the pages, regardless of
speed. Prints the clients' results."""

import argparse
import http.client
import itertools
import random
import statistics
import threading
import time
from urllib.parse import urlsplit


def products(seed, keys, exponent, requests):
    """The product of each request."""
    chance = random.Random(seed)
    by_rank = list(range(1, keys + 1))
    chance.shuffle(by_rank)
    weights = list(itertools.accumulate(1 / rank**exponent for rank in range(1, keys + 1)))
    return chance.choices(by_rank, cum_weights=weights, k=requests)


def client(url, asked, think, seen):
    """Sends these requests one after the other on one connection."""
    at = urlsplit(url)
    connection = http.client.HTTPConnection(at.hostname, at.port, timeout=30)
    for product in asked:
        began = time.perf_counter()
        try:
            connection.request("GET", f"/product/{product}")
            response = connection.getresponse()
            response.read()
            status = response.status
        except OSError as error:
            connection.close()
            status = type(error).__name__
        seen.append((product, status, time.perf_counter() - began))
        time.sleep(think)
    connection.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--requests", type=int, default=400, help="how many (%(default)s)")
    parser.add_argument("--clients", type=int, default=4, help="concurrent clients (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="determines the requested pages (%(default)s)")
    parser.add_argument("--keys", type=int, default=60, help="number of requested products, at most 1000 (%(default)s)")
    parser.add_argument("--exponent", type=float, default=0.99, help="exponent of the Zipf distribution of products (%(default)s)")
    parser.add_argument("--think", type=float, default=0.03, help="pause of a client between requests, in seconds (%(default)s)")
    parser.add_argument("--log", help="a line for each request: product, status, microseconds")
    args = parser.parse_args()
    asked = products(args.seed, args.keys, args.exponent, args.requests)
    seen = [[] for _ in range(args.clients)]
    threads = [threading.Thread(target=client, args=(args.url, asked[n :: args.clients], args.think, seen[n])) for n in range(args.clients)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - began
    seen = [one for of_client in seen for one in of_client]
    if args.log:
        with open(args.log, "w") as log:
            log.writelines(f"{product}\t{status}\t{int(seconds * 1e6)}\n" for product, status, seconds in seen)
    ms = sorted(seconds * 1e3 for _, _, seconds in seen)
    good = sum(status == 200 for _, status, _ in seen)
    print(f"{len(seen)} requests in {took:.2f} s, {good} answered with 200; ms: mean {statistics.fmean(ms):.2f}, p50 {ms[len(ms) // 2]:.2f}, p99 {ms[len(ms) * 99 // 100]:.2f}, max {ms[-1]:.2f}")


if __name__ == "__main__":
    main()
