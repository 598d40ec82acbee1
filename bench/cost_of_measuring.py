#!/usr/bin/env python3
"""Cost of measuring in a virtual switch: sFlow, IPFIX, NetFlow, port mirrors, sniffers, and netalytics, after *On the Cost of Measuring Traffic in a
Virtualized Environment* (figures 2 to 9, table I). Results: docs/cost-of-measuring.md.

Hosts are network namespaces, connected by Open vSwitch with a user-space datapath. Everything is in namespaces of its own, which the kernel removes
at any end of the program. Requires root, Open vSwitch, tcpdump, rustc; plots require matplotlib.

    bench/cost_of_measuring.py --netalytics target/release/netalytics --publish     # into bench/runs/DATE-measuring; 12 minutes
    bench/cost_of_measuring.py --quick --out DIR                                     # a few of the cells, once, in less than a minute
    bench/cost_of_measuring.py --draw --publish --out bench/runs/DATE-measuring      # tables and plots again
"""
import argparse, csv, datetime, itertools, json, os, pathlib, platform, random, shutil, subprocess, sys, time
from dataclasses import asdict, dataclass

import measuring_lab
import measuring_report

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
RESPONSES = (1024, 2048, 3072, 4096)  # bytes, table I
REQUEST_GAP_NS = 100_000
DATAGRAM_GAP_NS = 116_279  # 8,600 per second, 100 Mb/s
SETTLE = 0.05  # seconds after a change of the configuration
WARM = 0.15  # seconds after the start of traffic


@dataclass(frozen=True)
class Setting:
    """A way of measuring; `rate`: one of so many packets is sampled."""
    method: str = "none"
    rate: int = 0
    header: int = 128
    polling: int = 10
    pinned: bool = False


@dataclass(frozen=True)
class Block:
    """Settings that are measured directly after each other, in random order, with the same traffic; `length`: multiple of the base duration."""
    name: str
    kind: str
    settings: tuple
    hosts: int = 2
    response: int = 0
    flows: int = 1
    gap_ns: int = 0
    burst: int = 1
    length: float = 1.0


NONE = Setting()
MIRRORED = ("mirror", "netalytics-packets", "netalytics-http")
COPIES = (Setting("mirror"), Setting("sniffer"), Setting("netalytics-packets"))


def sampled(method, *rates, **more):
    return tuple(Setting(method, rate, **more) for rate in rates)


def blocks(quick, has_netalytics):
    """All cells of the study."""
    rates, slopes, headers, intervals = ((1, 4), (1,), (64, 256), (1,)) if quick else ((1, 2, 4, 16), (1, 2, 4), (64, 128, 256), (1, 10, 30))
    found = [
        # Figures 2 and 9.
        Block("bulk", "stream", (NONE, *sampled("sflow", *rates, *(() if quick else (64, 256))), *sampled("ipfix", *rates), Setting("netflow"), *COPIES), length=1.5),
        # Costs per sample: bursts keep the switch busy, so that it does not wake up for each packet.
        Block("bursts", "datagrams", (NONE, *sampled("sflow", *slopes), *sampled("ipfix", *slopes), *sampled("ipfix-cache", *slopes), Setting("netflow"), *COPIES),
              gap_ns=1_600_000, burst=64, length=1 if quick else 2),
        # Figure 5.
        Block("pinning", "requests", (NONE, Setting(pinned=True), *sampled("sflow", 1), *sampled("sflow", 1, pinned=True)), 4, 4096, gap_ns=REQUEST_GAP_NS, length=1.5),
        # Figure 6. Open vSwitch sends at most 256 bytes.
        Block("header", "requests", (NONE, *(Setting("sflow", rate, header) for rate in (rates[0], rates[-1]) for header in headers)), 4, 1024, gap_ns=REQUEST_GAP_NS),
        # Figure 7.
        Block("polling", "requests", (NONE, *(Setting("sflow", rate, polling=polling) for rate in (rates[0], rates[-1]) for polling in intervals)), 2, 1024, gap_ns=REQUEST_GAP_NS,
              length=1 if quick else 3),
    ]
    # Figures 3 and 4.
    for hosts, response in itertools.product((2, 8) if quick else (2, 4, 6, 8), RESPONSES[:1] if quick else RESPONSES):
        beside = (*COPIES, Setting("netalytics-http")) if hosts == 2 and response in RESPONSES[::3] else ()
        found.append(Block("requests", "requests", (NONE, *sampled("sflow", *rates), *beside), hosts, response, gap_ns=REQUEST_GAP_NS))
    # Figure 8.
    methods = [setting for method in ("sflow", "ipfix", "ipfix-cache") for setting in sampled(method, *rates)]
    found += [Block("flows", "datagrams", (NONE, *methods, Setting("netflow")), flows=flows, gap_ns=DATAGRAM_GAP_NS) for flows in (1, 1000)]
    if not has_netalytics:
        found = [Block(**{**vars(block), "settings": tuple(s for s in block.settings if not s.method.startswith("netalytics"))}) for block in found]
    return found


def say(text):
    print(f"{datetime.datetime.now():%H:%M:%S} load {os.getloadavg()[0]:.1f}: {text}", file=sys.stderr, flush=True)


