//! Dialogues of two endpoints: their packets, the damage, and the tuples of a parser from the remaining packets.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::Array;
use flow::StreamPlace;
use parsers::{
    Direction, FlowContext, ParserCounters, ParserOutput, ParserSubscription, ProtocolDefinition,
    StreamGap, StreamParser,
};
use testkit::SeededRng;
use tuple::{Batch, DataType, FieldId, Schema, TupleWriter, common};
use wire::{Addr, Endpoint, IpProtocol, TcpSeq, Timestamp, Tunnel};

use Direction::{ClientToServer, ServerToClient};

/// A dialogue.
pub struct Script {
    pub protocol: &'static ProtocolDefinition,
    pub schema: Schema,
    /// Messages in order, with the number of their transaction.
    pub says: Vec<Say>,
    /// Fields that depend on more than their own transaction.
    pub unchecked: &'static [&'static str],
    /// Every tuple must begin with a request or a response.
    pub begins_known: bool,
}

/// A message of one endpoint.
pub struct Say {
    pub direction: Direction,
    pub transaction: Option<usize>,
    pub bytes: Vec<u8>,
}

impl Script {
    /// Consecutive requests, each with its response.
    pub fn in_turns(
        protocol: &'static ProtocolDefinition,
        schema: Schema,
        greeting: Option<Vec<u8>>,
        turns: Vec<(Vec<u8>, Vec<u8>)>,
    ) -> Script {
        let mut says = Vec::new();
        says.extend(greeting.map(|bytes| Say {
            direction: ServerToClient,
            transaction: None,
            bytes,
        }));
        for (i, (request, response)) in turns.into_iter().enumerate() {
            for (direction, bytes) in [(ClientToServer, request), (ServerToClient, response)] {
                if !bytes.is_empty() {
                    says.push(Say {
                        direction,
                        transaction: Some(i),
                        bytes,
                    });
                }
            }
        }
        Script {
            protocol,
            schema,
            says,
            unchecked: &[],
            begins_known: false,
        }
    }
}

/// Damage to the packets.
#[derive(Clone, Copy, Debug)]
pub enum Damage {
    /// A share of them is lost.
    Lost { share: f64, side: Side },
    /// Each is truncated to this number of bytes.
    Cut(usize),
}

/// The side of the damaged packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Both,
    Client,
    Server,
}

/// A packet: a part of a message.
struct Segment<'a> {
    direction: Direction,
    transaction: Option<usize>,
    first: bool,
    bytes: &'a [u8],
    place: StreamPlace,
    ts: Timestamp,
    seen: usize,
}

/// A tuple as text.
struct Row {
    ts: i64,
    quality: String,
    values: Vec<(String, Option<String>)>,
}

/// Plays `script` complete and damaged, and compares the tuples.
pub fn check(script: &Script, damage: Damage, rng: &mut SeededRng) -> Result<(), String> {
    let mut segments = segments(script, rng);
    let whole = play(script, &segments);
    if let Some(row) = whole.iter().find(|row| row.quality != "exact") {
        return Err(format!("the whole one is not exact: {row:?}"));
    }
    for segment in &mut segments {
        segment.seen = match damage {
            Damage::Lost { share, side } if side.has(segment.direction) && rng.chance(share) => 0,
            Damage::Lost { .. } => segment.bytes.len(),
            Damage::Cut(len) => segment.bytes.len().min(len),
        };
    }
    let begun = transactions_begun(&segments);
    let mut truth: HashMap<usize, Vec<&Row>> = HashMap::new();
    for row in &whole {
        let transaction = begun
            .get(&row.ts)
            .ok_or_else(|| format!("nothing began then: {row:?}"))?;
        truth.entry(*transaction).or_default().push(row);
    }
    for row in play(script, &segments) {
        // The rest of a message without its beginning belongs to no transaction.
        let Some(transaction) = begun.get(&row.ts) else {
            if script.begins_known {
                return Err(format!("nothing began then: {row:?}"));
            }
            continue;
        };
        let rows = truth.get(transaction).map_or(&[][..], |rows| rows);
        if !rows.iter().any(|truth| row.agrees(truth, script.unchecked)) {
            return Err(format!(
                "{row:?}\n is none of {rows:#?}\n{}",
                tell(&segments, *transaction)
            ));
        }
        let holed = segments
            .iter()
            .any(|s| s.transaction == Some(*transaction) && s.seen < s.bytes.len());
        if row.quality == "exact" && holed {
            return Err(format!(
                "bytes are missing: {row:?}\n{}",
                tell(&segments, *transaction)
            ));
        }
    }
    Ok(())
}

