#!/usr/bin/env python3
"""Cost of monitoring for the monitored service: an application on the test bed (deploy/testbed.sh) without monitoring, and with each way of it: programs
at the server, a sniffer at the switch, mirrors, truncated copies, tunnels. Results: docs/cost-of-monitoring.md.

Read-only load, Zipf keys, 1 to 30 clients of wrk. Comparisons with no monitoring are measured in pairs, directly after each other, so that the machine's
load affects both. Requires root, Open vSwitch, nginx, wrk, tcpdump, tshark, rustc; plots require matplotlib.

    bench/cost.py --program target/release/netalytics [--quick]      # into bench/runs/DATE-cost; 12 minutes, quick: 3
    bench/cost.py --draw --out bench/runs/DATE-cost                  # page and plots again
"""
import argparse, datetime, json, os, pathlib, random, signal, subprocess, sys, tempfile, time

import cost_report
from cost_modes import BY_NAME, FLOW, HERE, MODES, ROOT, SERVER, SIZES, TUPLES, Bed, Watching, family

CLIENTS = (1, 5, 10, 20, 30)
SIZE = 4096
PACED = 30  # clients at 60 % of saturation, which pause between two requests
LINKED = [mode for mode in MODES if mode.group == "mirror" or mode.name in ("none", "onsite")]
BARS = ("onsite", "cells", "tuples", "flow", "psh")
# Access of `query --network` to its flows: files, flags, costs, and the client host.
PLANS = {"at the switch's ports": ("whole", [], None, None), "rules": ("copied", [], None, None), "mirror of ports": ("copied", [], "mirrors", None),
         "interface on the switch's host": ("here", ["--expect", f"{SERVER}:9=500Mbps"], None, "leaf1")}


def say(text):
    print(f"{datetime.datetime.now():%H:%M:%S} load {os.getloadavg()[0]:.1f}: {text}", flush=True)


def sweep(bed, modes, seconds):
    """Figures 6 and 7: each mode, by number of clients."""
    points = []
    for mode in modes:
        with Watching(bed, mode) as watching:
            for clients in CLIENTS:
                points.append({"mode": mode.name, "clients": clients, **watching.slot(clients, seconds, SIZE)})
        say(f"{mode.label}: " + ", ".join(f"{p['clients']}: {p['rate']:.0f}/s {p['p50']:.0f} us" for p in points if p["mode"] == mode.name))
    return points


def find_pause(bed, rate):
    """The pause of clients at which all together send this many requests per second."""
    pause = 0.5e3 * PACED / rate
    for _ in range(6):
        # In small steps, because the machine's load varies from second to second.
        pause *= min(1.5, max(0.7, bed.load(PACED, 1, SIZE, pause)["rate"] / rate))
    return pause


def pairs(bed, modes, rounds, pause, seconds):
    """No monitoring and a mode, directly after each other in alternating order, at 60 % of saturation and saturated."""
    found = []

    def both(mode, seed):
        with Watching(bed, mode) as watching:
            paced = watching.slot(PACED, seconds, SIZE, pause, seed)
            return {"paced": paced, "saturated": watching.slot(CLIENTS[-1], 1, SIZE, 0, seed)}

    for nth in range(rounds):
        for mode in modes:
            first, second = (BY_NAME["none"], mode)[:: 1 if nth % 2 == 0 else -1]
            a, b = both(first, nth + 1), both(second, nth + 1)
            none, other = (a, b) if first.name == "none" else (b, a)
            found.append({"mode": mode.name, "round": nth, "load_average": os.getloadavg()[0], "none": none, "watched": other})
        say(f"pairs, round {nth + 1} of {rounds}")
    return found


