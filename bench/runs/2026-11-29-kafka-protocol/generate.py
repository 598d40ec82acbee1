"""Writes a capture of small Produce requests (version 9, one record of 100 bytes) with their responses: generate.py FILE REQUESTS."""

import struct
import sys

CONNECTIONS = 16
path, requests = sys.argv[1], int(sys.argv[2])
out = open(path, "wb")
out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
now = 1_700_000_000_000_000


def packet(port, from_client, seq, ack, flags, payload=b""):
    global now
    now += 3
    ends = (b"\x0a\0\0\1", b"\x0a\0\0\2") if from_client else (b"\x0a\0\0\2", b"\x0a\0\0\1")
    ports = (port, 9092) if from_client else (9092, port)
    tcp = struct.pack(">HHIIBBHHH", *ports, seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, 0x50, flags, 65535, 0, 0)
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 40 + len(payload), 0, 0x4000, 64, 6, 0, *ends)
    frame = bytes(12) + b"\x08\0" + ip + tcp + payload
    out.write(struct.pack("<IIII", now // 1_000_000, now % 1_000_000, len(frame), len(frame)) + frame)


def frame(body):
    return struct.pack(">I", len(body)) + body


record = bytes(107)
batch = struct.pack(">qiibIhiqqqhii", 0, 49 + len(record), -1, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1) + record
state = {}
for n in range(CONNECTIONS):
    port = 40000 + n
    packet(port, True, 100, 0, 2)
    packet(port, False, 500, 101, 0x12)
    packet(port, True, 101, 501, 0x10)
    state[port] = [101, 501]
for n in range(requests):
    port = 40000 + n % CONNECTIONS
    client, server = state[port]
    number = n // CONNECTIONS
    head = struct.pack(">hhi", 0, 9, number) + struct.pack(">h", 10) + b"producer-1" + b"\0"
    body = head + b"\0" + struct.pack(">hi", -1, 30000) + b"\x02\x07orders\x02" + struct.pack(">i", number % 12)
    length = len(batch) + 1
    request = frame(body + bytes([length & 0x7F | 0x80, length >> 7]) + batch + b"\0\0\0")
    packet(port, True, client, server, 0x18, request)
    answer = struct.pack(">i", number) + b"\0\x02\x07orders\x02" + struct.pack(">ihqqq", number % 12, 0, number, -1, 0) + b"\x01\0\0\0" + struct.pack(">i", 0) + b"\0"
    response = frame(answer)
    packet(port, False, server, client + len(request), 0x18, response)
    state[port] = [client + len(request), server + len(response)]
