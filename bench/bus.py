#!/usr/bin/env python3
"""Cost of Kafka and Flink by role, compared with librdkafka's performance tool, and a model of larger networks.

    bench/bus.py --captures DIR --programs DIR [--out bench/runs/DATE-bus] [--repeat 5] [--part publish,share,roles,flink,latency]
                 [--before PROGRAM]

PROGRAMS is the directory of deploy/kafka-flink.sh. Real processes run on this machine: brokers and Flink on the last core,
publishers on the first. CPU seconds are user + system of whole processes. Writes results.json; bench/bus_report.py
renders a page, a model, and plots.
"""
import argparse, contextlib, datetime, json, math, os, pathlib, re, resource, shutil, signal, statistics, subprocess, sys, tempfile, time, urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
TICK = os.sysconf("SC_CLK_TCK")
CORES = os.cpu_count()
OURS, THEIRS = "0", str(CORES - 1)
# The paper's parser of figures 5 and 6, and its ranking of URLs (section 7.3).
TUPLES = "PARSE http_get"
TOP = "PARSE http_get PROCESS (top-k: k=10, key=url, w=1s, lateness=0s)"
GROUPS = "PARSE http_get PROCESS (group-count: group=url, w=1s, lateness=0s)"
PARTS = ("publish", "share", "roles", "flink", "latency")


class Measured:
    """A finished command: output, CPU seconds, wall seconds."""

    def __init__(self, command, core=OURS, **named):
        begun, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(["taskset", "-c", core, *map(str, command)], capture_output=True, text=True, **named)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert done.returncode == 0, (command, done.stderr[-2000:])
        self.out, self.err, self.wall_s = done.stdout, done.stderr, time.monotonic() - begun
        self.cpu_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


class Cluster:
    """Brokers, and optionally Flink, in their own directory."""

    def __init__(self, programs, folder, flink=True, brokers=1):
        self.dir = pathlib.Path(folder)
        for part in ("kafka", "flink/lib", "flink/gateway", "flink/complete"):
            link = self.dir / part
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(pathlib.Path(programs).resolve() / part)
        self.part = [] if flink else ["kafka"]
        self.script("start", env={**os.environ, "BROKERS": str(brokers), "SLOTS": "8"})
        lines = (self.dir / "addresses").read_text().split()
        self.addresses = dict(line.removeprefix("export ").split("=", 1) for line in lines if "=" in line)
        self.kafka = self.addresses["KAFKA"]

    def script(self, what, **named):
        subprocess.run(["taskset", "-c", THEIRS, ROOT / "deploy/kafka-flink.sh", what, self.dir, *self.part], check=True,
                       stdout=subprocess.DEVNULL, **named)

    def flags(self):
        return ["--engine", "flink", "--flink-gateway", self.addresses["GATEWAY"], "--flink", self.addresses["FLINK"]]

    def cpu(self):
        """CPU seconds so far of brokers and of Flink's workers."""
        told = {"broker": 0.0, "taskmanager": 0.0}
        for file in (self.dir / "run").glob("*.pid"):
            role = file.stem.split("-")[0]
            if role in told:
                fields = pathlib.Path(f"/proc/{file.read_text().strip()}/stat").read_text().rpartition(")")[2].split()
                told[role] += (int(fields[11]) + int(fields[12])) / TICK
        return told

    def kept(self):
        """Compressed size of the published records on the brokers' disks."""
        return sum(file.stat().st_size for file in self.dir.glob("data/*/netalytics.*/*.log"))

    def ask_flink(self, path):
        with urllib.request.urlopen(self.addresses["FLINK"] + path) as answer:
            return json.load(answer)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.script("stop")


@contextlib.contextmanager
def cluster(args, **named):
    with tempfile.TemporaryDirectory(dir=ROOT / "target") as folder, Cluster(args.programs, folder, **named) as one:
        yield one


