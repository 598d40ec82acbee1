#!/usr/bin/env python3
"""The answers to docs/questions.md, computed without netalytics: from the servers' own logs, from tshark's, or by a few lines over the packets.

    questions.py NETALYTICS [CORPUS]

asks NETALYTICS each question of the page, in both spellings of the language, and compares the rows; those of captures of the corpus only where it is. Streams are put
together by sequence number: enough for captures that lack no packet.
"""
import collections, gzip, ipaddress, json, math, os, re, struct, subprocess, sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..", "..")
SHOP = os.path.join(ROOT, "captures", "shop")
FIN, SYN, RST, ACK = 1, 2, 4, 16
Packet = collections.namedtuple("Packet", "ts src sport dst dport seq ack flags payload length ip_id")


def packets(path):
    """TCP packets of a pcap file of Ethernet frames with IPv4."""
    with open(path, "rb") as f:
        data = f.read()
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    unit = 1 if struct.unpack(order + "I", data[:4])[0] == 0xA1B23C4D else 1000
    at = 24
    while at < len(data):
        sec, frac, caplen, length = struct.unpack_from(order + "IIII", data, at)
        frame, at = data[at + 16 : at + 16 + caplen], at + 16 + caplen
        if frame[12:14] != b"\x08\x00" or frame[23] != 6:
            continue
        ip = frame[14 : 14 + struct.unpack_from(">H", frame, 16)[0]]
        tcp = ip[(ip[0] & 15) * 4 :]
        sport, dport, seq, ack, offset, flags = struct.unpack_from(">HHIIBB", tcp)
        address = lambda raw: str(ipaddress.ip_address(raw))
        yield Packet(sec * 10**9 + frac * unit, address(ip[12:16]), sport, address(ip[16:20]), dport, seq, ack, flags, tcp[(offset >> 4) * 4 :], length, ip[4:6])


class Stream:
    """Bytes sent by one end, with the time of each byte."""

    def __init__(self):
        self.pieces, self.data, self.starts = {}, b"", []

    def join(self, first):
        for seq, (ts, payload) in sorted(self.pieces.items(), key=lambda p: (p[0] - first) % 2**32):
            self.starts.append((len(self.data), ts))
            self.data += payload[max(0, len(self.data) - (seq - first) % 2**32) :]

    def ts(self, at):
        return max((start, ts) for start, ts in self.starts if start <= at)[1]


def connections(path):
    """(client, server, packets, client's stream, server's stream) of each connection of which the SYN was seen."""
    found = {}
    for p in packets(path):
        a, b = (p.src, p.sport), (p.dst, p.dport)
        if p.flags & (SYN | ACK) == SYN and (a, b) not in found:
            found[a, b] = ([], {a: Stream(), b: Stream()}, {a: p.seq + 1})
        key = (a, b) if (a, b) in found else (b, a)
        seen, streams, first = found[key]
        seen.append(p)
        if p.flags & SYN:
            first[a] = (p.seq + 1) % 2**32
        if p.payload and not p.flags & SYN:
            streams[a].pieces.setdefault(p.seq, (p.ts, p.payload))
    for (client, server), (seen, streams, first) in found.items():
        for end, stream in streams.items():
            stream.join(first.get(end, 0))
        yield client, server, seen, streams[client], streams[server]


def http_messages(stream, heads=()):
    """(start line, headers, first byte, byte after the last) of each message."""
    at = n = 0
    while (end := stream.data.find(b"\r\n\r\n", at)) >= 0:
        lines = stream.data[at:end].decode("latin-1").split("\r\n")
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:])}
        body = end + 4
        status = lines[0].split()[1] if lines[0].startswith("HTTP/") else ""
        is_empty = status[:1] == "1" or status in ("204", "304") or (n < len(heads) and heads[n] and status)
        if is_empty:
            pass
        elif headers.get("transfer-encoding") == "chunked":
            while True:
                line_end = stream.data.index(b"\r\n", body)
                size = int(stream.data[body:line_end].split(b";")[0], 16)
                body = line_end + 2 + size + 2
                if size == 0:
                    break
        else:
            body += int(headers.get("content-length", 0))
        yield lines[0], headers, at, body
        at, n = body, n + 1


def http():
    """Requests of the shop with their responses, by position."""
    for client, server, _, said, answered in connections(os.path.join(SHOP, "in.pcap")):
        if server[1] != 80:
            continue
        asked = list(http_messages(said))
        answers = [a for a in http_messages(answered, [r[0].startswith("HEAD") for r in asked]) if a[0].split()[1][0] != "1"]
        for n, (line, headers, start, end) in enumerate(asked):
            method, target, _ = line.split(" ")
            row = {"client_ip": client[0], "server_ip": server[0], "method": method, "target": target, "path": target.split("?")[0], "host": headers.get("host"), "ts": said.ts(start), "status": None, "time": None}
            if n < len(answers):
                status, _, first, last = answers[n]
                time = answered.ts(first) - said.ts(end - 1)
                row |= {"status": int(status.split()[1]), "time": time if time >= 0 else None, "ts_end": max(answered.ts(last - 1), said.ts(end - 1))}
            yield row


