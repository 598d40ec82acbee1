"""The controller with Open vSwitch: four switches of the test bed, real connections, and copies compared with the server's own capture. Witnesses: tcpdump and ovs-ofctl. Requires root."""

import collections
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

from tests.require import require

SDN = Path(__file__).parents[1]
TESTBED = SDN.parent / "deploy" / "testbed.sh"
PATIENCE = 15
SWITCHES = ["leaf1", "leaf2", "leaf3", "spine1"]
LEAF1, LEAF2 = "0000000000000001", "0000000000000002"
SERVER, MONITOR = "10.60.2.1", 3  # app1, and the port of spare2: both at leaf2
OURS = {"cookie": "0x6e61000000000000", "mask": "0xffff000000000000"}


def wait_for(what, ready, seen=""):
    """Waits until the result is true; returns it."""
    began = time.monotonic()
    while not (found := ready()):
        assert time.monotonic() - began < PATIENCE, f"waited for {what} in vain {seen}"
        time.sleep(0.05)
    return found


def both_ways(copy, forward, cookie="0x6e61000000000001", port=8000):
    match = f"tcp,nw_{{}}={SERVER},tp_{{}}={port}"
    rule = {"priority": 200, "cookie": cookie, "actions": f"{copy},{forward}"}
    return [rule | {"match": match.format(side, side)} for side in ("dst", "src")]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Controller:
    """The program, started as by its users."""

    def __init__(self, openflow, log):
        self.port = free_port()
        words = [sys.executable, str(SDN), "--openflow", f"unix:{openflow}", "--listen", f"127.0.0.1:{self.port}"]
        self.token = Path(f"{openflow}.token")
        words += ["--token-file", str(self.token)]
        self.process = subprocess.Popen(words, stderr=log)

    def ask(self, method, path, body=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/{path}", json.dumps(body).encode() if body else None, method=method)
        if self.token.exists():
            request.add_header("Authorization", f"Bearer {self.token.read_text().strip()}")
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from None

    def is_connected(self, switches):
        try:
            return self.ask("GET", "health")["switches"] == switches
        except OSError:
            return False

    def kill(self):
        self.process.kill()
        self.process.wait()


def frames(path):
    """The packets of a capture with their counts."""
    data, at, found = Path(path).read_bytes(), 24, collections.Counter()
    while at + 16 <= len(data):
        length = struct.unpack_from("<I", data, at + 8)[0]
        found[data[at + 16 : at + 16 + length]] += 1
        at += 16 + length
    return found


class Network(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        require("root", "ovs-vswitchd", "tcpdump", "curl", "ip")
        cls.folder = tempfile.TemporaryDirectory(prefix="sdn-", dir="/tmp")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.bed, cls.openflow = f"{cls.folder.name}/bed", f"{cls.folder.name}/of"
        cls.log = open(f"{cls.folder.name}/log", "w")
        cls.addClassCleanup(cls.log.close)
        env = os.environ | {"SERVERS": "none", "CONTROLLER": f"unix:{cls.openflow}"}
        cls.addClassCleanup(subprocess.run, [TESTBED, "down", cls.bed], check=True)
        subprocess.run([TESTBED, "up", cls.bed], env=env, check=True, stdout=subprocess.DEVNULL)
        os.mkdir(f"{cls.folder.name}/www")
        Path(f"{cls.folder.name}/www/page").write_bytes(b"so much text " * 1000)
        words = ["python3", "-m", "http.server", "8000", "--bind", SERVER, "--directory", f"{cls.folder.name}/www"]
        cls.start("app1", words)
        cls.controller = Controller(cls.openflow, cls.log)
        cls.addClassCleanup(lambda: cls.controller.kill())
        wait_for("four switches", lambda: cls.controller.is_connected(4))
        wait_for("the web server", lambda: cls.get(1) == "200")

    def setUp(self):
        self.flows_before = self.dump("leaf2")
        self.addCleanup(self.clear)

    def clear(self):
        wait_for("four switches", lambda: self.controller.is_connected(4))
        for switch in (LEAF1, LEAF2):
            self.controller.ask("DELETE", f"switches/{switch}/rules?cookie={OURS['cookie']}&mask={OURS['mask']}")
        self.assertEqual(self.dump("leaf2"), self.flows_before, "everything is as before")

    @classmethod
    def on(cls, where, words, **more):
        return subprocess.Popen([TESTBED, "exec", cls.bed, where, *words], **more)

    @classmethod
    def start(cls, where, words):
        process = cls.on(where, words, stdout=subprocess.DEVNULL, stderr=cls.log)
        cls.addClassCleanup(process.wait)
        cls.addClassCleanup(process.kill)
        return process

    @classmethod
    def get(cls, times, path="page"):
        """Requests a page this many times, on a connection each; returns all statuses."""
        urls = [f"http://{SERVER}:8000/{path}"] * times
        words = ["curl", "-s", "-w", "%{http_code}\n", "--max-time", str(PATIENCE)] + [word for url in urls for word in ("-o", "/dev/null", url)]
        out = cls.on("client1", words, stdout=subprocess.PIPE, text=True).communicate()[0].split()
        return out[0] if len(out) == times and len(set(out)) == 1 else out

    def vsctl(self, switch, *words):
        subprocess.run(["ovs-vsctl", f"--db=unix:{self.bed}/run/{switch}/db.sock", *words], check=True)

    def ofctl(self, command, switch, *words):
        at = f"unix:{self.bed}/run/{switch}/br0.mgmt"
        return subprocess.run(["ovs-ofctl", "-O", "OpenFlow13", command, at, *words], check=True, capture_output=True, text=True).stdout

    def dump(self, switch):
        """The switch's rules as printed by it, without counters."""
        lines = [line.split() for line in self.ofctl("dump-flows", switch, "--no-stats").splitlines() if "actions=" in line]
        return sorted(" ".join(line) for line in lines)

    def ours(self):
        return [line for line in self.dump("leaf2") if "cookie=0x6e61" in line]

    def forget_cache(self):
        """Flushes the switch's cached decisions, which apply to similar packets for some milliseconds after a new flow's rules exist (docs/sdn.md), as do
        those of closing connections."""
        wait_for("connections to end", lambda: not self.open_connections())
        subprocess.run(["ovs-appctl", "-t", f"{self.bed}/run/leaf2/vswitchd.ctl", "dpctl/del-flows"], check=True)

    def open_connections(self):
        """Connections that may still send packets."""
        said = [self.on(where, ["ss", "-Htan"], stdout=subprocess.PIPE, text=True).communicate()[0] for where in ("client1", "app1")]
        return [line for line in "".join(said).splitlines() if line.split()[0] not in ("LISTEN", "TIME-WAIT")]

    def put(self, generation=1, lease=30, switch=LEAF2, **rules):
        return self.controller.ask("PUT", f"switches/{switch}/rules", OURS | {"generation": generation, "lease": lease} | rules)

    def capture(self, where):
        path = f"{self.folder.name}/{where}-{time.monotonic_ns()}.pcap"
        # A small snapshot length: the ring buffer would hold too few frames of maximum size.
        words = ["tcpdump", "-i", "eth0", "--immediate-mode", "-U", "-n", "-s", "2048", "-B", "16384", "-w", path, "tcp", "port", "8000"]
        process = self.on(where, words, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        while "listening on" not in process.stderr.readline():
            self.assertIsNone(process.poll())
        return path

    def check_copies(self, shorten=lambda frame: frame, times=20, monitors=("spare2",)):
        """Every packet of the server's host reaches each monitor once; nothing else does."""
        copies, seen, differs = [self.capture(monitor) for monitor in monitors], self.capture("app1"), {}
        self.assertEqual(self.get(times), "200")

        def same():
            wanted = collections.Counter()
            for frame, count in frames(seen).items():
                wanted[shorten(frame)] += count
            founds = [frames(one) for one in copies]
            for where, found in zip(monitors, founds):
                differs[where] = [[frame[:66].hex() for frame in some][:3] for some in (wanted - found, found - wanted)]
            return wanted.total() >= 8 * times and all(found == wanted for found in founds)

        wait_for("equal copies", same, differs)

    def test_copies_are_what_the_server_has_seen(self):
        self.put(rules=both_ways(f"output:{MONITOR}", "NORMAL"))
        self.assertEqual(len(self.ours()), 2)
        self.check_copies()
        counted = self.controller.ask("GET", f"switches/{LEAF2}/rules?cookie={OURS['cookie']}&mask={OURS['mask']}")
        dumped = [line.split("n_packets=")[1].split(",")[0] for line in self.ofctl("dump-flows", "leaf2").splitlines() if "cookie=0x6e61" in line]
        self.assertEqual(sorted(rule["packets"] for rule in counted), sorted(map(int, dumped)))

    def test_two_switches(self):
        self.put(rules=both_ways(f"output:{MONITOR}", "NORMAL"))
        self.put(rules=both_ways("output:4", "NORMAL"), switch=LEAF1)
        self.check_copies(monitors=("spare1", "spare2"))
        self.assertEqual([len(switch["sets"]) for switch in self.controller.ask("GET", "switches")], [1, 1, 0, 0])

    def test_copies_cut_short(self):
        self.put(rules=both_ways(f"output(port={MONITOR},max_len=66)", "NORMAL"))
        self.check_copies(lambda frame: frame[:66])

    def test_flows_that_begin(self):
        asked = {
            "priority": 300, "cookie": "0x6e61000000000002", "flow_cookie": "0x6e61000000000003", "match": f"tcp,nw_dst={SERVER},tp_dst=8000",
            "copy": f"output:{MONITOR}", "forward": "NORMAL", "idle_timeout": 2,
        }  # fmt: skip
        self.put(reactive=[asked])
        self.forget_cache()
        self.check_copies()
        self.assertGreater(len(self.ours()), 1)
        self.assertEqual(self.controller.ask("GET", "switches")[1]["flows_refused"], 0)
        wait_for("idle flows to end", lambda: len(self.ours()) == 1)
        wait_for("that to be told", lambda: self.controller.ask("GET", "switches")[1]["sets"][0]["flows"] == 0)

    def test_leases(self):
        self.put(lease=2, rules=both_ways(f"output:{MONITOR}", "NORMAL"))
        began = time.monotonic()
        while time.monotonic() - began < 3.5:
            self.assertEqual(self.controller.ask("POST", f"switches/{LEAF2}/renew", OURS), {"renewed": 1})
            self.assertEqual(len(self.ours()), 2)
            time.sleep(0.3)
        self.check_copies(times=1)
        wait_for("rules to end", lambda: not self.ours())

    def test_a_switch_comes_back_and_rules_with_it(self):
        self.put(rules=both_ways(f"output:{MONITOR}", "NORMAL"))
        # Without a controller Open vSwitch would forget all rules; this one does not answer.
        self.set_controllers("leaf2", "nobody")
        self.ofctl("del-flows", "leaf2", "cookie=0x6e61000000000001/-1")
        self.assertEqual((self.ours(), self.get(1)), ([], "200"))
        wait_for("its absence to be noticed", lambda: self.controller.is_connected(3))
        self.set_controllers("leaf2", "of")
        wait_for("the rules", lambda: len(self.ours()) == 2)
        self.check_copies(times=3)

    def test_a_switch_is_killed_and_started_again(self):
        self.put(rules=both_ways(f"output:{MONITOR}", "NORMAL"))
        own = f"{self.bed}/run/leaf2"
        os.kill(int(Path(f"{own}/ovs-vswitchd.pid").read_text()), signal.SIGKILL)
        words = ["ovs-vswitchd", f"unix:{own}/db.sock", f"--pidfile={own}/ovs-vswitchd.pid", f"--unixctl={own}/vswitchd.ctl", "--detach", "-vconsole:off"]
        started = self.on("leaf2", words, env=os.environ | {f"OVS_{what}DIR": own for what in ("RUN", "DB", "LOG", "SYSCONF")})
        self.assertEqual(started.wait(), 0)
        self.ofctl("add-flow", "leaf2", "priority=0,actions=NORMAL")
        wait_for("the rules", lambda: len(self.ours()) == 2)
        # Until addresses are learned, the switch floods to the monitor as well.
        self.assertEqual(self.get(1), "200")
        self.check_copies(times=3)

    def test_without_a_controller_traffic_goes_on_and_rules_end(self):
        self.put(lease=2, rules=both_ways(f"output:{MONITOR}", "NORMAL"))
        self.controller.kill()
        self.assertEqual(self.get(3), "200")
        wait_for("rules to end", lambda: not self.ours())
        self.assertEqual((self.get(3), self.dump("leaf2")), ("200", self.flows_before))
        type(self).controller = Controller(self.openflow, self.log)
        wait_for("four switches", lambda: self.controller.is_connected(4))

    def test_beside_another_controllers_learning_switch(self):
        other = f"{self.folder.name}/other"
        words = [sys.executable, SDN / "learning.py", "--openflow", f"unix:{other}", "--table", "10"]
        learning = subprocess.Popen(words, stderr=self.log)
        self.addCleanup(learning.wait)
        self.addCleanup(learning.kill)
        self.addCleanup(self.forward, ["of"], "priority=0,actions=NORMAL")
        for switch in SWITCHES:
            os.symlink(other, f"{self.bed}/run/{switch}/other")
        self.forward(["of", "other"])
        wait_for("the other's rules", lambda: all("goto_table:10" in " ".join(self.dump(switch)) for switch in SWITCHES))
        wait_for("forwarding", lambda: self.get(1) == "200")
        self.put(rules=both_ways(f"output:{MONITOR}", "resubmit(,10)"))
        self.check_copies()
        learned = [line for line in self.dump("leaf2") if "table=10" in line and "priority=1," in line]
        self.assertGreaterEqual(len(learned), 2)
        # Separates requests about new flows from the other's requests.
        asked = {
            "priority": 300, "cookie": "0x6e61000000000002", "flow_cookie": "0x6e61000000000003", "match": f"tcp,nw_dst={SERVER},tp_dst=8000",
            "copy": f"output:{MONITOR}", "forward": "resubmit(,10)", "idle_timeout": 5,
        }  # fmt: skip
        self.put(generation=2, reactive=[asked])
        self.forget_cache()
        self.check_copies()
        self.controller.ask("DELETE", f"switches/{LEAF2}/rules?cookie={OURS['cookie']}&mask={OURS['mask']}")
        self.assertEqual((self.ours(), self.get(1)), ([], "200"))

    def set_controllers(self, switch, *sockets):
        self.vsctl(switch, "set-controller", "br0", *(f"unix:{self.bed}/run/{switch}/{socket}" for socket in sockets))

    def forward(self, controllers, *flows):
        """The owner of the switches, and the forwarding."""
        for switch in SWITCHES:
            # Another controller installs its rules as soon as it can.
            self.set_controllers(switch, "of")
            self.ofctl("del-flows", switch)
            self.set_controllers(switch, *controllers)
            for flow in flows:
                self.ofctl("add-flow", switch, flow)


if __name__ == "__main__":
    unittest.main()
