//! The tuples of a data set in the order in which they were released, from all tables that are asked for: what was
//! recorded by several runs, or for several parsers, is merged by its watermarks. One batch of each run is in memory.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::Int64Array;
use tuple::{Batch, FieldId, Schema};

use crate::data_set::{DataSet, Entry, Problem};
use crate::reader::{Ask, FileReader};

/// A table that is asked for.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Its name.
    pub table: String,
    /// Its schema.
    pub schema: Arc<Schema>,
    /// The columns that somebody reads.
    pub columns: Vec<FieldId>,
    /// What is known of the rows that somebody wants: row groups without such rows are not read.
    pub bounds: Vec<Bound>,
}

/// A column's value is not below `low` and not above `high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The column, of integers.
    pub field: FieldId,
    /// From.
    pub low: i128,
    /// To.
    pub high: i128,
}

/// Rows of one of the tables, all released together.
#[derive(Debug)]
pub struct Rows {
    /// Which of the tables asked for.
    pub table: usize,
    /// The rows.
    pub batch: Batch,
    /// Event time had come here.
    pub watermark_ns: i64,
}

/// What has been read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Files opened.
    pub files: u64,
    /// Their bytes on disk.
    pub bytes: u64,
    /// Rows read.
    pub rows: u64,
    /// Rows of row groups that were left out, since nothing in them was wanted.
    pub rows_skipped: u64,
}

/// See the module's text.
#[derive(Default)]
pub struct Replay {
    chains: Vec<Chain>,
    counters: Counters,
    problems: Vec<Problem>,
    files: u64,
}

/// One run's files of one table, one after the other.
struct Chain {
    table: usize,
    run: u64,
    ask: Ask,
    files: VecDeque<Arc<Entry>>,
    reader: Option<(FileReader, Arc<Entry>)>,
    /// What has been read and not handed out.
    ready: Option<(Batch, Int64Array)>,
}

impl Replay {
    /// Reads these tables of `set`, which has them.
    #[must_use]
    pub fn new(set: &DataSet, wanted: &[Wanted]) -> Replay {
        let mut replay = Replay { problems: set.problems.clone(), ..Replay::default() };
        for (table, wanted) in wanted.iter().enumerate() {
            let first = replay.chains.len();
            for file in set.tables.get(&wanted.table).into_iter().flat_map(|t| &t.files) {
                let run = file.head.run;
                let chain = match replay.chains[first..].iter().position(|chain| chain.run == run) {
                    Some(at) => &mut replay.chains[first + at],
                    None => {
                        let Wanted { schema, columns, bounds, .. } = wanted.clone();
                        let ask = Ask { schema, columns, bounds };
                        let files = VecDeque::new();
                        replay.chains.push(Chain { table, run, ask, files, reader: None, ready: None });
                        replay.chains.last_mut().expect("it was just pushed")
                    }
                };
                replay.files += 1;
                chain.files.push_back(file.clone());
            }
        }
        replay
    }

    /// The rows released next; `None` at the end. What cannot be read is left out and told by [`Replay::problems`].
    pub fn next_rows(&mut self) -> Option<Rows> {
        loop {
            let next = self.chains.iter().enumerate().filter_map(|(i, chain)| Some((chain.begin()?, i)));
            let (_, at) = next.min()?;
            let chain = &mut self.chains[at];
            if chain.ready.is_none() {
                if let Err(problem) = chain.read(&mut self.counters) {
                    self.problems.push(problem);
                }
                // It may be another's turn now.
                continue;
            }
            if let Some((batch, watermark_ns)) = chain.take() {
                return Some(Rows { table: chain.table, batch, watermark_ns });
            }
        }
    }

    /// What has been read so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// How many files there are.
    #[must_use]
    pub fn files(&self) -> u64 {
        self.files
    }

    /// What could not be read so far.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl Chain {
    /// The watermark of what comes next, or one before it; `None` at the end.
    fn begin(&self) -> Option<i64> {
        match (&self.ready, &self.reader) {
            (Some((_, watermarks)), _) => Some(watermarks.value(0)),
            (None, Some(_)) => Some(i64::MIN),
            (None, None) => self.files.front().map(|file| file.begin.unwrap_or(i64::MIN)),
        }
    }

    /// Reads on, by one batch or into the next file.
    fn read(&mut self, counters: &mut Counters) -> Result<(), Problem> {
        let Some((reader, entry)) = &mut self.reader else {
            let Some(entry) = self.files.pop_front() else { return Ok(()) };
            counters.files += 1;
            counters.bytes += entry.path.metadata().map_or(0, |m| m.len());
            let opened = FileReader::open(&entry.path, entry.journal.as_deref(), self.ask.clone());
            let reader = opened.map_err(|message| Problem::new(&entry.path, message))?;
            counters.rows_skipped += reader.as_ref().map_or(0, |r| r.rows_skipped);
            self.reader = reader.map(|reader| (reader, entry));
            return Ok(());
        };
        match reader.next() {
            Ok(Some((batch, watermarks))) if batch.rows() > 0 => {
                counters.rows += batch.rows() as u64;
                self.ready = Some((batch, watermarks));
            }
            Ok(Some(_)) => {}
            Ok(None) => self.reader = None,
            Err(message) => {
                let problem = Problem::new(&entry.path, message);
                self.reader = None;
                return Err(problem);
            }
        }
        Ok(())
    }

    /// The first rows of what is ready that were released together.
    fn take(&mut self) -> Option<(Batch, i64)> {
        let (batch, watermarks) = self.ready.take()?;
        let first = watermarks.value(0);
        let together = watermarks.values().iter().take_while(|ns| **ns == first).count();
        if together == batch.rows() {
            return Some((batch, first));
        }
        let rest = batch.rows() - together;
        self.ready = Some((batch.slice(together, rest), watermarks.slice(together, rest)));
        Some((batch.slice(0, together), first))
    }
}
