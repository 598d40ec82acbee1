"""The network of bench/cost_of_measuring.py: hosts in network namespaces, connected by Open vSwitch (datapath in user space), a collector, a monitor port.

Everything is in network, mount and process namespaces of its own, and all files are in a tmpfs there, so that the kernel removes interfaces,
processes and the switch's database when the study ends in any way.
"""
import contextlib, os, pathlib, re, resource, select, signal, subprocess, threading, time

SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
RUN = "/run"
HOSTS = 8
COLLECTOR = "10.63.0.2"
PROGRAMS = ("ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl", "ovs-ofctl", "tcpdump", "unshare", "nsenter", "ip", "ss", "ethtool", "rustc")
PATIENCE = 20


def isolate(inner):
    """Runs `inner`, a command, as the first process of new namespaces; returns its exit code and output. It ends when this process ends in any way."""
    words = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", *inner]
    child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    ended_by = []

    def end(number, _):
        ended_by.append(number)
        # The inner process ends at the end of its input, and the kernel ends all others.
        with contextlib.suppress(OSError):
            os.close(child.stdin.fileno())
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    said = child.stdout.read()
    code = child.wait()
    return 128 + ended_by[0] if ended_by else code, said


def end_with_input():
    """In the inner process: ends all of it when the outer process is gone."""
    def wait():
        while os.read(0, 4096):
            pass
        os._exit(130)
    threading.Thread(target=wait, daemon=True).start()
    # A terminal sends Ctrl-C to both; the outer process decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def sh(text):
    done = subprocess.run(text.split(), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{text}: {done.stderr.strip()}")
    return done.stdout


def cpu_seconds(pid, main_only=False):
    """CPU seconds of a process; `stat` has a resolution of 10 ms, `schedstat` of nanoseconds."""
    total = 0
    for thread in [pid] if main_only else os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError):
            total += int(pathlib.Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()[0])
    return total / 1e9


def migrations(pid):
    """Number of times that the scheduler moved the main thread to another core; 0 if the kernel does not report it."""
    for line in pathlib.Path(f"/proc/{pid}/sched").read_text().splitlines():
        if line.startswith("se.nr_migrations"):
            return int(line.split(":")[1])
    return 0


def pin(pid, cores):
    for thread in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError):
            os.sched_setaffinity(int(thread), cores)


def interfaces():
    """Received packets, sent packets, and sent bytes by interface of this namespace."""
    found = {}
    for line in pathlib.Path("/proc/self/net/dev").read_text().splitlines()[2:]:
        name, numbers = line.split(":")
        fields = [int(number) for number in numbers.split()]
        found[name.strip()] = (fields[1], fields[9], fields[8])
    return found


def dropped_at_sockets():
    """Packets that the kernel dropped because the switch had not read its sockets at the hosts' ports in time."""
    return sum(int(drops) for drops in re.findall(r":p\d+ .*?,d(\d+)\)", sh("ss -0 -m -H").replace("\n\t", " ")))


