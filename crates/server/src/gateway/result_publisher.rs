//! Passes the completed rows of jobs to the hub, and keeps their stored records small.

use std::sync::Arc;

use super::job_runtime::{JobResults, JobRuntime};
use crate::job::counters::GatewayStage;
use crate::results::hub::{ResultHub, WindowState};
use crate::store::persist_error::PersistError;
use crate::store::sqlite::{CommitProgress, FrameStore, JoinedFrames, NewFrame, StoreError};

/// Minimum interval between stored positions of a job that advances.
const PROGRESS_EVERY_NS: u64 = 1_000_000_000;

/// See the module documentation.
pub struct ResultPublisher {
    hub: Arc<ResultHub>,
    frames: FrameStore,
    /// Minimum size at which stored records of a job are replaced by their partial result, in bytes.
    frames_bytes: u64,
}

/// Effect of a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publication {
    /// Nothing was due.
    Unchanged,
    /// Rows and position are committed.
    Committed,
}

impl ResultPublisher {
    /// `frames_bytes`: see [`super::GatewaySettings::frames_bytes`].
    pub fn new(hub: Arc<ResultHub>, frames: FrameStore, frames_bytes: u64) -> ResultPublisher {
        ResultPublisher {
            hub,
            frames,
            frames_bytes,
        }
    }

    /// Commits the completed rows of a job with its position.
    ///
    /// # Errors
    /// `PersistError` when they cannot be stored; they remain.
    pub fn publish(
        &self,
        runtime: &mut JobRuntime,
        now_ns: u64,
    ) -> Result<Publication, PersistError> {
        if runtime.is_direct() && runtime.ending.is_none() {
            return Ok(Publication::Unchanged);
        }
        self.hub
            .meters
            .during(GatewayStage::Merge, || runtime.note_progress());
        let is_news = runtime.published.as_ref() != Some(&runtime.progress);
        let is_due = now_ns.saturating_sub(runtime.published_at_ns) >= PROGRESS_EVERY_NS;
        let is_end = runtime.progress.watermark_ns == i64::MAX;
        if runtime.rows.is_empty() && !(is_news && (is_due || is_end)) {
            return Ok(Publication::Unchanged);
        }
        let progress = CommitProgress {
            text: serde_json::to_string(&runtime.progress).unwrap_or_default(),
            watermark_ns: runtime.progress.watermark_ns,
            marks: Vec::new(),
            lacking: runtime.lacking(),
            joined: runtime.input.joiner().map(|_| JoinedFrames {
                over_ns: i64::MIN,
                ..JoinedFrames::default()
            }),
        };
        let deliveries: Vec<_> = runtime
            .rows
            .iter()
            .map(|rows| rows.delivery(runtime.id, WindowState::Closed))
            .collect();
        // Sorted tuples stay until the end.
        let commit = || self.hub.commit(runtime.id, &deliveries, &progress);
        self.hub.meters.during_commit(commit)?;
        runtime.rows.clear();
        runtime.published = Some(runtime.progress.clone());
        runtime.published_at_ns = now_ns;
        Ok(Publication::Committed)
    }

    /// Shows the content of open windows if the job has watchers.
    pub fn show_open(&self, runtime: &mut JobRuntime) {
        let job = runtime.id;
        if !self.hub.is_watched(job) {
            return;
        }
        for rows in runtime.open_rows() {
            if let Err(error) = self.hub.publish(&rows.delivery(job, WindowState::Open)) {
                tracing::debug!("cannot show open rows of job {job}: {error}");
            }
        }
    }

    /// Replaces the stored records of a job by their partial result if there are many.
    ///
    /// # Errors
    /// `StoreError` when the partial result cannot be stored; the records remain.
    pub fn compact(&self, runtime: &mut JobRuntime) -> Result<(), StoreError> {
        if runtime.frames_bytes <= runtime.frames_bytes_max {
            return Ok(());
        }
        let which = runtime.frames_kept();
        let Ok(bytes) = self.frames.bytes(runtime.id, which) else {
            return Ok(());
        };
        runtime.frames_bytes = bytes;
        let JobResults::Windows(windows) = &runtime.results else {
            return Ok(());
        };
        if bytes <= runtime.frames_bytes_max {
            return Ok(());
        }
        let Some(records) = windows.in_short(bytes / 2) else {
            runtime.frames_bytes_max = bytes.saturating_mul(2);
            return Ok(());
        };
        let frame = |(over_ns, payload): (i64, Vec<u8>)| NewFrame {
            job: runtime.id,
            lane: None,
            over_ns,
            payload: payload.into(),
        };
        let frames: Vec<NewFrame> = records.into_iter().map(frame).collect();
        self.frames.replace(runtime.id, which, &frames)?;
        runtime.frames_bytes = frames.iter().map(|frame| frame.payload.len() as u64).sum();
        runtime.frames_bytes_max = self.frames_bytes.max(4 * runtime.frames_bytes);
        Ok(())
    }
}