def build(program):
    """Builds the program, unless given, and librdkafka's performance tool with the same library."""
    if not program:
        subprocess.run(["cargo", "build", "--release", "--locked", "-p", "netalytics"], cwd=ROOT, check=True)
    told = json.loads(subprocess.run(["cargo", "metadata", "--format-version", "1", "--locked"], cwd=ROOT, check=True, capture_output=True).stdout)
    [manifest] = [p["manifest_path"] for p in told["packages"] if p["name"] == "rdkafka-sys"]
    source = pathlib.Path(manifest).parent / "librdkafka"
    library = max((ROOT / "target/release/build").glob("rdkafka-sys-*/out/src/librdkafka.a"), key=lambda file: file.stat().st_mtime)
    tool = ROOT / "target/rdkafka_performance"
    packers = [next((ROOT / "target/release/build").glob(f"*/out/**/{name}.a")) for name in ("libz", "libzstd")]
    subprocess.run(["cc", "-O2", "-w", f"-I{library.parent}", "-o", tool, source / "examples/rdkafka_performance.c", library, *packers,
                    "-lssl", "-lcrypto", "-lm", "-lpthread", "-ldl"], check=True)
    return program or ROOT / "target/release/netalytics", tool


def middle(runs, name):
    return statistics.median(run[name] for run in runs)


def published(program, cluster, capture, query, *flags):
    """Publishes a capture from one core."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        before, kept = cluster.cpu(), cluster.kept()
        done = Measured([program, "publish", query, "-r", capture, "--kafka", cluster.kafka, "--workers", 1, "--no-redact", "--summary-json", file.name, *flags])
        after, summary = cluster.cpu(), json.load(open(file.name))
    sent = summary["sent"]
    return {"cpu_s": done.cpu_s, "wall_s": done.wall_s, "broker_s": after["broker"] - before["broker"], "records": sent["acknowledged"],
            "bytes": sent["bytes"], "kept_bytes": cluster.kept() - kept}


# Tuples of whole requests, and the smallest tuples.
SENT = (("http_web", TUPLES), ("get256_10k", TUPLES), ("tcp64_10k", "PARSE tcp_pkt_size"))


def publish(args, program, tool, told):
    """Tuples per second into Kafka from one core, compared with librdkafka's tool."""
    for name, query in SENT:
        capture = args.captures / f"{name}.pcap"
        if not capture.exists():
            continue
        size = capture.stat().st_size
        ours, before, theirs, bounded, bare = [], [], [], [], []
        with cluster(args, flink=False) as bus:
            for _ in range(args.repeat):
                ours.append(published(program, bus, capture, query))
                records, average = ours[-1]["records"], round(ours[-1]["bytes"] / max(1, ours[-1]["records"]))
                if args.before:
                    before.append(published(args.before, bus, capture, query))
                for runs, settings in ((theirs, ["linger.ms=20"]), (bounded, ["linger.ms=100", "queue.buffering.max.kbytes=4096"])):
                    flags = [part for one in ("enable.idempotence=true", "batch.num.messages=100000", *settings) for part in ("-X", one)]
                    done = Measured([tool, "-P", "-t", "bench", "-p", 0, "-s", average, "-c", records, "-b", bus.kafka, "-z", "lz4", "-q", "-a", -1, *flags])
                    runs.append({"cpu_s": done.cpu_s, "wall_s": done.wall_s})
                done = Measured([program, "query", query, "-r", capture, "--workers", 1, "--format", "csv", "-o", "/dev/null"])
                bare.append({"cpu_s": done.cpu_s})
            threads = spent_by_threads(program, bus, capture, query)
            threads_before = spent_by_threads(args.before, bus, capture, query) if args.before else {}
        records = ours[0]["records"]
        row = {"capture": name, "query": query, "records": records, "bytes_a_record": ours[0]["bytes"] / records, "input_bytes": size,
               "ours_cpu_s": middle(ours, "cpu_s"), "ours_wall_s": middle(ours, "wall_s"),
               "tool_cpu_s": middle(theirs, "cpu_s"), "tool_wall_s": middle(theirs, "wall_s"), "csv_cpu_s": middle(bare, "cpu_s"), "threads_cpu_s": threads}
        row["runs_cpu_s"] = {name: [run["cpu_s"] for run in runs] for name, runs in (("ours", ours), ("before", before), ("tool", theirs), ("tool_bounded", bounded))}
        row["tool_bounded_cpu_s"] = middle(bounded, "cpu_s")
        if before:
            row |= {"before_cpu_s": middle(before, "cpu_s"), "threads_before_cpu_s": threads_before}
        row["ratio"] = row["tool_cpu_s"] / row["ours_cpu_s"]
        row["tuples_a_cpu_s"] = records / row["ours_cpu_s"]
        row["tuples_a_s"] = records / row["ours_wall_s"]
        row["tool_a_cpu_s"] = records / row["tool_cpu_s"]
        row["tuples_a_busiest_s"] = records / max(threads.values())
        told.setdefault("publish", []).append(row)
        say(row)


