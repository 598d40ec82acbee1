//! What was answered. A job's rows are numbered from 0 in the order in which they came, result by result. The newest are in
//! the store, as they came; when they are many or old they become a segment: a folder with a complete Parquet data set,
//! which the store takes note of in the same transaction that removes them. So a row is in exactly one place whenever the
//! process is killed; a folder that the store knows nothing of is left of a kill and removed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, io};

use arrow_array::{Array, BooleanArray};
use recording::{CaptureFacts, DataSet, Head, Kind, Recorder, Replay, Rotation, Wanted};
use tuple::{Batch, Schema};

use crate::columns::{decode, schema, time_column};
use crate::job::JobId;
use crate::limits::Retention;
use crate::store::{KeptResult, Segment, Store, Tail, now_ns};
use crate::unkept::Unkept;

/// Rows that wait in the store before they become a segment.
const TAIL_ROWS_MAX: i64 = 16 << 10;
/// Their bytes.
const TAIL_BYTES_MAX: i64 = 8 << 20;
/// How long they wait.
const TAIL_AGE_NS: i64 = 600_000_000_000;
/// Batches of the store that are read at once.
const TAIL_BATCHES: usize = 64;
/// Memory for writing a segment.
const WRITING_BYTES: usize = 16 << 20;

/// What is kept, and what is not any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Bytes of segments.
    pub bytes: u64,
    /// Rows that retention has taken away.
    pub rows_dropped: u64,
    /// Segments that could not be read.
    pub segments_damaged: u64,
}

/// Which rows are asked for.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// Rows behind the one of this number.
    pub after: Option<i64>,
    /// At most so many.
    pub limit: usize,
    /// Not before this time, in nanoseconds since the epoch.
    pub since_ns: Option<i64>,
    /// Before this time.
    pub until_ns: Option<i64>,
}

/// Rows, in the order of their numbers.
#[derive(Debug)]
pub struct Page {
    /// What they look like.
    pub schema: Arc<Schema>,
    /// The rows.
    pub batches: Vec<Batch>,
    /// The last one's number, if there are any.
    pub last: Option<i64>,
    /// The same, if there may be more behind it.
    pub next: Option<i64>,
}

/// Where rows lie.
pub struct History {
    store: Arc<Store>,
    folder: PathBuf,
    segments_damaged: AtomicU64,
}

impl History {
    /// A history in `folder`.
    pub fn open(store: Arc<Store>, folder: PathBuf) -> io::Result<History> {
        fs::create_dir_all(&folder)?;
        let history = History { store, folder, segments_damaged: AtomicU64::new(0) };
        history.remove_orphans()?;
        Ok(history)
    }

    /// Removes folders of segments that the store does not know: their rows are still in the store, or dropped.
    fn remove_orphans(&self) -> io::Result<()> {
        for job in fs::read_dir(&self.folder)? {
            let job = job?.path();
            let Some(id) = number(&job) else { continue };
            for entry in fs::read_dir(&job)? {
                let path = entry?.path();
                let name = path.file_name().and_then(|name| name.to_str());
                let parts = name.and_then(|name| name.split_once('-'));
                let Some((place, first)) = parts.and_then(|(p, f)| Some((p.parse().ok()?, f.parse().ok()?)))
                else {
                    continue;
                };
                let known = self.store.has_segment(JobId(id), place, first).map_err(io::Error::other)?;
                if !known {
                    fs::remove_dir_all(&path)?;
                }
            }
        }
        Ok(())
    }

    fn path(&self, job: JobId, place: usize, first_row: i64) -> PathBuf {
        self.folder.join(job.to_string()).join(format!("{place}-{first_row:012}"))
    }

    /// Makes a segment of what waits of a result, if that is enough; `all`: in any case. One thread at a time for a result.
    pub fn settle(&self, job: JobId, result: &KeptResult, all: bool) -> Result<(), Unkept> {
        loop {
            let (rows, bytes, oldest) = self.store.tail_size((job, result.place))?;
            let is_old = oldest.is_some_and(|at| at < now_ns() - TAIL_AGE_NS);
            if rows == 0 || !(all || is_old || rows >= TAIL_ROWS_MAX || bytes >= TAIL_BYTES_MAX) {
                return Ok(());
            }
            let mut tail = self.store.tail((job, result.place), 0, TAIL_BATCHES)?;
            let mut sum = 0;
            tail.retain(|part| {
                let has_room = sum == 0 || sum + part.of.batch.len() <= TAIL_BYTES_MAX as usize;
                sum += part.of.batch.len();
                has_room
            });
            self.write_segment(job, result, &tail)?;
        }
    }

