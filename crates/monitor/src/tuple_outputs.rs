//! The parsers of a plan, grouped by the events they read, with the writers of their tuples.

use flow::TrackingDetail;
use parsers::application::{self, Signature};
use parsers::flow_level::{flow_record, tcp_conn_time};
use parsers::interface_counters::{self, InterfaceCounts};
use parsers::packet_level::{HeaderBatch, HeaderColumns, PacketParser};
use parsers::probing::ProtocolCandidates;
use parsers::registry::{self, ParserInput};
use parsers::{FlowContext, ParserSubscription, ProtocolDefinition};
use plan::MonitorSpec;
use tuple::{AgentOrigin, Batch, FieldId, TupleWriter, common};
use wire::{Addr, Endpoint, IpProtocol, Packet, Timestamp};

/// Consumer of tuples, one batch at a time, so that no stage holds all of them.
pub trait TupleConsumer {
    /// Takes tuples of one input; `input` is the parser's position in the plan.
    fn take(&mut self, input: usize, tuples: Batch);
}

/// Batches, each with its input number.
pub type InputBatches = Vec<(usize, Batch)>;

impl TupleConsumer for InputBatches {
    fn take(&mut self, input: usize, tuples: Batch) {
        self.push((input, tuples));
    }
}

/// Application protocol of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowApplication {
    /// Not recognized.
    #[default]
    Unknown,
    /// A protocol with a parser: index into [`ProtocolCandidates::read`].
    Read(u8),
    /// A protocol without a parser: index into [`ProtocolCandidates::named`].
    Named(u8),
    /// A protocol with a parser, inside another one that names the flow: index of the outer one in
    /// [`ProtocolCandidates::named`].
    ReadInside(u8),
}

/// All writers of one monitor.
pub struct TupleOutputs {
    first_packets: Vec<PacketSubscription>,
    packets: Vec<PacketSubscription>,
    /// Whether any packet parser reads more than headers.
    beyond_headers: bool,
    connections: Vec<FlowSubscription>,
    flows: Vec<FlowSubscription>,
    interfaces: Vec<FlowSubscription>,
    protocols: Vec<&'static ProtocolDefinition>,
    /// Protocols without a parser that can be recognized.
    named: Vec<Signature>,
    /// For each of `protocols`: the index of its taps.
    taps_of: Vec<usize>,
    /// Taps, and the inputs they belong to.
    messages: Vec<(Vec<ParserSubscription>, Vec<usize>)>,
}

/// Fields that depend on the flow rather than the packet.
pub const FLOW_FIELDS: [FieldId; 9] = [
    common::ID,
    common::CLIENT_IP,
    common::CLIENT_PORT,
    common::SERVER_IP,
    common::SERVER_PORT,
    common::QUALITY,
    common::CLIENT_GUESSED,
    common::COMMUNITY_ID,
    common::SAMPLE_RATE,
];

/// Placeholder flow for outputs that use no flow column.
#[must_use]
pub fn nobody(protocol: IpProtocol) -> FlowContext {
    let nowhere = Endpoint {
        addr: Addr([0; 16]),
        port: 0,
    };
    FlowContext {
        id: 0,
        client: nowhere,
        server: nowhere,
        protocol,
        client_guessed: true,
        midstream: false,
        sample_rate: 1.0,
        tunnel: wire::Tunnel::default(),
        vlan: None,
        proxied: None,
        decrypted: None,
    }
}

struct PacketSubscription {
    input: usize,
    parse: PacketParser,
    /// Column-wise writer for taps that read header fields only.
    headers: Option<HeaderColumns>,
    writer: TupleWriter,
}

impl PacketSubscription {
    fn new(input: usize, parse: PacketParser, writer: TupleWriter) -> PacketSubscription {
        PacketSubscription {
            input,
            parse,
            headers: HeaderColumns::of(&writer),
            writer,
        }
    }
}

struct FlowSubscription {
    input: usize,
    writer: TupleWriter,
}

