#!/usr/bin/env python3
"""Compares `PARSE encrypted` with the same packets, decrypted: bench/encrypted_turns.py NETALYTICS OUT

Records HTTP/1.1, HTTP/2, and Redis over TLS on loopback in a network namespace (root; nginx, redis-server, curl, tcpdump,
openssl), with keys. The decrypted requests are the truth: a turn is right if its last byte is that of the decrypted
response, and its total time is the same; the first byte of a decrypted response is that of a whole record. Writes
OUT/NAME.pcap, OUT/NAME.keys, and a table to standard output. With --recorded, the files exist.
"""
import json
import os
import random
import re
import socket
import ssl
import subprocess
import sys
import threading
import time

NETALYTICS, OUT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
SPACE = f"turns{os.getpid()}"
NGINX = """daemon off; pid {out}/nginx.pid; error_log {out}/nginx.error; worker_processes 1;
events {{ worker_connections 512; }}
http {{ access_log off; client_body_temp_path {out}/b; proxy_temp_path {out}/p; fastcgi_temp_path {out}/f;
  uwsgi_temp_path {out}/u; scgi_temp_path {out}/s; keepalive_requests 100000;
  ssl_certificate {out}/cert.pem; ssl_certificate_key {out}/key.pem;
  server {{ listen 127.0.0.1:8443 ssl http2; ssl_protocols TLSv1.3; root {out}/www; }}
  server {{ listen 127.0.0.1:8444 ssl http2; ssl_protocols TLSv1.2; root {out}/www; }} }}
"""


def run(*command, **options):
    return subprocess.run(command, check=True, **options)


def inside(*command):
    return ["ip", "netns", "exec", SPACE, *command]


def context(keys, alpn):
    made = ssl.create_default_context()
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    made.keylog_filename = keys
    if alpn:
        made.set_alpn_protocols(alpn)
    return made


def connect(port, keys, alpn):
    plain = socket.create_connection(("127.0.0.1", port))
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return context(keys, alpn).wrap_socket(plain, server_hostname="turns.test")


def read_http(connection, held):
    while b"\r\n\r\n" not in held:
        held += connection.recv(65536)
    head, held = held.split(b"\r\n\r\n", 1)
    length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])
    while len(held) < length:
        held += connection.recv(65536)
    return held[length:]


