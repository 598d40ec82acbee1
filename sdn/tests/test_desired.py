"""Desired state of one simulated switch on a manual clock."""

import unittest

from desired import Conflict, parse_set
from fake_network import FakeSwitch, tcp
from rules import BadRule, Rule
from texts import parse_actions, parse_match, print_match

OURS = {"cookie": "0x6e61000000000000", "mask": "0xffff000000000000"}
MIRROR = {"priority": 200, "cookie": "0x6e61000000000001", "match": "tcp,tp_dst=80", "actions": "output:3,resubmit(,10)"}
BACK = MIRROR | {"match": "tcp,tp_src=80"}
ASKED = {
    "priority": 300, "cookie": "0x6e61000000000002", "flow_cookie": "0x6e61000000000003", "match": "tcp,tp_dst=80", "copy": "output:3", "forward": "resubmit(,10)", "idle_timeout": 5,
}  # fmt: skip
CLIENT, SERVER = ("10.0.0.1", 40000), ("10.0.0.2", 80)
SYN, SYN_ACK, ACK = 0x02, 0x12, 0x10


def rule_set(*rules, generation=1, lease=10, reactive=(), **more):
    return parse_set(OURS | {"generation": generation, "lease": lease, "rules": list(rules), "reactive": list(reactive)} | more)


def network():
    """A learning switch with ports 1 to 3, by another controller's rules in table 10."""
    switch = FakeSwitch([1, 2, 3])
    for rule in [Rule(parse_match(""), parse_actions("resubmit(,10)"), 7, 0), Rule(parse_match(""), parse_actions("NORMAL"), 7, 0, 10)]:
        switch.entries[rule.place] = entry = type("Entry", (), {})()
        entry.rule, entry.since, entry.used, entry.tell_end, entry.packets = rule, 0.0, 0.0, False, 0
    # All addresses are learned, so nothing is flooded.
    for port, end in ((1, CLIENT), (2, SERVER), (3, ("10.0.0.3", 1))):
        switch.receive(port, tcp(end, ("10.0.0.9", 1), ACK))
    return switch


def put(switch, new):
    return switch.change(lambda installed: switch.desired.put(new, installed, switch.now))


def ours(switch):
    return sorted(print_match(rule.match) for rule, _ in switch.installed() if rule.cookie >> 48 == 0x6E61)


class Sets(unittest.TestCase):
    def test_a_set_is_put_whole_and_forwarding_stays(self):
        switch = network()
        there, back = tcp(CLIENT, SERVER, ACK), tcp(SERVER, CLIENT, ACK)
        self.assertEqual((switch.receive(1, there), switch.receive(2, back)), ([2], [1]))
        put(switch, rule_set(MIRROR, BACK))
        self.assertEqual((switch.receive(1, there), switch.receive(2, back)), ([2, 3], [1, 3]))
        self.assertEqual(put(switch, rule_set(MIRROR, BACK, generation=2)), [], "nothing changes, nothing is sent")
        put(switch, rule_set(MIRROR, generation=3))
        self.assertEqual((switch.receive(1, there), switch.receive(2, back)), ([2, 3], [1]))
        self.assertRaises(Conflict, put, switch, rule_set(MIRROR, BACK, generation=2))
        switch.apply(switch.desired.remove(0x6E61 << 48, 0xFFFF << 48))
        self.assertEqual(len(switch.entries), 2, "rules of others are unchanged")
        self.assertEqual((switch.receive(1, there), switch.receive(2, back)), ([2], [1]))

    def test_a_lease_ends_unless_it_is_renewed(self):
        switch = network()
        put(switch, rule_set(MIRROR))
        key = (0x6E61 << 48, 0xFFFF << 48)
        for _ in range(5):
            switch.advance(6)
            switch.apply(switch.desired.renew(key, switch.now))
        self.assertEqual(ours(switch), ["tcp,tp_dst=80"])
        switch.advance(10)
        self.assertEqual(ours(switch), [])
        self.assertIsNone(switch.desired.renew(key, switch.now), "expired rules do not return")
        self.assertEqual(ours(switch), [])

    def test_a_switch_that_comes_back_gets_its_rules_again(self):
        switch = network()
        put(switch, rule_set(MIRROR, BACK))
        switch.restart()
        switch.advance(5)
        switch.change(lambda installed: switch.desired.connected(installed, switch.now))
        self.assertEqual(ours(switch), ["tcp,tp_dst=80", "tcp,tp_src=80"])
        switch.restart()
        switch.advance(6)
        switch.change(lambda installed: switch.desired.connected(installed, switch.now))
        self.assertEqual(ours(switch), [], "its lease was over meanwhile")

    def test_strangers_rules_of_our_cookies_go_and_others_stay(self):
        switch = network()
        put(switch, rule_set(MIRROR, BACK))
        switch.desired.sets.clear()  # the controller was started again
        put(switch, rule_set(BACK, generation=1))
        self.assertEqual(ours(switch), ["tcp,tp_src=80"])
        self.assertEqual(len(switch.entries), 3)

    def test_what_cannot_be_is_refused(self):
        for bad, why in [
            ({"rules": [MIRROR, MIRROR]}, "the same match"),
            ({"rules": [MIRROR, BACK | {"actions": "output:4"}]}, "two lists of actions"),
            ({"rules": [MIRROR | {"cookie": "0x1"}]}, "does not belong to the set"),
            ({"rules": [MIRROR | {"cookie": 1}]}, "must be a string"),
            ({"rules": [MIRROR | {"prio": 1}]}, "unknown field 'prio'"),
            ({"rules": [MIRROR | {"match": "tcp,tp_dst=x"}]}, r"rules\[0\]"),
            ({"rules": {}}, "must be a list"),
            ({"lease": -1}, "lease"),
            ({"mask": "0x0"}, "outside of mask"),
            ({"reactive": [ASKED | {"match": "udp"}]}, "must select tcp"),
            ({"reactive": [ASKED | {"forward": ""}]}, "forward is empty"),
            ({"reactive": [ASKED | {"flow_cookie": ASKED["cookie"]}]}, "two lists of actions"),
            ({"reactive": [ASKED | {"idle_timeout": 0}]}, "idle_timeout"),
        ]:
            with self.subTest(why):
                self.assertRaisesRegex(BadRule, why, parse_set, OURS | bad)
        switch = network()
        put(switch, rule_set(MIRROR))
        self.assertRaises(Conflict, put, switch, rule_set(mask="0xffff800000000000", cookie="0x6e61000000000000"))