def mysql():
    """Statements of the shop: no client sends before the response is complete."""
    for client, server, seen, said, answered in connections(os.path.join(SHOP, "in.pcap")):
        if server[1] != 3306:
            continue
        at, messages = 0, []
        while at + 4 <= len(said.data):
            length, number = int.from_bytes(said.data[at : at + 3], "little"), said.data[at + 3]
            messages.append((at, at + 4 + length, number))
            at += 4 + length
        for start, end, number in messages:
            body = said.data[start + 4 : end]
            if number != 0 or body[:1] != b"\x03":
                continue
            first = next((at, ts) for at, ts in answered.starts if ts >= said.ts(end - 1))
            error = answered.data[first[0] + 4] == 0xFF
            code = struct.unpack_from("<H", answered.data, first[0] + 5)[0] if error else None
            yield {"client_ip": client[0], "query": body[1:].decode(), "time": first[1] - said.ts(end - 1), "error": code}


def memcached():
    """Keys asked for, and whether they were there."""
    for client, server, _, said, answered in connections(os.path.join(SHOP, "in.pcap")):
        if server[1] != 11211:
            continue
        lines = (line for line in said.data.split(b"\r\n"))
        answers = (line for line in answered.data.split(b"\r\n"))
        for line in lines:
            words = line.decode("latin-1").split(" ")
            if words[0] in ("get", "gets"):
                hits = set()
                while (answer := next(answers).decode("latin-1")) != "END":
                    if answer.startswith("VALUE "):
                        hits.add(answer.split(" ")[1])
                        next(answers)
                for key in words[1:]:
                    yield {"key": key, "hit": key in hits, "client_ip": client[0]}
            elif words[0] in ("set", "add", "replace"):
                next(lines)
                next(answers)
            elif words[0]:
                next(answers)


def flows():
    """Connections of the shop: who, how many packets and bytes each way, how long."""
    for client, server, seen, _, _ in connections(os.path.join(SHOP, "in.pcap")):
        mine = [p for p in seen if (p.src, p.sport) == client]
        yield {"client_ip": client[0], "client_port": client[1], "server_ip": server[0], "server_port": server[1], "client_bytes": sum(p.length for p in mine),
               "server_bytes": sum(p.length for p in seen) - sum(p.length for p in mine), "duration_ns": seen[-1].ts - seen[0].ts, "packets": seen}


def grouped(rows, *keys):
    """Rows by the values of these keys; a key may be a function."""
    groups = collections.defaultdict(list)
    for row in rows:
        groups[tuple(key(row) if callable(key) else row[key] for key in keys)].append(row)
    return sorted(groups.items(), key=lambda g: tuple((v is not None, v) for v in g[0]))


def avg(values):
    values = [v for v in values if v is not None]
    return sum(values) / len(values) if values else None


