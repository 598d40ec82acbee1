//! Texts of a connection's prepared statements, with their fingerprints computed on demand.
//!
//! Bounded in bytes: the least recently used ones are evicted, and later executions of these have no text.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use super::SqlDialect;
use super::fingerprint::fingerprint_in;

/// MariaDB: the last prepared statement, for a client that does not wait for its id.
const LAST: u32 = u32::MAX;

/// Approximate memory of a statement besides its text and fingerprint, in bytes.
const OVERHEAD_BYTES: usize = 128;

/// A prepared statement.
#[derive(Default)]
pub struct PreparedStatement {
    /// Text of the statement.
    pub text: Vec<u8>,
    /// Whether the text is truncated.
    pub shortened: bool,
    fingerprint: Option<Box<[u8]>>,
    serial: u64,
    used: bool,
}

impl PreparedStatement {
    /// A statement outside of [`PreparedStatements`].
    pub fn new(text: Vec<u8>, shortened: bool) -> PreparedStatement {
        PreparedStatement {
            text,
            shortened,
            ..PreparedStatement::default()
        }
    }

    /// Memory in bytes; a fingerprint is about as long as the text.
    fn bytes(&self) -> usize {
        OVERHEAD_BYTES + 2 * self.text.len()
    }

    /// Fingerprint of the statement, computed once.
    pub fn fingerprint(&mut self, dialect: SqlDialect) -> &[u8] {
        self.fingerprint.get_or_insert_with(|| {
            let mut out = Vec::new();
            fingerprint_in(dialect, &self.text, &mut out);
            out.into()
        })
    }

    /// Fingerprint of the statement, if already computed.
    pub fn known_fingerprint(&self) -> Option<&[u8]> {
        self.fingerprint.as_deref()
    }
}

/// Prepared statements by id.
#[derive(Default)]
pub struct PreparedStatements {
    by_id: HashMap<u32, PreparedStatement, BuildHasherDefault<StatementIdHasher>>,
    /// Ids and serial numbers in eviction order: preparation, or the last check after use. May contain
    /// removed statements.
    order: VecDeque<(u32, u64)>,
    serial: u64,
    bytes: usize,
    last: Option<u32>,
}

impl PreparedStatements {
    /// Adds a statement; returns the number of others evicted to stay within `bytes_max`.
    pub fn insert(&mut self, id: u32, text: Vec<u8>, shortened: bool, bytes_max: usize) -> u64 {
        self.remove(id);
        self.serial += 1;
        self.last = Some(id);
        let statement = PreparedStatement {
            text,
            shortened,
            fingerprint: None,
            serial: self.serial,
            used: false,
        };
        self.bytes += statement.bytes();
        self.by_id.insert(id, statement);
        if self.order.len() > 2 * self.by_id.len() {
            let PreparedStatements { by_id, order, .. } = self;
            order.retain(|(id, serial)| {
                by_id
                    .get(id)
                    .is_some_and(|statement| statement.serial == *serial)
            });
        }
        self.order.push_back((id, self.serial));
        let mut evicted = 0;
        while self.bytes > bytes_max && self.by_id.len() > 1 {
            evicted += u64::from(self.evict());
        }
        evicted
    }

    /// Checks the next statement in eviction order; returns whether it was evicted because it was unused
    /// since the last check.
    fn evict(&mut self) -> bool {
        let Some((id, serial)) = self.order.pop_front() else {
            return false;
        };
        let Some(statement) = self
            .by_id
            .get_mut(&id)
            .filter(|statement| statement.serial == serial)
        else {
            return false;
        };
        let goes = !std::mem::take(&mut statement.used);
        if goes {
            self.forget(id);
        } else {
            self.order.push_back((id, serial));
        }
        goes
    }

    /// Records a statement whose text was not captured completely: its executions have no text.
    pub fn insert_unread(&mut self, id: u32) {
        self.remove(id);
        self.last = None;
    }

    /// Removes all statements.
    pub fn clear(&mut self) {
        *self = PreparedStatements::default();
    }

    /// Records a failed preparation.
    pub fn preparation_failed(&mut self) {
        self.last = None;
    }

    /// The statement that the client refers to as `id`.
    pub fn find(&mut self, id: u32) -> Option<&mut PreparedStatement> {
        let id = if id == LAST { self.last? } else { id };
        let statement = self.by_id.get_mut(&id)?;
        statement.used = true;
        Some(statement)
    }

    /// Number of statements.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// A statement by the server's number.
    pub fn get(&self, id: u32) -> Option<&PreparedStatement> {
        self.by_id.get(&id)
    }

    /// Whether a statement's complete text is known.
    pub fn is_whole(&self, id: u32) -> bool {
        let id = if id == LAST { self.last } else { Some(id) };
        id.and_then(|id| self.by_id.get(&id))
            .is_some_and(|statement| !statement.shortened)
    }

    /// Removes a closed statement.
    pub fn remove(&mut self, id: u32) {
        self.forget(if id == LAST {
            self.last.unwrap_or(id)
        } else {
            id
        });
    }

    fn forget(&mut self, id: u32) {
        if let Some(statement) = self.by_id.remove(&id) {
            self.bytes -= statement.bytes();
        }
    }
}

/// Servers of MySQL, and the parser of PostgreSQL, number statements; chosen collisions slow down only the sender's own connection, up to the
/// limit.
#[derive(Default)]
struct StatementIdHasher(u64);

impl Hasher for StatementIdHasher {
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
        let mut s = PreparedStatements::default();
        let max = 1 << 20;
        let text = || vec![b'x'; 36];
        let fit = max as u64 / 200;
        let evicted: u64 = (0..2 * fit as u32)
            .map(|id| s.insert(id, text(), false, max))
            .sum();
        assert_eq!((evicted, s.by_id.len() as u64), (2 * fit - fit, fit));
        assert!(s.find(0).is_none() && s.find(2 * fit as u32 - 1).is_some());
        // A statement in use is not evicted.
        let used = fit as u32 + 1;
        for id in 0..fit as u32 * 10 {
            assert!(s.find(used).is_some(), "{id}");
            s.insert(1 << 20 | id, text(), false, max);
        }
        for id in 0..64 {
            s.insert(id, vec![b'x'; 60_000], true, max);
            assert!(s.bytes <= max);
        }
        for id in 0..100_000 {
            s.insert(id, text(), false, max);
            s.remove(id);
        }
        assert!(s.order.len() <= 2 * s.by_id.len() + 3);
        let bytes: usize = s.by_id.values().map(PreparedStatement::bytes).sum();
        assert_eq!(s.bytes, bytes);
    }

    #[test]
    fn the_last_one_has_a_name() {
        let mut s = PreparedStatements::default();
        assert!(s.find(LAST).is_none());
        s.insert(3, b"a".to_vec(), false, 1 << 20);
        s.insert(4, b"b = 1".to_vec(), false, 1 << 20);
        let last = s.find(LAST).expect("a statement was prepared");
        assert_eq!(
            (last.fingerprint(SqlDialect::MySql).to_vec(), &last.text[..]),
            (b"b = ?".to_vec(), &b"b = 1"[..])
        );
        s.remove(4);
        assert!(s.find(LAST).is_none() && s.find(3).is_some());
        s.preparation_failed();
        assert!(s.find(LAST).is_none());
        s.insert(3, b"a".to_vec(), false, 1 << 20);
        s.insert_unread(3);
        assert!(s.find(LAST).is_none() && s.find(3).is_none());
    }
}
