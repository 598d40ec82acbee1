#!/usr/bin/env python3
"""Accuracy of results with missing packets, ours and others': bench/accuracy.py --captures DIR [-o bench/runs/DATE].

Runs the command of crates/accuracy, then Packetbeat and tshark, if installed, on its damaged files. Each program is
compared with itself on the whole capture. Writes accuracy.json and accuracy.md into the run's folder; bench/plots.py
draws docs/plots from the former."""
import argparse, collections, datetime, json, os, shutil, statistics, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
LOSSES = ["0.01", "0.05", "0.1"]
# Captures that a peer reads: its name of the protocol, and the port.
PACKETBEAT = {"http_web": ("http", 80), "http_api": ("http", 80), "mysql_text": ("mysql", 3306), "mysql_prep": ("mysql", 3306), "mc_ascii": ("memcache", 11211), "mc_bin": ("memcache", 11211)}
TSHARK = ["http_web", "http_api"]
# Packetbeat's notes on incomplete transactions.
HALVES = ("Unmatched", "Unfinished", "Invalid transaction")


def run(binary, arguments, folder, *flags):
    """Output of our program with these flags."""
    result = os.path.join(folder, "ours.json")
    flags = ["--captures", arguments.captures, "--packets", str(arguments.packets), "--show", "0", "--json", result, *flags]
    code = subprocess.run([binary, *flags], stdout=subprocess.DEVNULL).returncode
    if not os.path.exists(result):
        sys.exit(f"{binary} failed: {code}")
    with open(result) as f:
        return json.load(f)


def ours(binary, arguments, folder):
    """All cells; damaged files for the peers are written to `folder`."""
    result = run(binary, arguments, folder, "--seeds", str(arguments.seeds))
    result["fast_cells"] = run(binary, arguments, folder, "--seeds", "1", "--gbps", "1")["cells"]
    for loss in [None, *LOSSES]:
        run(binary, arguments, folder, "--seeds", "1", "--write", folder, "--damage", damage(loss))
    return result


def damage(loss):
    """The program's name for it."""
    return "none" if loss is None else f"loss={float(loss) * 100:g}%"


