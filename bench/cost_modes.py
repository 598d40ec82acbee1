"""The test bed of bench/cost.py, and the monitoring modes: each is started, measured, and removed."""
import json, os, pathlib, re, select, signal, subprocess, time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
KEYS = 200
SIZES = (200, 1024, 4096, 16384, 65536)
SERVER = "10.60.1.3"  # `proxy` of the test bed; client1, spare1 and it are at leaf1
QUERY = f"PARSE http TO {SERVER}:80 PROCESS (diff-group: group=url, w=1s)"
TUPLES = f"PARSE http TO {SERVER}:80 SELECT ts, client_ip, url, status, response_time_ns"
# Costs with which the planner selects the measured mode: port mirrors, or the fewest copies.
COSTS = {"mirrors": "[switch]\ncopy_ns = 9000.0\nmirror_ns = 100.0\n",
         "cuts": "exact_worth_cores = 0.0\n[switch]\ncopy_ns = 9000.0\nmirror_ns = 9000.0\ncut_ns = 1.0\n"}
NETWORK, RULES, HOST = "netalytics query --network", "its rules by ovs-ofctl", "at the server"


class Mode:
    """A mode. `by`: how it is set up; `query`: netalytics' query; `copies`: the port of leaf1 for copies."""

    def __init__(self, name, label, group, by="", query=QUERY, flags=(), costs=None, network="copied", port=80, command=None, rules=None, tunnel=None):
        self.name, self.label, self.group, self.by, self.query, self.port = name, label, group, by, query, port
        self.flags, self.costs, self.network, self.command, self.rules, self.tunnel = flags, costs, network, command, rules, tunnel
        self.copies = "spine1" if tunnel else "spare1" if group == "mirror" else None


EXACT = ("--exact",)
FLOW = (f"tcp,nw_dst={SERVER},tp_dst=80", f"tcp,nw_src={SERVER},tp_src=80")
DATA = tuple(f"{match},tcp_flags={flags}" for match in FLOW for flags in ("+ack", "-ack+psh"))
MODES = [
    Mode("none", "no monitoring", "none"),
    Mode("log", "access log", "host", HOST, port=81),
    Mode("tcpdump", "tcpdump to a file", "host", HOST, command=["tcpdump", "-i", "eth0", "-q", "-w", "{out}/tcpdump.pcap", "tcp port 80"]),
    Mode("tshark", "tshark", "host", HOST, command=["tshark", "-i", "eth0", "-f", "tcp port 80", "-Y", "http", "-T", "fields", "-e", "frame.time_epoch",
                                                     "-e", "http.request.uri", "-e", "http.response.code", "-e", "http.time"]),
    Mode("onsite", "sniffer, on-site", "sniffer", "netalytics query -i, at leaf1", query=QUERY),
    Mode("cells", "sniffer, off-site: groups", "sniffer", NETWORK, network="whole", flags=EXACT),
    Mode("tuples", "sniffer, off-site: tuples", "sniffer", NETWORK, query=TUPLES, network="whole", flags=EXACT),
    Mode("port", "port mirror", "mirror", NETWORK, flags=EXACT, costs="mirrors"),
    Mode("flow", "selective: five-tuple", "mirror", NETWORK, flags=EXACT),
    Mode("ends", "selective: SYN, FIN, RST", "mirror", NETWORK, query=f"PARSE tcp_conn_time TO {SERVER}:80 PROCESS (diff-group: group=srcIP, w=1s)", costs="cuts"),
    Mode("psh", "selective: PSH", "mirror", NETWORK, query=f"PARSE http TO {SERVER}:80 PROCESS (avg: value=response_time_ns, w=1s)", costs="cuts"),
    Mode("ackpsh", "selective: ACK or PSH", "mirror", RULES, rules=DATA),
    Mode("cut512", "truncated: ACK or PSH, 512 B", "mirror", NETWORK, query=f"PARSE http TO {SERVER}:80 SELECT ts, url, status", costs="cuts"),
    Mode("cut128", "truncated: 128 B", "mirror", NETWORK, query=f"PARSE tcp_conn_time TO {SERVER}:80 SELECT client_ip, handshake_ns", costs="cuts"),
    Mode("vxlan", "VXLAN, five-tuple", "mirror", RULES, rules=FLOW, tunnel="vxlan"),
    Mode("gre", "GRE, five-tuple", "mirror", RULES, rules=FLOW, tunnel="gre"),
]
BY_NAME = {mode.name: mode for mode in MODES}


