"""Results of bench/cost_of_measuring.py: means with 95 % intervals (Student's) over the runs, tables, the block of docs/cost-of-measuring.md, and a cost file."""
import csv, json, math, re, statistics

from cost_report import T

METHODS = {"none": "no measurement", "sflow": "sFlow", "ipfix": "IPFIX, no cache", "ipfix-cache": "IPFIX, cache", "netflow": "NetFlow v5", "mirror": "port mirror",
           "sniffer": "tcpdump at the port", "netalytics-packets": "mirror, netalytics: packets by source", "netalytics-http": "mirror, netalytics: response times"}
TEXTS = ("block", "method")
BEGIN, END = "<!-- measured -->\n", "<!-- /measured -->\n"
# Packets per second of the table of sampling rates, and seconds of a count.
GUIDE_PPS, GUIDE_SECONDS = 100_000, 60


class Interval:
    """A mean and half of its 95 % interval; not a number for fewer than two values."""

    def __init__(self, values):
        values = list(values)
        self.mean = statistics.fmean(values) if values else math.nan
        self.half = T[min(len(values) - 2, len(T) - 1)] * statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else math.nan

    def __format__(self, spec):
        if math.isnan(self.mean):
            return "–"
        mean = f"{self.mean:{spec}}"
        return mean if math.isnan(self.half) else f"{mean} ± {self.half:{spec.lstrip('+')}}"


def load(folder):
    """Rows with derived values: CPU in % of a core, rates per second, nanoseconds per forwarded packet; and the number of rows without packets."""
    rows = []
    with open(folder / "runs.csv") as file:
        for text in csv.DictReader(file):
            row = {name: value if name in TEXTS else value == "True" if name == "pinned" else float(value) for name, value in text.items()}
            seconds, forwarded = row["seconds"], max(1, row["forwarded"])
            row |= {"cpu": 100 * row["switch_cpu_s"] / seconds, "pps": row["forwarded"] / seconds, "mbps": 8e-6 * row["forwarded_bytes"] / seconds,
                    "ns": 1e9 * row["switch_cpu_s"] / forwarded, "monitor_cpu": 100 * row["monitor_cpu_s"] / seconds, "moves": row["migrations"] / seconds,
                    "requests": row["sent"] / seconds, "reports_per_s": row["reports"] / seconds, "report_kbps": 8e-3 * row["report_bytes"] / seconds}
            rows.append(row)
    # On a busy machine, the switch or the traffic may pause for a whole measurement.
    return [row for row in rows if row["forwarded"]], sum(not row["forwarded"] for row in rows)


def select(rows, **wanted):
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def values(rows, name, **wanted):
    return Interval(row[name] for row in select(rows, **wanted))


def pairs(rows, of, block="bursts", **wanted):
    """`of` of each row and the row without measurement of the same run and traffic."""
    bases = {key(row): row for row in select(rows, block=block, method="none", pinned=False)}
    return [of(row, bases[key(row)]) for row in select(rows, block=block, **wanted) if key(row) in bases]


def key(row):
    return row["run"], row["hosts"], row["response"], row["flows"]


def per_report(rows, method, per):
    """Nanoseconds per report: by run, the slope of additional time per packet over reports per packet."""
    found = []
    for run in sorted({row["run"] for row in rows}):
        points = pairs(select(rows, run=run), lambda row, base: (per(row), row["ns"] - base["ns"]), method=method)
        squares = sum(x * x for x, _ in points)
        if squares:
            found.append(sum(x * y for x, y in points) / squares)
    return Interval(found)


def costs(rows):
    """Additional nanoseconds of the switch per sample, record, or packet."""
    reports = lambda row: row["reports"] / max(1, row["forwarded"])
    # The switch observes each packet at its entry and at its exit.
    observed = lambda row: 2 / row["rate"]
    more = lambda method: Interval(pairs(rows, lambda row, base: row["ns"] - base["ns"], method=method))
    return {"sflow": per_report(rows, "sflow", reports), "ipfix": per_report(rows, "ipfix", reports), "ipfix-cache": per_report(rows, "ipfix-cache", observed),
            "netflow": more("netflow"), "mirror": more("mirror"), "sniffer": more("sniffer")}


def name_of(row):
    return METHODS[row["method"]] + (f" 1:{row['rate']:.0f}" if row["rate"] else "")


def settings(rows, **wanted):
    """The distinct settings of some rows in the order of METHODS and rates."""
    order = list(METHODS)
    found = {(order.index(row["method"]), row["rate"], row["header"], row["polling"], row["pinned"]): row for row in select(rows, **wanted)}
    return [{name: found[at][name] for name in ("method", "rate", "header", "polling", "pinned")} for at in sorted(found)]


def table(head, rows):
    cells = lambda row: "| " + " | ".join(row) + " |"
    return "\n".join([cells(head), cells(["---"] * len(head)), *map(cells, rows)]) + "\n"


