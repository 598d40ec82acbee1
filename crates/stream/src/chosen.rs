//! The flows that have a tuple that passed WHERE, for who wants to keep their packets: noted while the tuples go to the
//! pipelines, by all engines of a job together. Bounded; what found no room is counted.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use tuple::{Batch, FieldId};

use crate::rows::Rows;

/// Flows chosen so far. Whoever has a copy sees the same ones.
#[derive(Clone, Debug)]
pub struct Chosen {
    flows: Arc<Mutex<Flows>>,
}

#[derive(Debug, Default)]
struct Flows {
    ids: HashSet<u64>,
    max: usize,
    left_out: u64,
}

impl Chosen {
    /// None yet, and at most so many.
    #[must_use]
    pub fn new(flows_max: usize) -> Chosen {
        Chosen { flows: Arc::new(Mutex::new(Flows { max: flows_max, ..Flows::default() })) }
    }

    /// These rows have passed; `id` is the column of their flows.
    pub(crate) fn note(&self, batch: &Batch, rows: Rows<'_>, id: FieldId) {
        let ids = batch.u64(id);
        let mut flows = self.flows.lock().unwrap_or_else(PoisonError::into_inner);
        let mut last = None;
        for row in rows.iter() {
            let id = ids.value(row);
            if last.replace(id) != Some(id) {
                flows.add(id);
            }
        }
    }

    /// All of them; and how many tuples belong to none of them, for want of room.
    #[must_use]
    pub fn all(&self) -> (HashSet<u64>, u64) {
        let flows = self.flows.lock().unwrap_or_else(PoisonError::into_inner);
        (flows.ids.clone(), flows.left_out)
    }
}

impl Flows {
    fn add(&mut self, id: u64) {
        if self.ids.len() < self.max || self.ids.contains(&id) {
            self.ids.insert(id);
        } else {
            self.left_out += 1;
        }
    }
}

/// Two are the same when they share what is chosen.
impl PartialEq for Chosen {
    fn eq(&self, other: &Chosen) -> bool {
        Arc::ptr_eq(&self.flows, &other.flows)
    }
}
