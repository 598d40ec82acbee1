//! One command's response: from its first to its last packet, over several results.
//!
//! Receives complete packets with the first bytes of their payload; returns whether more must follow. Rows
//! and column definitions are counted but not parsed. If the login was not captured, the use of EOF packets
//! is learned from the first result set. ("Text resultset", "OK_Packet" … in the MySQL source documentation.)

use super::command::{Awaited, DefaultDatabase, Kind};
use super::fields::Fields;
use super::framing::{PACKET_MAX, Packet};
use super::login::capability;
use crate::Span;

const STATUS_MORE_RESULTS: u64 = 0x0008;
const STATUS_CURSOR_EXISTS: u64 = 0x0040;
const STATUS_SESSION_CHANGED: u64 = 0x4000;
/// Type of a state change that contains the new default database.
const SCHEMA_CHANGED: u64 = 1;
/// Maximum length of an EOF packet; a longer one is an OK packet in its place.
const EOF_LEN_MAX: u32 = 5;
/// More columns than any server allows.
const COLUMNS_MAX: u64 = 65_535;

/// Variant of the result format on a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dialect {
    /// No EOF packets; `None`: unknown.
    pub deprecate_eof: Option<bool>,
    /// Column definitions may be missing, indicated by a byte before the count (MySQL).
    pub optional_metadata: bool,
    /// Same, indicated by a byte after the count (MariaDB).
    pub cached_metadata: bool,
    /// OK packets contain state changes.
    pub session_track: bool,
    /// Sequence numbers may be out of order (compressed).
    pub unordered: bool,
}

impl Dialect {
    /// Dialect of the negotiated capabilities.
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
    /// More packets follow.
    More,
    /// Complete, unless an EOF packet follows.
    Maybe,
    /// Complete.
    Done,
    /// The packet cannot belong to it.
    Malformed,
}

/// Contents of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Rows of all result sets.
    pub rows: Option<u64>,
    /// Rows changed by all results.
    pub affected_rows: Option<u64>,
    /// Error number; [`UNREAD_ERROR`] if it was not captured.
    pub error: Option<u64>,
    /// Id of the prepared statement.
    pub statement: Option<u32>,
    /// Change of the default database.
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
    /// After them an optional EOF packet.
    ColumnsEnd,
    Rows,
    /// A row of over 16 MiB continues.
    RowGoesOn,
    /// Definitions of a prepared statement: its parameters, then its columns.
    Definitions {
        left: u64,
        then: u64,
    },
    /// After each group an optional EOF packet.
    DefinitionsEnd {
        then: u64,
    },
    /// Definitions up to an EOF packet.
    Fields,
    /// The server has requested a file.
    Upload,
    /// Complete except for an optional EOF packet.
    MaybeOver,
}

/// Number for errors without a known one.
pub const UNREAD_ERROR: u64 = 0;

/// A response in progress.
#[derive(Debug)]
pub struct Response {
    awaited: Awaited,
    stage: Stage,
    /// Sequence number of the next packet, unless the client sends in between.
    next_seq: Option<u8>,
    /// Sequence number of its first packet, and whether such numbers are meaningless.
    pub first_seq: u8,
    pub unordered: bool,
    /// Contents so far.
    pub outcome: Outcome,
    /// Arrival of its first and last byte; `None` before its first packet.
    pub span: Option<Span>,
    /// Bytes of its packets.
    pub wire_bytes: u64,
    /// Bytes are missing.
    pub holed: bool,
    /// Its last byte was not captured: `span` ends too early.
    pub open_end: bool,
    /// Its request was not captured.
    pub unasked: bool,
    /// Its meaning depends on a request that was not captured.
    pub doubtful: bool,
    /// It replaced the greeting: the connection is rejected.
    pub refused: bool,
}

impl Default for Response {
    fn default() -> Self {
        Response::new(Awaited::Result)
    }
}

impl Response {
    /// The response to a command with this form.
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

