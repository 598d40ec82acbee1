//! Outstanding questions, found by id and question; the oldest is evicted first. A freed slot keeps its
//! buffer for the next question.

use flow::StreamPlace;
use hashbrown::HashTable;
use wire::Timestamp;

use super::message::{self, DnsHeader};
use crate::{Direction, MessageSpan, TupleQuality};

/// Maximum outstanding queries of a flow, and of those with the same id, which are compared for each message.
pub const QUESTIONS_MAX: usize = 1 << 17;
pub const SAME_ID_MAX: usize = 64;
/// Age after the last transmission at which a query is considered unanswered; longer than resolvers wait.
const PATIENCE_NS: i64 = 30_000_000_000;
/// No slot.
const NONE: u32 = u32::MAX;

/// An outstanding question.
#[derive(Clone, Debug)]
pub struct DnsPendingQuery {
    pub direction: Direction,
    pub header: DnsHeader,
    /// Name, type, and class as on the wire.
    pub question: Vec<u8>,
    /// Time of the first transmission.
    pub span: MessageSpan,
    /// Time of the last transmission.
    pub last_sent: Timestamp,
    /// Position in the byte stream; TCP only.
    pub place: Option<StreamPlace>,
    /// Search method by which the message was found, unless it directly followed another message.
    pub found: Option<TupleQuality>,
    /// Whether bytes are missing.
    pub gap: bool,
    /// Length in bytes.
    pub bytes: u32,
    /// Number of retransmissions.
    pub retries: u32,
}

/// The question repeated in a response, as far as captured.
#[derive(Clone, Copy, Debug)]
pub enum DnsQuestionEcho<'a> {
    /// Complete.
    Whole(&'a [u8]),
    /// The first bytes of the question.
    Beginning(&'a [u8]),
    /// Absent: only the id identifies the question.
    Nothing,
}

#[derive(Debug)]
struct DnsQuerySlot {
    asked: DnsPendingQuery,
    /// Neighbors in the list by age.
    older: u32,
    newer: u32,
}

/// Outstanding questions of a flow.
#[derive(Debug)]
pub struct DnsPendingQueries {
    slots: Vec<DnsQuerySlot>,
    by_id: HashTable<u32>,
    free: Vec<u32>,
    oldest: u32,
    newest: u32,
}

impl Default for DnsPendingQueries {
    fn default() -> Self {
        DnsPendingQueries {
            slots: Vec::new(),
            by_id: HashTable::new(),
            free: Vec::new(),
            oldest: NONE,
            newest: NONE,
        }
    }
}

impl DnsPendingQueries {
    /// Slot of the same question of `direction` with `id`; otherwise the slot to evict for it, if any.
    pub fn find(
        &self,
        direction: Direction,
        id: u16,
        question: &[u8],
    ) -> Result<usize, Option<usize>> {
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
        let of_id = self
            .by_id
            .iter_hash(hash(id))
            .filter(|at| self.slots[**at as usize].asked.header.id == id);
        of_id
            .min_by_key(|at| self.slots[**at as usize].asked.last_sent)
            .map(|at| *at as usize)
    }

    /// Slot of the question that a response answers. An incomplete repetition must match exactly one.
    pub fn find_asked(
        &self,
        asker: Direction,
        id: u16,
        repeated: DnsQuestionEcho<'_>,
    ) -> Option<usize> {
        let fits = |asked: &DnsPendingQuery| match repeated {
            DnsQuestionEcho::Whole(question) => message::is_same(&asked.question, question),
            DnsQuestionEcho::Beginning(seen) => message::may_be(&asked.question, seen),
            DnsQuestionEcho::Nothing => true,
        };
        let fitting = |at: &&u32| {
            let asked = &self.slots[**at as usize].asked;
            asked.direction == asker && asked.header.id == id && fits(asked)
        };
        if let DnsQuestionEcho::Whole(_) = repeated {
            return self.find_where(asker, id, fits);
        }
        let mut all = self.by_id.iter_hash(hash(id)).filter(fitting);
        all.next()
            .filter(|_| all.next().is_none())
            .map(|at| *at as usize)
    }

    fn find_where(
        &self,
        asker: Direction,
        id: u16,
        mut fits: impl FnMut(&DnsPendingQuery) -> bool,
    ) -> Option<usize> {
        let found = self.by_id.find(hash(id), |at| {
            let asked = &self.slots[*at as usize].asked;
            asked.header.id == id && asked.direction == asker && fits(asked)
        });
        found.map(|at| *at as usize)
    }

    /// The question in a slot.
    pub fn get(&mut self, place: usize) -> &mut DnsPendingQuery {
        &mut self.slots[place].asked
    }

    /// Adds a question; `question` is copied into a free buffer.
    pub fn enter(&mut self, asked: DnsPendingQuery, question: &[u8]) {
        let at = self.free.pop().unwrap_or(self.slots.len() as u32);
        let id = asked.header.id;
        let slot = DnsQuerySlot {
            asked,
            older: self.newest,
            newer: NONE,
        };
        match self.slots.get_mut(at as usize) {
            Some(free) => {
                let mut buffer = std::mem::take(&mut free.asked.question);
                buffer.clear();
                *free = slot;
                free.asked.question = buffer;
            }
            None => self.slots.push(slot),
        }
        self.slots[at as usize]
            .asked
            .question
            .extend_from_slice(question);
        self.link(self.newest, NONE, at, at);
        let slots = &self.slots;
        self.by_id
            .insert_unique(hash(id), at, |at| hash(slots[*at as usize].asked.header.id));
    }

    /// The oldest question.
    pub fn oldest(&self) -> Option<usize> {
        (self.oldest != NONE).then_some(self.oldest as usize)
    }

    /// The oldest query if it has timed out at `now`.
    pub fn expired(&self, now: Timestamp) -> Option<usize> {
        self.oldest()
            .filter(|place| now.since(self.slots[*place].asked.last_sent) > PATIENCE_NS)
    }

    /// Removes a question.
    pub fn remove(&mut self, place: usize) {
        let at = place as u32;
        let DnsQuerySlot {
            older,
            newer,
            ref asked,
        } = self.slots[place];
        if let Ok(entry) = self
            .by_id
            .find_entry(hash(asked.header.id), |other| *other == at)
        {
            entry.remove();
        }
        self.link(older, newer, newer, older);
        self.free.push(at);
    }

    /// Makes `next` follow `older`, and `last` precede `newer`.
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

/// Chosen collisions slow down only the sender's own flow, up to the limit.
fn hash(id: u16) -> u64 {
    u64::from(id).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
