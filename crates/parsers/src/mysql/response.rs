//! One command's response: from its first packet to the one that ends it, over several results.
//!
//! Takes whole packets with the first bytes of their payload; says whether more must come. Rows and column definitions
//! are counted, never read. Where the login was not seen, whether EOF packets are in use is learned from the first
//! result set. ("Text resultset", "OK_Packet" … in the MySQL source documentation.)

use super::command::{Awaited, DefaultDatabase, Kind};
use super::fields::Fields;
use super::framing::{PACKET_MAX, Packet};
use super::login::capability;
use crate::Span;

const STATUS_MORE_RESULTS: u64 = 0x0008;
const STATUS_CURSOR_EXISTS: u64 = 0x0040;
const STATUS_SESSION_CHANGED: u64 = 0x4000;
/// The kind of a change of state that names the new default database.
const SCHEMA_CHANGED: u64 = 1;
/// A longer EOF packet is an OK packet that took its place.
const EOF_LEN_MAX: u32 = 5;
/// More columns than any server allows.
const COLUMNS_MAX: u64 = 65_535;

/// How this connection writes results.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dialect {
    /// No EOF packets; `None`: not known.
    pub deprecate_eof: Option<bool>,
    /// Column definitions may be missing: a byte before the count says so (MySQL).
    pub optional_metadata: bool,
    /// The same, with the byte behind the count (MariaDB).
    pub cached_metadata: bool,
    /// OK packets tell of changed state.
    pub session_track: bool,
    /// Sequence numbers need not be in order (compressed).
    pub unordered: bool,
}

impl Dialect {
    /// What was agreed on in the login.
    pub fn of(capabilities: u64) -> Dialect {
        let has = |flag| capabilities & flag != 0;
        Dialect {
            deprecate_eof: Some(has(capability::DEPRECATE_EOF)),
            optional_metadata: has(capability::OPTIONAL_METADATA),
            cached_metadata: has(capability::MARIADB_CACHE_METADATA),
            session_track: has(capability::SESSION_TRACK),
            unordered: false,
        }
    }
}

/// Whether a response is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More will come.
    More,
    /// It is, unless an EOF packet follows.
    Maybe,
    /// It is.
    Done,
    /// The packet cannot belong to it.
    Malformed,
}

/// What a response said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Rows of all result sets.
    pub rows: Option<u64>,
    /// Rows changed, of all results.
    pub affected_rows: Option<u64>,
    /// The error's number, and that there was one; [`UNREAD_ERROR`] where the number was not seen.
    pub error: Option<u64>,
    /// The statement that was prepared.
    pub statement: Option<u32>,
    /// What it says of the default database.
    pub database: DefaultDatabase,
    /// It has no end: replication.
    pub endless: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The first packet of a result.
    First,
    /// Column definitions of a result set.
    Columns {
        left: u64,
    },
    /// Behind them an EOF packet, perhaps.
    ColumnsEnd,
    Rows,
    /// A row of over 16 MiB goes on.
    RowGoesOn,
    /// Definitions of a prepared statement: its parameters, then its columns.
    Definitions {
        left: u64,
        then: u64,
    },
    /// Behind each group an EOF packet, perhaps.
    DefinitionsEnd {
        then: u64,
    },
    /// Definitions up to an EOF packet.
    Fields,
    /// The server asked for a file.
    Upload,
    /// Everything but an EOF packet was seen.
    MaybeOver,
}

/// No error has this number.
pub const UNREAD_ERROR: u64 = 0;

/// A response under way.
#[derive(Debug)]
pub struct Response {
    awaited: Awaited,
    stage: Stage,
    /// Sequence number of the next packet, where the client does not speak in between.
    next_seq: Option<u8>,
    /// Sequence number of its first packet, and whether such numbers say nothing.
    pub first_seq: u8,
    pub unordered: bool,
    /// What it said so far.
    pub outcome: Outcome,
    /// When it was on the wire; `None` before its first packet.
    pub span: Option<Span>,
    /// Its packets' bytes.
    pub wire_bytes: u64,
    /// Bytes of it are missing.
    pub holed: bool,
    /// Its last byte was not seen: `span` ends earlier than it did.
    pub open_end: bool,
    /// Its request was not seen.
    pub unasked: bool,
    /// What it says depends on the request, which was not seen.
    pub doubtful: bool,
    /// It came instead of a greeting: the connection is refused.
    pub refused: bool,
}

impl Default for Response {
    fn default() -> Self {
        Response::new(Awaited::Result)
    }
}