def packetbeat(program, capture, protocol, port):
    """Events as (transaction, claims, mark)."""
    with tempfile.TemporaryDirectory() as work:
        config = os.path.join(work, "packetbeat.yml")
        with open(config, "w") as f:
            f.write(f"packetbeat.shutdown_timeout: 5s\npacketbeat.flows.enabled: false\npacketbeat.protocols:\n- type: {protocol}\n  ports: [{port}]\n"
                    f"output.file:\n  path: {work}\n  filename: packetbeat\n  rotate_every_kb: 10000000\nlogging.level: error\n")
        subprocess.run([program, "-c", config, "--path.home", work, "-I", capture, "-t"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for name in os.listdir(work):
            if name.startswith("packetbeat") and not name.endswith(".yml"):
                with open(os.path.join(work, name)) as f:
                    yield from (packetbeat_event(json.loads(line)) for line in f)


def packetbeat_event(event):
    messages = event.get("error", {}).get("message", [])
    messages = [messages] if isinstance(messages, str) else messages
    half = "duration" not in event["event"] or any(m.startswith(HALVES) for m in messages)
    key = (event.get("client", {}).get("ip"), event.get("client", {}).get("port"), event["event"].get("start"))
    claims = {name: event.get(name) for name in ("query", "url", "http", "mysql", "memcache", "status")} | {"duration": event["event"].get("duration")}
    return key, json.dumps(claims, sort_keys=True), "half" if half else "marked" if messages else "exact"


def tshark(capture):
    fields = ["frame.time_epoch", "ip.dst", "tcp.dstport", "http.response.code", "http.time", "http.response_for.uri"]
    command = ["tshark", "-n", "-r", capture, "-Y", "http.response", "-T", "fields", *(x for f in fields for x in ("-e", f))]
    for line in subprocess.run(command, capture_output=True, text=True).stdout.splitlines():
        at, ip, port, code, time, uri = line.split("\t")
        if time and "," not in time:
            # The request's time; no response is reported alone.
            yield (ip, port, round((float(at.replace(",", ".")) - float(time)) * 1e6)), json.dumps([code, time, uri]), "exact"
        elif not time:
            yield (ip, port, at), json.dumps([code]), "half"


def compare(whole, damaged):
    """Counts of a damaged run; a claim is right if the whole run makes the same claim about the same transaction."""
    truth = collections.Counter((key, claims) for key, claims, mark in whole if mark != "half")
    count = collections.Counter(transactions=sum(truth.values()))
    for key, claims, mark in damaged:
        if mark == "half":
            count["halves"] += 1
        elif truth[key, claims] > 0:
            truth[key, claims] -= 1
            count[mark] += 1
        else:
            count["wrong" if mark == "exact" else "wrong_but_marked"] += 1
    return {name: count[name] for name in ("transactions", "exact", "marked", "halves", "wrong", "wrong_but_marked")}


def peers(folder):
    """Results of the peers on the damaged files."""
    program = os.path.join(HERE, "target/peers/packetbeat")
    readers = []
    if os.access(program, os.X_OK):
        readers += [("Packetbeat", name, lambda path, p=protocol, n=port: packetbeat(program, path, p, n)) for name, (protocol, port) in PACKETBEAT.items()]
    if shutil.which("tshark"):
        readers += [("tshark", name, tshark) for name in TSHARK]
    for peer, name, read in readers:
        whole = os.path.join(folder, f"{name}.none.pcap")
        if not os.path.exists(whole):
            continue
        truth = list(read(whole))
        for loss in LOSSES:
            print(f"{peer}: {name}, {loss}", file=sys.stderr)
            yield {"peer": peer, "capture": name, "loss": float(loss)} | compare(truth, read(os.path.join(folder, f"{name}.{damage(loss)}.pcap")))


def one_a_line(result):
    """JSON with a line per cell."""
    lists = {name: "[\n  " + ",\n  ".join(json.dumps(cell) for cell in result[name]) + "\n ]" for name in ("cells", "fast_cells", "peers")}
    rest = {name: json.dumps(value) for name, value in result.items() if name not in lists}
    return "{\n " + ",\n ".join(f'"{name}": {text}' for name, text in (rest | lists).items()) + "\n}\n"


def percent(n, of):
    return f"{100 * n / of:.2f}" if of else "–"


FAULTS = ("wrong_pairs", "contradicted", "exact_with_hole", "false_halves")
# Columns of the table by capture, lines of the table in docs/accuracy.md.
SHOWN = ["loss=1%", "loss=5%", "loss-to-server=5%", "loss-to-client=5%", "bursts=5%", "delay-5ms=1%", "skew-to-server=2ms", "shuffle=5ms"]


def rows(cells):
    yield "| capture | damage | checksums | transactions | findable % | exact % | marked % | half % | missed % | wrong pairs | contradicted | exact with a hole | false halves | found, % of findable | where clients wait |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    for c in cells:
        shares = " | ".join(percent(c[name], c["transactions"]) for name in ("findable", "exact", "marked", "half", "missed"))
        faults = " | ".join(str(c[name]) for name in FAULTS)
        yield f"| {c['capture']} | {c['impairment']} | {'verified' if c.get('verified') else '–'} | {c['transactions']:,} | {shares} | {faults} | {percent(c['found'], c['findable'])} | {percent(c['waiting_found'], c['waiting_findable'])} |"


def table(result):
    """The figures as a page."""
    yield from rows(result["cells"])
    yield "\nSingle connections at 1 Gb/s:\n"
    yield from rows(result["fast_cells"])
    if result["peers"]:
        yield "\n| program | capture | loss % | transactions in the whole | right, no mark % | right, marked % | wrong, no mark % | wrong, marked % | halves |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    for c in result["peers"]:
        shares = " | ".join(percent(c[name], c["transactions"]) for name in ("exact", "marked", "wrong", "wrong_but_marked"))
        yield f"| {c['peer']} | {c['capture']} | {100 * c['loss']:g} | {c['transactions']:,} | {shares} | {c['halves']:,} |"


def summary(cells):
    """Share of findable transactions that are found, a line per capture, and the share of wrong results over all cells."""
    yield "| capture | " + " | ".join(SHOWN) + " | wrong in all cells |\n| --- |" + " --- |" * (len(SHOWN) + 1)
    for name in dict.fromkeys(c["capture"] for c in cells):
        of = {c["impairment"]: c for c in cells if c["capture"] == name}
        found = [percent(of[s]["found"], of[s]["findable"]) if s in of else "–" for s in SHOWN]
        wrong = sum(c[fault] for c in cells if c["capture"] == name for fault in FAULTS)
        yield f"| {name} | " + " | ".join(found) + f" | {wrong:,} |"


def by_damage(cells):
    """Median and minimum of that share over the captures, a line per damage."""
    yield "| damage | median of the captures | lowest | wrong, all captures |\n| --- | --- | --- | --- |"
    for damage in SHOWN:
        of = [c for c in cells if c["impairment"] == damage and c["findable"]]
        low = min(of, key=lambda c: c["found"] / c["findable"])
        median = 100 * statistics.median(c["found"] / c["findable"] for c in of)
        wrong = sum(c[fault] for c in of for fault in FAULTS)
        yield f"| {damage} | {median:.2f} | {percent(low['found'], low['findable'])} ({low['capture']}) | {wrong:,} |"


def publish(result, run):
    """Writes the table by capture into the run's summary.md, and the table by damage into docs/accuracy.md, between its marks."""
    lines = ["# Share of findable transactions that are found, in percent, by capture\n", *summary(result["cells"]),
             "\nSingle connections at 1 Gb/s:\n", *summary(result["fast_cells"])]
    with open(os.path.join(run, "summary.md"), "w") as f:
        f.write("\n".join(lines) + "\n")
    path = os.path.join(os.path.dirname(HERE), "docs", "accuracy.md")
    with open(path) as f:
        text = f.read()
    head, rest = text.split("<!-- published -->\n")
    rest = rest.split("<!-- /published -->", 1)[1]
    folder = f"../bench/runs/{os.path.basename(os.path.normpath(run))}"
    lines = ["![by damage](plots/accuracy-impairments.svg)\n",
             f"Share of findable transactions that are found, in percent ([by capture]({folder}/summary.md); [all cells, and other programs on the same files]({folder}/accuracy.md)):\n",
             *by_damage(result["cells"] + result["fast_cells"])]
    with open(path, "w") as f:
        f.write(head + "<!-- published -->\n" + "\n".join(lines) + "\n<!-- /published -->" + rest)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--captures", required=True, help="folder of the large captures, as for run.py")
    parser.add_argument("--packets", type=int, default=100_000, help="so many of each")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--publish", action="store_true", help="put the summary into docs/accuracy.md")
    parser.add_argument("--binary", help="instead of building it")
    parser.add_argument("-o", default=os.path.join(HERE, "runs", datetime.date.today().isoformat()))
    arguments = parser.parse_args()
    binary = arguments.binary
    if not binary:
        root = os.path.dirname(HERE)
        subprocess.run(["cargo", "build", "--release", "--locked", "-q", "-p", "accuracy"], cwd=root, check=True)
        binary = os.path.join(root, "target/release/accuracy")
    with tempfile.TemporaryDirectory() as folder:
        result = ours(binary, arguments, folder)
        result["commit"] = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=HERE, capture_output=True, text=True).stdout.strip()
        result["peers"] = list(peers(folder))
    os.makedirs(arguments.o, exist_ok=True)
    with open(os.path.join(arguments.o, "accuracy.json"), "w") as f:
        f.write(one_a_line(result))
    with open(os.path.join(arguments.o, "accuracy.md"), "w") as f:
        f.write(f"# Accuracy: commit {result['commit']}\n\n{result['packets']:,} packets of each large capture, {result['seeds']} seeds; docs/accuracy.md explains the columns.\n\n")
        f.write("\n".join(table(result)) + "\n")
    if arguments.publish:
        publish(result, arguments.o)


main()
