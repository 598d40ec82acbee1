//! `netalytics record 'QUERY' -r FILE… -o DIR`: writes the result as a data set.

use std::path::Path;

use anyhow::Context;
use capture::seccomp::FileAccess;
use planner::{PlanOptions, PlanOutput};
use query::CheckedQuery;
use recording::{FileMetadata, Recorder, RecordingRotation};
use sinks::{DataSetSink, Sink, TeeSink};
use tuple::{RedactionSecret, Redactor};

use crate::cli::flags::RecordFlags;
use crate::cli::query_text::CommandQuery;
use crate::cli::verbosity::Verbosity;
use crate::process::failure::{CommandOutcome, wrong_flags};
use crate::run::open_outlets;
use crate::run::output_folder::OutputFolder;
use crate::run::privileges::RunUser;
use crate::run::redaction::{behind, secret};
use crate::run::result_target::{ResultTarget, SinkContext};
use crate::run::run_query::work;
use runner::RowWriting;

/// Records the result of the query.
pub fn record(flags: &RecordFlags, quiet: bool, verbose: bool) -> anyhow::Result<CommandOutcome> {
    let query = CommandQuery::read(&flags.work.text)?;
    work(&flags.work, &query, flags, Verbosity::of(quiet, verbose))
}

impl ResultTarget for RecordFlags {
    /// The folder, the redaction secret, and outlets.
    type Ready = (
        OutputFolder,
        Option<RedactionSecret>,
        Option<open_outlets::OpenOutlets>,
    );

    fn path(&self) -> Option<&Path> {
        None
    }

    fn files(&self) -> FileAccess {
        FileAccess::New
    }

    fn writing(&self) -> RowWriting {
        RowWriting::InRowGroups
    }

    fn options(&self, query: &CheckedQuery, options: PlanOptions) -> anyhow::Result<PlanOptions> {
        keeps_fields(query)?;
        open_outlets::check(&self.outlets, query)?;
        Ok(PlanOptions {
            output: PlanOutput::Recording(self.work.origin()),
            ..options
        })
    }

    fn prepare(&self, query: &str) -> anyhow::Result<Self::Ready> {
        if self.output.exists() && !self.output.is_dir() {
            return Err(wrong_flags(format!(
                "{} is not a folder",
                self.output.display()
            )));
        }
        if self.work.read.iter().any(|path| path.is_dir()) {
            return Err(wrong_flags("record reads captures, not recordings (-r)"));
        }
        let secret = if self.no_redact {
            None
        } else {
            Some(secret(self.redact_key.as_deref())?)
        };
        let becoming = RunUser::of(&self.work.live)?;
        let folder =
            OutputFolder::prepare(&self.output, becoming).with_context(|| self.unwritten())?;
        Ok((
            folder,
            secret,
            open_outlets::OpenOutlets::prepare(&self.outlets, query)?,
        ))
    }

    fn start(&self, (_, _, outlets): &mut Self::Ready) -> anyhow::Result<()> {
        outlets
            .as_mut()
            .map_or(Ok(()), |outlets| outlets.start(&self.work.live))
    }

    fn name(&self, _: &Self::Ready) -> (String, bool) {
        (self.output.display().to_string(), false)
    }

    fn open(
        &self,
        (folder, secret, outlets): Self::Ready,
        opened: SinkContext,
    ) -> anyhow::Result<Box<dyn Sink>> {
        let rotate = self.work.rotate.unwrap_or_default();
        let bytes = rotate.bytes.unwrap_or(RecordingRotation::default().bytes);
        let rotation = RecordingRotation {
            every_ns: rotate.every_ns,
            bytes,
        };
        let mut recorder =
            Recorder::create(&folder.reach(), rotation).with_context(|| self.unwritten())?;
        recorder = recorder.within(opened.row_group_bytes);
        for table in opened.tables {
            let head = FileMetadata {
                redacted: secret.as_ref().map(RedactionSecret::name),
                ..table.head
            };
            recorder.add_table(head, &table.schema, &table.columns);
        }
        // Outlets receive the rows as stored, with the same redaction.
        if let Some(outlets) = outlets {
            let data_set = Box::new(DataSetSink::new(recorder));
            return Ok(behind(
                TeeSink::new(data_set, Box::new(outlets.open(&opened.heads))),
                secret,
            ));
        }
        if let Some(secret) = secret {
            recorder = recorder.redacting(Redactor::new(secret));
        }
        Ok(Box::new(DataSetSink::new(recorder)))
    }
}

impl RecordFlags {
    fn unwritten(&self) -> String {
        format!("cannot record to {}", self.output.display())
    }
}

/// Rejects queries whose tuples are not stored as fields sorted by time.
fn keeps_fields(query: &CheckedQuery) -> anyhow::Result<()> {
    if !query.rows.order.is_empty() {
        return Err(wrong_flags(
            "a recording is in the order of time: use ORDER BY in the query that reads it",
        ));
    }
    let mut select = query.rows.select.iter().flatten();
    if let Some(place) = select.find_map(|column| column.computed_place()) {
        return Err(wrong_flags(format!(
            "a recording stores fields unchanged, under their names: use `{}` in the query that reads it",
            query.computed[place].text
        )));
    }
    Ok(())
}