def spent_by_threads(program, cluster, capture, query):
    """Last known CPU seconds of a publisher's threads, by name."""
    spent = {}
    with tempfile.TemporaryFile() as nowhere:
        one = subprocess.Popen([program, "publish", query, "-r", capture, "--kafka", cluster.kafka, "--workers", "1", "--no-redact"], stdout=nowhere, stderr=nowhere)
        while one.poll() is None:
            for task in pathlib.Path(f"/proc/{one.pid}/task").glob("*"):
                with contextlib.suppress(OSError):
                    name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
                    fields = rest.split()
                    spent[task.name] = (name, (int(fields[11]) + int(fields[12])) / TICK)
            time.sleep(0.01)
    assert one.returncode == 0, one.returncode
    by_name = {}
    for name, seconds in spent.values():
        by_name[name] = by_name.get(name, 0.0) + seconds
    return {name: seconds for name, seconds in by_name.items() if seconds > 0}


def share(args, program, _, told):
    """Bytes on the brokers per byte of traffic: tuples with both compressions, cells with two window lengths."""
    for name in ("http_web", "http_web_30s"):
        capture = args.captures / f"{name}.pcap"
        if not capture.exists():
            continue
        size = capture.stat().st_size
        row = {"capture": name, "input_bytes": size, "seconds": span_s(program, capture)}
        for packing in ("lz4", "zstd"):
            for what, query in (("tuples", TUPLES), ("cells_1s", TOP), ("cells_10s", TOP.replace("w=1s", "w=10s"))):
                with cluster(args, flink=False) as bus:
                    one = published(program, bus, capture, query, "--compression", packing)
                row[f"{what}_{packing}"] = {"records": one["records"], "kept_bytes": one["kept_bytes"], "share": one["kept_bytes"] / size, "cpu_s": one["cpu_s"]}
        told.setdefault("share", []).append(row)
        say(row)


# Number of additional records that the difference is based on, and maximum number of publishers.
MORE_RECORDS, MORE_MAX = 2_000_000, 24
ASK = "SINCE 2001-01-01"


def asked(program, cluster, query, what, flags):
    """Queries all published records."""
    before = cluster.cpu()
    done = Measured([program, "query", f"{query} {ASK}", "--kafka", cluster.kafka, "--published", what, "--format", "jsonl", "-o", "/dev/null", *flags])
    after = cluster.cpu()
    return {"asker": done.cpu_s, "wall_s": done.wall_s, **{role: after[role] - before[role] for role in after}}


def roles(args, program, _, told):
    """Figure 6 of the paper as CPU seconds per GB and role. The difference of many publishers and one excludes start-up."""
    for name in captures(args):
        capture = args.captures / f"{name}.pcap"
        gigabytes = capture.stat().st_size / 1e9
        for what in ("tuples", "cells"):
            with cluster(args) as bus:
                engines = {"embedded": [], "flink": bus.flags()}
                one = [published(program, bus, capture, TOP, "--publish", what)]
                # The JVM compiles hot code during the first job: its figures are dropped.
                asked(program, bus, TOP, what, bus.flags())
                small = {engine: asked(program, bus, TOP, what, flags) for engine, flags in engines.items()}
                more = min(MORE_MAX, math.ceil(MORE_RECORDS / one[0]["records"]))
                one += [published(program, bus, capture, TOP, "--publish", what) for _ in range(more)]
                large = {engine: asked(program, bus, TOP, what, flags) for engine, flags in engines.items()}
            row = {"capture": name, "published": what, "input_gb": gigabytes, "publishers": more + 1, "monitor": middle(one, "cpu_s") / gigabytes, "broker_in": middle(one, "broker_s") / gigabytes}
            for engine in small:
                spent = {role: max(0.0, large[engine][role] - small[engine][role]) / (4 * gigabytes) for role in ("asker", "broker", "taskmanager")}
                row[engine] = {**spent, "start": {role: small[engine][role] for role in spent}}
            row["bytes_a_gb"] = middle(one, "kept_bytes") / gigabytes
            row["records_a_gb"] = middle(one, "records") / gigabytes
            row["records_a_s"] = middle(one, "records") / span_s(program, capture)
            told.setdefault("roles", []).append(row)
            say(row)


