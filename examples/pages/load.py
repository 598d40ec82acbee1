"""Requests pages of the film shop from several clients, each with one connection per page. The seed determines the pages."""

import argparse
import random
import threading
import time
import urllib.error
import urllib.request

PAGES = ["/film?id={}", "/search?word=night", "/search?word=garden", "/customer?id={}", "/popular", "/overdue?store=1", "/overdue-bug?store=1"]


def client(url, asked, think):
    for path in asked:
        try:
            with urllib.request.urlopen(url + path, timeout=30) as answer:
                answer.read()
        except urllib.error.HTTPError:
            pass
        time.sleep(think)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--requests", type=int, default=1000, help="how many (%(default)s)")
    parser.add_argument("--clients", type=int, default=2, help="concurrent clients (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="determines the requested pages (%(default)s)")
    parser.add_argument("--think", type=float, default=0.005, help="pause of a client between requests, in seconds (%(default)s)")
    args = parser.parse_args()
    chance = random.Random(args.seed)
    asked = [chance.choice(PAGES).format(chance.randint(1, 500)) for _ in range(args.requests)]
    threads = [threading.Thread(target=client, args=(args.url, asked[n :: args.clients], args.think)) for n in range(args.clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
