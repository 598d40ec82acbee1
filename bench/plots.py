#!/usr/bin/env python3
"""Draws docs/plots from the raw figures of a run: bench/plots.py bench/runs/DATE [docs/plots]. Needs matplotlib."""
import json, os, sys
import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "netalytics", "font.family": "sans-serif", "font.size": 10, "axes.spines.top": False,
                     "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.25, "legend.frameon": False, "figure.facecolor": "white"})
OURS, LIMIT, PEER, PAPER = "#0b6e4f", "#9aa0a6", "#4c78a8", "#c8553d"


def save(figure, folder, name):
    figure.savefig(os.path.join(folder, name + ".svg"), bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)


def readable(*axes):
    """Numbers instead of powers at logarithmic axes: 1, 2, 5 of a decade, in long ranges only 1."""
    for axis in axes:
        low, high = axis.get_view_interval()
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 60 * low else (1,)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
        axis.set_minor_locator(NullLocator())


def short(value):
    """Three significant digits, without an exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}" if value >= 0.001 else f"{value:.5f}"


def points(axes, places, values, best, colors):
    """Medians with whiskers to the best run. A logarithmic axis has no zero, where bars would begin."""
    for place, value, most, color in zip(places, values, best, colors):
        axes.errorbar([value], [place], xerr=[[0], [max(0, most - value)]], fmt="o", markersize=5, color=color, capsize=3)


def packet_sizes(results, folder):
    """NetAlytics' figure 5: a parser's rate by packet size, one core."""
    figure, axes = plt.subplots(figsize=(7, 4))
    for parser, color, mark in (("tcp_conn_time", OURS, "o"), ("http_get", PEER, "s")):
        points = [(r["bytes"], r["gbps"]) for r in results["sizes"] if r["parser"] == parser]
        if points:
            axes.plot(*zip(*points), mark + "-", color=color, label=parser)
    for gbps in (10, 40):
        axes.axhline(gbps, color=LIMIT, linestyle="--", linewidth=1)
        axes.annotate(f"{gbps} Gb/s line", (1024, gbps), textcoords="offset points", xytext=(0, -4), ha="right", va="top", color="#5f6368")
    axes.plot([128, 256], [8.45 * 124 * 8 / 1000, 4.53 * 252 * 8 / 1000], "x", color=PAPER, markersize=8, label="the paper: tcp_conn_time at 128, http_get at 256 B")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks([64, 128, 256, 512, 1024], ["64", "128", "256", "512", "1024"])
    axes.set_yticks([1, 2, 5, 10, 20, 50, 100], ["1", "2", "5", "10", "20", "50", "100"])
    axes.set_ylim(min([r["gbps"] for r in results["sizes"]] + [5]) / 1.5, 150)
    axes.minorticks_off()
    axes.set(xlabel="bytes a packet", ylabel="Gb/s on one core", title="Parsers by packet size")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncol=3, fontsize=9)
    save(figure, folder, "packet-size")


def workers(results, folder):
    """The packet-level paper's figure 4: rate by number of replicas."""
    rows = [r for r in results["jobs"] if r.get("workers") and None not in r["workers"].values()]
    if not rows:
        return
    figure, axes = plt.subplots(figsize=(7, 4.2))
    counts = sorted(rows[0]["workers"], key=int)
    for row in rows:
        gains = [row["workers"][counts[0]] / row["workers"][n] for n in counts]
        axes.plot([int(n) for n in counts], gains, "o-", alpha=0.8, label=f"{row['capture']}: {row['job']}")
    axes.plot([int(n) for n in counts], [int(n) for n in counts], "--", color=LIMIT, label="linear")
    axes.set_xticks([int(n) for n in counts])
    axes.set(xlabel="workers, a core each", ylabel="times the rate of one worker", title="Rate by workers")
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    save(figure, folder, "workers")


