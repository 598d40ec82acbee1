//! The file of `--summary-json`. It is truncated first, so that the summary of an earlier run is not mistaken for the
//! current one, and receives a summary however the run ends.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use runner::SUMMARY_FORMAT;
use serde_json::{Value, json};

use crate::process::file_owner::FileOwner;
use crate::process::output;

/// See the module documentation.
pub struct SummaryFile {
    file: File,
    path: PathBuf,
    state: SummaryFileState,
}

/// Whether the summary was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SummaryFileState {
    Empty,
    Written,
}

impl SummaryFile {
    /// Creates or truncates the file.
    pub fn create(path: &Path, owner: FileOwner) -> anyhow::Result<SummaryFile> {
        Ok(SummaryFile {
            file: output::create(path, owner)?,
            path: path.to_owned(),
            state: SummaryFileState::Empty,
        })
    }

    /// Writes the summary.
    pub fn write(&mut self, summary: &str) -> anyhow::Result<()> {
        self.state = SummaryFileState::Written;
        let written = self.file.write_all(summary.as_bytes());
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// Writes the error of a run that failed before it had a summary.
    pub fn fail(&mut self, why: &str) -> anyhow::Result<()> {
        match self.state {
            SummaryFileState::Empty => self.write(&of_failure(why)),
            SummaryFileState::Written => Ok(()),
        }
    }
}

/// Writes an error about invalid flags to the file at `path` if it contains an earlier summary.
pub fn refute(path: &Path, why: &str) {
    if std::fs::read(path).is_ok_and(|bytes| is_summary(&bytes)) {
        // Another error is already being reported.
        let _ = SummaryFile::create(path, FileOwner::Us).and_then(|mut file| file.fail(why));
    }
}

fn is_summary(bytes: &[u8]) -> bool {
    let value = serde_json::from_slice::<Value>(bytes).unwrap_or_default();
    ["version", "complete", "errors"]
        .iter()
        .all(|key| value.get(key).is_some())
}

fn of_failure(why: &str) -> String {
    let error = json!({"path": null, "offset": null, "message": why, "after_packets": 0});
    let summary = json!({
        "query": null,
        "version": env!("CARGO_PKG_VERSION"),
        "format": SUMMARY_FORMAT,
        "complete": false,
        "errors": [error],
        "panics": [],
        "output_error": null,
        "rows": 0,
    });
    format!("{summary:#}\n")
}
