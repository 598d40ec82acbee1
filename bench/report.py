"""Renders results.json as a page: results with target, limit, and peer, met or missed."""

RING_BAR, WORKERS_BAR, FLAT_BAR = 0.6, 1.8, 1.1
RATES = {"Mpps": "mpps", "Gb/s": "gbps", "M/s": "tuples_per_us"}


def judged(met):
    return "met" if met else "**missed**"


def rate(row):
    return row[RATES[row["unit"]]]


def peers(row):
    return ", ".join(f"{p['name']} {p['ratio']:.{0 if p['ratio'] >= 10 else 1}f} ×" for p in row["peers"]) or "–"


def line(row):
    bar = f"{row['bar']:g}: {judged(rate(row) >= row['bar'])}" if row["bar"] else "–"
    limit = f"{row['of_limit']:.0%}" if "of_limit" in row else "–"
    per_packet = f"{row['instructions'] / row['packets']:.0f}" if row["instructions"] else "–"
    memory = f"{row['mib']:.0f}" + ("" if row["mib"] < row["mib_max"] else f" (**over {row['mib_max']}**)")
    exact = "" if row.get("truth", row["tuples"]) == row["tuples"] else f" (truth: {row['truth']:,})"
    return f"| {row['capture']} | {row['job']} | {rate(row):.2f} {row['unit']} | {bar} | {limit} | {row['tuples']:,}{exact} | {per_packet} | {memory} | {peers(row)} |"


def jobs(results):
    yield "| capture | job | rate | required | of the limit | tuples | instructions per packet | peak MiB | CPU time of peers, relative |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    yield from map(line, results["jobs"])
    for row in results["jobs"]:
        for name, times in row["bars"].items():
            for p in row["peers"]:
                if p["name"] == name:
                    yield f"\n{row['capture']}, {row['job']}: {p['ratio']:.0f} × {name}, at least {times} ×: {judged(p['ratio'] >= times)}."


def workers(results):
    rows = [r for r in results["jobs"] if any((r.get("workers") or {}).values())]
    if not rows:
        return
    counts = sorted(rows[0]["workers"], key=int)
    yield "\n## Workers\n\nWall time, as many cores as workers.\n"
    yield "| capture | job | " + " | ".join(f"{n}: Mpps" for n in counts) + f" | gain (at least {WORKERS_BAR} ×) |\n| --- | --- |" + " --- |" * (len(counts) + 1)
    for row in rows:
        walls = [row["workers"][n] for n in counts]
        if None not in walls:
            gain = walls[0] / walls[-1]
            yield f"| {row['capture']} | {row['job']} | " + " | ".join(f"{row['packets'] / w / 1e6:.2f}" for w in walls) + f" | {gain:.2f} ×: {judged(gain >= WORKERS_BAR)} |"


def memory(results):
    for row in results.get("flat", []):
        mib = row["resident_mib"]
        if len(mib) > 1:
            yield (f"\n## Memory over a long run\n\n{row['capture']} {row['rounds']} times through one process, resident MiB at every tenth: "
                   f"{', '.join(f'{m:g}' for m in mib)}; flat: {judged(mib[-1] <= mib[0] * FLAT_BAR)}.")


def queues(results):
    loads = {"one": "single 4-byte integers", "batch": "in batches of 64", "reference": "64-byte messages by reference"}
    best = {(r["queue"], r["load"]): r["median"] for r in results["queues"]}
    if not best:
        return
    yield "\n## Rings between two threads\n\nMillion items per second, medians. `limit` is a textbook ring that only spins.\n"
    yield "| queue | " + " | ".join(loads.values()) + " |\n| --- | --- | --- | --- |"
    for queue in dict.fromkeys(r["queue"] for r in results["queues"]):
        yield f"| {queue} | " + " | ".join(f"{best[queue, load] / 1e6:.1f}" if (queue, load) in best else "–" for load in loads) + " |"
    ratios = [best["ours", load] / best["limit", load] for load in loads if ("limit", load) in best]
    if ratios:
        yield "| ours of the limit | " + " | ".join(f"{r:.0%}: {judged(r >= RING_BAR)}" for r in ratios) + " |"


def fabric(results):
    rows = results["fabric"]
    for pattern, what in (("ring", "round a ring of threads"), ("mesh", "from all to all")):
        threads = sorted({r["threads"] for r in rows if r["pattern"] == pattern})
        if threads:
            yield f"\nMillion messages a second {what}, by threads:\n\n| fabric | " + " | ".join(map(str, threads)) + " |\n| --- |" + " --- |" * len(threads)
            for name in dict.fromkeys(r["fabric"] for r in rows):
                rates = {r["threads"]: r["median"] / 1e6 for r in rows if (r["fabric"], r["pattern"]) == (name, pattern)}
                yield f"| {name} | " + " | ".join(f"{rates[t]:.1f}" if t in rates else "–" for t in threads) + " |"


def limits(results):
    rows = results["limits"]
    captures = [c for c in dict.fromkeys(r["capture"] for r in rows)]
    yield "\n## Limits of this machine\n\nMillion packets per second, one core, capture in huge-page memory.\n"
    yield "| pass | " + " | ".join(captures) + " |\n| --- |" + " --- |" * len(captures)
    for name in dict.fromkeys(r["limit"] for r in rows):
        yield f"| {name} | " + " | ".join(f"{r['mpps']:.1f}" for r in rows if r["limit"] == name) + " |"
    yield "\n" + "; ".join(f"{r['memory']} {r['gb_per_s']} GB/s" if "gb_per_s" in r else f"{r['memory']} {r['dependent_ns']} ns, independent {r['independent_ns']} ns" for r in results["memory"]) + "."


def markdown(title, results):
    m = results["machine"]
    parts = [f"# {title}\n", f"Commit {m['commit']}; {m['cpu']}, {m['cores']} cores, Linux {m['kernel']}, {m['rustc']}; load {m['load']:.1f} when it began. "
             f"One core, whole process, medians of {m['runs']} runs after one warm-up; `bench/run.py`." + (" **A quick run: one round of everything.**" if m["quick"] else "") + "\n"]
    for part in (jobs, workers, memory, queues, fabric, limits):
        parts += part(results)
    return "\n".join(parts) + "\n"
