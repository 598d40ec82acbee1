#!/usr/bin/env python3
"""All figures of docs/performance.md in one run: limits, netalytics, peers, workers, memory, rings.

    bench/run.py [--quick] [--captures DIR] [--out bench/runs/DATE] [--workers 2]

Builds the programs, generates the synthetic captures, runs each measurement pinned to one core, and writes raw figures
(results.json) and a table (README.md) into the output folder. Peers come from bench/peers.sh; missing ones are
reported and skipped. Quote ratios: rates depend on the machine and its load.
"""
import argparse, json, os, platform, shutil, statistics, subprocess, sys, tempfile, time
from jobs import JOBS, SIZES, SYNTHETIC, peer
import report

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
GENERATORS = os.path.join(os.path.dirname(ROOT), "shared", "bench", "gen")


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def build():
    for folder, what in ((ROOT, ["-p", "netalytics"]), (HERE, ["--workspace"])):
        subprocess.run(["cargo", "build", "--release", "--quiet", "--locked", *what], cwd=folder, check=True)


def generate(captures):
    """Generates missing synthetic captures; real traffic must be recorded."""
    os.makedirs(captures, exist_ok=True)
    missing = [name for name in SYNTHETIC if not os.path.exists(f"{captures}/{name}.pcap")]
    if missing and not os.path.exists(f"{GENERATORS}/nxgen"):
        return say(f"no {', '.join(missing)}: no generator next to the repository; see bench/README.md")
    target = os.path.join(HERE, "target", "nxgen")
    if missing:
        subprocess.run(["cargo", "build", "--release", "--quiet", "--manifest-path", f"{GENERATORS}/nxgen/Cargo.toml", "--target-dir", target], check=True)
    for name in missing:
        say("making", name)
        subprocess.run([f"{target}/release/nxgen", *SYNTHETIC[name].split(), "--out", f"{captures}/{name}.pcap"], check=True, stdout=subprocess.DEVNULL)


def run(command, cpus, work, limit_s=600):
    """CPU and wall seconds and peak MiB of one run; None if it fails or takes too long."""
    with open(f"{work}/out", "wb") as out, open(f"{work}/err", "wb") as err:
        begin = time.monotonic()
        child = subprocess.Popen(["taskset", "-c", cpus, *command], stdout=out, stderr=err, stdin=subprocess.DEVNULL, env={**os.environ, "GOMAXPROCS": "1"})
        while True:
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() - begin > limit_s:
                child.kill()
                os.wait4(child.pid, 0)
                say("  took too long:", command[0])
                return None
            time.sleep(0.002)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        say(f"  {' '.join(command)[:120]}: exit {child.returncode}:", open(f"{work}/err", errors="replace").read()[-300:])
        return None
    return dict(cpu_s=usage.ru_utime + usage.ru_stime, wall_s=time.monotonic() - begin, mib=usage.ru_maxrss / 1024)


def medians(command, runs, cpus, work, limit_s=600):
    """Runs after a warm-up of the page cache; None if one fails."""
    rows = [run(command, cpus, work, limit_s) for _ in range(runs + 1 if runs > 1 else 1)]
    if None in rows:
        return None
    rows = rows[1:] or rows
    return {key: statistics.median(row[key] for row in rows) for key in rows[0]} | {"runs": len(rows), "cpu_s_min": min(r["cpu_s"] for r in rows), "wall_s_min": min(r["wall_s"] for r in rows)}


