"""A learning switch as a separate application, to test our rules with another controller's forwarding. Switches send packets with unknown addresses;
rules for learned addresses expire when idle.

    python3 learning.py --openflow HOST:PORT [--table N]

With `--table` it uses that table, and in table 0 only one rule of priority 0 that leads there.
"""

import struct

from os_ken.base import app_manager
from os_ken.controller import handler, ofp_event
from os_ken.ofproto import ofproto_v1_3 as of
from os_ken.ofproto import ofproto_v1_3_parser as parser

import openflow

COOKIE = 0x6C6561726E696E67
IDLE = 30  # seconds


class Learning(app_manager.OSKenApp):
    OFP_VERSIONS = [of.OFP_VERSION]

    def start(self):
        self.behind = {}  # (switch, address): port
        self.table = openflow.settings.table
        return super().start()

    def add(self, datapath, table, priority, match, instruction, idle=0):
        rule = parser.OFPFlowMod(datapath, cookie=COOKIE, table_id=table, priority=priority, match=match, instructions=[instruction], idle_timeout=idle)
        datapath.send_msg(rule)

    @handler.set_ev_cls(ofp_event.EventOFPStateChange, handler.MAIN_DISPATCHER)
    def on_switch(self, event):
        ask = parser.OFPInstructionActions(of.OFPIT_APPLY_ACTIONS, [parser.OFPActionOutput(of.OFPP_CONTROLLER, of.OFPCML_NO_BUFFER)])
        self.add(event.datapath, self.table, 0, parser.OFPMatch(), ask)
        if self.table:
            self.add(event.datapath, 0, 0, parser.OFPMatch(), parser.OFPInstructionGotoTable(self.table))

    @handler.set_ev_cls(ofp_event.EventOFPPacketIn, handler.MAIN_DISPATCHER)
    def on_packet(self, event):
        packet, datapath = event.msg, event.msg.datapath
        if packet.cookie != COOKIE or len(packet.data) < 14:
            return  # another application's
        destination, source = (":".join(f"{byte:02x}" for byte in end) for end in struct.unpack_from("6s6s", packet.data))
        port = packet.match["in_port"]
        self.behind[datapath.id, source] = port
        to = self.behind.get((datapath.id, destination))
        actions = [parser.OFPActionOutput(of.OFPP_FLOOD if to is None else to)]
        if to is not None:
            match = parser.OFPMatch(in_port=port, eth_dst=destination)
            self.add(datapath, self.table, 1, match, parser.OFPInstructionActions(of.OFPIT_APPLY_ACTIONS, actions), IDLE)
        datapath.send_msg(parser.OFPPacketOut(datapath, of.OFP_NO_BUFFER, port, actions, packet.data))


if __name__ == "__main__":
    asked = openflow.parser(__doc__)
    asked.add_argument("--table", type=int, default=0, help="table of its rules (%(default)s)")
    openflow.run("learning", asked.parse_args())
