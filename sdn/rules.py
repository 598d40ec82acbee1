"""OpenFlow rules as values, and changes to them. Matches use the names and values of OpenFlow 1.3 fields. Pure: no switch, no clock."""

import dataclasses


class BadRule(ValueError):
    """An invalid rule, with a message for the sender."""


@dataclasses.dataclass(frozen=True)
class Match:
    """Fields by name, sorted: an exact value, or a value and a mask."""

    fields: tuple = ()

    @staticmethod
    def of(**fields):
        return Match(tuple(sorted(fields.items())))

    def get(self, name):
        return dict(self.fields).get(name)

    def with_fields(self, **more):
        return Match.of(**{**dict(self.fields), **more})


@dataclasses.dataclass(frozen=True)
class Rule:
    """An entry of a switch's table, identified by table, priority, and match."""

    match: Match
    actions: tuple  # as `texts.parse_actions` gives them
    cookie: int
    priority: int = 0x8000
    table: int = 0
    idle_timeout: int = 0
    hard_timeout: int = 0

    @property
    def place(self):
        return self.table, self.priority, self.match


# Changes to a switch; the OpenFlow layer encodes them, the simulated network executes them.


@dataclasses.dataclass(frozen=True)
class Add:
    """Adds or replaces a rule."""

    rule: Rule
    tell_end: bool = False  # whether the switch is to say when the rule has ended


@dataclasses.dataclass(frozen=True)
class Remove:
    """Removes the rule with this identity and cookie."""

    rule: Rule


@dataclasses.dataclass(frozen=True)
class RemoveAll:
    """Removes every rule whose cookie matches under the mask."""

    cookie: int
    mask: int


@dataclasses.dataclass(frozen=True)
class Renew:
    """Resets the timers of all rules of a cookie. Expired rules are not restored."""

    table: int
    cookie: int
    actions: tuple


@dataclasses.dataclass(frozen=True)
class Send:
    """Sends a packet through these actions, as if received on that port."""

    in_port: int
    actions: tuple
    data: bytes