impl TupleOutputs {
    /// Creates the writers of a plan; tuples carry `origin`.
    ///
    /// # Panics
    /// When the plan names a parser that does not exist: the query is checked against the registry before.
    #[must_use]
    pub fn new(spec: &MonitorSpec, origin: &AgentOrigin) -> TupleOutputs {
        let mut outputs = TupleOutputs {
            first_packets: Vec::new(),
            packets: Vec::new(),
            beyond_headers: false,
            connections: Vec::new(),
            flows: Vec::new(),
            interfaces: Vec::new(),
            protocols: Vec::new(),
            named: Vec::new(),
            taps_of: Vec::new(),
            messages: Vec::new(),
        };
        for (input, parser) in spec.parsers.iter().enumerate() {
            let writer = TupleWriter::new(parser.schema.clone(), &parser.columns).of(origin);
            let Some(registration) = registry::find(&parser.schema.name) else {
                panic!(
                    "the plan names the parser {:?}, which does not exist",
                    parser.schema.name
                )
            };
            match registration.reads {
                ParserInput::FirstPackets(parse) => outputs
                    .first_packets
                    .push(PacketSubscription::new(input, parse, writer)),
                ParserInput::Packets(parse) => outputs
                    .packets
                    .push(PacketSubscription::new(input, parse, writer)),
                ParserInput::Connections => {
                    outputs.connections.push(FlowSubscription { input, writer })
                }
                ParserInput::Flows => outputs.flows.push(FlowSubscription { input, writer }),
                ParserInput::Interfaces => {
                    outputs.interfaces.push(FlowSubscription { input, writer })
                }
                ParserInput::Messages(protocol, variant) => {
                    outputs.add_tap(protocol, input, ParserSubscription::new(variant, writer));
                }
            }
        }
        if outputs.reads_payload() {
            outputs.named = application::signatures(&outputs.protocols);
        }
        outputs.beyond_headers = outputs.packets.iter().any(|tap| tap.headers.is_none());
        outputs
    }

    fn add_tap(
        &mut self,
        protocol: &'static ProtocolDefinition,
        input: usize,
        tap: ParserSubscription,
    ) {
        let known = self
            .protocols
            .iter()
            .position(|p| std::ptr::eq(*p, protocol));
        let at = match known {
            Some(known) => self.taps_of[known],
            None => {
                for protocol in registry::of_same_parsers(protocol) {
                    self.protocols.push(protocol);
                    self.taps_of.push(self.messages.len());
                }
                self.messages.push((Vec::new(), Vec::new()));
                self.messages.len() - 1
            }
        };
        self.messages[at].0.push(tap);
        self.messages[at].1.push(input);
    }

    /// Protocols with a parser.
    #[must_use]
    pub fn protocols(&self) -> &[&'static ProtocolDefinition] {
        &self.protocols
    }

