"""The HTTP interface (docs/sdn.md). Listens on a loopback address, limits the size of bodies, and returns JSON."""

import hmac
import ipaddress
import json
import os
import re
import secrets
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from desired import MOST_FLOWS, MOST_RULES, Conflict, parse_set
from forms import cookie, only, own_cookies, print_rule
from rules import BadRule
from switch import Refused, Unreachable

MOST_BYTES = 4 << 20  # of a body
MIN_TOKEN = 16  # characters
CAPABILITIES = {
    "openflow": "1.3",
    "interface": 1,
    "modes": ["copy", "truncated"],
    "leases": True,
    "reactive": True,
    "most_rules": MOST_RULES,
    "most_flows": MOST_FLOWS,
    "most_bytes": MOST_BYTES,
}


def read_token(path):
    """Reads the token from a file that only its owner can read; creates the file with a new token if it is missing."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(32) + "\n")
    except FileExistsError:
        pass
    except OSError as why:
        raise SystemExit(f"sdn: cannot create the token file {path}: {why.strerror}") from None
    try:
        with open(path) as file:
            token, mode = file.read().strip(), os.fstat(file.fileno()).st_mode
    except (OSError, ValueError) as why:
        raise SystemExit(f"sdn: cannot read the token file {path}: {why}") from None
    if mode & 0o077:
        raise SystemExit(f"sdn: other users can access the token file {path}: its mode is {mode & 0o777:o} and must be 600")
    if len(token) < MIN_TOKEN or not token.isascii():
        raise SystemExit(f"sdn: the token file {path} must contain a token of at least {MIN_TOKEN} ASCII characters")
    return token


class Answer(Exception):
    """Ends a request with status and body."""

    def __init__(self, status, body):
        super().__init__(status)
        self.status, self.body = status, body


class Northbound(ThreadingHTTPServer):
    """`switches` are by datapath id, real or simulated."""

    daemon_threads = True

    def __init__(self, listen, switches, clock, token):
        host, port = listen.rsplit(":", 1)
        if not ipaddress.ip_address(host).is_loopback:
            raise SystemExit(f"sdn: {host} is not a loopback address; this interface has no TLS")
        self.switches, self.clock, self.token = switches, clock, token.encode()
        # A changed value tells clients that sets are forgotten and must be sent again.
        self.boot = secrets.token_hex(8)
        super().__init__((host, int(port)), Handler)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30

    def log_message(self, *_):
        """No log: clients know their requests."""

    def respond(self):
        status, body = 200, None
        try:
            # A web page in a local browser may send requests here, but not with this host name.
            if re.sub(r":\d+$", "", self.headers.get("Host", "")) not in ("127.0.0.1", "[::1]", "localhost", self.server.server_address[0]):
                raise Answer(403, {"error": "unknown host name"})
            at = urlsplit(self.path)
            if at.path != "/v1/health" and not self.is_allowed():
                raise Answer(401, {"error": "missing or wrong token: send the header Authorization: Bearer TOKEN, with the content of the controller's token file"})
            body = self.route(self.command, at.path.strip("/").split("/"), {name: values[-1] for name, values in parse_qs(at.query).items()})
        except Answer as answer:
            status, body = answer.status, answer.body
        except BadRule as why:
            status, body = 400, {"error": str(why)}
        except Conflict as why:
            status, body = 409, {"error": str(why)}
        except Unreachable as why:
            status, body = 503, {"error": str(why)}
        except Refused as why:
            status, body = 502, {"error": str(why)}
        text = json.dumps(body).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        if status >= 400:
            # The body may not have been read.
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(text)

    def is_allowed(self):
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), self.server.token)

    do_GET = do_PUT = do_POST = do_DELETE = respond

    def route(self, method, path, asked):
        match method, *path:
            case "GET", "v1", "health":
                connected = sum(switch.is_connected for switch in self.server.switches.values())
                return {"status": "ok", "boot": self.server.boot, "switches": connected}
            case "GET", "v1", "capabilities":
                return CAPABILITIES
            case "GET", "v1", "switches":
                return [self.describe(number, switch) for number, switch in sorted(self.server.switches.items())]
            case "GET", "v1", "switches", number:
                switch = self.switch(number)
                ports = [{"number": port, "name": name} for port, name in switch.ports()]
                return self.describe(int(number, 16), switch) | {"ports": ports}
            case "GET", "v1", "switches", number, "rules":
                own, mask = self.cookies(asked)
                found = self.switch(number).installed()
                return [print_rule(rule) | counters for rule, counters in found if rule.cookie & mask == own]
            case "PUT", "v1", "switches", number, "rules":
                return self.put(self.switch(number), parse_set(self.body()))
            case "POST", "v1", "switches", number, "renew":
                return self.renew(self.switch(number), only(self.body(), "cookie", "mask"))
            case "DELETE", "v1", "switches", number, "rules":
                return self.remove(self.switch(number), *self.cookies(asked, required=True))
            case _:
                raise Answer(404, {"error": "not found"})

    def switch(self, number):
        found = self.server.switches.get(int(number, 16)) if re.fullmatch("[0-9a-f]{16}", number) else None
        if found is None:
            raise Answer(404, {"error": f"unknown switch {number}; a datapath has 16 digits"})
        return found

    @staticmethod
    def describe(number, switch):
        sets = [
            {"cookie": hex(held.of.cookie), "mask": hex(held.of.mask), "generation": held.of.generation, "lease": held.of.lease, "flows": len(held.flows)}
            for held in list(switch.desired.sets.values())
        ]
        state = "connected" if switch.is_connected else "away"
        return {"datapath": f"{number:016x}", "state": state, "sets": sets, "flows_refused": switch.desired.flows_refused}

    @staticmethod
    def cookies(asked, required=False):
        """Cookie and mask of a request; may be omitted, for all rules, unless `required`."""
        only(asked, "cookie", "mask")
        if not asked and not required:
            return 0, 0
        own, mask = cookie(asked.get("cookie")), cookie(asked.get("mask"), "mask")
        if required:
            return own_cookies(own, mask)
        if own & ~mask:
            raise BadRule("cookie has bits outside of mask")
        return own, mask

    def put(self, switch, new):
        try:
            messages = switch.change(lambda installed: switch.desired.put(new, installed, self.server.clock()))
        except Refused:
            # Part of a set would copy part of the packets only.
            self.remove(switch, new.cookie, new.mask)
            raise
        return {"generation": new.generation, "changes": len(messages)}

    def renew(self, switch, asked):
        key = cookie(asked.get("cookie")), cookie(asked.get("mask"), "mask")
        with switch.deciding:
            messages = switch.desired.renew(key, self.server.clock())
        if messages is None:
            raise Answer(404, {"error": "unknown set, or its lease has expired"})
        switch.apply(messages)
        return {"renewed": len(messages)}

    def remove(self, switch, own, mask):
        with switch.deciding:
            messages = switch.desired.remove(own, mask)
        switch.apply(messages)
        return {}

    def body(self):
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch("[0-9]{1,18}", length):
            raise Answer(411, {"error": "Content-Length is required"})
        if int(length) > MOST_BYTES:
            raise Answer(413, {"error": f"the body exceeds {MOST_BYTES} bytes"})
        try:
            return json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            raise Answer(400, {"error": "the body is not JSON"}) from None
