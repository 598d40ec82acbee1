//! The texts of a connection's prepared statements, with their fingerprints once those were asked for.
//!
//! Bounded in number and bytes: the oldest go first, and what refers to them later has no text.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use super::fingerprint::fingerprint;
use super::transaction::LAST_STATEMENT as LAST;

const STATEMENTS_MAX: usize = 1024;
const TEXT_BYTES_MAX: usize = 1 << 20;

/// A statement.
#[derive(Default)]
pub struct Statement {
    /// Its text.
    pub text: Vec<u8>,
    fingerprint: Option<Box<[u8]>>,
}

impl Statement {
    /// Its fingerprint, made once.
    pub fn fingerprint(&mut self) -> &[u8] {
        self.fingerprint.get_or_insert_with(|| {
            let mut out = Vec::new();
            fingerprint(&self.text, &mut out);
            out.into()
        })
    }

    /// Its fingerprint, if it was asked for before.
    pub fn known_fingerprint(&self) -> Option<&[u8]> {
        self.fingerprint.as_deref()
    }
}

/// The statements by their ids.
#[derive(Default)]
pub struct Statements {
    by_id: HashMap<u32, Statement, BuildHasherDefault<IdHasher>>,
    /// Ids in the order of their preparation.
    order: VecDeque<u32>,
    text_bytes: usize,
    last: Option<u32>,
}

impl Statements {
    /// A statement was prepared.
    pub fn insert(&mut self, id: u32, text: Vec<u8>) {
        self.remove(id);
        self.last = Some(id);
        self.text_bytes += text.len();
        self.by_id.insert(id, Statement { text, fingerprint: None });
        self.order.push_back(id);
        while self.order.len() > STATEMENTS_MAX || self.text_bytes > TEXT_BYTES_MAX {
            let Some(oldest) = self.order.pop_front() else { break };
            self.forget(oldest);
        }
    }

    /// A statement was prepared whose text was not seen as a whole: what refers to it has none.
    pub fn insert_unread(&mut self, id: u32) {
        self.remove(id);
        self.last = None;
    }

    /// All statements are gone.
    pub fn clear(&mut self) {
        *self = Statements::default();
    }

    /// No statement was prepared although that was asked for.
    pub fn preparation_failed(&mut self) {
        self.last = None;
    }

    /// The statement called `id` by the client.
    pub fn find(&mut self, id: u32) -> Option<&mut Statement> {
        let id = if id == LAST { self.last? } else { id };
        self.by_id.get_mut(&id)
    }

    /// The statement was closed.
    pub fn remove(&mut self, id: u32) {
        let id = if id == LAST { self.last.unwrap_or(id) } else { id };
        if self.by_id.contains_key(&id) {
            self.forget(id);
            self.order.retain(|o| *o != id);
        }
    }

    fn forget(&mut self, id: u32) {
        if let Some(statement) = self.by_id.remove(&id) {
            self.text_bytes -= statement.text.len();
        }
    }
}

/// Servers count their statements; who sends ids to collide makes his own connection slow, up to the bound.
#[derive(Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u32(u32::from(*b)));
    }

    fn write_u32(&mut self, id: u32) {
        self.0 = (self.0 ^ u64::from(id)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_bounded() {
        let mut s = Statements::default();
        for id in 0..5000 {
            s.insert(id, vec![b'x'; 10]);
        }
        assert!(s.find(0).is_none() && s.find(4999).is_some());
        assert_eq!((s.by_id.len(), s.order.len()), (STATEMENTS_MAX, STATEMENTS_MAX));
        for id in 0..64 {
            s.insert(id, vec![b'x'; 60_000]);
        }
        assert!(s.text_bytes <= TEXT_BYTES_MAX);
        assert!(s.order.len() == s.by_id.len());
    }

    #[test]
    fn the_last_one_has_a_name() {
        let mut s = Statements::default();
        assert!(s.find(LAST).is_none());
        s.insert(3, b"a".to_vec());
        s.insert(4, b"b = 1".to_vec());
        let last = s.find(LAST).expect("a statement was prepared");
        assert_eq!((last.fingerprint().to_vec(), &last.text[..]), (b"b = ?".to_vec(), &b"b = 1"[..]));
        s.remove(4);
        assert!(s.find(LAST).is_none() && s.find(3).is_some());
        s.preparation_failed();
        assert!(s.find(LAST).is_none());
        s.insert(3, b"a".to_vec());
        s.insert_unread(3);
        assert!(s.find(LAST).is_none() && s.find(3).is_none());
    }
}
