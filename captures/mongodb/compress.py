"""compress.py IN OUT: the messages of a capture in OP_COMPRESSED, by snappy, zlib, and zstd in turn (cramjam), as drivers do: all but hello.
Each message is one segment, at the time of its last one."""
import struct
import subprocess
import sys
import zlib

import cramjam

FIELDS = ["frame.time_epoch", "ip.src", "ip.dst", "tcp.srcport", "tcp.dstport", "tcp.payload"]
arguments = [part for field in FIELDS for part in ("-e", field)]
lines = subprocess.run(["tshark", "-r", sys.argv[1], "-T", "fields", *arguments], capture_output=True, text=True, check=True).stdout
COMPRESS = {
    1: lambda body: bytes(cramjam.snappy.compress_raw(body)),
    2: zlib.compress,
    3: lambda body: bytes(cramjam.zstd.compress(body)),
}
turn, pending, sequence, is_hello = 0, {}, {}, {}


def pack(message):
    global turn
    length, request_id, response_to, opcode = struct.unpack("<4i", message[:16])
    body = message[16:]
    hello = body[10:].startswith((b"hello\0", b"ismaster\0", b"isMaster\0")) or is_hello.pop(response_to, False)
    if opcode != 2013 or hello:
        is_hello[request_id] = hello
        return message
    turn = turn % 3 + 1
    packed = struct.pack("<iib", opcode, len(body), turn) + COMPRESS[turn](body)
    return struct.pack("<4i", 16 + len(packed), request_id, response_to, 2012) + packed


def segment(src, dst, sport, dport, flags, payload):
    here, there = (src, sport), (dst, dport)
    seq, ack = sequence.get((here, there), 1000), sequence.get((there, here), 1000)
    sequence[here, there] = seq + len(payload) + (1 if flags & 3 else 0)
    tcp = struct.pack("!HHIIBBHHH", sport, dport, seq, ack, 0x50, flags, 65535, 0, 0)
    address = lambda text: bytes(map(int, text.split(".")))
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40 + len(payload), 0, 0, 64, 6, 0, address(src), address(dst))
    return b"\2\0\0\0\0\2\2\0\0\0\0\1\x08\0" + ip + tcp + payload


with open(sys.argv[2], "wb") as out:
    out.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1))

    def write(at, packet):
        seconds, fraction = at.split(".")
        out.write(struct.pack("<IIII", int(seconds), int(fraction[:9].ljust(9, "0")), len(packet), len(packet)) + packet)

    for line in lines.splitlines():
        at, src, dst, sport, dport, payload = (line.split("\t") + [""])[:6]
        sport, dport = int(sport), int(dport)
        if dport == 27017 and ((src, sport), (dst, dport)) not in sequence:
            write(at, segment(src, dst, sport, dport, 2, b""))
            write(at, segment(dst, src, dport, sport, 0x12, b""))
        held = pending.setdefault((src, sport, dst, dport), bytearray())
        held += bytes.fromhex(payload)
        while len(held) >= 4 and len(held) >= (length := struct.unpack("<i", held[:4])[0]):
            write(at, segment(src, dst, sport, dport, 0x18, pack(bytes(held[:length]))))
            del held[:length]
