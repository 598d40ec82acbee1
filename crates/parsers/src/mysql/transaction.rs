//! Stored part of a request until its response, and whether a response can answer it.

use wire::Timestamp;

use super::command::{self, DefaultDatabase, MysqlRequestKind, MysqlResponseForm};
use super::framing::MysqlPacket;
use super::response::MysqlResponse;
use crate::MessageSpan;
use crate::pairing::{MessageCompleteness, RequestMatcher, ResponseExpectation, ResponseMatch};

/// Maximum memory for text that a queue slot keeps for the next request.
pub const KEPT_BYTES: usize = 1 << 14;

/// One request.
#[derive(Debug)]
pub struct MysqlRequest {
    pub kind: MysqlRequestKind,
    /// Text of the request, up to a limit, if a column needs it.
    pub text: Vec<u8>,
    /// Part of the text within the limit was not captured.
    pub text_cut: bool,
    /// The text exceeds the limit.
    pub shortened: bool,
    /// Id of its prepared statement.
    pub statement: u32,
    /// Arrival of its first and last byte.
    pub span: MessageSpan,
    /// Bytes on the wire.
    pub wire_bytes: u64,
    /// Sequence number of its response.
    pub answer_seq: u8,
    pub seen: MessageCompleteness,
    /// Number of request losses before the request.
    pub losses: u32,
}

impl Default for MysqlRequest {
    fn default() -> Self {
        MysqlRequest {
            kind: MysqlRequestKind::Unseen,
            text: Vec::new(),
            text_cut: false,
            shortened: false,
            statement: 0,
            span: MessageSpan::at(Timestamp::MIN),
            wire_bytes: 0,
            answer_seq: 0,
            seen: MessageCompleteness::Whole,
            losses: 0,
        }
    }
}

impl MysqlRequest {
    /// Replaces the contents by the request of `kind` that begins with packet `p`.
    pub fn become_one(&mut self, kind: MysqlRequestKind, p: &MysqlPacket<'_>) {
        self.text.clear();
        let text = std::mem::take(&mut self.text);
        let seen = match (p.holed, p.open_end) {
            (_, true) => MessageCompleteness::OpenEnd,
            (true, false) => MessageCompleteness::Holed,
            (false, false) => MessageCompleteness::Whole,
        };
        *self = MysqlRequest {
            kind,
            text,
            span: p.span,
            wire_bytes: p.wire_len(),
            answer_seq: p.seq.wrapping_add(1),
            seen,
            ..MysqlRequest::default()
        };
    }

    /// Adds a packet that continues it.
    pub fn extend(&mut self, p: &MysqlPacket<'_>) {
        self.span.extend(p.span.last);
        self.wire_bytes += p.wire_len();
        self.answer_seq = self.answer_seq.wrapping_add(1);
        self.seen = match (self.seen, p.holed, p.open_end) {
            (MessageCompleteness::Cut, ..) => MessageCompleteness::Cut,
            (_, _, true) => MessageCompleteness::OpenEnd,
            (MessageCompleteness::Whole, false, _) => MessageCompleteness::Whole,
            _ => MessageCompleteness::Holed,
        };
    }

    /// Effect of its success on the default database.
    pub fn database_after(&self) -> DefaultDatabase {
        match self.kind {
            MysqlRequestKind::Command(command::INIT_DB) if self.text_cut => DefaultDatabase::Unread,
            MysqlRequestKind::Command(command::INIT_DB) if self.text.is_empty() => {
                DefaultDatabase::Unchanged
            }
            MysqlRequestKind::Command(command::INIT_DB) => DefaultDatabase::Is(self.text.clone()),
            MysqlRequestKind::Command(command::QUERY) => {
                command::database_after(&self.text, self.text_cut)
            }
            _ => DefaultDatabase::Unchanged,
        }
    }

    /// Form of the response.
    pub fn awaited(&self) -> MysqlResponseForm {
        self.kind.awaited()
    }

    /// Whether its response can begin with a packet of this number; `unordered`: numbers are meaningless.
    pub fn can_get(&self, seq: u8, unordered: bool) -> bool {
        unordered
            || self.seen == MessageCompleteness::Cut
            || self.awaited() == MysqlResponseForm::Auth
            || self.answer_seq == seq
    }
}

/// Whether a request of `kind` is answered.
pub fn expects(kind: MysqlRequestKind) -> ResponseExpectation {
    if kind.awaited() == MysqlResponseForm::Nothing {
        ResponseExpectation::Nothing
    } else {
        ResponseExpectation::Response
    }
}

impl RequestMatcher<MysqlRequest> for MysqlResponse {
    /// A response was parsed as that to one form of command; other forms do not match.
    fn fit(&self, request: &MysqlRequest) -> ResponseMatch {
        let fits =
            self.awaited() == request.awaited() && request.can_get(self.first_seq, self.unordered);
        if fits {
            ResponseMatch::Maybe
        } else {
            ResponseMatch::No
        }
    }
}
