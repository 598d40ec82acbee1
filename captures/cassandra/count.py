"""Counts the requests of client.jsonl by command, error, and compression, as query-requests.txt does:
captures/cassandra/count.py < client.jsonl > expected-requests.jsonl"""
import collections
import json
import sys

ERRORS = {0x1000: "unavailable", 0x2000: "syntax_error", 0x2200: "invalid", 0x2400: "already_exists", 0x2500: "unprepared"}
counts = collections.Counter()
for line in sys.stdin:
    row = json.loads(line)
    command = row["message"].removesuffix("Message").lower()
    # In version 5, STARTUP and its response precede the frames; before, the response is compressed.
    compression = row.get("compression") if command != "startup" or row["version"] < 5 else None
    counts[command, ERRORS.get(row.get("error_code")), compression] += 1
for (command, error, compression), count in sorted(counts.items(), key=lambda item: [name or "" for name in item[0]]):
    print(json.dumps({
        "processor": "group-count",
        "command": command,
        "error": error,
        "compression": compression,
        "count": count,
        "approximate": False,
        "error_bound": None,
        "lost": None,
    }, separators=(",", ":")))