def instructions(command, cpus):
    """User instructions of one run, which are independent of noise; None without perf."""
    if not shutil.which("perf"):
        return None
    done = subprocess.run(["perf", "stat", "-x,", "-e", "instructions:u", "taskset", "-c", cpus, *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    figures = [line.split(",")[0] for line in done.stderr.splitlines() if "instructions" in line]
    return int(figures[0]) if figures and figures[0].isdigit() else None


def json_lines(command, cpus=None):
    if not os.path.exists(command[0]):
        return say(f"no {os.path.basename(command[0])}: see bench/peers.sh")
    done = subprocess.run([*(["taskset", "-c", cpus] if cpus else []), *command], stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


class Bench:
    def __init__(self, args):
        self.args, self.cpu, self.work = args, str(args.cpu), tempfile.mkdtemp(prefix="netalytics-bench-")
        self.shapes = {}

    def capture(self, name):
        return f"{self.args.captures}/{name}.pcap"

    def have(self, name):
        if os.path.exists(self.capture(name)):
            return True
        say(f"{name}: no such capture, omitted")

    def limits(self, names):
        """Also determines packets and bits of a capture."""
        rows = json_lines([f"{HERE}/target/release/limits", "--passes", str(3 if self.args.quick else 7), *map(self.capture, names)], self.cpu)
        for row in rows:
            self.shapes[row["capture"]] = (row["packets"], row["gbps"] * row["packets"] / row["mpps"] * 1e3)
        return rows

    def ours(self, capture, query, *flags):
        return [self.args.netalytics, "query", query, "-r", self.capture(capture), "--format", "jsonl", "--summary-json", f"{self.work}/summary", *flags]

    def job(self, job, limits):
        command = self.ours(job.capture, job.query)
        row = medians(command, self.args.runs, self.cpu, self.work)
        if row is None:
            return None
        summary = json.load(open(f"{self.work}/summary"))
        packets, bits = self.shapes[job.capture]
        row |= dict(capture=job.capture, job=job.name, query=job.query, unit=job.unit, bar=job.bar, mib_max=job.mib, packets=packets, wire_bits=bits,
                    tuples=summary["tuples"], instructions=instructions(command, self.cpu), peers=[], bars=job.bars)
        row |= dict(zip(("mpps", "gbps", "tuples_per_us"), (n / row["cpu_s"] for n in (packets / 1e6, bits / 1e9, summary["tuples"] / 1e6))))
        if job.truth and os.path.exists(truth := self.capture(job.capture) + ".json"):
            row["truth"] = sum(json.load(open(truth))[key] for key in job.truth)
        best = next((l for l in limits if l["capture"] == job.capture and l["limit"] == job.limit), None)
        if best:
            row |= dict(limit=job.limit, limit_mpps=best["mpps"], of_limit=row["mpps"] / best["mpps"])
        for name in job.peers:
            slow = name.startswith(("packetbeat", "tshark"))
            if self.args.peers == "all" or self.args.peers == "fast" and not slow:
                row["peers"].append(self.peer(name, job, row, 1 if slow else self.args.peer_runs))
        row["peers"] = [p for p in row["peers"] if p]
        if self.args.workers > 1:
            row["workers"] = self.workers(job.capture, job.query)
        return row

    def peer(self, name, job, ours, runs):
        command, note = peer(name, self.capture(job.capture), HERE, self.work)
        if not shutil.which(command[0]):
            return say(f"  no {name}: see bench/peers.sh")
        found = medians(command, runs, self.cpu, self.work, self.args.peer_seconds)
        shutil.rmtree(f"{self.work}/data", ignore_errors=True)
        if found and os.path.exists(events := f"{self.work}/packetbeat"):
            found["events"] = sum(1 for _ in open(events, "rb"))
            os.remove(events)
        return found and dict(name=name, note=note, ratio=found["cpu_s"] / ours["cpu_s"], mpps=ours["packets"] / found["cpu_s"] / 1e6, gbps=ours["wire_bits"] / found["cpu_s"] / 1e9) | found

    def workers(self, capture, query):
        """Wall seconds of 1, 2 … workers on as many cores."""
        walls = {}
        for n in range(1, self.args.workers + 1):
            cpus = ",".join(str(c) for c in range(n)) if n > 1 else self.cpu
            found = medians(self.ours(capture, query, "--workers", str(n)), self.args.runs, cpus, self.work)
            walls[n] = found and found["wall_s"]
        return walls

    def memory_over_time(self, name, query, rounds):
        """Resident MiB of one process at every tenth of `rounds` repetitions of the capture."""
        size = os.path.getsize(self.capture(name)) * rounds
        source = subprocess.Popen([f"{HERE}/target/release/repeat", str(rounds), self.capture(name)], stdout=subprocess.PIPE)
        command = [self.args.netalytics, "query", query, "-r", "-", "-q", "-o", f"{self.work}/out"]
        child = subprocess.Popen(command, stdin=source.stdout, stderr=subprocess.DEVNULL)
        source.stdout.close()
        points = []
        while child.poll() is None:
            try:
                read = int(next(l for l in open(f"/proc/{child.pid}/io") if l.startswith("rchar")).split()[1])
                resident = int(next(l for l in open(f"/proc/{child.pid}/status") if l.startswith("VmRSS")).split()[1]) / 1024
            except (OSError, StopIteration):
                break
            if read >= size * (len(points) + 1) / 10 and len(points) < 10:
                points.append(round(resident, 1))
            time.sleep(0.01)
        child.wait()
        source.wait()
        return dict(capture=name, query=query, rounds=rounds, resident_mib=points)

    def measure(self):
        names = [n for n in dict.fromkeys([j.capture for j in JOBS] + [s[1] for s in SIZES]) if self.have(n)]
        say("limits")
        results = dict(machine=machine(self.args), limits=self.limits(names), memory=json_lines([f"{HERE}/target/release/limits", "memory"], self.cpu), jobs=[], sizes=[])
        for job in [j for j in JOBS if j.capture in names]:
            if row := self.job(job, results["limits"]):
                results["jobs"].append(row)
                say(report.line(row))
        for parser, name, size, query in [s for s in SIZES if s[1] in names]:
            if found := medians(self.ours(name, query), self.args.runs, self.cpu, self.work):
                packets, bits = self.shapes[name]
                results["sizes"].append(dict(parser=parser, bytes=size, mpps=packets / found["cpu_s"] / 1e6, gbps=bits / found["cpu_s"] / 1e9))
        if self.have("mc_bin"):
            say("memory over a long run")
            rounds = 10 if self.args.quick else 100
            results["flat"] = [self.memory_over_time("mc_bin", "PARSE memcached PROCESS (diff-group: group=command)", rounds)]
        say("rings between threads")
        rounds = "1" if self.args.quick else "9"
        binaries = f"{HERE}/target/release", f"{HERE}/target/peers"
        commands = ([f"{binaries[1]}/ringlimit", rounds], [f"{binaries[0]}/queues", rounds], [f"{binaries[1]}/cppqueues", rounds], [f"{binaries[1]}/goqueues", "queues", rounds])
        results["queues"] = [row for command in commands for row in json_lines(command) or []]
        rounds = "1" if self.args.quick else "5"
        results["fabric"] = [row for command in ([f"{binaries[0]}/fabric", rounds], [f"{binaries[1]}/goqueues", "fabric", rounds]) for row in json_lines(command) or []]
        shutil.rmtree(self.work, ignore_errors=True)
        return results


def machine(args):
    text = lambda *command: subprocess.run(command, capture_output=True, text=True).stdout.strip()
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if "model name" in line), platform.machine())
    return dict(cpu=cpu, cores=os.cpu_count(), kernel=platform.release(), commit=text("git", "-C", ROOT, "rev-parse", "--short", "HEAD"),
                load=os.getloadavg()[0], runs=args.runs, rustc=text("rustc", "--version"), quick=args.quick)


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--quick", action="store_true", help="one run of everything, only with peers in this folder: checks for completeness")
    args.add_argument("--captures", default=os.path.join(HERE, "captures"), help="folder of the captures; synthetic ones are generated there (default: bench/captures)")
    args.add_argument("--out", default=os.path.join(HERE, "runs", time.strftime("%Y-%m-%d")))
    args.add_argument("--runs", type=int, default=5)
    args.add_argument("--peers", choices=["all", "fast", "none"], default="all", help="fast: without tshark and Packetbeat")
    args.add_argument("--peer-runs", type=int, default=1)
    args.add_argument("--peer-seconds", type=float, default=180, help="time limit of a peer; slower ones are omitted")
    args.add_argument("--workers", type=int, default=1, help="also measure the wall time of 1 to N workers")
    args.add_argument("--cpu", type=int, default=os.cpu_count() - 1)
    args.add_argument("--netalytics", default=os.path.join(ROOT, "target", "release", "netalytics"), help="the binary to measure (default: built here)")
    args.add_argument("--no-build", action="store_true")
    args = args.parse_args()
    if args.quick:
        args.runs, args.peers = 1, "none"
    if not args.no_build:
        build()
    generate(args.captures)
    results = Bench(args).measure()
    os.makedirs(args.out, exist_ok=True)
    with open(f"{args.out}/results.json", "w") as f:
        json.dump(results, f, indent=1)
    with open(f"{args.out}/README.md", "w") as f:
        f.write(report.markdown(os.path.basename(os.path.abspath(args.out)), results))
    say("wrote", args.out)


if __name__ == "__main__":
    main()
