"""Pages of a film rental shop, generated from its database. /overdue-bug is /overdue with a misspelled field name: it sends no statement and quickly
returns an empty list.

Every request is a line of the log: path, status, microseconds, statements sent.
"""

import argparse
import json
import pathlib
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "deploy/testbed"))
from backends import Database  # noqa: E402

FILM = "SELECT title, price FROM film WHERE film_id = {}"
CAST = "SELECT name FROM actor JOIN film_actor USING (actor_id) WHERE film_id = {}"
SEARCH = "SELECT film_id, title FROM film WHERE title LIKE '%{}%' ORDER BY title LIMIT 20"
HISTORY = "SELECT title, rented, returned FROM rental JOIN inventory USING (inventory_id) JOIN film USING (film_id) WHERE customer_id = {} ORDER BY rented DESC"
POPULAR = "SELECT title, COUNT(*) AS times FROM rental JOIN inventory USING (inventory_id) JOIN film USING (film_id) GROUP BY film_id ORDER BY times DESC, film_id LIMIT 10"
OVERDUE = (
    "SELECT name, phone, title, (SELECT COUNT(*) FROM rental AS every WHERE every.customer_id = customer.customer_id) AS rentals FROM rental JOIN customer USING (customer_id) JOIN inventory USING (inventory_id) JOIN film USING (film_id) "
    "WHERE returned IS NULL AND rented + INTERVAL days DAY < '2026-06-30' AND store = {} ORDER BY title"
)
WORDS = {"garden", "night", "road"}


def number(form, name, most):
    """The number with this name in the form, or None."""
    text = form.get(name, [""])[0]
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 and 0 < int(text) <= most else None


def film(ask, form):
    which = number(form, "id", 1000)
    return which and {"film": ask(FILM.format(which)), "cast": ask(CAST.format(which))}


def search(ask, form):
    word = form.get("word", [""])[0]
    return {"films": ask(SEARCH.format(word))} if word in WORDS else None


def customer(ask, form):
    which = number(form, "id", 599)
    return which and {"rentals": ask(HISTORY.format(which))}


def popular(ask, _):
    return {"films": ask(POPULAR)}


def overdue(ask, form):
    store = number(form, "store", 2)
    return {"overdue": ask(OVERDUE.format(store)) if store else []}


def overdue_bug(ask, form):
    store = number(form, "stroe", 2)
    return {"overdue": ask(OVERDUE.format(store)) if store else []}


PAGES = {"/film": film, "/search": search, "/customer": customer, "/popular": popular, "/overdue": overdue, "/overdue-bug": overdue_bug}


class Handler(BaseHTTPRequestHandler):
    database = log = None
    pages = PAGES

    def do_GET(self):
        began, asked, page = time.perf_counter(), urlsplit(self.path), None
        statements = 0
        make = self.pages.get(asked.path)
        if make:
            # A connection per page, as in PHP.
            with Database(*self.database, user="rental", schema="rental") as database:

                def ask(statement):
                    nonlocal statements
                    statements += 1
                    return database.query(statement)

                page = make(ask, parse_qs(asked.query))
        status, body = (404, b"") if page is None else (200, json.dumps(page).encode())
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.log.write(f"{asked.path}\t{status}\t{int((time.perf_counter() - began) * 1e6)}\t{statements}\n")

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
    parser.add_argument("--log", required=True)
    parser.add_argument("--release-bug", action="store_true", help="/overdue is the page with the mistake, as after an update")
    args = parser.parse_args()
    Handler.database = args.database
    Handler.log = open(args.log, "a", buffering=1)
    if args.release_bug:
        Handler.pages = PAGES | {"/overdue": overdue_bug}
    Server(args.listen, Handler).serve_forever()


if __name__ == "__main__":
    main()
