//! The set of flows with a tuple that passed WHERE, used to keep their packets. Shared by all engines of a job and
//! updated as tuples are passed to the pipelines. Bounded; omitted entries are counted.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plan::Column;
use tuple::{Batch, FieldId, common};

use crate::rows::RowSet;

/// Columns of a dataflow's first input that [`SelectedFlows::news`] requires.
pub const NEWS_COLUMNS: [FieldId; 7] = [
    common::ID,
    common::CLIENT_IP,
    common::CLIENT_PORT,
    common::SERVER_IP,
    common::SERVER_PORT,
    common::TRANSPORT,
    common::TS,
];

/// The flows chosen so far. Clones share the state.
#[derive(Clone, Debug)]
pub struct SelectedFlows {
    flows: Arc<Mutex<SelectedFlowSet>>,
    kind: FlowSelectionKind,
}

/// The kind of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FlowSelectionKind {
    /// Each flow ID once, read at the end.
    Ids,
    /// Tuples that passed, read repeatedly.
    News,
}

/// A tuple that passed WHERE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchedTuple {
    /// Endpoints of the flow: address and port.
    pub ends: [([u8; 16], u16); 2],
    /// `tcp`, `udp`, or the protocol number.
    pub transport: String,
    /// Start time of the tuple's subject.
    pub ts: i64,
}

#[derive(Debug, Default)]
struct SelectedFlowSet {
    ids: HashSet<u64>,
    news: Vec<MatchedTuple>,
    max: usize,
    left_out: u64,
}

/// Positions of the required columns: [`NEWS_COLUMNS`], or only the first of them.
pub(crate) type SelectionColumns = Vec<FieldId>;

impl SelectedFlows {
    /// Creates an empty set of at most `flows_max` flows, for [`SelectedFlows::all`].
    #[must_use]
    pub fn ids(flows_max: usize) -> SelectedFlows {
        SelectedFlows::new(flows_max, FlowSelectionKind::Ids)
    }

    /// Creates an empty queue of at most `tuples_max` tuples, for [`SelectedFlows::news`].
    #[must_use]
    pub fn with_news(tuples_max: usize) -> SelectedFlows {
        SelectedFlows::new(tuples_max, FlowSelectionKind::News)
    }

    fn new(max: usize, kind: FlowSelectionKind) -> SelectedFlows {
        SelectedFlows {
            flows: Arc::new(Mutex::new(SelectedFlowSet {
                max,
                ..SelectedFlowSet::default()
            })),
            kind,
        }
    }

    /// The columns that the first input must have.
    #[must_use]
    pub fn columns(&self) -> &'static [FieldId] {
        if self.kind == FlowSelectionKind::News {
            &NEWS_COLUMNS
        } else {
            &NEWS_COLUMNS[..1]
        }
    }

    pub(crate) fn places(&self, place: &dyn Fn(Column) -> FieldId) -> SelectionColumns {
        self.columns()
            .iter()
            .map(|field| {
                place(Column {
                    input: 0,
                    field: *field,
                })
            })
            .collect()
    }

    /// Records rows that passed.
    pub(crate) fn note(&self, batch: &Batch, rows: RowSet<'_>, places: &SelectionColumns) {
        let ids = batch.u64(places[0]);
        let mut flows = self.lock();
        let mut last = None;
        for row in rows.iter() {
            let id = ids.value(row);
            if last.replace(id) == Some(id) {
                continue;
            }
            match self.kind {
                FlowSelectionKind::Ids => flows.add(id),
                FlowSelectionKind::News => flows.tell(passed(batch, row, places)),
            }
        }
    }

    /// Records a tuple that passed.
    pub fn tell(&self, passed: MatchedTuple) {
        self.lock().tell(passed);
    }

    /// All flows, and the number of tuples omitted because the set was full.
    #[must_use]
    pub fn all(&self) -> (HashSet<u64>, u64) {
        let flows = self.lock();
        (flows.ids.clone(), flows.left_out)
    }

    /// The tuples since the last call, and the number omitted because the queue was full. Of consecutive tuples of a
    /// flow, only the first is included.
    #[must_use]
    pub fn news(&self) -> (Vec<MatchedTuple>, u64) {
        let mut flows = self.lock();
        (
            std::mem::take(&mut flows.news),
            std::mem::take(&mut flows.left_out),
        )
    }

    fn lock(&self) -> MutexGuard<'_, SelectedFlowSet> {
        self.flows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SelectedFlowSet {
    fn add(&mut self, id: u64) {
        if self.ids.len() < self.max || self.ids.contains(&id) {
            self.ids.insert(id);
        } else {
            self.left_out += 1;
        }
    }

    fn tell(&mut self, passed: MatchedTuple) {
        if self.news.len() < self.max {
            self.news.push(passed)
        } else {
            self.left_out += 1
        }
    }
}

fn passed(batch: &Batch, row: usize, places: &SelectionColumns) -> MatchedTuple {
    let end = |ip: FieldId, port: FieldId| {
        let ip = batch.ip(ip);
        let port = batch.u64(port);
        (
            ip.value(row).try_into().unwrap_or([0; 16]),
            port.value(row) as u16,
        )
    };
    MatchedTuple {
        ends: [end(places[1], places[2]), end(places[3], places[4])],
        transport: batch.text(places[5]).value(row).to_owned(),
        ts: batch.i64(places[6]).value(row),
    }
}

/// Equal if both share the same state.
impl PartialEq for SelectedFlows {
    fn eq(&self, other: &SelectedFlows) -> bool {
        Arc::ptr_eq(&self.flows, &other.flows)
    }
}
