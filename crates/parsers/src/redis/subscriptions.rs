//! What a connection is subscribed to, as far as that says whether the server answers or speaks unasked.
//!
//! A subscription is confirmed for each channel, with the number of all there are then. With RESP2 a confirmation or a
//! published message looks like the reply to a command that lists values: what was asked and what is subscribed to tell.

use crate::pairing::Fit;
use crate::request_response::Role;

use super::resp;

/// Commands that are answered once for each channel. Those that end subscriptions without naming any do so for all.
const CONFIRMED: [&[u8]; 6] =
    [b"subscribe", b"unsubscribe", b"psubscribe", b"punsubscribe", b"ssubscribe", b"sunsubscribe"];
/// What published messages are called.
const PUBLISHED: [&[u8]; 3] = [b"message", b"pmessage", b"smessage"];

/// See the module's text.
#[derive(Default)]
pub struct Subscriptions {
    /// How many channels, patterns and channels of shards; of channels and patterns the server tells the sum.
    counts: [u64; 3],
    knowledge: Knowledge,
    form: Form,
    /// Confirmations that belong to the answer which has begun.
    to_come: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Knowledge {
    #[default]
    Exact,
    /// Something is missing: there may be any subscriptions.
    None,
}

/// How messages come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Form {
    /// As arrays.
    #[default]
    Resp2,
    /// As pushes.
    Resp3,
}

impl Subscriptions {
    /// What the message that begins with `head` is, if `asked` is what it answers.
    pub fn role(&mut self, head: &[u8], asked: Option<&[u8]>) -> Role {
        let is_push = head.first() == Some(&b'>');
        if is_push {
            self.form = Form::Resp3;
        }
        let Some(kind) = kind(head) else { return if is_push { Role::Unsolicited } else { Role::Answer } };
        if let Some(nth) = CONFIRMED.iter().position(|name| *name == kind) {
            return self.confirm(nth, head, asked);
        }
        let may_be_subscribed = self.knowledge == Knowledge::None || self.counts.iter().any(|n| *n > 0);
        let is_published = PUBLISHED.contains(&kind) && self.form == Form::Resp2 && may_be_subscribed;
        if is_push || is_published { Role::Unsolicited } else { Role::Answer }
    }

    /// Bytes of the server are missing.
    pub fn lose(&mut self) {
        (self.knowledge, self.to_come) = (Knowledge::None, 0);
    }

    /// A confirmation, or what looks like one.
    fn confirm(&mut self, nth: usize, head: &[u8], asked: Option<&[u8]>) -> Role {
        let is_asked =
            asked.and_then(resp::name).is_some_and(|name| name.eq_ignore_ascii_case(CONFIRMED[nth]));
        if !is_asked && asked.is_some() && self.to_come == 0 && head.first() == Some(&b'*') {
            return Role::Answer;
        }
        let before = self.counts;
        if let Some(total) = total(head) {
            self.count(nth / 2, total);
        }
        if self.to_come > 0 {
            self.to_come -= 1;
        } else if let Some(asked) = asked.filter(|_| is_asked) {
            let named = resp::count(asked).saturating_sub(1);
            let all = if self.knowledge == Knowledge::Exact { before[nth / 2] } else { 1 };
            self.to_come = if named > 0 { named - 1 } else { all.saturating_sub(1) };
        } else {
            // Of an answer of which the beginning was not seen, or not what it answers.
            return Role::Fragment;
        }
        if self.to_come == 0 { Role::Answer } else { Role::AnswerGoesOn }
    }

    /// Sets the number of subscriptions to channels and patterns, or to shard channels.
    fn count(&mut self, of: usize, total: u64) {
        let others = [self.counts[1], self.counts[0], 0][of];
        self.counts[of] = total.saturating_sub(others);
        if total == 0 {
            self.counts[of] = 0;
        }
    }
}

/// Whether a response can be to a request, by the kept heads of both.
pub fn fit(request: &[u8], response: &[u8]) -> Fit {
    let asked = resp::name(request).unwrap_or_default();
    let is_confirmed = CONFIRMED.iter().any(|name| name.eq_ignore_ascii_case(asked));
    match (response.first(), kind(response)) {
        (_, Some(kind)) if is_confirmed && kind.eq_ignore_ascii_case(asked) => Fit::Maybe,
        (Some(b'>'), _) => Fit::No,
        (Some(b'-' | b'!' | b'+' | b'|'), _) => Fit::Maybe,
        _ if is_confirmed => Fit::No,
        _ => Fit::Maybe,
    }
}

/// The string that an array or a push begins with.
fn kind(head: &[u8]) -> Option<&[u8]> {
    if matches!(head.first(), Some(b'*' | b'>')) { resp::name(head) } else { None }
}

/// The number that a confirmation ends with.
fn total(head: &[u8]) -> Option<u64> {
    let line = head.strip_suffix(b"\r\n")?;
    let colon = line.iter().rposition(|b| *b == b':')?;
    std::str::from_utf8(&line[colon + 1..]).ok()?.parse().ok()
}
