//! Queries over a recording: rejects flags that need packets, and prints messages.

use std::path::PathBuf;

use plan::{Plan, TimeBounds};
use query::checked_query;
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
    query: checked_query::CheckedQuery,
    flags: &WorkFlags,
    bounds: TimeBounds,
    telling: Verbosity,
) -> anyhow::Result<(Plan, ReplayRun)> {
    refuse(flags)?;
    let checksums = match flags.checksums {
        ChecksumFlag::Off => replay::ChecksumMode::Off,
        _ => replay::ChecksumMode::On,
    };
    let note = &mut |text: &str| {
        if telling != Verbosity::Errors {
            output::complain(&format!("note: {text}"));
        }
    };
    replay::open(query, bounds, &flags.read, checksums, note).map_err(explain)
}

/// Removes checksums from the columns of the query.
pub fn leave_out_checksums(plan: &mut Plan, why: &str) -> anyhow::Result<()> {
    replay::leave_out_checksums(plan, why).map_err(explain)
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
