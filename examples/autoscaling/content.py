#!/usr/bin/env python3
"""Controller of the site's pages and web servers.

    content.py make FOLDER N
    content.py serve HOST:PORT KEYFILE DIR NET ADDRESS…

makes N pages; or executes the decisions of a netalytics action, received as signed documents: starts web servers and copies pages to
them before it acknowledges, removes pages from others and stops them. ADDRESS… are the servers' addresses, on the hosts NET-web1,
NET-web2, …; the first has all pages.
"""

import base64, hashlib, hmac, json, os, shutil, signal, socket, subprocess, sys, time
from http.server import BaseHTTPRequestHandler, HTTPServer

CONFIG = """
worker_processes 1;
daemon off;
pid {home}/pid;
events {{ worker_connections 1024; }}
http {{
  log_format requests '$msec\\t$status\\t$uri';
  access_log {home}.requests requests;
  client_body_temp_path {home}/body;
  proxy_temp_path {home}/proxy;
  fastcgi_temp_path {home}/fastcgi;
  uwsgi_temp_path {home}/uwsgi;
  scgi_temp_path {home}/scgi;
  keepalive_timeout 0;
  server {{ listen {address}:80; root {home}/pages; default_type text/html; add_header X-Server {name}; }}
}}
"""


def make(folder, n):
    for kind, count in (("page", n), ("hot", 10)):
        os.makedirs(os.path.join(folder, kind))
        for i in range(count):
            with open(os.path.join(folder, kind, str(i)), "w") as page:
                page.write(f"/{kind}/{i}\n" + "x" * 1000)


class Server:
    """A web server: a folder, and a process while it is in use."""

    def __init__(self, folder, net, name, address):
        self.home, self.net, self.name, self.address = os.path.join(folder, "log", name), net, name, address
        self.process, self.own = None, set()

    def start(self, pages):
        if self.process and self.process.poll() is None:
            return
        os.makedirs(os.path.join(self.home, "pages"), exist_ok=True)
        if pages:
            shutil.copytree(pages, os.path.join(self.home, "pages"), dirs_exist_ok=True)
        config = self.home + ".conf"
        with open(config, "w") as out:
            out.write(CONFIG.format(home=self.home, name=self.name, address=self.address))
        command = ["nsenter", f"--net=/var/run/netns/{self.net}-{self.name}", "nginx", "-e", self.home + ".errors", "-c", config]
        self.process = subprocess.Popen(command)
        for _ in range(600):
            try:
                return socket.create_connection((self.address, 80), timeout=1).close()
            except OSError:
                time.sleep(0.02)
        raise RuntimeError(f"{self.name} does not answer")

    def stop(self):
        if self.process:
            # Requests in progress are completed.
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait()
            self.process = None

    def keep(self, wanted, pages):
        """Adds these pages to the permanent ones."""
        for page in wanted - self.own:
            target = os.path.join(self.home, "pages", page.lstrip("/"))
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy(os.path.join(pages, page.lstrip("/")), target + "~")
            os.rename(target + "~", target)
        for page in self.own - wanted:
            os.remove(os.path.join(self.home, "pages", page.lstrip("/")))
        self.own = wanted


class Site:
    def __init__(self, folder, net, addresses):
        self.pages = os.path.join(folder, "pages")
        self.servers = [Server(folder, net, f"web{n + 1}", address) for n, address in enumerate(addresses)]
        self.log = open(os.path.join(folder, "content.tsv"), "w", buffering=1)

    def has(self, page):
        """Whether the page exists: the name comes from a request."""
        path = os.path.realpath(self.pages + page)
        return os.path.isfile(path) and path.startswith(os.path.realpath(self.pages) + os.sep)

    def become(self, document):
        for n, server in enumerate(self.servers):
            if server.address in document["servers"]:
                server.start(self.pages if n == 0 else None)
            else:
                server.stop()
            if n > 0:
                pages = {page for page, replicas in document["replicas"].items() if replicas > n and self.has(page)}
                server.keep(pages, self.pages)
        copies = [len(server.own) for server in self.servers[1:]]
        self.log.write(f"{time.time()}\t{document['version']}\t{document['direction']}\t{len(document['servers'])}\t{copies}\n")


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        signed = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode() + body
        expected = "v1," + base64.b64encode(hmac.new(self.server.key, signed, hashlib.sha256).digest()).decode()
        if not hmac.compare_digest(expected, self.headers["webhook-signature"] or ""):
            return self.answer(401)
        document = json.loads(body)
        # A repeated decision (netalytics was killed before it stored the acknowledgment) changes nothing. A recreated
        # action counts from 1; its run is part of the id.
        run = self.headers["webhook-id"].split("_")[1]
        if run != self.server.run or document["version"] >= self.server.version:
            self.server.site.become(document)
            self.server.run, self.server.version = run, document["version"]
        self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def main():
    what, *arguments = sys.argv[1:]
    if what == "make":
        return make(arguments[0], int(arguments[1]))
    listen, key, folder, net, *addresses = arguments
    host, port = listen.rsplit(":", 1)
    server = HTTPServer((host, int(port)), Handler)
    server.key, server.run, server.version = open(key).read().strip().encode(), None, 0
    server.site = Site(folder, net, addresses)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        server.serve_forever()
    finally:
        for one in server.site.servers:
            one.stop()


if __name__ == "__main__":
    main()
