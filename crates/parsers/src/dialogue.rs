//! Test support for parsers: a conversation in simulated time with one parser, and the resulting tuples as
//! text. Each side numbers its bytes and acknowledges the bytes it has received.

use std::sync::Arc;

use arrow_array::Array;
use flow::StreamPlace;
use tuple::{Batch, DataType, Schema, TupleWriter};
use wire::{Addr, Endpoint, IpProtocol, TcpSeq, Timestamp};

use crate::shared_names::SharedNames;
use crate::{
    Direction, FlowContext, ParserCounters, ParserLimits, ParserOutput, ParserSubscription,
    ProtocolDefinition, StreamGap, StreamParser, StreamSegment,
};

/// One flow's parser with manual input. Times are in microseconds.
pub struct ParserDialogue {
    parser: Box<dyn StreamParser>,
    taps: Vec<ParserSubscription>,
    flow: FlowContext,
    /// Current time in microseconds.
    pub now_us: i64,
    /// Counters of the parser.
    pub counters: ParserCounters,
    /// Per direction: the sequence number of its next byte, and the bytes of the other side received.
    next: [TcpSeq; 2],
    heard: [TcpSeq; 2],
    /// Limits of the parser.
    pub limits: ParserLimits,
    names: SharedNames,
    fields: Vec<&'static str>,
}

/// Initial sequence numbers.
const STARTS: [TcpSeq; 2] = [TcpSeq(u32::MAX - 99), TcpSeq(1000)];

/// A TCP flow captured from its start.
pub fn flow() -> FlowContext {
    let end = |n, port| Endpoint {
        addr: Addr::v4([10, 0, 0, n]),
        port,
    };
    FlowContext {
        id: 1,
        client: end(1, 40000),
        server: end(2, 80),
        protocol: IpProtocol::TCP,
        client_guessed: false,
        midstream: false,
        sample_rate: 1.0,
        tunnel: wire::Tunnel::default(),
        vlan: None,
        proxied: None,
        decrypted: None,
    }
}

