"""Connects OpenFlow 1.3 switches, through os-ken, to the decisions of `desired.py`. Knows messages, not their purpose."""

import threading
import time

from os_ken.base import app_manager
from os_ken.controller import handler, ofp_event
from os_ken.ofproto import ofproto_v1_3 as of
from os_ken.ofproto import ofproto_v1_3_parser as parser

from northbound import Northbound, read_token
from openflow import settings
from rules import Add, Match, Remove, RemoveAll, Renew, Rule, Send
from switch import Refused, Switch, Unreachable
from texts import PORTS

PATIENCE = 5.0  # seconds that a switch has to answer
MOST_SWITCHES = 1000


class Connected(Switch):
    """A switch and its current connection; `asking` is held while waiting for its replies."""

    def __init__(self):
        super().__init__()
        self.datapath = self.waiting = None

    def connection(self):
        if self.datapath is None:
            raise Unreachable("the switch is not connected")
        return self.datapath

    def ask(self, message):
        """Sends a request; returns the parts of its reply."""
        with self.asking:
            datapath = self.connection()
            self.waiting = Answer(datapath.set_xid(message))
            return self.answer(datapath, message)

    def answer(self, datapath, last):
        """Sends the last message and waits for its reply."""
        waiting = self.waiting
        try:
            if not datapath.send_msg(last) or not waiting.ready.wait(PATIENCE):
                raise Unreachable("the switch does not respond")
        finally:
            self.waiting = None
        if waiting.errors:
            raise Refused(waiting.errors[0])
        return waiting.parts

    def apply(self, messages):
        """Sends messages and waits until they are executed."""
        if not messages:
            return
        with self.asking:
            self.exchange(messages)

    def exchange(self, messages):
        datapath = self.connection()
        barrier = parser.OFPBarrierRequest(datapath)
        self.waiting = Answer(datapath.set_xid(barrier))
        for message in messages:
            encoded = encode(datapath, message)
            self.waiting.sent[datapath.set_xid(encoded)] = message
            datapath.send_msg(encoded)
        self.answer(datapath, barrier)

    def installed(self):
        """Every rule with its counters: packets, bytes, seconds."""
        match = parser.OFPMatch()
        request = parser.OFPFlowStatsRequest(self.connection(), 0, of.OFPTT_ALL, of.OFPP_ANY, of.OFPG_ANY, 0, 0, match)
        return [decode(entry) for part in self.ask(request) for entry in part]

    def ports(self):
        request = parser.OFPPortDescStatsRequest(self.connection(), 0)
        return [(port.port_no, port.name.decode(errors="replace")) for part in self.ask(request) for port in part]


class Answer:
    """A pending request."""

    def __init__(self, xid):
        self.xid, self.sent = xid, {}
        self.parts, self.errors, self.ready = [], [], threading.Event()


def encode(datapath, message):
    """A message in OpenFlow."""
    anything = {"out_port": of.OFPP_ANY, "out_group": of.OFPG_ANY}
    match message:
        case Add(rule, tell_end):
            return parser.OFPFlowMod(
                datapath, cookie=rule.cookie, table_id=rule.table, command=of.OFPFC_ADD, idle_timeout=rule.idle_timeout, hard_timeout=rule.hard_timeout,
                priority=rule.priority, flags=of.OFPFF_SEND_FLOW_REM if tell_end else 0, match=encode_match(rule.match), instructions=instructions(datapath, rule.actions),
            )  # fmt: skip
        case Remove(rule):
            return parser.OFPFlowMod(
                datapath, cookie=rule.cookie, cookie_mask=(1 << 64) - 1, table_id=rule.table, command=of.OFPFC_DELETE_STRICT, priority=rule.priority,
                match=encode_match(rule.match), **anything,
            )  # fmt: skip
        case RemoveAll(cookie, mask):
            return parser.OFPFlowMod(datapath, cookie=cookie, cookie_mask=mask, table_id=of.OFPTT_ALL, command=of.OFPFC_DELETE, match=parser.OFPMatch(), **anything)
        case Renew(table, cookie, actions):
            return parser.OFPFlowMod(
                datapath, cookie=cookie, cookie_mask=(1 << 64) - 1, table_id=table, command=of.OFPFC_MODIFY, match=parser.OFPMatch(),
                instructions=instructions(datapath, actions), **anything,
            )  # fmt: skip
        case Send(in_port, actions, data):
            return parser.OFPPacketOut(datapath, of.OFP_NO_BUFFER, in_port, [encode_action(one) for one in actions], data)


def encode_match(match):
    return parser.OFPMatch(**dict(match.fields))


def instructions(datapath, actions):
    goto = [parser.OFPInstructionGotoTable(action[1]) for action in actions if action[0] == "goto_table"]
    does = [encode_action(action) for action in actions if action[0] != "goto_table"]
    return ([parser.OFPInstructionActions(of.OFPIT_APPLY_ACTIONS, does)] if does else []) + goto


def encode_action(action):
    if action[0] == "resubmit":
        return parser.NXActionResubmitTable(in_port=PORTS["IN_PORT"] & 0xFFFF, table_id=action[1])
    _, port, length = action
    if length is None or port == of.OFPP_CONTROLLER:
        return parser.OFPActionOutput(port, length or 0)
    return parser.NXActionOutputTrunc(port=port & 0xFFFF, max_len=length)


