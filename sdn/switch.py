"""A switch as seen by the HTTP interface, real or simulated."""

import threading

from desired import Desired


class Refused(Exception):
    """The switch rejected a message; contains the error."""


class Unreachable(Exception):
    """The switch cannot be reached."""


class Switch:
    """`asking` is held while waiting for replies, one request at a time; `deciding` while the desired state is read, briefly, and never while waiting."""

    datapath = None

    def __init__(self):
        self.desired = Desired()
        self.asking, self.deciding = threading.RLock(), threading.Lock()

    @property
    def is_connected(self):
        return self.datapath is not None

    def installed(self):
        """Every rule with its counters."""
        raise NotImplementedError

    def ports(self):
        """Number and name of each port."""
        raise NotImplementedError

    def apply(self, messages):
        """Executes messages in order and waits for completion."""
        raise NotImplementedError

    def change(self, decide):
        """Executes the changes computed from the switch's rules; returns them."""
        with self.asking:
            installed = [rule for rule, _ in self.installed()]
            with self.deciding:
                messages = decide(installed)
            self.apply(messages)
        return messages