impl Response {
    /// The response to a command that awaits `awaited`.
    pub fn new(awaited: Awaited) -> Response {
        let outcome = Outcome::default();
        Response {
            awaited,
            stage: Stage::First,
            next_seq: None,
            first_seq: 0,
            unordered: false,
            outcome,
            span: None,
            wire_bytes: 0,
            holed: false,
            open_end: false,
            unasked: false,
            doubtful: false,
            refused: false,
        }
    }

    /// What its request was, if that was not seen.
    pub fn unseen_kind(&self) -> Kind {
        if self.refused { Kind::Connect } else { Kind::Unseen }
    }

    /// The response to what kind of command it was read as.
    pub fn awaited(&self) -> Awaited {
        self.awaited
    }

    /// Whether it is complete unless an EOF packet follows.
    pub fn may_be_over(&self) -> bool {
        self.stage == Stage::MaybeOver
    }

    /// Whether the next packet is a row or what ends the rows.
    pub fn in_rows(&self) -> bool {
        self.stage == Stage::Rows
    }

    /// Sequence number of the next packet, if it must have one.
    pub fn next_seq(&self) -> Option<u8> {
        self.next_seq
    }

    /// Rows that the caller stepped over.
    pub fn add_rows(&mut self, rows: u64, wire_bytes: u64, ts: wire::Timestamp) {
        self.next_seq = self.next_seq.map(|n| n.wrapping_add(rows as u8));
        *self.outcome.rows.get_or_insert(0) += rows;
        self.wire_bytes += wire_bytes;
        if let Some(span) = &mut self.span {
            span.extend(ts);
        }
    }

    /// Whether `p` is the EOF packet that a response which may be over was waiting for.
    pub fn is_belated_eof(&self, p: &Packet<'_>) -> bool {
        is_eof(p) && self.next_seq.is_none_or(|n| n == p.seq)
    }

    /// The next packet.
    pub fn on_packet(&mut self, p: &Packet<'_>, dialect: &mut Dialect) -> Progress {
        if self.next_seq.is_some_and(|n| n != p.seq) {
            return Progress::Malformed;
        }
        let progress = self.progress(p, dialect);
        let alone = self.stage != Stage::Upload && self.awaited != Awaited::Auth && !dialect.unordered;
        self.next_seq = alone.then(|| p.seq.wrapping_add(1));
        progress
    }

    fn progress(&mut self, p: &Packet<'_>, dialect: &mut Dialect) -> Progress {
        self.wire_bytes += p.wire_len();
        self.holed |= p.holed;
        // What asks for another way to authenticate is not the end.
        let goes_on = self.unasked && p.first() == Some(0xfe) && p.len > 8;
        self.holed |= goes_on;
        self.open_end = p.open_end || goes_on;
        let span = self.span.get_or_insert(p.span);
        span.extend(p.span.last);
        if p.head.is_empty() && p.holed && self.reads_next() {
            return Progress::Malformed;
        }
        match self.stage {
            Stage::First | Stage::Upload => self.first(p, dialect),
            Stage::Columns { left: 1 } => self.go(Stage::ColumnsEnd),
            Stage::Columns { left } => self.go(Stage::Columns { left: left - 1 }),
            Stage::ColumnsEnd => self.columns_end(p, dialect),
            Stage::Rows => self.row(p, dialect),
            Stage::RowGoesOn if p.len == PACKET_MAX => Progress::More,
            Stage::RowGoesOn => self.go(Stage::Rows),
            Stage::Definitions { left: 1, then } => self.definitions_over(then, dialect),
            Stage::Definitions { left, then } => self.go(Stage::Definitions { left: left - 1, then }),
            Stage::DefinitionsEnd { then } => self.definitions_end(p, then, dialect),
            Stage::Fields if ends_rows(p) => Progress::Done,
            Stage::Fields => self.error(p).unwrap_or(Progress::More),
            Stage::MaybeOver => {
                dialect.deprecate_eof = Some(false);
                Progress::Done
            }
        }
    }

    /// Whether it matters what the next packet begins with.
    fn reads_next(&self) -> bool {
        !matches!(self.stage, Stage::Columns { .. } | Stage::Definitions { .. } | Stage::RowGoesOn)
            && self.awaited != Awaited::Text
    }

    fn go(&mut self, stage: Stage) -> Progress {
        self.stage = stage;
        Progress::More
    }

