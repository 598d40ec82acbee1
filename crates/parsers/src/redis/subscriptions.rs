//! Subscriptions of a connection, which determine whether the server replies or sends unsolicited messages.
//!
//! A subscription is confirmed per channel, with the current total. In RESP2 a confirmation or a published
//! message looks like an array reply: the request and the subscriptions distinguish them.

use crate::pairing::ResponseMatch;
use crate::request_response::ServerMessageRole;

use super::resp;

/// Commands with one reply per channel. Unsubscribe commands without arguments apply to all channels.
const CONFIRMED: [&[u8]; 6] = [
    b"subscribe",
    b"unsubscribe",
    b"psubscribe",
    b"punsubscribe",
    b"ssubscribe",
    b"sunsubscribe",
];
/// Kinds of published messages.
const PUBLISHED: [&[u8]; 3] = [b"message", b"pmessage", b"smessage"];

/// Subscriptions of one connection.
#[derive(Default)]
pub struct RedisSubscriptions {
    /// Number of channels, patterns, and shard channels; the server reports the sum of channels and patterns.
    counts: [u64; 3],
    knowledge: SubscriptionKnowledge,
    form: RespVersion,
    /// Remaining confirmations of the current reply.
    to_come: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SubscriptionKnowledge {
    #[default]
    Exact,
    /// Bytes are missing: any subscriptions are possible.
    None,
}

/// Format of published messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RespVersion {
    /// Messages arrive as arrays.
    #[default]
    Resp2,
    /// Messages arrive as pushes.
    Resp3,
}

impl RedisSubscriptions {
    /// Role of the message that begins with `head`; `asked` is the request it answers, if any.
    pub fn role(&mut self, head: &[u8], asked: Option<&[u8]>) -> ServerMessageRole {
        let is_push = head.first() == Some(&b'>');
        if is_push {
            self.form = RespVersion::Resp3;
        }
        let Some(kind) = kind(head) else {
            return if is_push {
                ServerMessageRole::Unsolicited
            } else {
                ServerMessageRole::Answer
            };
        };
        if let Some(nth) = CONFIRMED.iter().position(|name| *name == kind) {
            return self.confirm(nth, head, asked);
        }
        let may_be_subscribed =
            self.knowledge == SubscriptionKnowledge::None || self.counts.iter().any(|n| *n > 0);
        let is_published =
            PUBLISHED.contains(&kind) && self.form == RespVersion::Resp2 && may_be_subscribed;
        if is_push || is_published {
            ServerMessageRole::Unsolicited
        } else {
            ServerMessageRole::Answer
        }
    }

    /// Handles missing bytes of the server.
    pub fn lose(&mut self) {
        self.knowledge = SubscriptionKnowledge::None;
        self.to_come = 0;
    }

    /// Role of a confirmation, or of a message that looks like one.
    fn confirm(&mut self, nth: usize, head: &[u8], asked: Option<&[u8]>) -> ServerMessageRole {
        let is_asked = asked
            .and_then(resp::name)
            .is_some_and(|name| name.eq_ignore_ascii_case(CONFIRMED[nth]));
        if !is_asked && asked.is_some() && self.to_come == 0 && head.first() == Some(&b'*') {
            return ServerMessageRole::Answer;
        }
        let before = self.counts;
        if let Some(total) = total(head) {
            self.count(nth / 2, total);
        }
        if self.to_come > 0 {
            self.to_come -= 1;
        } else if let Some(asked) = asked.filter(|_| is_asked) {
            let named = resp::count(asked).saturating_sub(1);
            let all = if self.knowledge == SubscriptionKnowledge::Exact {
                before[nth / 2]
            } else {
                1
            };
            self.to_come = if named > 0 {
                named - 1
            } else {
                all.saturating_sub(1)
            };
        } else {
            // Part of a reply whose start or request is unknown.
            return ServerMessageRole::Fragment;
        }
        if self.to_come == 0 {
            ServerMessageRole::Answer
        } else {
            ServerMessageRole::AnswerGoesOn
        }
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

/// Whether a response can answer a request, by the stored heads of both.
pub fn fit(request: &[u8], response: &[u8]) -> ResponseMatch {
    let asked = resp::name(request).unwrap_or_default();
    let is_confirmed = CONFIRMED
        .iter()
        .any(|name| name.eq_ignore_ascii_case(asked));
    match (response.first(), kind(response)) {
        (_, Some(kind)) if is_confirmed && kind.eq_ignore_ascii_case(asked) => ResponseMatch::Maybe,
        (Some(b'>'), _) => ResponseMatch::No,
        (Some(b'-' | b'!' | b'+' | b'|'), _) => ResponseMatch::Maybe,
        _ if is_confirmed => ResponseMatch::No,
        _ => ResponseMatch::Maybe,
    }
}

/// The first string of an array or a push.
fn kind(head: &[u8]) -> Option<&[u8]> {
    if matches!(head.first(), Some(b'*' | b'>')) {
        resp::name(head)
    } else {
        None
    }
}

/// The number at the end of a confirmation.
fn total(head: &[u8]) -> Option<u64> {
    let line = head.strip_suffix(b"\r\n")?;
    let colon = line.iter().rposition(|b| *b == b':')?;
    std::str::from_utf8(&line[colon + 1..]).ok()?.parse().ok()
}
