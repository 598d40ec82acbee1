#!/usr/bin/env python3
"""Draws the results of examples/pages/run.sh as figures 12 to 15 of the paper: draw.py DIR OUT.svg. Needs matplotlib."""
import json, os, sys
import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter, LogLocator

plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "netalytics", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False})
COLORS = ["#4c78a8", "#e45756", "#0b6e4f", "#f2a541", "#7b5ea7", "#8c6d46"]
folder, out = sys.argv[1:]


def rows(name):
    return [json.loads(line) for line in open(os.path.join(folder, name + ".jsonl"))]


def column(row, name):
    return next(value for key, value in row.items() if key.startswith(name))


def histogram(axes, buckets, edges, **words):
    """Merges the counts of buckets with a width of 1/64 into wider buckets."""
    counts = [0] * (len(edges) - 1)
    for bound, count in buckets:
        at = next((n for n in range(len(counts)) if bound / 1e6 <= edges[n + 1]), len(counts) - 1)
        counts[at] += count
    axes.bar(edges[:-1], counts, width=[b - a for a, b in zip(edges, edges[1:])], align="edge", **words)


def steps(axes, cdf, **words):
    axes.step([0] + [bound / 1e6 for bound, _ in cdf], [0] + [share for _, share in cdf], where="post", **words)


def decades(axes):
    """Milliseconds in numbers at a logarithmic axis."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1,)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda ms, _: f"{ms:g}"))


figure = plt.figure(figsize=(11, 9), constrained_layout=True)
top, bottom = figure.subfigures(2, 1, height_ratios=(3, 6))
clients, pages, bug = top.subplots(1, 3)
hist = column(rows("clients")[0], "hist")
most = max(bound for bound, _ in hist) / 1e6
histogram(clients, hist, [most * n / 40 for n in range(41)], color="#4c78a8")
clients.set(title="Response times of all pages (figure 12)", xlabel="ms", ylabel="connections")
of_page = {row["path"]: column(row, "cdf") for row in rows("pages")}
for color, (path, cdf) in zip(COLORS, of_page.items()):
    steps(pages, cdf, color=color, label=path)
pages.set(title="By page (figure 13)", xlabel="ms", ylabel="share up to it", ylim=0)
decades(pages)
pages.legend(fontsize=7)
for color, path in (("#0b6e4f", "/overdue"), ("#e45756", "/overdue-bug")):
    steps(bug, of_page[path], color=color, label=path)
bug.set(title="With and without a mistake (figure 14)", xlabel="ms", ylabel="share up to it", xlim=0, ylim=0)
bug.legend(fontsize=8)
# A panel for each statement: their bars would hide each other.
edges = [0.1 * 10 ** (n / 8) for n in range(29)]
statements = sorted(rows("statements"), key=lambda row: sum(bound * count for bound, count in column(row, "hist")) / sum(count for _, count in column(row, "hist")))
panels = bottom.subplots(len(statements), 1, sharex=True)
bottom.suptitle("Single statements (figure 15)", fontsize=10)
for axes, color, row in zip(panels, COLORS, statements):
    histogram(axes, column(row, "hist"), edges, color=color)
    axes.set_title(row["fingerprint"] if len(row["fingerprint"]) < 130 else row["fingerprint"][:128] + " …", fontsize=7, loc="left", pad=2)
    axes.set_ylabel("statements", fontsize=8)
decades(panels[-1])
panels[-1].set_xlabel("ms")
figure.savefig(out, metadata={"Date": None})