def http1(port, keys, requests, depth, seed):
    """`depth` requests are sent together; the next follow their responses."""
    rng = random.Random(seed)
    connection, held = connect(port, keys, ["http/1.1"]), b""
    for _ in range(requests // depth):
        paths = [rng.choice(["10", "1000", "20000", "200000", "missing"]) for _ in range(depth)]
        for path in paths:
            connection.sendall(f"GET /{path} HTTP/1.1\r\nHost: turns.test\r\n\r\n".encode())
        for _ in paths:
            held = read_http(connection, held)
        if rng.random() < 0.2:
            time.sleep(rng.random() * 0.02)
    connection.close()


def redis(port, keys, requests, depth, seed):
    rng = random.Random(seed)
    connection, held = connect(port, keys, None), b""
    for _ in range(requests // depth):
        for _ in range(depth):
            key = f"k{rng.randrange(50)}"
            value = "v" * rng.choice([1, 100, 5000])
            command = ["SET", key, value] if rng.random() < 0.5 else ["GET", key]
            connection.sendall("".join([f"*{len(command)}\r\n"] + [f"${len(part)}\r\n{part}\r\n" for part in command]).encode())
        for _ in range(depth):
            while b"\r\n" not in held:
                held += connection.recv(65536)
            line, held = held.split(b"\r\n", 1)
            if line[:1] == b"$" and line != b"$-1":
                while len(held) < int(line[1:]) + 2:
                    held += connection.recv(65536)
                held = held[int(line[1:]) + 2:]
    connection.close()


def curl(port, keys, requests, depth, seed):
    rng = random.Random(seed)
    paths = [rng.choice(["10", "1000", "20000", "200000", "missing"]) for _ in range(requests)]
    urls = [part for path in paths for part in ("-o", "/dev/null", f"https://127.0.0.1:{port}/{path}")]
    many = ["--parallel", "--parallel-max", str(depth)] if depth > 1 else []
    run("curl", "-sk", "--http2", *many, *urls, env={**os.environ, "SSLKEYLOGFILE": keys})


# Name, port, client, connections, requests on each, requests that are outstanding together, parser of the truth.
RUNS = [
    ("http1-tls13", 8443, http1, 4, 150, 1, "http"),
    ("http1-tls12", 8444, http1, 4, 150, 1, "http"),
    ("http1-tls13-short", 8443, http1, 100, 2, 1, "http"),
    ("http1-tls13-pipelined-4", 8443, http1, 4, 160, 4, "http"),
    ("http2-tls13", 8443, curl, 4, 150, 1, "http"),
    ("http2-tls12", 8444, curl, 4, 150, 1, "http"),
    ("http2-tls13-streams-10", 8443, curl, 4, 150, 10, "http"),
    ("redis-tls13", 6380, redis, 4, 200, 1, "redis"),
    ("redis-tls13-pipelined-10", 6380, redis, 4, 200, 10, "redis"),
]


def record(name, port, client, connections, requests, depth):
    pcap, keys = f"{OUT}/{name}.pcap", f"{OUT}/{name}.keys"
    for path in (pcap, keys):
        if os.path.exists(path):
            os.remove(path)
    capture = subprocess.Popen(["tcpdump", "-i", "lo", "-B", "65536", "-s", "0", "-w", pcap, f"tcp port {port}"], stderr=subprocess.PIPE, text=True)
    capture.stderr.readline()
    threads = [threading.Thread(target=client, args=(port, keys, requests, depth, seed)) for seed in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    time.sleep(0.5)
    capture.terminate()
    dropped = [line for line in capture.communicate()[1].splitlines() if "dropped" in line]
    assert dropped and dropped[0].startswith("0 "), dropped


def rows(query, pcap, *flags):
    out = run(NETALYTICS, "query", query, "-r", pcap, "--format", "jsonl", "-q", *flags, capture_output=True, text=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def compare(name, parser):
    pcap, keys = f"{OUT}/{name}.pcap", f"{OUT}/{name}.keys"
    truth = rows(f"PARSE {parser}", pcap, "--keys", keys)
    turns = rows("PARSE encrypted", pcap)
    def end_of(row):
        return row["client_port"], row["ts_end"]

    by_end = {end_of(turn): turn for turn in turns}
    right = wrong = flagged = 0
    for request in truth:
        turn = by_end.get(end_of(request))
        if turn is None or turn["certainty"] != "turn":
            flagged += 1
        elif turn["total_time_ns"] == request["total_time_ns"]:
            right += 1
        else:
            wrong += 1
    ends = {end_of(request) for request in truth}
    extra = sum(turn["certainty"] == "turn" and turn["total_time_ns"] is not None and end_of(turn) not in ends for turn in turns)
    return len(truth), right, wrong, extra, flagged


def main():
    os.makedirs(f"{OUT}/www", exist_ok=True)
    for size in (10, 1000, 20000, 200000):
        with open(f"{OUT}/www/{size}", "wb") as file:
            file.write(os.urandom(size // 2).hex().encode())
    if not os.path.exists(f"{OUT}/cert.pem"):
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30", "-subj", "/CN=turns.test", "-keyout", f"{OUT}/key.pem", "-out", f"{OUT}/cert.pem", stderr=subprocess.DEVNULL)
    with open(f"{OUT}/nginx.conf", "w") as file:
        file.write(NGINX.format(out=OUT))
    servers = [
        subprocess.Popen(["nginx", "-c", f"{OUT}/nginx.conf", "-p", OUT]),
        subprocess.Popen(["redis-server", "--port", "0", "--tls-port", "6380", "--tls-cert-file", f"{OUT}/cert.pem", "--tls-key-file", f"{OUT}/key.pem", "--tls-auth-clients", "no", "--save", "", "--dir", OUT], stdout=subprocess.DEVNULL),
    ]
    try:
        time.sleep(1.5)
        for name, port, client, connections, requests, depth, _ in RUNS:
            record(name, port, client, connections, requests, depth)
    finally:
        for server in servers:
            server.terminate()
            server.wait()


if os.environ.get("TURNS_SPACE") is None:
    if "--recorded" not in sys.argv:
        run("ip", "netns", "add", SPACE)
        try:
            run(*inside("ip", "link", "set", "lo", "mtu", "1500", "up"))
            run(*inside("ethtool", "-K", "lo", "tso", "off", "gso", "off", "gro", "off"), stdout=subprocess.DEVNULL)
            run(*inside(sys.executable, __file__, *sys.argv[1:]), env={**os.environ, "TURNS_SPACE": SPACE})
        finally:
            run("ip", "netns", "del", SPACE)
    print("| traffic | requests | right turns | wrong turns | turns without a request | left out |")
    print("|---|---|---|---|---|---|")
    for name, *_, parser in RUNS:
        total, right, wrong, extra, flagged = compare(name, parser)
        print(f"| {name} | {total} | {right} ({100 * right / max(1, total):.1f} %) | {wrong} | {extra} | {flagged} ({100 * flagged / max(1, total):.1f} %) |")
else:
    main()
