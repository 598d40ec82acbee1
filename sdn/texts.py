"""Matches and actions in the syntax of `ovs-ofctl`: `tcp,nw_dst=10.0.0.2,tp_dst=80` and `output:3,resubmit(,10)`. Raises `BadRule` for invalid parts."""

import ipaddress
import re

from rules import BadRule, Match

ETHER = {"ip": 0x0800, "ipv6": 0x86DD, "arp": 0x0806}
TRANSPORT = {"icmp": 1, "tcp": 6, "udp": 17, "sctp": 132}
# Keywords that stand for fields.
WORDS = {name: {"eth_type": value} for name, value in ETHER.items()}
WORDS |= {name: {"eth_type": 0x0800, "ip_proto": value} for name, value in TRANSPORT.items()}
WORDS |= {name + "6": {"eth_type": 0x86DD, "ip_proto": value} for name, value in TRANSPORT.items() if name != "icmp"}
# ovs-ofctl's field names: OpenFlow's name, and the format of the value.
NAMES = {
    "in_port": ("in_port", "port"),
    "dl_src": ("eth_src", "mac"),
    "dl_dst": ("eth_dst", "mac"),
    "dl_type": ("eth_type", "ether"),
    "dl_vlan": ("vlan_vid", "vlan"),
    "vlan_tci": ("vlan_vid", "tag"),
    "nw_proto": ("ip_proto", 8),
    "nw_src": ("ipv4_src", "ipv4"),
    "nw_dst": ("ipv4_dst", "ipv4"),
    "ipv6_src": ("ipv6_src", "ipv6"),
    "ipv6_dst": ("ipv6_dst", "ipv6"),
    "tp_src": ("src", "transport"),
    "tp_dst": ("dst", "transport"),
    "tcp_flags": ("tcp_flags", "flags"),
    "tun_id": ("tunnel_id", 64),
    "arp_op": ("arp_op", 16),
    "arp_spa": ("arp_spa", "ipv4"),
    "arp_tpa": ("arp_tpa", "ipv4"),
}
FLAGS = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"]
PORTS = {"IN_PORT": 0xFFFFFFF8, "TABLE": 0xFFFFFFF9, "NORMAL": 0xFFFFFFFA, "FLOOD": 0xFFFFFFFB, "ALL": 0xFFFFFFFC, "CONTROLLER": 0xFFFFFFFD, "LOCAL": 0xFFFFFFFE}
PORT_NAMES = {number: name for name, number in PORTS.items()}
VLAN_PRESENT = 0x1000


def number(text, bits, what):
    try:
        value = int(text, 0)
    except ValueError:
        raise BadRule(f"{what}: {text!r} is not a number") from None
    if not 0 <= value < 1 << bits:
        raise BadRule(f"{what}: {text} is out of range")
    return value


def parse_match(text):
    """The match that `ovs-ofctl` reads from this text."""
    fields, transport = {}, {}
    for item in filter(None, (item.strip() for item in text.split(","))):
        name, equals, value = item.partition("=")
        if not equals:
            if name not in WORDS:
                raise BadRule(f"unknown keyword {name!r} in a match")
            fields |= WORDS[name]
        elif name not in NAMES:
            raise BadRule(f"unknown field {name!r} in a match")
        else:
            field, kind = NAMES[name]
            if kind == "transport":
                transport[field] = masked(value, 16, name)
            else:
                fields[field] = parse_value(kind, value, name)
    if transport:
        of = {6: "tcp", 17: "udp", 132: "sctp"}.get(fields.get("ip_proto"))
        if of is None:
            raise BadRule("ports need tcp, udp or sctp before them")
        fields |= {f"{of}_{side}": value for side, value in transport.items()}
    needs = {"ipv4_src": 0x0800, "ipv4_dst": 0x0800, "ipv6_src": 0x86DD, "ipv6_dst": 0x86DD, "arp_op": 0x0806, "arp_spa": 0x0806, "arp_tpa": 0x0806}
    for field, ether in needs.items():
        if field in fields and fields.get("eth_type") != ether:
            raise BadRule(f"{field} needs dl_type={ether:#06x} before it")
    if "ip_proto" in fields and fields.get("eth_type") not in (0x0800, 0x86DD):
        raise BadRule("nw_proto needs ip or ipv6 before it")
    if "tcp_flags" in fields and fields.get("ip_proto") != 6:
        raise BadRule("tcp_flags needs tcp before it")
    return Match.of(**{name: value for name, value in fields.items() if value is not None})


