//! Output of parsers: tuples of one flow with the common fields filled in. Wanted columns are a bit set, and
//! the fields of a flow are computed only for tuples that contain them.

use tuple::{FieldId, TapColumns, TupleWriter, common};
use wire::{IpProtocol, TcpSeq, Timestamp, Tunnel};

use crate::community_id::community_id_text;
use crate::flow_context::{FlowContext, FlowFacts, FlowRef, TlsNames};
use crate::pairing::{OutstandingBudget, TRANSACTIONS_MAX};
use crate::proxy_header::ProxiedEndpoints;
use crate::result_cache::TextResultCache;
use crate::shared_names::SharedNames;

/// Direction of a byte stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Requests.
    ClientToServer,
    /// Responses.
    ServerToClient,
}

impl Direction {
    /// The opposite direction.
    #[must_use]
    pub fn other(self) -> Direction {
        match self {
            Self::ClientToServer => Self::ServerToClient,
            Self::ServerToClient => Self::ClientToServer,
        }
    }
}

/// Quality of a tuple, as in the column `quality`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TupleQuality {
    /// All relevant bytes were captured.
    Exact,
    /// Body bytes are missing; times and sizes are exact.
    GapBody,
    /// Packet timestamps contradict the message order, or a response began before its request was complete:
    /// impossible times are null.
    Untimed,
    /// The first transaction after a resynchronization.
    Resync,
    /// The connection was joined midway.
    Midstream,
    /// The request or the response was not captured.
    Half,
}

impl TupleQuality {
    /// Value of the `quality` column.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::GapBody => "gap_body",
            Self::Untimed => "untimed",
            Self::Resync => "resync",
            Self::Midstream => "midstream",
            Self::Half => "half",
        }
    }
}

/// A set of columns of one schema; columns beyond the 128th share one bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ColumnSet(u128);

impl ColumnSet {
    /// The set of these columns.
    #[must_use]
    pub const fn of(ids: &[FieldId]) -> ColumnSet {
        let mut bits = 0;
        let mut i = 0;
        while i < ids.len() {
            bits |= Self::bit(ids[i]);
            i += 1;
        }
        ColumnSet(bits)
    }

    /// Whether the set contains the column.
    #[inline]
    #[must_use]
    pub const fn has(self, id: FieldId) -> bool {
        self.0 & Self::bit(id) != 0
    }

    /// Whether the sets intersect.
    #[inline]
    #[must_use]
    pub const fn has_any(self, of: ColumnSet) -> bool {
        self.0 & of.0 != 0
    }

    const fn bit(id: FieldId) -> u128 {
        1 << if id.0 < 127 { id.0 } else { 127 }
    }

    fn wanted_by(writer: &TupleWriter) -> ColumnSet {
        let ids = writer.schema().ids().filter(|id| writer.wants(*id));
        ColumnSet(ids.fold(0, |bits, id| bits | Self::bit(id)))
    }
}

/// One query's use of one parser: its variant and the writer of its tuples.
pub struct ParserSubscription {
    /// Number of the parser within its protocol: `http` keeps every transaction, `http_get` only some.
    pub variant: u8,
    /// Destination of the rows.
    pub writer: TupleWriter,
    columns: ColumnSet,
    /// Whether its schema has columns of families.
    has_members: bool,
    /// Columns that identify a request across taps, if wanted.
    request: Option<TapColumns>,
    memo: TextResultCache,
    /// Cache of Community IDs.
    ids: TextResultCache,
}

impl ParserSubscription {
    /// Creates a tap that writes to `writer`.
    #[must_use]
    pub fn new(variant: u8, writer: TupleWriter) -> ParserSubscription {
        let columns = ColumnSet::wanted_by(&writer);
        let has_members = writer.schema().members().next().is_some();
        let request = TapColumns::of(writer.schema()).filter(|taps| writer.wants(taps.request));
        ParserSubscription {
            variant,
            writer,
            columns,
            has_members,
            request,
            memo: TextResultCache::default(),
            ids: TextResultCache::default(),
        }
    }
}

