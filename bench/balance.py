#!/usr/bin/env python3
"""Error against cost of sampling rates, with the rate that SAMPLE auto ERROR chooses.

    bench/balance.py --netalytics target/debug/netalytics [--error 0.05] [--out bench/runs/DATE-balance] [--publish]

Two parts: samples of sFlow 5 that this program writes at fixed rates, where the cost is the time of the switch per sample
(--costs, as measured by cost_of_measuring.py); and a capture of connections, where the cost is the CPU time of netalytics. For
each fixed rate: the stated error (half the 95 % interval of the count of a window) and the true one (95 % of windows are within
it). Writes balance.csv, results.json, balance.svg, and balance.png; --publish copies the SVG to docs/plots. Plots need matplotlib."""
import argparse, csv, json, os, random, resource, shutil, socket, statistics, struct, subprocess, sys, tempfile, time

SECONDS, PACKETS, CONNECTIONS = 40, 20_000, 10_000
RATES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]


def pcap(path, packets):
    with open(path, "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1))
        for ns, data in packets:
            out.write(struct.pack("<IIII", ns // 10**9, ns % 10**9, len(data), len(data)) + data)


def frame(source, target, protocol, payload):
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 0, 0, 64, protocol, 0, socket.inet_aton(source), socket.inet_aton(target))
    return b"\x02" * 12 + b"\x08\x00" + header + payload


def udp(source, port, target, other, data):
    return frame(source, target, 17, struct.pack("!HHHH", port, other, 8 + len(data), 0) + data)


def samples(path, rate, seed):
    """sFlow 5 with random samples of SECONDS × PACKETS packets (sflow.org, version 5: sections 4 and 5)."""
    rng, packets, pool, number, taken, waiting = random.Random(seed), [], 0, 0, 0, []
    sampled = udp("10.1.0.1", 4000, "10.2.0.1", 53, bytes(400))
    header = sampled[:128]
    record = struct.pack("!IIIIII", 1, 16 + len(header), 1, len(sampled), 4, len(header)) + header

    def flush(ns):
        nonlocal number
        if waiting:
            number += 1
            body = struct.pack("!II4sIIII", 5, 1, socket.inet_aton("10.0.0.254"), 0, number, ns // 10**6 % 2**32, len(waiting)) + b"".join(waiting)
            packets.append((ns, udp("10.0.0.254", 50_000, "10.9.9.9", 6343, body)))
            waiting.clear()

    for second in range(SECONDS):
        for n in range(PACKETS):
            pool += 1
            if rate > 1 and rng.random() * rate >= 1:
                continue
            ns = (1_700_000_000 + second) * 10**9 + n * 49_000
            taken += 1
            body = struct.pack("!IIIIIIII", taken, 1, rate, pool, 0, 1, 2, 1) + record
            waiting.append(struct.pack("!II", 1, len(body)) + body)
            if len(waiting) == 6:
                flush(ns)
        flush((1_700_000_000 + second) * 10**9 + 990_000_000)
    pcap(path, packets)


def connections(path):
    packets = []
    for second in range(SECONDS):
        for n in range(CONNECTIONS):
            number = second * CONNECTIONS + n
            client = socket.inet_ntoa(struct.pack("!I", 0x0A000000 + number))
            tcp = struct.pack("!HHIIBBHHH", 40_000, 80, 1, 0, 0x50, 2, 1024, 0, 0)
            packets.append(((1_700_000_000 + second) * 10**9 + n * (999_000_000 // CONNECTIONS), frame(client, "192.0.2.1", 6, tcp)))
    pcap(path, packets)


def query(program, path, text, *flags):
    """Rows, the summary, and CPU seconds."""
    with tempfile.NamedTemporaryFile(suffix=".json") as summary:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([program, "query", "-r", path, "--format", "jsonl", "--summary-json", summary.name, "--workers", "1", *flags, text],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            sys.exit(f"{text}: {done.stderr}")
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        return rows, json.load(open(summary.name)), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def errors(rows, truth):
    """Mean of the stated error, the 95 % quantile of the true one, and the number of windows whose interval has the truth."""
    stated = [row["count_high"] / row["count"] - 1 for row in rows if row.get("count_high") and row["count"]] or [float("nan")]
    true = sorted(abs(row["count"] / truth - 1) for row in rows)
    held = sum((row.get("count_low") or 0) <= truth and (row.get("count_high") is None or truth <= row["count_high"]) for row in rows)
    return statistics.mean(stated), true[len(true) * 95 // 100], held


def measure(program, error, costs, folder):
    points, chosen = [], {}
    path = os.path.join(folder, "input.pcap")
    auto = f"SAMPLE auto ERROR {error * 100:g}%"
    for seed, rate in enumerate(RATES):
        samples(path, rate, seed)
        rows, summary, _ = query(program, path, f"PARSE packet {auto} PROCESS (count: w=1s)", "--exports")
        stated, true, held = errors(rows, PACKETS)
        cost = statistics.mean(row["count"] * row["sampled_at"] for row in rows if row.get("sampled_at")) * costs["sflow_sample_ns"] / 1e7
        goal = summary["sampling_goal"]
        points.append({"part": "sflow", "rate": 1 / rate, "cost": cost, "stated_error": stated, "true_error": true, "intervals_with_truth": held,
                       "windows": len(rows), "within_error": goal["held"], "sufficient": goal["sufficient"]})
    recommended = sorted(round(1 / point["sufficient"]) for point in points if point["sufficient"] and point["rate"] < 1)
    rate = recommended[len(recommended) // 2]
    samples(path, rate, 99)
    rows, summary, _ = query(program, path, f"PARSE packet {auto} PROCESS (count: w=1s)", "--exports")
    stated, true, held = errors(rows, PACKETS)
    cost = statistics.mean(row["count"] * row["sampled_at"] for row in rows) * costs["sflow_sample_ns"] / 1e7
    chosen["sflow"] = {"part": "sflow, chosen", "rate": 1 / rate, "cost": cost, "stated_error": stated, "true_error": true, "intervals_with_truth": held,
                       "windows": len(rows), "within_error": summary["sampling_goal"]["held"], "sufficient": summary["sampling_goal"]["sufficient"]}
    connections(path)
    for rate in RATES[:8]:
        clause = "" if rate == 1 else f"SAMPLE 1/{rate}"
        runs = [query(program, path, f"PARSE tcp_flow_key {clause} PROCESS (count: w=1s)") for _ in range(3)]
        stated, true, held = errors(runs[0][0], CONNECTIONS) if rate > 1 else (0, 0, SECONDS)
        points.append({"part": "packets", "rate": 1 / rate, "cost": statistics.median(cpu for *_, cpu in runs), "stated_error": stated, "true_error": true,
                       "intervals_with_truth": held, "windows": SECONDS, "within_error": "", "sufficient": ""})
    runs = [query(program, path, f"PARSE tcp_flow_key {auto} PROCESS (count: w=1s)") for _ in range(3)]
    rows, summary, _ = runs[0]
    stated, true, held = errors(rows[10:], CONNECTIONS)
    chosen["packets"] = {"part": "packets, chosen", "rate": statistics.median(row["sampled_at"] for row in rows[10:]),
                         "cost": statistics.median(cpu for *_, cpu in runs), "stated_error": stated, "true_error": true, "intervals_with_truth": held,
                         "windows": len(rows) - 10, "within_error": summary["sampling_goal"]["held"], "sufficient": summary["sampling_goal"]["sufficient"]}
    return points, chosen


def draw(points, chosen, error, folder):
    from plots import LIMIT, OURS, PAPER, PEER, plt, readable, save
    figure, panels = plt.subplots(1, 2, figsize=(10.5, 4))
    for axes, part, label in ((panels[0], "sflow", "CPU time of the switch, % of a core"), (panels[1], "packets", "CPU time of netalytics, s")):
        of = [point for point in points if point["part"] == part and point["stated_error"] > 0]
        for name, mark, color, text in (("stated_error", "o", PEER, "stated: half the 95 % interval"), ("true_error", "x", PAPER, "true: 95 % of windows")):
            axes.plot([point["cost"] for point in of], [100 * point[name] for point in of], mark + "-", color=color, label=text, markersize=5)
        for point in of:
            axes.annotate(f"1:{1 / point['rate']:.0f}", (point["cost"], 100 * point["stated_error"]), textcoords="offset points", xytext=(5, 4), fontsize=7)
        one = chosen[part]
        axes.plot([one["cost"]], [100 * one["stated_error"]], "*", color=OURS, markersize=15, label=f"chosen: 1:{1 / one['rate']:.3g}", zorder=5)
        axes.axhline(100 * error, color=LIMIT, linestyle="--", linewidth=1)
        axes.set(xlabel=label, ylabel="error of a window's count, ± %", title={"sflow": f"sFlow, {PACKETS:,} packets/s", "packets": f"packets, {CONNECTIONS:,} connections/s"}[part])
        axes.set_yscale("log")
        if part == "sflow":
            axes.set_xscale("log")
            readable(axes.xaxis)
        else:
            axes.set_xlim(left=0)
        readable(axes.yaxis)
        axes.legend(fontsize=8)
    figure.suptitle(f"SAMPLE auto ERROR {error * 100:g}%", fontsize=11)
    figure.tight_layout()
    figure.savefig(os.path.join(folder, "balance.png"), dpi=120, bbox_inches="tight")
    save(figure, folder, "balance")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--netalytics", default="target/release/netalytics")
    flags.add_argument("--error", type=float, default=0.05)
    flags.add_argument("--costs", default=os.path.join(here, "runs", "2026-11-28-measuring", "costs.toml"))
    flags.add_argument("--out", default=os.path.join(here, "runs", time.strftime("%Y-%m-%d") + "-balance"))
    flags.add_argument("--publish", action="store_true", help="copy the plot to docs/plots")
    flags.add_argument("--draw", action="store_true", help="only draw the results of --out")
    asked = flags.parse_args()
    os.makedirs(asked.out, exist_ok=True)
    results = os.path.join(asked.out, "results.json")
    if not asked.draw:
        import tomllib
        with open(asked.costs, "rb") as file:
            costs = tomllib.load(file)["export"]
        with tempfile.TemporaryDirectory() as folder:
            points, chosen = measure(os.path.abspath(asked.netalytics), asked.error, costs, folder)
        with open(results, "w") as file:
            json.dump({"error": asked.error, "sflow_sample_ns": costs["sflow_sample_ns"], "points": points, "chosen": chosen}, file, indent=1)
        with open(os.path.join(asked.out, "balance.csv"), "w", newline="") as file:
            table = csv.DictWriter(file, list(points[0]))
            table.writeheader()
            table.writerows(points + list(chosen.values()))
    found = json.load(open(results))
    try:
        draw(found["points"], found["chosen"], found["error"], asked.out)
    except ModuleNotFoundError:
        print("not drawn: matplotlib is missing")
        return
    if asked.publish:
        shutil.copy(os.path.join(asked.out, "balance.svg"), os.path.join(here, "..", "docs", "plots", "balance.svg"))


if __name__ == "__main__":
    main()
