//! Prepared statements of Cassandra by their identifiers, which are digests of keyspace and text and thus equal on all servers: all
//! connections of a worker share them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;

/// Maximum memory in bytes; beyond it the oldest statements are evicted.
const BYTES_MAX: usize = 16 << 20;
/// Approximate memory of a statement besides its identifier and text.
const OVERHEAD_BYTES: usize = 256;

/// A prepared statement.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PreparedText {
    /// Text of the statement.
    pub text: Box<[u8]>,
    /// Keyspace and table, if known.
    pub keyspace: Option<Box<[u8]>>,
    /// The table.
    pub table: Option<Box<[u8]>>,
}

/// Statements learned by one worker.
#[derive(Debug, Default)]
pub struct PreparedTexts(RefCell<PreparedTextTable>);

#[derive(Debug, Default)]
struct PreparedTextTable {
    by_id: HashMap<Box<[u8]>, Arc<PreparedText>>,
    /// Identifiers, oldest first.
    order: VecDeque<Box<[u8]>>,
    bytes: usize,
    evicted: u64,
}

impl PreparedTexts {
    /// Records a statement.
    pub(crate) fn learn(&self, id: &[u8], statement: PreparedText) {
        let mut table = self.0.borrow_mut();
        let table = &mut *table;
        if let Some(known) = table.by_id.get_mut(id) {
            if **known != statement {
                table.bytes += statement.text.len();
                table.bytes -= known.text.len();
                *known = Arc::new(statement);
            }
            return;
        }
        table.bytes += bytes(id, &statement);
        table.by_id.insert(id.into(), Arc::new(statement));
        table.order.push_back(id.into());
        while table.bytes > BYTES_MAX
            && let Some(oldest) = table.order.pop_front()
        {
            if let Some(statement) = table.by_id.remove(&oldest) {
                table.bytes -= bytes(&oldest, &statement);
                table.evicted += 1;
            }
        }
    }

    /// The statement with this identifier, if known.
    pub(crate) fn find(&self, id: &[u8]) -> Option<Arc<PreparedText>> {
        self.0.borrow().by_id.get(id).cloned()
    }

    /// Number of statements evicted since the last call.
    pub(crate) fn take_evicted(&self) -> u64 {
        std::mem::take(&mut self.0.borrow_mut().evicted)
    }
}

fn bytes(id: &[u8], statement: &PreparedText) -> usize {
    OVERHEAD_BYTES + 2 * id.len() + statement.text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_bounded_and_counted() {
        let texts = PreparedTexts::default();
        let statement = || PreparedText {
            text: vec![b'x'; 1000].into(),
            ..PreparedText::default()
        };
        for id in 0..100_000u32 {
            texts.learn(&id.to_be_bytes(), statement());
            texts.learn(&id.to_be_bytes(), statement());
        }
        let table = texts.0.borrow();
        let held = table.by_id.len();
        assert_eq!(held, table.order.len());
        assert_eq!(held, BYTES_MAX / bytes(&[0; 4], &statement()));
        assert_eq!(table.evicted, 100_000 - held as u64);
        drop(table);
        assert!(texts.find(&0u32.to_be_bytes()).is_none());
        assert!(texts.find(&99_999u32.to_be_bytes()).is_some());
        assert!(texts.take_evicted() > 0 && texts.take_evicted() == 0);
    }
}