    /// The first packet of a result.
    fn first(&mut self, p: &Packet<'_>, dialect: &mut Dialect) -> Progress {
        if let Some(progress) = self.error(p) {
            return progress;
        }
        match self.awaited {
            Awaited::Nothing | Awaited::Text => Progress::Done,
            Awaited::Stream => {
                self.outcome.endless = true;
                Progress::Done
            }
            Awaited::Auth => match p.first() {
                // AuthSwitchRequest in both forms, AuthMoreData, AuthNextFactor.
                Some(0xfe | 0x01 | 0x02) => Progress::More,
                Some(0x00) => self.ok(p, dialect),
                _ => Progress::Done,
            },
            Awaited::Rows => {
                self.outcome.rows = Some(0);
                self.stage = Stage::Rows;
                self.row(p, dialect)
            }
            Awaited::Columns => {
                self.stage = Stage::Fields;
                if ends_rows(p) { Progress::Done } else { Progress::More }
            }
            Awaited::Statement => self.prepared(p, dialect),
            Awaited::Result => self.result(p, dialect),
        }
    }

    fn result(&mut self, p: &Packet<'_>, dialect: &mut Dialect) -> Progress {
        let mut f = Fields(p.head);
        let mut defined = true;
        match p.first() {
            None => return Progress::Malformed,
            // An OK packet is longer than a count of columns.
            Some(0x00 | 0x01) if dialect.optional_metadata && (2..7).contains(&p.len) => {
                defined = f.int(1) == Some(1);
            }
            Some(0x00) => return self.ok(p, dialect),
            Some(0xfe) => return self.after(p),
            Some(0xfb) => return self.go(Stage::Upload),
            Some(_) => {}
        }
        let Some(columns) = f.lenenc().filter(|n| (1..=COLUMNS_MAX).contains(n)) else {
            return Progress::Malformed;
        };
        if dialect.cached_metadata && f.int(1) == Some(0) {
            defined = false;
        }
        self.outcome.rows.get_or_insert(0);
        self.go(if defined { Stage::Columns { left: columns } } else { Stage::ColumnsEnd })
    }

    fn columns_end(&mut self, p: &Packet<'_>, dialect: &mut Dialect) -> Progress {
        self.stage = Stage::Rows;
        if !is_eof(p) || dialect.deprecate_eof == Some(true) {
            if p.first() != Some(0xff) {
                dialect.deprecate_eof.get_or_insert(true);
            }
            return self.row(p, dialect);
        }
        dialect.deprecate_eof = Some(false);
        if status(p).unwrap_or(0) & STATUS_CURSOR_EXISTS != 0 { Progress::Done } else { Progress::More }
    }

    fn row(&mut self, p: &Packet<'_>, dialect: &Dialect) -> Progress {
        if let Some(progress) = self.error(p) {
            return progress;
        }
        if ends_rows(p) {
            self.note_state(p, dialect);
            return self.after(p);
        }
        *self.outcome.rows.get_or_insert(0) += 1;
        if p.len == PACKET_MAX { self.go(Stage::RowGoesOn) } else { Progress::More }
    }

    fn ok(&mut self, p: &Packet<'_>, dialect: &Dialect) -> Progress {
        if self.unasked && !is_bare_ok(p) {
            self.doubtful = true;
            return Progress::Done;
        }
        let mut f = Fields(p.head.get(1..).unwrap_or_default());
        if let Some(n) = f.lenenc() {
            let sum = self.outcome.affected_rows.get_or_insert(0);
            *sum = sum.saturating_add(n);
        }
        self.note_state(p, dialect);
        self.after(p)
    }

    /// A result ends with `p`; the server's status in it says whether another follows.
    fn after(&mut self, p: &Packet<'_>) -> Progress {
        match status(p) {
            Some(status) if status & STATUS_MORE_RESULTS != 0 => self.go(Stage::First),
            None if p.holed => {
                // Whether another result follows, and what it would add, is not known.
                (self.outcome.rows, self.outcome.affected_rows) = (None, None);
                self.open_end = true;
                Progress::Done
            }
            _ => Progress::Done,
        }
    }

    /// What an error packet means; `None` where `p` is none. MariaDB's progress reports look like one.
    fn error(&mut self, p: &Packet<'_>) -> Option<Progress> {
        if p.first() != Some(0xff) {
            return None;
        }
        let code = Fields(&p.head[1..]).int(2).unwrap_or(UNREAD_ERROR);
        if code == 0xffff {
            return Some(Progress::More);
        }
        self.outcome.error = Some(code);
        Some(Progress::Done)
    }

