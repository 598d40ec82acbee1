#!/usr/bin/env python3
"""The site's clients. One requests any of a thousand pages at a moderate rate; after `--quiet` seconds another requests ten hot ones fast,
for `--hot` seconds; then the first continues for `--after`. The trace is synthetic, shaped like the paper's figure 16: the popularity of
hot pages drifts randomly, determined by the seed. Each request is a line of LOG: time sent, URL, status (0: no response), milliseconds,
server. Exits with 1 if a request failed or returned a wrong page.
"""

import argparse, http.client, math, random, threading, time, urllib.parse


def trace(args):
    """The time and page of each request, in seconds from the start."""
    chance = random.Random(args.seed)
    asked = []
    end = args.quiet + args.hot + args.after
    at = 0.0
    while (at := at + chance.expovariate(args.rate)) < end:
        asked.append((at, f"/page/{chance.randrange(1000)}"))
    # Popularity drifts: the logarithm of each page's weight is a random walk with a pull to 0.
    drift = [chance.gauss(0, 0.35) for _ in range(10)]
    at, step = float(args.quiet), 0
    while (at := at + chance.expovariate(args.hot_rate)) < args.quiet + args.hot:
        while step < at:
            step += 0.5
            drift = [0.9 * x + chance.gauss(0, 0.15) for x in drift]
        asked.append((at, f"/hot/{chance.choices(range(10), [math.exp(x) for x in drift])[0]}"))
    return sorted(asked)


class Client(threading.Thread):
    """Takes the next request, waits for its time, and sends it over a persistent connection."""

    def __init__(self, url, begun, asked, lock, log):
        super().__init__(daemon=True)
        self.host, self.begun, self.asked, self.lock, self.log = urllib.parse.urlsplit(url).netloc, begun, asked, lock, log
        self.failed = 0

    def run(self):
        connection = http.client.HTTPConnection(self.host, timeout=10)
        while True:
            with self.lock:
                at, path = next(self.asked, (None, None))
            if path is None:
                return
            time.sleep(max(0.0, self.begun + at - time.time()))
            sent, status, server = time.time(), 0, "-"
            try:
                connection.request("GET", path)
                answer = connection.getresponse()
                body = answer.read().decode()
                status, server = answer.status, answer.getheader("x-server", "-")
                good = status == 200 and body.startswith(path + "\n")
            except (OSError, http.client.HTTPException) as why:
                connection.close()
                good, server = False, repr(why)
            self.failed += not good
            line = f"{sent:.6f}\t{path}\t{status}\t{(time.time() - sent) * 1e3:.3f}\t{server}\n"
            # Text files are not thread-safe: lines may be lost.
            with self.lock:
                self.log.write(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("log")
    parser.add_argument("--quiet", type=float, default=10)
    parser.add_argument("--hot", type=float, default=30)
    parser.add_argument("--after", type=float, default=20)
    parser.add_argument("--rate", type=float, default=60, help="requests a second of the first client (%(default)s)")
    parser.add_argument("--hot-rate", type=float, default=300, help="of the second (%(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    asked, lock, begun = iter(trace(args)), threading.Lock(), time.time() + 0.1
    with open(args.log, "w") as log:
        clients = [Client(args.url, begun, asked, lock, log) for _ in range(8)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
    failed = sum(client.failed for client in clients)
    print(f"{failed} failed")
    raise SystemExit(failed > 0)


if __name__ == "__main__":
    main()
