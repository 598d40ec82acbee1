# Sends HTTP requests through an interface at a steady rate, each from another client and in its own connection. Reads commands, one
# per line: after `phase NAME`, which it acknowledges, requests have the path /NAME/SECOND. At the end of the commands it prints the
# number of requests for each path.
#
#     conversations.py IFACE A_SECOND
import json
import selectors
import socket
import struct
import sys
import time

interface, pace = sys.argv[1], float(sys.argv[2])
MACS = bytes.fromhex("020000000002 020000000001 0800".replace(" ", ""))
SERVER = socket.inet_aton("192.168.7.1")
SYN, ACK, PSH, FIN = 2, 16, 8, 1


def packet(source, target, ports, numbers, flags, payload=b""):
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40 + len(payload), 0, 0, 64, 6, 0, source, target)
    tcp = struct.pack("!HHIIBBHHH", *ports, *numbers, 0x50, flags, 65535, 0, 0)
    return MACS + ip + tcp + payload


def conversation(number, path):
    client, up = struct.pack("!I", 0x0A000001 + number % 0xFFFFF0), (20000 + number % 40000, 80)
    down = up[::-1]
    asked = b"GET /%s HTTP/1.1\r\nHost: shop\r\n\r\n" % path
    answered = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    a, b = 1000 + len(asked), 5000 + len(answered)
    yield packet(client, SERVER, up, (999, 0), SYN)
    yield packet(SERVER, client, down, (4999, 1000), SYN | ACK)
    yield packet(client, SERVER, up, (1000, 5000), PSH | ACK, asked)
    yield packet(SERVER, client, down, (5000, a), PSH | ACK, answered)
    yield packet(client, SERVER, up, (a, b), FIN | ACK)
    yield packet(SERVER, client, down, (b, a + 1), FIN | ACK)
    yield packet(client, SERVER, up, (a + 1, b + 1), ACK)


wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
wire.bind((interface, 0))
told = selectors.DefaultSelector()
told.register(sys.stdin, selectors.EVENT_READ)
counts, phase, number, due = {}, None, 0, time.monotonic()
while True:
    if told.select(max(0, due - time.monotonic())):
        words = sys.stdin.readline().split()
        if not words:
            break
        phase = words[1]
        print("ok", flush=True)
        continue
    # On a busy machine some time is left out, rather than sent at once.
    due = max(due + 0.01, time.monotonic() - 0.2)
    if phase:
        n, path = int(pace * 0.01), f"{phase}/{int(time.time())}"
        for number in range(number + 1, number + 1 + n):
            for frame in conversation(number, path.encode()):
                wire.send(frame)
        counts["/" + path] = counts.get("/" + path, 0) + n
print(json.dumps(counts), flush=True)
