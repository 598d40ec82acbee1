//! Shared by the fuzz targets: conversations described by the input, played to a parser through the flow table
//! ([`packets`]) or directly ([`direct`]); records of TLS ([`decryption`]); and dataflows for targets of partial results
//! ([`dataflows`]).

pub mod dataflows;
pub mod decryption;
mod direct;
mod packets;
mod path;
mod script;

use std::sync::Arc;

use parsers::{FlowContext, ParserCounters, ParserSubscription, ProtocolDefinition};
use tuple::{Schema, TupleWriter};
use wire::{Addr, Endpoint, IpProtocol};

use self::script::Script;

/// Reads `input` as a script ([`script`]) and plays it to a parser of `protocol`. The parser must not panic, and must not
/// write more than one tuple per `bytes_per_tuple` bytes of input (the size of the smallest message, or of the smallest
/// part with a tuple of its own).
pub fn converse(
    protocol: &'static ProtocolDefinition,
    schema: Schema,
    bytes_per_tuple: u64,
    input: &[u8],
) {
    let Some((script, steps)) = Script::of(input) else {
        return;
    };
    let heard = if script.packets {
        packets::converse(protocol, schema, script, steps)
    } else {
        direct::converse(protocol, schema, script, steps)
    };
    assert!(heard.tuples * bytes_per_tuple <= heard.bytes, "{heard:?}");
}

/// Input and output of a parser.
#[derive(Clone, Copy, Debug)]
struct Heard {
    bytes: u64,
    tuples: u64,
}

/// Receives the tuples of one parser.
struct Tuples {
    counters: ParserCounters,
    taps: [ParserSubscription; 1],
    written: u64,
}

impl Tuples {
    fn new(schema: Schema) -> Tuples {
        let schema = Arc::new(schema);
        let wanted: Vec<_> = schema.ids().collect();
        let taps = [ParserSubscription::new(
            0,
            TupleWriter::new(schema, &wanted),
        )];
        Tuples {
            counters: ParserCounters::default(),
            taps,
            written: 0,
        }
    }

    /// Flushes when a batch is full, or at the end.
    fn count(&mut self, at_end: bool) {
        let [tap] = &mut self.taps;
        if at_end || tap.writer.is_full() {
            self.written += tap.writer.finish().rows() as u64;
        }
    }
}

/// The endpoints of a conversation, the client first.
fn endpoints(script: Script) -> [Endpoint; 2] {
    let end = |n, port| Endpoint {
        addr: Addr::v4([10, 0, 0, n]),
        port,
    };
    [end(if script.swapped { 3 } else { 1 }, 40000), end(2, 80)]
}

fn context(script: Script, midstream: bool) -> FlowContext {
    let [client, server] = endpoints(script);
    FlowContext {
        id: 1,
        client,
        server,
        protocol: if script.udp {
            IpProtocol::UDP
        } else {
            IpProtocol::TCP
        },
        client_guessed: false,
        midstream,
        sample_rate: 1.0,
        tunnel: wire::Tunnel::default(),
        vlan: None,
        proxied: None,
        decrypted: None,
    }
}