class Bed:
    """The network of deploy/testbed.sh, with nginx on `proxy`; removed at the end of the block."""

    def __init__(self, folder, program):
        self.folder, self.program = pathlib.Path(folder), str(program)
        self.dir, self.out, self.nginx = self.folder / "bed", self.folder / "out", None

    def __enter__(self):
        self.out.mkdir()
        subprocess.run([ROOT / "deploy/testbed.sh", "up", self.dir], env={**os.environ, "SERVERS": "none"}, check=True, stdout=subprocess.DEVNULL)
        self.prefix = re.search("PREFIX=(.*)", (self.dir / "addresses").read_text())[1]
        whole = (self.dir / "network.toml").read_text()
        leaf1 = f'via = ["nsenter", "--net=/var/run/netns/{self.prefix}-leaf1"]'
        files = {"whole.toml": whole, "copied.toml": "\n".join(line for line in whole.split("\n") if not line.endswith("# at its ports")),
                 "here.toml": whole.replace(leaf1, "via = []"), **{f"{name}.costs": text for name, text in COSTS.items()}}
        for name, text in files.items():
            (self.folder / name).write_text(text)
        for size in SIZES:
            (self.folder / "www" / str(size)).mkdir(parents=True)
            for key in range(1, KEYS + 1):
                (self.folder / "www" / str(size) / str(key)).write_bytes(os.urandom(size // 2).hex().encode())
        (self.folder / "nginx.conf").write_text(
            f"user root; daemon off; master_process off; pid {self.folder}/nginx.pid; error_log {self.folder}/nginx.error; events {{ worker_connections 1024; }} http {{ "
            + "".join(f"{of}_temp_path {self.folder}/nginx-{of}; " for of in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
            + f"access_log off; keepalive_requests 1000000000; root {self.folder}/www; open_file_cache max=2000; "
            + "log_format times '$msec $remote_addr $request_uri $status $request_time'; "
            + f"server {{ listen {SERVER}:80; }} server {{ listen {SERVER}:81; access_log {self.folder}/access.log times; }} }}\n")
        self.web(True)
        return self

    def __exit__(self, *_):
        self.web(False)
        subprocess.run([ROOT / "deploy/testbed.sh", "down", self.dir], check=True)

    def web(self, runs):
        """nginx, or nothing, on ports 80 and 81."""
        if self.nginx:
            self.nginx.terminate()
            self.nginx.wait()
            self.nginx = None
        if runs:
            self.nginx = self.start("proxy", ["nginx", "-c", self.folder / "nginx.conf"])
            deadline = time.monotonic() + 20
            while self.on("client1", ["bash", "-c", f"exec 3<>/dev/tcp/{SERVER}/80"], check=False, stderr=subprocess.DEVNULL).returncode:
                assert time.monotonic() < deadline, "nginx does not answer"
                time.sleep(0.05)

    def within(self, host, words):
        return (["nsenter", f"--net=/var/run/netns/{self.prefix}-{host}"] if host else []) + [str(word) for word in words]

    def on(self, host, words, **more):
        return subprocess.run(self.within(host, words), **{"check": True, "text": True, **more})

    def start(self, host, words, **more):
        return subprocess.Popen(self.within(host, words), stdin=subprocess.DEVNULL, **more)

    def at(self, switch):
        return f"unix:{self.dir}/run/{switch}/br0.mgmt"

    def ofctl(self, *words):
        return subprocess.run(["ovs-ofctl", "-O", "OpenFlow13", *words], check=True, capture_output=True, text=True).stdout

    def vsctl(self, switch, *words):
        return subprocess.run(["ovs-vsctl", f"--db=unix:{self.dir}/run/{switch}/db.sock", *words], check=True, capture_output=True, text=True).stdout

    def sent(self, port):
        """Packets and bytes that leaf1 has sent to a port."""
        if not port:
            return 0, 0
        said = re.search(r"tx pkts=(\d+), bytes=(\d+)", self.ofctl("dump-ports", self.at("leaf1"), port))
        return int(said[1]), int(said[2])

    def left(self):
        """Rules and monitors of queries."""
        found = []
        for switch in ("leaf1", "leaf2", "leaf3", "spine1"):
            found += re.findall("cookie=0x6e61", self.ofctl("dump-flows", self.at(switch)))
            found += self.vsctl(switch, "--bare", "--columns=name", "list", "mirror").split()
            found += re.findall("^na.*", self.vsctl(switch, "list-ports", "br0"), re.M)
        return found

    def load(self, clients, seconds, size, pause=0.0, seed=1, port=80):
        """Results of wrk's clients."""
        said = self.on("client1", ["wrk", "-t1", f"-c{clients}", f"-d{seconds}s", "-s", HERE / "cost/zipf.lua", f"http://{SERVER}:{port}/", "--", size, f"{pause:g}", seed],
                       capture_output=True).stdout
        seen = json.loads(re.search("^JSON (.*)", said, re.M)[1])
        return {**seen, "rate": seen["requests"] / (seen["us"] / 1e6)}


def taken(pid):
    """CPU seconds of a process by thread, because `stat` has a resolution of 10 ms."""
    found = 0
    for thread in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            found += int(thread.read_text().split()[0])
        except OSError:
            pass
    return found / 1e9


def family(pid):
    """A process and its descendants."""
    found = [pid]
    for parent in found:
        try:
            found += map(int, pathlib.Path(f"/proc/{parent}/task/{parent}/children").read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


class Watching:
    """A running mode, for the duration of the block."""

    def __init__(self, bed, mode):
        self.bed, self.mode, self.process = bed, mode, None

    def __enter__(self):
        bed, mode = self.bed, self.mode
        if mode.rules:
            self.tunnel() if mode.tunnel else bed.ofctl("-O", "OpenFlow10", "mod-port", bed.at("leaf1"), "4", "no-flood")
            to = "60" if mode.tunnel else "4"
            rules = "".join(f"priority=2,cookie=0xc057,{match},actions=output:{to},NORMAL\n" for match in mode.rules)
            subprocess.run(["ovs-ofctl", "-O", "OpenFlow13", "--bundle", "add-flows", bed.at("leaf1"), "-"], input=rules, text=True, check=True)
            self.query("spare2" if mode.tunnel else "spare1", ["-i", "eth0"])
        elif mode.name == "onsite":
            self.query("leaf1", ["-i", "proxy"])
        elif mode.by == NETWORK:
            costs = ["--costs", bed.folder / f"{mode.costs}.costs"] if mode.costs else []
            self.query(None, ["--network", bed.folder / f"{mode.network}.toml", *mode.flags, *costs])
        elif mode.command:
            words = [word.format(out=bed.out) for word in mode.command]
            self.process = bed.start("proxy", words, stdout=open(bed.out / "rows", "w"), stderr=subprocess.PIPE)
            self.hears("istening on" if mode.name == "tcpdump" else "Capturing on")
            time.sleep(0.3)
        return self

    def query(self, host, flags):
        words = [self.bed.program, "query", self.mode.query, *flags, "--format", "jsonl", "-o", self.bed.out / "rows", "--summary-json", self.bed.out / "summary"]
        self.process = self.bed.start(host, words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.hears("capturing from")

    def hears(self, words):
        said = b""
        while words.encode() not in said:
            assert select.select([self.process.stderr], [], [], 40)[0], f"{self.mode.name} does not start: {said}"
            more = os.read(self.process.stderr.fileno(), 4096)
            assert more, f"{self.mode.name} has ended: {said.decode()}"
            said += more

    def tunnel(self):
        """Tunnels to spare2 at leaf2, as steering creates them: in an unused VLAN, without flooding."""
        for switch, remote in (("leaf1", "10.60.2.200"), ("leaf2", "10.60.1.200")):
            self.bed.vsctl(switch, "add-port", "br0", "cost", "tag=4095", "--", "set", "interface", "cost", f"type={self.mode.tunnel}",
                           f"options:remote_ip={remote}", "options:key=7", "bfd:enable=true", "ofport_request=60")
            self.bed.ofctl("-O", "OpenFlow10", "mod-port", self.bed.at(switch), "60", "no-flood")
        self.bed.ofctl("add-flow", self.bed.at("leaf2"), "priority=65535,cookie=0xc057,in_port=60,actions=output:3")

    def monitors(self):
        return sum(taken(pid) for pid in family(self.process.pid)) if self.process else 0.0

    def counters(self):
        """CPU seconds so far, and bytes to the monitor."""
        pid = lambda switch: int((self.bed.dir / f"run/{switch}/ovs-vswitchd.pid").read_text())
        switches = {switch: taken(pid(switch)) for switch in ("leaf1", "leaf2", "spine1")}
        packets, sent = self.bed.sent(self.mode.copies)
        return {"switch": sum(switches.values()), **switches, "monitor": self.monitors(), "web": taken(self.bed.nginx.pid), "packets": packets, "bytes": sent}

    def slot(self, clients, seconds, size, pause=0.0, seed=1):
        """Applies load; returns the clients' results and the resources used."""
        before = self.counters()
        seen = self.bed.load(clients, seconds, size, pause, seed, self.mode.port)
        after = self.counters()
        return {**seen, **{f"took_{name}": after[name] - before[name] for name in after}}

    def __exit__(self, *_):
        self.summary = {}
        if self.process:
            self.process.send_signal(signal.SIGINT)
            said = self.process.communicate(timeout=60)[1]
            if self.mode.group in ("sniffer", "mirror"):
                assert self.process.returncode == 0, f"{self.mode.name}: {said.decode()}"
                self.summary = json.loads((self.bed.out / "summary").read_text())
                told = re.search(r"^reports +([\d.]+) +([\d.]+) (k|M|G|)B", said.decode(), re.M)
                if told:  # Results sent by the monitor to the client.
                    self.summary |= {"reports": int(told[1]), "report_bytes": float(told[2]) * {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}[told[3]]}
        if self.mode.rules:
            for switch in ("leaf1", "leaf2"):
                self.bed.ofctl("del-flows", self.bed.at(switch), "cookie=0xc057/-1")
                if self.mode.tunnel:
                    self.bed.vsctl(switch, "del-port", "br0", "cost")
