//! Queries over a recording: rejects flags that need packets, and prints messages.

use std::path::PathBuf;

use plan::{Bounds, Plan};
use query::checked;
use runner::replay::{self, CannotAnswer, Replaying};

use crate::commands::work::Telling;
use crate::failure::{Unreadable, wrong_flags};
use crate::flags::{Checksums, WorkFlags};
use crate::output;

/// Whether the inputs are recordings.
pub fn asked(paths: &[PathBuf]) -> anyhow::Result<bool> {
    replay::asked(paths).map_err(explain)
}

/// Opens the recording and plans the query over it.
pub fn open(
    query: checked::Query,
    flags: &WorkFlags,
    bounds: Bounds,
    telling: Telling,
) -> anyhow::Result<(Plan, Replaying)> {
    refuse(flags)?;
    let checksums = match flags.checksums {
        Checksums::Off => replay::Checksums::Off,
        _ => replay::Checksums::On,
    };
    let note = &mut |text: &str| {
        if telling != Telling::Errors {
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
        "--count counts packets, and a recording has none: limit the time, as in LIMIT 90s"
    } else if flags.write.is_some() {
        "--write writes packets, and a recording has none"
    } else if !flags.live.filter.is_empty() {
        "--capture-filter looks at packets, and a recording has none: FROM, TO and WHERE look at tuples"
    } else if !flags.labels.is_empty() {
        "--label is of packets: a recording has the labels that it was recorded with"
    } else {
        return Ok(());
    };
    Err(wrong_flags(why))
}

fn explain(why: CannotAnswer) -> anyhow::Error {
    match why {
        CannotAnswer::Unreadable(why) => Unreadable(why).into(),
        CannotAnswer::Wrong(why) => wrong_flags(why),
    }
}
