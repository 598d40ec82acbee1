//! Stored parts of a request and a response, and whether one can answer the other.

use wire::Timestamp;

use super::command::{MemcachedCommand, MemcachedCommandClass, MemcachedStatus};
use super::keys::MemcachedKeys;
use super::reply::{MemcachedReply, MemcachedReplyKind};
use super::words::{MemcachedKeyEncoding, MemcachedWords, MetaKeyEcho};
use crate::pairing::{MessageCompleteness, RequestMatcher, ResponseExpectation, ResponseMatch};

/// Maximum keys stored of a response without a known request.
const CAME_MAX: usize = 1024;
/// Maximum key length that a server accepts.
pub const KEY_MAX: usize = 250;
/// Maximum memory for other texts that a queue slot keeps for the next message.
const KEPT_BYTES: usize = 256;

/// Treatment of the value of a rejected request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RefusedValuePolicy {
    /// The value is skipped.
    #[default]
    Skipped,
    /// Old servers parse it as commands.
    MayBeRead,
}

/// Kind of the text stored besides the keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemcachedRequestLabel {
    #[default]
    None,
    /// Name of an unknown command.
    Name,
    /// Opaque token of a meta command.
    Tag,
}

/// One request.
#[derive(Debug, Default)]
pub struct MemcachedRequest {
    pub command: MemcachedCommand,
    pub class: MemcachedCommandClass,
    pub expects: ResponseExpectation,
    pub key_form: MemcachedKeyEncoding,
    pub echo: MetaKeyEcho,
    pub refused: RefusedValuePolicy,
    pub seen: MessageCompleteness,
    label: MemcachedRequestLabel,
    /// Binary: number repeated in its response.
    pub opaque: u32,
    /// Length of its value.
    pub value_bytes: Option<u64>,
    /// Arrival of its last byte so far.
    pub last: Timestamp,
    /// Requested keys, with the lengths of returned values.
    pub keys: MemcachedKeys,
    text: Vec<u8>,
}

/// Contents of a request's line or header.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemcachedRequestHead<'a> {
    pub command: MemcachedCommand,
    pub class: MemcachedCommandClass,
    pub expects: ResponseExpectation,
    pub key_form: MemcachedKeyEncoding,
    pub echo: MetaKeyEcho,
    pub refused: RefusedValuePolicy,
    pub opaque: u32,
    pub value_bytes: Option<u64>,
    pub label: (MemcachedRequestLabel, &'a [u8]),
}

impl MemcachedRequest {
    /// Replaces the contents by `asked`, without keys.
    #[inline]
    pub fn become_one(&mut self, asked: &MemcachedRequestHead<'_>, last: Timestamp) {
        let MemcachedRequestHead {
            command,
            class,
            expects,
            key_form,
            echo,
            refused,
            opaque,
            value_bytes,
            label,
        } = *asked;
        self.command = command;
        self.class = class;
        self.expects = expects;
        self.key_form = key_form;
        self.echo = echo;
        self.refused = refused;
        (self.seen, self.opaque, self.value_bytes, self.last) =
            (MessageCompleteness::Whole, opaque, value_bytes, last);
        self.keys.clear();
        self.text.clear();
        self.label = label.0;
        self.text.extend_from_slice(label.1);
    }

    /// Records that bytes of the message arrived at `ts`.
    #[inline]
    pub fn extend(&mut self, ts: Timestamp) {
        self.last = self.last.max(ts);
        self.seen.go_on();
    }

    /// Name of the command.
    pub fn name(&self) -> &[u8] {
        self.command
            .name()
            .unwrap_or(if self.label == MemcachedRequestLabel::Name {
                &self.text
            } else {
                b""
            })
    }

    fn tag(&self) -> Option<&[u8]> {
        (self.label == MemcachedRequestLabel::Tag).then_some(&self.text)
    }

    /// Memory in use, in bytes.
    #[inline]
    pub fn weight(&self) -> usize {
        self.keys.weight() + self.text.len()
    }

    /// Whether its response, unless an error, repeats a part of it.
    fn has_mark(&self) -> bool {
        self.label == MemcachedRequestLabel::Tag || self.echo == MetaKeyEcho::Key
    }

    /// Whether it matches this binary command.
    #[inline]
    pub fn is_named(&self, opcode: u8, opaque: u32, key: &[u8]) -> bool {
        let has_key = || key.is_empty() || self.keys.get(0).is_none_or(|(asked, _)| asked == key);
        self.command == MemcachedCommand::Binary(opcode) && self.opaque == opaque && has_key()
    }

    /// Frees memory above the limit.
    #[inline]
    pub fn trim(&mut self) {
        self.keys.trim();
        if self.text.capacity() > KEPT_BYTES {
            self.text = Vec::new();
        }
    }
}

/// Contents of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemcachedResponseSummary {
    /// Not seen.
    #[default]
    Nothing,
    /// First and last line of the text.
    Text {
        first: MemcachedReplyKind,
        last: Option<MemcachedReplyKind>,
    },
    /// A header.
    Binary {
        opcode: u8,
        opaque: u32,
        status: MemcachedStatus,
    },
}

/// One response.
#[derive(Debug, Default)]
pub struct MemcachedResponse {
    pub said: MemcachedResponseSummary,
    pub seen: MessageCompleteness,
    /// Length of its value, if not stored per key.
    pub value_bytes: Option<u64>,
    /// Arrival of its last byte so far.
    pub last: Timestamp,
    /// Returned keys, while the request is unknown.
    pub came: MemcachedKeys,
    /// Flags of a meta response, while the request is unknown.
    flags: Vec<u8>,
}

