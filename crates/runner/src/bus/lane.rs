//! A partition that is read: what its records are, and what is known of who writes there.

use std::time::Instant;

use ::bus::tuples;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;
use avro::Malformed;
use plan::Bounds;

/// What the records of a topic are.
pub enum Records {
    /// Tuples of this input.
    Tuples(usize, Box<tuples::Decoder>),
    /// Cells of these pipelines, which count the same.
    Cells(Vec<usize>, Box<avro::Decoder>),
}

/// A partition, and what is known of it.
pub struct Lane {
    /// Its number in the reader.
    pub part: usize,
    /// For messages.
    pub place: String,
    pub records: Records,
    /// What it has promised: of tuples a watermark, of cells what `Engine::promise_ms` says.
    pub promise: i64,
    /// When something came last, or is to be waited for since.
    pub heard: Option<Instant>,
    /// When something came last, or was asked for first.
    pub read: Instant,
    pub state: State,
}

/// Whether more may come of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// There is more that was there when reading began.
    Behind,
    /// What comes is new.
    Going,
    Over,
}

impl Records {
    /// Takes a record.
    pub fn push(&mut self, record: &[u8]) -> Result<(), Malformed> {
        match self {
            Records::Tuples(_, decoder) => decoder.push(record),
            Records::Cells(_, decoder) => decoder.push(record),
        }
    }

    /// Whose event time they tell; `None`: that of all.
    pub fn pipelines(&self) -> Vec<Option<usize>> {
        match self {
            Records::Tuples(..) => vec![None],
            Records::Cells(pipelines, _) => pipelines.iter().map(|pipeline| Some(*pipeline)).collect(),
        }
    }
}

/// The cells of panes that begin within `bounds`.
pub fn within(cells: &RecordBatch, bounds: Bounds) -> RecordBatch {
    if bounds == Bounds::default() {
        return cells.clone();
    }
    let times = cells["et_ms"].as_primitive::<Int64Type>();
    let is_within = |time: Option<i64>| time.is_some_and(|ms| bounds.contains(ms.saturating_mul(1_000_000)));
    let chosen: BooleanArray = times.iter().map(|time| Some(is_within(time))).collect();
    filter_record_batch(cells, &chosen).expect("a word for each row")
}

/// What a column of whole numbers says, where it says something.
pub fn told<'a>(rows: &'a RecordBatch, column: &str) -> impl Iterator<Item = i64> + 'a {
    rows[column].as_primitive::<Int64Type>().iter().flatten()
}
