"""Contents of in.pcap, from a separate, simple, slow reader for captures without losses.

Prints what netalytics has to answer to query-NAME.txt: `python3 expected.py in.pcap NAME`, for commands (how many of each),
times (the largest response time) and bytes (the sums of the lengths of requests, and of replies).
"""

import collections
import json
import struct
import sys


def packets(path):
    data = open(path, "rb").read()
    at = 24
    while at < len(data):
        seconds, micros, length, _ = struct.unpack_from("<IIII", data, at)
        yield (seconds * 10**9 + micros * 1000, data[at + 16 : at + 16 + length])
        at += 16 + length


def streams(path):
    """By the client's port: bytes of both directions, with the time of each."""
    flows = collections.OrderedDict()
    for time, packet in packets(path):
        ip = packet[14:]
        tcp = ip[(ip[0] & 15) * 4 : struct.unpack_from(">H", ip, 2)[0]]
        source, target, seq = struct.unpack_from(">HHI", tcp)
        to_server = target == 6379
        flow = flows.setdefault(source if to_server else target, [{}, {}])
        begin = seq + (1 if tcp[13] & 2 else 0)
        side = flow[0 if to_server else 1]
        for i, byte in enumerate(tcp[(tcp[12] >> 4) * 4 :]):
            side.setdefault(begin + i, (time, byte))
    for flow in flows.values():
        yield [([time for _, (time, _) in sorted(side.items())], bytes(byte for _, (_, byte) in sorted(side.items()))) for side in flow]


def value(data, at):
    """The value at `at`, and the position of its end."""
    end = data.index(b"\r\n", at)
    kind, text = data[at : at + 1], data[at + 1 : end]
    at = end + 2
    if kind in b"$=!":
        n = int(text)
        return (None, at) if n < 0 else (data[at : at + n], at + n + 2)
    if kind in b"*~>%|":
        items = []
        for _ in range(max(int(text), 0) * (2 if kind in b"%|" else 1)):
            item, at = value(data, at)
            items.append(item)
        return (items, at)
    return (text, at)


def requests(data):
    at = 0
    while at < len(data):
        if data[at : at + 1] == b"*":
            items, end = value(data, at)
        else:
            end = data.index(b"\n", at) + 1
            items = data[at:end].split()
        yield [item.upper() for item in items[:3]], len(items), at, end
        at = end


def replies(data):
    at = 0
    while at < len(data):
        item, end = value(data, at)
        yield data[at : at + 1], item, at, end
        at = end


def transactions(path):
    """Command, request length, reply length, and response time; None if missing."""
    for (asked, question), (told, answer) in streams(path):
        answers = collections.deque()
        for kind, item, at, end in replies(answer):
            name = item[0] if isinstance(item, list) and item else b""
            if name in (b"message", b"pmessage", b"invalidate"):
                yield name.upper(), None, end - at, None
            else:
                answers.append((at, end))
        silent = off = False
        for items, n, at, end in requests(question):
            if items[:2] == [b"CLIENT", b"REPLY"]:
                off = items[2] == b"OFF"
                silent = items[2] == b"SKIP"
                answered = items[2] == b"ON"
            else:
                answered = not (silent or off)
                silent = False
            if not answered:
                yield items[0], end - at, None, None
                continue
            begin, last = answers.popleft()
            # A subscription is confirmed for each channel; both that were subscribed to by name end.
            for _ in range(n - 2 if items[0] == b"SUBSCRIBE" else 1 if items[0] == b"UNSUBSCRIBE" else 0):
                last = answers.popleft()[1]
            yield items[0], end - at, last - begin, told[begin] - asked[end - 1]
        assert not answers


def main():
    path, query = sys.argv[1:]
    rows = collections.defaultdict(list)
    for command, *numbers in transactions(path):
        rows[command.decode()].append(numbers)

    def show(processor, name, value):
        for command, found in sorted(rows.items()):
            result = value(found)
            if result is not None or name.startswith("sum"):
                row = {"processor": processor, "command": command, name: result}
                row |= {"approximate": False, "error_bound": None, "lost": None}
                print(json.dumps(row, separators=(",", ":")))

    def total(i):
        return lambda found: sum(row[i] for row in found if row[i] is not None) or None

    if query == "commands":
        show("group-count", "count", len)
    elif query == "times":
        show("group-max", "max_ns", lambda found: max((row[2] for row in found if row[2] is not None), default=None))
    elif query == "bytes":
        show("group-sum", "sum_bytes", total(0))
        show("group-sum#2", "sum_bytes", total(1))


main()
