"""A switch as the northbound interface sees it: the shim's, and the fake network's."""

import threading

from desired import Desired


class Refused(Exception):
    """The switch does not take a message: what it says."""


class Unreachable(Exception):
    """The switch cannot be spoken to."""


class Switch:
    """`asking` is held by who waits for the switch's answers, one at a time; `deciding` by who looks at what is desired, for a moment, and never while waiting."""

    datapath = None

    def __init__(self):
        self.desired = Desired()
        self.asking, self.deciding = threading.RLock(), threading.Lock()

    @property
    def is_connected(self):
        return self.datapath is not None

    def installed(self):
        """Every rule, with what it has counted."""
        raise NotImplementedError

    def ports(self):
        """Number and name of each."""
        raise NotImplementedError

    def apply(self, messages):
        """Has these carried out, in order, and waits until they are."""
        raise NotImplementedError

    def change(self, decide):
        """Carries out what is decided by what the switch has; those messages."""
        with self.asking:
            installed = [rule for rule, _ in self.installed()]
            with self.deciding:
                messages = decide(installed)
            self.apply(messages)
        return messages