def decode(entry):
    """A rule of a switch, with its counters."""
    actions = []
    for instruction in entry.instructions:
        if isinstance(instruction, parser.OFPInstructionGotoTable):
            actions.append(("goto_table", instruction.table_id))
        elif isinstance(instruction, parser.OFPInstructionActions) and instruction.type == of.OFPIT_APPLY_ACTIONS:
            actions += [decode_action(action) for action in instruction.actions]
        else:
            actions.append(("unknown", type(instruction).__name__))
    match = Match.of(**dict(entry.match.items()))
    rule = Rule(match, tuple(actions), entry.cookie, entry.priority, entry.table_id, entry.idle_timeout, entry.hard_timeout)
    return rule, {"packets": entry.packet_count, "bytes": entry.byte_count, "seconds": entry.duration_sec}


def decode_action(action):
    if isinstance(action, parser.OFPActionOutput):
        return ("output", action.port, action.max_len if action.port == of.OFPP_CONTROLLER else None)
    if isinstance(action, parser.NXActionOutputTrunc):
        port = action.port | 0xFFFF0000 if action.port >= 0xFF00 else action.port
        return ("output", port, action.max_len)
    if isinstance(action, parser.NXActionResubmitTable) and action.in_port == PORTS["IN_PORT"] & 0xFFFF:
        return ("resubmit", action.table_id)
    return ("unknown", type(action).__name__)


class Application(app_manager.OSKenApp):
    """The os-ken application."""

    OFP_VERSIONS = [of.OFP_VERSION]

    def start(self):
        self.switches = {}
        self.northbound = Northbound(settings.listen, self.switches, time.monotonic, read_token(settings.token_file))
        threading.Thread(target=self.northbound.serve_forever, daemon=True).start()
        threading.Thread(target=self.keep_time, daemon=True).start()
        return super().start()

    def keep_time(self):
        """Removes rules whose lease has expired."""
        while True:
            time.sleep(0.5)
            for switch in list(self.switches.values()):
                with switch.deciding:
                    messages = switch.desired.expire(time.monotonic())
                self.attempt(lambda: switch.apply(messages))

    def attempt(self, what):
        """Runs a background operation; failures are logged."""
        try:
            what()
        except (Refused, Unreachable) as why:
            self.logger.warning("sdn: %s", why)

    @handler.set_ev_cls(ofp_event.EventOFPStateChange, [handler.MAIN_DISPATCHER, handler.DEAD_DISPATCHER])
    def on_state(self, event):
        datapath = event.datapath
        if datapath.id is None:
            return
        switch = self.switches.get(datapath.id)
        if switch is None:
            if len(self.switches) >= MOST_SWITCHES:
                self.logger.warning("sdn: switch %016x refused: too many switches", datapath.id)
                return
            switch = self.switches[datapath.id] = Connected()
        if event.state == handler.MAIN_DISPATCHER:
            # Replies arrive on this thread, so it must not wait for them.
            threading.Thread(target=self.reconcile, args=(switch, datapath), daemon=True).start()
        elif switch.datapath is datapath:
            switch.datapath = None

    def reconcile(self, switch, datapath):
        with switch.asking:
            switch.datapath = datapath
            self.attempt(lambda: switch.change(lambda installed: switch.desired.connected(installed, time.monotonic())))

    def answered(self, event):
        """The pending request that matches a reply, if any."""
        switch = self.switches.get(event.msg.datapath.id)
        waiting = switch and switch.waiting
        return waiting if waiting and event.msg.xid in (waiting.xid, *waiting.sent) else None

    @handler.set_ev_cls([ofp_event.EventOFPFlowStatsReply, ofp_event.EventOFPPortDescStatsReply], handler.MAIN_DISPATCHER)
    def on_part(self, event):
        if waiting := self.answered(event):
            waiting.parts.append(event.msg.body)
            if not event.msg.flags & of.OFPMPF_REPLY_MORE:
                waiting.ready.set()

    @handler.set_ev_cls(ofp_event.EventOFPBarrierReply, handler.MAIN_DISPATCHER)
    def on_barrier(self, event):
        if waiting := self.answered(event):
            waiting.ready.set()

    @handler.set_ev_cls(ofp_event.EventOFPErrorMsg, handler.MAIN_DISPATCHER)
    def on_error(self, event):
        if waiting := self.answered(event):
            message = waiting.sent.get(event.msg.xid, "a question")
            waiting.errors.append(f"the switch refuses {message}: type {event.msg.type}, code {event.msg.code}")
            if event.msg.xid == waiting.xid:
                waiting.ready.set()

    @handler.set_ev_cls(ofp_event.EventOFPPacketIn, handler.MAIN_DISPATCHER)
    def on_packet(self, event):
        packet, switch = event.msg, self.switches.get(event.msg.datapath.id)
        if switch is None:
            return
        with switch.deciding:
            messages = switch.desired.packet_in(packet.table_id, packet.cookie, packet.match["in_port"], packet.data)
        # The switch executes them in this order, so the packet matches the rules of its flow.
        for message in messages:
            packet.datapath.send_msg(encode(packet.datapath, message))

    @handler.set_ev_cls(ofp_event.EventOFPFlowRemoved, handler.MAIN_DISPATCHER)
    def on_end(self, event):
        if switch := self.switches.get(event.msg.datapath.id):
            ended = event.msg
            with switch.deciding:
                switch.desired.ended(Rule(Match.of(**dict(ended.match.items())), (), ended.cookie, ended.priority, ended.table_id))