    fn write_segment(&self, job: JobId, result: &KeptResult, tail: &[Tail]) -> Result<(), Unkept> {
        let Some(first) = tail.first() else { return Ok(()) };
        let schema = schema(&result.table, &result.columns).ok_or(Unkept::Damaged)?;
        let folder = self.path(job, result.place, first.first_row);
        if folder.exists() {
            // Left of an attempt that failed.
            fs::remove_dir_all(&folder)?;
        }
        let written = self.write_files(&folder, &schema, job, first.first_row, tail);
        let bytes = match written {
            Ok(bytes) => bytes,
            Err(error) => {
                // What was begun takes room that is wanted.
                let _ = fs::remove_dir_all(&folder);
                return Err(error.into());
            }
        };
        let times =
            tail.iter().map(|part| part.of.first_ns).min().zip(tail.iter().map(|p| p.of.last_ns).max());
        let (first_ns, last_ns) = times.unwrap_or_default();
        self.store.add_segment(&Segment {
            job,
            place: result.place,
            first_row: first.first_row,
            rows: tail.iter().map(|part| part.of.rows).sum(),
            first_ns,
            last_ns,
            kept_ns: tail.iter().map(|part| part.kept_ns).max().unwrap_or_default(),
            bytes: i64::try_from(bytes).unwrap_or(i64::MAX),
        })?;
        Ok(())
    }

    fn write_files(
        &self,
        folder: &Path,
        schema: &Arc<Schema>,
        job: JobId,
        run: i64,
        tail: &[Tail],
    ) -> io::Result<u64> {
        if let Some(parent) = folder.parent() {
            fs::create_dir_all(parent)?;
        }
        let rotation = Rotation { every_ns: None, bytes: u64::MAX };
        let mut recorder = Recorder::create(folder, rotation)?.within(WRITING_BYTES);
        let head = Head {
            table: schema.name.to_string(),
            // With the watermark, by which rows are read back in their order.
            kind: Kind::Tuples,
            parsers: vec![(schema.name.to_string(), schema.version)],
            query: format!("job {job}"),
            version: env!("CARGO_PKG_VERSION").into(),
            run: run.unsigned_abs(),
            sample: "all".into(),
            sample_seed: 0,
            redacted: None,
            capture: CaptureFacts::default(),
        };
        recorder.add_table(head, schema, &schema.ids().collect::<Vec<_>>());
        for part in tail {
            let batch = decode(&part.of.batch, schema).ok_or_else(|| io::Error::other("damaged rows"))?;
            recorder.write(0, &batch, part.of.watermark_ns)?;
        }
        recorder.finish()?;
        Ok(recorder.kept().bytes)
    }

    /// Reads a page of a result.
    pub fn read(&self, job: JobId, result: &KeptResult, ask: &Ask) -> Result<Page, Unkept> {
        let schema = schema(&result.table, &result.columns).ok_or(Unkept::Damaged)?;
        let mut reading = Reading {
            ask: *ask,
            time: time_column(&schema),
            batches: Vec::new(),
            rows: 0,
            last: None,
            more: false,
        };
        let mut from = ask.after.map_or(0, |after| after.saturating_add(1));
        loop {
            let segment = self.store.segment((job, result.place), from)?;
            let tail = self.store.tail((job, result.place), from, TAIL_BATCHES)?;
            // What was in neither place was on its way from the one to the other: the store says so in one step each.
            match (segment, tail.first()) {
                (Some(segment), first) if first.is_none_or(|first| segment.first_row <= first.first_row) => {
                    from = segment.first_row + segment.rows;
                    let is_wanted = ask.since_ns.is_none_or(|since| segment.last_ns >= since)
                        && ask.until_ns.is_none_or(|until| segment.first_ns < until);
                    if is_wanted && !self.read_segment(&segment, &schema, &mut reading) {
                        break;
                    }
                }
                (_, Some(first)) if first.first_row <= from || !self.has_moved(job, result, from)? => {
                    if !reading.take_tail(&tail, &schema)? {
                        break;
                    }
                    from = tail.last().map_or(from, |last| last.first_row + last.of.rows);
                }
                (_, None) if !self.has_moved(job, result, from)? => break,
                _ => {}
            }
        }
        Ok(reading.page(schema))
    }

    /// Whether rows numbered `from` or higher are in a segment by now.
    fn has_moved(&self, job: JobId, result: &KeptResult, from: i64) -> Result<bool, Unkept> {
        Ok(self.store.segment((job, result.place), from)?.is_some())
    }