impl MemcachedResponse {
    /// Resets to an empty response.
    #[inline]
    pub fn become_one(&mut self, said: MemcachedResponseSummary, last: Timestamp) {
        (self.said, self.seen, self.value_bytes, self.last) =
            (said, MessageCompleteness::Whole, None, last);
        self.came.clear();
        self.flags.clear();
    }

    /// Stores the flags that identify the request.
    pub fn keep_flags(&mut self, flags: MemcachedWords<'_>) {
        self.flags.extend_from_slice(flags.0);
    }

    /// Records a returned key without a known request.
    pub fn keep_key(&mut self, key: &[u8], value_bytes: Option<u64>) {
        if self.came.len() < CAME_MAX {
            self.came.push(&key[..key.len().min(KEY_MAX)], value_bytes);
        }
    }

    /// Records that bytes of the message arrived at `ts`.
    #[inline]
    pub fn extend(&mut self, ts: Timestamp) {
        self.last = self.last.max(ts);
        self.seen.go_on();
    }

    /// Records its last line.
    #[inline]
    pub fn end_with(&mut self, kind: MemcachedReplyKind) {
        if let MemcachedResponseSummary::Text { last, .. } = &mut self.said {
            *last = Some(kind);
        }
    }

    /// Status for a command of this class; for a retrieval, of the keys that were not returned.
    pub fn status(&self, class: MemcachedCommandClass) -> MemcachedStatus {
        match self.said {
            MemcachedResponseSummary::Text {
                last: Some(kind), ..
            } => kind.status(class),
            MemcachedResponseSummary::Binary { status, .. } => status,
            MemcachedResponseSummary::Text { last: None, .. }
            | MemcachedResponseSummary::Nothing => MemcachedStatus::Unknown,
        }
    }

    /// The command it names or implies.
    pub fn command(&self) -> MemcachedCommand {
        match self.said {
            MemcachedResponseSummary::Binary { opcode, .. } => MemcachedCommand::Binary(opcode),
            MemcachedResponseSummary::Text { first, .. } => first.command().unwrap_or_default(),
            MemcachedResponseSummary::Nothing => MemcachedCommand::Unseen,
        }
    }

    /// Frees memory above the limit.
    #[inline]
    pub fn trim(&mut self) {
        self.came.trim();
        if self.flags.capacity() > KEPT_BYTES {
            self.flags = Vec::new();
        }
    }
}

impl RequestMatcher<MemcachedRequest> for MemcachedResponse {
    fn fit(&self, request: &MemcachedRequest) -> ResponseMatch {
        match self.said {
            // Keys beyond the limit cannot be compared.
            _ if self.came.len() >= CAME_MAX => ResponseMatch::No,
            MemcachedResponseSummary::Binary { opcode, opaque, .. } => {
                let key = self.came.get(0).map_or(&b""[..], |(key, _)| key);
                fit_binary(request, opcode, opaque, key)
            }
            MemcachedResponseSummary::Text {
                first: MemcachedReplyKind::Value,
                ..
            } if !request.keys.has_all(&self.came) => ResponseMatch::No,
            MemcachedResponseSummary::Text { first, .. } => {
                fit_text(request, first, MemcachedWords(&self.flags))
            }
            MemcachedResponseSummary::Nothing => ResponseMatch::Maybe,
        }
    }
}

/// Whether a reply can be the first line of the response to `request`.
#[inline]
pub fn fit_reply(request: &MemcachedRequest, reply: &MemcachedReply<'_>) -> ResponseMatch {
    match reply.kind {
        MemcachedReplyKind::Value if !request.keys.has(reply.key) => ResponseMatch::No,
        kind => fit_text(request, kind, reply.flags),
    }
}

#[inline]
fn fit_text(
    request: &MemcachedRequest,
    kind: MemcachedReplyKind,
    flags: MemcachedWords<'_>,
) -> ResponseMatch {
    let quiet = request.expects == ResponseExpectation::Perhaps;
    if !kind.answers(request.class) || quiet && kind.is_hushed(request.class) {
        return ResponseMatch::No;
    }
    if !flags.0.is_empty() {
        return fit_flags(request, flags);
    }
    // If the request has a token or wants its key repeated, only an error comes without it.
    if quiet && request.has_mark() && !kind.is_error() {
        ResponseMatch::No
    } else {
        ResponseMatch::Maybe
    }
}

fn fit_flags(request: &MemcachedRequest, flags: MemcachedWords<'_>) -> ResponseMatch {
    let mut fit = if request.expects == ResponseExpectation::Perhaps && request.has_mark() {
        ResponseMatch::No
    } else {
        ResponseMatch::Maybe
    };
    for word in flags {
        let expected = match word[0] {
            b'O' => request.tag(),
            b'k' if request.echo == MetaKeyEcho::Key => request.keys.get(0).map(|(key, _)| key),
            b'k' => None,
            _ => continue,
        };
        if expected != Some(&word[1..]) {
            return ResponseMatch::No;
        }
        fit = ResponseMatch::Sure;
    }
    fit
}

/// Whether a binary response can answer `request`.
#[inline]
pub fn fit_binary(
    request: &MemcachedRequest,
    opcode: u8,
    opaque: u32,
    key: &[u8],
) -> ResponseMatch {
    if !request.is_named(opcode, opaque, key) {
        ResponseMatch::No
    } else if key.is_empty() || request.keys.is_empty() {
        ResponseMatch::Maybe
    } else {
        ResponseMatch::Sure
    }
}
