#!/usr/bin/env python3
"""SAMPLE auto of publishers while Flink is throttled: rates, lag, and published records over time.

    bench/feedback.py --cluster DIR [--out bench/runs/DATE-feedback] [--pace 3000] [--draw]

DIR is the directory of deploy/kafka-flink.sh, with Kafka and Flink running. Requires root (virtual interfaces, a control group that
throttles Flink's TaskManager) and kafka-python with lz4. The sender counts packets; Kafka's offsets give the published and read
records. Writes results.json, README.md and, with matplotlib, docs/plots/feedback.svg; --draw only draws.
"""
import argparse, contextlib, datetime, json, os, pathlib, signal, subprocess, tempfile, time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
SENDER = ROOT / "crates/netalytics/tests/cli/conversations.py"
TOPIC = "netalytics.http.v1"
QUERY = "PARSE http PROCESS (group-count: group=path, sample_rate, w=1s)"
FAST, SLOW, AGAIN = 15, 45, 40
SCENES = {
    "one": ("one publisher, Flink", 1, "auto", True),
    "two": ("two publishers, Flink", 2, "auto", True),
    "nobody": ("one publisher, nobody reads", 1, "auto", False),
    "fixed": ("`SAMPLE 0.5`, Flink", 1, "0.5", True),
}


def sh(words):
    subprocess.run(words.split(), check=True)


class Group:
    """A control group that limits a process to a share of a core."""

    def __init__(self, pid):
        v1, v2 = pathlib.Path("/sys/fs/cgroup/cpu"), pathlib.Path("/sys/fs/cgroup")
        self.is_v1 = (v1 / "cpu.cfs_quota_us").exists()
        self.root = v1 if self.is_v1 else v2
        self.path = self.root / f"netalytics-bench-{os.getpid()}"
        self.path.mkdir()
        (self.path / "cgroup.procs").write_text(pid)

    def hold(self, cores):
        quota = max(1000, int(cores * 1e6))
        if self.is_v1:
            (self.path / "cpu.cfs_period_us").write_text("1000000")
        (self.path / ("cpu.cfs_quota_us" if self.is_v1 else "cpu.max")).write_text(str(quota) if self.is_v1 else f"{quota} 1000000")

    def let_go(self):
        (self.path / ("cpu.cfs_quota_us" if self.is_v1 else "cpu.max")).write_text("-1" if self.is_v1 else "max")

    def close(self):
        self.let_go()
        for pid in (self.path / "cgroup.procs").read_text().split():
            (self.root / "cgroup.procs").write_text(pid)
        self.path.rmdir()


