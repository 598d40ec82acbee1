//! Segments: folders with a Parquet data set each. Those of tuples are recordings, which `netalytics query -r` and others read.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use recording::{CaptureFacts, DataSet, Head, Kind, Recorder, Replay, Rotation, Rows, Wanted};
use tuple::{FieldId, Schema};

use super::{History, checksum};
use crate::columns::{decode, schema};
use crate::job::{Job, JobId};
use crate::store::{KeptResult, Segment, Tail};
use crate::unkept::{Unkept, Unreadable};

/// Memory for writing a segment.
const WRITING_BYTES: usize = 16 << 20;

impl History {
    /// Makes a segment of rows that follow each other in the store.
    pub(super) fn write_segment(&self, job: JobId, result: &KeptResult, tail: &[Tail]) -> Result<(), Unkept> {
        let Some(first) = tail.first() else { return Ok(()) };
        let schema = schema(&result.table, &result.columns).ok_or(Unkept::Damaged)?;
        let folder = self.path(job, result.place, first.first_row);
        if folder.exists() {
            // Left of an attempt that failed.
            fs::remove_dir_all(&folder)?;
        }
        let times =
            tail.iter().map(|part| part.of.first_ns).min().zip(tail.iter().map(|p| p.of.last_ns).max());
        let (first_ns, last_ns) = times.unwrap_or_default();
        let known = self.store.job(job)?.ok_or(Unkept::NoJob(job))?;
        let capture =
            CaptureFacts { first_ts: Some(first_ns), last_ts: Some(last_ns), ..CaptureFacts::default() };
        let head = Head { run: first.first_row.unsigned_abs(), capture, ..head(&known, result, &schema) };
        let written = write_files(&folder, &schema, head, tail);
        let (bytes, checksum) = match written {
            Ok(written) => written,
            Err(error) => {
                // What was begun takes room that is wanted.
                let _ = fs::remove_dir_all(&folder);
                return Err(error.into());
            }
        };
        self.store.add_segment(&Segment {
            job,
            place: result.place,
            first_row: first.first_row,
            rows: tail.iter().map(|part| part.of.rows).sum(),
            first_ns,
            last_ns,
            kept_ns: tail.iter().map(|part| part.kept_ns).max().unwrap_or_default(),
            bytes: i64::try_from(bytes).unwrap_or(i64::MAX),
            checksum: Some(checksum),
        })?;
        Ok(())
    }

    /// Reads these columns of a segment, until `take` wants no more: it is given the number of a batch's first row, and its rows.
    /// Whether it did. A segment that retention has removed is left out.
    ///
    /// # Errors
    /// `Unkept::Unreadable` when a file of it is missing or damaged; what `take` was given of it then counts for nothing.
    pub(super) fn read_segment(
        &self,
        segment: &Segment,
        (schema, columns): (&Arc<Schema>, &[FieldId]),
        take: &mut dyn FnMut(i64, &Rows) -> bool,
    ) -> Result<bool, Unkept> {
        let folder = self.path(segment.job, segment.place, segment.first_row);
        if let Err((path, why)) = checksum::verify(&folder, segment.checksum) {
            return self.unreadable(segment, &path, why);
        }
        let set = DataSet::open(std::slice::from_ref(&folder));
        let wanted = Wanted {
            table: schema.name.to_string(),
            schema: schema.clone(),
            columns: columns.to_vec(),
            bounds: Vec::new(),
        };
        let mut replay = Replay::new(&set, &[wanted]);
        let mut first = segment.first_row;
        loop {
            let rows = replay.next_rows();
            // What cannot be read is left out, and rows behind it have other numbers.
            if let Some(problem) = replay.problems().first() {
                return self.unreadable(segment, &problem.path, problem.message.clone());
            }
            let Some(rows) = rows else { break };
            if !take(first, &rows) {
                return Ok(false);
            }
            first += rows.batch.rows() as i64;
        }
        let read = first - segment.first_row;
        match read == segment.rows {
            true => Ok(true),
            false => {
                self.unreadable(segment, &folder, format!("it has {read} rows, and had {}", segment.rows))
            }
        }
    }

    /// A segment is damaged, unless retention has removed it meanwhile.
    fn unreadable(&self, segment: &Segment, path: &Path, why: String) -> Result<bool, Unkept> {
        if !self.store.has_segment(segment.job, segment.place, segment.first_row)? {
            return Ok(true);
        }
        self.segments_damaged.fetch_add(1, Ordering::Relaxed);
        let own = path.strip_prefix(&self.folder).unwrap_or(path);
        let unreadable = Unreadable {
            job: segment.job,
            first_row: segment.first_row,
            end_row: segment.first_row + segment.rows,
            file: Path::new(super::FOLDER).join(own),
            why,
        };
        tracing::warn!("{unreadable}");
        Err(Unkept::Unreadable(Box::new(unreadable)))
    }
}

/// Bytes and checksum.
fn write_files(folder: &Path, schema: &Arc<Schema>, head: Head, tail: &[Tail]) -> io::Result<(u64, i64)> {
    let Some(parent) = folder.parent() else { return Err(io::ErrorKind::NotFound.into()) };
    fs::create_dir_all(parent)?;
    let rotation = Rotation { every_ns: None, bytes: u64::MAX };
    let mut recorder = Recorder::create(folder, rotation)?.within(WRITING_BYTES);
    recorder.add_table(head, schema, &schema.ids().collect::<Vec<_>>());
    for part in tail {
        let batch = decode(&part.of.batch, schema).ok_or_else(|| io::Error::other("damaged rows"))?;
        recorder.write(0, &batch, part.of.watermark_ns)?;
    }
    recorder.finish()?;
    // A file is found after a loss of power when all folders above it are on disk, too.
    for folder in [folder, parent].into_iter().chain(parent.parent()) {
        File::open(folder)?.sync_all()?;
    }
    Ok((recorder.kept().bytes, checksum::of(folder)?))
}

/// What a segment says of itself. All have the watermark, by which rows are read back in their order.
fn head(job: &Job, result: &KeptResult, schema: &Schema) -> Head {
    let tuples = job.tuples.as_ref().filter(|_| result.processor.is_none());
    let own = || vec![(schema.name.to_string(), schema.version)];
    Head {
        parsers: tuples.map_or_else(own, |made| made.parsers.clone()),
        query: job.query.clone(),
        sample: tuples.map_or_else(|| "all".into(), |made| made.sample.clone()),
        // Each job has its own key without a name.
        redacted: job.redacted.then(|| job.id.0.unsigned_abs() ^ job.created_ns.unsigned_abs()),
        ..Head::of(&schema.name, Kind::Tuples)
    }
}