def by_size(bed, modes, seconds):
    """Figure 10, and its curve over response sizes: bytes to the monitor."""
    found = []
    for mode in modes:
        # A sniffer reports at its end; the switch counts copies.
        for at_once in [[size] for size in SIZES] if mode.group == "sniffer" else [SIZES]:
            with Watching(bed, mode) as watching:
                slots = [watching.slot(4, seconds, size) for size in at_once]
            for size, seen in zip(at_once, slots):
                packets, sent = seen["took_packets"], seen["took_bytes"]
                if mode.group == "sniffer":
                    packets, sent = watching.summary["reports"], watching.summary["report_bytes"]
                if not seen["requests"]:
                    continue  # a busy machine: no request was answered in time
                found.append({"mode": mode.name, "size": size, "requests": seen["requests"], "packets": packets, "bytes": sent})
        say(f"{mode.label}: bytes a request {[round(f['bytes'] / max(1, f['requests']), 1) for f in found if f['mode'] == mode.name]}")
    return found


def link(bed, modes, rounds, seconds, program):
    """Figure 8: round-trip time of 64 bytes, with one connection and with ten, without load."""
    found = []
    def ask(name, client, server, address):
        serving = bed.start(server, [program, "serve", f"{address}:80"])
        time.sleep(0.2)
        for connections in (1, 10):
            said = bed.on(client, [program, "ask", f"{address}:80", connections, seconds], capture_output=True).stdout
            found.append({"mode": name, "connections": connections, **json.loads(said)})
        serving.kill()
        serving.wait()
    bed.web(False)
    a, b = (f"{bed.prefix}-{end}" for end in ("end1", "end2"))
    for words in (f"netns add {a}", f"netns add {b}", f"link add eth0 netns {a} type veth peer name eth0 netns {b}"):
        subprocess.run(["ip", *words.split()], check=True)
    for name, address in ((a, "10.61.0.1"), (b, "10.61.0.2")):
        for words in (f"addr add {address}/24 dev eth0", "link set eth0 up", "link set lo up"):
            subprocess.run(["ip", "-n", name, *words.split()], check=True)
        subprocess.run(["ip", "netns", "exec", name, "ethtool", "-K", "eth0", "tx", "off"], check=True, stdout=subprocess.DEVNULL)
    for nth in range(rounds):
        ask("no switch", "end1", "end2", "10.61.0.2")
        for mode in modes:
            with Watching(bed, mode):
                ask(mode.name, "client1", "proxy", SERVER)
        say(f"link latency, round {nth + 1} of {rounds}")
    bed.web(True)
    return found


