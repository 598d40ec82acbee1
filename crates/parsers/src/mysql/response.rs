//! One command's response: from its first to its last packet, over several results.
//!
//! Receives complete packets with the first bytes of their payload; returns whether more must follow. Rows
//! and column definitions are counted but not parsed. If the login was not captured, the use of EOF packets
//! is learned from the first result set. ("Text resultset", "OK_Packet" … in the MySQL source documentation.)

use super::command::{DefaultDatabase, MysqlRequestKind, MysqlResponseForm};
use super::fields::MysqlFieldReader;
use super::framing::{MysqlPacket, PACKET_MAX};
use super::login::capability;
use crate::MessageSpan;

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
pub struct MysqlDialect {
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

impl MysqlDialect {
    /// Dialect of the negotiated capabilities.
    pub fn of(capabilities: u64) -> MysqlDialect {
        let has = |flag| capabilities & flag != 0;
        MysqlDialect {
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
pub enum MysqlResponseProgress {
    /// More packets follow.
    More,
    /// Complete, unless an EOF packet follows.
    Maybe,
    /// Complete.
    Done,
    /// The packet cannot belong to the response.
    Malformed,
}

/// Contents of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MysqlOutcome {
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
    /// The response has no end: replication.
    pub endless: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MysqlResponseStage {
    /// The first packet of a result.
    First,
    /// Column definitions of a result set.
    Columns {
        left: u64,
    },
    /// After them an optional EOF packet.
    ColumnsEnd,
    Rows,
    /// A row of more than 16 MiB continues in the next packet.
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
pub struct MysqlResponse {
    awaited: MysqlResponseForm,
    stage: MysqlResponseStage,
    /// Sequence number of the next packet, unless the client sends in between.
    next_seq: Option<u8>,
    /// Sequence number of its first packet, and whether such numbers are meaningless.
    pub first_seq: u8,
    pub unordered: bool,
    /// Contents so far.
    pub outcome: MysqlOutcome,
    /// Arrival of the first and last byte of the response; `None` before its first packet.
    pub span: Option<MessageSpan>,
    /// Bytes of its packets.
    pub wire_bytes: u64,
    /// Bytes are missing.
    pub holed: bool,
    /// The last byte of the response was not captured: `span` ends too early.
    pub open_end: bool,
    /// The request was not captured.
    pub unasked: bool,
    /// The meaning of the response depends on a request that was not captured.
    pub doubtful: bool,
    /// The response replaced the greeting: the connection is rejected.
    pub refused: bool,
}

impl Default for MysqlResponse {
    fn default() -> Self {
        MysqlResponse::new(MysqlResponseForm::Result)
    }
}

impl MysqlResponse {
    /// The response to a command with this form.
    pub fn new(awaited: MysqlResponseForm) -> MysqlResponse {
        let outcome = MysqlOutcome::default();
        MysqlResponse {
            awaited,
            stage: MysqlResponseStage::First,
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
    pub fn unseen_kind(&self) -> MysqlRequestKind {
        if self.refused {
            MysqlRequestKind::Connect
        } else {
            MysqlRequestKind::Unseen
        }
    }

    /// Form it was parsed as.
    pub fn awaited(&self) -> MysqlResponseForm {
        self.awaited
    }

    /// Whether it is complete unless an EOF packet follows.
    pub fn may_be_over(&self) -> bool {
        self.stage == MysqlResponseStage::MaybeOver
    }

    /// Whether the next packet is a row or ends the rows.
    pub fn in_rows(&self) -> bool {
        self.stage == MysqlResponseStage::Rows
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
    pub fn is_belated_eof(&self, p: &MysqlPacket<'_>) -> bool {
        is_eof(p) && self.next_seq.is_none_or(|n| n == p.seq)
    }

    /// Handles the next packet.
    pub fn on_packet(
        &mut self,
        p: &MysqlPacket<'_>,
        dialect: &mut MysqlDialect,
    ) -> MysqlResponseProgress {
        if self.next_seq.is_some_and(|n| n != p.seq) {
            return MysqlResponseProgress::Malformed;
        }
        let progress = self.progress(p, dialect);
        let alone = self.stage != MysqlResponseStage::Upload
            && self.awaited != MysqlResponseForm::Auth
            && !dialect.unordered;
        self.next_seq = alone.then(|| p.seq.wrapping_add(1));
        progress
    }

    fn progress(
        &mut self,
        p: &MysqlPacket<'_>,
        dialect: &mut MysqlDialect,
    ) -> MysqlResponseProgress {
        self.wire_bytes += p.wire_len();
        self.holed |= p.holed;
        // A request for another authentication method does not end it.
        let goes_on = self.unasked && p.first() == Some(0xfe) && p.len > 8;
        self.holed |= goes_on;
        self.open_end = p.open_end || goes_on;
        let span = self.span.get_or_insert(p.span);
        span.extend(p.span.last);
        if p.head.is_empty() && p.holed && self.reads_next() {
            return MysqlResponseProgress::Malformed;
        }
        match self.stage {
            MysqlResponseStage::First | MysqlResponseStage::Upload => self.first(p, dialect),
            MysqlResponseStage::Columns { left: 1 } => self.go(MysqlResponseStage::ColumnsEnd),
            MysqlResponseStage::Columns { left } => {
                self.go(MysqlResponseStage::Columns { left: left - 1 })
            }
            MysqlResponseStage::ColumnsEnd => self.columns_end(p, dialect),
            MysqlResponseStage::Rows => self.row(p, dialect),
            MysqlResponseStage::RowGoesOn if p.len == PACKET_MAX => MysqlResponseProgress::More,
            MysqlResponseStage::RowGoesOn => self.go(MysqlResponseStage::Rows),
            MysqlResponseStage::Definitions { left: 1, then } => {
                self.definitions_over(then, dialect)
            }
            MysqlResponseStage::Definitions { left, then } => {
                self.go(MysqlResponseStage::Definitions {
                    left: left - 1,
                    then,
                })
            }
            MysqlResponseStage::DefinitionsEnd { then } => self.definitions_end(p, then, dialect),
            MysqlResponseStage::Fields if ends_rows(p) => MysqlResponseProgress::Done,
            MysqlResponseStage::Fields => self.error(p).unwrap_or(MysqlResponseProgress::More),
            MysqlResponseStage::MaybeOver => {
                dialect.deprecate_eof = Some(false);
                MysqlResponseProgress::Done
            }
        }
    }

    /// Whether the first byte of the next packet is needed.
    fn reads_next(&self) -> bool {
        !matches!(
            self.stage,
            MysqlResponseStage::Columns { .. }
                | MysqlResponseStage::Definitions { .. }
                | MysqlResponseStage::RowGoesOn
        ) && self.awaited != MysqlResponseForm::Text
    }

    fn go(&mut self, stage: MysqlResponseStage) -> MysqlResponseProgress {
        self.stage = stage;
        MysqlResponseProgress::More
    }

    /// Handles the first packet of a result.
    fn first(&mut self, p: &MysqlPacket<'_>, dialect: &mut MysqlDialect) -> MysqlResponseProgress {
        if let Some(progress) = self.error(p) {
            return progress;
        }
        match self.awaited {
            MysqlResponseForm::Nothing | MysqlResponseForm::Text => MysqlResponseProgress::Done,
            MysqlResponseForm::Stream => {
                self.outcome.endless = true;
                MysqlResponseProgress::Done
            }
            MysqlResponseForm::Auth => match p.first() {
                // AuthSwitchRequest in both forms, AuthMoreData, AuthNextFactor.
                Some(0xfe | 0x01 | 0x02) => MysqlResponseProgress::More,
                Some(0x00) => self.ok(p, dialect),
                _ => MysqlResponseProgress::Done,
            },
            MysqlResponseForm::Rows => {
                self.outcome.rows = Some(0);
                self.stage = MysqlResponseStage::Rows;
                self.row(p, dialect)
            }
            MysqlResponseForm::Columns => {
                self.stage = MysqlResponseStage::Fields;
                if ends_rows(p) {
                    MysqlResponseProgress::Done
                } else {
                    MysqlResponseProgress::More
                }
            }
            MysqlResponseForm::Statement => self.prepared(p, dialect),
            MysqlResponseForm::Result => self.result(p, dialect),
        }
    }

    fn result(&mut self, p: &MysqlPacket<'_>, dialect: &mut MysqlDialect) -> MysqlResponseProgress {
        let mut f = MysqlFieldReader(p.head);
        let mut defined = true;
        match p.first() {
            None => return MysqlResponseProgress::Malformed,
            // An OK packet is longer than a column count.
            Some(0x00 | 0x01) if dialect.optional_metadata && (2..7).contains(&p.len) => {
                defined = f.int(1) == Some(1);
            }
            Some(0x00) => return self.ok(p, dialect),
            Some(0xfe) => return self.after(p),
            Some(0xfb) => return self.go(MysqlResponseStage::Upload),
            Some(_) => {}
        }
        let Some(columns) = f.lenenc().filter(|n| (1..=COLUMNS_MAX).contains(n)) else {
            return MysqlResponseProgress::Malformed;
        };
        if dialect.cached_metadata && f.int(1) == Some(0) {
            defined = false;
        }
        self.outcome.rows.get_or_insert(0);
        self.go(if defined {
            MysqlResponseStage::Columns { left: columns }
        } else {
            MysqlResponseStage::ColumnsEnd
        })
    }

    fn columns_end(
        &mut self,
        p: &MysqlPacket<'_>,
        dialect: &mut MysqlDialect,
    ) -> MysqlResponseProgress {
        self.stage = MysqlResponseStage::Rows;
        if !is_eof(p) || dialect.deprecate_eof == Some(true) {
            if p.first() != Some(0xff) {
                dialect.deprecate_eof.get_or_insert(true);
            }
            return self.row(p, dialect);
        }
        dialect.deprecate_eof = Some(false);
        if status(p).unwrap_or(0) & STATUS_CURSOR_EXISTS != 0 {
            MysqlResponseProgress::Done
        } else {
            MysqlResponseProgress::More
        }
    }

    fn row(&mut self, p: &MysqlPacket<'_>, dialect: &MysqlDialect) -> MysqlResponseProgress {
        if let Some(progress) = self.error(p) {
            return progress;
        }
        if ends_rows(p) {
            self.note_state(p, dialect);
            return self.after(p);
        }
        *self.outcome.rows.get_or_insert(0) += 1;
        if p.len == PACKET_MAX {
            self.go(MysqlResponseStage::RowGoesOn)
        } else {
            MysqlResponseProgress::More
        }
    }

    fn ok(&mut self, p: &MysqlPacket<'_>, dialect: &MysqlDialect) -> MysqlResponseProgress {
        if self.unasked && !is_bare_ok(p) {
            self.doubtful = true;
            return MysqlResponseProgress::Done;
        }
        let mut f = MysqlFieldReader(p.head.get(1..).unwrap_or_default());
        if let Some(n) = f.lenenc() {
            let sum = self.outcome.affected_rows.get_or_insert(0);
            *sum = sum.saturating_add(n);
        }
        self.note_state(p, dialect);
        self.after(p)
    }

    /// Ends a result with `p`, whose status shows whether another follows.
    fn after(&mut self, p: &MysqlPacket<'_>) -> MysqlResponseProgress {
        match status(p) {
            Some(status) if status & STATUS_MORE_RESULTS != 0 => self.go(MysqlResponseStage::First),
            None if p.holed => {
                // Unknown: whether another result follows, and the number of rows.
                self.outcome.rows = None;
                self.outcome.affected_rows = None;
                self.open_end = true;
                MysqlResponseProgress::Done
            }
            _ => MysqlResponseProgress::Done,
        }
    }

    /// Handles an error packet; `None` if `p` is none. MariaDB's progress reports have the same format.
    fn error(&mut self, p: &MysqlPacket<'_>) -> Option<MysqlResponseProgress> {
        if p.first() != Some(0xff) {
            return None;
        }
        let code = MysqlFieldReader(&p.head[1..])
            .int(2)
            .unwrap_or(UNREAD_ERROR);
        if code == 0xffff {
            return Some(MysqlResponseProgress::More);
        }
        self.outcome.error = Some(code);
        Some(MysqlResponseProgress::Done)
    }

    fn prepared(
        &mut self,
        p: &MysqlPacket<'_>,
        dialect: &mut MysqlDialect,
    ) -> MysqlResponseProgress {
        let mut f = MysqlFieldReader(p.head);
        let Some(0) = f.int(1) else {
            return MysqlResponseProgress::Malformed;
        };
        let Some(id) = f.int(4) else {
            return MysqlResponseProgress::Malformed;
        };
        let Some(columns) = f.int(2) else {
            return MysqlResponseProgress::Malformed;
        };
        let Some(parameters) = f.int(2) else {
            return MysqlResponseProgress::Malformed;
        };
        self.outcome.statement = Some(id as u32);
        f.take(1 + 2);
        if dialect.optional_metadata && f.int(1) == Some(0) {
            return MysqlResponseProgress::Done;
        }
        match (parameters, columns) {
            (0, 0) => MysqlResponseProgress::Done,
            (0, left) => self.go(MysqlResponseStage::Definitions { left, then: 0 }),
            (left, then) => self.go(MysqlResponseStage::Definitions { left, then }),
        }
    }

    /// Handles the last definition of a group.
    fn definitions_over(&mut self, then: u64, dialect: &MysqlDialect) -> MysqlResponseProgress {
        match (dialect.deprecate_eof, then) {
            (Some(true), 0) => MysqlResponseProgress::Done,
            (Some(true), left) => self.go(MysqlResponseStage::Definitions { left, then: 0 }),
            (Some(false), _) | (None, 1..) => self.go(MysqlResponseStage::DefinitionsEnd { then }),
            (None, 0) => {
                self.stage = MysqlResponseStage::MaybeOver;
                MysqlResponseProgress::Maybe
            }
        }
    }

    fn definitions_end(
        &mut self,
        p: &MysqlPacket<'_>,
        then: u64,
        dialect: &mut MysqlDialect,
    ) -> MysqlResponseProgress {
        let eof = is_eof(p);
        dialect.deprecate_eof.get_or_insert(!eof);
        match (eof, then) {
            (_, 0) => MysqlResponseProgress::Done,
            (true, left) => self.go(MysqlResponseStage::Definitions { left, then: 0 }),
            (false, 1) => self.definitions_over(0, dialect),
            (false, left) => self.go(MysqlResponseStage::Definitions {
                left: left - 1,
                then: 0,
            }),
        }
    }

    /// Records a change of the default database in a packet.
    fn note_state(&mut self, p: &MysqlPacket<'_>, dialect: &MysqlDialect) {
        if !dialect.session_track || p.len <= EOF_LEN_MAX {
            return;
        }
        match changed_database(p.head) {
            // Empty name: no default database.
            Ok(Some(b"")) => self.outcome.database = DefaultDatabase::Unread,
            Ok(Some(name)) => self.outcome.database = DefaultDatabase::Is(name.to_vec()),
            Err(MysqlUnreadablePacket) if !p.is_whole() => {
                self.outcome.database = DefaultDatabase::Unread
            }
            Ok(None) | Err(MysqlUnreadablePacket) => {}
        }
    }
}

/// Whether a response can begin with a packet that begins with `head`: header and first byte.
pub fn can_begin(awaited: MysqlResponseForm, head: [u8; 5]) -> bool {
    let len = u32::from_le_bytes([head[0], head[1], head[2], 0]);
    match (awaited, head[4]) {
        (_, 0xff) => (3..2048).contains(&len),
        (MysqlResponseForm::Statement, 0) => (12..=13).contains(&len),
        (MysqlResponseForm::Text, _) => (1..4096).contains(&len),
        (MysqlResponseForm::Stream | MysqlResponseForm::Rows, _)
        | (MysqlResponseForm::Columns, 1..=0xfa) => len > 0,
        (MysqlResponseForm::Result | MysqlResponseForm::Auth, 0) => (3..4096).contains(&len),
        (_, 0xfe) => len < 512,
        (MysqlResponseForm::Result, 0xfb) => (2..2048).contains(&len),
        (MysqlResponseForm::Result, 1..=0xfa) => len <= 2,
        (MysqlResponseForm::Result, 0xfc) => (3..=4).contains(&len),
        _ => false,
    }
}

/// Whether a packet ends the rows: EOF or its OK form. Rows with this first byte are over 16 MiB.
fn ends_rows(p: &MysqlPacket<'_>) -> bool {
    p.first() == Some(0xfe) && p.len < PACKET_MAX
}

fn is_eof(p: &MysqlPacket<'_>) -> bool {
    p.first() == Some(0xfe) && p.len <= EOF_LEN_MAX
}

/// Server status in an OK or EOF packet, if present (from 4.1 on) and captured.
fn status(p: &MysqlPacket<'_>) -> Option<u64> {
    let mut f = MysqlFieldReader(p.head.get(1..)?);
    if is_eof(p) {
        return f.take(2).and_then(|_| f.int(2));
    }
    f.lenenc().and_then(|_| f.lenenc()).and_then(|_| f.int(2))
}

/// The relevant part of a packet is missing or invalid.
#[derive(Debug, PartialEq, Eq)]
struct MysqlUnreadablePacket;

/// Session state of an OK packet: the name of the schema, if changed.
fn changed_database(payload: &[u8]) -> Result<Option<&[u8]>, MysqlUnreadablePacket> {
    let mut changes = match state_changes(payload).ok_or(MysqlUnreadablePacket)? {
        Some(changes) => MysqlFieldReader(changes),
        None => return Ok(None),
    };
    while let Some(kind) = changes.int(1) {
        let change = changes.lenenc_str().ok_or(MysqlUnreadablePacket)?;
        if kind == SCHEMA_CHANGED {
            return MysqlFieldReader(change)
                .lenenc_str()
                .map(Some)
                .ok_or(MysqlUnreadablePacket);
        }
    }
    Ok(None)
}

/// State changes in an OK packet, if indicated.
fn state_changes(payload: &[u8]) -> Option<Option<&[u8]>> {
    let mut f = MysqlFieldReader(payload.get(1..)?);
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
fn is_bare_ok(p: &MysqlPacket<'_>) -> bool {
    const PREPARED_LEN: u32 = 12;
    const STATUS_AND_WARNINGS: usize = 4;
    let mut f = MysqlFieldReader(p.head.get(1..).unwrap_or_default());
    let counts = f.lenenc().and(f.lenenc());
    p.len != PREPARED_LEN && counts.is_some() && f.0.len() == STATUS_AND_WARNINGS
}

#[cfg(test)]
mod tests;