def cpu(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cores(pid, seconds):
    before = cpu(pid)
    time.sleep(seconds)
    return (cpu(pid) - before) / seconds


class Publisher:
    """A pair of interfaces with a sender and a capture."""

    def __init__(self, number, program, folder, kafka, sample, pace):
        self.name, self.folder = f"nb{os.getpid()}{number}", folder / str(number)
        self.folder.mkdir()
        sh(f"ip link add {self.name}a type veth peer name {self.name}b")
        for end in "ab":
            pathlib.Path(f"/proc/sys/net/ipv6/conf/{self.name}{end}/disable_ipv6").write_text("1")
            sh(f"ip link set {self.name}{end} up")
        words = ["publish", f"PARSE http SAMPLE {sample}", "-i", self.name + "b", "--kafka", kafka, "--no-redact", "--buffer-size", "64M"]
        self.process = subprocess.Popen([program, *words, "--summary-json", self.folder / "summary"], stderr=open(self.folder / "err", "w"))
        wait(lambda: "partition " in (self.folder / "err").read_text())
        self.partition = int((self.folder / "err").read_text().split("partition ")[1].split()[0])
        self.sender = subprocess.Popen(["python3", SENDER, self.name + "a", str(pace)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def phase(self, name):
        self.sender.stdin.write(f"phase {name}\n")
        self.sender.stdin.flush()
        assert self.sender.stdout.readline() == "ok\n"

    def end(self):
        self.sender.stdin.close()
        self.sent = json.loads(self.sender.stdout.readline())
        time.sleep(1)
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
        self.summary = json.loads((self.folder / "summary").read_text())

    def close(self):
        for process in (self.sender, self.process):
            process.kill()
            process.wait()
        subprocess.run(["ip", "link", "del", self.name + "a"])


def wait(ready, seconds=120):
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.1)


class Offsets:
    """Kafka's end offsets of partitions, and the offsets of our newest consumer group."""

    def __init__(self, kafka, groups_before):
        from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
        self.admin, self.consumer = KafkaAdminClient(bootstrap_servers=kafka), KafkaConsumer(bootstrap_servers=kafka)
        self.part, self.before, self.group = (lambda n: TopicPartition(TOPIC, n)), groups_before, None

    def groups(self):
        names = (g["group_id"] if isinstance(g, dict) else getattr(g, "group_id", None) or g[0] for g in self.admin.list_groups())
        return {name for name in names if name.startswith("netalytics-")}

    def look(self, partitions):
        parts = [self.part(n) for n in partitions]
        ends = self.consumer.end_offsets(parts)
        self.group = self.group or next(iter(self.groups() - self.before), None)
        told = self.admin.list_group_offsets(self.group) if self.group else {}
        told = told.get(self.group, told)
        return [(ends[part], told[part].offset if part in told else None) for part in parts]


def run(scene, args, program, folder):
    text, count, sample, is_read = SCENES[scene]
    addresses = dict(line.split("=", 1) for line in (args.cluster / "addresses").read_text().split())
    kafka, pid = addresses["KAFKA"], (args.cluster / "run/taskmanager-1.pid").read_text().strip()
    offsets = Offsets(kafka, set())
    offsets.before = offsets.groups()
    group = asker = None
    publishers, points, marks = [], [], []
    with contextlib.ExitStack() as stack:
        for n in range(count):
            publishers.append(Publisher(n, program, folder, kafka, sample, args.pace / count))
            stack.callback(publishers[-1].close)
        rows = folder / "rows"
        if is_read:
            words = ["query", QUERY, "--kafka", kafka, "--published", "tuples", "--format", "jsonl", "--engine", "flink",
                     "--flink-gateway", addresses["GATEWAY"], "--flink", addresses["FLINK"]]
            asker = subprocess.Popen([program, *words], stdout=open(rows, "w"), stderr=open(folder / "err", "w"))
            stack.callback(asker.wait)
            stack.callback(asker.kill)
        for publisher in publishers:
            publisher.phase("before")
        if is_read:
            wait(lambda: rows.read_text().count("/before/") > 10)
            group = Group(pid)
            stack.callback(group.close)
            used = cores(pid, 5)
            # Half of this is idle overhead, so about a tenth of the work is done.
            share = used / 5
            print(f"{scene}: Flink takes {used:.3f} cores for {args.pace}/s: held to {share:.3f}", flush=True)
        begun = time.time()
        for name, seconds in (("fast", FAST), ("slow", SLOW), ("again", AGAIN)):
            for publisher in publishers:
                publisher.phase(name)
            if group:
                group.hold(share) if name == "slow" else group.let_go()
            marks.append((name, time.time() - begun))
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                seen = offsets.look([publisher.partition for publisher in publishers])
                points.append({"t": time.time() - begun, "ends": [e for e, _ in seen], "read": [r for _, r in seen]})
                time.sleep(0.5)
        for publisher in publishers:
            publisher.phase("last")
        if is_read:
            wait(lambda: "/last/" in rows.read_text())
        for publisher in publishers:
            publisher.end()
        if asker:
            asker.send_signal(signal.SIGINT)
            asker.wait()
    out = {"scene": scene, "text": text, "pace": args.pace, "points": points, "marks": marks, "begun": begun}
    if is_read:
        out |= {"cores": used, "cores_held": share}
    out["build"] = "as given" if args.program else "release"
    out["publishers"] = [account(p, begun) for p in publishers]
    out["answers"] = answers(rows, publishers) if is_read else {}
    return out


def account(publisher, begun):
    s = publisher.summary
    rates = [[c["ts"] / 1e9 - begun, c["rate"]] for c in s["sampling"]]
    packets = {name: s["packets"][name] for name in ("received", "parsed", "sampled_out", "dropped", "adds_up")}
    return {"rates": rates, "packets": packets, "lost": s["source"]["lost_before_us"], "rows": s["rows"], "sent": s["sent"],
            "conversations": sum(publisher.sent.values())}


def answers(rows, publishers):
    """Per phase: true count, Flink's count, and the number of seconds whose interval contains the truth."""
    truth, found = {}, {}
    for publisher in publishers:
        for path, n in publisher.sent.items():
            truth[path] = truth.get(path, 0) + n
    for row in map(json.loads, rows.read_text().splitlines()):
        one = found.setdefault(row["path"], [0.0, 0.0, 0])
        tuples, p = round(row["count"] * row["sample_rate"]), row["sample_rate"]
        # Intervals of few flows have no upper end: a second's last tuples are in the next window. Each tuple is a flow of
        # its own.
        known = row["count_high"] is not None
        one[0] += row["count"]
        one[1] += ((row["count_high"] - row["count_low"]) / 2) ** 2 if known else 1.96**2 * tuples * (1 - p) / p**2
        one[2] += tuples
    out = {}
    for path, n in truth.items():
        phase = out.setdefault(path.split("/")[1], {"truth": 0, "found": 0.0, "tuples": 0, "squares": 0.0, "sampled": 0, "covered": 0})
        count, squares, tuples = found.get(path, (0.0, 0.0, 0))
        phase["truth"] += n
        phase["found"] += count
        phase["tuples"] += tuples
        phase["squares"] += squares
        if squares:
            phase["sampled"] += 1
            phase["covered"] += abs(count - n) <= squares**0.5
    for phase in out.values():
        phase["half"] = phase.pop("squares") ** 0.5
    return out


def rate_at(publisher, t, first=1.0):
    return next((rate for at, rate in reversed(publisher["rates"]) if at <= t), first)


def lags(result):
    return [(p["t"], sum(e - r for e, r in zip(p["ends"], p["read"]) if r is not None)) for p in result["points"]]


def draw(results, folder):
    import matplotlib
    matplotlib.use("svg")
    import matplotlib.pyplot as plt
    from plots import OURS, PEER, LIMIT, save
    shown = [r for r in results if r["scene"] in ("one", "two")]
    figure, panels = plt.subplots(3, len(shown), figsize=(5.5 * len(shown), 7), sharex="col", sharey="row", squeeze=False)
    for column, result in enumerate(shown):
        rate, lag, published = panels[:, column]
        slow = [t for name, t in result["marks"] if name in ("slow", "again")]
        for axes in panels[:, column]:
            axes.axvspan(*slow, color=LIMIT, alpha=0.25, linewidth=0)
        ends = result["points"][-1]["t"]
        for publisher, color in zip(result["publishers"], (OURS, PEER)):
            at = [0.0] + [t for t, _ in publisher["rates"] if 0 < t < ends] + [ends]
            rate.step(at, [100 * rate_at(publisher, t) for t in at], where="post", color=color)
        lag.plot(*zip(*[(t, n / 1000) for t, n in lags(result)]), color=OURS)
        points = result["points"]
        for n, color in zip(range(len(result["publishers"])), (OURS, PEER)):
            pairs = list(zip(points, points[2:]))
            published.plot([b["t"] for _, b in pairs], [(b["ends"][n] - a["ends"][n]) / (b["t"] - a["t"]) / 1000 for a, b in pairs], color=color)
        rate.set(yscale="log", ylim=(0.8, 130), title=result["text"])
        rate.set_yticks([1, 10, 100], ["1 %", "10 %", "100 %"])
        rate.minorticks_off()
        rate.annotate("Flink is held", (sum(slow) / 2, 1.2), ha="center", va="center", color="#5f6368")
        published.set(xlabel="seconds")
        published.set_ylim(bottom=0)
        lag.set_ylim(bottom=0)
    for axes, label in zip(panels[:, 0], ("sampling rate", "thousand records\nnot read", "thousand records/s\npublished")):
        axes.set_ylabel(label)
    figure.align_ylabels()
    save(figure, folder, "feedback")


def report(results):
    lines = ["# Feedback: publishers and a throttled Flink", "",
             f"Measured {datetime.date.today()} on {os.cpu_count()} shared cores by `bench/feedback.py`: {results[0]['pace']:g} HTTP conversations per second, "
             f"each in its own connection{'' if results[0].get('build') == 'release' else ' (unoptimized build, which they do not saturate)'}; from second {FAST} to {FAST + SLOW} a control group limits Flink to a fifth of its previous CPU time, half of which is idle overhead. "
             "Lag and published records are Kafka's offsets; the truth is the sender's count.", "", "![rate, lag, records published](../../../docs/plots/feedback.svg)", "",
             "| | Flink's cores: normal, throttled | records/s read, throttled | lowest rate | rates in the second half of the slow time | maximum lag in the slow time: first third, last third | all flows again after | conversations | sampled out | dropped | lost before us | tuples published |",
             "|---|---|---|---|---|---|---|---|---|---|---|---|"]
    for r in results:
        slow, again = (next(t for name, t in r["marks"] if name == wanted) for wanted in ("slow", "again"))
        thirds = [max((n for t, n in lags(r) if lo <= (t - slow) / (again - slow) < hi), default=0) for lo, hi in ((0, 1 / 3), (2 / 3, 1))]
        first = 1.0 if SCENES[r["scene"]][2] == "auto" else float(SCENES[r["scene"]][2])
        rates = [rate for p in r["publishers"] for rate in [rate_at(p, (slow + again) / 2, first)] + [x for t, x in p["rates"] if (slow + again) / 2 < t < again]]
        back = max((t - again for p in r["publishers"] for t, rate in p["rates"] if rate == 1.0 and t > again), default=None)
        total = lambda *path: sum(walk(p, path) for p in r["publishers"])
        held = f"{r['cores']:.3f}, {r['cores_held']:.3f} | {taken(r, slow + 5, again):.0f}" if "cores" in r else "|"
        lines.append(f"| {r['text']} | {held} | {100 * min([x for p in r['publishers'] for _, x in p['rates']], default=first):.1f} % | {100 * min(rates):.1f} to {100 * max(rates):.1f} % | "
                     f"{thirds[0]}, {thirds[1]} | {f'{back:.0f} s' if back else ''} | {total('conversations')} | {total('packets', 'sampled_out') / 7:g} | {total('packets', 'dropped')} | {total('lost')} | {total('rows')} |")
    lines += ["", "Conversations have seven packets, so sampled-out conversations are a seventh of the packets. Nearly all of the reduction affected one of the two publishers: Flink read the other's partition first.", "", "Flink's results and the truth:", "",
              "| | phase | conversations | found | 95 % interval | tuples read by Flink | sampled seconds | intervals that contain the truth |", "|---|---|---|---|---|---|---|---|"]
    for r in results:
        for name, a in r["answers"].items():
            if name in ("fast", "slow", "again"):
                lines.append(f"| {r['text']} | {name} | {a['truth']} | {a['found']:.0f} | ± {a['half']:.0f} | {a['tuples']} | {a['sampled']} | {a['covered']} |")
    return "\n".join(lines) + "\n"


def taken(result, begin, end):
    """Records read per second."""
    inside = [(p["t"], sum(p["read"])) for p in result["points"] if begin <= p["t"] < end and None not in p["read"]]
    return (inside[-1][1] - inside[0][1]) / (inside[-1][0] - inside[0][0])


def walk(value, path):
    for name in path:
        value = value[name]
    return value


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cluster", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "runs" / f"{datetime.date.today()}-feedback")
    parser.add_argument("--pace", type=float, default=3000)
    parser.add_argument("--program", help="netalytics [default: the release build]")
    parser.add_argument("--scene", choices=SCENES, action="append")
    parser.add_argument("--draw", action="store_true")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    file = args.out / "results.json"
    results = json.loads(file.read_text()) if args.draw or args.scene and file.exists() else []
    if not args.draw:
        if not args.program:
            subprocess.run(["cargo", "build", "--release", "--locked", "-p", "netalytics"], cwd=ROOT, check=True)
        for scene in args.scene or SCENES:
            with tempfile.TemporaryDirectory() as folder:
                result = run(scene, args, args.program or ROOT / "target/release/netalytics", pathlib.Path(folder))
            results = [r for r in results if r["scene"] != scene] + [result]
            results.sort(key=lambda r: list(SCENES).index(r["scene"]))
            file.write_text(json.dumps(results, indent=1) + "\n")
    (args.out / "README.md").write_text(report(results))
    draw(results, ROOT / "docs/plots")


if __name__ == "__main__":
    main()
