//! Prepared statements of Cassandra by their identifiers, which are digests of keyspace and text and thus equal on all servers: all
//! connections of a worker share them. Bounded in bytes: statements that are not used are evicted.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;

/// Maximum memory in bytes.
const BYTES_MAX: usize = 16 << 20;
/// Approximate memory of a statement besides its identifier and texts.
const OVERHEAD_BYTES: usize = 256;

/// A prepared statement.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PreparedText {
    /// Text of the statement.
    pub text: Box<[u8]>,
    /// Keyspace, if known.
    pub keyspace: Option<Box<[u8]>>,
    /// Table, if known.
    pub table: Option<Box<[u8]>>,
}

/// Statements learned by one worker.
#[derive(Debug, Default)]
pub struct PreparedTexts(RefCell<PreparedTextTable>);

#[derive(Debug, Default)]
struct PreparedTextTable {
    by_id: HashMap<Box<[u8]>, StoredText>,
    /// Identifiers in the order of eviction: of preparation, or of the last check after use.
    order: VecDeque<Box<[u8]>>,
    bytes: usize,
    evicted: u64,
}

#[derive(Debug)]
struct StoredText {
    statement: Arc<PreparedText>,
    /// Since the last check.
    is_used: bool,
}

impl PreparedTexts {
    /// Records a statement.
    pub(crate) fn learn(&self, id: &[u8], statement: PreparedText) {
        let mut table = self.0.borrow_mut();
        let table = &mut *table;
        table.bytes += bytes(id, &statement);
        let stored = StoredText {
            statement: Arc::new(statement),
            is_used: false,
        };
        match table.by_id.insert(id.into(), stored) {
            Some(before) => table.bytes -= bytes(id, &before.statement),
            None => table.order.push_back(id.into()),
        }
        while table.bytes > BYTES_MAX && table.by_id.len() > 1 {
            table.check_oldest();
        }
    }

    /// The statement with this identifier, if known.
    pub(crate) fn find(&self, id: &[u8]) -> Option<Arc<PreparedText>> {
        let mut table = self.0.borrow_mut();
        let stored = table.by_id.get_mut(id)?;
        stored.is_used = true;
        Some(stored.statement.clone())
    }

    /// Number of statements evicted since the last call.
    pub(crate) fn take_evicted(&self) -> u64 {
        std::mem::take(&mut self.0.borrow_mut().evicted)
    }
}

impl PreparedTextTable {
    /// Evicts the first statement in the order of eviction if it was not used since its last check.
    fn check_oldest(&mut self) {
        let Some(id) = self.order.pop_front() else {
            return;
        };
        let is_used = |stored: &mut StoredText| std::mem::take(&mut stored.is_used);
        if self.by_id.get_mut(&id).is_some_and(is_used) {
            self.order.push_back(id);
        } else if let Some(stored) = self.by_id.remove(&id) {
            self.bytes -= bytes(&id, &stored.statement);
            self.evicted += 1;
        }
    }
}

fn bytes(id: &[u8], statement: &PreparedText) -> usize {
    let PreparedText {
        text,
        keyspace,
        table,
    } = statement;
    let names = [keyspace, table].into_iter().flatten();
    OVERHEAD_BYTES + 2 * id.len() + text.len() + names.map(|name| name.len()).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(len: usize) -> PreparedText {
        PreparedText {
            text: vec![b'x'; len].into(),
            ..PreparedText::default()
        }
    }

    fn check(texts: &PreparedTexts) {
        let table = texts.0.borrow();
        let all = table.by_id.iter();
        let sum: usize = all.map(|(id, stored)| bytes(id, &stored.statement)).sum();
        assert_eq!((table.bytes, table.order.len()), (sum, table.by_id.len()));
        assert!(table.bytes <= BYTES_MAX, "{}", table.bytes);
    }

    #[test]
    fn statements_are_bounded_and_counted() {
        let texts = PreparedTexts::default();
        for id in 0..100_000u32 {
            texts.learn(&id.to_be_bytes(), statement(1000));
            texts.learn(&id.to_be_bytes(), statement(1000));
        }
        check(&texts);
        let held = texts.0.borrow().by_id.len();
        assert_eq!(held, BYTES_MAX / bytes(&[0; 4], &statement(1000)));
        assert!(texts.find(&0u32.to_be_bytes()).is_none());
        assert!(texts.find(&99_999u32.to_be_bytes()).is_some());
        assert_eq!(texts.take_evicted(), 100_000 - held as u64);
        assert_eq!(texts.take_evicted(), 0);
    }

    /// An application that prepares a statement per request does not evict those of others.
    #[test]
    fn a_statement_in_use_is_not_evicted() {
        let texts = PreparedTexts::default();
        texts.learn(b"used", statement(100));
        for id in 0..100_000u32 {
            assert!(texts.find(b"used").is_some(), "{id}");
            texts.learn(&id.to_be_bytes(), statement(1000));
        }
        check(&texts);
    }

    /// Names count, and so does a statement that becomes longer.
    #[test]
    fn all_texts_are_counted() {
        let texts = PreparedTexts::default();
        for id in 0..1000u32 {
            let long = || Some(vec![b'x'; 60_000].into());
            let named = PreparedText {
                keyspace: long(),
                table: long(),
                ..statement(10)
            };
            texts.learn(&id.to_be_bytes(), named);
            check(&texts);
        }
        for id in 900..1000u32 {
            texts.learn(&id.to_be_bytes(), statement(1 << 20));
            check(&texts);
        }
    }
}
