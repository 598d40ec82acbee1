//! `netalytics explain QUERY`: the plan, without reading a packet.

use crate::failure::Ended;
use crate::flags::ExplainFlags;
use crate::{hosts, output, period, query_text, why};

/// Prints the plan.
pub fn explain(flags: &ExplainFlags) -> anyhow::Result<Ended> {
    let text = query_text::read(&flags.text)?;
    let mut names = hosts::read(flags.text.hosts.as_deref())?;
    let checked = query_text::check(&text, &mut names, &[])?;
    let plan = period::as_far_as_known(&checked, planner::lower(&checked));
    why::never(&plan).iter().for_each(|reason| output::complain(&format!("note: {reason}")));
    let said = planner::explain(&plan) + &planner::explain_period(&checked);
    output::print(output::visible_lines(&said).as_bytes())
}