    /// Kind of its request if that was not captured.
    pub fn unseen_kind(&self) -> Kind {
        if self.refused { Kind::Connect } else { Kind::Unseen }
    }

    /// Form it was parsed as.
    pub fn awaited(&self) -> Awaited {
        self.awaited
    }

    /// Whether it is complete unless an EOF packet follows.
    pub fn may_be_over(&self) -> bool {
        self.stage == Stage::MaybeOver
    }

    /// Whether the next packet is a row or ends the rows.
    pub fn in_rows(&self) -> bool {
        self.stage == Stage::Rows
    }

    /// Required sequence number of the next packet, if any.
    pub fn next_seq(&self) -> Option<u8> {
        self.next_seq
    }

    /// Adds rows that the caller skipped.
    pub fn add_rows(&mut self, rows: u64, wire_bytes: u64, ts: wire::Timestamp) {
        self.next_seq = self.next_seq.map(|n| n.wrapping_add(rows as u8));
        *self.outcome.rows.get_or_insert(0) += rows;
        self.wire_bytes += wire_bytes;
        if let Some(span) = &mut self.span {
            span.extend(ts);
        }
    }

    /// Whether `p` is the optional EOF packet at the end of a response.
    pub fn is_belated_eof(&self, p: &Packet<'_>) -> bool {
        is_eof(p) && self.next_seq.is_none_or(|n| n == p.seq)
    }

    /// Handles the next packet.
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
        // A request for another authentication method does not end it.
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

    /// Whether the first byte of the next packet is needed.
    fn reads_next(&self) -> bool {
        !matches!(self.stage, Stage::Columns { .. } | Stage::Definitions { .. } | Stage::RowGoesOn)
            && self.awaited != Awaited::Text
    }

    fn go(&mut self, stage: Stage) -> Progress {
        self.stage = stage;
        Progress::More
    }

    /// Handles the first packet of a result.
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
            // An OK packet is longer than a column count.
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

    /// Ends a result with `p`, whose status shows whether another follows.
    fn after(&mut self, p: &Packet<'_>) -> Progress {
        match status(p) {
            Some(status) if status & STATUS_MORE_RESULTS != 0 => self.go(Stage::First),
            None if p.holed => {
                // It is unknown whether another result follows, and its rows.
                (self.outcome.rows, self.outcome.affected_rows) = (None, None);
                self.open_end = true;
                Progress::Done
            }
            _ => Progress::Done,
        }
    }

    /// Handles an error packet; `None` if `p` is none. MariaDB's progress reports have the same format.
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

    /// Handles the last definition of a group.
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

    /// Records a change of the default database in a packet.
    fn note_state(&mut self, p: &Packet<'_>, dialect: &Dialect) {
        if !dialect.session_track || p.len <= EOF_LEN_MAX {
            return;
        }
        match changed_database(p.head) {
            // Empty name: no default database.
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

/// Whether a packet ends the rows: EOF or its OK form. Rows with this first byte are over 16 MiB.
fn ends_rows(p: &Packet<'_>) -> bool {
    p.first() == Some(0xfe) && p.len < PACKET_MAX
}

fn is_eof(p: &Packet<'_>) -> bool {
    p.first() == Some(0xfe) && p.len <= EOF_LEN_MAX
}

/// Server status in an OK or EOF packet, if present (from 4.1 on) and captured.
fn status(p: &Packet<'_>) -> Option<u64> {
    let mut f = Fields(p.head.get(1..)?);
    if is_eof(p) {
        return f.take(2).and_then(|_| f.int(2));
    }
    f.lenenc().and_then(|_| f.lenenc()).and_then(|_| f.int(2))
}

/// The relevant part of a packet is missing or invalid.
#[derive(Debug, PartialEq, Eq)]
struct Unread;

/// Session state of an OK packet: the name of the schema, if changed.
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

/// State changes in an OK packet, if indicated.
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

/// Whether this is an OK packet without text, distinguishable by length from the response to a preparation.
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

    /// Handles payloads; checks the last progress and the outcome.
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
