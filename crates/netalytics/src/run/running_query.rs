//! A run whose source has started: writes the rows, then completes the summary.

use std::io;

use capture::live::StopSignal;
use monitor::job::JobConfig;
use plan::Plan;
use runner::{MemoryDivision, QueryRun, RunSummary};
use sinks::Sink;

use crate::cli::verbosity::Verbosity;
use crate::diagnose::no_rows;
use crate::process::failure::CommandOutcome;
use crate::process::output;
use crate::process::signals::SignalHandlers;
use crate::render::summary_file::SummaryFile;
use crate::run::display::TerminalDisplay;
use crate::run::frequent_values;
use crate::run::open_outlets;
use crate::run::packet_writer::PacketWriter;
use crate::run::result_target::{ResultTarget, RunRequest};
use crate::source::server_tap;

/// A started run.
pub struct RunningQuery<'a, T: ResultTarget> {
    pub(super) request: RunRequest<'a, T>,
    pub(super) plan: Plan,
    pub(super) config: JobConfig,
    pub(super) memory: MemoryDivision,
    pub(super) run: QueryRun,
    pub(super) sink: Box<dyn Sink>,
    /// Name of the destination, and whether it is a terminal.
    pub(super) name: (String, bool),
    pub(super) display: TerminalDisplay,
    pub(super) packets: PacketWriter,
    pub(super) signals: SignalHandlers,
    pub(super) stop: StopSignal,
}

impl<T: ResultTarget> RunningQuery<'_, T> {
    /// Writes all rows, and prints the summary.
    pub fn finish(self, summary_file: Option<&mut SummaryFile>) -> anyhow::Result<CommandOutcome> {
        let RunningQuery {
            request,
            plan,
            config,
            memory,
            mut run,
            mut sink,
            mut display,
            ..
        } = self;
        let RunRequest {
            flags,
            target,
            telling,
        } = request;
        let (name, is_terminal) = self.name;
        let written = run.go(sink.as_mut(), &mut display);
        let mut summary = run.end(&plan, self.signals.name());
        let taps = &config.stream.server_tap;
        if telling != Verbosity::Errors {
            taps.iter()
                .filter_map(server_tap::exchanged)
                .for_each(|warning| output::complain(&warning));
        }
        summary.taps = taps.as_ref().map(|taps| taps.counts());
        summary.kept = sink.kept();
        summary.delivered = sink.delivered();
        summary
            .output_errors
            .extend(summary.delivered.iter().filter_map(open_outlets::complaint));
        summary.memory = Some(memory);
        let closed = written
            .as_ref()
            .is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        if let (Err(error), false) = (&written, closed) {
            summary.output_errors.push(format!(
                "cannot write the result to {name}; it is incomplete: {error}"
            ));
        }
        if let Some((kept, wrong)) = self
            .packets
            .finish(flags, &plan.monitor, &config, &self.stop)
        {
            summary.packets_kept = Some(kept);
            summary.output_errors.extend(wrong);
        }
        if !closed {
            target.conclude(&plan, &mut summary);
        }
        let telling = if closed { Verbosity::Errors } else { telling };
        if telling != Verbosity::Errors && no_rows::is_nothing(&plan, &summary) {
            let mut reasons = no_rows::nothing(&plan, &summary);
            if no_rows::is_filtered(&plan, &summary) {
                reasons.extend(frequent_values::describe(flags, &plan));
            }
            reasons
                .iter()
                .for_each(|reason| output::complain(&format!("nothing found: {reason}")));
        }
        print(telling, &summary, sink.as_ref(), is_terminal);
        summary_file.map_or(Ok(()), |file| file.write(&summary.json()))?;
        Ok(if summary.is_complete() {
            CommandOutcome::Done
        } else {
            CommandOutcome::Incomplete
        })
    }
}

/// Prints the final notes and the summary after the input has ended or writing has failed. On a terminal, an empty line
/// separates the summary from the result.
fn print(telling: Verbosity, summary: &RunSummary, sink: &dyn Sink, is_terminal: bool) {
    let is_told = telling != Verbosity::Errors;
    if is_told {
        sink.notes()
            .iter()
            .for_each(|note| output::complain(&format!("note: {note}")));
    }
    summary
        .complaints()
        .for_each(|text| output::complain(&format!("error: {text}")));
    if is_told {
        let gap = if is_terminal { "\n" } else { "" };
        output::complain_lines(&format!("{gap}{}", summary.text().trim_end()));
    }
}
