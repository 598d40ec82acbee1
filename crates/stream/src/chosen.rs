//! The flows that have a tuple that passed WHERE, for who wants to keep their packets: noted while the tuples go to the
//! pipelines, by all engines of a job together. Bounded; what found no room is counted.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plan::Column;
use tuple::{Batch, FieldId, common};

use crate::rows::Rows;

/// Columns that a dataflow's first input needs for [`Chosen::news`].
pub const NEWS_COLUMNS: [FieldId; 7] = [
    common::ID,
    common::CLIENT_IP,
    common::CLIENT_PORT,
    common::SERVER_IP,
    common::SERVER_PORT,
    common::TRANSPORT,
    common::TS,
];

/// Flows chosen so far. Clones share the state.
#[derive(Clone, Debug)]
pub struct Chosen {
    flows: Arc<Mutex<Flows>>,
    kind: Kind,
}

/// What is noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Every flow's id once, for who asks at the end.
    Ids,
    /// What passes, for who asks now and then.
    News,
}

/// A tuple that passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    /// The ends of its flow: address and port.
    pub ends: [([u8; 16], u16); 2],
    /// `tcp`, `udp` or another's number.
    pub transport: String,
    /// When its subject began.
    pub ts: i64,
}

#[derive(Debug, Default)]
struct Flows {
    ids: HashSet<u64>,
    news: Vec<Passed>,
    max: usize,
    left_out: u64,
}

/// Where the columns are that are noted: [`NEWS_COLUMNS`], or the first of them alone.
pub(crate) type Places = Vec<FieldId>;

impl Chosen {
    /// Empty, with at most `flows_max` flows; for [`Chosen::all`].
    #[must_use]
    pub fn ids(flows_max: usize) -> Chosen {
        Chosen::new(flows_max, Kind::Ids)
    }

    /// Empty, with at most `tuples_max` waiting tuples; for [`Chosen::news`].
    #[must_use]
    pub fn with_news(tuples_max: usize) -> Chosen {
        Chosen::new(tuples_max, Kind::News)
    }

    fn new(max: usize, kind: Kind) -> Chosen {
        Chosen { flows: Arc::new(Mutex::new(Flows { max, ..Flows::default() })), kind }
    }

    /// The columns that the first input must have.
    #[must_use]
    pub fn columns(&self) -> &'static [FieldId] {
        if self.kind == Kind::News { &NEWS_COLUMNS } else { &NEWS_COLUMNS[..1] }
    }

    pub(crate) fn places(&self, place: &dyn Fn(Column) -> FieldId) -> Places {
        self.columns().iter().map(|field| place(Column { input: 0, field: *field })).collect()
    }

    /// These rows have passed.
    pub(crate) fn note(&self, batch: &Batch, rows: Rows<'_>, places: &Places) {
        let ids = batch.u64(places[0]);
        let mut flows = self.lock();
        let mut last = None;
        for row in rows.iter() {
            let id = ids.value(row);
            if last.replace(id) == Some(id) {
                continue;
            }
            match self.kind {
                Kind::Ids => flows.add(id),
                Kind::News => flows.tell(passed(batch, row, places)),
            }
        }
    }

    /// A tuple has passed.
    pub fn tell(&self, passed: Passed) {
        self.lock().tell(passed);
    }

    /// All flows; and how many tuples belong to none of them, for want of room.
    #[must_use]
    pub fn all(&self) -> (HashSet<u64>, u64) {
        let flows = self.lock();
        (flows.ids.clone(), flows.left_out)
    }

    /// What has passed since this was asked last, and how many more found no room: of tuples of one flow that follow each
    /// other the first.
    #[must_use]
    pub fn news(&self) -> (Vec<Passed>, u64) {
        let mut flows = self.lock();
        (std::mem::take(&mut flows.news), std::mem::take(&mut flows.left_out))
    }

    fn lock(&self) -> MutexGuard<'_, Flows> {
        self.flows.lock().unwrap_or_else(PoisonError::into_inner)
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

    fn tell(&mut self, passed: Passed) {
        match self.news.len() < self.max {
            true => self.news.push(passed),
            false => self.left_out += 1,
        }
    }
}

fn passed(batch: &Batch, row: usize, places: &Places) -> Passed {
    let end = |ip: FieldId, port: FieldId| {
        let (ip, port) = (batch.ip(ip), batch.u64(port));
        (ip.value(row).try_into().unwrap_or([0; 16]), port.value(row) as u16)
    };
    Passed {
        ends: [end(places[1], places[2]), end(places[3], places[4])],
        transport: batch.text(places[5]).value(row).to_owned(),
        ts: batch.i64(places[6]).value(row),
    }
}

/// Two are the same when they share what is chosen.
impl PartialEq for Chosen {
    fn eq(&self, other: &Chosen) -> bool {
        Arc::ptr_eq(&self.flows, &other.flows)
    }
}
