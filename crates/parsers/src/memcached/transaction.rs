//! What is kept of a request and of a response, and whether the one can be the answer to the other.

use wire::Timestamp;

use super::command::{Class, Command, Status};
use super::keys::Keys;
use super::reply::{Kind, Reply};
use super::words::Words;
use crate::pairing::{Answers, Expects, Fit, Seen};

/// Most keys of a response whose request is not known that are kept.
const CAME_MAX: usize = 1024;
/// Longest key that a server takes.
pub const KEY_MAX: usize = 250;
/// Most memory for other texts that a place in the queue keeps for the next message there.
const KEPT_BYTES: usize = 256;

/// How the keys of a request are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyForm {
    #[default]
    Plain,
    Base64,
}

/// What the answer to a meta command repeats of it, besides its opaque token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Echo {
    #[default]
    Nothing,
    Key,
}

/// What a server does with the value of a request that it refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Refused {
    /// Passes over it.
    #[default]
    Skipped,
    /// Old ones take it for commands.
    MayBeRead,
}

/// What the text that is kept besides the keys is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Label {
    #[default]
    None,
    /// The word of a command that is not a known one.
    Name,
    /// The opaque token of a meta command.
    Tag,
}

/// One request.
#[derive(Debug, Default)]
pub struct Request {
    pub command: Command,
    pub class: Class,
    pub expects: Expects,
    pub key_form: KeyForm,
    pub echo: Echo,
    pub refused: Refused,
    pub seen: Seen,
    label: Label,
    /// Binary: the number that its response repeats.
    pub opaque: u32,
    /// Length of the value it carries.
    pub value_bytes: Option<u64>,
    /// When its last byte so far came.
    pub last: Timestamp,
    /// What it asks for, and of what came back the lengths.
    pub keys: Keys,
    text: Vec<u8>,
}

/// What a line or header says of the request that begins with it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked<'a> {
    pub command: Command,
    pub class: Class,
    pub expects: Expects,
    pub key_form: KeyForm,
    pub echo: Echo,
    pub refused: Refused,
    pub opaque: u32,
    pub value_bytes: Option<u64>,
    pub label: (Label, &'a [u8]),
}

impl Request {
    /// Becomes the one that is `asked`, as yet without keys.
    #[inline]
    pub fn become_one(&mut self, asked: &Asked<'_>, last: Timestamp) {
        let Asked { command, class, expects, key_form, echo, refused, opaque, value_bytes, label } = *asked;
        (self.command, self.class, self.expects) = (command, class, expects);
        (self.key_form, self.echo, self.refused) = (key_form, echo, refused);
        (self.seen, self.opaque, self.value_bytes, self.last) = (Seen::Whole, opaque, value_bytes, last);
        self.keys.clear();
        self.text.clear();
        self.label = label.0;
        self.text.extend_from_slice(label.1);
    }

    /// Bytes that go on with it.
    #[inline]
    pub fn extend(&mut self, ts: Timestamp) {
        self.last = self.last.max(ts);
        self.seen.go_on();
    }

    /// The command's name.
    pub fn name(&self) -> &[u8] {
        self.command.name().unwrap_or(if self.label == Label::Name { &self.text } else { b"" })
    }

    fn tag(&self) -> Option<&[u8]> {
        (self.label == Label::Tag).then_some(&self.text)
    }

    /// Memory in use.
    #[inline]
    pub fn weight(&self) -> usize {
        self.keys.weight() + self.text.len()
    }

    /// Whether its answer, unless that is an error, repeats something of it.
    fn has_mark(&self) -> bool {
        self.label == Label::Tag || self.echo == Echo::Key
    }

    /// Whether it has this binary name.
    #[inline]
    pub fn is_named(&self, opcode: u8, opaque: u32, key: &[u8]) -> bool {
        let has_key = || key.is_empty() || self.keys.get(0).is_none_or(|(asked, _)| asked == key);
        self.command == Command::Binary(opcode) && self.opaque == opaque && has_key()
    }

    /// Lets go of memory beyond the usual.
    #[inline]
    pub fn trim(&mut self) {
        self.keys.trim();
        if self.text.capacity() > KEPT_BYTES {
            self.text = Vec::new();
        }
    }
}

/// What a response says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Said {
    /// Nothing that was seen.
    #[default]
    Nothing,
    /// A first line, and one that ends it.
    Text { first: Kind, last: Option<Kind> },
    /// A header.
    Binary { opcode: u8, opaque: u32, status: Status },
}

/// One response.
#[derive(Debug, Default)]
pub struct Response {
    pub said: Said,
    pub seen: Seen,
    /// Length of the value it carries, where that is not told key by key.
    pub value_bytes: Option<u64>,
    /// When its last byte so far came.
    pub last: Timestamp,
    /// The keys that came back, as long as it is not known who asked for them.
    pub came: Keys,
    /// The flags of a meta response, on the same condition.
    flags: Vec<u8>,
}

