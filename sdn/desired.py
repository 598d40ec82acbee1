"""Desired rules of one switch, and the changes that produce them.

Rules come as complete sets. A set owns the cookies that match it under its mask, and nothing else on the switch. Its generation prevents older writers from
overwriting newer ones; its lease expires rules that are not renewed. Pure: changes are returned as messages, time is an argument.
"""

import dataclasses

from flows import five_tuple
from forms import cookie, only, own_cookies, parse_rule, text, whole
from rules import Add, BadRule, Match, Remove, RemoveAll, Renew, Rule, Send
from texts import parse_actions, parse_match

MOST_RULES = 10_000  # of a set
MOST_FLOWS = 10_000  # of a reactive rule


class Conflict(Exception):
    """A newer generation exists, or another set owns the same cookies."""


@dataclasses.dataclass(frozen=True)
class Reactive:
    """Rules created when flows begin. The rule `catcher` holds a matching SYN until the switch has rules for both directions of its flow."""

    catcher: Rule
    flow_cookie: int
    copy: tuple
    forward: tuple
    idle_timeout: int

    @property
    def actions(self):
        return self.copy + self.forward

    def rules(self, flow, lease):
        """Rules for both directions of a flow, with a priority above the catcher, so that a retransmitted SYN is not held again."""
        source, source_port, destination, destination_port, version = flow
        ip, ether = ("ipv4", 0x0800) if version == 4 else ("ipv6", 0x86DD)
        ends = (source, source_port, destination, destination_port), (destination, destination_port, source, source_port)
        for src, src_port, dst, dst_port in ends:
            match = Match.of(**{"eth_type": ether, "ip_proto": 6, f"{ip}_src": src, f"{ip}_dst": dst, "tcp_src": src_port, "tcp_dst": dst_port})
            yield Rule(match, self.actions, self.flow_cookie, self.catcher.priority + 1, self.catcher.table, self.idle_timeout, lease)


@dataclasses.dataclass(frozen=True)
class RuleSet:
    """A set of rules; `lease` is in seconds, 0 is unlimited."""

    cookie: int
    mask: int
    generation: int
    lease: int
    rules: tuple
    reactive: tuple

    @property
    def key(self):
        return self.cookie, self.mask

    def owns(self, cookie):
        return cookie & self.mask == self.cookie

    def standing(self):
        """The rules that do not depend on flows."""
        return self.rules + tuple(reactive.catcher for reactive in self.reactive)

    def action_lists(self):
        """Table, cookie, and actions of all its rules, including those of flows."""
        of_flows = {(one.catcher.table, one.flow_cookie, one.actions) for one in self.reactive}
        return of_flows | {(rule.table, rule.cookie, rule.actions) for rule in self.standing()}


def parse_set(source):
    """A set from JSON."""
    only(source, "cookie", "mask", "generation", "lease", "rules", "reactive")
    own, mask = own_cookies(cookie(source.get("cookie")), cookie(source.get("mask"), "mask"))
    lease = whole(source, "lease", 0, 16)
    lists = {}
    for name, parse in (("rules", parse_rule), ("reactive", parse_reactive)):
        items = source.get(name, [])
        if not isinstance(items, list) or len(items) > MOST_RULES:
            raise BadRule(f"{name} must be a list of at most {MOST_RULES} rules")
        lists[name] = tuple(numbered(parse, item, f"{name}[{n}]") for n, item in enumerate(items))
    found = RuleSet(own, mask, whole(source, "generation", 0, 63), lease, lists["rules"], lists["reactive"])
    check(found)
    leased = tuple(dataclasses.replace(rule, hard_timeout=lease) for rule in found.rules)
    reactive = tuple(dataclasses.replace(one, catcher=dataclasses.replace(one.catcher, hard_timeout=lease)) for one in found.reactive)
    return dataclasses.replace(found, rules=leased, reactive=reactive)


def numbered(parse, item, where):
    try:
        return parse(item)
    except BadRule as why:
        raise BadRule(f"{where}: {why}") from None


def parse_reactive(source):
    only(source, "table", "priority", "cookie", "flow_cookie", "match", "copy", "forward", "idle_timeout")
    match = parse_match(text(source, "match"))
    if match.get("ip_proto") != 6 or match.get("tcp_flags") is not None:
        raise BadRule("match must select tcp, without tcp_flags")
    priority = whole(source, "priority", 0x8000, 16)
    if priority == 0xFFFF:
        raise BadRule("priority must be below the maximum: the set also uses the next higher priority")
    syn = match.with_fields(tcp_flags=(0x02, 0x12))
    catcher = Rule(syn, parse_actions("CONTROLLER:65535"), cookie(source.get("cookie")), priority, whole(source, "table", 0, 8))
    forward = parse_actions(text(source, "forward"))
    if not forward:
        raise BadRule("forward is empty: copies would not arrive")
    idle = whole(source, "idle_timeout", 10, 16)
    if not idle:
        raise BadRule("idle_timeout must be above 0: rules of flows would never expire")
    return Reactive(catcher, cookie(source.get("flow_cookie"), "flow_cookie"), parse_actions(text(source, "copy")), forward, idle)


