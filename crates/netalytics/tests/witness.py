"""Computes from raw tuples what processors should have said, and compares: witness.py NETALYTICS SCRATCH_DIR CAPTURE...

Knows nothing of the engine: JSON lines of `PARSE x` and a few lines of arithmetic. A question is a raw query, the
processor's query over the same tuples, and a function from tuples to rows. Each is asked of the capture with one worker
and with three, and of a recording of the tuples. Ends with what disagrees, and exit code 1.
"""

import itertools
import json
import math
import pathlib
import subprocess
import sys

SECOND = 1_000_000_000


def ask(program, query, source, *flags):
    command = [program, "query", query, "-r", source, "--format", "jsonl", "-q", *flags]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return [json.loads(line) for line in lines]


def groups(tuples, *columns):
    """Tuples by the values of columns, in the order of these, null first."""
    key = lambda t: tuple(t[c] for c in columns)
    order = lambda k: tuple((v is not None, v if not isinstance(v, str) else v.encode()) for v in k)
    table = {}
    for t in tuples:
        table.setdefault(key(t), []).append(t)
    return [(k, table[k]) for k in sorted(table, key=order)]


def windows(tuples, length):
    table = {}
    for t in tuples:
        table.setdefault(t["ts_end"] // length * length, []).append(t)
    return sorted(table.items())


def values(tuples, column):
    return [t[column] for t in tuples if t[column] is not None]


def total(tuples, column):
    known = values(tuples, column)
    return sum(known) if known else None


def ratio(tuples, known, true):
    outcomes = [true(t) for t in tuples if known(t)]
    return sum(outcomes) / len(outcomes) if outcomes else None


def quantile(tuples, column, q):
    known = sorted(values(tuples, column))
    return known[max(math.ceil(q * len(known)), 1) - 1] if known else None


def part(some, whole):
    return some / whole if some is not None and whole else None


def descending(rows, column, first=lambda row: ()):
    """Null last, as it is less than everything; equal ones stay as they are."""
    return sorted(rows, key=lambda r: (r[column] is None, -(r[column] or 0)))


def slowest_pages(tuples):
    timed = [t for t in tuples if t["response_time_ns"] is not None]
    rows = []
    for (page,), of in groups(timed, "url_template"):
        times = values(of, "response_time_ns")
        rows.append({"url_template": page, "count": len(of), "max_ns": max(times), "avg_ns": sum(times) / len(times)})
    return descending([r for r in rows if r["count"] >= 5], "avg_ns")[:3]


def shares_of_bytes(tuples):
    rows = []
    for (host,), of in groups(tuples, "client_ip"):
        row = {"client_ip": host, "count": len(of)}
        for column in ["request_bytes", "response_bytes"]:
            row[f"sum_{column}"] = total(of, column)
            row[f"share_{column}"] = part(total(of, column), total(tuples, column))
        rows.append(row)
    # HAVING and ORDER BY: a minimum of response bytes per request, the largest sum of both first; null matches no comparison.
    sums = lambda row: [row["sum_request_bytes"], row["sum_response_bytes"]]
    rows = [r for r in rows if None not in sums(r) and r["sum_response_bytes"] // r["count"] >= 20]
    return sorted(rows, key=lambda r: -sum(sums(r)))


def errors_by_window(tuples):
    rows = []
    known = lambda t: t["status"] is not None
    for start, of_window in windows(tuples, SECOND // 2):
        window = []
        for (page,), of in groups(of_window, "path"):
            window.append({
                "window_start": start,
                "path": page,
                "failed": ratio(of, known, lambda t: t["status"] >= 500),
                "refused": ratio(of, known, lambda t: 400 <= t["status"] < 500),
                "share": len(of) / len(of_window),
            })
        window = [r for r in window if (r["failed"] or 0) > 0 or (r["refused"] or 0) > 0]
        rows += sorted(window, key=lambda r: r["path"].encode(), reverse=True)[:2]
    return rows


def busiest_by_window(tuples):
    rows = []
    for start, of_window in windows(tuples, SECOND):
        bytes_of_window = total(of_window, "packet_bytes")
        window = []
        for (host,), of in groups(of_window, "src_ip"):
            window.append({
                "window_start": start,
                "src_ip": host,
                "rate": float(len(of)),
                "throughput_bytes": float(total(of, "packet_bytes")),
                "share_packet_bytes": part(total(of, "packet_bytes"), bytes_of_window),
            })
        rows += [dict(r, rank=i + 1) for i, r in enumerate(descending(window, "throughput_bytes")[:2])]
    return rows


def hits(tuples):
    rows = []
    for (command, client), of in groups(tuples, "command", "client_ip"):
        rows.append({
            "command": command,
            "client_ip": client,
            "hits": ratio(of, lambda t: t["hit"] is not None, lambda t: t["hit"]),
            "slow": ratio(of, lambda t: t["response_time_ns"] is not None, lambda t: t["response_time_ns"] > 50_000),
            "p90_ns": quantile(of, "response_time_ns", 0.9),
        })
    return [r for r in rows if r["hits"] is not None]


def heaviest_statements(tuples):
    rows = []
    for (statement,), of in groups(tuples, "fingerprint"):
        row = {"fingerprint": statement, "share": len(of) / len(tuples)}
        for column in ["response_bytes", "response_time_ns"]:
            known = values(of, column)
            row[f"avg_{column}"] = sum(known) / len(known) if known else None
            row[f"max_{column}"] = max(known, default=None)
        rows.append(row)
    return [dict(r, rank=i + 1) for i, r in enumerate(descending(rows, "max_response_time_ns")[:4])]


QUESTIONS = [
    (
        "PARSE http",
        "PROCESS (diff-group-count-max-avg: group=url_template) HAVING count >= 5 ORDER BY avg DESC LIMIT 3 ROWS",
        slowest_pages,
    ),
    (
        "PARSE http",
        """PROCESS (group-count-sum-share: group=client_ip, value=request_bytes, response_bytes)
           HAVING sum_response_bytes / count >= 20 ORDER BY sum_request_bytes + sum_response_bytes DESC""",
        shares_of_bytes,
    ),
    (
        "PARSE http",
        """PROCESS (group-ratio-share: group=path, w=500ms, of=(status >= 500) AS failed, (status >= 400 and status < 500) AS refused)
           HAVING failed > 0 or refused > 0 ORDER BY path DESC LIMIT 2 ROWS""",
        errors_by_window,
    ),
    (
        "PARSE packet",
        "PROCESS (group-rate-throughput-share-top-k: group=src_ip, value=packet_bytes, k=2, by=throughput, w=1s)",
        busiest_by_window,
    ),
    (
        "PARSE memcached",
        """PROCESS (group-ratio-quantile: group=command, client_ip, q=0.9, of=(hit = true) AS hits, (response_time > 50us) AS slow)
           HAVING hits is not null""",
        hits,
    ),
    (
        "PARSE mysql_query",
        """PROCESS (group-share-avg-max-top-k: group=fingerprint, k=4, by=max_response_time_ns,
           value=response_bytes, response_time)""",
        # The share of tuples needs a processor without value=: here it is that of the values.
        lambda tuples: [
            {k: v for k, v in row.items() if k != "share"} for row in heaviest_statements(tuples)
        ],
    ),
    (
        "PARSE mysql_query",
        "PROCESS (group-share-max-top-k: group=fingerprint, k=4, by=max)",
        lambda tuples: [
            {k: row[k] for k in ["fingerprint", "share", "rank"]} for row in heaviest_statements(tuples)
        ],
    ),
]


def agree(got, want, name):
    if want is None or got is None or isinstance(want, str):
        return got == want
    # Quantiles are read from buckets; the others are rounded once or twice.
    return abs(got - want) <= abs(want) * (1 / 128 if name.startswith("p90") else 1e-12)


def compare(what, got, want):
    if len(got) != len(want):
        return [f"{what}: {len(got)} rows, and {len(want)} are right\n got {got}\nwant {want}"]
    wrong = []
    for place, (a, b) in enumerate(zip(got, want)):
        for name, value in b.items():
            if not agree(a.get(name), value, name):
                wrong.append(f"{what}: row {place}: {name} is {a.get(name)}, and {value} is right")
    return wrong


def main(program, scratch, captures):
    wrong, rows = [], 0
    for (n, capture), (i, (parse, process, compute)) in itertools.product(enumerate(captures), enumerate(QUESTIONS)):
        tuples = ask(program, parse, capture)
        if not tuples:
            continue
        want = compute(tuples)
        recording = str(pathlib.Path(scratch) / f"{n}-{i}")
        record = [program, "record", parse, "-r", capture, "-o", recording, "-q"]
        subprocess.run(record, check=True, capture_output=True)
        query = f"{parse} {process}"
        for source, flags in [(capture, ["--workers", "1"]), (capture, ["--workers", "3"]), (recording, [])]:
            wrong += compare(f"{query} of {source} {flags}", ask(program, query, source, *flags), want)
        rows += len(want)
    print("\n".join(wrong), file=sys.stderr)
    print(rows)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
