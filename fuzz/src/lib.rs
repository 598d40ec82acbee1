//! What the fuzz targets share: one parser fed with chunks that the input describes.

use std::sync::Arc;

use parsers::{Counters, Direction, FlowContext, Output, Protocol, Tap};
use tuple::{Schema, TupleWriter};
use wire::{Addr, Endpoint, IpProtocol, Timestamp};

/// Reads `input` as steps of a conversation and feeds them to a parser of `protocol`: a control byte says which
/// direction and whether it is bytes, a gap, a FIN or a datagram; two more say how long. The parser must not panic, and
/// must not write more tuples than it was given bytes.
pub fn converse(protocol: &Protocol, schema: Schema, mut input: &[u8]) {
    let schema = Arc::new(schema);
    let wanted: Vec<_> = schema.ids().collect();
    let mut taps = [Tap::new(0, TupleWriter::new(schema, &wanted))];
    let end = |n, port| Endpoint { addr: Addr::v4([10, 0, 0, n]), port };
    let mut flow = FlowContext {
        id: 1,
        client: end(1, 40000),
        server: end(2, 80),
        protocol: IpProtocol::TCP,
        client_guessed: false,
        midstream: input.first().is_some_and(|b| b & 0x80 != 0),
        sample_rate: 1.0,
        tunnel: wire::Tunnel::default(),
        vlan: None,
    };
    let (mut counters, mut parser) = (Counters::default(), (protocol.start)());
    let (mut now, mut tuples, total) = (0, 0, input.len());
    let context = parsers::ProbeContext {
        transport: IpProtocol::TCP,
        usual_port: true,
        midstream: flow.midstream,
        speaker: None,
    };
    while let [control, low, high, rest @ ..] = input {
        let len = usize::from(u16::from_le_bytes([*low, *high]));
        now += 1;
        let ts = Timestamp(now);
        let direction = if control & 1 == 0 { Direction::ClientToServer } else { Direction::ServerToClient };
        let bytes = &rest[..len.min(rest.len())];
        input = rest;
        if control >> 1 & 7 == 7 {
            flow.protocol = IpProtocol::UDP;
        }
        let mut out = Output::new(&flow, ts, &mut counters, &mut taps);
        match control >> 1 & 7 {
            0 => parser.on_gap(direction, len as u64 * u64::from(*control), ts, &mut out),
            1 if *control > 0xf0 => parser.on_end(direction, ts, &mut out),
            7 => {
                parser.on_datagram(direction, bytes, u32::from(*control) & 0x40, ts, &mut out);
                input = &rest[bytes.len()..];
            }
            _ => {
                let _ = (protocol.probe)(bytes, context);
                parser.on_bytes(direction, bytes, ts, &mut out);
                input = &rest[bytes.len()..];
            }
        }
        if taps[0].writer.is_full() {
            tuples += taps[0].writer.finish().rows();
        }
        if parser.is_done() {
            break;
        }
    }
    parser.on_close(&mut Output::new(&flow, Timestamp(now + 1), &mut counters, &mut taps));
    tuples += taps[0].writer.finish().rows();
    assert!(tuples <= total + 1, "{tuples} tuples of {total} bytes");
}
