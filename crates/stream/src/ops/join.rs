//! Joins the tuples of several parsers with the same `id`: a symmetric, incremental inner join. Each tuple is joined
//! with all stored tuples of its flow and then stored.
//!
//! Columns: those of the first input at their positions, then those of the other inputs, named `parser.field` on name
//! conflicts. `ts_end` of a joined tuple is the maximum of its parts. Stored rows are bounded by number and bytes
//! (the least recently used flow is evicted first) and by event time since the flow's last tuple; both are counted. A
//! tuple without an ID is not joined.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use plan::{Column, DataflowInput};
use tuple::{Batch, FieldId, Schema, TupleWriter, common};

use crate::column::{ColumnView, mix};
use crate::config::{EngineConfig, EngineCounters};
use crate::limited_stretches::LimitedStretch;
use crate::rows::RowSet;
use crate::scalar::Scalar;

/// Approximate overhead of a stored row: its end, its time, and spare vector capacity.
const ROW_BYTES: usize = 24;
/// Approximate overhead of a stored flow: table and heap entries.
const FLOW_BYTES: usize = 128;
/// Overhead per input of a flow, with its first row.
const PART_BYTES: usize = size_of::<JoinRows>() + 96;

pub use common::SAME_IN_ALL;

/// The stored rows, and joined rows of incomplete batches.
pub struct TupleJoin {
    schema: Arc<Schema>,
    /// Position of each input's first field in the joined schema.
    starts: Vec<u16>,
    /// The columns of each input.
    columns: Vec<Vec<FieldId>>,
    writer: TupleWriter,
    flows: HashTable<JoinFlow>,
    /// A heap entry per flow, with the time of one of its tuples.
    oldest: BinaryHeap<Reverse<(i64, u64)>>,
    rows: usize,
    bytes: usize,
    config: EngineConfig,
    counters: EngineCounters,
    /// Time of rows dropped because of the limits, since the last call.
    limited: Option<LimitedStretch>,
}

struct JoinFlow {
    id: u64,
    last_ns: i64,
    /// Indexed by input.
    parts: Vec<JoinRows>,
}

/// The rows of an evicted flow.
struct RemovedRows {
    rows: u64,
    first_ns: i64,
}

/// Rows of one input.
#[derive(Clone, Default)]
struct JoinRows {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    times: Vec<i64>,
}

impl TupleJoin {
    /// Creates a join of the inputs of a dataflow.
    ///
    /// # Panics
    /// If an input lacks `id` or `ts_end`; the planner provides them.
    #[must_use]
    pub fn new(inputs: &[DataflowInput], config: &EngineConfig) -> TupleJoin {
        for input in inputs {
            for needed in [common::ID, common::TS_END] {
                assert!(
                    input.columns.contains(&needed),
                    "{}: a join needs id and ts_end",
                    input.schema.name
                );
            }
        }
        let (schema, starts) = joined_schema(inputs);
        let place = |i: usize, f: &FieldId| FieldId(starts[i] + f.0);
        let all = inputs.iter().enumerate();
        let wanted: Vec<FieldId> = all
            .flat_map(|(i, x)| x.columns.iter().map(move |f| place(i, f)))
            .collect();
        let schema = Arc::new(schema);
        TupleJoin {
            writer: TupleWriter::new(schema.clone(), &wanted),
            schema,
            columns: inputs.iter().map(|x| x.columns.clone()).collect(),
            starts,
            flows: HashTable::new(),
            oldest: BinaryHeap::new(),
            rows: 0,
            bytes: 0,
            config: config.clone(),
            counters: EngineCounters::default(),
            limited: None,
        }
    }

    /// The schema of joined tuples.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Position of an input's column in the joined schema.
    #[must_use]
    pub fn place(&self, column: Column) -> FieldId {
        FieldId(self.starts[usize::from(column.input)] + column.field.0)
    }

    /// Whether a joined column is printed; repeated flow columns are not.
    #[must_use]
    pub fn is_news(&self, id: FieldId) -> bool {
        !self.starts[1..]
            .iter()
            .any(|start| SAME_IN_ALL.iter().any(|f| f.0 + start == id.0))
    }

    /// The columns present in joined tuples.
    #[must_use]
    pub fn present(&self) -> Vec<FieldId> {
        let of_input = |(start, columns): (&u16, &Vec<FieldId>)| -> Vec<FieldId> {
            columns
                .iter()
                .map(|field| FieldId(start + field.0))
                .collect()
        };
        self.starts
            .iter()
            .zip(&self.columns)
            .flat_map(of_input)
            .collect()
    }