/// Counters of unusable input; part of the summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParserCounters {
    /// Messages that violate the protocol.
    pub malformed_messages: u64,
    /// Bytes skipped during resynchronization.
    pub skipped_bytes: u64,
    /// Resynchronizations: searches for the next message head.
    pub resyncs: u64,
    /// Message heads above the size limit, which were truncated.
    pub oversized_heads: u64,
    /// Requests evicted or not stored because too many were pending; also replies of ONC-RPC.
    pub evicted_requests: u64,
    /// Connections that cannot be parsed because they are encrypted.
    pub encrypted_flows: u64,
    /// Connections that cannot be parsed because they are compressed.
    pub compressed_flows: u64,
    /// Messages whose body is wrapped or encrypted (RPCSEC_GSS; QUIC Initial packets of connections whose start was not
    /// captured): only their headers are parsed.
    pub protected_messages: u64,
    /// Retransmitted calls.
    pub retransmitted_calls: u64,
    /// Replies to calls that already had a reply.
    pub repeated_replies: u64,
    /// Requests or replies without a row: their other half was written alone because of a limit or a timeout.
    pub separated_halves: u64,
    /// File handle names evicted because of the limit.
    pub evicted_names: u64,
    /// Prepared statements evicted because of the limit per connection.
    pub evicted_statements: u64,
    /// Blocks of file data without a checksum because of the limit per message.
    pub unchecked_blocks: u64,
    /// Bytes before a protocol's first message that were not parsed because too many bytes were held for
    /// recognition.
    pub unrecognized_bytes: u64,
    /// Bytes read by parsers that count copies: `nfs` and `rpc`.
    pub parsed_bytes: u64,
    /// Bytes copied; included in `parsed_bytes`.
    pub copied_bytes: u64,
}

impl ParserCounters {
    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &ParserCounters) {
        self.malformed_messages += other.malformed_messages;
        self.skipped_bytes += other.skipped_bytes;
        self.resyncs += other.resyncs;
        self.oversized_heads += other.oversized_heads;
        self.evicted_requests += other.evicted_requests;
        self.encrypted_flows += other.encrypted_flows;
        self.compressed_flows += other.compressed_flows;
        self.protected_messages += other.protected_messages;
        self.retransmitted_calls += other.retransmitted_calls;
        self.repeated_replies += other.repeated_replies;
        self.separated_halves += other.separated_halves;
        self.evicted_names += other.evicted_names;
        self.evicted_statements += other.evicted_statements;
        self.unchecked_blocks += other.unchecked_blocks;
        self.unrecognized_bytes += other.unrecognized_bytes;
        self.parsed_bytes += other.parsed_bytes;
        self.copied_bytes += other.copied_bytes;
    }
}

/// Configurable memory limits of parsers, per flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParserLimits {
    /// Bytes of pending ONC-RPC calls; a quarter of it for replies that wait for their calls.
    pub rpc_bytes_max: usize,
    /// Bytes of prepared statements of a MySQL connection.
    pub statement_bytes_max: usize,
    /// Pending requests of a TCP connection, at least [`crate::pairing::OUTSTANDING_MIN`].
    pub outstanding_max: usize,
}

impl Default for ParserLimits {
    fn default() -> Self {
        ParserLimits {
            rpc_bytes_max: 4 << 20,
            statement_bytes_max: 8 << 20,
            outstanding_max: TRANSACTIONS_MAX,
        }
    }
}

/// Sink for one flow's tuples during one call.
pub struct ParserOutput<'a> {
    /// The flow.
    pub flow: FlowRef<'a>,
    /// Current time by the packets' clock; also the default end time of a tuple.
    pub now: Timestamp,
    /// Counters of unusable input.
    pub counters: &'a mut ParserCounters,
    /// Memory limits.
    pub limits: ParserLimits,
    /// Memory for requests beyond [`crate::pairing::OUTSTANDING_MIN`] of a connection; `None`: unlimited.
    pub room: Option<&'a OutstandingBudget>,
    /// Names and texts learned on all connections of the worker; `None`: none are learned.
    pub names: Option<&'a SharedNames>,
    /// Sequence number of the request for the next tuple; TCP only.
    pub request: Option<TcpSeq>,
    /// Set by a parser to be called ([`StreamParser::on_silence`](crate::StreamParser::on_silence)) when
    /// [`SILENCE_NS`](crate::SILENCE_NS) have passed since this time.
    pub wake: Option<Timestamp>,
    taps: &'a mut [ParserSubscription],
}

impl<'a> ParserOutput<'a> {
    /// Creates an output to `taps`.
    #[inline]
    #[must_use]
    pub fn new(
        flow: impl Into<FlowRef<'a>>,
        now: Timestamp,
        counters: &'a mut ParserCounters,
        taps: &'a mut [ParserSubscription],
    ) -> Self {
        let limits = ParserLimits::default();
        ParserOutput {
            flow: flow.into(),
            now,
            counters,
            limits,
            room: None,
            names: None,
            request: None,
            wake: None,
            taps,
        }
    }

    /// Sets the limits.
    #[inline]
    #[must_use]
    pub fn with_limits(self, limits: ParserLimits) -> Self {
        ParserOutput { limits, ..self }
    }

    /// Sets the budget for pending requests.
    #[inline]
    #[must_use]
    pub fn with_room(self, room: &'a OutstandingBudget) -> Self {
        ParserOutput {
            room: Some(room),
            ..self
        }
    }

