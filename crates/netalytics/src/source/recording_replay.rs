//! Queries over a recording: rejects flags that need packets, and prints messages.

use std::path::PathBuf;

use plan::Plan;
use planner::PlanOptions;
use query::CheckedQuery;
use runner::replay::{self, ReplayError, ReplayRun};

use crate::cli::flags::{ChecksumFlag, WorkFlags};
use crate::cli::verbosity::Verbosity;
use crate::process::failure::{UnreadableInputs, wrong_flags};
use crate::process::output;

/// Whether the inputs are recordings.
pub fn asked(paths: &[PathBuf]) -> anyhow::Result<bool> {
    replay::asked(paths).map_err(explain)
}

/// Opens the recording and plans the query over it.
pub fn open(
    query: CheckedQuery,
    flags: &WorkFlags,
    options: &PlanOptions,
    telling: Verbosity,
) -> anyhow::Result<(Plan, ReplayRun)> {
    refuse(flags)?;
    let note = &mut |text: &str| {
        if telling != Verbosity::Errors {
            output::complain(&format!("note: {text}"));
        }
    };
    replay::open(query, options, &flags.read, note).map_err(explain)
}

/// Omits checksums from the plan if the flags say so.
pub fn omit_checksums(
    query: &CheckedQuery,
    flags: &WorkFlags,
    options: &mut PlanOptions,
) -> anyhow::Result<()> {
    match flags.checksums {
        ChecksumFlag::Off => {
            replay::omit_checksums(query, options, "--checksums off").map_err(explain)
        }
        _ => Ok(()),
    }
}

/// Rejects flags that require packets.
fn refuse(flags: &WorkFlags) -> anyhow::Result<()> {
    let why = if flags.count.is_some() {
        "--count counts packets, which a recording does not have: limit the time, as in LIMIT 90s"
    } else if flags.write.is_some() {
        "--write writes packets, which a recording does not have"
    } else if !flags.live.filter.is_empty() {
        "--capture-filter applies to packets, which a recording does not have: use FROM, TO, and WHERE"
    } else if !flags.labels.is_empty() {
        "--label applies to packets: a recording has the labels that it was recorded with"
    } else {
        return Ok(());
    };
    Err(wrong_flags(why))
}

fn explain(why: ReplayError) -> anyhow::Error {
    match why {
        ReplayError::Unreadable(why) => UnreadableInputs(why).into(),
        ReplayError::Wrong(why) => wrong_flags(why),
    }
}
