"""The flow of a packet. Accepts arbitrary bytes; None if it is not TCP."""

import ipaddress
import struct

VLAN = (0x8100, 0x88A8)


def five_tuple(data):
    """Source, its port, destination, its port, and 4 or 6; None if unknown."""
    if len(data) < 14:
        return None
    ether, at = struct.unpack_from("!H", data, 12)[0], 14
    while ether in VLAN and len(data) >= at + 4:
        ether, at = struct.unpack_from("!H", data, at + 2)[0], at + 4
    if ether == 0x0800 and len(data) >= at + 20:
        length = (data[at] & 15) * 4
        is_whole = struct.unpack_from("!H", data, at + 6)[0] & 0x1FFF == 0
        if data[at] >> 4 != 4 or length < 20 or data[at + 9] != 6 or not is_whole:
            return None
        ends, tcp, version = (data[at + 12 : at + 16], data[at + 16 : at + 20]), at + length, 4
    elif ether == 0x86DD and len(data) >= at + 40:
        if data[at] >> 4 != 6 or data[at + 6] != 6:
            return None
        ends, tcp, version = (data[at + 8 : at + 24], data[at + 24 : at + 40]), at + 40, 6
    else:
        return None
    if len(data) < tcp + 4:
        return None
    source, destination = (str(ipaddress.ip_address(bytes(end))) for end in ends)
    ports = struct.unpack_from("!HH", data, tcp)
    return source, ports[0], destination, ports[1], version
