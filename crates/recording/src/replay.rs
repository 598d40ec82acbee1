//! The tuples of a data set in the order of their release, from all requested tables: tuples recorded by several runs
//! or for several parsers are merged by watermark. One batch per table and run is in memory.

use std::collections::VecDeque;
use std::sync::Arc;

use tuple::{Batch, FieldId, Schema};

use crate::data_set::{DataSet, ReadProblem, RecordedTable};
use crate::joined_tables::JoinedTables;
use crate::linked_tables::{LinkedTable, layouts};
use crate::reader::ColumnBound;
use crate::table_chain::ReplayCounters;

/// A requested table.
#[derive(Clone, Debug)]
pub struct TableRequest {
    /// Name of the table.
    pub table: String,
    /// Schema of the tuples.
    pub schema: Arc<Schema>,
    /// The columns needed.
    pub columns: Vec<FieldId>,
    /// Bounds of the required rows: row groups outside them are not read.
    pub bounds: Vec<ColumnBound>,
}

/// Rows of one table with the same release time.
#[derive(Debug)]
pub struct ReplayedRows {
    /// Index of the requested table.
    pub table: usize,
    /// The rows.
    pub batch: Batch,
    /// Event time of the release.
    pub watermark_ns: i64,
}

/// A replay of recorded tuples.
#[derive(Default)]
pub struct RecordingReplay {
    /// By run, with the index of the requested table.
    chains: Vec<(usize, JoinedTables)>,
    counters: ReplayCounters,
    problems: Vec<ReadProblem>,
    files: u64,
}

impl RecordingReplay {
    /// Reads these tables, which must be in `set`.
    #[must_use]
    pub fn new(set: &DataSet, wanted: &[TableRequest]) -> RecordingReplay {
        let mut replay = RecordingReplay {
            problems: set.problems.clone(),
            ..RecordingReplay::default()
        };
        for (table, wanted) in wanted.iter().enumerate() {
            let layouts = layouts(&wanted.schema, &wanted.columns);
            let tables: Vec<(LinkedTable, RecordedTable)> = layouts
                .into_iter()
                .filter(|layout| layout.is_first || layout.columns.len() > 1)
                .map(|layout| {
                    let files = match layout.name {
                        Some(part) => set.part(part, &wanted.schema.name),
                        None => set.tables.get(&wanted.table).cloned().unwrap_or_default(),
                    };
                    (layout, files)
                })
                .collect();
            let mut runs: Vec<u64> = Vec::new();
            for file in tables.iter().take(1).flat_map(|(_, table)| &table.files) {
                if !runs.contains(&file.head.run) {
                    runs.push(file.head.run);
                }
            }
            for run in runs {
                let of_run = |table: &RecordedTable| {
                    table
                        .files
                        .iter()
                        .filter(|file| file.head.run == run)
                        .cloned()
                        .collect::<VecDeque<_>>()
                };
                let tables: Vec<_> = tables
                    .iter()
                    .map(|(layout, table)| (layout.clone(), of_run(table)))
                    .collect();
                replay.files += tables
                    .iter()
                    .map(|(_, files)| files.len() as u64)
                    .sum::<u64>();
                let tuples = JoinedTables::new(wanted.schema.clone(), tables, &wanted.bounds);
                replay.chains.push((table, tuples));
            }
        }
        replay
    }

    /// The next released rows; `None` at the end. Unreadable data is skipped and reported by [`RecordingReplay::problems`].
    pub fn next_rows(&mut self) -> Option<ReplayedRows> {
        loop {
            let begins = self.chains.iter().enumerate();
            let (_, at) = begins
                .filter_map(|(i, (_, chain))| Some((chain.begin()?, i)))
                .min()?;
            let (table, chain) = &mut self.chains[at];
            if !chain.is_ready() {
                if let Err(problem) = chain.read(&mut self.counters) {
                    self.problems.push(problem);
                }
                // Another table may now be first.
                continue;
            }
            if let Some((batch, watermark_ns)) = chain.take() {
                return Some(ReplayedRows {
                    table: *table,
                    batch,
                    watermark_ns,
                });
            }
        }
    }

    /// Amounts read so far.
    #[must_use]
    pub fn counters(&self) -> ReplayCounters {
        self.counters
    }

    /// Number of files.
    #[must_use]
    pub fn files(&self) -> u64 {
        self.files
    }

    /// Read errors so far.
    #[must_use]
    pub fn problems(&self) -> &[ReadProblem] {
        &self.problems
    }
}
