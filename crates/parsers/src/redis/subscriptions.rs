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
    to_come: ConfirmationsToCome,
}

/// Remaining confirmations of the current reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConfirmationsToCome {
    Known(u64),
    /// An UNSUBSCRIBE from all channels, of which it is unknown how many there are: its reply ends at a message that
    /// does not confirm one subscription less than `total`, because a server executes a command at once.
    AllOf {
        nth: usize,
        total: Option<u64>,
    },
}

impl Default for ConfirmationsToCome {
    fn default() -> Self {
        ConfirmationsToCome::Known(0)
    }
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
        if let Some(nth) = confirmed(kind) {
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
        self.to_come = ConfirmationsToCome::default();
    }

    /// Whether the message that begins with `head` may belong to the reply in progress. If not, the reply has ended.
    pub fn goes_on(&mut self, head: &[u8]) -> bool {
        let confirmed = kind(head).and_then(confirmed);
        let goes_on = match self.to_come {
            ConfirmationsToCome::Known(_) => {
                confirmed.is_some()
                    || kind(head).is_some_and(|kind| PUBLISHED.contains(&kind))
                    || head.first() == Some(&b'>')
            }
            ConfirmationsToCome::AllOf { nth, total: before } => {
                confirmed == Some(nth)
                    && before.is_none_or(|n| total(head).is_none_or(|total| total + 1 == n))
            }
        };
        if !goes_on {
            self.to_come = ConfirmationsToCome::default();
        }
        goes_on
    }

    /// Role of a confirmation, or of a message that looks like one.
    fn confirm(&mut self, nth: usize, head: &[u8], asked: Option<&[u8]>) -> ServerMessageRole {
        let is_asked = asked
            .and_then(resp::name)
            .is_some_and(|name| name.eq_ignore_ascii_case(CONFIRMED[nth]));
        let is_begun = self.to_come != ConfirmationsToCome::default();
        if !is_asked && asked.is_some() && !is_begun && head.first() == Some(&b'*') {
            self.knowledge = SubscriptionKnowledge::None;
            return ServerMessageRole::Answer;
        }
        self.count(nth / 2, total(head));
        self.to_come = match (self.to_come, asked.filter(|_| is_asked)) {
            (ConfirmationsToCome::Known(n @ 1..), _) => ConfirmationsToCome::Known(n - 1),
            (ConfirmationsToCome::AllOf { .. }, _) => self.rest_of_all(nth, head),
            (_, Some(asked)) => match resp::count(asked).saturating_sub(1) {
                0 => self.rest_of_all(nth, head),
                named => ConfirmationsToCome::Known(named - 1),
            },
            // Part of a reply whose start or request is unknown.
            (_, None) => return ServerMessageRole::Fragment,
        };
        match self.to_come {
            ConfirmationsToCome::Known(0) => ServerMessageRole::Answer,
            ConfirmationsToCome::Known(_) => ServerMessageRole::AnswerGoesOn,
            ConfirmationsToCome::AllOf { .. } => ServerMessageRole::AnswerMayGoOn,
        }
    }

    /// Confirmations after `head` if a client unsubscribes from all.
    fn rest_of_all(&self, nth: usize, head: &[u8]) -> ConfirmationsToCome {
        let total = total(head);
        // Without a subscription, no channel is named.
        let is_none = total.is_some() && resp::words(head).nth(1) == Some(None);
        let shard_channels = 2;
        if total == Some(0) || is_none {
            ConfirmationsToCome::Known(0)
        } else if self.knowledge == SubscriptionKnowledge::Exact
            || total.is_some() && nth / 2 == shard_channels
        {
            ConfirmationsToCome::Known(self.counts[nth / 2])
        } else {
            ConfirmationsToCome::AllOf { nth, total }
        }
    }

    /// Sets the number of subscriptions by the total of channels and patterns, or of shard channels.
    fn count(&mut self, of: usize, total: Option<u64>) {
        let Some(total) = total else {
            self.knowledge = SubscriptionKnowledge::None;
            return;
        };
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

/// Position of a command in [`CONFIRMED`].
fn confirmed(kind: &[u8]) -> Option<usize> {
    CONFIRMED.iter().position(|name| *name == kind)
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
