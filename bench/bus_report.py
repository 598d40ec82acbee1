#!/usr/bin/env python3
"""Figures of bench/bus.py as a page, a model of larger networks, and plots: bench/bus_report.py bench/runs/DATE-bus [docs/plots]."""
import json, math, pathlib, sys

# Maximum planned utilization of a core.
BUSY = 0.7
# Replicas of the brokers, and the write rate of one: a tenth of a current disk's sequential rate.
COPIES, BROKER_BYTES_S = 3, 200e6
BROKER_CORES = 8
RATES_GBPS = (1, 10, 40, 100, 1_000, 10_000, 100_000)
SHOWN_GBPS = (40, 1_000, 100_000)
# The paper, section 6.1: 40 Gb/s with four monitor cores; each Gb/s of their output needs an aggregator and two
# processors; output is a tenth of the input.
PAPER = {"gbps": 40, "monitor": 4, "processing": 15}


def needs(role, engine, gbps):
    """Cores by role for an amount of traffic, and brokers for its bytes."""
    gigabytes = gbps / 8
    monitor = gigabytes * role["monitor"] / BUSY
    if role["published"] == "tuples":
        records = gigabytes * role["records_a_gb"]
    else:
        # Each capturing core sends its own groups, regardless of their counts.
        records = math.ceil(monitor) * role["records_a_s"]
    spent = {name: role[engine][name] / role["records_a_gb"] for name in ("asker", "broker", "taskmanager")}
    broker = records * (role["broker_in"] / role["records_a_gb"] + spent["broker"]) * COPIES / BUSY
    written = records * role["bytes_a_gb"] / role["records_a_gb"]
    return {"monitor": monitor, "broker": broker, "flink": records * spent["taskmanager"] / BUSY, "asker": records * spent["asker"] / BUSY,
            "records_a_s": records, "bus_mb_s": written / 1e6, "brokers": max(COPIES, math.ceil(broker / BROKER_CORES), math.ceil(written * COPIES / BROKER_BYTES_S))}


def cores(number):
    return f"{math.ceil(number):,}"


def report(told):
    lines = ["# Kafka and Flink", "", f"Measured {told['date']} on {told['cores']} cores by `bench/bus.py`: brokers and Flink on one core, publishers and queries on the other; each value is the median of {told['repeat']} runs.",
             "", "## A publisher compared with librdkafka's performance tool", "",
             "`publish 'PARSE http_get' -r` reads packets, parses, encodes and sends; the tool sends as many records of the same mean size, which are identical and thus cheaper to compress,",
             "with the same settings (idempotent, lz4, 20 ms, 100,000 records a batch). CPU seconds of whole processes.", "",
             "| capture | query | tuples | bytes each | tuples/CPU s | tuples/s | tool/CPU s | tool/s | ours ÷ tool | tuples/s of the busiest thread |", "|---|---|" + "---:|" * 8]
    for row in told.get("publish", []):
        lines.append(f"| {row['capture']} | `{row['query']}` | {row['records']:,} | {row['bytes_a_record']:.0f} | {row['tuples_a_cpu_s']:,.0f} | {row['tuples_a_s']:,.0f} | {row['tool_a_cpu_s']:,.0f} | "
                     f"{row['records'] / row['tool_wall_s']:,.0f} | {row['ratio']:.0%} | {row['tuples_a_busiest_s']:,.0f} |")
    lines += ["", "The last column is the rate of the publisher's busiest thread if other threads had their own cores; here brokers share the two cores.",
              "", "CPU seconds by thread:", ""]
    for row in told.get("publish", []):
        named = sorted(row["threads_cpu_s"].items(), key=lambda one: -one[1])[:5]
        lines.append(f"- {row['capture']}, `{row['query']}`: " + ", ".join(f"`{name}` {seconds:.2f}" for name, seconds in named))
    if told.get("share"):
        lines += ["", "## Bytes on the bus per byte of traffic", "", "Compressed data stored by the brokers. `http_get` with all columns; cells of the top-k below with windows of 1 s and 10 s.", "",
                  "| capture | seconds | MB | compression | tuples | cells, 1 s | cells, 10 s | CPU s of the publisher of tuples |", "|---|---:|---:|---|" + "---:|" * 4]
        for row in told["share"]:
            for packing in ("lz4", "zstd"):
                shares = [row[f"{what}_{packing}"]["share"] for what in ("tuples", "cells_1s", "cells_10s")]
                lines.append(f"| {row['capture']} | {row['seconds']} | {row['input_bytes'] / 1e6:.0f} | {packing} | {shares[0]:.2%} | {shares[1]:.3%} | {shares[2]:.4%} | {row[f'tuples_{packing}']['cpu_s']:.2f} |")
    lines += ["", "## CPU seconds per GB of traffic by role (as figure 6 of the paper)", "",
              f"`{told.get('query', '')}`. Start-up is excluded: the values are differences between many publishers and one.", "",
              "| capture | published | records per GB | monitor | broker, written | broker, read | query alone | Flink | query with Flink |", "|---|---|" + "---:|" * 7]
    for row in told.get("roles", []):
        lines.append(f"| {row['capture']} | {row['published']} | {row['records_a_gb']:,.0f} | {row['monitor']:.3f} | {row['broker_in']:.3f} | {row['embedded']['broker']:.3f} | "
                     f"{row['embedded']['asker']:.3f} | {row['flink']['taskmanager']:.3f} | {row['flink']['asker']:.3f} |")
    if one := told.get("flink"):
        lines += ["", "## Our group-by in Flink compared with a plain count", "",
                  f"{one['records']:,} tuples of {one['capture']}, the count of every URL per second, compared with `INSERT INTO … SELECT COUNT(*)` over the same table.", "",
                  "| | seconds | CPU seconds | records/s |", "|---|---:|---:|---:|",
                  f"| ours | {one['ours_busy_s']:.1f} | {one['ours_cpu_s']:.1f} | {one['records'] / one['ours_busy_s']:,.0f} |",
                  f"| bare | {one['bare_busy_s']:.1f} | {one['bare_cpu_s']:.1f} | {one['records'] / one['bare_busy_s']:,.0f} |", "",
                  f"Rate {one['ratio']:.0%} of the plain count (requirement 70 %), by CPU seconds {one['cpu_ratio']:.0%}."]
    if told.get("latency"):
        lines += ["", "## From the end of a window to its row, live", "", "| engine | windows | median | 90 % | maximum | requirement: lateness, checkpoint, and 1 s |", "|---|" + "---:|" * 5]
        lines += [f"| {one['engine']} | {one['windows']} | {one['median_s']:.2f} s | {one['p90_s']:.2f} s | {one['most_s']:.2f} s | {one['bar_s']:.1f} s |" for one in told["latency"]]
    lines += ["", "## A model of larger networks", "",
              f"From the table of roles: the planned utilization of cores is {BUSY:.0%}; brokers keep {COPIES} copies, have {BROKER_CORES} cores and write {BROKER_BYTES_S / 1e6:.0f} MB/s each. Each capturing core sends cells",
              "of its own groups once a second, so cells grow with the number of capturing cores, not with bytes. Nothing beyond two cores was measured; the model does not include a network.", "",
              "| traffic | Gb/s | published | capturing cores | records/s on the bus | MB/s | brokers | their cores | Flink's slots | or core of one query (at most 1) |", "|---|---:|---|" + "---:|" * 7]
    for row in told.get("roles", []):
        for gbps in SHOWN_GBPS:
            by_flink, alone = needs(row, "flink", gbps), needs(row, "embedded", gbps)
            lines.append(f"| {row['capture']} | {gbps:,} | {row['published']} | {cores(by_flink['monitor'])} | {by_flink['records_a_s']:,.0f} | {by_flink['bus_mb_s']:,.1f} | {by_flink['brokers']:,} | "
                         f"{cores(by_flink['broker'])} | {cores(by_flink['flink'])} | {alone['asker']:.2f} |")
    lines += ["", f"The paper's {PAPER['gbps']} Gb/s took {PAPER['monitor']} monitor cores and {PAPER['processing']} processing cores.", ""]
    return "\n".join(lines)