def quantile(values, q):
    """The smallest value below or at which a share of `q` lies."""
    values = sorted(v for v in values if v is not None)
    return values[max(0, -(-len(values) * q // 1) - 1).__int__()] if values else None


ANSWERS = {}


def answers(title, capture=None):
    """The answer to a question, asked of the shop or of a capture of the corpus."""

    def note(function):
        ANSWERS[title] = (capture, function)
        return function

    return note


@answers("Which URLs are slowest?")
def _():
    rows = [{"path": k[0], "count": len(g), "avg_ns": avg(r["time"] for r in g)} for k, g in grouped(http(), "path")]
    return sorted(rows, key=lambda r: -(r["avg_ns"] or 0))[:5]


@answers("What share of each host's responses are errors?")
def _():
    hosts = {k[0]: len(g) for k, g in grouped(http(), "host")}
    classes = grouped(http(), "host", lambda r: r["status"] and r["status"] // 100)
    return [{"host": h, "class": c, "count": len(g), "share": len(g) / hosts[h]} for (h, c), g in classes]


@answers("How does the 99th percentile change over time?")
def _():
    return [{"window_start": k[0] * 10**9, "count": len(g), "p99_ns": quantile((r["time"] for r in g), 0.99)} for k, g in grouped(http(), lambda r: r["ts_end"] // 10**9)]


@answers("Who talks to whom?")
def _():
    return [{"client_ip": c, "server_ip": s, "server_port": p, "count": len(g), "sum_client_bytes": sum(f["client_bytes"] for f in g), "sum_server_bytes": sum(f["server_bytes"] for f in g)}
            for (c, s, p), g in grouped(flows(), "client_ip", "server_ip", "server_port")]


@answers("Which statements are slow, by table?")
def _():
    table = lambda r: (re.search(r"(?i)\b(?:from|into|update)\s+(\w+)", r["query"]) or [None, None])[1]
    rows = [{"table": k[0], "count": len(g), "avg_ns": avg(r["time"] for r in g), "max_ns": max(r["time"] for r in g)} for k, g in grouped(mysql(), table)]
    return sorted(rows, key=lambda r: -r["avg_ns"])


@answers("Which statements fail, and with which error?")
def _():
    failing = [r for r in mysql() if r["error"]]
    return [{"error_code": e, "count": len(g)} for (e,), g in grouped(failing, "error")]


@answers("What is the cache's hit ratio, by prefix of the key?")
def _():
    return [{"prefix": k[0], "count": len(g), "hits": sum(r["hit"] for r in g) / len(g)} for k, g in grouped(memcached(), lambda r: r["key"].split(":")[0])]


@answers("Which connections live longest?")
def _():
    rows = sorted(flows(), key=lambda f: -f["duration_ns"])[:5]
    return [{k: f[k] for k in ("client_ip", "client_port", "server_port", "duration_ns")} for f in rows]


@answers("How are response times distributed?")
def _():
    return [{"p50_ns": quantile((r["time"] for r in http()), 0.5), "p90_ns": quantile((r["time"] for r in http()), 0.9), "p99_ns": quantile((r["time"] for r in http()), 0.99), "max_ns": max(r["time"] or 0 for r in http())}]


@answers("Who sends the most?")
def _():
    rows = [{"src_ip": k[0], "sum_bytes": sum(p.length for p in g)} for k, g in grouped((p for f in flows() for p in f["packets"]), lambda p: p.src)]
    return sorted(rows, key=lambda r: -r["sum_bytes"])[:3]


@answers("Which clients' networks wait longest?")
def _():
    subnet = lambda r: str(ipaddress.ip_network(r["client_ip"] + "/24", strict=False))
    return [{"subnet": k[0], "count": len(g), "avg_ns": avg(r["time"] for r in g)} for k, g in grouped(http(), subnet)]


@answers("When was each client seen first and last?")
def _():
    return [{"client_ip": k[0], "min": min(r["ts"] for r in g), "max": max(r["ts"] for r in g)} for k, g in grouped(http(), "client_ip")]


@answers("How much traffic has each service, over time?")
def _():
    second = lambda p: p.ts // 10**9
    service = lambda p: min(p.sport, p.dport)
    return [{"window_start": k[0] * 10**9, "port": k[1], "sum_bytes": sum(p.length for p in g)} for k, g in grouped((p for f in flows() for p in f["packets"]), second, service)]


def truth(capture, table):
    """Rows of a table that agree with tshark and a server's log."""
    path = f"{capture}.truth/{table}.tsv"
    with open(path) if os.path.exists(path) else gzip.open(path + ".gz", "rt") as f:
        head, *lines = (line.rstrip("\n").split("\t") for line in f)
    return [dict(zip(head, line)) for line in lines]


RCODES = {"0": "NOERROR", "2": "SERVFAIL", "3": "NXDOMAIN", "5": "REFUSED"}


@answers("Which names cannot be resolved?", "live-captures/dns.pcap")
def _(capture):
    failed = [{"query_name": r["name"], "response_code": RCODES[r["rcode"]]} for r in truth(capture, "dns") if r["response"] == "1" and r["query_frame"] and r["rcode"] != "0"]
    return [{"query_name": n, "response_code": c, "count": len(g)} for (n, c), g in grouped(failed, "query_name", "response_code")]


@answers("Which hosts retransmit?", "live-captures/http_mix_lossy.pcap")
def _(capture):
    again = collections.Counter()
    for client, server, seen, _, _ in connections(capture):
        said = {client: {}, server: {}}
        for p in seen:
            # A SYN and a FIN take a sequence number, too.
            places = [(p.seq + n) % 2**32 for n in range(len(p.payload) + bool(p.flags & (SYN | FIN)))]
            # With the identification of the first it is a copy that the network made.
            again[client[0], server[0]] += any(said[p.src, p.sport].get(place, p.ip_id) != p.ip_id for place in places)
            said[p.src, p.sport].update(dict.fromkeys(places, p.ip_id))
    return [{"client_ip": c, "server_ip": s, "sum": n} for (c, s), n in again.items() if n]


@answers("Is it the network or the server?", "live-captures/http_mix_lossy.pcap")
def _(capture):
    ns = lambda row, column: float(row[column]) * 1e9 if row[column] else None
    rows = [r for r in truth(capture, "tcp") if r["handshake"]]
    # If a SYN was sent twice, the answered one is unknown.
    server_rtt = lambda r: ns(r, "syn_synack") if r["syns"] == "1" else None
    return [{"server_ip": s, "avg_server_rtt_ns": avg(map(server_rtt, g)), "avg_client_rtt_ns": avg(ns(r, "synack_ack") for r in g)} for (s,), g in grouped(rows, "server")]


@answers("Which connections are refused?", "live-captures/http_mix.pcap")
def _(capture):
    refused = []
    for client, server, seen, _, _ in connections(capture):
        if any(p.flags & RST and (p.src, p.sport) == server for p in seen) and not any(p.flags & SYN and (p.src, p.sport) == server for p in seen):
            refused.append({"client_ip": client[0], "server_ip": server[0], "server_port": server[1]})
    return [{**g[0], "count": len(g)} for _, g in grouped(refused, "client_ip", "server_ip", "server_port")]


@answers("Which Redis commands take the longest?", "live-captures/redis_mix.pcap")
def _(capture):
    answered = [r for r in truth(capture, "redis") if r["command"]]
    rows = [{"command": k[0].upper(), "count": len(g), "max_ns": max(float(r["ttfb"] or 0) for r in g) * 1e9} for k, g in grouped(answered, lambda r: r["command"].upper())]
    return sorted(rows, key=lambda r: -r["max_ns"])[:5]


@answers("Which names are asked for over TLS, and with which version?", "live-captures/tls.pcap")
def _(capture):
    version = {"0x0303": "TLS 1.2", "0x0304": "TLS 1.3"}
    rows = grouped(truth(capture, "tls"), lambda r: r["sni"] or None, lambda r: version[r["version"]])
    return [{"sni": n, "version": v, "count": len(g)} for (n, v), g in rows]


@answers("What exactly do failing requests look like?")
def _():
    with open(os.path.join(SHOP, "nginx-access.log")) as log:
        logged = (line.split() for line in log)
        return [{"client_ip": ip, "method": method, "path": uri.split("?")[0], "status": int(status)} for _, ip, _, method, uri, status, *_ in logged if int(status) >= 500]


def queries():
    """The page's queries, by title."""
    with open(os.path.join(ROOT, "docs", "questions.md")) as page:
        return dict(re.findall(r"^### (.*?)\n.*?```query\n(.*?)```", page.read(), re.S | re.M))


def agree(want, got, column):
    """Quantiles within 1 %, other fractions to the last digits; times of tables in whole microseconds."""
    if isinstance(want, float) or re.match(r"p\d+_", column):
        share = 0.01 if re.match(r"p\d+_", column) else 1e-6
        return got is not None and math.isclose(want, got, rel_tol=share)
    return want == got


def difference(want, got):
    """Error in these rows, or None."""
    if len(want) != len(got):
        return f"{len(got)} rows, not {len(want)}"
    for number, (w, g) in enumerate(zip(want, got)):
        for column, value in w.items():
            if not agree(value, g.get(column), column):
                return f"row {number + 1}: {column} is {g.get(column)}, not {value}"


def without_processor(output):
    """Rows without the name of their processor, which depends on the spelling."""
    return re.sub(rb'"processor":"[^"]*",', b"", output)


def explained_sql(program, query):
    """The statement in SQL that `explain` prints for a query."""
    plan = subprocess.run([program, "explain", query], stdout=subprocess.PIPE, check=True).stdout.decode()
    return plan[plan.index("\nin SQL\n") + len("\nin SQL\n") :].strip()


def main(program, corpus=None):
    asked = queries()
    if asked.keys() != ANSWERS.keys():
        sys.exit(f"questions without an answer, or answers without a question: {asked.keys() ^ ANSWERS.keys()}")
    checked = 0
    for title, query in asked.items():
        capture, function = ANSWERS[title]
        if capture and not corpus:
            continue
        path = os.path.join(corpus, capture) if capture else os.path.join(SHOP, "in.pcap")
        command = [program, "query", query, "-r", path, "--format", "jsonl"]
        output = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
        got, want = [json.loads(line) for line in output.splitlines()], function(path) if capture else function()
        sql = explained_sql(program, query)
        command[command.index(query)] = sql
        if without_processor(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout) != without_processor(output):
            sys.exit(f"{title}\n{query}\nhas other rows than\n{sql}")
        if "ORDER BY" not in query and "top-k" not in query:
            order = lambda row: json.dumps([row.get(column) for column in want[0]])
            want, got = sorted(want, key=order), sorted(got, key=order)
        wrong = "no rows were expected" if not want else difference(want, got)
        if wrong:
            sys.exit(f"{title}\n{query}{wrong}\n" + "\n".join(map(json.dumps, got[:20])))
        checked += 1
    print(checked)


if __name__ == "__main__":
    main(*sys.argv[1:])