def queues(results, folder):
    """The packet-level paper's figure 3: items per second between two threads."""
    loads = {"one": "single 4-byte integers", "batch": "4-byte integers, batches of 64", "reference": "64-byte messages by reference"}
    figure, panels = plt.subplots(1, 3, figsize=(11, 3.9), sharey=True)
    names = list(dict.fromkeys(r["queue"] for r in results["queues"]))[::-1]
    for axes, (load, title) in zip(panels, loads.items()):
        rates, best = ({r["queue"]: r[which] / 1e6 for r in results["queues"] if r["load"] == load} for which in ("median", "best"))
        measured = [n for n in names if n in rates]
        colors = [OURS if n == "ours" else LIMIT if n == "limit" else PEER for n in measured]
        points(axes, [names.index(n) for n in measured], [rates[n] for n in measured], [best[n] for n in measured], colors)
        axes.set_yticks(range(len(names)), names)
        for at, n in enumerate(names):
            if n in rates:
                axes.annotate(short(rates[n]), (best[n], at), textcoords="offset points", xytext=(6, 0), va="center", fontsize=8)
        axes.set_xscale("log")
        axes.set_xlim(min(rates.values()) / 2, max(rates.values()) * 5)
        readable(axes.xaxis)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("million per second")
    save(figure, folder, "queues")


def fabric(results, folder):
    """The Chronicle paper's figure 4: messages per second by threads."""
    figure, panels = plt.subplots(1, 2, figsize=(10, 3.8))
    for axes, (pattern, title) in zip(panels, (("ring", "round a ring of threads"), ("mesh", "from all to all"))):
        for name, color, mark in (("ours", OURS, "o"), ("tokio mpsc", PEER, "s"), ("Go channels", PAPER, "^")):
            rows = [r for r in results["fabric"] if (r["fabric"], r["pattern"]) == (name, pattern)]
            medians = [r["median"] / 1e6 for r in rows]
            whiskers = [[0] * len(rows), [r["best"] / 1e6 - median for r, median in zip(rows, medians)]]
            axes.errorbar([r["threads"] for r in rows], medians, yerr=whiskers, fmt=mark + "-", capsize=3, color=color, label=name)
        axes.set(xlabel="threads (on two cores)", ylabel="million messages per second", title=title)
        axes.set_ylim(bottom=0)
    panels[0].legend(loc="best")
    save(figure, folder, "fabric")


def peers(results, folder):
    """CPU time of peers relative to ours on the same capture, log scale."""
    jobs = [j for j in results["jobs"] if j["peers"] or "limit_mpps" in j]
    bars, ticks, at = [], [], 0
    for job in jobs:
        entries = [("ours", job["mpps"], OURS)] + [(p["name"], p["mpps"], PEER) for p in job["peers"]]
        if "limit_mpps" in job:
            entries.insert(0, ("limit", job["limit_mpps"], LIMIT))
        ticks.append((at, f"{job['capture']}: {job['job']}"))
        for name, mpps, color in entries:
            at += 1
            bars.append((at, name, mpps, color))
        at += 1.6
    figure, axes = plt.subplots(figsize=(8.5, 0.19 * at + 1))
    points(axes, *zip(*[(place, mpps, mpps, color) for place, _, mpps, color in bars]))
    left = min(b[2] for b in bars) / 1.6
    for place, name, mpps, _ in bars:
        axes.annotate(f"{name}  {short(mpps)}", (mpps, place), textcoords="offset points", xytext=(6, 0), va="center", fontsize=7.5)
    for place, title in ticks:
        axes.annotate(title, (left, place), textcoords="offset points", xytext=(2, 0), va="center", fontsize=8.5, fontweight="bold")
    axes.set_xscale("log")
    axes.set_xlim(left, max(b[2] for b in bars) * 8)
    readable(axes.xaxis)
    axes.set_ylim(at, -1.2)
    axes.set_yticks([])
    axes.grid(axis="y", visible=False)
    axes.set(xlabel="million packets per second of CPU time, one core (logarithmic)", title="The same captures, the same run")
    save(figure, folder, "peers")


