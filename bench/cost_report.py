"""Results of bench/cost.py as a page and plots: figures 6, 7, 8, and 10 of the SDN paper."""
import collections, statistics

from cost_modes import BY_NAME, MODES, SIZES

COLORS = {"none": "#000000", "log": "#f0a58f", "tcpdump": "#c8553d", "tshark": "#8c2d19", "onsite": "#0b6e4f", "cells": "#4fb286", "tuples": "#a1d99b", "port": "#08306b", "flow": "#2171b5",
           "ends": "#9ecae9", "psh": "#6baed6", "ackpsh": "#4c78a8", "cut512": "#e69f00", "cut128": "#b8860b", "vxlan": "#8e6bbf", "gre": "#54278f"}
MARKS = "osD^vP*X<>dhp8H1"
MTU_SHARE = 0.015  # of a port mirror's bytes, at most, for answers of 16 kB and more
LINKS = {"no switch": "no switch", "none": "one switch"}


# Student's t, 97.5 %, by degrees of freedom; beyond these the last one is slightly too large.
T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086)


def interval(values):
    """The mean of paired differences and its 95 % interval. A bootstrap of so few pairs is too narrow; one pair has no interval."""
    mean, n = statistics.fmean(values), len(values)
    half = T[min(n - 2, len(T) - 1)] * statistics.stdev(values) / n**0.5 if n > 1 else float("nan")
    return mean, mean - half, mean + half


def compared(results):
    """By mode: p99 differences of pairs at 60 %, saturated throughput as a share of that without monitoring, CPU seconds per thousand requests."""
    found = {}
    for mode in MODES:
        of = [p for p in results["pairs"] if p["mode"] == mode.name]
        if not of:
            continue
        both = lambda load, name: [(p["watched"][load][name], p["none"][load][name]) for p in of]
        cpu = lambda side, name: statistics.median(1e6 * p[side]["paced"][f"took_{name}"] / p[side]["paced"]["requests"] for p in of)
        found[mode.name] = {
            "pairs": len(of),
            "p99": interval([a - b for a, b in both("paced", "p99")]),
            "p50": interval([a - b for a, b in both("paced", "p50")]),
            "p99_none": statistics.median(b for _, b in both("paced", "p99")), "p50_none": statistics.median(b for _, b in both("paced", "p50")),
            "rate": interval([100 * (a / b - 1) for a, b in both("saturated", "rate")]),
            "load": statistics.median(p["watched"]["paced"]["rate"] for p in of),
            "switch": cpu("watched", "switch"), "switch_none": cpu("none", "switch"), "web": cpu("watched", "web"), "web_none": cpu("none", "web"), "monitor": cpu("watched", "monitor"),
        }
    return found


def sizes(results):
    """By mode and size: packets and bytes to the monitor per request."""
    return {(s["mode"], s["size"]): (s["packets"] / s["requests"], s["bytes"] / s["requests"]) for s in results["sizes"]}


def of_a_copy(results):
    """Additional switch time in nanoseconds per copied packet, by mode; none if hardly any is copied."""
    found, sent = {}, sizes(results)
    for name, c in compared(results).items():
        packets = sent.get((name, results["size"]), (0, 0))[0] if BY_NAME[name].group == "mirror" else 0
        if packets > 0.5:
            found[name] = 1e3 * (c["switch"] - c["switch_none"]) / packets
    return found


def links(results, which="link"):
    by = collections.defaultdict(list)
    for one in results.get(which, []):
        by[one["mode"], one["connections"]].append(one)
    return {at: {name: statistics.median(one[name] for one in all) for name in ("mean", "p50", "p99")} for at, all in by.items()}


