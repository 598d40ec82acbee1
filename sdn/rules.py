"""Rules of OpenFlow as values, and what may be done with them. A match has the names and values of OpenFlow 1.3's fields. Pure: no switch, no clock."""

import dataclasses


class BadRule(ValueError):
    """A rule that cannot be: what is wrong with it, for whoever has sent it."""


@dataclasses.dataclass(frozen=True)
class Match:
    """Fields by name, sorted: each an exact value, or a value and the mask of what counts of it."""

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
    """One entry of a switch's table. What identifies it there are table, priority and match."""

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


# What may be done to a switch; the shim puts it into OpenFlow, the fake network carries it out.


@dataclasses.dataclass(frozen=True)
class Add:
    """Adds a rule, or puts it in the place of the one that stood there."""

    rule: Rule
    tell_end: bool = False  # whether the switch is to say when the rule has ended


@dataclasses.dataclass(frozen=True)
class Remove:
    """Removes what has this place and cookie."""

    rule: Rule


@dataclasses.dataclass(frozen=True)
class RemoveAll:
    """Removes every rule whose cookie is this one, as far as the mask looks."""

    cookie: int
    mask: int


@dataclasses.dataclass(frozen=True)
class Renew:
    """Begins the time of all rules of a cookie anew. What is gone already does not come back."""

    table: int
    cookie: int
    actions: tuple


@dataclasses.dataclass(frozen=True)
class Send:
    """Sends a packet through these actions, as if it came in by that port."""

    in_port: int
    actions: tuple
    data: bytes