def check(found):
    """Requirements of renewal by cookie, and of switches: no duplicate match, and one list of actions per cookie and table."""
    places, actions = set(), {}
    for rule in found.standing():
        if rule.place in places:
            raise BadRule(f"two rules have priority {rule.priority} and the same match")
        places.add(rule.place)
    for table, of, does in found.action_lists():
        if not found.owns(of):
            raise BadRule(f"cookie {of:#x} does not belong to the set")
        if actions.setdefault((table, of), does) != does:
            raise BadRule(f"cookie {of:#x} has two lists of actions: it could not be renewed")


@dataclasses.dataclass
class Held:
    """A set, its expiry, and the rules of its flows."""

    of: RuleSet
    until: float
    flows: dict = dataclasses.field(default_factory=dict)

    def all(self):
        return self.of.standing() + tuple(self.flows.values())


class Desired:
    """The desired state of one switch."""

    def __init__(self, most_flows=MOST_FLOWS):
        self.sets = {}
        self.most_flows = most_flows
        self.flows_refused = 0

    def put(self, new, installed, now):
        """Takes a set; returns the changes from the rules of the switch. New rules come first, so that no required rule is missing in between."""
        old = self.sets.get(new.key)
        if old and new.generation < old.of.generation:
            raise Conflict(f"generation {new.generation} is older than {old.of.generation}")
        for other in self.sets.values():
            shared = new.mask & other.of.mask
            if other.of.key != new.key and new.cookie & shared == other.of.cookie & shared:
                raise Conflict(f"the set of {other.of.cookie:#x}/{other.of.mask:#x} owns the same cookies")
        held = Held(new, self.end_of(new, now))
        # Flows in progress keep their rules, also those of a previous controller.
        kept = {(one.flow_cookie, one.actions) for one in new.reactive}
        running = [dataclasses.replace(rule, hard_timeout=new.lease) for rule in installed if (rule.cookie, rule.actions) in kept]
        known = [rule for rule in old.flows.values() if (rule.cookie, rule.actions) in kept] if old else []
        held.flows = {rule.place: rule for rule in known + running}
        self.sets[new.key] = held
        return self.difference(held, installed)

    @staticmethod
    def end_of(found, now):
        return now + found.lease if found.lease else float("inf")

    @staticmethod
    def difference(held, installed):
        wanted = {rule.place: rule for rule in held.all()}
        there = {rule.place: rule for rule in installed if held.of.owns(rule.cookie)}
        messages = [Add(rule, tell_end=place in held.flows) for place, rule in wanted.items() if there.get(place) != rule]
        messages += [Remove(rule) for place, rule in there.items() if place not in wanted]
        return messages

    def remove(self, cookie, mask):
        """Forgets the sets whose cookies all match, and removes all matching rules, also unknown ones."""
        self.sets = {key: held for key, held in self.sets.items() if held.of.cookie & mask != cookie or mask & ~held.of.mask}
        return [RemoveAll(cookie, mask)]

    def renew(self, key, now):
        """Renews the lease of a set; None if it does not exist."""
        held = self.sets.get(key)
        if held is None or held.until <= now:
            return None
        held.until = self.end_of(held.of, now)
        return [Renew(*what) for what in sorted(held.of.action_lists(), key=repr)]

    def expire(self, now):
        """Forgets expired sets. Their rules expire by themselves; the removal covers rules restored in the meantime."""
        over = [key for key, held in self.sets.items() if held.until <= now]
        for key in over:
            del self.sets[key]
        return [RemoveAll(*key) for key in over]

    def connected(self, installed, now):
        """The switch has (re)connected with these rules: returns what is missing of valid sets."""
        messages = self.expire(now)
        for held in self.sets.values():
            messages += self.difference(held, installed)
        return messages

    def ended(self, rule):
        """The switch reports an expired rule."""
        for held in self.sets.values():
            held.flows.pop(rule.place, None)

    def packet_in(self, table, cookie, in_port, data):
        """Handles a packet held by a catcher: installs rules for its flow, then sends the whole packet through the same actions. At the limit of flows the packet is
        forwarded without a copy. Packets of other rules are ignored."""
        for held in self.sets.values():
            for reactive in held.of.reactive:
                if (reactive.catcher.table, reactive.catcher.cookie) == (table, cookie):
                    return self.began(held, reactive, in_port, data)
        return []

    def began(self, held, reactive, in_port, data):
        flow = five_tuple(data)
        rules = list(reactive.rules(flow, held.of.lease)) if flow else []
        new = [rule for rule in rules if rule.place not in held.flows]
        if not rules or len(held.flows) + len(new) > self.most_flows:
            self.flows_refused += 1
            return [Send(in_port, reactive.forward, data)]
        held.flows.update((rule.place, rule) for rule in new)
        return [Add(rule, tell_end=True) for rule in rules] + [Send(in_port, reactive.actions, data)]
