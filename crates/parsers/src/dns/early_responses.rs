//! Unmatched responses over UDP: those captured before their question, and those sent before. Also exchanges
//! of which one half was written alone, so that the other half does not become a second row.

use std::collections::VecDeque;

use hashbrown::HashTable;
use wire::Timestamp;

use super::message::{self, DnsHeader, DnsQuestion};
use super::pending_queries::DnsPendingQuery;
use crate::Direction;

/// Maximum time by which a response may be captured before its question.
pub const SKEW_NS: i64 = 1_000_000;
/// Maximum number of held responses, and of bytes stored for each.
const HELD_MAX: usize = 32;
const HELD_BYTES_MAX: usize = 4096;
/// Maximum number of answered queries to remember.
const ANSWERED_MAX: usize = 64;
const ANSWERED_NS: i64 = 30_000_000_000;

/// A response captured before its question.
#[derive(Debug)]
pub struct DnsEarlyResponse {
    pub direction: Direction,
    pub bytes: Vec<u8>,
    /// Length on the wire.
    pub len: u32,
    pub ts: Timestamp,
}

/// Held responses, oldest first.
#[derive(Debug, Default)]
pub struct DnsEarlyResponses {
    answers: VecDeque<DnsEarlyResponse>,
}

impl DnsEarlyResponses {
    /// Holds a response; returns the oldest if the limit is exceeded.
    pub fn hold(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        len: u32,
        ts: Timestamp,
    ) -> Option<DnsEarlyResponse> {
        let bytes = bytes[..bytes.len().min(HELD_BYTES_MAX)].to_vec();
        self.answers.push_back(DnsEarlyResponse {
            direction,
            bytes,
            len,
            ts,
        });
        if self.answers.len() > HELD_MAX {
            self.answers.pop_front()
        } else {
            None
        }
    }

    /// Removes and returns the response to a question.
    pub fn take(&mut self, asked: &DnsPendingQuery, question: &[u8]) -> Option<DnsEarlyResponse> {
        let at = self
            .answers
            .iter()
            .position(|held| answers(held, asked, question))?;
        self.answers.remove(at)
    }

    /// Removes and returns the oldest response if a question of `asker` sent before `now` would already have
    /// been captured.
    pub fn take_overdue(&mut self, asker: Direction, now: Timestamp) -> Option<DnsEarlyResponse> {
        self.answers
            .pop_front_if(|held| held.direction != asker && held.ts.plus(SKEW_NS) < now)
    }

    /// Removes and returns the oldest response.
    pub fn take_oldest(&mut self) -> Option<DnsEarlyResponse> {
        self.answers.pop_front()
    }
}

fn answers(held: &DnsEarlyResponse, asked: &DnsPendingQuery, question: &[u8]) -> bool {
    let Some(header) = DnsHeader::read(&held.bytes) else {
        return false;
    };
    let same = matches!(DnsQuestion::read(&held.bytes, header), DnsQuestion::Whole(q) if message::is_same(q, question));
    same && header.id == asked.header.id && held.direction != asked.direction
}

/// Ring of recently answered questions.
#[derive(Debug, Default)]
pub struct DnsAnsweredQueries {
    ring: Vec<(Direction, u16, u64, Timestamp)>,
    next: usize,
}

impl DnsAnsweredQueries {
    /// Records an answered question of `asker`.
    pub fn note(&mut self, asker: Direction, id: u16, question: &[u8], ts: Timestamp) {
        let entry = (asker, id, digest(question), ts);
        if self.ring.len() < ANSWERED_MAX {
            self.ring.push(entry);
        } else {
            self.ring[self.next] = entry;
            self.next = (self.next + 1) % ANSWERED_MAX;
        }
    }

    /// Whether this question of `asker` was answered shortly before `ts`; `question` is `None` if the
    /// response does not repeat it.
    pub fn knows(&self, asker: Direction, id: u16, question: Option<&[u8]>, ts: Timestamp) -> bool {
        let question = question.map(digest);
        self.ring.iter().any(|(who, known, digest, then)| {
            (*who, *known) == (asker, id)
                && question.is_none_or(|question| question == *digest)
                && ts.since(*then) < ANSWERED_NS
        })
    }
}

/// Maximum number of exchanges of a flow with one half already written.
const TOLD_MAX: usize = 1 << 17;

/// Half of an exchange that was written alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DnsTransactionHalf {
    /// The question: its response timed out or it was evicted.
    Question,
    /// The response: it was evicted.
    Answer,
}

/// Exchanges of which one half was written alone: digests in two generations, of which the older is dropped
/// as a whole.
#[derive(Debug, Default)]
pub struct DnsUnpairedHalves {
    young: HashTable<u64>,
    old: HashTable<u64>,
}

impl DnsUnpairedHalves {
    /// Records the half written for `asker`'s question with `id`.
    pub fn note(&mut self, told: DnsTransactionHalf, asker: Direction, id: u16, question: &[u8]) {
        if self.young.len() >= TOLD_MAX / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        let key = key(told, asker, id, question);
        self.young.insert_unique(key, key, |key| *key);
    }

    /// Whether that half was written, and the other one was not seen since.
    pub fn take(
        &mut self,
        told: DnsTransactionHalf,
        asker: Direction,
        id: u16,
        question: &[u8],
    ) -> bool {
        if self.young.is_empty() && self.old.is_empty() {
            return false;
        }
        let key = key(told, asker, id, question);
        [&mut self.young, &mut self.old].into_iter().any(|keys| {
            keys.find_entry(key, |other| *other == key)
                .map(|entry| entry.remove())
                .is_ok()
        })
    }
}

fn key(told: DnsTransactionHalf, asker: Direction, id: u16, question: &[u8]) -> u64 {
    let which = u64::from(id) << 2 | (asker as u64) << 1 | told as u64;
    digest(question) ^ which.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// FNV-1a of the question with its name in lower case.
fn digest(question: &[u8]) -> u64 {
    let name = question.len().saturating_sub(4);
    let bytes = question.iter().enumerate();
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, (i, byte)| {
        let byte = if i < name {
            byte.to_ascii_lowercase()
        } else {
            *byte
        };
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