def span_s(program, capture):
    """Duration of a capture in seconds."""
    done = Measured([program, "query", "PARSE http_get PROCESS (group-count: w=1s, lateness=0s)", "-r", capture, "--format", "jsonl"])
    return len({json.loads(line)["window_start"] for line in done.out.splitlines()})


def flink(args, program, _, told):
    """Records per second of our group-by in Flink and of a plain count of the same topic, by wall time of the jobs and CPU seconds of their worker."""
    name = captures(args)[-1]
    capture = args.captures / f"{name}.pcap"
    with cluster(args) as bus:
        records = sum(published(program, bus, capture, TUPLES)["records"] for _ in range(args.copies))
        ours, bare = [], []
        for _ in range(args.repeat):
            ours.append(job(bus, lambda: asked(program, bus, GROUPS, "tuples", bus.flags())))
            bare.append(job(bus, lambda: count(program, bus)))
    row = {"capture": name, "records": records, **{f"ours_{k}": middle(ours, k) for k in ("busy_s", "cpu_s")}, **{f"bare_{k}": middle(bare, k) for k in ("busy_s", "cpu_s")}}
    row["ratio"] = row["bare_busy_s"] / row["ours_busy_s"]
    row["cpu_ratio"] = row["bare_cpu_s"] / row["ours_cpu_s"]
    row["records_a_s"] = records / row["ours_busy_s"]
    told["flink"] = row
    say(row)


def job(bus, run):
    """Runs a command that starts one job; returns the run time and CPU seconds of the job's workers."""
    known = {j["jid"] for j in bus.ask_flink("/jobs/overview")["jobs"]}
    before = bus.cpu()["taskmanager"]
    run()
    [new] = [j for j in bus.ask_flink("/jobs/overview")["jobs"] if j["jid"] not in known]
    told = bus.ask_flink(f"/jobs/{new['jid']}")["timestamps"]
    return {"busy_s": (told["FINISHED"] - told["RUNNING"]) / 1e3, "cpu_s": bus.cpu()["taskmanager"] - before}


def count(program, bus):
    """Runs `INSERT INTO … SELECT COUNT(*)` over the table of our plan until the job has ended."""
    plan = [program, "explain", f"{GROUPS} {ASK}", "--kafka", bus.kafka, "--engine", "flink", "--published", "tuples"]
    plan = subprocess.run(plan, check=True, capture_output=True, text=True).stdout
    statements = [one.strip() for one in plan.split(";\n") if one.strip()]
    settings = [one for one in statements if one.startswith("SET")]
    source = next(one for one in statements if one.startswith("CREATE"))
    table = re.search(r"TABLE (?:IF NOT EXISTS )?(\S+)", source)[1]
    sink = "CREATE TEMPORARY TABLE counted (n BIGINT) WITH ('connector' = 'blackhole')"
    gateway = Gateway(bus.addresses["GATEWAY"])
    for statement in (*settings, source, sink, f"INSERT INTO counted SELECT COUNT(*) FROM {table}"):
        gateway.execute(statement)
    while any(j["state"] not in ("FINISHED", "FAILED", "CANCELED") for j in bus.ask_flink("/jobs/overview")["jobs"]):
        time.sleep(0.1)