class Flows(unittest.TestCase):
    def test_a_flow_that_begins_is_copied_whole_and_only_if_asked_for(self):
        switch = network()
        before = tcp(CLIENT, SERVER, ACK)
        put(switch, rule_set(reactive=[ASKED]))
        self.assertEqual(switch.receive(1, before), [2], "flows in progress are ignored")
        new = ("10.0.0.1", 40001)
        self.assertEqual(switch.receive(1, tcp(new, SERVER, SYN)), [2, 3], "the packet comes back whole")
        self.assertEqual(switch.receive(2, tcp(SERVER, new, SYN_ACK)), [1, 3])
        self.assertEqual(switch.receive(1, tcp(new, SERVER, ACK)), [2, 3])
        self.assertEqual(switch.receive(1, tcp(new, SERVER, SYN)), [2, 3], "retransmissions are not held")
        self.assertEqual(switch.receive(1, tcp(new, ("10.0.0.2", 81), SYN)), [2], "another service")
        self.assertEqual(len(ours(switch)), 3)
        switch.advance(5)
        self.assertEqual(len(ours(switch)), 1, "idle flows expire, their catcher stays")
        self.assertEqual([len(held.flows) for held in switch.desired.sets.values()], [0])

    def test_flows_outlive_a_controller_and_a_new_generation(self):
        switch = network()
        put(switch, rule_set(reactive=[ASKED]))
        switch.receive(1, tcp(CLIENT, SERVER, SYN))
        put(switch, rule_set(MIRROR, reactive=[ASKED], generation=2))
        self.assertEqual(len(ours(switch)), 4)
        switch.desired.sets.clear()
        put(switch, rule_set(reactive=[ASKED]))
        self.assertEqual(len(ours(switch)), 3)
        put(switch, rule_set(generation=2))
        self.assertEqual(ours(switch), [])

    def test_without_room_a_flow_arrives_uncopied(self):
        switch = network()
        switch.desired.most_flows = 2
        put(switch, rule_set(reactive=[ASKED]))
        arrived = [switch.receive(1, tcp(("10.0.0.1", port), SERVER, SYN)) for port in (1, 2)]
        self.assertEqual(arrived, [[2, 3], [2]])
        self.assertEqual(switch.desired.flows_refused, 1)

    def test_any_bytes_may_come(self):
        switch = network()
        put(switch, rule_set(reactive=[ASKED]))
        whole = tcp(CLIENT, SERVER, SYN)
        for length in range(len(whole)):
            *_, last = switch.desired.packet_in(0, 0x6E61000000000002, 1, whole[:length])
            self.assertEqual((last.data, last.actions[-1]), (whole[:length], ("resubmit", 10)))


if __name__ == "__main__":
    unittest.main()