def slot(lab, block, setting, seconds, program):
    """One row: the differences of all counters over some time."""
    lab.measure_with(setting, program)
    # A new mirror does not change existing datapath entries.
    if block.flows > 1 or setting.method in MIRRORED or lab.was_mirrored:
        lab.forget_flows()
    lab.was_mirrored = setting.method in MIRRORED
    lab.wait_for_datapath()
    # With NetFlow, the switch needs a datapath entry for each flow.
    time.sleep(SETTLE * (4 if setting.method == "netflow" and block.flows > 1 or lab.was_mirrored else 1))
    before = lab.counters(block.hosts)
    time.sleep(seconds)
    after = lab.counters(block.hosts)
    row = {name: after[name] - before[name] for name in after}
    row["seconds"] = row.pop("time")
    return {**row, "datapath_flows": lab.datapath_flows()}


def measure(args):
    """In the namespaces: all runs, in random order; each row is written when it is complete."""
    measuring_lab.end_with_input()
    lab = measuring_lab.Lab()
    cells = blocks(args.quick, args.netalytics)
    balanced, done, writer, begun = 0, 0, None, time.monotonic()
    with open(args.out / "runs.csv", "w", newline="") as file:
        for run in range(1, args.runs + 1):
            if done and (time.monotonic() - begun) * (done + 1) / done > args.minutes * 60:
                say(f"run {run} would end after {args.minutes:g} minutes and is left out")
                break
            order = random.Random(run)
            for block in order.sample(cells, len(cells)):
                before = lab.totals()
                lab.start_traffic(block)
                time.sleep(WARM)
                for setting in order.sample(block.settings, len(block.settings)):
                    of = {"run": run, "block": block.name, "hosts": block.hosts, "response": block.response, "flows": block.flows, **asdict(setting)}
                    row = of | slot(lab, block, setting, args.seconds * block.length, args.netalytics) | {"load": os.getloadavg()[0]}
                    if not writer:
                        writer = csv.DictWriter(file, list(row), lineterminator="\n")
                        writer.writeheader()
                    writer.writerow({name: f"{value:.6g}" if isinstance(value, float) else value for name, value in row.items()})
                    file.flush()
                lab.measure_with(NONE)
                lab.end_traffic()
                balanced += lab.balance(before)
            done = run
            say(f"run {run} of {args.runs}")
    print(json.dumps({"balanced_packets": balanced, "runs": done}))


def machine(args):
    text = lambda *command: subprocess.run(command, capture_output=True, text=True).stdout.strip()
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if "model name" in line), platform.machine())
    version = text(args.netalytics, "--version").split("\n")[0] if args.netalytics else "none"
    return {"date": f"{datetime.datetime.now():%Y-%m-%d %H:%M}", "cpu": model, "cores": os.cpu_count(), "kernel": platform.release(),
            "switch": text("ovs-vswitchd", "--version").split("\n")[0], "netalytics": version, "seconds": args.seconds,
            "load_before": os.getloadavg()[0], "quick": args.quick}


def refuse(text):
    sys.exit(f"cost_of_measuring.py: {text}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "runs" / f"{datetime.date.today()}-measuring", help="folder of results [%(default)s]")
    parser.add_argument("--netalytics", default=os.environ.get("NETALYTICS"), help="program to measure [$NETALYTICS; without it, its cells are left out]")
    parser.add_argument("--runs", type=int, help="measurements of each cell [10; with --quick 1]")
    parser.add_argument("--seconds", type=float, default=0.18, help="base duration of a measurement [%(default)s]")
    parser.add_argument("--minutes", type=float, default=11.5, help="start no run that would probably end later [%(default)s]")
    parser.add_argument("--quick", action="store_true", help="fewer cells, one run")
    parser.add_argument("--draw", action="store_true", help="tables and plots of an existing run")
    parser.add_argument("--publish", action="store_true", help="also write docs/plots and the tables of docs/cost-of-measuring.md")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.runs = args.runs or (1 if args.quick else 10)
    if args.inside:
        return measure(args)
    if not args.draw:
        begun = time.monotonic()
        if os.geteuid() != 0:
            refuse("requires root, to create network namespaces and to start Open vSwitch in them")
        missing = [name for name in measuring_lab.PROGRAMS if not shutil.which(name)]
        if missing or not os.path.exists(measuring_lab.SCHEMA):
            refuse(f"{', '.join(missing) or measuring_lab.SCHEMA} not found: install openvswitch-switch, tcpdump, iproute2, util-linux, ethtool, and Rust")
        if args.netalytics and not os.access(args.netalytics, os.X_OK):
            refuse(f"{args.netalytics} is not a program")
        args.netalytics = args.netalytics and os.path.abspath(args.netalytics)
        args.out = args.out.resolve()
        args.out.mkdir(parents=True, exist_ok=True)
        of = machine(args)
        words = [sys.executable, __file__, "--inside", "--out", args.out, "--runs", args.runs, "--seconds", args.seconds, "--minutes", args.minutes]
        words += ["--quick"] * args.quick + (["--netalytics", args.netalytics] if args.netalytics else [])
        code, said = measuring_lab.isolate([str(word) for word in words])
        if code:
            sys.exit(code)
        of |= json.loads(said) | {"took_seconds": round(time.monotonic() - begun)}
        (args.out / "machine.json").write_text(json.dumps(of, indent=1) + "\n")
    rows = measuring_report.write(args.out, ROOT if args.publish else None)
    try:
        import measuring_plots
    except ImportError as missing:
        say(f"no plots: {missing}")
    else:
        measuring_plots.draw(rows, ROOT / "docs/plots" if args.publish else args.out)
    say(f"wrote {args.out}")


if __name__ == "__main__":
    main()