    /// Protocols to recognize; `room` is the number of bytes that may be held beyond the usual limit.
    #[must_use]
    pub fn candidates(&self, room: usize) -> ProtocolCandidates<'_> {
        ProtocolCandidates {
            read: &self.protocols,
            named: &self.named,
            room,
        }
    }

    /// Name of the application protocol.
    #[must_use]
    pub fn name_of(&self, application: FlowApplication) -> Option<&'static str> {
        match application {
            FlowApplication::Unknown => None,
            FlowApplication::Read(place) => Some(self.protocols[usize::from(place)].name),
            FlowApplication::Named(place) | FlowApplication::ReadInside(place) => {
                Some(self.named[usize::from(place)].name)
            }
        }
    }

    /// Whether payload is needed: by a parser, or by flow records for the application, the PROXY
    /// protocol, or decryption.
    #[must_use]
    pub fn reads_payload(&self) -> bool {
        let of_payload = [
            &[flow_record::APPLICATION],
            common::PROXIED.as_slice(),
            &common::DECRYPTED,
        ]
        .concat();
        !self.protocols.is_empty() || self.records_want(&of_payload)
    }

    /// Level of detail that the flow table must provide.
    #[must_use]
    pub fn detail(&self) -> TrackingDetail {
        // Counting columns require duplicates to be removed.
        let counts = flow_record::COUNTS.iter().chain(&flow_record::SEGMENTS);
        let counts_segments =
            |tap: &FlowSubscription| counts.clone().any(|field| tap.writer.wants(*field));
        match () {
            () if self.reads_payload() => TrackingDetail::Payload,
            () if self.flows.iter().any(counts_segments) => TrackingDetail::Segments,
            () => TrackingDetail::Life,
        }
    }

    /// Whether any parser reads starts and ends of connections.
    #[must_use]
    pub fn reads_connections(&self) -> bool {
        !self.connections.is_empty()
    }

    /// Whether any parser reads flow records.
    #[must_use]
    pub fn reads_flows(&self) -> bool {
        !self.flows.is_empty()
    }

    /// Whether any parser reads counters of interfaces.
    #[must_use]
    pub fn reads_interfaces(&self) -> bool {
        !self.interfaces.is_empty()
    }

    /// Whether any parser reads every packet.
    #[must_use]
    pub fn reads_packets(&self) -> bool {
        !self.packets.is_empty()
    }

    /// Whether all outputs need only packet headers, not flows.
    #[must_use]
    pub fn reads_packets_only(&self) -> bool {
        let others = self.first_packets.len()
            + self.connections.len()
            + self.flows.len()
            + self.interfaces.len()
            + self.messages.len();
        others == 0 && !self.wants_any(&FLOW_FIELDS)
    }

    /// Whether packet or flow outputs contain any of these columns.
    #[must_use]
    pub fn wants_any(&self, fields: &[FieldId]) -> bool {
        let packets = self
            .first_packets
            .iter()
            .chain(&self.packets)
            .map(|tap| &tap.writer);
        let flows = self
            .connections
            .iter()
            .chain(&self.flows)
            .map(|tap| &tap.writer);
        packets
            .chain(flows)
            .any(|writer| fields.iter().any(|field| writer.wants(*field)))
    }

    /// Whether any output contains tunnel or VLAN columns.
    #[must_use]
    pub fn wants_path(&mut self) -> bool {
        const PATH: [FieldId; 5] = [
            common::TUNNEL,
            common::TUNNEL_ID,
            common::TUNNEL_SRC,
            common::TUNNEL_DST,
            common::VLAN_ID,
        ];
        let mut wanted = false;
        self.each_writer(|_, writer| wanted |= PATH.iter().any(|field| writer.wants(*field)));
        wanted
    }

    /// Whether any output contains PROXY protocol columns.
    #[must_use]
    pub fn wants_proxied(&mut self) -> bool {
        let mut wanted = false;
        self.each_writer(|_, writer| {
            wanted |= common::PROXIED.iter().any(|field| writer.wants(*field))
        });
        wanted
    }

    /// Whether any output contains columns of decrypted connections.
    #[must_use]
    pub fn wants_decrypted(&mut self) -> bool {
        let mut wanted = false;
        self.each_writer(|_, writer| {
            wanted |= common::DECRYPTED.iter().any(|field| writer.wants(*field))
        });
        wanted
    }

    /// Whether flow records contain any of these columns.
    #[must_use]
    pub fn records_want(&self, fields: &[FieldId]) -> bool {
        self.flows
            .iter()
            .any(|tap| fields.iter().any(|field| tap.writer.wants(*field)))
    }

    /// Taps of a protocol, by its index in [`TupleOutputs::protocols`].
    #[must_use]
    pub fn taps(&mut self, protocol: u8) -> &mut [ParserSubscription] {
        &mut self.messages[self.taps_of[usize::from(protocol)]].0
    }

    /// Handles the first packet of a TCP flow.
    pub fn on_first_packet(&mut self, packet: &Packet<'_>, flow: &FlowContext) {
        for tap in &mut self.first_packets {
            (tap.parse)(packet, flow, &mut tap.writer);
        }
    }

    /// Packet-only path: passes header fields to parsers that need no flows.
    pub fn on_headers(&mut self, packets: &HeaderBatch) {
        for tap in &mut self.packets {
            if let Some(headers) = &tap.headers {
                headers.on_packets(packets, &mut tap.writer);
            }
        }
    }

    /// Whether any packet parser reads more than headers.
    #[inline]
    #[must_use]
    pub fn reads_beyond_headers(&self) -> bool {
        self.beyond_headers
    }

    /// Packet-only path: passes a packet to parsers that read more than headers.
    #[inline(never)]
    pub fn on_bare_packet(&mut self, packet: &Packet<'_>) {
        for tap in self.packets.iter_mut().filter(|tap| tap.headers.is_none()) {
            (tap.parse)(packet, &nobody(packet.five_tuple.protocol), &mut tap.writer);
        }
    }

    /// Passes any packet to the packet parsers.
    pub fn on_packet(&mut self, packet: &Packet<'_>, flow: &FlowContext) {
        for tap in &mut self.packets {
            (tap.parse)(packet, flow, &mut tap.writer);
        }
    }

    /// Handles a SYN.
    pub fn on_start(&mut self, ts: Timestamp, flow: &FlowContext) {
        for tap in &mut self.connections {
            tcp_conn_time::on_start(ts, flow, &mut tap.writer);
        }
    }

    /// Handles the end of a connection.
    pub fn on_end(
        &mut self,
        end: &tcp_conn_time::ConnectionClose,
        now: Timestamp,
        flow: &FlowContext,
    ) {
        for tap in &mut self.connections {
            tcp_conn_time::on_end(end, now, flow, &mut tap.writer);
        }
    }

    /// Handles a flow record.
    pub fn on_record(&mut self, record: &flow_record::FlowRecord<'_>, flow: &FlowContext) {
        for tap in &mut self.flows {
            flow_record::on_record(record, flow, &mut tap.writer);
        }
    }

    /// Handles a packet that an exporter sampled; `write_sample` writes further columns, by the place of the writer in
    /// [`TupleOutputs::packet_writers`].
    pub fn on_sampled_packet(
        &mut self,
        packet: &Packet<'_>,
        flow: &FlowContext,
        write_sample: impl Fn(usize, &mut TupleWriter),
    ) {
        for (output, tap) in self.packets.iter_mut().enumerate() {
            write_sample(output, &mut tap.writer);
            (tap.parse)(packet, flow, &mut tap.writer);
        }
    }

    /// Writers of packets.
    pub fn packet_writers(&self) -> impl Iterator<Item = &TupleWriter> {
        self.packets.iter().map(|tap| &tap.writer)
    }

    /// Writers of flow records.
    pub fn flow_writers(&self) -> impl Iterator<Item = &TupleWriter> {
        self.flows.iter().map(|tap| &tap.writer)
    }

    /// The same writers, for rows of exporters.
    pub fn flow_writers_mut(&mut self) -> impl Iterator<Item = &mut TupleWriter> {
        self.flows.iter_mut().map(|tap| &mut tap.writer)
    }

    /// Handles the counts of an interface.
    pub fn on_interface(&mut self, counts: &InterfaceCounts) {
        for tap in &mut self.interfaces {
            interface_counters::write_counts(&mut tap.writer, counts);
        }
    }

    /// Whether any writer is full.
    #[must_use]
    pub fn any_full(&mut self) -> bool {
        let mut full = false;
        self.each_writer(|_, w| full |= w.is_full());
        full
    }

    /// Passes the tuples of all writers to `out`; returns their number.
    pub fn flush(&mut self, out: &mut dyn TupleConsumer) -> u64 {
        let mut tuples = 0;
        self.each_writer(|input, w| {
            if w.rows() > 0 {
                tuples += w.rows() as u64;
                out.take(input, w.finish());
            }
        });
        tuples
    }

    fn each_writer(&mut self, mut act: impl FnMut(usize, &mut TupleWriter)) {
        for tap in self.first_packets.iter_mut().chain(&mut self.packets) {
            act(tap.input, &mut tap.writer);
        }
        let records = self.connections.iter_mut().chain(&mut self.flows);
        for tap in records.chain(&mut self.interfaces) {
            act(tap.input, &mut tap.writer);
        }
        for (taps, inputs) in &mut self.messages {
            for (tap, input) in taps.iter_mut().zip(inputs) {
                act(*input, &mut tap.writer);
            }
        }
    }
}