def accuracy(results, folder):
    """Found and wrong results by missing packets, ours and others'."""
    cells = [c for c in results["cells"] if c["impairment"] == "none" or c["impairment"].startswith("loss=")]
    names = [n for n in dict.fromkeys(c["capture"] for c in cells) if n in LARGE]
    if not names:
        return
    floor, peers = 0.002, {"Packetbeat": PAPER, "tshark": PEER}
    for what, title in (("found", "Found: both halves with correct values"), ("wrong", "Wrong: an incorrect value without a mark")):
        figure, panels = plt.subplots(2, 3, figsize=(10.5, 6), sharex=True, sharey=True)
        for axes, name in zip(panels.flat, names):
            ours = [c for c in cells if c["capture"] == name]
            x = [max(100 * c["loss"], floor) for c in ours]
            share = lambda n, c: 100 * n / c["transactions"]
            if what == "found":
                axes.plot(x, [share(c["findable"], c) for c in ours], "--", color=LIMIT, label="findable")
                axes.plot(x, [share(c["exact"], c) for c in ours], ":", color=OURS, label="ours, exact")
                axes.plot(x, [share(c["exact"] + c["marked"], c) for c in ours], "o-", color=OURS, markersize=4, label="ours")
            else:
                axes.plot(x, [share(c["wrong_pairs"] + c["contradicted"] + c["exact_with_hole"], c) for c in ours], "o-", color=OURS, markersize=4, label="ours")
            for peer, color in peers.items():
                rows = [p for p in results["peers"] if (p["peer"], p["capture"]) == (peer, name) and p["transactions"]]
                y = [share(p["exact"] + p["marked"] if what == "found" else p["wrong"], p) for p in rows]
                if rows:
                    axes.plot([100 * p["loss"] for p in rows], y, "s-", color=color, markersize=4, label=peer)
            axes.set_title(name, fontsize=10)
            axes.set_xscale("log")
            axes.set_xticks([floor, 0.01, 0.1, 1, 10], ["0", "0.01", "0.1", "1", "10"])
            axes.minorticks_off()
        for axes in panels[1]:
            axes.set_xlabel("% of the packets missing")
        for axes in panels[:, 0]:
            axes.set_ylabel("% of the transactions")
        if what == "found":
            panels[0][0].set_ylim(-2, 102)
        else:
            # Without wrong results, the axis still ends at 1 %.
            panels[0][0].set_ylim(0, max(1, 1.05 * panels[0][0].get_ylim()[1]))
        handles, labels = panels[0][1].get_legend_handles_labels()
        figure.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, 0.02), ncol=5, fontsize=9)
        figure.suptitle(title, fontsize=11)
        save(figure, folder, f"accuracy-{what}")


LARGE = ("http_web", "http_api", "mysql_text", "mysql_prep", "mc_ascii", "mc_bin")
# A name's prefix before its amount, the amount's unit, and the axis label.
CURVES = [("loss-to-server=", "%", "% of the packets to servers missing"), ("loss-to-client=", "%", "% of the packets to clients missing"),
          ("bursts=", "%", "% of the packets missing, 16 in a row"), ("delay-5ms=", "%", "% of the packets 5 ms late"),
          ("skew-to-server=", "ms", "packets to servers late, ms"), ("shuffle=", "ms", "file order changed within (ms)")]


def impairments(results, folder):
    """Found results if clients wait, by amount of each damage; at the recorded rate and at 1 Gb/s on one connection."""
    colors = dict(zip(LARGE, (OURS, "#4fb286", PEER, "#9ecae9", PAPER, "#f0a58f")))
    figure, panels = plt.subplots(2, 3, figsize=(10.5, 6), sharey=True)
    for axes, (name, unit, label) in zip(panels.flat, CURVES):
        for cells, style, end in ((results["cells"], "o-", ""), (results["fast_cells"], "x:", "_one")):
            for capture in LARGE:
                of = [c for c in cells if c["capture"] == capture + end and c["impairment"].startswith(name) and c["waiting_findable"]]
                points = [(float(c["impairment"].split("=")[1].removesuffix(unit)), 100 * c["waiting_found"] / c["waiting_findable"]) for c in of]
                axes.plot(*zip(*points) if points else ([], []), style, color=colors[capture], markersize=4, label=capture + (", 1 Gb/s on one connection" if end else ""))
        amounts = sorted({x for line in axes.lines for x in line.get_xdata()})
        axes.set_xlabel(label)
        axes.set_xscale("log")
        axes.set_xticks(amounts, [f"{x:g}" for x in amounts])
        axes.minorticks_off()
    for axes in panels[:, 0]:
        axes.set_ylabel("found, % of what is findable")
    panels[0][0].set_ylim(-2, 102)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, 0.02), ncol=3, fontsize=8)
    figure.suptitle("Found, % of what is findable where clients wait, by damage", fontsize=11)
    figure.tight_layout()
    save(figure, folder, "accuracy-impairments")