/// Plays `script` with one side's clock shifted by `ns`, so that its packets are too early or too late in the file: all
/// values except times between the sides must be unchanged.
pub fn check_skewed(
    script: &Script,
    side: Direction,
    ns: i64,
    rng: &mut SeededRng,
) -> Result<(), String> {
    let mut segments = segments(script, rng);
    let whole = play(script, &segments);
    segments
        .iter_mut()
        .filter(|s| s.direction == side)
        .for_each(|s| s.ts = s.ts.plus(ns));
    segments.sort_by_key(|s| s.ts);
    let skewed = play(script, &segments);
    let shift = if side == ClientToServer { ns } else { 0 };
    for truth in &whole {
        let is_it =
            |row: &&Row| row.ts == truth.ts + shift && matches!(&*row.quality, "exact" | "untimed");
        let unchecked = [script.unchecked, &["response_time_ns", "total_time_ns"]].concat();
        if !skewed
            .iter()
            .any(|row| is_it(&row) && row.agrees(truth, &unchecked))
        {
            return Err(format!("{truth:?}\n is not in {skewed:#?}"));
        }
    }
    Ok(())
}

impl Side {
    fn has(self, direction: Direction) -> bool {
        match self {
            Side::Both => true,
            Side::Client => direction == ClientToServer,
            Side::Server => direction == ServerToClient,
        }
    }
}

impl std::fmt::Debug for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.ts, self.quality)?;
        let known = self
            .values
            .iter()
            .filter_map(|(name, value)| Some((name, value.as_ref()?)));
        { known }.try_for_each(|(name, value)| write!(f, " {name}={value:.60}"))
    }
}

impl Row {
    fn agrees(&self, truth: &Row, unchecked: &[&str]) -> bool {
        self.values
            .iter()
            .zip(&truth.values)
            .all(|((name, is), (_, was))| {
                is.is_none() || unchecked.contains(&name.as_str()) || agree(is, was)
            })
    }
}

/// Whether values agree; in a list of block checksums, missing ones may be `-`.
fn agree(is: &Option<String>, was: &Option<String>) -> bool {
    let words = |text: &Option<String>| {
        text.iter()
            .flat_map(|t| t.split(' '))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let is = words(is);
    let was = words(was);
    is.len() == was.len() && is.iter().zip(&was).all(|(is, was)| is == was || is == "-")
}

/// The transaction with a request or response that began at each time.
fn transactions_begun(segments: &[Segment<'_>]) -> HashMap<i64, usize> {
    segments
        .iter()
        .filter(|s| s.first)
        .filter_map(|s| Some((s.ts.0, s.transaction?)))
        .collect()
}

/// For failure messages: the packets near a transaction.
fn tell(segments: &[Segment<'_>], transaction: usize) -> String {
    let near = |s: &&Segment<'_>| s.transaction.is_none_or(|t| t.abs_diff(transaction) <= 1);
    let tell = |s: &Segment<'_>| {
        let head = String::from_utf8_lossy(&s.bytes[..s.bytes.len().min(60)]).into_owned();
        format!(
            "{} {:?} {:?}: {} of {} {head:?}",
            s.ts.0,
            s.transaction,
            s.direction,
            s.seen,
            s.bytes.len()
        )
    };
    segments
        .iter()
        .filter(near)
        .map(tell)
        .collect::<Vec<_>>()
        .join("\n")
}

fn segments<'a>(script: &'a Script, rng: &mut SeededRng) -> Vec<Segment<'a>> {
    let mut said = [rng.next_u64() as u32, u32::MAX - 3000].map(TcpSeq);
    let mut ts = 1_000_000_000;
    let mut segments = Vec::new();
    for say in &script.says {
        let longest = 1 + rng.below(700) as usize;
        for (i, bytes) in say.bytes.chunks(longest).enumerate() {
            ts += 1000 * (1 + rng.below(400) as i64);
            let [mine, other] = match say.direction {
                ClientToServer => [0, 1],
                ServerToClient => [1, 0],
            };
            let place = StreamPlace {
                seq: said[mine],
                ack: Some(said[other]),
            };
            said[mine] = said[mine].plus(bytes.len() as u32);
            segments.push(Segment {
                direction: say.direction,
                transaction: say.transaction,
                first: i == 0,
                bytes,
                place,
                ts: Timestamp(ts),
                seen: bytes.len(),
            });
        }
    }
    segments
}

/// A running parser.
struct Player {
    parser: Box<dyn StreamParser>,
    taps: Vec<ParserSubscription>,
    counters: ParserCounters,
    flow: FlowContext,
    /// Start and length of each direction's gap.
    missing: [Option<(TcpSeq, u64)>; 2],
}

