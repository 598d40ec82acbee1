"""Connects to the servers in all ways that the parser distinguishes; prints the state of each connection as a JSON line."""
import asyncio, json, ssl, sys

from aioquic.asyncio import connect
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.packet import QuicProtocolVersion as Version
from aioquic.quic.events import ConnectionTerminated, ProtocolNegotiated
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.tls import CipherSuite

HOST = sys.argv[1]
LOCAL_PORT = 41000
V1, V2 = Version.VERSION_1, Version.VERSION_2


class Protocol(QuicConnectionProtocol):
    ended = None
    alpn = None

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            self.ended = event
        if isinstance(event, ProtocolNegotiated):
            self.alpn = event.alpn_protocol
        super().quic_event_received(event)


async def attempt(name, port=443, early=b"", patience=3.0, **options):
    """One connection; returns its session ticket."""
    global LOCAL_PORT
    LOCAL_PORT += 1
    settings = {"alpn_protocols": ["h3"], "server_name": "shop.test", "supported_versions": [V1], "original_version": V1} | options
    configuration = QuicConfiguration(verify_mode=ssl.CERT_NONE, idle_timeout=patience, **settings)
    tickets, protocol, connected = [], None, False
    try:
        connecting = connect(HOST, port, configuration=configuration, create_protocol=Protocol, local_port=LOCAL_PORT,
                             session_ticket_handler=tickets.append, wait_connected=False)
        async with connecting as protocol:
            if early:
                _, writer = await protocol.create_stream()
                writer.write(early)
                writer.write_eof()
            protocol.transmit()
            await asyncio.wait_for(protocol.wait_connected(), patience)
            connected = True
            await asyncio.wait_for(protocol.ping(), patience)
            await asyncio.sleep(0.05)
    except (ConnectionError, asyncio.TimeoutError):
        pass
    quic = protocol._quic
    suite = quic.tls.key_schedule.cipher_suite if connected else None
    state = {
        "case": name, "client_port": LOCAL_PORT, "connected": connected, "version": f"v{1 if quic._version == V1 else 2}",
        "connection_id": quic.original_destination_connection_id.hex(), "sni": settings["server_name"], "alpn": settings["alpn_protocols"],
        "cipher": suite and suite.name, "resumed": connected and quic.tls.session_resumed, "early_data": bool(early),
        "retry": quic._retry_count > 0, "error": None if connected or not protocol.ended else protocol.ended.error_code,
    }
    print(json.dumps(state), flush=True)
    return tickets[0] if tickets else None


async def main():
    await attempt("version 1", supported_versions=[V1])
    await attempt("version 2", supported_versions=[V2], original_version=V2)
    await attempt("compatible versions", supported_versions=[V2, V1], original_version=V1)
    await attempt("version negotiation", port=445, supported_versions=[V1, V2], original_version=V1)
    await attempt("no common version", port=445, supported_versions=[V1])
    ticket = await attempt("address validation", port=444)
    ticket = await attempt("new session") or ticket
    await attempt("resumed session", session_ticket=ticket)
    await attempt("early data", session_ticket=ticket, early=b"GET /\r\n")
    await attempt("cipher suite", cipher_suites=[CipherSuite.CHACHA20_POLY1305_SHA256])
    await attempt("no common protocol", alpn_protocols=["smtp"])
    await attempt("large ClientHello", alpn_protocols=[f"protocol-{number:04}" for number in range(150)] + ["h3"])
    await attempt("no server name", server_name=None)
    await attempt("no server", port=446, patience=2.0)


asyncio.run(main())