impl ParserDialogue {
    /// Creates a flow of `protocol`; `rows` shows `fields` of `schema`.
    pub fn new(
        protocol: &ProtocolDefinition,
        schema: Schema,
        variant: u8,
        fields: &[&'static str],
    ) -> ParserDialogue {
        let schema = Arc::new(schema);
        let wanted: Vec<_> = schema.ids().collect();
        ParserDialogue {
            parser: (protocol.start)(),
            taps: vec![ParserSubscription::new(
                variant,
                TupleWriter::new(schema, &wanted),
            )],
            flow: flow(),
            now_us: 0,
            counters: ParserCounters::default(),
            next: STARTS,
            heard: [STARTS[1], STARTS[0]],
            limits: ParserLimits::default(),
            names: SharedNames::default(),
            fields: fields.to_vec(),
        }
    }

    /// Marks the flow as joined midway.
    pub fn midstream(mut self) -> ParserDialogue {
        self.flow.midstream = true;
        self
    }

    /// Client bytes, one microsecond after the previous event.
    pub fn client(&mut self, bytes: impl AsRef<[u8]>) -> &mut ParserDialogue {
        self.bytes(Direction::ClientToServer, bytes.as_ref())
    }

    /// Server bytes, one microsecond after the previous event.
    pub fn server(&mut self, bytes: impl AsRef<[u8]>) -> &mut ParserDialogue {
        self.bytes(Direction::ServerToClient, bytes.as_ref())
    }

    /// Bytes of either direction, whose sender has received all previous bytes.
    pub fn bytes(&mut self, direction: Direction, bytes: &[u8]) -> &mut ParserDialogue {
        self.heard[direction as usize] = self.next[1 - direction as usize];
        self.bytes_unheard(direction, bytes)
    }

    /// Bytes whose sender has received nothing since its previous bytes.
    pub fn bytes_unheard(&mut self, direction: Direction, bytes: &[u8]) -> &mut ParserDialogue {
        let at = direction as usize;
        let place = StreamPlace {
            seq: self.next[at],
            ack: Some(self.heard[at]),
        };
        self.next[at] = self.next[at].plus(bytes.len() as u32);
        self.step(|p, ts, out| p.on_bytes(direction, StreamSegment { bytes, ts, place }, out))
    }

    /// Pipelined requests followed by their responses, in segments.
    pub fn pipeline(&mut self, requests: &[u8], responses: &[u8]) -> &mut ParserDialogue {
        for segment in requests.chunks(1448) {
            self.bytes_unheard(Direction::ClientToServer, segment);
        }
        for segment in responses.chunks(1448) {
            self.server(segment);
        }
        self
    }

    /// A datagram of either direction.
    pub fn datagram(&mut self, direction: Direction, bytes: &[u8]) -> &mut ParserDialogue {
        self.cut_datagram(direction, bytes, 0)
    }

    /// A datagram, of which `cut` further bytes were not captured.
    pub fn cut_datagram(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        cut: u32,
    ) -> &mut ParserDialogue {
        self.flow.protocol = IpProtocol::UDP;
        self.step(|p, ts, out| p.on_datagram(direction, bytes, cut, ts, out))
    }

    /// A gap of `len` bytes.
    pub fn gap(&mut self, direction: Direction, len: u64) -> &mut ParserDialogue {
        let seq = self.next[direction as usize];
        self.next[direction as usize] = seq.plus(len as u32);
        self.step(|p, ts, out| p.on_gap(direction, StreamGap { seq, len, ts }, out))
    }

    /// FIN of one direction.
    pub fn end(&mut self, direction: Direction) -> &mut ParserDialogue {
        self.step(|p, _, out| p.on_end(direction, crate::StreamEnd::Fin, out))
    }

    /// RST.
    pub fn reset(&mut self) -> &mut ParserDialogue {
        self.step(|p, _, out| {
            p.on_end(Direction::ClientToServer, crate::StreamEnd::Reset, out);
            p.on_end(Direction::ServerToClient, crate::StreamEnd::Reset, out);
        })
    }

    /// Whether the parser has finished.
    pub fn is_done(&self) -> bool {
        self.parser.is_done()
    }

    /// Whether the parser hands the connection to another protocol.
    pub fn hands_over(&self) -> bool {
        self.parser.hands_over().is_some()
    }

    /// Advances the time.
    pub fn wait_us(&mut self, us: i64) -> &mut ParserDialogue {
        self.now_us += us;
        self
    }

    /// Closes the flow; returns all tuples as lines of fields separated by blanks, `-` for null.
    pub fn rows(&mut self) -> Vec<String> {
        self.step(|p, _, out| p.on_close(out));
        let batch = self.taps[0].writer.finish();
        (0..batch.rows())
            .map(|row| {
                self.fields
                    .iter()
                    .map(|f| show(&batch, f, row))
                    .collect::<Vec<_>>()
                    .join(" ")
            })
            .collect()
    }

    fn step(
        &mut self,
        act: impl FnOnce(&mut dyn StreamParser, Timestamp, &mut ParserOutput<'_>),
    ) -> &mut ParserDialogue {
        self.now_us += 1;
        let now = Timestamp(self.now_us * 1000);
        let out = ParserOutput::new(&self.flow, now, &mut self.counters, &mut self.taps);
        let mut out = out.with_limits(self.limits).with_names(&self.names);
        act(self.parser.as_mut(), now, &mut out);
        self
    }
}

fn show(batch: &Batch, field: &str, row: usize) -> String {
    let id = batch
        .schema()
        .find(field)
        .unwrap_or_else(|| panic!("no field {field}"));
    if batch.column(id).is_none_or(|c| c.is_null(row)) {
        return "-".to_owned();
    }
    match batch.schema().field(id).data_type {
        DataType::Bool => batch.bool(id).value(row).to_string(),
        DataType::U64 => batch.u64(id).value(row).to_string(),
        DataType::I64 => batch.i64(id).value(row).to_string(),
        DataType::F64 => batch.f64(id).value(row).to_string(),
        DataType::Text | DataType::Json => batch.text(id).value(row).to_owned(),
        DataType::Hashes => tuple::hashes::to_text(batch.hashes(id).value(row)),
        DataType::Ip => format!("{:?}", batch.ip(id).value(row)),
    }
}