    fn prepared(&mut self, p: &Packet<'_>, dialect: &mut Dialect) -> Progress {
        let mut f = Fields(p.head);
        let (Some(0), Some(id)) = (f.int(1), f.int(4)) else { return Progress::Malformed };
        let (Some(columns), Some(parameters)) = (f.int(2), f.int(2)) else { return Progress::Malformed };
        self.outcome.statement = Some(id as u32);
        f.take(1 + 2);
        if dialect.optional_metadata && f.int(1) == Some(0) {
            return Progress::Done;
        }
        match (parameters, columns) {
            (0, 0) => Progress::Done,
            (0, left) => self.go(Stage::Definitions { left, then: 0 }),
            (left, then) => self.go(Stage::Definitions { left, then }),
        }
    }

    /// The last definition of a group was seen.
    fn definitions_over(&mut self, then: u64, dialect: &Dialect) -> Progress {
        match (dialect.deprecate_eof, then) {
            (Some(true), 0) => Progress::Done,
            (Some(true), left) => self.go(Stage::Definitions { left, then: 0 }),
            (Some(false), _) | (None, 1..) => self.go(Stage::DefinitionsEnd { then }),
            (None, 0) => {
                self.stage = Stage::MaybeOver;
                Progress::Maybe
            }
        }
    }

    fn definitions_end(&mut self, p: &Packet<'_>, then: u64, dialect: &mut Dialect) -> Progress {
        let eof = is_eof(p);
        dialect.deprecate_eof.get_or_insert(!eof);
        match (eof, then) {
            (_, 0) => Progress::Done,
            (true, left) => self.go(Stage::Definitions { left, then: 0 }),
            (false, 1) => self.definitions_over(0, dialect),
            (false, left) => self.go(Stage::Definitions { left: left - 1, then: 0 }),
        }
    }

    /// The default database, where the packet tells of a change.
    fn note_state(&mut self, p: &Packet<'_>, dialect: &Dialect) {
        if !dialect.session_track || p.len <= EOF_LEN_MAX {
            return;
        }
        match changed_database(p.head) {
            // No name: there is none any more.
            Ok(Some(b"")) => self.outcome.database = DefaultDatabase::Unread,
            Ok(Some(name)) => self.outcome.database = DefaultDatabase::Is(name.to_vec()),
            Err(Unread) if !p.is_whole() => self.outcome.database = DefaultDatabase::Unread,
            Ok(None) | Err(Unread) => {}
        }
    }
}

/// Whether a response can begin with a packet that begins with `head`: header and first byte.
pub fn can_begin(awaited: Awaited, head: [u8; 5]) -> bool {
    let len = u32::from_le_bytes([head[0], head[1], head[2], 0]);
    match (awaited, head[4]) {
        (_, 0xff) => (3..2048).contains(&len),
        (Awaited::Statement, 0) => (12..=13).contains(&len),
        (Awaited::Text, _) => (1..4096).contains(&len),
        (Awaited::Stream | Awaited::Rows, _) | (Awaited::Columns, 1..=0xfa) => len > 0,
        (Awaited::Result | Awaited::Auth, 0) => (3..4096).contains(&len),
        (_, 0xfe) => len < 512,
        (Awaited::Result, 0xfb) => (2..2048).contains(&len),
        (Awaited::Result, 1..=0xfa) => len <= 2,
        (Awaited::Result, 0xfc) => (3..=4).contains(&len),
        _ => false,
    }
}

/// EOF, or the OK that took its place. A row that begins so is of over 16 MiB.
fn ends_rows(p: &Packet<'_>) -> bool {
    p.first() == Some(0xfe) && p.len < PACKET_MAX
}

fn is_eof(p: &Packet<'_>) -> bool {
    p.first() == Some(0xfe) && p.len <= EOF_LEN_MAX
}

/// The server's status in an OK or EOF packet, where it has one (from 4.1 on) and that was seen.
fn status(p: &Packet<'_>) -> Option<u64> {
    let mut f = Fields(p.head.get(1..)?);
    if is_eof(p) {
        return f.take(2).and_then(|_| f.int(2));
    }
    f.lenenc().and_then(|_| f.lenenc()).and_then(|_| f.int(2))
}

/// The part of a packet that would tell is missing, or makes no sense.
#[derive(Debug, PartialEq, Eq)]
struct Unread;

