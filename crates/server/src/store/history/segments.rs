//! Segments: folders with one Parquet data set each. Those of tuples are recordings, which `netalytics query -r` and
//! other programs read.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use recording::{
    CaptureFacts, DataSet, FileMetadata, Recorder, RecordingReplay, RecordingRotation,
    ReplayedRows, TableKind, TableRequest,
};
use tuple::{FieldId, Schema};

use super::{RowHistory, checksum};
use crate::job::columns::{decode, schema};
use crate::job::{Job, JobId};
use crate::store::persist_error::{PersistError, UnreadableRows};
use crate::store::sqlite::{HistorySegment, KeptResult, RowTail};

/// Memory for writing a segment, in bytes.
const WRITING_BYTES: usize = 16 << 20;

impl RowHistory {
    /// Writes consecutive rows of the store to a segment.
    pub(super) fn write_segment(
        &self,
        job: JobId,
        result: &KeptResult,
        tail: &[RowTail],
    ) -> Result<(), PersistError> {
        let Some(first) = tail.first() else {
            return Ok(());
        };
        let schema = schema(&result.table, &result.columns).ok_or(PersistError::Damaged)?;
        let folder = self.path(job, result.place, first.first_row);
        if folder.exists() {
            // Left by a failed attempt.
            fs::remove_dir_all(&folder)?;
        }
        let times = tail
            .iter()
            .map(|part| part.of.first_ns)
            .min()
            .zip(tail.iter().map(|p| p.of.last_ns).max());
        let (first_ns, last_ns) = times.unwrap_or_default();
        let known = self.jobs.get(job)?.ok_or(PersistError::NoJob(job))?;
        let capture = CaptureFacts {
            first_ts: Some(first_ns),
            last_ts: Some(last_ns),
            ..CaptureFacts::default()
        };
        let head = FileMetadata {
            run: first.first_row.unsigned_abs(),
            capture,
            ..head(&known, result, &schema)
        };
        let written = write_files(&folder, &schema, head, tail);
        let (bytes, checksum) = match written {
            Ok(written) => written,
            Err(error) => {
                // Frees the space of the incomplete segment.
                let _ = fs::remove_dir_all(&folder);
                return Err(error.into());
            }
        };
        self.segments.add(&HistorySegment {
            job,
            place: result.place,
            first_row: first.first_row,
            rows: tail.iter().map(|part| part.of.rows).sum(),
            first_ns,
            last_ns,
            kept_ns: tail
                .iter()
                .map(|part| part.kept_ns)
                .max()
                .unwrap_or_default(),
            bytes: i64::try_from(bytes).unwrap_or(i64::MAX),
            checksum: Some(checksum),
        })?;
        Ok(())
    }

    /// Reads these columns of a segment until `take` declines more; `take` receives the number of a batch's first row
    /// and its rows. Returns whether it declined. A segment removed by retention is skipped.
    ///
    /// # Errors
    /// `PersistError::Unreadable` if a file is missing or damaged; the rows passed to `take` are invalid then.
    pub(super) fn read_segment(
        &self,
        segment: &HistorySegment,
        (schema, columns): (&Arc<Schema>, &[FieldId]),
        take: &mut dyn FnMut(i64, &ReplayedRows) -> bool,
    ) -> Result<bool, PersistError> {
        let folder = self.path(segment.job, segment.place, segment.first_row);
        if let Err((path, why)) = checksum::verify(&folder, segment.checksum) {
            return self.unreadable(segment, &path, why);
        }
        let set = DataSet::open(std::slice::from_ref(&folder));
        let wanted = TableRequest {
            table: schema.name.to_string(),
            schema: schema.clone(),
            columns: columns.to_vec(),
            bounds: Vec::new(),
        };
        let mut replay = RecordingReplay::new(&set, &[wanted]);
        let mut first = segment.first_row;
        loop {
            let rows = replay.next_rows();
            // Unreadable parts are skipped, so the numbers of the rows after them are wrong.
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
        if read == segment.rows {
            Ok(true)
        } else {
            self.unreadable(
                segment,
                &folder,
                format!("it has {read} rows instead of {}", segment.rows),
            )
        }
    }

    /// Reports a damaged segment, unless retention has removed it in the meantime.
    fn unreadable(
        &self,
        segment: &HistorySegment,
        path: &Path,
        why: String,
    ) -> Result<bool, PersistError> {
        if !self
            .segments
            .has(segment.job, segment.place, segment.first_row)?
        {
            return Ok(true);
        }
        self.segments_damaged.fetch_add(1, Ordering::Relaxed);
        let own = path.strip_prefix(&self.folder).unwrap_or(path);
        let unreadable = UnreadableRows {
            job: segment.job,
            first_row: segment.first_row,
            end_row: segment.first_row + segment.rows,
            file: Path::new(super::FOLDER).join(own),
            why,
        };
        tracing::warn!("{unreadable}");
        Err(PersistError::Unreadable(Box::new(unreadable)))
    }
}

/// Writes the files of a segment; returns their size and checksum.
fn write_files(
    folder: &Path,
    schema: &Arc<Schema>,
    head: FileMetadata,
    tail: &[RowTail],
) -> io::Result<(u64, i64)> {
    let Some(parent) = folder.parent() else {
        return Err(io::ErrorKind::NotFound.into());
    };
    fs::create_dir_all(parent)?;
    let rotation = RecordingRotation {
        every_ns: None,
        bytes: u64::MAX,
    };
    let mut recorder = Recorder::create(folder, rotation)?.within(WRITING_BYTES);
    recorder.add_table(head, schema, &schema.ids().collect::<Vec<_>>());
    for part in tail {
        let batch =
            decode(&part.of.batch, schema).ok_or_else(|| io::Error::other("damaged rows"))?;
        recorder.write(0, &batch, part.of.watermark_ns)?;
    }
    recorder.finish()?;
    // A file survives a power loss only if all parent folders are synced, too.
    for folder in [folder, parent].into_iter().chain(parent.parent()) {
        File::open(folder)?.sync_all()?;
    }
    Ok((recorder.kept().bytes, checksum::of(folder)?))
}

/// Header of a segment. All have the watermark, which restores the order of rows.
fn head(job: &Job, result: &KeptResult, schema: &Schema) -> FileMetadata {
    let tuples = job.tuples.as_ref().filter(|_| result.processor.is_none());
    let own = || vec![(schema.name.to_string(), schema.version)];
    FileMetadata {
        parsers: tuples.map_or_else(own, |made| made.parsers.clone()),
        query: job.spec.query.clone(),
        sample: tuples.map_or_else(|| "all".into(), |made| made.sample.clone()),
        // Each job has its own key without a name.
        redacted: job
            .spec
            .is_redacted()
            .then(|| job.id.0 ^ job.created_ns.unsigned_abs()),
        ..FileMetadata::of(&schema.name, TableKind::Tuples)
    }
}
