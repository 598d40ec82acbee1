#!/usr/bin/env python3
"""The service under load: CPU time of the server for agents' results, response times of its API, cost of an idle agent.

    bench/service.py [--out bench/runs/DATE-service] [--quick]

Builds netalytics and bench/service, starts servers and agents on this machine, and writes results.json and README.md. CPU seconds are
of the whole process and of its threads (/proc), memory is the maximum (VmHWM).
"""
import argparse, contextlib, datetime, json, os, pathlib, re, socket, sqlite3, ssl, subprocess, tempfile, time, urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
TICK = os.sysconf("SC_CLK_TCK")
RANKED = "PARSE http PROCESS (top-k: k=10, key=client_ip, w=1s, lateness=0s)"
GROUPED = "PARSE http PROCESS (diff-group: group=url_template, w=1s, lateness=0s)"
COUNTED = "PARSE http PROCESS (group-count: group=url_template, w=1s, lateness=0s)"


def build():
    subprocess.run(["cargo", "build", "--release", "--locked", "-p", "netalytics"], cwd=ROOT, check=True)
    subprocess.run(["cargo", "build", "--release", "-p", "service"], cwd=HERE, check=True)
    return ROOT / "target/release/netalytics", HERE / "target/release/service"


def cpu(pid):
    """CPU seconds of a process by thread name; ended threads under 'ended'."""
    by_name = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        name, used = stat(task / "stat")
        by_name[name] = by_name.get(name, 0) + used
    by_name["ended"] = max(0.0, stat(pathlib.Path(f"/proc/{pid}/stat"))[1] - sum(by_name.values()))
    return by_name


def stat(file):
    text = file.read_text()
    name, rest = re.match(r"\d+ \((.*)\) (.*)", text, re.S).groups()
    fields = rest.split()
    return name, (int(fields[11]) + int(fields[12])) / TICK