fn play(script: &Script, segments: &[Segment<'_>]) -> Vec<Row> {
    let schema = Arc::new(script.schema.clone());
    let wanted: Vec<_> = schema.ids().collect();
    let end = |n, port| Endpoint {
        addr: Addr::v4([10, 0, 0, n]),
        port,
    };
    let mut player = Player {
        parser: (script.protocol.start)(),
        taps: vec![ParserSubscription::new(
            0,
            TupleWriter::new(schema, &wanted),
        )],
        counters: ParserCounters::default(),
        flow: FlowContext {
            id: 1,
            client: end(1, 40000),
            server: end(2, 80),
            protocol: IpProtocol::TCP,
            client_guessed: false,
            midstream: false,
            sample_rate: 1.0,
            tunnel: Tunnel::default(),
            vlan: None,
            proxied: None,
            decrypted: None,
        },
        missing: [None, None],
    };
    segments.iter().for_each(|segment| player.segment(segment));
    let last = segments.last().map_or(Timestamp(0), |s| s.ts);
    for direction in [ClientToServer, ServerToClient] {
        player.show_gap(direction, last.plus(1000));
    }
    player.act(last, |parser, out| parser.on_close(out));
    let batch = player.taps[0].writer.finish();
    (0..batch.rows()).map(|row| Row::of(&batch, row)).collect()
}

impl Player {
    /// Passes a packet to the parser, after the gap that it reveals.
    fn segment(&mut self, s: &Segment<'_>) {
        let (mine, other) = match s.direction {
            ClientToServer => (0, ServerToClient),
            ServerToClient => (1, ClientToServer),
        };
        if s.seen == 0 {
            let missing = self.missing[mine].get_or_insert((s.place.seq, 0));
            missing.1 += s.bytes.len() as u64;
            return;
        }
        self.show_gap(s.direction, s.ts);
        if self.missing[1 - mine]
            .is_some_and(|(begin, _)| s.place.ack.is_some_and(|ack| ack.distance(begin) > 0))
        {
            self.show_gap(other, s.ts);
        }
        let (bytes, cut) = s.bytes.split_at(s.seen);
        let piece = parsers::StreamSegment {
            bytes,
            ts: s.ts,
            place: s.place,
        };
        self.act(s.ts, |parser, out| parser.on_bytes(s.direction, piece, out));
        if !cut.is_empty() {
            let gap = StreamGap {
                seq: piece.end(),
                len: cut.len() as u64,
                ts: s.ts,
            };
            self.act(s.ts, |parser, out| parser.on_gap(s.direction, gap, out));
        }
    }

    fn show_gap(&mut self, direction: Direction, ts: Timestamp) {
        let missing = &mut self.missing[usize::from(direction == ServerToClient)];
        if let Some((seq, len)) = missing.take() {
            self.act(ts, |parser, out| {
                parser.on_gap(direction, StreamGap { seq, len, ts }, out)
            });
        }
    }

    fn act(
        &mut self,
        now: Timestamp,
        act: impl FnOnce(&mut dyn StreamParser, &mut ParserOutput<'_>),
    ) {
        let mut out = ParserOutput::new(&self.flow, now, &mut self.counters, &mut self.taps);
        act(self.parser.as_mut(), &mut out);
    }
}

impl Row {
    fn of(batch: &Batch, row: usize) -> Row {
        let own = batch.schema().ids().skip(common::FIELDS.len());
        let name = |id| batch.schema().field(id).name.to_string();
        Row {
            ts: batch.i64(common::TS).value(row),
            quality: batch.text(common::QUALITY).value(row).to_owned(),
            values: own.map(|id| (name(id), show(batch, id, row))).collect(),
        }
    }
}

fn show(batch: &Batch, id: FieldId, row: usize) -> Option<String> {
    batch.column(id).filter(|column| column.is_valid(row))?;
    Some(match batch.schema().field(id).data_type {
        DataType::Bool => batch.bool(id).value(row).to_string(),
        DataType::U64 => batch.u64(id).value(row).to_string(),
        DataType::I64 => batch.i64(id).value(row).to_string(),
        DataType::Text | DataType::Json => batch.text(id).value(row).to_owned(),
        DataType::Hashes => tuple::hashes::to_text(batch.hashes(id).value(row)),
        DataType::F64 | DataType::Ip => unreachable!("no protocol's own field is of this type"),
    })
}

/// A text of `len` random letters.
pub fn text(rng: &mut SeededRng, len: u64) -> String {
    (0..len)
        .map(|_| char::from(b'a' + rng.below(26) as u8))
        .collect()
}