def bulk(rows):
    change = lambda wanted: Interval(pairs(rows, lambda row, base: 100 * (row["mbps"] / base["mbps"] - 1), "bulk", **wanted))
    lines = [(name_of(s), f"{values(rows, 'mbps', block='bulk', **s):.0f}", f"{change(s):+.0f}" if s["method"] != "none" else "",
              f"{values(rows, 'cpu', block='bulk', **s):.0f}", f"{values(rows, 'ns', block='bulk', **s):.0f}") for s in settings(rows, block="bulk")]
    return table(("bulk flow", "Mb/s", "change, %", "CPU of the switch, % of a core", "ns per packet"), lines)


def cost_table(rows):
    units = {"sflow": "sample", "ipfix": "record", "ipfix-cache": "sampled packet at one port", "netflow": "packet", "mirror": "packet", "sniffer": "packet"}
    full = {"sflow": 1.0, "ipfix": 1.0, "ipfix-cache": 1.0}
    more = lambda method: Interval(pairs(rows, lambda row, base: row["ns"] - base["ns"], method=method, rate=full.get(method, 0.0)))
    lines = [(METHODS[method], f"{cost:.0f}", units[method], f"{more(method):.0f}") for method, cost in costs(rows).items()]
    return table(("measurement", "ns of the switch", "per", "ns per packet if all packets are measured"), lines)


def workloads(rows):
    change = lambda name, **wanted: Interval(pairs(rows, lambda row, base: 100 * (row[name] / base[name] - 1), "requests", **wanted))
    cells = sorted({(row["hosts"], row["response"]) for row in select(rows, block="requests")})
    rates = sorted({row["rate"] for row in select(rows, block="requests", method="sflow")})
    lines = []
    for hosts, response in cells:
        where = {"hosts": hosts, "response": response}
        of = {"block": "requests", "method": "none", **where}
        more = [f"{values(rows, 'cpu', block='requests', method='sflow', rate=rate, **where):.0f}" for rate in rates]
        lines.append((f"{hosts:.0f}", f"{response:.0f}", f"{values(rows, 'pps', **of).mean / 1e3:.1f}", f"{change('pps', method='sflow', rate=1.0, **where):+.0f}",
                      f"{values(rows, 'cpu', **of):.0f}", *more))
    return table(("hosts", "response, bytes", "1,000 packets/s", "change at 1:1, %", "CPU, % of a core: none", *(f"1:{rate:.0f}" for rate in rates)), lines)


def pinning(rows):
    lines = [(name_of(s), "pinned" if s["pinned"] else "not pinned", f"{values(rows, 'pps', block='pinning', **s):,.0f}", f"{values(rows, 'cpu', block='pinning', **s):.0f}",
              f"{values(rows, 'moves', block='pinning', **s):.1f}") for s in settings(rows, block="pinning")]
    return table(("4 hosts, 4,096 bytes", "processes", "packets/s", "CPU, %", "core changes per second"), lines)


def parameters(rows):
    lines = []
    for block, name, unit in (("header", "header", "bytes of header"), ("polling", "polling", "s between counters")):
        for rate in sorted({row["rate"] for row in select(rows, block=block, method="sflow")}):
            for s in settings(rows, block=block, method="sflow", rate=rate):
                of = {"block": block, **s}
                lines.append((f"{s[name]:.0f} {unit}", f"1:{rate:.0f}", f"{values(rows, 'cpu', **of):.0f}", f"{values(rows, 'ns', **of):.0f}", f"{values(rows, 'report_kbps', **of):,.0f}"))
    return table(("parameter", "rate", "CPU, %", "ns per packet", "kb/s to the collector"), lines)


def flows(rows):
    lines = []
    for s in settings(rows, block="flows"):
        of = [{"block": "flows", "flows": flows, **s} for flows in (1.0, 1000.0)]
        lines.append((name_of(s), *(f"{values(rows, 'cpu', **w):.0f}" for w in of), *(f"{values(rows, 'reports_per_s', **w).mean:,.0f}" for w in of),
                      *(f"{values(rows, 'datapath_flows', **w).mean:,.0f}" for w in of)))
    return table(("100 Mb/s of UDP", "CPU, %: 1 flow", "1,000 flows", "reports/s: 1 flow", "1,000 flows", "datapath entries: 1 flow", "1,000 flows"), lines)


def beside(rows):
    lines = []
    for response in sorted({row["response"] for row in select(rows, block="requests", method="mirror")}):
        for method in METHODS:
            of = {"block": "requests", "hosts": 2.0, "response": response, "method": method, "rate": 0.0}
            if select(rows, **of):
                lines.append((f"{response:.0f}", METHODS[method], f"{values(rows, 'requests', **of):,.0f}", f"{values(rows, 'cpu', **of):.0f}",
                              f"{values(rows, 'monitor_cpu', **of):.1f}"))
    return table(("response, bytes", "measurement", "requests/s", "CPU of the switch, %", "CPU of the monitor, %"), lines)


def half_width(samples, rate):
    """Half of the 95 % interval of a count, in %, from random samples with probability 1/rate."""
    return 196 * math.sqrt((1 - 1 / rate) / samples)


def error(percent):
    return f"{percent:.2g}" if percent < 10 else f"{percent:.0f}" if percent < 100 else "above 100"