def plans(bed, times):
    """From the start of the command to its first row, and from Ctrl-C to complete removal."""
    found = []
    load = bed.start("client1", ["wrk", "-t1", "-c1", "-d600s", "-s", HERE / "cost/zipf.lua", f"http://{SERVER}/", "--", SIZE, 5, 1], stdout=subprocess.DEVNULL)
    for _ in range(times):
        for name, (network, flags, costs, host) in PLANS.items():
            words = [bed.program, "query", TUPLES, "--network", bed.folder / f"{network}.toml", "--exact", *flags, "--format", "jsonl"]
            words += ["--costs", bed.folder / f"{costs}.costs"] if costs else []
            begun = time.monotonic()
            query = bed.start(host, words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            assert query.stdout.readline(), query.stderr.read()
            first = time.monotonic() - begun
            copies, started = bed.left(), family(query.pid)[1:]
            time.sleep(0.3)
            begun = time.monotonic()
            query.send_signal(signal.SIGINT)
            query.stdout.read()
            query.wait()
            ended = time.monotonic() - begun
            left = bed.left() + [pid for pid in started if pathlib.Path(f"/proc/{pid}").exists()]
            assert not left and query.returncode == 0, (left, query.stderr.read())
            assert bool(copies) == (name != "at the switch's ports"), f"{name}: {copies}"
            found.append({"way": name, "first": first, "gone": ended, "copies": len(copies)})
        say("to the first row: " + ", ".join(f"{name}: {[round(f['first'], 2) for f in found if f['way'] == name][-1]} s, gone {[round(f['gone'], 2) for f in found if f['way'] == name][-1]} s" for name in PLANS))
    load.kill()
    load.wait()
    return found


def build_pingpong(folder):
    program = pathlib.Path(folder) / "pingpong"
    subprocess.run(["rustc", "-O", "--edition", "2024", "-o", program, HERE / "cost/pingpong.rs"], check=True)
    return program


def measure(args, file):
    begun = time.monotonic()
    quick = args.quick
    with tempfile.TemporaryDirectory(prefix="cost-", dir="/tmp") as folder:
        pingpong = build_pingpong(folder)
        with Bed(folder, pathlib.Path(args.program).resolve()) as bed:
            averages = []
            said = subprocess.run([bed.program, "--version"], capture_output=True, text=True).stdout.split("\n")[0]
            results = {"date": f"{datetime.datetime.now():%Y-%m-%d %H:%M}", "quick": quick, "cores": os.cpu_count(), "build": args.build, "version": said, "size": SIZE, "commands": explained(bed)}

            def keep(**more):
                """Saves results so far, so that a later failure does not lose them."""
                averages.append(os.getloadavg()[0])
                results.update(more, load_averages=averages, seconds=time.monotonic() - begun)
                file.write_text(json.dumps(results, indent=1) + "\n")

            bed.load(10, 1, SIZE)
            keep(plans=plans(bed, 2 if quick else args.times))
            copying = [mode for mode in MODES if mode.group == "mirror" or mode.name in ("cells", "tuples")]
            keep(sizes=by_size(bed, copying, 1))
            keep(link=link(bed, LINKED, 1, 1, pingpong))
            saturated = sorted(bed.load(CLIENTS[-1], 1, SIZE)["rate"] for _ in range(5))[2]
            pause = find_pause(bed, 0.6 * saturated)
            say(f"saturated at {saturated:.0f}/s; a pause of {pause:.2f} ms for 60 %")
            others = [mode for mode in MODES if mode.name != "none"]
            seconds, rounds = (1, 0) if quick else (2, args.rounds)
            found = pairs(bed, others, max(1, rounds), pause, seconds)
            keep(saturation=saturated, pause_ms=pause, pairs=found)
            keep(pairs=found + pairs(bed, [mode for mode in others if mode.name in BARS], 2 * rounds + 1, pause, seconds))
            keep(sweep=sweep(bed, MODES, 1))
    return results


def explained(bed):
    """The rules of the selective mirror, as printed by `explain`; modes set up by ovs-ofctl use them with other flags or ports."""
    said = subprocess.run([bed.program, "explain", TUPLES, "--network", bed.folder / "copied.toml", "--exact"], check=True, capture_output=True, text=True).stdout
    rules = [line.strip().split("cookie=")[1].split(",", 4)[-1] for line in said.split("\n") if "cookie=" in line]
    assert all(any(match in rule for rule in rules) for match in FLOW), rules
    return rules


def main():
    # On a signal, the bed is removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "runs" / f"{datetime.date.today()}-cost")
    parser.add_argument("--program", default=ROOT / "target/release/netalytics", help="netalytics [%(default)s]")
    parser.add_argument("--build", default="release", help="how it was built, for the page")
    parser.add_argument("--rounds", type=int, default=2, help="pairs of each mode; three times as many and one for modes with a requirement [%(default)s]")
    parser.add_argument("--times", type=int, default=5, help="queries from command to first row, per mode [%(default)s]")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter measurements; nothing is drawn")
    parser.add_argument("--draw", action="store_true", help="page and plots of an existing run")
    parser.add_argument("--first", action="store_true", help="only the link, and from the command to the first row, with priority over all other processes; added to an existing run")
    args = parser.parse_args()
    file = args.out / "results.json"
    if args.first:
        os.nice(-15)
        with tempfile.TemporaryDirectory(prefix="cost-", dir="/tmp") as folder, Bed(folder, pathlib.Path(args.program).resolve()) as bed:
            more = {"plans_first": plans(bed, 3), "link_first": link(bed, LINKED, 1, 1, build_pingpong(folder))}
        results = json.loads(file.read_text()) | more
        file.write_text(json.dumps(results, indent=1) + "\n")
    elif args.draw:
        results = json.loads(file.read_text())
    else:
        args.out.mkdir(parents=True, exist_ok=True)
        results = measure(args, file)
    (args.out / "README.md").write_text(cost_report.page(results))
    if not args.quick:
        cost_report.draw(results, ROOT / "docs/plots")


if __name__ == "__main__":
    main()
