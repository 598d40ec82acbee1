//! `netalytics explain QUERY`: the plan, without reading a packet.

use crate::failure::Ended;
use crate::flags::ExplainFlags;
use crate::{hosts, output, query_text, why};

/// Prints the plan.
pub fn explain(flags: &ExplainFlags) -> anyhow::Result<Ended> {
    let text = query_text::read(&flags.text)?;
    let mut names = hosts::read(flags.text.hosts.as_deref())?;
    let plan = query_text::plan(&text, &mut names, &[])?;
    why::never(&plan).iter().for_each(|reason| output::complain(&format!("note: {reason}")));
    output::print(output::visible_lines(&planner::explain(&plan)).as_bytes())
}