    /// Whether any tap has this variant of the parser.
    #[must_use]
    pub fn has_variant(&self, variant: u8) -> bool {
        self.taps.iter().any(|tap| tap.variant == variant)
    }

    /// Sets the names and texts that connections share.
    #[inline]
    #[must_use]
    pub fn with_names(self, names: &'a SharedNames) -> Self {
        ParserOutput {
            names: Some(names),
            ..self
        }
    }

    /// Whether any tap wants this column; allows to skip work for it.
    #[inline]
    #[must_use]
    pub fn wants(&self, id: FieldId) -> bool {
        self.columns().has(id)
    }

    /// Union of the columns of all taps; to be called once per flow.
    #[inline]
    #[must_use]
    pub fn columns(&self) -> ColumnSet {
        ColumnSet(self.taps.iter().fold(0, |bits, tap| bits | tap.columns.0))
    }

    /// Union of the columns of the taps with these variants.
    #[must_use]
    pub fn columns_of(&self, variants: [u8; 2]) -> ColumnSet {
        let taps = self
            .taps
            .iter()
            .filter(|tap| variants.contains(&tap.variant));
        ColumnSet(taps.fold(0, |bits, tap| bits | tap.columns.0))
    }

    /// Columns of families, as [`tuple::Schema::members`], of the taps with these variants, for all of which they are equal.
    pub fn members(&self, variants: [u8; 2]) -> impl Iterator<Item = (FieldId, &str, &str)> {
        let mut taps = self.taps.iter();
        let first = taps.find(|tap| variants.contains(&tap.variant));
        first
            .filter(|tap| tap.has_members)
            .into_iter()
            .flat_map(|tap| tap.writer.schema().members())
    }

    /// The protocol's cache of conversion results over all flows, for one conversion only. `None`: no tap.
    pub(crate) fn memo(&mut self) -> Option<&mut TextResultCache> {
        Some(&mut self.taps.first_mut()?.memo)
    }

    /// Writes one tuple to every tap whose variant satisfies `keep`: the common fields, then those set by
    /// `fill`. `ts` is the start, `end` the time of the last byte, or `None` for the current time.
    #[inline]
    pub fn emit(
        &mut self,
        (ts, end): (Timestamp, Option<Timestamp>),
        quality: TupleQuality,
        keep: impl Fn(u8) -> bool,
        mut fill: impl FnMut(&mut TupleWriter),
    ) {
        for tap in self.taps.iter_mut().filter(|t| keep(t.variant)) {
            if tap.columns.has_any(OF_A_FLOW) {
                let flow = self.flow.facts.context();
                write_flow(&mut tap.writer, &flow);
                if tap.columns.has(common::COMMUNITY_ID) {
                    write_community_id(&mut tap.writer, &flow, &mut tap.ids);
                }
                write_path(&mut tap.writer, &flow.tunnel, flow.vlan);
                write_proxied(&mut tap.writer, flow.proxied);
                write_decrypted(&mut tap.writer, flow.decrypted.as_deref());
            }
            write_times(&mut tap.writer, ts, end.unwrap_or(self.now), quality);
            if let Some(taps) = tap.request {
                write_request(&mut tap.writer, taps, self.request, self.flow.facts);
            }
            fill(&mut tap.writer);
            tap.writer.end_row();
        }
    }
}

/// Writes the position of the request and the tap's end of the flow. Datagrams have no position.
#[cold]
fn write_request(
    w: &mut TupleWriter,
    taps: TapColumns,
    request: Option<TcpSeq>,
    facts: &dyn FlowFacts,
) {
    if let Some(seq) = request.filter(|_| facts.context().protocol == IpProtocol::TCP) {
        w.u64(taps.request, seq.0.into());
    }
    if let Some(end) = facts.tap_end() {
        w.text(taps.seen, end.word().as_bytes());
    }
}

/// Common fields that depend on the flow.
const OF_A_FLOW: ColumnSet = ColumnSet::of(&[
    common::ID,
    common::CLIENT_IP,
    common::CLIENT_PORT,
    common::SERVER_IP,
    common::SERVER_PORT,
    common::TRANSPORT,
    common::CLIENT_GUESSED,
    common::COMMUNITY_ID,
    common::SAMPLE_RATE,
    common::TUNNEL,
    common::TUNNEL_ID,
    common::TUNNEL_SRC,
    common::TUNNEL_DST,
    common::VLAN_ID,
    common::PROXIED_CLIENT_IP,
    common::PROXIED_CLIENT_PORT,
    common::PROXIED_SERVER_IP,
    common::PROXIED_SERVER_PORT,
    common::ENCRYPTED,
    common::TLS_SNI,
    common::TLS_ALPN,
]);