    /// Reads a segment; whether more is wanted. What cannot be read is left out and counted.
    fn read_segment(&self, segment: &Segment, schema: &Arc<Schema>, reading: &mut Reading) -> bool {
        let set = DataSet::open(&[self.path(segment.job, segment.place, segment.first_row)]);
        let wanted = Wanted {
            table: schema.name.to_string(),
            schema: schema.clone(),
            columns: schema.ids().collect(),
            bounds: Vec::new(),
        };
        let mut replay = Replay::new(&set, &[wanted]);
        let mut first = segment.first_row;
        while let Some(rows) = replay.next_rows() {
            if !reading.take(first, &rows.batch, rows.watermark_ns) {
                return false;
            }
            first += rows.batch.rows() as i64;
        }
        if first < segment.first_row + segment.rows {
            self.segments_damaged.fetch_add(1, Ordering::Relaxed);
            for problem in replay.problems() {
                tracing::warn!("rows of job {} cannot be read: {problem}", segment.job);
            }
        }
        true
    }

    /// Takes away what is too old or too much.
    pub fn retain(&self, retention: &Retention) -> Result<(), Unkept> {
        loop {
            let (oldest, bytes) = self.store.oldest_segment()?;
            let Some(oldest) = oldest else { return Ok(()) };
            let is_old = retention.age_ns > 0 && oldest.kept_ns < now_ns() - retention.age_ns;
            let is_much = retention.bytes > 0 && u64::try_from(bytes).unwrap_or(0) > retention.bytes;
            if !is_old && !is_much {
                return Ok(());
            }
            self.store.drop_segment(&oldest)?;
            fs::remove_dir_all(self.path(oldest.job, oldest.place, oldest.first_row))?;
        }
    }

    /// What is kept by now.
    pub fn kept(&self) -> Result<Kept, Unkept> {
        let (_, bytes) = self.store.oldest_segment()?;
        Ok(Kept {
            bytes: u64::try_from(bytes).unwrap_or(0),
            rows_dropped: u64::try_from(self.store.rows_dropped()?).unwrap_or(0),
            segments_damaged: self.segments_damaged.load(Ordering::Relaxed),
        })
    }
}

fn number(path: &Path) -> Option<i64> {
    path.file_name()?.to_str()?.parse().ok()
}

/// A page that is being filled.
struct Reading {
    ask: Ask,
    time: Option<tuple::FieldId>,
    batches: Vec<Batch>,
    rows: usize,
    last: Option<i64>,
    more: bool,
}

impl Reading {
    /// Takes of a batch, whose first row has number `first`, what is wanted; whether there is room for more.
    fn take(&mut self, first: i64, batch: &Batch, watermark_ns: i64) -> bool {
        let after = self.ask.after.map_or(0, |after| after.saturating_add(1) - first);
        let skip = usize::try_from(after).unwrap_or(0).min(batch.rows());
        let mut chosen = vec![false; batch.rows()];
        for (row, choose) in chosen.iter_mut().enumerate().skip(skip) {
            if !self.is_wanted(batch, row, watermark_ns) {
                continue;
            }
            if self.rows == self.ask.limit {
                self.more = true;
                break;
            }
            *choose = true;
            self.rows += 1;
            self.last = Some(first + row as i64);
        }
        if chosen.contains(&true) {
            self.batches.push(filter(batch, &BooleanArray::from(chosen)));
        }
        !self.more
    }

    /// Takes rows of the store; whether there is room for more.
    fn take_tail(&mut self, tail: &[Tail], schema: &Arc<Schema>) -> Result<bool, Unkept> {
        for part in tail {
            let batch = decode(&part.of.batch, schema).ok_or(Unkept::Damaged)?;
            if !self.take(part.first_row, &batch, part.of.watermark_ns) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_wanted(&self, batch: &Batch, row: usize, watermark_ns: i64) -> bool {
        let times = self.time.map(|id| batch.i64(id)).filter(|times| times.is_valid(row));
        let own = times.map(|times| times.value(row));
        let at = own.unwrap_or(watermark_ns);
        self.ask.since_ns.is_none_or(|since| at >= since) && self.ask.until_ns.is_none_or(|until| at < until)
    }

    fn page(self, schema: Arc<Schema>) -> Page {
        Page { schema, batches: self.batches, last: self.last, next: self.last.filter(|_| self.more) }
    }
}

fn filter(batch: &Batch, chosen: &BooleanArray) -> Batch {
    let rows = chosen.true_count();
    if rows == batch.rows() {
        return batch.clone();
    }
    let column = |id| {
        let column = batch.column(id)?;
        Some(arrow_select::filter::filter(column, chosen).expect("the column has as many rows"))
    };
    Batch::new(batch.schema().clone(), rows, batch.schema().ids().map(column).collect())
}