def guide(rows):
    ns = costs(rows)["sflow"].mean
    lines = []
    for rate in (1, 4, 16, 64, 256, 1024, 4096):
        per_second = GUIDE_PPS / rate
        lines.append((f"1:{rate}", f"{per_second:,.0f}", f"{100 * per_second * ns / 1e9:.2g}" if ns > 0 else "–", *(error(half_width(per_second * GUIDE_SECONDS * share, rate)) for share in (1, 0.01, 0.0001))))
    return table((f"rate at {GUIDE_PPS:,} packets/s", "samples/s", "CPU, % of a core", f"error of the count of {GUIDE_SECONDS} s, ± %: all packets", "1 % of them", "0.01 %"), lines)


def coverage(rows, with_requests):
    """Measurements whose interval contains the number of forwarded packets, and their number; with or without request/response traffic."""
    found = [row for row in rows if row["method"] == "sflow" and row["rate"] > 1 and row["reports"] >= 30 and not row["lost_datagrams"] and (row["block"] == "requests") == with_requests]
    hits = sum(abs(row["reports"] * row["rate"] / row["forwarded"] - 1) * 100 <= half_width(row["reports"], row["rate"]) for row in found)
    return hits, len(found)


def page(rows, empty, of):
    hits, all_of = coverage(rows, False)
    late_hits, late_all = coverage(rows, True)
    threads = sum(row["switch_cpu_s"] for row in rows)
    main = min(100, 100 * sum(row["switch_main_cpu_s"] for row in rows) / threads)
    lost = sum(row["lost_datagrams"] for row in rows)
    sent = sum(row["datagrams"] for row in rows)
    text = (f"Measured {of['date']}: {of['cores']} cores ({of['cpu']}), Linux {of['kernel']}, {of['switch']}, {of['netalytics']}; {of['runs']:.0f} runs of "
            f"{of['seconds']:g} s or more per cell, in {of['took_seconds'] / 60:.0f} minutes. Load average before: {of['load_before']:.1f}. Values are means with 95 % intervals.\n\n"
            f"Of {of['balanced_packets']:,} packets, each was forwarded or counted as dropped at the switch's sockets. {main:.1f} % of the switch's CPU time is its main thread's. "
            f"{empty} measurements without a packet are left out. The collector lost {lost:.0f} of {lost + sent:.0f} datagrams. The 95 % interval of sFlow contains the number of packets in {hits} of {all_of} measurements, and in {late_hits} of {late_all} with request/response traffic, where the collector competes with the hosts for the cores and counts reports late.\n\n")
    text += (f"Without measurement, a forwarded packet takes {values(rows, 'ns', block='bursts', method='none'):,.0f} ns of the switch in bursts, "
             f"and {values(rows, 'ns', block='flows', method='none'):,.0f} ns at 8,600 packets/s.\n\n")
    parts = (("Figures 2 and 9: throughput", bulk), ("Cost per sample", cost_table), ("Figures 3 and 4: request/response", workloads), ("Figure 5: pinning", pinning),
             ("Figures 6 and 7: header length, polling interval", parameters), ("Figure 8: sFlow and IPFIX", flows), ("Mirror, sniffer, monitor", beside),
             ("Sampling rates", guide))
    return text + "\n".join(f"**{title}**\n\n{part(rows)}" for title, part in parts)


def cost_file(rows, of):
    found = costs(rows)
    # IPFIX has two records of a packet.
    parts = {"switch": {"mirror_ns": ("mirror", 1)}, "export": {"sflow_sample_ns": ("sflow", 1), "ipfix_sample_ns": ("ipfix", 2)}}
    text = f'# Written by bench/cost_of_measuring.py: [switch] and [export] were measured, the rest is estimated.\norigin = "{of["switch"]}, {of["date"]}"\n'
    for part, known in parts.items():
        lines = [f"{name} = {times * found[method].mean:.1f} # 95 % interval of {'a record' if times > 1 else 'a packet'}: {found[method]:.1f}"
                 for name, (method, times) in known.items() if found[method].mean > 0]
        text += f"\n[{part}]\n" + "".join(f"{line}\n" for line in lines)
    return text


def published(text):
    """The part of a page for the documentation: the machine, the cost without measurement, and the cost per sample."""
    first, *sections = re.split(r"\n(?=\*\*)", text)
    head = "\n\n".join(part for part in first.split("\n\n") if not part.startswith("Of "))
    return head + "\n" + "".join(part.rstrip("\n") + "\n" for part in sections if part.startswith("**Cost per sample"))


def write(folder, root):
    """Writes README.md and costs.toml; with `root`, also the documentation. Returns the rows."""
    (rows, empty), of = load(folder), json.loads((folder / "machine.json").read_text())
    text = page(rows, empty, of)
    (folder / "README.md").write_text(f"# Cost of measuring\n\n{text}")
    (folder / "costs.toml").write_text(cost_file(rows, of))
    if root:
        path = root / "docs/cost-of-measuring.md"
        head, rest = path.read_text().split(BEGIN)
        path.write_text(head + BEGIN + published(text) + END + rest.split(END, 1)[1])
    return rows