/// Session state information of an OK packet: the schema's name, if it changed.
fn changed_database(payload: &[u8]) -> Result<Option<&[u8]>, Unread> {
    let mut changes = match state_changes(payload).ok_or(Unread)? {
        Some(changes) => Fields(changes),
        None => return Ok(None),
    };
    while let Some(kind) = changes.int(1) {
        let change = changes.lenenc_str().ok_or(Unread)?;
        if kind == SCHEMA_CHANGED {
            return Fields(change).lenenc_str().map(Some).ok_or(Unread);
        }
    }
    Ok(None)
}

/// What an OK packet lists of changed state, if it says that there is any.
fn state_changes(payload: &[u8]) -> Option<Option<&[u8]>> {
    let mut f = Fields(payload.get(1..)?);
    f.lenenc()?;
    f.lenenc()?;
    if f.int(2)? & STATUS_SESSION_CHANGED == 0 {
        return Some(None);
    }
    f.take(2)?;
    f.lenenc_str()?;
    f.lenenc_str().map(Some)
}

/// An OK packet without a text, which is not as long as the answer to a preparation.
fn is_bare_ok(p: &Packet<'_>) -> bool {
    const PREPARED_LEN: u32 = 12;
    const STATUS_AND_WARNINGS: usize = 4;
    let mut f = Fields(p.head.get(1..).unwrap_or_default());
    let counts = f.lenenc().and(f.lenenc());
    p.len != PREPARED_LEN && counts.is_some() && f.0.len() == STATUS_AND_WARNINGS
}

#[cfg(test)]
mod tests {
    use wire::Timestamp;

    use super::*;

    /// Feeds payloads; shows what the last one led to and the outcome.
    fn check(awaited: Awaited, capabilities: Option<u64>, payloads: &[&[u8]], expected: (Progress, Outcome)) {
        let mut dialect = capabilities.map(Dialect::of).unwrap_or_default();
        let mut response = Response::new(awaited);
        let mut progress = Progress::More;
        for (i, head) in payloads.iter().enumerate() {
            assert_eq!(progress, Progress::More, "before packet {i} of {payloads:?}");
            let span = Span::at(Timestamp(0));
            let p = Packet {
                seq: i as u8 + 1,
                len: head.len() as u32,
                head,
                span,
                holed: false,
                open_end: false,
                place: flow::Place::default(),
            };
            progress = response.on_packet(&p, &mut dialect);
        }
        assert_eq!((progress, response.outcome), expected, "{payloads:?}");
    }

    const OK: &[u8] = &[0, 2, 0, 2, 0, 0, 0];
    const OK_MORE: &[u8] = &[0, 3, 0, 0x0a, 0, 0, 0];
    const EOF: &[u8] = &[0xfe, 0, 0, 2, 0];
    const EOF_MORE: &[u8] = &[0xfe, 0, 0, 0x0a, 0];
    const EOF_CURSOR: &[u8] = &[0xfe, 0, 0, 0x42, 0];
    const END: &[u8] = &[0xfe, 0, 0, 2, 0, 0, 0];
    const ERR: &[u8] = &[0xff, 0x28, 4, b'#', b'4', b'2', b'0', b'0', b'0', b'x'];
    const PROGRESS: &[u8] = &[0xff, 0xff, 0xff, 1, 1, 1, 0, 0, 0];
    const DEF: &[u8] = b"\x03def";
    const ROW: &[u8] = b"\x01a";
    const NO_EOF: u64 = capability::DEPRECATE_EOF;

    #[test]
    fn results() {
        let rows = |n| Outcome { rows: Some(n), ..Outcome::default() };
        let error = Outcome { error: Some(1064), ..Outcome::default() };
        let affected = |n| Outcome { affected_rows: Some(n), ..Outcome::default() };
        for known in [Some(0), None] {
            check(Awaited::Result, known, &[&[2], DEF, DEF, EOF, ROW, ROW, EOF], (Progress::Done, rows(2)));
            check(Awaited::Result, known, &[&[1], DEF, EOF, EOF], (Progress::Done, rows(0)));
            check(Awaited::Result, known, &[&[1], DEF, EOF_CURSOR], (Progress::Done, rows(0)));
        }
        for known in [Some(NO_EOF), None] {
            check(Awaited::Result, known, &[&[1], DEF, ROW, END], (Progress::Done, rows(1)));
            check(Awaited::Result, known, &[&[1], DEF, END], (Progress::Done, rows(0)));
        }
        check(Awaited::Result, None, &[OK], (Progress::Done, affected(2)));
        check(Awaited::Result, None, &[ERR], (Progress::Done, error.clone()));
        check(Awaited::Result, None, &[PROGRESS, PROGRESS, OK], (Progress::Done, affected(2)));
        check(
            Awaited::Result,
            None,
            &[&[1], DEF, EOF, ROW, ERR],
            (Progress::Done, Outcome { rows: Some(1), ..error }),
        );
        let both = Outcome { rows: Some(1), affected_rows: Some(5), ..Outcome::default() };
        check(
            Awaited::Result,
            Some(0),
            &[&[1], DEF, EOF, ROW, EOF_MORE, OK_MORE, OK],
            (Progress::Done, both),
        );
        check(Awaited::Result, None, &[&[0xfb, b'f'], OK], (Progress::Done, affected(2)));
        check(Awaited::Result, None, &[b""], (Progress::Malformed, Outcome::default()));
    }