impl Response {
    /// Becomes one of which nothing is known yet.
    #[inline]
    pub fn become_one(&mut self, said: Said, last: Timestamp) {
        (self.said, self.seen, self.value_bytes, self.last) = (said, Seen::Whole, None, last);
        self.came.clear();
        self.flags.clear();
    }

    /// Keeps what tells later which request it answers.
    pub fn keep_flags(&mut self, flags: Words<'_>) {
        self.flags.extend_from_slice(flags.0);
    }

    /// Notes a returned key without a known request.
    pub fn keep_key(&mut self, key: &[u8], value_bytes: Option<u64>) {
        if self.came.len() < CAME_MAX {
            self.came.push(&key[..key.len().min(KEY_MAX)], value_bytes);
        }
    }

    /// Bytes that go on with it.
    #[inline]
    pub fn extend(&mut self, ts: Timestamp) {
        self.last = self.last.max(ts);
        self.seen.go_on();
    }

    /// The line that ends it.
    #[inline]
    pub fn end_with(&mut self, kind: Kind) {
        if let Said::Text { last, .. } = &mut self.said {
            *last = Some(kind);
        }
    }

    /// What it says of a command of this class; for a retrieval, of the keys that did not come back.
    pub fn status(&self, class: Class) -> Status {
        match self.said {
            Said::Text { last: Some(kind), .. } => kind.status(class),
            Said::Binary { status, .. } => status,
            Said::Text { last: None, .. } | Said::Nothing => Status::Unknown,
        }
    }

    /// The command it names, or that alone is answered so.
    pub fn command(&self) -> Command {
        match self.said {
            Said::Binary { opcode, .. } => Command::Binary(opcode),
            Said::Text { first, .. } => first.command().unwrap_or_default(),
            Said::Nothing => Command::Unseen,
        }
    }

    /// Lets go of memory beyond the usual.
    #[inline]
    pub fn trim(&mut self) {
        self.came.trim();
        if self.flags.capacity() > KEPT_BYTES {
            self.flags = Vec::new();
        }
    }
}

impl Answers<Request> for Response {
    fn fit(&self, request: &Request) -> Fit {
        match self.said {
            // What is not kept cannot be compared.
            _ if self.came.len() >= CAME_MAX => Fit::No,
            Said::Binary { opcode, opaque, .. } => {
                let key = self.came.get(0).map_or(&b""[..], |(key, _)| key);
                fit_binary(request, opcode, opaque, key)
            }
            Said::Text { first: Kind::Value, .. } if !request.keys.has_all(&self.came) => Fit::No,
            Said::Text { first, .. } => fit_text(request, first, Words(&self.flags)),
            Said::Nothing => Fit::Maybe,
        }
    }
}

/// Whether a reply can be the first line of the answer to `request`.
#[inline]
pub fn fit_reply(request: &Request, reply: &Reply<'_>) -> Fit {
    match reply.kind {
        Kind::Value if !request.keys.has(reply.key) => Fit::No,
        kind => fit_text(request, kind, reply.flags),
    }
}

#[inline]
fn fit_text(request: &Request, kind: Kind, flags: Words<'_>) -> Fit {
    let quiet = request.expects == Expects::Perhaps;
    if !kind.answers(request.class) || quiet && kind.is_hushed(request.class) {
        return Fit::No;
    }
    if !flags.0.is_empty() {
        return fit_flags(request, flags);
    }
    // Where the request has a token or asks for its key back, only an error comes without.
    if quiet && request.has_mark() && !kind.is_error() { Fit::No } else { Fit::Maybe }
}

fn fit_flags(request: &Request, flags: Words<'_>) -> Fit {
    let mut fit =
        if request.expects == Expects::Perhaps && request.has_mark() { Fit::No } else { Fit::Maybe };
    for word in flags {
        let expected = match word[0] {
            b'O' => request.tag(),
            b'k' if request.echo == Echo::Key => request.keys.get(0).map(|(key, _)| key),
            b'k' => None,
            _ => continue,
        };
        if expected != Some(&word[1..]) {
            return Fit::No;
        }
        fit = Fit::Sure;
    }
    fit
}

/// Whether a binary response can be the answer to `request`.
#[inline]
pub fn fit_binary(request: &Request, opcode: u8, opaque: u32, key: &[u8]) -> Fit {
    match request.is_named(opcode, opaque, key) {
        false => Fit::No,
        true if key.is_empty() || request.keys.is_empty() => Fit::Maybe,
        true => Fit::Sure,
    }
}
