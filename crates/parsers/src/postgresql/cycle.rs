//! The request of a cycle, stored until its response.

use std::ops::Range;

use wire::Timestamp;

use super::framing::PostgresMessage;
use super::messages::nul_text;
use crate::MessageSpan;
use crate::pairing::{MessageCompleteness, ResponseExpectation};

/// Maximum bytes kept of a statement's text.
pub const TEXT_MAX: usize = 1 << 16;
/// Maximum steps of a cycle that are held.
pub const STEPS_MAX: usize = 1 << 16;
/// Maximum memory for texts that a queue slot keeps for the next request.
const KEPT_BYTES: usize = 1 << 14;
const KEPT_STEPS: usize = 256;

/// Kind of a cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PostgresRequestKind {
    /// Not seen: only its response was.
    #[default]
    Unseen,
    /// SSLRequest.
    Ssl,
    /// GSSENCRequest.
    Gss,
    /// CancelRequest: on a connection of its own, without a response.
    Cancel,
    /// StartupMessage, and the rounds of authentication.
    Login,
    /// Query: a text of any number of statements.
    Query,
    /// Messages of the extended protocol up to Sync.
    Extended,
    /// FunctionCall.
    FunctionCall,
    /// Terminate.
    Terminate,
}

impl PostgresRequestKind {
    /// Whether the server responds.
    pub fn expects(self) -> ResponseExpectation {
        match self {
            PostgresRequestKind::Cancel | PostgresRequestKind::Terminate => {
                ResponseExpectation::Nothing
            }
            _ => ResponseExpectation::Response,
        }
    }
}

/// Message of the extended protocol that has a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostgresStepKind {
    Parse,
    Bind,
    Describe,
    Execute,
    Close,
}

impl PostgresStepKind {
    /// The step of the message type `kind`.
    pub fn of(kind: u8) -> Option<PostgresStepKind> {
        Some(match kind {
            b'P' => PostgresStepKind::Parse,
            b'B' => PostgresStepKind::Bind,
            b'D' => PostgresStepKind::Describe,
            b'E' => PostgresStepKind::Execute,
            b'C' => PostgresStepKind::Close,
            _ => return None,
        })
    }
}

/// A step of an extended cycle.
#[derive(Clone, Debug)]
pub struct PostgresStep {
    pub kind: PostgresStepKind,
    /// Arrival of its first and last byte.
    pub span: MessageSpan,
    pub wire_bytes: u32,
    /// Name of the statement (Parse), the portal (Bind, Execute), or either (Describe, Close), in the request's texts; `None` if it
    /// was not captured.
    pub name: Option<Range<u32>>,
    /// Text of the statement (Parse), or its name (Bind).
    pub text: Option<Range<u32>>,
    /// Describe and Close: it refers to a statement, not to a portal.
    pub is_of_statement: bool,
    /// The text exceeds [`TEXT_MAX`].
    pub is_shortened: bool,
}

/// The request of a cycle.
#[derive(Debug)]
pub struct PostgresRequest {
    pub kind: PostgresRequestKind,
    /// Steps that have no tuple yet; the first has the number `steps_done`.
    pub steps: Vec<PostgresStep>,
    pub steps_done: u32,
    /// Executions among the steps, with those that have tuples.
    pub executions: u32,
    /// Texts and names; for a Query and a login, the body.
    pub texts: Vec<u8>,
    /// The text of the Query exceeds [`TEXT_MAX`].
    pub is_shortened: bool,
    /// Part of the text within the limit is missing.
    pub is_text_cut: bool,
    pub span: MessageSpan,
    pub wire_bytes: u64,
    /// Length of the messages with copied data, and of their end.
    pub copied_bytes: u64,
    pub seen: MessageCompleteness,
    /// Number of losses of the client's bytes before it.
    pub losses: u32,
}

impl Default for PostgresRequest {
    fn default() -> Self {
        PostgresRequest {
            kind: PostgresRequestKind::Unseen,
            steps: Vec::new(),
            steps_done: 0,
            executions: 0,
            texts: Vec::new(),
            is_shortened: false,
            is_text_cut: false,
            span: MessageSpan::at(Timestamp::MIN),
            wire_bytes: 0,
            copied_bytes: 0,
            seen: MessageCompleteness::Whole,
            losses: 0,
        }
    }
}

impl PostgresRequest {
    /// Replaces the contents by a request of `kind` that begins at `first`.
    pub fn restart(&mut self, kind: PostgresRequestKind, first: Timestamp, losses: u32) {
        let mut steps = std::mem::take(&mut self.steps);
        let mut texts = std::mem::take(&mut self.texts);
        steps.clear();
        texts.clear();
        *self = PostgresRequest {
            kind,
            steps,
            texts,
            span: MessageSpan::at(first),
            losses,
            ..PostgresRequest::default()
        };
    }