NFS = {"nfs_64k": ("64 KB operations", OURS, "o"), "nfs_chronicle": ("the Chronicle paper's mix", PEER, "s"), "nfs_1byte": ("1-byte operations", PAPER, "^")}


def nfs_cores(results, folder):
    """The Chronicle paper's figures 5 and 6: Gb/s of large operations and operations per second of small ones, by cores."""
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6))
    figure.subplots_adjust(wspace=0.3)
    for axes, (name, rate, scale, unit, paper) in zip(panels, (("nfs_64k", "gbps", 1, "Gb/s", {1: 3.05, 4: 5.43}), ("nfs_1byte", "mops", 1000, "thousand operations per second", {1: 55, 8: 106}))):
        for job, mark in (("recording", "o-"), ("response times by procedure", "s--")):
            points = [(r["cores"], r[rate] * scale) for r in results["cores"] if (r["capture"], r["job"]) == (name, job)]
            axes.plot(*zip(*points), mark, color=OURS, label=job)
        axes.plot(*zip(*paper.items()), "x-", color=PAPER, label="the paper (2015)")
        one = {r["program"]: r[rate] * scale for r in results["speeds"] if r["capture"] == name and r["program"] != "ours"}
        for peer, value in one.items():
            axes.plot([1], [value], "D", color=PEER, markersize=4)
            axes.annotate(peer, (1, value), textcoords="offset points", xytext=(7, -3), fontsize=8)
        axes.set_xticks(sorted({*paper, *(r["cores"] for r in results["cores"])}))
        axes.set_yscale("log")
        readable(axes.yaxis)
        axes.set(xlabel="cores", ylabel=unit, title=NFS[name][0])
    panels[0].legend(loc="upper center", bbox_to_anchor=(1.1, -0.18), ncol=3, fontsize=9)
    save(figure, folder, "nfs-cores")


def nfs_memory(results, folder):
    """The Chronicle paper's figure 8: memory by rate, and over time at each rate."""
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
    for axes, (name, unit) in zip(panels, (("nfs_64k", "Gb/s"), ("nfs_1byte", "M operations/s"))):
        rows = [r for r in results["memory"] if r["capture"] == name and r["resident_mib"]]
        for i, row in enumerate(rows):
            taken = row["rate"] * row["wanted_seconds"] / row["seconds"]
            late = "" if taken > 0.95 * row["rate"] else f", {taken:.2g} taken"
            axes.plot(*zip(*row["resident_mib"]), color=plt.cm.viridis(i / len(rows)), label=f"{row['rate']:g} {unit}{late}")
        axes.set(xlabel="seconds", title=NFS[name][0])
        axes.legend(fontsize=8, loc="lower right")
    panels[0].set(ylabel="resident MiB", ylim=(0, 10 + max(p[1] for r in results["memory"] for p in r["resident_mib"])))
    save(figure, folder, "nfs-memory")