    #[test]
    fn column_definitions_may_be_left_out() {
        let rows = Outcome { rows: Some(1), ..Outcome::default() };
        let mysql = Some(NO_EOF | capability::OPTIONAL_METADATA);
        check(Awaited::Result, mysql, &[&[0, 1], ROW, END], (Progress::Done, rows.clone()));
        check(Awaited::Result, mysql, &[&[1, 1], DEF, ROW, END], (Progress::Done, rows.clone()));
        let mariadb = Some(capability::MARIADB_CACHE_METADATA);
        check(Awaited::Result, mariadb, &[&[2, 0], EOF, ROW, EOF], (Progress::Done, rows.clone()));
        check(Awaited::Result, mariadb, &[&[1, 1], DEF, EOF, ROW, EOF], (Progress::Done, rows));
    }

    #[test]
    fn prepared_statements() {
        let of = |columns, parameters| [0, 7, 0, 0, 0, columns, 0, parameters, 0, 0, 0, 0];
        let outcome = || Outcome { statement: Some(7), ..Outcome::default() };
        check(Awaited::Statement, None, &[&of(0, 0)], (Progress::Done, outcome()));
        check(Awaited::Statement, Some(0), &[&of(1, 1), DEF, EOF, DEF, EOF], (Progress::Done, outcome()));
        check(Awaited::Statement, None, &[&of(1, 1), DEF, EOF, DEF, EOF], (Progress::Done, outcome()));
        check(Awaited::Statement, None, &[&of(2, 1), DEF, DEF, DEF], (Progress::Done, outcome()));
        check(Awaited::Statement, None, &[&of(1, 0), DEF], (Progress::Maybe, outcome()));
        check(Awaited::Statement, Some(NO_EOF), &[&of(1, 1), DEF, DEF], (Progress::Done, outcome()));
    }

    #[test]
    fn other_forms() {
        let none = Outcome::default;
        check(Awaited::Text, None, &[b"Uptime: 1"], (Progress::Done, none()));
        check(Awaited::Columns, None, &[DEF, DEF, EOF], (Progress::Done, none()));
        check(
            Awaited::Rows,
            None,
            &[&[0, 0, 1], &[0, 0, 1], EOF],
            (Progress::Done, Outcome { rows: Some(2), ..none() }),
        );
        let ok = Outcome { affected_rows: Some(2), ..none() };
        check(Awaited::Auth, None, &[&[0xfe], &[1, 3], &[1, 4], OK], (Progress::Done, ok));
        check(Awaited::Stream, None, &[&[0, 1]], (Progress::Done, Outcome { endless: true, ..none() }));
    }

    #[test]
    fn session_state_tells_the_database() {
        let ok = b"\x00\x00\x00\x02\x40\x00\x00\x00\x07\x01\x05\x04shop";
        let outcome = Outcome {
            affected_rows: Some(0),
            database: DefaultDatabase::Is(b"shop".to_vec()),
            ..Outcome::default()
        };
        check(Awaited::Result, Some(capability::SESSION_TRACK), &[ok], (Progress::Done, outcome));
    }

    #[test]
    fn a_row_of_many_packets_is_one() {
        let mut response = Response::new(Awaited::Rows);
        let parts = [(PACKET_MAX, &[0xfb_u8][..]), (PACKET_MAX, &[0xfe]), (3, &[0xff, 0, 0]), (5, EOF)];
        for (seq, (len, head)) in (1..).zip(parts) {
            let p = Packet {
                seq,
                len,
                head,
                span: Span::at(Timestamp(0)),
                holed: false,
                open_end: false,
                place: flow::Place::default(),
            };
            response.on_packet(&p, &mut Dialect::default());
        }
        assert_eq!(response.outcome.rows, Some(1));
    }
}
