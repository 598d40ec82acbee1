"""QUIC servers at one address, until killed: port 443; 444 requires address validation; 445 supports version 2 only."""
import asyncio, sys

from aioquic.asyncio import serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.packet import QuicProtocolVersion as Version

HOST, CERTIFICATE, KEY = sys.argv[1:]
tickets = {}


async def start(port, versions, retry):
    configuration = QuicConfiguration(is_client=False, alpn_protocols=["h3", "hq-interop"], supported_versions=versions)
    configuration.load_cert_chain(CERTIFICATE, KEY)
    keep = {"session_ticket_handler": lambda ticket: tickets.update({ticket.ticket: ticket}),
            "session_ticket_fetcher": lambda label: tickets.get(label)}
    await serve(HOST, port, configuration=configuration, retry=retry, **keep)


async def main():
    both = [Version.VERSION_1, Version.VERSION_2]
    await start(443, both[::-1], False)
    await start(444, both, True)
    await start(445, both[1:], False)
    await asyncio.Event().wait()


asyncio.run(main())
