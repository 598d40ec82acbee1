"""Parses rules and requests in JSON. Raises `BadRule` with the name of the invalid part."""

from rules import BadRule, Rule
from texts import number, parse_actions, parse_match, print_actions, print_match

# The first 16 bits of the cookies of all netalytics rules; see docs/steering.md.
MAGIC = 0x6E61


def cookie(value, what="cookie"):
    """A cookie has 64 bits, which JSON numbers may not hold: it is a string, `0x…`."""
    if not isinstance(value, str):
        raise BadRule(f'{what} must be a string such as "0x10"')
    return number(value, 64, what)


def own_cookies(own, mask):
    """Requires that cookie and mask select rules of netalytics only."""
    if own & ~mask:
        raise BadRule("cookie has bits outside of mask")
    if mask >> 48 != 0xFFFF or own >> 48 != MAGIC:
        raise BadRule(f"cookies of netalytics begin with {MAGIC:#x}, and mask has to cover these 16 bits")
    return own, mask


def whole(source, name, default, bits):
    value = source.get(name, default)
    if type(value) is not int or not 0 <= value < 1 << bits:
        raise BadRule(f"{name} must be a whole number below {1 << bits}")
    return value


def text(source, name):
    value = source.get(name)
    if not isinstance(value, str):
        raise BadRule(f"{name} is missing or not a string")
    return value


def only(source, *names):
    """Rejects unknown members of a JSON object, such as misspelled ones."""
    if not isinstance(source, dict):
        raise BadRule("an object is required")
    if more := sorted(set(source) - set(names)):
        raise BadRule(f"unknown field {more[0]!r}; known fields: {', '.join(names)}")
    return source


def parse_rule(source):
    """A rule from JSON; its timeouts are the set's."""
    only(source, "table", "priority", "cookie", "match", "actions")
    return Rule(
        match=parse_match(text(source, "match")),
        actions=parse_actions(text(source, "actions")),
        cookie=cookie(source.get("cookie")),
        priority=whole(source, "priority", 0x8000, 16),
        table=whole(source, "table", 0, 8),
    )


def print_rule(rule):
    return {
        "table": rule.table,
        "priority": rule.priority,
        "cookie": hex(rule.cookie),
        "idle_timeout": rule.idle_timeout,
        "hard_timeout": rule.hard_timeout,
        "match": print_match(rule.match),
        "actions": print_actions(rule.actions),
    }
