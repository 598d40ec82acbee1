"""Plots of bench/cost_of_measuring.py, numbered as in the paper: measuring-2.svg to measuring-9.svg, costs, and error by cost. Needs matplotlib."""
from plots import LIMIT, OURS, PAPER, PEER, plt, readable, save

from measuring_report import GUIDE_PPS, GUIDE_SECONDS, METHODS, costs, half_width, pairs, select, values, Interval

COLORS = {"none": LIMIT, "sflow": PEER, "ipfix": PAPER, "ipfix-cache": "#e69f00", "netflow": "#8e6bbf", "mirror": "#2171b5", "sniffer": "#8c2d19",
           "netalytics-packets": OURS, "netalytics-http": "#4fb286"}
SIZES = {1024.0: ("o", "#9ecae9"), 2048.0: ("s", PEER), 3072.0: ("^", OURS), 4096.0: ("D", PAPER)}
MARKS = {"sflow": "o", "ipfix": "s", "ipfix-cache": "^"}


def whisker(interval):
    return interval.half if interval.half == interval.half else 0


def rates_of(rows, **wanted):
    return sorted({row["rate"] for row in select(rows, **wanted)})


def curve(axes, rows, name, rates, base, scale=1.0, **style):
    """Values by sampling rate, from no sampling to every packet."""
    shown = [values(base, name)] + [values(rows, name, rate=rate) for rate in reversed(rates)]
    axes.errorbar(range(len(shown)), [of.mean * scale for of in shown], yerr=[whisker(of) * scale for of in shown], capsize=3, **style)
    axes.set_xticks(range(len(shown)), ["none"] + [f"1:{rate:.0f}" for rate in reversed(rates)])
    # Further curves extend the axis.
    axes.set_ylim(bottom=0, auto=None)


def throughput(rows, folder, number, method):
    """Figures 2 and 9."""
    of = select(rows, block="bulk")
    figure, axes = plt.subplots(figsize=(6, 3.6))
    curve(axes, select(of, method=method), "mbps", rates_of(of, method=method), select(of, method="none"), marker=MARKS[method], color=COLORS[method])
    axes.set(xlabel="sampling rate", ylabel="Mb/s", title=f"Figure {number}: one TCP flow with {METHODS[method]}")
    save(figure, folder, f"measuring-{number}")


