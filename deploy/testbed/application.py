"""An application server of the test bed: product pages from memcached, or on a miss from the database.

GET /product/ID answers JSON, or 404. Every request is a line of the log: start (seconds), path, status, microseconds until the response, source
(`cache`, `database`), number of requests to the cache and to the database.
"""

import argparse
import json
import re
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from backends import Cache, Database

# The database fits into memory: the time of a disk is simulated by sleeping.
PAGE = "SELECT p.name, p.price, COUNT(r.stars), AVG(r.stars), SLEEP(0.02) FROM product p LEFT JOIN review r ON r.product = p.id WHERE p.id = {} GROUP BY p.id"


class Shop:
    """Source of pages. `ask_cache` is `first`, or `never` in a misconfigured server."""

    def __init__(self, cache, database, ask_cache):
        self.cache, self.database, self.ask_cache = cache, database, ask_cache

    def page(self, product):
        """The page's text, or None; its source; number of requests to cache and database."""
        key = f"product:{product}"
        if self.ask_cache == "never":
            return self.from_database(product), "database", 0, 1
        # A connection per page, as in applications that keep nothing between requests.
        with Cache(*self.cache) as cache:
            found = cache.get(key)
            if found is not None:
                return found, "cache", 1, 0
            page = self.from_database(product)
            if page is None:
                return None, "database", 1, 1
            cache.set(key, page)
            return page, "database", 2, 1

    def from_database(self, product):
        with Database(*self.database, user="shop", schema="shop") as database:
            rows = database.query(PAGE.format(product))
        if not rows:
            return None
        name, price, reviews, stars, _ = rows[0]
        return json.dumps({"product": product, "name": name, "price": price, "reviews": int(reviews), "stars": stars}).encode()


class Handler(BaseHTTPRequestHandler):
    shop = log = None

    def do_GET(self):
        began, clock = time.time(), time.perf_counter()
        status, body, source, cached, queried = 404, None, "none", 0, 0
        product = self.path.removeprefix("/product/")
        if self.path.startswith("/product/") and re.fullmatch("[0-9]{1,9}", product):
            try:
                body, source, cached, queried = self.shop.page(int(product))
                status = 404 if body is None else 200
            except OSError as error:
                status, body = 503, f"{error}\n".encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")
        took = int((time.perf_counter() - clock) * 1e6)
        self.log.write(f"{began:.6f}\t{self.path}\t{status}\t{took}\t{source}\t{cached}\t{queried}\n")

    def log_message(self, *_):
        """Does nothing: the log has its own format."""


class Server(ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True


def address(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--listen", type=address, required=True)
    parser.add_argument("--database", type=address, required=True)
    parser.add_argument("--cache", type=address, required=True)
    parser.add_argument("--ask-cache", choices=["first", "never"], default="first")
    parser.add_argument("--log", required=True)
    args = parser.parse_args()
    Handler.shop = Shop(args.cache, args.database, args.ask_cache)
    Handler.log = open(args.log, "a", buffering=1)
    Server(args.listen, Handler).serve_forever()


if __name__ == "__main__":
    main()
