//! Runs the query of `query`, `record`, `report`, `check` and `compare`, in phases: [`PreparedRun`] opens, an unprivileged
//! run starts, a running query writes. Writes the summary file however the run ends.

use std::path::Path;

use anyhow::Context;

use crate::cli::flags::WorkFlags;
use crate::cli::query_text::{CommandQuery, ResolvedQuery};
use crate::cli::verbosity::Verbosity;
use crate::process::failure::{CommandOutcome, wrong_flags};
use crate::process::{output, signals};
use crate::render::summary_file::SummaryFile;
use crate::run::prepared_run::PreparedRun;
use crate::run::result_target::{ResultTarget, RunRequest};

/// Answers the query.
pub fn work<T: ResultTarget>(
    flags: &WorkFlags,
    query: &CommandQuery,
    target: &T,
    telling: Verbosity,
) -> anyhow::Result<CommandOutcome> {
    run(
        RunRequest {
            flags,
            target,
            telling,
        },
        || query.resolve(flags),
    )
}

/// Answers a checked query.
pub fn work_resolved<T: ResultTarget>(
    flags: &WorkFlags,
    query: ResolvedQuery,
    target: &T,
    telling: Verbosity,
) -> anyhow::Result<CommandOutcome> {
    run(
        RunRequest {
            flags,
            target,
            telling,
        },
        || Ok(query),
    )
}

fn run<T: ResultTarget>(
    request: RunRequest<'_, T>,
    query: impl FnOnce() -> anyhow::Result<ResolvedQuery>,
) -> anyhow::Result<CommandOutcome> {
    let flags = request.flags;
    check_paths(flags, request.target.path())?;
    signals::survive_size_limits().context("cannot handle signals")?;
    let create = |path| SummaryFile::create(path, flags.live.file_owner());
    let mut summary_file = flags.summary_json.as_deref().map(create).transpose()?;
    let ended = query()
        .and_then(|query| {
            PreparedRun::open(request, query)?
                .drop_privileges()?
                .start()
        })
        .and_then(|running| running.finish(summary_file.as_mut()));
    if let (Err(error), Some(file)) = (&ended, &mut summary_file)
        && let Err(unwritten) = file.fail(&format!("{error:#}"))
    {
        output::complain(&format!("error: {unwritten:#}"));
    }
    ended
}

/// Rejects outputs that are inputs, and duplicate paths.
pub fn check_paths(flags: &WorkFlags, output: Option<&Path>) -> anyhow::Result<()> {
    let dash = |path: &Path| path == Path::new("-");
    let from_stdin = flags.read.iter().filter(|p| dash(p)).count()
        + usize::from(flags.text.query_file.as_deref().is_some_and(dash));
    if from_stdin > 1 {
        return Err(wrong_flags("standard input (-) can be read once only"));
    }
    if flags.summary_json.as_deref().is_some_and(dash) {
        return Err(wrong_flags(
            "--summary-json requires a file; /dev/stderr prints the summary here",
        ));
    }
    if flags.write.as_deref().is_some_and(dash) && output.is_none_or(dash) {
        return Err(wrong_flags(
            "packets (-w -) and the result both go to standard output: write the result to a file with -o FILE, or discard it with -o /dev/null",
        ));
    }
    let write = flags.write.as_deref().filter(|path| !dash(path));
    let written: Vec<&Path> = [output, flags.summary_json.as_deref(), write]
        .into_iter()
        .flatten()
        .collect();
    let read = flags
        .read
        .iter()
        .chain(&flags.text.query_file)
        .chain(&flags.text.hosts);
    let read: Vec<&Path> = read.map(AsRef::as_ref).collect();
    written
        .iter()
        .try_for_each(|path| output::refuse_inputs(path, &read))?;
    let is_twice = |(i, path): (usize, &&Path)| written[..i].contains(path);
    if written.iter().enumerate().any(is_twice) {
        Err(wrong_flags(
            "two of --output, --write and --summary-json name the same file",
        ))
    } else {
        Ok(())
    }
}
