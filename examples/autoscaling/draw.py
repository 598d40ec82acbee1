#!/usr/bin/env python3
"""Draws the results of examples/autoscaling/run.sh as figures 16 and 17 of the paper: draw.py DIR OUT.svg. Needs matplotlib."""
import json, os, sys
from datetime import datetime
import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "netalytics", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False})
COLORS = ["#4c78a8", "#e45756", "#0b6e4f", "#f2a541", "#7b5ea7", "#8c6d46"]
folder, out = sys.argv[1:]


def rows(name):
    return [json.loads(line) for line in open(os.path.join(folder, name + ".jsonl"))]


def table(name):
    return [line.rstrip("\n").split("\t") for line in open(os.path.join(folder, name))]


def seconds(value):
    """Nanoseconds since 1970, or a time as text."""
    text = str(value)
    return int(text) / 1e9 if text.isdigit() else datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


load = table("load.tsv")
begun = float(load[0][0])
last = int(float(load[-1][0]) - begun) + 1
pages, servers, decisions = rows("pages"), rows("servers"), rows("decisions")[::-1]
at = lambda row: seconds(row["window_start"]) - begun

figure, (popular, replicas, shared) = plt.subplots(3, 1, figsize=(9, 7.6), sharex=True, constrained_layout=True)

# Figure 16: the second and third page by popularity, over all windows.
total = {}
for row in pages:
    total[row["path"]] = total.get(row["path"], 0) + row["count"]
ranking = sorted(total, key=total.get, reverse=True)
for color, place in zip(COLORS, (1, 2, 9)):
    page, counts = ranking[place], {}
    for row in pages:
        if row["path"] == page:
            counts[int(at(row))] = row["count"]
    name = {1: "second", 2: "third", 9: "tenth"}[place]
    popular.step(range(last), [counts.get(second, 0) for second in range(last)], where="post", color=color, label=f"{page}, {name} of all")
popular.set(title="Popularity of three pages over time, a synthetic trace (figure 16)", ylabel="requests a second", ylim=0)
popular.legend(fontsize=8, loc="upper right")

# Figure 17: decisions and their effect.
known, times, levels = {}, {page: [0.0] for page in ranking[:10]}, {page: [1] for page in ranking[:10]}
used = [(0.0, 1)]
for decision in decisions:
    when = max(0.0, seconds(decision["decided_ns"]) - begun)
    used.append((when, len(decision["servers"])))
    for change in decision["changes"]:
        if change["group"] in times:
            times[change["group"]].append(when)
            levels[change["group"]].append(change["to"])
for n, page in enumerate(times):
    # Overlapping lines are drawn side by side.
    shift = (n - 4.5) * 0.03
    replicas.step(times[page] + [last], [level + shift for level in levels[page] + levels[page][-1:]], where="post", color="#9aa7b5", lw=1, label="replicas of each hot page" if n == 0 else None)
replicas.step([when for when, _ in used] + [last], [n for _, n in used + used[-1:]], where="post", color="#e45756", lw=2, label="web servers used")
replicas.set(title="What was decided", ylabel="how many", yticks=[0, 1, 2, 3], ylim=(0, 3.5))
replicas.legend(fontsize=8, loc="upper right")

for color, address in zip(COLORS, sorted({row["server_ip"] for row in servers})):
    counts = {int(at(row)): row["count"] for row in servers if row["server_ip"] == address}
    shared.step(range(last), [counts.get(second, 0) for second in range(last)], where="post", color=color, label=f"web server {address}")
shared.set(title="Load of the web servers, as seen at the proxy (figure 17)", ylabel="requests a second", xlabel="seconds", ylim=0)
shared.legend(fontsize=8, loc="upper right")
figure.savefig(out, metadata={"Date": None})