class Traffic:
    """A process of traffic.rs in a namespace."""

    def __init__(self, program, namespace, *words):
        words = ["nsenter", f"--net={RUN}/netns/{namespace}", program, *map(str, words)]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError(f"{' '.join(words)} has not started")

    def counts(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return [int(word) for word in self.process.stdout.readline().split()]

    def end(self):
        self.process.kill()
        self.process.wait()


class Lab:
    """Hosts h1…h8 at ports p1…p8 of the switch; traffic is forwarded within the pairs (1, 2), (3, 4), …"""

    def __init__(self):
        self.traffic, self.clients, self.monitor, self.was_mirrored = [], [], None, False
        sh(f"mount -t tmpfs tmpfs {RUN}")
        self.program = build()
        sh("ip link set lo up")
        self.environment = os.environ | {name: RUN for name in ("OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR")}
        self.links()
        self.switch()
        self.collector = Traffic(self.program, "collector", "collect", COLLECTOR)
        # 1,000 flows have a socket each.
        resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))

    def links(self):
        def link(here, namespace, there="e0"):
            sh(f"ip netns add {namespace}")
            sh(f"ip link add {here} type veth peer name {there} netns {namespace}")
            sh(f"ip -n {namespace} link set lo up")
            for of in ("ip", f"ip -n {namespace}"):
                name = here if of == "ip" else there
                # Without an IPv6 address, the kernel sends nothing of its own.
                sh(f"{of} link set {name} addrgenmode none")
                sh(f"{of} link set {name} up")
        for n in range(1, HOSTS + 1):
            link(f"p{n}", f"h{n}")
            sh(f"ip -n h{n} link set e0 address 02:00:00:00:00:{n:02x} arp off")
            sh(f"ip -n h{n} addr add 10.62.0.{n}/24 dev e0")
            other = n + 1 if n % 2 else n - 1
            sh(f"ip -n h{n} neigh replace 10.62.0.{other} lladdr 02:00:00:00:00:{other:02x} dev e0")
            # Otherwise, a loss could stop a connection for 200 ms, longer than a measurement.
            sh(f"ip -n h{n} route replace 10.62.0.0/24 dev e0 scope link src 10.62.0.{n} rto_min 5ms")
            # The switch does not compute checksums.
            sh(f"nsenter --net={RUN}/netns/h{n} ethtool -K e0 tx off")
        link("c0", "collector")
        sh("ip addr add 10.63.0.1/24 dev c0")
        sh(f"ip -n collector addr add {COLLECTOR}/24 dev e0")
        sh("ip link add m0 type veth peer name m1")
        for end in ("m0", "m1"):
            sh(f"ip link set {end} addrgenmode none")
            sh(f"ip link set {end} up arp off")

    def switch(self):
        database = f"unix:{RUN}/db.sock"
        def run(*words):
            subprocess.run(words, env=self.environment, check=True, capture_output=True, timeout=PATIENCE)
        run("ovsdb-tool", "create", f"{RUN}/conf.db", SCHEMA)
        quiet = ("-vconsole:off", "--detach", "--no-chdir")
        run("ovsdb-server", f"{RUN}/conf.db", f"--remote=p{database}", f"--pidfile={RUN}/db.pid", f"--unixctl={RUN}/db.ctl", *quiet)
        self.vsctl("--no-wait init")
        run("ovs-vswitchd", database, f"--pidfile={RUN}/switch.pid", f"--unixctl={RUN}/switch.ctl", f"--log-file={RUN}/switch.log", *quiet)
        self.pid = int(pathlib.Path(f"{RUN}/switch.pid").read_text())
        self.vsctl("add-br br0 -- set bridge br0 datapath_type=netdev fail_mode=secure other_config:disable-in-band=true")
        ports = [f"p{n}" for n in range(1, HOSTS + 1)] + ["m0"]
        self.vsctl(" ".join(f"-- add-port br0 {port} -- set interface {port} ofport_request={at}" for at, port in enumerate(ports, 1)))
        for n in range(1, HOSTS + 1):
            self.ofctl("add-flow", f"in_port={n},actions=output:{n + 1 if n % 2 else n - 1}")

    def vsctl(self, text):
        done = subprocess.run(["ovs-vsctl", f"--db=unix:{RUN}/db.sock", f"--timeout={PATIENCE}", *text.split()], capture_output=True, text=True, env=self.environment)
        if done.returncode:
            raise RuntimeError(f"ovs-vsctl {text}: {done.stderr.strip()}")
        return done.stdout

    def ofctl(self, verb, *words):
        command = ["ovs-ofctl", "-O", "OpenFlow13", verb, f"unix:{RUN}/br0.mgmt", *words]
        return subprocess.run(command, capture_output=True, text=True, env=self.environment, check=True).stdout

    def measure_with(self, setting, program=None):
        """Configures one way of measuring in place of the previous one. The two are one transaction."""
        self.end_monitor()
        words = "-- clear bridge br0 sflow -- clear bridge br0 ipfix -- clear bridge br0 netflow -- clear bridge br0 mirrors"
        method, rate = setting.method, setting.rate
        if method == "sflow":
            words += (f' -- --id=@x create sflow agent=c0 targets="{COLLECTOR}:6343" header={setting.header} sampling={rate}'
                      f" polling={setting.polling} -- set bridge br0 sflow=@x")
        elif method in ("ipfix", "ipfix-cache"):
            cache = (3600, 8192) if method == "ipfix-cache" else (0, 0)
            words += (f' -- --id=@x create ipfix targets="{COLLECTOR}:4739" sampling={rate} obs_domain_id=1 obs_point_id=1'
                      f" cache_active_timeout={cache[0]} cache_max_flows={cache[1]} -- set bridge br0 ipfix=@x")
        elif method == "netflow":
            words += f' -- --id=@x create netflow targets="{COLLECTOR}:2055" active_timeout=1 -- set bridge br0 netflow=@x'
        elif method == "mirror" or method.startswith("netalytics"):
            words += (" -- --id=@from get port p1 -- --id=@to get port m0 -- --id=@x create mirror name=m select-src-port=@from select-dst-port=@from"
                      " output-port=@to -- set bridge br0 mirrors=@x")
        self.vsctl(words)
        if method == "sniffer":
            self.start_monitor(["tcpdump", "-i", "p1", "-n", "-B", "32768", "-w", "/dev/null"], "listening on")
        elif method.startswith("netalytics"):
            self.start_monitor([program, "query", QUERIES[method], "-i", "m1", "--format", "jsonl", "-o", f"{RUN}/rows"], "capturing from")
        pin(self.pid, {os.cpu_count() - 1} if setting.pinned else set(range(os.cpu_count())))
        for one in self.traffic:
            pin(one.pid, {0} if setting.pinned else set(range(os.cpu_count())))

    def start_monitor(self, words, ready):
        self.monitor = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        said, deadline = b"", time.monotonic() + PATIENCE
        while ready.encode() not in said:
            if not select.select([self.monitor.stderr], [], [], max(0, deadline - time.monotonic()))[0]:
                raise RuntimeError(f"{words[0]} does not start: {said.decode()}")
            more = os.read(self.monitor.stderr.fileno(), 4096)
            if not more:
                raise RuntimeError(f"{words[0]} has ended: {said.decode()}")
            said += more

    def end_monitor(self):
        if self.monitor:
            self.monitor.send_signal(signal.SIGINT)
            try:
                self.monitor.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                self.monitor.kill()
                self.monitor.wait()
            self.monitor = None

    def start_traffic(self, block):
        """Starts the servers, then the clients, of all pairs."""
        pairs = range(1, block.hosts, 2)
        address = lambda pair: f"10.62.0.{pair + 1}:80"
        words = {"requests": (block.response, block.gap_ns), "stream": (), "datagrams": (block.flows, block.gap_ns, block.burst)}[block.kind]
        self.traffic = [Traffic(self.program, f"h{pair + 1}", "serve", address(pair), block.response) for pair in pairs]
        self.clients = [Traffic(self.program, f"h{pair}", block.kind, address(pair), *words) for pair in pairs]
        self.traffic += self.clients

    def end_traffic(self):
        for one in self.traffic:
            one.end()
        self.traffic, self.clients = [], []

    def totals(self):
        """Received packets, forwarded packets, and packets dropped in between, so far."""
        links = interfaces()
        ports = [links[f"p{n}"] for n in range(1, HOSTS + 1)]
        return sum(port[0] for port in ports), sum(port[1] for port in ports), dropped_at_sockets()

    def balance(self, before):
        """Packets received since `before`, once all are forwarded or dropped. No traffic is running."""
        deadline = time.monotonic() + PATIENCE
        while True:
            received, forwarded, dropped = (now - then for now, then in zip(self.totals(), before))
            if received == forwarded + dropped:
                return received
            if time.monotonic() > deadline:
                raise RuntimeError(f"received {received} packets, forwarded {forwarded}, dropped {dropped}: the counters do not add up")
            time.sleep(0.03)

    def appctl(self, *words):
        command = ["ovs-appctl", "-t", f"{RUN}/switch.ctl", *words]
        return subprocess.run(command, capture_output=True, text=True, env=self.environment, check=True).stdout

    def forget_flows(self):
        """Removes the datapath entries of the previous setting, which would otherwise stay for 10 s."""
        self.appctl("revalidator/purge")

    def wait_for_datapath(self):
        """Waits until the datapath entries correspond to the configuration."""
        self.appctl("revalidator/wait")

    def datapath_flows(self):
        return int(re.search(r"flows: (\d+)", self.appctl("dpctl/show"))[1])

    def counters(self, hosts):
        """CPU seconds, packets and bytes so far."""
        links = interfaces()
        ports = [links[f"p{n}"] for n in range(1, hosts + 1)]
        collected = self.collector.counts()[2:]
        drops = pathlib.Path(f"/proc/{self.collector.pid}/net/udp").read_text().splitlines()[1:]
        return {
            "time": time.monotonic(),
            "received": sum(port[0] for port in ports), "forwarded": sum(port[1] for port in ports), "forwarded_bytes": sum(port[2] for port in ports),
            "mirrored": links["m0"][1],
            "sent": sum(client.counts()[0] for client in self.clients),
            "switch_cpu_s": cpu_seconds(self.pid), "switch_main_cpu_s": cpu_seconds(self.pid, True), "migrations": migrations(self.pid),
            "traffic_cpu_s": sum(cpu_seconds(one.pid) for one in self.traffic), "collector_cpu_s": cpu_seconds(self.collector.pid),
            "monitor_cpu_s": cpu_seconds(self.monitor.pid) if self.monitor else 0.0,
            "datagrams": collected[0], "report_bytes": collected[1], "reports": collected[2], "counter_samples": collected[3], "undecodable": collected[4],
            "lost_datagrams": sum(int(line.split()[-1]) for line in drops),
        }


QUERIES = {"netalytics-packets": "PARSE packet PROCESS (group-count-sum: group=src_ip, w=1s)",
           "netalytics-http": "PARSE http PROCESS (diff-group: group=url, w=1s)"}


def build():
    """Compiles traffic.rs."""
    source, program = pathlib.Path(__file__).resolve().parent / "cost/traffic.rs", f"{RUN}/traffic"
    subprocess.run(["rustc", "-O", "--edition", "2024", "-o", program, source], check=True, env=os.environ | {"TMPDIR": RUN})
    return program