    /// Counters of joined, dropped, and expired tuples.
    #[must_use]
    pub fn counters(&self) -> &EngineCounters {
        &self.counters
    }

    /// Resets the counters.
    pub fn reset_counters(&mut self) {
        self.counters = EngineCounters::default();
    }

    /// Joins `rows` of a batch of one input; joined rows go to `joined` in bounded batches.
    pub fn push(
        &mut self,
        input: usize,
        batch: &Batch,
        rows: RowSet<'_>,
        joined: &mut dyn FnMut(&Batch),
    ) {
        let columns: Vec<ColumnView<'_>> = self.columns[input]
            .iter()
            .map(|f| ColumnView::of(batch, *f))
            .collect();
        let ids = ColumnView::of(batch, common::ID);
        let times = ColumnView::of(batch, common::TS_END);
        let mut row_bytes = Vec::new();
        for row in rows.iter() {
            let (Scalar::U64(id), Scalar::I64(time)) = (ids.scalar(row), times.scalar(row)) else {
                self.counters.join_dropped += 1;
                continue;
            };
            row_bytes.clear();
            columns
                .iter()
                .for_each(|column| column.scalar(row).encode(&mut row_bytes));
            self.emit(input, id, &row_bytes, time, joined);
            self.hold(input, id, &row_bytes, time);
        }
        if self.writer.rows() > 0 {
            joined(&self.writer.finish());
        }
    }

    /// The time of joined tuples that may be missing because rows were dropped since the last call.
    #[must_use]
    pub fn take_limited(&mut self) -> Option<LimitedStretch> {
        self.limited.take()
    }

    /// Evicts flows without a tuple for `join_idle_ns` at `watermark_ns`.
    pub fn advance(&mut self, watermark_ns: i64) {
        let oldest_kept = watermark_ns.saturating_sub(self.config.join_idle_ns);
        while self
            .oldest
            .peek()
            .is_some_and(|Reverse((time, _))| *time < oldest_kept)
        {
            if let Some(removed) = self.remove_oldest(oldest_kept) {
                self.counters.join_expired += removed.rows;
            }
        }
    }

    /// Joins a row with all stored rows of its flow.
    fn emit(
        &mut self,
        input: usize,
        id: u64,
        row: &[u8],
        time: i64,
        joined: &mut dyn FnMut(&Batch),
    ) {
        let Some(flow) = self.flows.find(mix(id ^ self.config.seed), |f| f.id == id) else {
            return;
        };
        let sizes: Vec<usize> = flow
            .parts
            .iter()
            .enumerate()
            .map(|(i, p)| if i == input { 1 } else { p.times.len() })
            .collect();
        if sizes.contains(&0) {
            return;
        }
        let mut chosen = vec![0; sizes.len()];
        loop {
            let mut latest = time;
            for (i, part) in flow.parts.iter().enumerate() {
                let bytes = if i == input { row } else { part.row(chosen[i]) };
                latest = if i == input {
                    latest
                } else {
                    latest.max(part.times[chosen[i]])
                };
                write_part(&mut self.writer, self.starts[i], &self.columns[i], bytes);
            }
            self.writer.i64(common::TS_END, latest);
            self.writer.end_row();
            self.counters.tuples_joined += 1;
            if self.writer.is_full() {
                joined(&self.writer.finish());
            }
            if !next_choice(&mut chosen, &sizes) {
                return;
            }
        }
    }

    fn flow_bytes(&self) -> usize {
        FLOW_BYTES + self.starts.len() * PART_BYTES
    }

    fn hold(&mut self, input: usize, id: u64, row: &[u8], time: i64) {
        let flow_bytes = self.flow_bytes();
        let cost = row.len() + ROW_BYTES + flow_bytes;
        while self.rows >= self.config.join_rows_max
            || self.bytes + cost > self.config.join_bytes_max
        {
            if self.oldest.is_empty() {
                self.drop_rows(
                    RemovedRows {
                        rows: 1,
                        first_ns: time,
                    },
                    time,
                );
                return;
            }
            if let Some(removed) = self.remove_oldest(i64::MAX) {
                self.drop_rows(removed, time);
            }
        }
        let seed = self.config.seed;
        let found = self
            .flows
            .entry(mix(id ^ seed), |f| f.id == id, |f| mix(f.id ^ seed));
        let mut entry = match found {
            Entry::Occupied(entry) => entry,
            Entry::Vacant(entry) => {
                self.bytes += flow_bytes;
                self.oldest.push(Reverse((time, id)));
                entry.insert(JoinFlow {
                    id,
                    last_ns: time,
                    parts: vec![JoinRows::default(); self.starts.len()],
                })
            }
        };
        let flow = entry.get_mut();
        flow.last_ns = flow.last_ns.max(time);
        flow.parts[input].push(row, time);
        self.rows += 1;
        self.bytes += row.len() + ROW_BYTES;
    }