class Gateway:
    """A minimal client of Flink's SQL Gateway."""

    def __init__(self, url):
        self.url = url + "/v1/sessions"
        self.url += "/" + self.ask("", {})["sessionHandle"]

    def ask(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def execute(self, statement):
        operation = f"/operations/{self.ask('/statements', {'statement': statement})['operationHandle']}"
        while (status := self.ask(operation + "/status")["status"]) in ("PENDING", "RUNNING", "INITIALIZED"):
            time.sleep(0.05)
        assert status == "FINISHED", self.ask(operation + "/result/0")


LIVE_LATENESS_S, LIVE_CHECKPOINTS_S = 0.5, 1


def latency(args, program, _, told):
    """Delay from the end of a window to its row, live: loopback requests, published and merged by Flink."""
    query = f"PARSE http_get FROM * TO *:{{port}} PROCESS (group-count: group=method, w=1s, lateness={LIVE_LATENESS_S}s)"
    server = subprocess.Popen([sys.executable, "-m", "http.server", "0", "--bind", "127.0.0.1"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}, cwd=HERE)
    port = int(re.search(r"port (\d+)", server.stdout.readline())[1])
    query = query.format(port=port)
    with cluster(args) as bus:
        publisher = subprocess.Popen(["taskset", "-c", OURS, program, "publish", query, "-i", "lo", "--kafka", bus.kafka], stderr=subprocess.DEVNULL)
        for engine in ("embedded", "flink"):
            flags = [*bus.flags(), "--checkpoints", f"{LIVE_CHECKPOINTS_S}s"] if engine == "flink" else []
            asker = subprocess.Popen([program, "query", f"{query} LIMIT {args.seconds}s", "--kafka", bus.kafka, "--published", "cells", "--format", "jsonl", *flags],
                                     stdout=subprocess.PIPE, text=True)
            load = subprocess.Popen([sys.executable, "-c", LOAD, str(port)])
            waited = []
            for line in asker.stdout:
                waited.append(time.time() - json.loads(line)["window_end"] / 1e9)
            load.kill()
            asker.wait(60)
            # The first windows include the job's start, the last were emitted at its end.
            waited = sorted(waited[5:-2])
            bar = LIVE_LATENESS_S + (LIVE_CHECKPOINTS_S if engine == "flink" else 0) + 1
            row = {"engine": engine, "windows": len(waited), "median_s": statistics.median(waited), "p90_s": waited[len(waited) * 9 // 10], "most_s": waited[-1], "bar_s": bar}
            told.setdefault("latency", []).append(row)
            say(row)
        publisher.send_signal(signal.SIGINT)
        publisher.wait(60)
    server.kill()


# Fifty requests a second.
LOAD = """
import http.client, sys, time
while True:
    c = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1])); c.request("GET", "/README.md"); c.getresponse().read(); c.close(); time.sleep(0.02)
"""


def captures(args):
    there = [name for name in ("http_web", "http_api", "get256_10k") if (args.captures / f"{name}.pcap").exists()]
    assert there, f"no capture in {args.captures}: see bench/README.md"
    return there


def say(row):
    print(json.dumps(row), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captures", type=pathlib.Path, required=True)
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--program", type=pathlib.Path, help="netalytics, already built")
    parser.add_argument("--before", type=pathlib.Path, help="an earlier netalytics, whose publisher is measured beside")
    parser.add_argument("--tool", type=pathlib.Path, help="librdkafka's performance tool, already built")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--copies", type=int, default=6, help="publishers of Flink's topic")
    parser.add_argument("--seconds", type=int, default=60, help="of the live part")
    parser.add_argument("--part", default=",".join(PARTS))
    args = parser.parse_args()
    out = args.out or HERE / "runs" / f"{datetime.date.today()}-bus"
    out.mkdir(parents=True, exist_ok=True)
    results = out / "results.json"
    told = json.loads(results.read_text()) if results.exists() else {}
    program, tool = (args.program, args.tool) if args.program and args.tool else build(args.program)
    for part in args.part.split(","):
        told.pop(part, None)
        told.update(date=str(datetime.date.today()), cores=CORES, repeat=args.repeat, query=TOP)
        globals()[part](args, program, tool, told)
        results.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