def masked(text, bits, what):
    """`80`, or `0x50/0xfff0`; None if the mask is empty."""
    value, slash, mask = text.partition("/")
    value = number(value, bits, what)
    if not slash:
        return value
    mask, full = number(mask, bits, what), (1 << bits) - 1
    return value if mask == full else (value & mask, mask) if mask else None


def parse_value(kind, text, what):
    if isinstance(kind, int):
        return masked(text, kind, what)
    if kind == "ether":
        return number(text, 16, what)
    if kind == "port":
        return PORTS.get(text) or number(text, 32, what)
    if kind == "vlan":
        vlan = number(text, 16, what)
        if vlan == 0xFFFF:
            return 0  # no tag at all
        if vlan > 4095:
            raise BadRule(f"{what}: {text} is out of range")
        return VLAN_PRESENT | vlan
    if kind == "tag":
        return parse_tag(text, what)
    if kind == "flags":
        return parse_flags(text, what)
    if kind == "mac":
        return parse_mac(text, what)
    return parse_network(text, 4 if kind == "ipv4" else 6, what)


def parse_tag(text, what):
    """A VLAN tag and its mask: the lower 12 bits are the VLAN, the next one is set if there is a tag."""
    value, slash, mask = text.partition("/")
    value, mask = number(value, 16, what), number(mask, 16, what) if slash else 0xFFFF
    if mask & 0xE000 and slash:
        raise BadRule(f"{what}: VLAN priorities are not supported")
    mask &= 0x1FFF
    return (value & mask, mask) if mask not in (0, 0x1FFF) else value & mask if mask else None


def parse_flags(text, what):
    """`+syn-ack`: with SYN, without ACK; or a number and its mask."""
    if text[:1] not in "+-":
        return masked(text, 12, what)
    value = mask = 0
    for sign, name in re.findall(r"([+-])([^+-]*)", text):
        if name not in FLAGS:
            raise BadRule(f"{what}: unknown flag {name!r}")
        bit = 1 << FLAGS.index(name)
        mask |= bit
        value |= bit if sign == "+" else 0
    return (value, mask)


def parse_mac(text, what):
    value, slash, mask = text.lower().partition("/")
    for one in (value, mask) if slash else (value,):
        if not re.fullmatch(r"([0-9a-f]{2}:){5}[0-9a-f]{2}", one):
            raise BadRule(f"{what}: {one!r} is not an Ethernet address")
    return value if not slash or mask == "ff:ff:ff:ff:ff:ff" else (value, mask)


def parse_network(text, version, what):
    address, slash, mask = text.partition("/")
    kind = ipaddress.IPv4Address if version == 4 else ipaddress.IPv6Address
    try:
        address = kind(address)
        bits = 32 if version == 4 else 128
        if not slash:
            mask = (1 << bits) - 1
        elif mask.isdigit():
            if int(mask) > bits:
                raise ValueError
            mask = ((1 << int(mask)) - 1) << (bits - int(mask))
        else:
            mask = int(kind(mask))
    except ValueError:
        raise BadRule(f"{what}: {text!r} is not a network") from None
    if mask == (1 << bits) - 1:
        return str(address)
    return (str(kind(int(address) & mask)), str(kind(mask))) if mask else None


