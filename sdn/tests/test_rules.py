"""Syntax of rules: equal meaning as in `ovs-ofctl`; invalid rules are rejected."""

import subprocess
import unittest

from rules import BadRule
from tests.require import require
from texts import parse_actions, parse_match, print_actions, print_match

MATCHES = [
    "",
    "ip",
    "arp",
    "icmp",
    "tcp",
    "udp6,tp_dst=53",
    "tcp,nw_src=10.0.0.0/24,nw_dst=10.0.1.2,tp_dst=80",
    "tcp,nw_src=10.0.0.7/255.0.0.255",
    "tcp,nw_dst=10.0.0.9/24,tp_src=1024/0xfc00",
    "tcp,in_port=3,tcp_flags=+syn-ack",
    "tcp,tcp_flags=0x12/0x3f",
    "ipv6,ipv6_src=2001:db8::/32",
    "tcp6,ipv6_dst=2001:db8::1,tp_dst=443",
    "dl_vlan=7,tcp,tp_dst=80",
    "dl_vlan=0xffff",
    "vlan_tci=0x0000/0x1000",
    "vlan_tci=0x1007/0x1fff,ip",
    "arp,arp_tpa=10.0.0.1,arp_op=2",
    "dl_src=02:00:00:00:00:01,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00",
    "dl_type=0x88cc",
    "in_port=LOCAL,sctp,tp_dst=5000",
    "ip,nw_proto=47",
    "tun_id=0x2a",
]
ACTIONS = ["drop", "NORMAL", "output:3,NORMAL", "output(port=3,max_len=96),resubmit(,10)", "CONTROLLER:65535", "LOCAL,IN_PORT", "output:2,goto_table:4"]
BAD = [
    ("tp_dst=80", "ports need"),
    ("nw_dst=10.0.0.1", "needs dl_type"),
    ("tcp,tp_dst=65536", "out of range"),
    ("tcp,tp_dst=http", "is not a number"),
    ("tcp,nw_dst=10.0.0.1/33", "is not a network"),
    ("tcp,color=red", "unknown field"),
    ("quic", "unknown keyword"),
    ("udp,tcp_flags=+syn", "needs tcp"),
    ("dl_vlan=4096", "out of range"),
    ("tcp,tcp_flags=+sin", "unknown flag"),
    ("dl_src=02:00", "not an Ethernet address"),
    ("nw_proto=6", "needs ip"),
]


class Texts(unittest.TestCase):
    def test_a_match_is_read_again_as_it_was(self):
        for text in MATCHES:
            with self.subTest(text):
                match = parse_match(text)
                self.assertEqual(parse_match(print_match(match)), match)

    def test_ovs_ofctl_understands_the_same(self):
        require("ovs-ofctl")
        for text in MATCHES:
            with self.subTest(text):
                self.assertEqual(understood(print_match(parse_match(text)), "drop"), understood(text, "drop"))
        for text in ACTIONS:
            with self.subTest(text):
                self.assertEqual(understood("", print_actions(parse_actions(text))), understood("", text))

    def test_what_is_wrong_is_refused(self):
        for text, why in BAD:
            with self.subTest(text):
                self.assertRaisesRegex(BadRule, why, parse_match, text)
        for text in ["output:", "fly", "output(port=3,max_len=5)", "set_field:1->reg0", "resubmit(,300)"]:
            with self.subTest(text):
                self.assertRaises(BadRule, parse_actions, text)


def understood(match, actions):
    flow = f"{match},actions={actions}".removeprefix(",")
    return subprocess.run(["ovs-ofctl", "-O", "OpenFlow13", "parse-flow", flow], capture_output=True, text=True, check=True).stdout.splitlines()[-1]


if __name__ == "__main__":
    unittest.main()
