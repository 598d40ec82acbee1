#!/usr/bin/env python3
"""The cost of monitoring a database: MariaDB alone, with its general query log, and with netalytics.

    sudo bench/general_log.py PROGRAM OUT [ROUNDS]

The database and its clients share one core, netalytics has another, as on a machine of its own; with a single core they share it. Each round measures
each way: mariadb-slap's throughput with a simple statement, and the response times of one more client. Writes
OUT/general-log.json, and with matplotlib docs/plots/general-log.svg (`--draw OUT` only draws).
"""
import json, os, pathlib, shutil, signal, socket, statistics, subprocess, sys, tempfile, threading, time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "deploy/testbed"))
from backends import Database  # noqa: E402

WAYS = {"alone": "nothing", "log": "general query log", "netalytics": "netalytics"}
QUERIES = 60_000
STATEMENT = "SELECT k FROM t WHERE id = 4321"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Server:
    def __init__(self, folder):
        self.port, self.socket = free_port(), f"{folder}/db.sock"
        subprocess.run(["mariadb-install-db", "--no-defaults", f"--datadir={folder}/db", "--auth-root-authentication-method=normal", "--skip-test-db", "--user=root"], check=True, stdout=subprocess.DEVNULL)
        init = pathlib.Path(folder, "init.sql")
        init.write_text("CREATE DATABASE b; USE b; CREATE TABLE t (id INT PRIMARY KEY, k INT); INSERT INTO t SELECT seq, seq * 7 FROM seq_1_to_10000; CREATE USER b@'%'; GRANT ALL ON b.* TO b@'%';".replace("; ", ";\n"))
        self.process = subprocess.Popen(["taskset", "-c", "0", "mariadbd", "--no-defaults", "--user=root", f"--datadir={folder}/db", f"--socket={self.socket}", f"--port={self.port}", "--bind-address=127.0.0.1",
                                         "--skip-name-resolve", f"--general-log-file={folder}/general.log", f"--init-file={init}"], stdout=subprocess.DEVNULL, stderr=open(f"{folder}/error.log", "w"))
        for _ in range(600):
            time.sleep(0.1)
            try:
                with Database("127.0.0.1", self.port, user="b", schema="b") as database:
                    database.query(STATEMENT)
                return
            except OSError:
                pass
        raise SystemExit("MariaDB does not answer: " + open(f"{folder}/error.log").read()[-2000:])

    def set_log(self, is_on):
        subprocess.run(["mariadb", "--no-defaults", f"--socket={self.socket}", "--user=root", "-e", f"SET GLOBAL general_log = {int(is_on)}"], check=True)


def load(server):
    """Statements per second of many clients, and the response times of one more."""
    waits, over = [], threading.Event()

    def probe():
        with Database("127.0.0.1", server.port, user="b", schema="b") as database:
            while not over.is_set():
                began = time.perf_counter()
                database.query(STATEMENT)
                waits.append(time.perf_counter() - began)
                time.sleep(0.002)

    beside = threading.Thread(target=probe)
    beside.start()
    words = ["taskset", "-c", "0", "mariadb-slap", "--no-defaults", "--host=127.0.0.1", f"--port={server.port}", "--user=b", "--create-schema=b", "--no-drop", "--concurrency=4", f"--number-of-queries={QUERIES}", "--query", STATEMENT]
    began = time.perf_counter()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    took = time.perf_counter() - began
    over.set()
    beside.join()
    return QUERIES / took, waits


def turn(way, server, program, folder):
    server.set_log(way == "log")
    watcher = None
    if way == "netalytics":
        cores = ["taskset", "-c", "1"] if os.cpu_count() > 1 else []
        rows = f"{folder}/rows-{time.time_ns()}"
        query = f"PARSE mysql_query TO *:{server.port} PROCESS (group-count-quantile: group=fingerprint, w=1s)"
        watcher = subprocess.Popen([*cores, program, "query", query, "-i", "lo", "--format", "jsonl", "-o", rows], stderr=open(f"{folder}/watcher.log", "w"))
        time.sleep(1.5)
    rate, waits = load(server)
    seen = None
    if watcher:
        time.sleep(0.5)
        watcher.send_signal(signal.SIGINT)
        watcher.wait()
        rows = [json.loads(line) for line in open(rows)]
        seen = sum(row["count"] for row in rows if row["fingerprint"] == "SELECT k FROM t WHERE id = ?") / (QUERIES + len(waits))
    server.set_log(False)
    waits.sort()
    return {"way": way, "per_second": rate, "p50": waits[len(waits) // 2], "p99": waits[len(waits) * 99 // 100], "share_seen": seen}


def draw(rows, folder):
    import matplotlib
    matplotlib.use("svg")
    import matplotlib.pyplot as plt
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "netalytics", "font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2))
    for at, (way, name) in enumerate(WAYS.items()):
        of = [row for row in rows if row["way"] == way]
        color = {"alone": "#9aa0a6", "log": "#c8553d", "netalytics": "#0b6e4f"}[way]
        for axes, values in ((left, [row["per_second"] / 1000 for row in of]), (right, [row["p99"] * 1000 for row in of])):
            axes.bar(at, statistics.median(values), color=color)
            axes.plot([at] * len(values), values, ".", color="black", markersize=4)
    for axes, title in ((left, "thousand statements a second"), (right, "p99 of one more client, ms")):
        axes.set_xticks(range(len(WAYS)), [f"with {name}" for name in WAYS.values()], fontsize=8)
        axes.set_title(title, fontsize=10)
        axes.set_ylim(0)
    figure.savefig(os.path.join(folder, "general-log.svg"), bbox_inches="tight", metadata={"Date": None})


def main():
    if sys.argv[1] == "--draw":
        return draw(json.load(open(os.path.join(sys.argv[2], "general-log.json"))), ROOT / "docs/plots")
    program, out, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 7
    folder = tempfile.mkdtemp(prefix="netalytics-log-")
    server = Server(folder)
    try:
        load(server)  # warm
        rows = []
        for n in range(rounds):
            order = list(WAYS)[n % 3 :] + list(WAYS)[: n % 3]
            rows += [turn(way, server, program, folder) for way in order]
    finally:
        server.process.kill()
        server.process.wait()
        shutil.rmtree(folder)
    os.makedirs(out, exist_ok=True)
    json.dump(rows, open(os.path.join(out, "general-log.json"), "w"), indent=1)
    for way in WAYS:
        of = [row for row in rows if row["way"] == way]
        seen = [row["share_seen"] for row in of if row["share_seen"] is not None]
        print(f"{way:11} {statistics.median(r['per_second'] for r in of):9.0f}/s  p50 {statistics.median(r['p50'] for r in of) * 1e6:6.0f} us  p99 {statistics.median(r['p99'] for r in of) * 1e6:6.0f} us" + (f"  seen {min(seen):.4f} to {max(seen):.4f}" if seen else ""))
    try:
        draw(rows, ROOT / "docs/plots")
    except ImportError:
        print("not drawn: matplotlib is missing")


if __name__ == "__main__":
    main()
