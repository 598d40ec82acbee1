//! A partition being read: its records and its publisher's state.

use std::time::Instant;

use ::bus::tuples;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;
use avro::MalformedDatum;
use plan::TimeBounds;

/// Decoder of a topic's records.
pub enum TopicRecords {
    /// Tuples of this input.
    Tuples(usize, Box<tuples::TupleDecoder>),
    /// Cells of these pipelines, which have the same measures.
    Cells(Vec<usize>, Box<avro::AvroDecoder>),
}

/// State of a partition.
pub struct BusLane {
    /// Number in the reader.
    pub part: usize,
    /// Name for messages.
    pub place: String,
    pub records: TopicRecords,
    /// Last promise: a watermark for tuples, the value of `Engine::promise_ms` for cells.
    pub promise: i64,
    /// Time of the last record, or of the start of waiting.
    pub heard: Option<Instant>,
    /// Time of the last record, or of the first read.
    pub read: Instant,
    pub state: BusLaneState,
}

/// Position of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusLaneState {
    /// More records from before the start of reading remain.
    Behind,
    /// All new records are live.
    Going,
    Over,
}

impl TopicRecords {
    /// Decodes a record.
    pub fn push(&mut self, record: &[u8]) -> Result<(), MalformedDatum> {
        match self {
            TopicRecords::Tuples(_, decoder) => decoder.push(record),
            TopicRecords::Cells(_, decoder) => decoder.push(record),
        }
    }

    /// Pipelines whose event time the lane's records advance; `None`: all pipelines.
    pub fn pipelines(&self) -> Vec<Option<usize>> {
        match self {
            TopicRecords::Tuples(..) => vec![None],
            TopicRecords::Cells(pipelines, _) => {
                pipelines.iter().map(|pipeline| Some(*pipeline)).collect()
            }
        }
    }
}

/// Cells of panes that start within `bounds`.
pub fn within(cells: &RecordBatch, bounds: TimeBounds) -> RecordBatch {
    if bounds == TimeBounds::default() {
        return cells.clone();
    }
    let times = cells["et_ms"].as_primitive::<Int64Type>();
    let is_within =
        |time: Option<i64>| time.is_some_and(|ms| bounds.contains(ms.saturating_mul(1_000_000)));
    let chosen: BooleanArray = times.iter().map(|time| Some(is_within(time))).collect();
    filter_record_batch(cells, &chosen).expect("a word for each row")
}

/// Nonnull values of an integer column.
pub fn told<'a>(rows: &'a RecordBatch, column: &str) -> impl Iterator<Item = i64> + 'a {
    rows[column].as_primitive::<Int64Type>().iter().flatten()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array};

    use super::*;

    fn cells(times: &[Option<i64>]) -> RecordBatch {
        let times: ArrayRef = Arc::new(Int64Array::from(times.to_vec()));
        RecordBatch::try_from_iter_with_nullable([("et_ms", times, true)]).expect("a batch")
    }

    #[test]
    fn cells_within_a_period_are_kept() {
        let times = |bounds| {
            let cells = within(
                &cells(&[Some(9), Some(10), None, Some(19), Some(20)]),
                bounds,
            );
            told(&cells, "et_ms").collect::<Vec<_>>()
        };
        let ms = |ms: i64| Some(ms * 1_000_000);
        assert_eq!(
            times(TimeBounds {
                since_ns: ms(10),
                until_ns: ms(20)
            }),
            [10, 19]
        );
        assert_eq!(
            times(TimeBounds {
                since_ns: ms(10),
                until_ns: None
            }),
            [10, 19, 20]
        );
        assert_eq!(
            times(TimeBounds {
                since_ns: None,
                until_ns: ms(10)
            }),
            [9]
        );
    }

    /// Without a period, rows without a time are kept, too.
    #[test]
    fn all_cells_are_kept_without_a_period() {
        let all = cells(&[Some(1), None]);
        assert_eq!(within(&all, TimeBounds::default()).num_rows(), 2);
        assert_eq!(
            within(
                &all,
                TimeBounds {
                    since_ns: Some(i64::MIN),
                    until_ns: None
                }
            )
            .num_rows(),
            1
        );
    }

    #[test]
    fn the_farthest_times_do_not_overflow() {
        let bounds = TimeBounds {
            since_ns: Some(0),
            until_ns: Some(i64::MAX),
        };
        assert_eq!(
            within(&cells(&[Some(i64::MAX), Some(i64::MIN)]), bounds).num_rows(),
            0
        );
    }
}