def plots(told, folder):
    import matplotlib
    matplotlib.use("svg")
    import matplotlib.pyplot as plt
    from plots import readable
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "netalytics", "font.family": "sans-serif", "font.size": 10, "axes.spines.top": False,
                         "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.25, "legend.frameon": False, "figure.facecolor": "white"})
    colors = {"monitor": "#0b6e4f", "brokers": "#4c78a8", "Flink": "#c8553d", "asker": "#9aa0a6"}
    bars = []
    for row in told["roles"]:
        for engine in ("embedded", "flink"):
            spent = row[engine]
            bars.append((f"{row['capture']}\n{row['published']}, {engine}", {"monitor": row["monitor"], "brokers": row["broker_in"] + spent["broker"], "Flink": spent["taskmanager"] if engine == "flink" else 0, "asker": spent["asker"]}))
    figure, axes = plt.subplots(figsize=(8, 0.55 * len(bars) + 1.2))
    left = [0.0] * len(bars)
    for role, color in colors.items():
        widths = [spent[role] for _, spent in bars]
        axes.barh([name for name, _ in bars], widths, left=left, color=color, label=role)
        left = [a + b for a, b in zip(left, widths)]
    for y, total in enumerate(left):
        axes.annotate(f"{total:.2f}", (total, y), textcoords="offset points", xytext=(4, 0), va="center", fontsize=9)
    axes.invert_yaxis()
    axes.set(xlabel="CPU seconds per GB of traffic", title="CPU time per GB of traffic, by role")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12 - 0.5 / len(bars)), ncol=4)
    save(plt, figure, folder, "bus-roles")

    names = list(dict.fromkeys(row["capture"] for row in told["roles"]))
    figure, all_axes = plt.subplots(1, len(names), figsize=(4.4 * len(names), 4), sharey=True, squeeze=False)
    for axes, name in zip(all_axes[0], names):
        for row in (row for row in told["roles"] if row["capture"] == name):
            style = "-" if row["published"] == "cells" else "--"
            all_needs = [needs(row, "flink", gbps) for gbps in RATES_GBPS]
            for role, key in (("monitor", "monitor"), ("brokers", "broker"), ("Flink", "flink")):
                axes.plot(RATES_GBPS, [max(need[key], 0.01) for need in all_needs], style, color=colors[role], label=f"{role}, {row['published']}")
        axes.plot([PAPER["gbps"]] * 2, [PAPER["monitor"], PAPER["processing"]], "kx", label="the paper: 4 and 15")
        axes.set(xscale="log", yscale="log", xlabel="Gb/s of traffic", title=name, ylim=(0.01, None))
        readable(axes.xaxis, axes.yaxis)
        axes.set_xticks([1, 100, 10_000], ["1", "100", "10,000"])
    all_axes[0][0].set_ylabel("cores, by the model")
    all_axes[0][-1].legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=9)
    save(plt, figure, folder, "bus-scale")


def save(plt, figure, folder, name):
    figure.savefig(folder / f"{name}.svg", bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)


def main():
    run = pathlib.Path(sys.argv[1])
    told = json.loads((run / "results.json").read_text())
    (run / "README.md").write_text(report(told))
    folder = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else pathlib.Path(__file__).resolve().parent.parent / "docs/plots"
    if told.get("roles"):
        plots(told, folder)


if __name__ == "__main__":
    main()