def page(results):
    runs = results["load_averages"]
    lines = ["# What monitoring costs", "",
             f"{'A quick run, for verification only. ' if results['quick'] else ''}Measured {results['date']} in {results['seconds'] / 60:.0f} minutes by `bench/cost.py` with {results['version']} ({results['build']}), on {results['cores']} shared cores: "
             f"load averages {', '.join(f'{load:.1f}' for load in runs)}. Clients, server, switches and monitors share these cores: at saturation, the CPU time of a monitor is missing to the server. "
             f"Responses of {results['size']} bytes unless stated. Saturation: {results['saturation']:.0f} requests per second of 30 clients; at 60 % of it clients pause {results['pause_ms']:.2f} ms on average. "
             "[docs/cost-of-monitoring.md](../../../docs/cost-of-monitoring.md) has the conclusions.", "",
             "## Paired with no monitoring", "",
             "At 60 % of saturation: the mean difference of p99 and p50 with its 95 % interval (Student's, of paired differences), in microseconds; CPU time in microseconds per request (median). At saturation: throughput relative to no monitoring, in %.", "",
             "| | pairs | p99 | includes 0 | p50 | requests/s | all switches: without, with | nginx: without, with | monitor | saturated, % |", "|---|---|---|---|---|---|---|---|---|---|"]
    for name, c in compared(results).items():
        told = lambda what, digits: f"{c[what][0]:+.{digits}f} " + (f"({c[what][1]:+.{digits}f} … {c[what][2]:+.{digits}f})" if c["pairs"] > 1 else "(one pair)")
        holds = ("yes" if c["p99"][1] <= 0 <= c["p99"][2] else "no") if c["pairs"] > 1 else "–"
        lines.append(f"| {BY_NAME[name].label} | {c['pairs']} | {told('p99', 0)} of {c['p99_none']:.0f} | {holds} | {told('p50', 0)} of {c['p50_none']:.0f} | {c['load']:.0f} | "
                     f"{c['switch_none']:.0f}, {c['switch']:.0f} | {c['web_none']:.0f}, {c['web']:.0f} | {c['monitor']:.0f} | {told('rate', 1)} |")
    copy = ", ".join(f"{BY_NAME[name].label} {ns:.0f}" for name, ns in of_a_copy(results).items())
    lines += ["", f"Switch time per copied packet in nanoseconds, as in `[switch]` of a [costs file](../../../docs/explain.md#costs): {copy}."]
    lines += ["", "## Traffic to the monitor", "", "Packets and bytes per request, by response size. Copies are counted at the switch's egress (tunnels with their headers), results of a sniffer in the stream to the client.", "",
              "| | " + " | ".join(f"{size} B" for size in SIZES) + " |", "|---" * (len(SIZES) + 1) + "|"]
    sent = sizes(results)
    for mode in MODES:
        if (mode.name, SIZES[0]) in sent:
            lines.append(f"| {mode.label} | " + " | ".join(f"{sent[mode.name, size][0]:.3g}, {sent[mode.name, size][1]:.4g} B ({100 * sent[mode.name, size][1] / sent['port', size][1]:.3g} %)" for size in SIZES) + " |")
    lines += ["", "In parentheses: share of a port mirror's bytes.", "", "## Link latency", "",
              "Round trip of 64 bytes without load, in microseconds: p50, p99. With priority: at nice -15.", "", "| | one connection | ten | with priority: one | ten |", "|---|---|---|---|---|"]
    both = [links(results), links(results, "link_first")]
    for name in dict.fromkeys(name for name, _ in both[0]):
        cells = [f"{at[name, n]['p50']:.0f}, {at[name, n]['p99']:.0f}" if (name, n) in at else "" for at in both for n in (1, 10)]
        lines.append(f"| {LINKS.get(name) or BY_NAME[name].label} | {' | '.join(cells)} |")
    lines += ["", "## From the command to the first row, and from Ctrl-C to complete removal", "", "Seconds: minimum, median, maximum. With priority: at nice -15.", "",
              "| mode | runs | first row | removed | with priority: first row | removed |", "|---|---|---|---|---|---|"]
    def three(way, which, what):
        values = [p[what] for p in results.get(which, []) if p["way"] == way]
        return f"{min(values):.2f}, {statistics.median(values):.2f}, {max(values):.2f}" if values else ""
    for way in dict.fromkeys(p["way"] for p in results["plans"]):
        cells = [three(way, which, what) for which in ("plans", "plans_first") for what in ("first", "gone")]
        lines.append(f"| {way} | {sum(p['way'] == way for p in results['plans'])} | {' | '.join(cells)} |")
    if results.get("sweep"):
        lines += ["", "## By clients", "", "Requests per second and p50 in microseconds; each client sends the next request immediately; one second each.", "", "| | 1 | 5 | 10 | 20 | 30 |", "|---|---|---|---|---|---|"]
        for mode in MODES:
            of = [p for p in results.get("sweep", []) if p["mode"] == mode.name]
            if of:
                lines.append(f"| {mode.label} | " + " | ".join(f"{p['rate']:.0f}, {p['p50']:.0f}" for p in of) + " |")
    lines += ["", "## Setup of each mode", "", "| | by | query or command |", "|---|---|---|"]
    for mode in MODES:
        asked = f"`{mode.query}`" if mode.group in ("sniffer", "mirror") else f"`{' '.join(mode.command)}`" if mode.command else ""
        lines.append(f"| {mode.label} | {mode.by} | {asked} |")
    lines += ["", "Rules for the five-tuple as printed by `explain --network`, installed by `ovs-ofctl` with flags or with a tunnel's port: " + ", ".join(f"`{rule}`" for rule in results["commands"]) + ".", ""]
    return "\n".join(lines)