def workloads(rows, folder, number, name, label, hosts, scale, title):
    """Figures 3 and 4: panels by number of hosts, curves by response size."""
    of = select(rows, block="requests")
    hosts = [n for n in hosts if select(of, hosts=n)]
    figure, panels = plt.subplots((len(hosts) + 1) // 2, min(2, len(hosts)), figsize=(9.5, 3.4 * ((len(hosts) + 1) // 2)), squeeze=False, sharex=True)
    for axes, n in zip(panels.flat, hosts):
        for size, (mark, color) in SIZES.items():
            cells = select(of, hosts=n, response=size)
            if cells:
                curve(axes, select(cells, method="sflow"), name, rates_of(cells, method="sflow"), select(cells, method="none"), scale, marker=mark, color=color,
                      label=f"{size:.0f} B")
        axes.set_title(f"{n:.0f} hosts", fontsize=10)
    for axes in panels[:, 0]:
        axes.set_ylabel(label)
    for axes in panels[-1]:
        axes.set_xlabel("sampling rate of sFlow")
    panels[0][0].legend(fontsize=8, title="response", title_fontsize=8)
    figure.suptitle(f"Figure {number}: {title}", fontsize=11)
    figure.tight_layout()
    save(figure, folder, f"measuring-{number}")


def pinned(rows, folder):
    """Figure 5."""
    of = select(rows, block="pinning")
    cases = [(method, pin) for method in ("none", "sflow") for pin in (False, True)]
    labels = [("sFlow 1:1" if method == "sflow" else "none") + (", pinned" if pin else "") for method, pin in cases]
    figure, panels = plt.subplots(1, 3, figsize=(10.5, 2.8), sharey=True)
    for axes, (name, scale, label) in zip(panels, (("cpu", 1, "CPU of the switch, % of a core"), ("pps", 1e-3, "1,000 packets/s"), ("moves", 1, "core changes per second"))):
        shown = [values(of, name, method=method, pinned=pin) for method, pin in cases]
        axes.barh(labels, [v.mean * scale for v in shown], xerr=[whisker(v) * scale for v in shown], color=[COLORS[method] for method, _ in cases], capsize=3)
        axes.set_xlabel(label)
        axes.grid(axis="y", visible=False)
    panels[0].invert_yaxis()
    figure.suptitle("Figure 5: pinned and unpinned processes, 4 hosts, responses of 4,096 bytes", fontsize=11)
    figure.tight_layout()
    save(figure, folder, "measuring-5")


def parameter(rows, folder, number, name, label, title):
    """Figures 6 and 7: CPU by a parameter of sFlow and sampling rate."""
    of = select(rows, block=name, method="sflow")
    steps, rates = sorted({row[name] for row in of}), rates_of(of)
    figure, axes = plt.subplots(figsize=(6, 3.6))
    width = 0.8 / len(rates)
    for at, rate in enumerate(rates):
        shown = [values(of, "cpu", rate=rate, **{name: step}) for step in steps]
        places = [place + width * (at - (len(rates) - 1) / 2) for place in range(len(steps))]
        axes.bar(places, [v.mean for v in shown], width, yerr=[whisker(v) for v in shown], capsize=3, color=(PEER, "#9ecae9", LIMIT)[at % 3], label=f"1:{rate:.0f}")
    base = values(rows, "cpu", block=name, method="none")
    axes.axhline(base.mean, color="#5f6368", linestyle="--", linewidth=1, label="no sampling")
    axes.set_xticks(range(len(steps)), [f"{step:.0f}" for step in steps])
    axes.grid(axis="x", visible=False)
    axes.set(xlabel=label, ylabel="CPU of the switch, % of a core", title=f"Figure {number}: {title}")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8, ncol=4, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    save(figure, folder, f"measuring-{number}")


def exporters(rows, folder):
    """Figure 8: CPU and reports, 1 flow and 1,000."""
    of = select(rows, block="flows")
    figure, panels = plt.subplots(2, 2, figsize=(9.5, 6), sharex=True, sharey="row")
    for column, n in enumerate((1.0, 1000.0)):
        cells = select(of, flows=n)
        base = select(cells, method="none")
        for method, mark in MARKS.items():
            some = select(cells, method=method)
            curve(panels[0][column], some, "cpu", rates_of(some), base, marker=mark, color=COLORS[method], label=METHODS[method])
            curve(panels[1][column], some, "reports_per_s", rates_of(some), base, 1e-3, marker=mark, color=COLORS[method], label=METHODS[method])
        panels[0][column].set_title(f"{n:,.0f} flow" + "s" * (n > 1), fontsize=10)
        panels[1][column].set_xlabel("sampling rate")
    panels[0][0].set_ylabel("CPU of the switch, % of a core")
    panels[1][0].set_ylabel("1,000 samples or records per second")
    panels[0][0].legend(fontsize=8)
    figure.suptitle("Figure 8: sFlow and IPFIX, 100 Mb/s of UDP", fontsize=11)
    figure.tight_layout()
    save(figure, folder, "measuring-8")


def per_packet(rows, folder):
    """Additional time per packet of all ways of measuring."""
    of = select(rows, block="bursts")
    cases = [(method, 1.0 if method in MARKS else 0.0) for method in METHODS if method != "none" and select(of, method=method)]
    switch = [Interval(pairs(rows, lambda row, base: row["ns"] - base["ns"], method=method, rate=rate)) for method, rate in cases]
    monitor = [Interval(1e9 * row["monitor_cpu_s"] / max(1, row["forwarded"]) for row in select(of, method=method, rate=rate)) for method, rate in cases]
    labels = [METHODS[method] + (" 1:1" if rate else "") for method, rate in cases]
    figure, axes = plt.subplots(figsize=(7.5, 3.8))
    axes.barh(labels, [v.mean for v in switch], xerr=[whisker(v) for v in switch], color=[COLORS[method] for method, _ in cases], capsize=3, label="switch")
    axes.barh(labels, [v.mean for v in monitor], left=[max(0, v.mean) for v in switch], color="none", edgecolor="#5f6368", hatch="///", label="monitor")
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set(xlabel="additional CPU time, ns per forwarded packet", title="All packets measured, switch busy")
    axes.legend(fontsize=8)
    save(figure, folder, "measuring-costs")


def balance(rows, folder):
    """Error of counts by cost, with sampling rates as points."""
    ns = costs(rows)["sflow"].mean
    if not ns > 0:
        return
    rates = [4**n for n in range(1, 8)]
    figure, axes = plt.subplots(figsize=(6.5, 4))
    for share, color, label in ((1, OURS, "all packets"), (0.01, PEER, "1 % of the packets"), (0.0001, PAPER, "0.01 %")):
        points = [(100 * GUIDE_PPS / rate * ns / 1e9, half_width(GUIDE_PPS / rate * GUIDE_SECONDS * share, rate)) for rate in rates]
        axes.plot(*zip(*points), "o-", color=color, label=label)
        if share == 0.01:
            for rate, point in zip(rates, points):
                axes.annotate(f"1:{rate}", point, textcoords="offset points", xytext=(4, 4), fontsize=8)
    axes.set_xscale("log")
    axes.set_yscale("log")
    readable(axes.xaxis, axes.yaxis)
    axes.set(xlabel="CPU of the switch, % of a core", ylabel=f"95 % interval of a count of {GUIDE_SECONDS} s, ± %", title=f"Error by cost: sFlow at {GUIDE_PPS:,} packets/s")
    axes.legend(fontsize=8)
    save(figure, folder, "measuring-balance")


def draw(rows, folder):
    throughput(rows, folder, 2, "sflow")
    workloads(rows, folder, 3, "cpu", "CPU of the switch, % of a core", (2.0, 4.0, 6.0, 8.0), 1, "CPU by sampling rate and traffic")
    workloads(rows, folder, 4, "pps", "1,000 packets/s", (2.0, 4.0), 1e-3, "packets by sampling rate and traffic")
    pinned(rows, folder)
    parameter(rows, folder, 6, "header", "header bytes per sample", "header length, 4 hosts, responses of 1,024 bytes")
    parameter(rows, folder, 7, "polling", "seconds between counter samples", "polling interval, 2 hosts, responses of 1,024 bytes")
    exporters(rows, folder)
    throughput(rows, folder, 9, "ipfix")
    per_packet(rows, folder)
    balance(rows, folder)