/// Writes the common fields except those of [`write_path`]. `ts` and `end` are the start and end times of the
/// subject.
pub fn write_common(
    w: &mut TupleWriter,
    flow: &FlowContext,
    ts: Timestamp,
    end: Timestamp,
    quality: TupleQuality,
) {
    write_flow(w, flow);
    if w.wants(common::COMMUNITY_ID) {
        w.text(
            common::COMMUNITY_ID,
            &community_id_text(flow.protocol, [flow.client, flow.server]),
        );
    }
    write_times(w, ts, end, quality);
}

/// Writes the tunnel and VLAN fields.
#[inline]
pub fn write_path(w: &mut TupleWriter, tunnel: &Tunnel, vlan: Option<u16>) {
    if let Some(vlan) = vlan {
        w.u64(common::VLAN_ID, vlan.into());
    }
    if !tunnel.is_none() {
        write_tunnel(w, tunnel);
    }
}

/// Writes the PROXY protocol fields.
#[inline]
pub fn write_proxied(w: &mut TupleWriter, proxied: Option<ProxiedEndpoints>) {
    if let Some(ProxiedEndpoints { client, server }) = proxied {
        w.ip(common::PROXIED_CLIENT_IP, &client.addr.0);
        w.u64(common::PROXIED_CLIENT_PORT, client.port.into());
        w.ip(common::PROXIED_SERVER_IP, &server.addr.0);
        w.u64(common::PROXIED_SERVER_PORT, server.port.into());
    }
}

/// Writes the fields of a decrypted connection.
#[inline]
pub fn write_decrypted(w: &mut TupleWriter, names: Option<&TlsNames>) {
    if let Some(TlsNames { sni, alpn }) = names {
        w.bool(common::ENCRYPTED, true);
        for (field, name) in [(common::TLS_SNI, sni), (common::TLS_ALPN, alpn)] {
            if let Some(name) = name {
                w.text(field, name);
            }
        }
    }
}

#[cold]
fn write_tunnel(w: &mut TupleWriter, tunnel: &Tunnel) {
    if w.wants(common::TUNNEL) {
        w.text(common::TUNNEL, tunnel.to_string().as_bytes());
    }
    if let Some(id) = tunnel.id {
        w.u64(common::TUNNEL_ID, id.into());
    }
    if let Some((src, dst)) = tunnel.ends {
        w.ip(common::TUNNEL_SRC, &src.0);
        w.ip(common::TUNNEL_DST, &dst.0);
    }
}

#[inline]
fn write_times(w: &mut TupleWriter, ts: Timestamp, end: Timestamp, quality: TupleQuality) {
    w.i64(common::TS, ts.0);
    w.text(common::QUALITY, quality.name().as_bytes());
    w.i64(common::TS_END, end.0);
}

/// Writes the Community ID, cached for recent flows.
fn write_community_id(w: &mut TupleWriter, flow: &FlowContext, ids: &mut TextResultCache) {
    let mut key = [flow.protocol.0; 37];
    let mut text = Vec::new();
    for (part, end) in key
        .as_chunks_mut::<18>()
        .0
        .iter_mut()
        .zip([flow.client, flow.server])
    {
        part[..16].copy_from_slice(&end.addr.0);
        part[16..].copy_from_slice(&end.port.to_be_bytes());
    }
    ids.append(&key, &mut text, |_, text| {
        text.extend_from_slice(&community_id_text(
            flow.protocol,
            [flow.client, flow.server],
        ))
    });
    w.text(common::COMMUNITY_ID, &text);
}

fn write_flow(w: &mut TupleWriter, flow: &FlowContext) {
    w.u64(common::ID, flow.id);
    w.ip(common::CLIENT_IP, &flow.client.addr.0);
    w.u64(common::CLIENT_PORT, u64::from(flow.client.port));
    w.ip(common::SERVER_IP, &flow.server.addr.0);
    w.u64(common::SERVER_PORT, u64::from(flow.server.port));
    write_transport(w, flow.protocol);
    w.bool(common::CLIENT_GUESSED, flow.client_guessed);
    w.f64(common::SAMPLE_RATE, flow.sample_rate);
}

/// Writes the transport protocol.
pub fn write_transport(w: &mut TupleWriter, protocol: IpProtocol) {
    if w.wants(common::TRANSPORT) {
        match protocol {
            IpProtocol::TCP => w.text(common::TRANSPORT, b"tcp"),
            IpProtocol::UDP => w.text(common::TRANSPORT, b"udp"),
            IpProtocol::ICMP => w.text(common::TRANSPORT, b"icmp"),
            IpProtocol::ICMPV6 => w.text(common::TRANSPORT, b"icmp6"),
            other => w.text(common::TRANSPORT, other.0.to_string().as_bytes()),
        }
    }
}