def memory_mib(pid, which="VmHWM"):
    return int(re.search(rf"{which}:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) / 1024


class Server:
    def __init__(self, program, folder, *flags):
        self.folder, self.program = pathlib.Path(folder), program
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = "127.0.0.1:%d" % free.getsockname()[1]
        self.url, self.ca = f"http://{self.address}", None
        if "--tls" in flags:
            self.url, self.ca = f"https://{self.address}", self.folder / "authority.pem"
            self.ca.write_bytes(subprocess.run([program, "serve", "ca", "--data", folder], check=True, capture_output=True).stdout)
        self.trust = ssl.create_default_context(cafile=self.ca) if self.ca else None
        begun = time.monotonic()
        command = [program, "serve", "--listen", self.address, "--data", str(folder), *flags]
        self.log = open(self.folder / "serve.log", "w")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        while True:
            with contextlib.suppress(OSError):
                self.token = (self.folder / "admin.token").read_text().strip()
                self.ask("GET", "/api/v1/jobs?limit=1")
                break
            assert self.process.poll() is None, (self.folder / "serve.log").read_text()
            time.sleep(0.005)
        self.start_s = time.monotonic() - begun

    def ask(self, method, path, body=None):
        request = urllib.request.Request(self.url + path, method=method, data=json.dumps(body).encode() if body else None)
        request.add_header("Authorization", f"Bearer {self.token}")
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, context=self.trust) as answer:
            text = answer.read()
        return text if path == "/metrics" else json.loads(text) if text else None

    def stages(self):
        """CPU seconds of the gateway by stage."""
        spent = re.findall(rb'netalytics_gateway_cpu_time_seconds_total\{stage="(\w+)"\} (\S+)', self.ask("GET", "/metrics"))
        return {stage.decode(): float(s) for stage, s in spent}

    def tokens(self, agents):
        file = self.folder / "agents.tokens"
        names = [f"agent-{n}" for n in range(agents)]
        file.write_text("".join(f"{name} {self.ask('POST', '/api/v1/tokens', {'name': name, 'role': 'agent'})['secret']}\n" for name in names))
        return file

    def job(self, query, kind="one_off"):
        return self.ask("POST", "/api/v1/jobs", {"query": query, "kind": kind, "redact": False})["id"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)
        self.log.close()


def folder():
    # On disk, so that commits are realistic.
    return tempfile.TemporaryDirectory(dir=ROOT / "target")


def shipped(program, load, query, keys, agents, groups, windows, pace_ms, *flags):
    """The server's cost for agents' results, by million groups, and the same from memory."""
    size = ["--agents", str(agents), "--groups", str(groups), "--windows", str(windows), "--keys", keys, "--query", query]
    memory = json.loads(subprocess.run([load, "memory", *size], check=True, capture_output=True, text=True).stdout)
    with folder() as data, Server(program, data, *flags) as server:
        tokens = server.tokens(agents)
        command = [load, "agents", *size, "--server", server.url, "--tokens", tokens, "--pace-ms", str(pace_ms)]
        command += ["--ca", server.ca] if server.ca else []
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stderr.readline().strip() == "connected"
        while sum(agent["connected"] for agent in server.ask("GET", "/api/v1/agents")["agents"]) < agents:
            time.sleep(0.05)
        job = server.job(query)
        assert process.stderr.readline().strip() == "begin"
        before, stages = cpu(server.process.pid), server.stages()
        assert process.stderr.readline().strip() == "said"
        while server.ask("GET", f"/api/v1/jobs/{job}")["state"] != "ended":
            time.sleep(0.05)
        told = json.loads(process.communicate(timeout=60)[0])
        after, spent = cpu(server.process.pid), server.stages()
        rows = int(server.ask("GET", f"/api/v1/jobs/{job}/rows?limit=1")["total"])
        millions = told["groups"] / 1e6
        threads = {name: round((after[name] - before.get(name, 0)) / millions, 4) for name in after}
        assert rows == memory["rows"], (rows, memory)
        return {
            "query": query, "keys": keys, "tls": "--tls" in flags, "agents": agents, "groups": told["groups"], "rows": rows,
            "bytes_per_group": memory["bytes_per_group"], "seconds": told["seconds"], "groups_per_s": told["groups"] / told["seconds"],
            "stages_s": {stage: (s - stages[stage]) / millions for stage, s in spent.items()},
            "threads_s": {name: s for name, s in threads.items() if s >= 0.001}, "cpu_s": sum(threads.values()),
            "decode_s": memory["decode_s"], "merge_s": memory["merge_s"], "times_merging": sum(threads.values()) / memory["merge_s"],
            "memory_mib": memory_mib(server.process.pid),
        }


def answers(program, load, rate, seconds, streams, jobs, agents):
    """Response times of the API with standing jobs and live streams."""
    with folder() as data, Server(program, data, "--requests-per-second", "100000") as server:
        tokens = server.tokens(agents)
        ids = [server.job(COUNTED, "standing") for _ in range(jobs)]
        command = [load, "agents", "--agents", str(agents), "--groups", "200", "--windows", str(seconds + 10), "--query", COUNTED]
        command += ["--jobs", str(jobs), "--server", server.url, "--tokens", tokens]
        shipping = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for word in ("connected", "begin"):
            assert shipping.stderr.readline().strip() == word
        time.sleep(3)
        paths = ["/api/v1/jobs", f"/api/v1/jobs/{ids[0]}", f"/api/v1/jobs/{ids[1]}/rows?limit=100", "/api/v1/agents", "/api/v1/counters", "/"]
        asking = [load, "api", "--server", server.address, "--token", server.folder / "admin.token", "--rate", str(rate), "--seconds", str(seconds)]
        asking += ["--streams", str(streams), "--jobs", ",".join(ids), *[word for path in paths for word in ("--path", path)]]
        before = sum(cpu(server.process.pid).values())
        told = json.loads(subprocess.run(asking, check=True, capture_output=True, text=True).stdout)
        told["server_cores"] = (sum(cpu(server.process.pid).values()) - before) / seconds
        told["memory_mib"] = memory_mib(server.process.pid)
        shipping.kill()
        shipping.wait()
        return told | {"rate": rate, "streams": streams, "jobs": jobs, "agents": agents}


def idle(program, seconds):
    """The cost of an idle agent."""
    with folder() as data, Server(program, data) as server:
        token = server.folder / "agent.token"
        token.write_text(server.tokens(1).read_text().split()[1])
        own = server.folder / "agent"
        command = [program, "agent", "--server", server.url, "--token-file", token, "--name", "agent-0", "--folder", own]
        agent = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not any(known["connected"] for known in server.ask("GET", "/api/v1/agents")["agents"]):
            time.sleep(0.05)
        time.sleep(2)
        before = sum(cpu(agent.pid).values()), sum(cpu(server.process.pid).values())
        time.sleep(seconds)
        used = sum(cpu(agent.pid).values()) - before[0], sum(cpu(server.process.pid).values()) - before[1]
        told = {"seconds": seconds, "agent_percent": 100 * used[0] / seconds, "agent_mib": memory_mib(agent.pid, "VmRSS"),
                "server_percent": 100 * used[1] / seconds, "server_mib": memory_mib(server.process.pid, "VmRSS")}
        agent.terminate()
        agent.wait(30)
        return told


def begun(program, jobs):
    """Start time of a server with many past jobs."""
    with folder() as data:
        with Server(program, data) as server:
            job = server.job(COUNTED, "standing")
            server.ask("DELETE", f"/api/v1/jobs/{job}")
            while server.ask("GET", f"/api/v1/jobs/{job}")["state"] != "ended":
                time.sleep(0.05)
            empty_s = server.start_s
        store = sqlite3.connect(pathlib.Path(data) / "store.sqlite")
        columns = [row[1] for row in store.execute("PRAGMA table_info(jobs)")]
        copied = ", ".join(f"n.value + {job}" if name == "id" else "NULL" if name == "idempotency_key" else name for name in columns)
        store.execute("CREATE TEMP TABLE n (value INTEGER)")
        store.executemany("INSERT INTO n VALUES (?)", [(n + 1,) for n in range(jobs)])
        store.execute(f"INSERT INTO jobs ({', '.join(columns)}) SELECT {copied} FROM jobs, n WHERE id = {job}")
        store.commit()
        store.close()
        with Server(program, data) as server:
            return {"jobs": jobs, "empty_s": empty_s, "start_s": server.start_s, "memory_mib": memory_mib(server.process.pid)}


def report(found):
    lines = ["# The service under load", "", f"Measured {found['date']} on {found['cores']} cores by `bench/service.py`.", "",
             "## Results of agents", "", "CPU seconds per million groups. *Server* is the whole process; of it the gateway decodes, commits and merges, and the *rest* is the",
             "connections (with TLS, if used), closing windows, writing rows, SQLite's upkeep. *From memory*: the same reports on one core without a server.", "",
             "| query | groups of the agents | TLS | groups/s | bytes per group | server | decode | commit | merge | rest | from memory: decode | merge | server ÷ merging (bar 3) | ÷ decoding and merging | MiB |",
             "|---|---|---|" + "---:|" * 12]
    for one in found["shipped"]:
        stages = one["stages_s"]
        rest = one["cpu_s"] - sum(stages.values())
        lines.append(f"| `{one['query']}` | {one['keys']} | {'yes' if one['tls'] else 'no'} | {one['groups_per_s']:,.0f} | {one['bytes_per_group']:.1f} | {one['cpu_s']:.3f} | "
                     f"{stages['decode']:.3f} | {stages['commit']:.3f} | {stages['merge']:.3f} | {rest:.3f} | {one['decode_s']:.3f} | {one['merge_s']:.3f} | "
                     f"{one['times_merging']:.1f} | {one['cpu_s'] / (one['decode_s'] + one['merge_s']):.1f} | {one['memory_mib']:.0f} |")
    api, rest, start = found["api"], found["idle"], found["start"]
    lines += ["", "## The rest", "", "| | | bar |", "|---|---:|---:|",
              f"| API, {api['rate']} requests/s, {api['jobs']} standing jobs, {api['streams']} live streams: p50 / p99 / worst | {api['p50_ms']:.1f} / {api['p99_ms']:.1f} / {api['max_ms']:.1f} ms | p99 25 ms |",
              f"| of these without status 200 | {api['failed']} of {api['requests']} | 0 |",
              f"| the server meanwhile | {api['server_cores']:.2f} cores, {api['memory_mib']:.0f} MiB | 400 MiB |",
              f"| an idle agent | {rest['agent_mib']:.1f} MiB, {rest['agent_percent']:.2f} % of a core | 25 MiB, 0.3 % |",
              f"| its server | {rest['server_mib']:.1f} MiB, {rest['server_percent']:.2f} % of a core | |",
              f"| start with {start['jobs']:,} finished jobs (empty: {start['empty_s']:.2f} s) | {start['start_s']:.2f} s | 1 s |", ""]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / f"bench/runs/{datetime.date.today()}-service")
    parser.add_argument("--quick", action="store_true", help="smaller, for a look")
    flags = parser.parse_args()
    program, load = build()
    agents, windows, seconds = (50, 4, 5) if flags.quick else (200, 10, 20)
    found = {"date": str(datetime.date.today()), "cores": os.cpu_count()}
    cases = [(COUNTED, "shared", 1000), (GROUPED, "shared", 1000), (RANKED, "own", 1000)]
    found["shipped"] = [shipped(program, load, query, keys, agents, 5000, windows, pace, *tls) for query, keys, pace in cases for tls in ([], ["--tls"])]
    found["api"] = answers(program, load, 500, seconds, 50, 20, 10)
    found["idle"] = idle(program, 10 if flags.quick else 60)
    found["start"] = begun(program, 10_000)
    flags.out.mkdir(parents=True, exist_ok=True)
    (flags.out / "results.json").write_text(json.dumps(found, indent=1) + "\n")
    (flags.out / "README.md").write_text(report(found))
    print(report(found))


main()
