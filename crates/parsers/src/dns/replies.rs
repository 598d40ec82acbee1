//! Answers over UDP that no question waits for: those that were captured before their question, and those that were given before.
//! And exchanges of which one half was written alone, so that the other half, should it come, is not a second row.

use std::collections::VecDeque;

use hashbrown::HashTable;
use wire::Timestamp;

use super::message::{self, Header, Question};
use super::waiting::Asked;
use crate::Direction;

/// How much earlier than its question an answer may be captured.
pub const SKEW_NS: i64 = 1_000_000;
/// Most answers held, and bytes of each that are kept.
const HELD_MAX: usize = 32;
const HELD_BYTES_MAX: usize = 4096;
/// Maximum number of answered queries to remember.
const ANSWERED_MAX: usize = 64;
const ANSWERED_NS: i64 = 30_000_000_000;

/// An answer whose question has not come yet.
#[derive(Debug)]
pub struct Held {
    pub direction: Direction,
    pub bytes: Vec<u8>,
    /// Its length.
    pub len: u32,
    pub ts: Timestamp,
}

/// The answers held, oldest first.
#[derive(Debug, Default)]
pub struct Early {
    answers: VecDeque<Held>,
}

impl Early {
    /// Holds an answer; gives back one that does not fit any more.
    pub fn hold(&mut self, direction: Direction, bytes: &[u8], len: u32, ts: Timestamp) -> Option<Held> {
        let bytes = bytes[..bytes.len().min(HELD_BYTES_MAX)].to_vec();
        self.answers.push_back(Held { direction, bytes, len, ts });
        if self.answers.len() > HELD_MAX { self.answers.pop_front() } else { None }
    }

    /// Takes out the answer to a question.
    pub fn take(&mut self, asked: &Asked, question: &[u8]) -> Option<Held> {
        let at = self.answers.iter().position(|held| answers(held, asked, question))?;
        self.answers.remove(at)
    }

    /// Takes out the oldest, if `asker`, who speaks at `now`, would have asked before.
    pub fn take_overdue(&mut self, asker: Direction, now: Timestamp) -> Option<Held> {
        self.answers.pop_front_if(|held| held.direction != asker && held.ts.plus(SKEW_NS) < now)
    }

    /// Takes out the oldest.
    pub fn take_oldest(&mut self) -> Option<Held> {
        self.answers.pop_front()
    }
}

fn answers(held: &Held, asked: &Asked, question: &[u8]) -> bool {
    let Some(header) = Header::read(&held.bytes) else { return false };
    let same =
        matches!(Question::read(&held.bytes, header), Question::Whole(q) if message::is_same(q, question));
    same && header.id == asked.header.id && held.direction != asked.direction
}

/// Questions that were answered lately; a ring.
#[derive(Debug, Default)]
pub struct Answered {
    ring: Vec<(Direction, u16, u64, Timestamp)>,
    next: usize,
}

impl Answered {
    /// A question of `asker` was answered.
    pub fn note(&mut self, asker: Direction, id: u16, question: &[u8], ts: Timestamp) {
        let entry = (asker, id, digest(question), ts);
        if self.ring.len() < ANSWERED_MAX {
            self.ring.push(entry);
        } else {
            self.ring[self.next] = entry;
            self.next = (self.next + 1) % ANSWERED_MAX;
        }
    }

    /// Whether such a question of `asker` was answered shortly before `ts`; `question`: unless the answer does not repeat it.
    pub fn knows(&self, asker: Direction, id: u16, question: Option<&[u8]>, ts: Timestamp) -> bool {
        let question = question.map(digest);
        self.ring.iter().any(|(who, known, digest, then)| {
            (*who, *known) == (asker, id)
                && question.is_none_or(|question| question == *digest)
                && ts.since(*then) < ANSWERED_NS
        })
    }
}

/// Maximum exchanges of a flow with one half already written.
const TOLD_MAX: usize = 1 << 17;

/// Which half of an exchange was written alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The question, because its answer did not come in time or too many waited.
    Question,
    /// The answer, because too many were held.
    Answer,
}

/// Exchanges of which one half was written alone: digests in two generations, of which the older is dropped as a whole.
#[derive(Debug, Default)]
pub struct Halves {
    young: HashTable<u64>,
    old: HashTable<u64>,
}

impl Halves {
    /// One half of what `asker` asked with `id` was written.
    pub fn note(&mut self, told: Told, asker: Direction, id: u16, question: &[u8]) {
        if self.young.len() >= TOLD_MAX / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        let key = key(told, asker, id, question);
        self.young.insert_unique(key, key, |key| *key);
    }

    /// Whether that half was written, and the other one was not seen since.
    pub fn take(&mut self, told: Told, asker: Direction, id: u16, question: &[u8]) -> bool {
        if self.young.is_empty() && self.old.is_empty() {
            return false;
        }
        let key = key(told, asker, id, question);
        [&mut self.young, &mut self.old]
            .into_iter()
            .any(|keys| keys.find_entry(key, |other| *other == key).map(|entry| entry.remove()).is_ok())
    }
}

fn key(told: Told, asker: Direction, id: u16, question: &[u8]) -> u64 {
    let which = u64::from(id) << 2 | (asker as u64) << 1 | told as u64;
    digest(question) ^ which.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// FNV-1a of the question, the letters of its name in lower case.
fn digest(question: &[u8]) -> u64 {
    let name = question.len().saturating_sub(4);
    let bytes = question.iter().enumerate();
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, (i, byte)| {
        let byte = if i < name { byte.to_ascii_lowercase() } else { *byte };
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
