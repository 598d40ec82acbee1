"""Simulated switches for tests: tables, timeouts, learning, and packets as in Open vSwitch, on a manual clock."""

import dataclasses
import ipaddress
import struct

from flows import five_tuple
from rules import Add, Remove, RemoveAll, Renew, Send
from switch import Switch, Unreachable
from texts import PORTS


@dataclasses.dataclass
class Entry:
    rule: object
    since: float
    used: float
    tell_end: bool
    packets: int = 0


class FakeSwitch(Switch):
    """Creates a switch with these ports. `to_controller` receives packet-ins; without it they are lost."""

    def __init__(self, ports, is_connected=True):
        super().__init__()
        self.numbers, self.entries, self.behind, self.now = ports, {}, {}, 0.0
        self.datapath = "fake" if is_connected else None
        self.out = []

    def connection(self):
        if self.datapath is None:
            raise Unreachable("the switch is not connected")

    def installed(self):
        self.connection()
        return [(entry.rule, {"packets": entry.packets, "bytes": 0, "seconds": int(self.now - entry.since)}) for entry in self.entries.values()]

    def ports(self):
        self.connection()
        return [(number, f"port{number}") for number in self.numbers]

    def apply(self, messages):
        if messages:
            self.connection()
        for message in messages:
            self.carry_out(message)

    def carry_out(self, message):
        match message:
            case Add(rule, tell_end):
                self.entries[rule.place] = Entry(rule, self.now, self.now, tell_end)
            case Remove(rule):
                if rule.place in self.entries and self.entries[rule.place].rule.cookie == rule.cookie:
                    del self.entries[rule.place]
            case RemoveAll(cookie, mask):
                self.entries = {place: entry for place, entry in self.entries.items() if entry.rule.cookie & mask != cookie}
            case Renew(table, cookie, actions):
                for entry in self.entries.values():
                    if (entry.rule.table, entry.rule.cookie) == (table, cookie):
                        entry.since, entry.rule = self.now, dataclasses.replace(entry.rule, actions=actions)
            case Send(in_port, actions, data):
                self.act(actions, in_port, data)

    def advance(self, seconds):
        """Advances time and expires rules."""
        self.now += seconds
        for place, entry in list(self.entries.items()):
            rule = entry.rule
            if (rule.hard_timeout and self.now >= entry.since + rule.hard_timeout) or (rule.idle_timeout and self.now >= entry.used + rule.idle_timeout):
                del self.entries[place]
                if entry.tell_end and self.is_connected:
                    self.desired.ended(rule)

    def restart(self):
        """Restarts the switch process."""
        self.entries, self.behind = {}, {}

    def receive(self, in_port, data):
        """A packet arrives; returns its output ports."""
        self.out = []
        self.look_up(0, in_port, data)
        return sorted(self.out)

    def look_up(self, table, in_port, data):
        fields = packet_fields(in_port, data)
        matching = [entry for entry in self.entries.values() if entry.rule.table == table and matches(entry.rule.match, fields)]
        if not matching:
            return
        entry = max(matching, key=lambda entry: entry.rule.priority)
        entry.packets, entry.used = entry.packets + 1, self.now
        self.act(entry.rule.actions, in_port, data, entry.rule)

    def act(self, actions, in_port, data, rule=None):
        for kind, value, *_ in actions:
            if kind in ("resubmit", "goto_table"):
                self.look_up(value, in_port, data)
            elif value == PORTS["NORMAL"]:
                self.behind[data[6:12]] = in_port
                to = self.behind.get(data[:6])
                self.out += [port for port in self.numbers if port != in_port and to in (None, port)]
            elif value == PORTS["CONTROLLER"]:
                if self.is_connected:
                    self.apply(self.desired.packet_in(rule.table, rule.cookie, in_port, data))
            elif value != in_port:
                self.out.append(value)


def matches(match, fields):
    for name, wanted in match.fields:
        value, mask = wanted if isinstance(wanted, tuple) else (wanted, None)
        if name not in fields or as_number(fields[name]) & as_number(mask) != as_number(value) & as_number(mask):
            return False
    return True


def as_number(value):
    if value is None:
        return -1
    if isinstance(value, int):
        return value
    return int(value.replace(":", ""), 16) if len(value) == 17 and value.count(":") == 5 else int(ipaddress.ip_address(value))


def packet_fields(in_port, data):
    fields = {"in_port": in_port, "eth_type": struct.unpack_from("!H", data, 12)[0], "vlan_vid": 0}
    fields |= {name: ":".join(f"{byte:02x}" for byte in data[at : at + 6]) for name, at in (("eth_dst", 0), ("eth_src", 6))}
    if flow := five_tuple(data):
        source, source_port, destination, destination_port, _ = flow
        fields |= {"ip_proto": 6, "ipv4_src": source, "ipv4_dst": destination, "tcp_src": source_port, "tcp_dst": destination_port, "tcp_flags": data[47]}
    return fields


def tcp(source, destination, flags, payload=b""):
    """A packet from one (address, port) to another; the last byte of an address is also that of its Ethernet address."""
    ends = [ipaddress.IPv4Address(address).packed for address, _ in (source, destination)]
    mac = [b"\x02\0\0\0\0" + end[3:] for end in ends]
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 40 + len(payload), 0, 0x4000, 64, 6, 0) + b"".join(ends)
    return mac[1] + mac[0] + b"\x08\0" + ip + struct.pack("!HHIIBBHHH", source[1], destination[1], 1, 1, 0x50, flags, 64, 0, 0) + payload
