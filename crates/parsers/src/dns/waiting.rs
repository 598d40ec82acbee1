//! Questions that wait for their answers: found by id and question, the oldest given up first. A place that becomes free
//! keeps its buffer for the next question.

use flow::Place;
use hashbrown::HashTable;
use wire::Timestamp;

use super::message::{self, Header};
use crate::{Direction, Quality, Span};

/// Maximum outstanding queries of a flow, and of those with the same id, which are compared for each message.
pub const QUESTIONS_MAX: usize = 1 << 17;
pub const SAME_ID_MAX: usize = 64;
/// Age at which a query, however often it was sent, is considered unanswered: resolvers give up sooner.
const PATIENCE_NS: i64 = 30_000_000_000;
/// No place.
const NONE: u32 = u32::MAX;

/// A question.
#[derive(Clone, Debug)]
pub struct Asked {
    pub direction: Direction,
    pub header: Header,
    /// Name, type and class as they were sent.
    pub question: Vec<u8>,
    /// When it was on the wire, for the first time.
    pub span: Span,
    /// When it was sent for the last time.
    pub last_sent: Timestamp,
    /// Over TCP where it begins in what both sides say.
    pub place: Option<Place>,
    /// How it was found, unless it followed another message.
    pub found: Option<Quality>,
    /// Bytes of it are missing.
    pub gap: bool,
    /// Its length.
    pub bytes: u32,
    /// How often it was sent again.
    pub retries: u32,
}

/// What an answer repeats of its question, as far as it was captured.
#[derive(Clone, Copy, Debug)]
pub enum Repeated<'a> {
    /// All of it.
    Whole(&'a [u8]),
    /// Its beginning.
    Beginning(&'a [u8]),
    /// Nothing: only the id tells.
    Nothing,
}

#[derive(Debug)]
struct Slot {
    asked: Asked,
    /// Neighbours among those that wait, by age.
    older: u32,
    newer: u32,
}

/// All questions of a flow.
#[derive(Debug)]
pub struct Waiting {
    slots: Vec<Slot>,
    by_id: HashTable<u32>,
    free: Vec<u32>,
    oldest: u32,
    newest: u32,
}

impl Default for Waiting {
    fn default() -> Self {
        Waiting { slots: Vec::new(), by_id: HashTable::new(), free: Vec::new(), oldest: NONE, newest: NONE }
    }
}

impl Waiting {
    /// Where the same question waits that `direction` asks with `id`; otherwise the question that has to make room for it.
    pub fn find(&self, direction: Direction, id: u16, question: &[u8]) -> Result<usize, Option<usize>> {
        let mut same_id = 0;
        let found = self.find_where(direction, id, |asked| {
            same_id += 1;
            message::is_same(&asked.question, question)
        });
        found.ok_or_else(|| match same_id {
            SAME_ID_MAX.. => self.oldest_of(id),
            _ => self.oldest().filter(|_| self.by_id.len() >= QUESTIONS_MAX),
        })
    }

    #[cold]
    fn oldest_of(&self, id: u16) -> Option<usize> {
        let of_id =
            self.by_id.iter_hash(hash(id)).filter(|at| self.slots[**at as usize].asked.header.id == id);
        of_id.min_by_key(|at| self.slots[**at as usize].asked.last_sent).map(|at| *at as usize)
    }

    /// Where the question waits that an answer speaks of. What does not repeat all of it answers the only one it can.
    pub fn find_asked(&self, asker: Direction, id: u16, repeated: Repeated<'_>) -> Option<usize> {
        let fits = |asked: &Asked| match repeated {
            Repeated::Whole(question) => message::is_same(&asked.question, question),
            Repeated::Beginning(seen) => message::may_be(&asked.question, seen),
            Repeated::Nothing => true,
        };
        let fitting = |at: &&u32| {
            let asked = &self.slots[**at as usize].asked;
            asked.direction == asker && asked.header.id == id && fits(asked)
        };
        if let Repeated::Whole(_) = repeated {
            return self.find_where(asker, id, fits);
        }
        let mut all = self.by_id.iter_hash(hash(id)).filter(fitting);
        all.next().filter(|_| all.next().is_none()).map(|at| *at as usize)
    }

    fn find_where(&self, asker: Direction, id: u16, mut fits: impl FnMut(&Asked) -> bool) -> Option<usize> {
        let found = self.by_id.find(hash(id), |at| {
            let asked = &self.slots[*at as usize].asked;
            asked.header.id == id && asked.direction == asker && fits(asked)
        });
        found.map(|at| *at as usize)
    }

    /// The question at `place`.
    pub fn get(&mut self, place: usize) -> &mut Asked {
        &mut self.slots[place].asked
    }

    /// A question waits from now on; `question` is copied into a buffer that is free.
    pub fn enter(&mut self, asked: Asked, question: &[u8]) {
        let at = self.free.pop().unwrap_or(self.slots.len() as u32);
        let id = asked.header.id;
        let slot = Slot { asked, older: self.newest, newer: NONE };
        match self.slots.get_mut(at as usize) {
            Some(free) => {
                let mut buffer = std::mem::take(&mut free.asked.question);
                buffer.clear();
                *free = slot;
                free.asked.question = buffer;
            }
            None => self.slots.push(slot),
        }
        self.slots[at as usize].asked.question.extend_from_slice(question);
        self.link(self.newest, NONE, at, at);
        let slots = &self.slots;
        self.by_id.insert_unique(hash(id), at, |at| hash(slots[*at as usize].asked.header.id));
    }

    /// The oldest.
    pub fn oldest(&self) -> Option<usize> {
        (self.oldest != NONE).then_some(self.oldest as usize)
    }

    /// The oldest query if it has timed out at `now`.
    pub fn expired(&self, now: Timestamp) -> Option<usize> {
        self.oldest().filter(|place| now.since(self.slots[*place].asked.last_sent) > PATIENCE_NS)
    }

    /// Takes a question out.
    pub fn remove(&mut self, place: usize) {
        let at = place as u32;
        let Slot { older, newer, ref asked } = self.slots[place];
        if let Ok(entry) = self.by_id.find_entry(hash(asked.header.id), |other| *other == at) {
            entry.remove();
        }
        self.link(older, newer, newer, older);
        self.free.push(at);
    }

    /// Behind `older` comes `next`, and before `newer` comes `last`.
    fn link(&mut self, older: u32, newer: u32, next: u32, last: u32) {
        match self.slots.get_mut(older as usize) {
            Some(slot) => slot.newer = next,
            None => self.oldest = next,
        }
        match self.slots.get_mut(newer as usize) {
            Some(slot) => slot.older = last,
            None => self.newest = last,
        }
    }
}

/// Who chooses ids to collide makes his own flow slow, up to the bound.
fn hash(id: u16) -> u64 {
    u64::from(id).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