def nfs_loss(results, folder):
    """The Chronicle paper's figure 9: outcome of operations, and time until messages are parsed again, by dropped packets."""
    figure, panels = plt.subplots(1, 3, figsize=(12, 3.6))
    figure.subplots_adjust(wspace=0.3)
    for name, (title, color, mark) in NFS.items():
        rows = [r for r in results["losses"] if r["capture"] == name]
        x, share = [r["percent"] for r in rows], lambda r, *which: 100 * sum(r.get(w, 0) for w in which) / r["operations"]
        panels[0].plot(x, [share(r, "exact", "marked") for r in rows], mark + "-", color=color, markersize=4, label=title)
        panels[1].plot(x, [share(r, "half") for r in rows], mark + "--", color=color, markersize=4)
        panels[1].plot(x, [share(r, "lost") for r in rows], mark + "-", color=color, markersize=4)
        rows = [r for r in rows if r["recovery"]["ns"]]
        x = [r["percent"] for r in rows]
        for style, p in (("-", "50"), (":", "99")):
            panels[2].plot(x, [r["recovery"]["ns"][p] / 1e6 for r in rows], mark + style, color=color, markersize=4)
        panels[2].plot(x, [r["recovery"]["least_ns"]["50"] / 1e6 for r in rows], "--", color=LIMIT)
    panels[0].set(ylabel="% of the operations", title="Found, call and reply", ylim=(0, 102))
    panels[1].set(ylabel="% of the operations", title="One half, and nothing")
    panels[2].set(ylabel="ms", title="Time to the next parsed message", yscale="log")
    styles = [[], [("half", "--"), ("lost", "-")], [("p50", "-"), ("p99", ":"), ("p50 of the next message in the traffic", "--")]]
    for axes, names in zip(panels, styles):
        axes.set_xlabel("% of the packets dropped")
        if names:
            colors = [LIMIT if "was" in name else "black" for name, _ in names]
            axes.legend([plt.Line2D([], [], color=c, linestyle=s) for c, (_, s) in zip(colors, names)], [name for name, _ in names], fontsize=8, loc="upper left")
    panels[2].set_ylim(top=300)
    readable(panels[2].yaxis)
    panels[0].legend(fontsize=8, loc="lower left")
    save(figure, folder, "nfs-loss")


# Kinds of input models, by the end of their names.
MODEL_KINDS = (("_async", "requests always outstanding"), ("_batches", "batches of a client that waits"), ("_quoted", "messages inside bodies"),
               ("_proxied", "PROXY protocol headers"))
PROTOCOLS = {"http": OURS, "redis": PAPER, "mc_text": PEER, "mc_binary": "#9ecae9", "mc": PEER, "mysql": LIMIT, "nfs": "#8e6c8a"}


def models(results, folder):
    """Found results of the input models, by missing packets: single ones and 16 in a row."""
    figure, panels = plt.subplots(2, 2, figsize=(10, 7), sharex=True, sharey=True)
    for axes, (end, title) in zip(panels.flat, MODEL_KINDS):
        for name in sorted({c["capture"] for c in results["cells"]}):
            if not (name.endswith(end) or end == "_quoted" and name == "nfs_in_files"):
                continue
            protocol = name.removesuffix(end).removesuffix("_in_files")
            for damage, style in (("loss=", "o-"), ("bursts=", "x:")):
                cells = [c for c in results["cells"] if c["capture"] == name and c["impairment"].startswith(damage) and c["findable"]]
                points = sorted((float(c["impairment"].split("=")[1].removesuffix("%")), 100 * c["found"] / c["findable"]) for c in cells)
                label = protocol + ("" if damage == "loss=" else ", 16 in a row")
                axes.plot(*zip(*points) if points else ([], []), style, color=PROTOCOLS[protocol], markersize=4, label=label)
        axes.set_title(title, fontsize=10)
        axes.set_xscale("log")
        axes.set_xticks([0.01, 0.1, 1, 10], ["0.01", "0.1", "1", "10"])
        axes.minorticks_off()
        axes.legend(fontsize=7, loc="lower left", ncol=2)
    for axes in panels[1]:
        axes.set_xlabel("% of the packets missing")
    for axes in panels[:, 0]:
        axes.set_ylabel("found, % of what is findable")
    panels[0][0].set_ylim(-2, 102)
    figure.suptitle("Found, % of what is findable, by input model", fontsize=11)
    figure.tight_layout()
    save(figure, folder, "accuracy-models")


def load(run, name):
    path = os.path.join(run, name)
    return json.load(open(path)) if os.path.exists(path) else None


def main():
    folder = sys.argv[2] if len(sys.argv) > 2 else os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "docs", "plots")
    os.makedirs(folder, exist_ok=True)
    for name, draws in (("results.json", (packet_sizes, workers, queues, fabric, peers)), ("accuracy.json", (accuracy, impairments)), ("models.json", (models,)),
                        ("nfs.json", (nfs_cores, nfs_memory, nfs_loss))):
        results = load(sys.argv[1], name)
        for draw in draws if results else ():
            draw(results, folder)


if __name__ == "__main__":
    main()
