#!/usr/bin/env python3
"""Draws the results of examples/multi-tier/run.sh as figures 9 to 11 of the paper: draw.py DIR OUT.svg. Needs matplotlib."""
import json, os, sys
import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "netalytics", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False})
BLUE, RED, GREEN, ORANGE = "#4c78a8", "#e45756", "#0b6e4f", "#f2a541"
folder, out = sys.argv[1:]
hosts = dict(line.split() for line in open(os.path.join(folder, "hosts")))


def rows(name):
    return [json.loads(line) for line in open(os.path.join(folder, name + ".jsonl"))]


def ends(row):
    return hosts[row["client_ip"]], hosts[row["server_ip"]]


figure, (tiers, users, moved) = plt.subplots(1, 3, figsize=(11, 3.4), constrained_layout=True, width_ratios=[1.1, 1.3, 1])

average = {ends(row): row["avg_ns"] / 1e6 for row in rows("tiers")}
order = [("proxy", "app1"), ("proxy", "app2"), ("app1", "db"), ("app2", "db"), ("app1", "cache"), ("app2", "cache")]
colors = [RED, BLUE, RED, BLUE, RED, BLUE]
for at, (pair, color) in enumerate(zip(order, colors)):
    ms = average.get(pair)
    tiers.barh(at, ms or 0, color=color, height=0.65)
    tiers.text((ms or 0) + 0.4, at, f"{ms:.1f} ms" if ms is not None else "never asked", va="center", fontsize=8)
tiers.set(title="Each tier's response time (figure 9)", xlabel="ms on average", xlim=(0, 1.3 * max(average.values())))
tiers.set_yticks(range(len(order)), [" → ".join(pair) for pair in order])
tiers.invert_yaxis()

[hist] = [row["hist_ns"] for row in rows("users")]
most = max(bound for bound, _ in hist) / 1e6
edges = [most * n / 40 for n in range(41)]
counts = [0] * 40
for bound, count in hist:
    counts[min(39, next((n for n in range(40) if bound / 1e6 <= edges[n + 1]), 39))] += count
users.bar(edges[:-1], counts, width=most / 40, align="edge", color=BLUE)
users.set(title="What users wait for (figure 10)", xlabel="ms", ylabel="requests")

took = json.load(open(os.path.join(folder, "leaf2.json")))
seconds = (took["last_ts"] - took["first_ts"]) / 1e9
rate = {ends(row): row["sum_bytes"] / seconds / 1000 for row in rows("bytes")}
for at, app in enumerate(("app1", "app2")):
    for off, of, color in ((-0.2, "db", ORANGE), (0.2, "cache", GREEN)):
        kb = rate.get((app, of), 0)
        moved.bar(at + off, kb, width=0.38, color=color, label={"db": "mysql", "cache": "memcached"}[of] if at == 0 else None)
        moved.text(at + off, kb, f"{kb:.0f}" if kb else "0", ha="center", va="bottom", fontsize=8)
moved.set(title="Throughput of each link (figure 11)", ylabel="kB/s")
moved.set_xticks([0, 1], ["app1", "app2"])
moved.legend(fontsize=8)
figure.savefig(out, metadata={"Date": None})