def draw(results, folder):
    from plots import plt, points, readable, save, short

    style = {mode.name: {"color": COLORS[mode.name], "marker": MARKS[at], "label": mode.label, "markersize": 4, "linewidth": 2 if mode.name == "none" else 1} for at, mode in enumerate(MODES)}
    if results.get("sweep"):
        figure, panels = plt.subplots(1, 2, figsize=(11, 4.6))
        for axes, what, scale in ((panels[0], "rate", 1e-3), (panels[1], "mean", 1e-3)):
            for mode in MODES:
                of = [p for p in results.get("sweep", []) if p["mode"] == mode.name]
                axes.plot([p["clients"] for p in of], [scale * p[what] for p in of], **style[mode.name])
            axes.set_xlabel("clients")
            axes.set_ylim(bottom=0)
        panels[0].set_ylabel("thousand requests a second")
        panels[1].set_ylabel("mean latency, ms")
        panels[1].legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
        figure.suptitle(f"Throughput and latency by clients (answers of {results['size']} bytes)", fontsize=11)
        save(figure, folder, "cost-clients")

    found = compared(results)
    names = list(found)[::-1]
    figure, panels = plt.subplots(1, 2, figsize=(11, 5), sharey=True)
    for axes, what, label in ((panels[0], "p99", "p99 at 60 % of saturation, ms more than without"), (panels[1], "rate", "throughput when saturated, % more than without")):
        for at, name in enumerate(names):
            mean, low, high = (value / (1e3 if what == "p99" else 1) for value in found[name][what])
            color = COLORS[name]
            axes.plot([low, high], [at, at], color=color, linewidth=2)
            axes.plot([mean], [at], "o", color=color, markersize=5)
        axes.axvline(0, color="#5f6368", linewidth=1)
        axes.set_yticks(range(len(names)), [BY_NAME[name].label for name in names])
        axes.set_xlabel(label)
        axes.grid(axis="y", visible=False)
    figure.suptitle("Differences in alternated pairs, with 95 % intervals", fontsize=11)
    save(figure, folder, "cost-differences")

    figure, axes = plt.subplots(figsize=(8.5, 5))
    left = [0.0] * len(names)
    for what, label, color in (("web", "nginx", "#9aa0a6"), ("switch", "switches", "#4c78a8"), ("monitor", "monitor", "#0b6e4f")):
        values = [found[name][what] for name in names]
        axes.barh(range(len(names)), values, left=left, color=color, label=label)
        left = [a + b for a, b in zip(left, values)]
    without = statistics.median(f["web_none"] + f["switch_none"] for f in found.values())
    axes.axvline(without, color="black", linewidth=1, linestyle="--", label="nginx and switches without monitoring")
    axes.set_yticks(range(len(names)), [BY_NAME[name].label for name in names])
    axes.set(xlabel="CPU time, µs a request, at 60 % of saturation", title="Where the time goes")
    axes.grid(axis="y", visible=False)
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.4, -0.12), ncol=4)
    save(figure, folder, "cost-cpu")

    at = links(results, "link_first" if "link_first" in results else "link")
    order = list(dict.fromkeys(name for name, _ in at))[::-1]
    figure, panels = plt.subplots(1, 2, figsize=(10, 4.2), sharey=True)
    for axes, connections in zip(panels, (1, 10)):
        values = [at[name, connections]["p50"] for name in order]
        axes.barh(range(len(order)), values, color=["#9aa0a6" if name == "no switch" else COLORS[name] for name in order])
        for place, value in enumerate(values):
            axes.annotate(f"{value:.0f}", (value, place), textcoords="offset points", xytext=(3, 0), va="center", fontsize=8)
        axes.set_yticks(range(len(order)), [LINKS.get(name) or BY_NAME[name].label for name in order])
        axes.set(xlabel="µs there and back, p50", title="one connection" if connections == 1 else "ten connections")
        axes.grid(axis="y", visible=False)
    save(figure, folder, "cost-link")

    sent = sizes(results)
    watched = [mode for mode in MODES if (mode.name, SIZES[0]) in sent]
    figure, panels = plt.subplots(1, 2, figsize=(10, 4.2), sharey=True)
    for axes, which, label in ((panels[0], 0, "packets to the monitor per request"), (panels[1], 1, "bytes to the monitor per request")):
        values = [sent[mode.name, results["size"]][which] for mode in watched[::-1]]
        points(axes, range(len(watched)), values, values, [COLORS[mode.name] for mode in watched[::-1]])
        for place, value in enumerate(values):
            axes.annotate(short(value), (value, place), textcoords="offset points", xytext=(6, 0), va="center", fontsize=8)
        axes.set_yticks(range(len(watched)), [mode.label for mode in watched[::-1]])
        axes.set_xlabel(label)
        axes.grid(axis="y", visible=False)
        axes.set_xscale("log")
        axes.set_xlim(right=max(values) * 4)
        readable(axes.xaxis)
    figure.suptitle(f"Traffic to the monitor, responses of {results['size']} bytes", fontsize=11)
    save(figure, folder, "cost-traffic")

    figure, axes = plt.subplots(figsize=(7.5, 4.6))
    for mode in watched:
        if mode.name != "port":
            axes.plot(SIZES, [100 * sent[mode.name, size][1] / sent["port", size][1] for size in SIZES], **style[mode.name])
    axes.axhline(100 * MTU_SHARE, color="#5f6368", linestyle="--", linewidth=1)
    axes.annotate("1.5 %", (SIZES[0], 100 * MTU_SHARE), textcoords="offset points", xytext=(0, 3), fontsize=8)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(SIZES, ["0.2", "1", "4", "16", "64"])
    readable(axes.yaxis)
    axes.set_xticks(SIZES, ["0.2", "1", "4", "16", "64"])
    axes.minorticks_off()
    axes.set(xlabel="response, kB", ylabel="bytes to the monitor, % of a port mirror's", title="Traffic to the monitor by response size")
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    save(figure, folder, "cost-sizes")