    /// Counts dropped rows. The affected time lasts as long as they would have been stored; no joined tuple is
    /// earlier than its parts.
    fn drop_rows(&mut self, removed: RemovedRows, now_ns: i64) {
        self.counters.join_dropped += removed.rows;
        let to_ns = now_ns.saturating_add(self.config.join_idle_ns);
        let limited = LimitedStretch {
            from_ns: removed.first_ns,
            to_ns,
            times: removed.rows,
        };
        self.limited = LimitedStretch::union(self.limited, Some(limited));
    }

    /// Removes the flow at the top of the heap and returns its rows if its last tuple is before `kept_ns`; otherwise
    /// updates its heap entry. Stale entries are updated first, so that the removed flow is the least recently used
    /// one.
    fn remove_oldest(&mut self, kept_ns: i64) -> Option<RemovedRows> {
        let Reverse((noted, id)) = self.oldest.pop()?;
        let found = self
            .flows
            .find_entry(mix(id ^ self.config.seed), |f| f.id == id);
        let entry = found.ok().expect("the heap lists flows that are held");
        let last = entry.get().last_ns;
        if last > noted || last > kept_ns {
            self.oldest.push(Reverse((last, id)));
            return None;
        }
        let (flow, _) = entry.remove();
        let rows: usize = flow.parts.iter().map(|p| p.times.len()).sum();
        let bytes: usize = flow.parts.iter().map(|p| p.bytes.len()).sum();
        let first_ns = flow
            .parts
            .iter()
            .flat_map(|p| &p.times)
            .min()
            .copied()
            .unwrap_or(last);
        self.rows -= rows;
        self.bytes -= bytes + rows * ROW_BYTES + self.flow_bytes();
        Some(RemovedRows {
            rows: rows as u64,
            first_ns,
        })
    }
}

impl JoinRows {
    fn push(&mut self, row: &[u8], time: i64) {
        self.bytes.extend_from_slice(row);
        self.ends.push(self.bytes.len() as u32);
        self.times.push(time);
    }

    fn row(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.bytes[start as usize..self.ends[i] as usize]
    }
}

/// Increments a mixed-radix number with the bases `sizes`; false after the last number.
fn next_choice(digits: &mut [usize], sizes: &[usize]) -> bool {
    for (digit, size) in digits.iter_mut().zip(sizes) {
        *digit += 1;
        if *digit < *size {
            return true;
        }
        *digit = 0;
    }
    false
}

/// Writes the row of one input, without the first input's `ts_end`, which becomes the maximum of all parts.
fn write_part(writer: &mut TupleWriter, start: u16, columns: &[FieldId], mut row: &[u8]) {
    for field in columns {
        let Some((scalar, rest)) = Scalar::decode(row) else {
            return;
        };
        if start > 0 || *field != common::TS_END {
            scalar.write(writer, FieldId(start + field.0));
        }
        row = rest;
    }
}

/// The schema of joined tuples, and the position of each input's first field.
#[must_use]
pub fn joined_schema(inputs: &[DataflowInput]) -> (Schema, Vec<u16>) {
    let name = inputs
        .iter()
        .map(|i| i.schema.name.as_ref())
        .collect::<Vec<_>>()
        .join("+");
    let mut fields: Vec<tuple::Field> = Vec::new();
    let mut starts = Vec::new();
    for input in inputs {
        starts.push(fields.len() as u16);
        for field in &input.schema.fields {
            let mut field = field.clone();
            if fields.iter().any(|f| f.name == field.name) {
                field.name = format!("{}.{}", input.schema.name, field.name).into();
            }
            fields.push(field);
        }
    }
    let doc = "tuples of several parsers, joined by id".into();
    (
        Schema {
            name: name.into(),
            version: 1,
            doc,
            fields,
            measure: None,
            key: None,
            parts: &[],
            facts: &tuple::SchemaFacts::NONE,
        },
        starts,
    )
}
