//! The query: reads its text from the command line or a file, and plans it.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;
use plan::Plan;

use crate::cli::flags::QueryText;
use crate::process::failure::{UsageError, wrong_flags};
use crate::render::hosts::{self, HostNames, TrackedHostTable};

/// Maximum bytes read of a query file; the language has a lower limit.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Reads the query's text.
pub fn read(flags: &QueryText) -> anyhow::Result<String> {
    match (&flags.query, &flags.query_file) {
        (Some(text), _) => Ok(text.clone()),
        (None, Some(path)) => from_file(path),
        (None, None) => Err(wrong_flags("there is no query: QUERY in quotes, or -f FILE")),
    }
}

/// Checks the query; the error lists all positions. A host missing in `names` is looked up in the captures, whose names
/// are added.
pub fn check(text: &str, names: &mut HostNames, captures: &[PathBuf]) -> anyhow::Result<query::CheckedQuery> {
    let schemas = parsers::registry::schemas();
    let asked = TrackedHostTable::new(&names.addresses);
    let mut checked = query::check(text, &schemas, &asked);
    if asked.missed.get() {
        hosts::add_those_of_captures(captures, names);
        checked = query::check(text, &schemas, &names.addresses);
    }
    Ok(checked.map_err(|errors| UsageError::Query(query::render(&errors, text)))?)
}

/// Checks a query for a network, where BUDGET is allowed. Hosts must be known names.
pub fn check_for_network(text: &str, names: &HostNames) -> anyhow::Result<query::CheckedQuery> {
    let checked = query::check_for_network(text, &parsers::registry::schemas(), &names.addresses);
    Ok(checked.map_err(|errors| UsageError::Query(query::render(&errors, text)))?)
}

/// Plan of a query over packets.
pub fn plan(text: &str, names: &mut HostNames, captures: &[PathBuf]) -> anyhow::Result<Plan> {
    Ok(planner::lower(&check(text, names, captures)?))
}

fn from_file(path: &Path) -> anyhow::Result<String> {
    let name = path.display();
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().lock().take(FILE_BYTES_MAX).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|f| f.take(FILE_BYTES_MAX).read_to_end(&mut bytes))
    }
    .with_context(|| format!("cannot read the query from {name}"))?;
    String::from_utf8(bytes).map_err(|_| wrong_flags(format!("the query in {name} is not UTF-8")))
}