    /// Frees memory that a long request took.
    pub fn shrink(&mut self) {
        if self.texts.capacity() > KEPT_BYTES {
            self.texts = Vec::new();
        }
        if self.steps.capacity() > KEPT_STEPS {
            self.steps = Vec::new();
        }
    }

    /// Memory besides the slot, in bytes.
    pub fn held_bytes(&self) -> usize {
        self.texts.len() + self.steps.len() * size_of::<PostgresStep>()
    }

    /// Adds a message of the request.
    pub fn add(&mut self, m: &PostgresMessage<'_>) {
        self.span.extend(m.span.last);
        self.wire_bytes += u64::from(m.wire_len);
        if m.open_end {
            self.seen = MessageCompleteness::OpenEnd;
        } else if m.holed || self.seen == MessageCompleteness::OpenEnd {
            self.seen = MessageCompleteness::Holed;
        }
    }

    /// Adds a message that is a step; returns whether there was room for it. `keeps_text`: texts of statements are wanted.
    pub fn add_step(
        &mut self,
        kind: PostgresStepKind,
        m: &PostgresMessage<'_>,
        keeps_text: bool,
    ) -> bool {
        self.add(m);
        if self.steps.len() >= STEPS_MAX {
            return false;
        }
        let body = m.head;
        let (is_of_statement, named) = match kind {
            PostgresStepKind::Describe | PostgresStepKind::Close => (
                body.first() == Some(&b'S'),
                body.get(1..).unwrap_or_default(),
            ),
            _ => (false, body),
        };
        let mut step = PostgresStep {
            kind,
            span: m.span,
            wire_bytes: m.wire_len,
            name: None,
            text: None,
            is_of_statement,
            is_shortened: false,
        };
        if let Some((name, rest)) = nul_text(named) {
            step.name = Some(self.keep(name));
            step.text = match kind {
                PostgresStepKind::Bind => nul_text(rest).map(|(name, _)| self.keep(name)),
                PostgresStepKind::Parse if keeps_text => {
                    let text = nul_text(rest).map_or(rest, |(text, _)| text);
                    let is_whole = text.len() < rest.len() || text.len() >= TEXT_MAX;
                    step.is_shortened = text.len() > TEXT_MAX || text.len() == rest.len();
                    let text = &text[..text.len().min(TEXT_MAX)];
                    is_whole.then(|| self.keep(text))
                }
                _ => None,
            };
        }
        self.executions += u32::from(kind == PostgresStepKind::Execute);
        self.steps.push(step);
        true
    }

    /// Sets the text of a Query or the parameters of a login.
    pub fn set_text(&mut self, m: &PostgresMessage<'_>) {
        let text = nul_text(m.head).map_or(m.head, |(text, _)| text);
        let text = if self.kind == PostgresRequestKind::Query {
            text
        } else {
            m.head
        };
        self.texts
            .extend_from_slice(&text[..text.len().min(TEXT_MAX)]);
        let is_long = self.texts.len() == TEXT_MAX;
        self.is_shortened = is_long && !(m.is_whole && text.len() == TEXT_MAX);
        self.is_text_cut = !is_long && !m.is_whole;
    }

    fn keep(&mut self, text: &[u8]) -> Range<u32> {
        let start = self.texts.len() as u32;
        self.texts.extend_from_slice(text);
        start..start + text.len() as u32
    }

    /// A name or text of a step.
    pub fn text(&self, range: &Option<Range<u32>>) -> Option<&[u8]> {
        let range = range.as_ref()?;
        self.texts.get(range.start as usize..range.end as usize)
    }

    /// Whether its response can begin with a message of type `kind`.
    pub fn can_begin(&self, kind: u8) -> bool {
        let of_step = |step: PostgresStepKind| match step {
            PostgresStepKind::Parse => b"1",
            PostgresStepKind::Bind => b"2",
            PostgresStepKind::Describe => &b"tTn"[..],
            PostgresStepKind::Execute => b"DCIsGHW",
            PostgresStepKind::Close => b"3",
        };
        if kind == b'E' {
            return true;
        }
        match self.kind {
            PostgresRequestKind::Unseen => true,
            PostgresRequestKind::Ssl | PostgresRequestKind::Gss => b"SNG".contains(&kind),
            PostgresRequestKind::Cancel | PostgresRequestKind::Terminate => false,
            PostgresRequestKind::Login => b"Rv".contains(&kind),
            PostgresRequestKind::Query => b"TCIGHWD".contains(&kind),
            PostgresRequestKind::FunctionCall => kind == b'V',
            PostgresRequestKind::Extended if self.seen == MessageCompleteness::Cut => true,
            PostgresRequestKind::Extended => match self.steps.first() {
                Some(step) if self.steps_done == 0 => of_step(step.kind).contains(&kind),
                Some(_) => true,
                None => kind == b'Z',
            },
        }
    }
}