def print_match(match):
    """The text that parses to the same match; fields without a keyword have OpenFlow's names and cannot be parsed."""
    fields, items = dict(match.fields), []
    word = {"eth_type": fields.get("eth_type"), "ip_proto": fields.get("ip_proto")}
    for name, stands_for in reversed(WORDS.items()):
        if all(word.get(field) == value for field, value in stands_for.items()):
            items.append(name)
            for field in stands_for:
                del fields[field]
            break
    back = {field: (name, kind) for name, (field, kind) in NAMES.items()}
    vlan = fields.get("vlan_vid")
    back["vlan_vid"] = ("vlan_tci", "tag") if isinstance(vlan, tuple) or not vlan else ("dl_vlan", "vlan")
    back |= {f"{of}_{side}": (f"tp_{side}", 16) for of in ("tcp", "udp", "sctp") for side in ("src", "dst")}
    items += [f"{back[field][0]}={print_value(back[field][1], value)}" if field in back else f"{field}={value}" for field, value in fields.items()]
    return ",".join(items)


def print_value(kind, value):
    if kind == "port":
        return PORT_NAMES.get(value, str(value))
    if kind == "ether":
        return f"{value:#06x}"
    if kind == "vlan":
        return str(value & 0xFFF)
    if kind == "tag":
        value, mask = value if isinstance(value, tuple) else (value, 0x1FFF)
        return f"{value:#06x}/{mask:#06x}"
    if kind == "flags" and isinstance(value, tuple) and value[1] < 1 << len(FLAGS):
        return "".join(f"{'+' if value[0] >> bit & 1 else '-'}{name}" for bit, name in enumerate(FLAGS) if value[1] >> bit & 1)
    if not isinstance(value, tuple):
        return str(value)
    if kind in ("ipv4", "ipv6"):
        mask = int(ipaddress.ip_address(value[1]))
        bits = 32 if kind == "ipv4" else 128
        length = mask.bit_count()
        return f"{value[0]}/{length if mask == ((1 << length) - 1) << (bits - length) else value[1]}"
    return "/".join(hex(part) if isinstance(part, int) else part for part in value)


# An action is ("output", port, maximum bytes or None), ("resubmit", table), ("goto_table", table), or ("unknown", text),
# which is only read from switches.


def parse_actions(text):
    if text.strip() in ("", "drop"):
        return ()
    return tuple(parse_action(item.strip()) for item in re.split(r",(?![^()]*\))", text))


def parse_action(text):
    if text in PORTS and text != "TABLE":
        return ("output", PORTS[text], 0xFFFF if text == "CONTROLLER" else None)
    if found := re.fullmatch(r"output:(\w+)", text):
        return ("output", port(found[1]), None)
    if found := re.fullmatch(r"output\(port=(\w+),max_len=(\d+)\)", text):
        length = number(found[2], 32, text)
        if length < 14:
            raise BadRule(f"{text}: a switch copies at least 14 bytes")
        return ("output", port(found[1]), length)
    if found := re.fullmatch(r"CONTROLLER:(\d+)", text):
        return ("output", PORTS["CONTROLLER"], number(found[1], 16, text))
    if found := re.fullmatch(r"resubmit\(,(\d+)\)", text):
        return ("resubmit", number(found[1], 8, text))
    if found := re.fullmatch(r"goto_table:(\d+)", text):
        return ("goto_table", number(found[1], 8, text))
    raise BadRule(f"unknown action {text!r}")


def port(text):
    return PORTS.get(text) or number(text, 32, "output")


def print_actions(actions):
    return ",".join(map(print_action, actions)) or "drop"


def print_action(action):
    if action[0] == "unknown":
        return action[1]
    if action[0] == "resubmit":
        return f"resubmit(,{action[1]})"
    if action[0] == "goto_table":
        return f"goto_table:{action[1]}"
    _, to, length = action
    name = PORT_NAMES.get(to)
    if name == "CONTROLLER":
        return f"CONTROLLER:{length}"
    if length is not None:
        return f"output(port={name or to},max_len={length})"
    return name or f"output:{to}"
