//! A query for a network: reads the network file and the costs, and creates the physical plan.

use std::fs;
use std::num::NonZeroU32;
use std::path::Path;

use anyhow::Context;
use plan::{NetworkBudget, Plan};
use planner::physical::{NetworkMode, PhysicalPlan, PlanCosts, PlanRequest, physical};
use planner::topology::{NetworkSite, SiteError};

use crate::cli::flags::WorkFlags;
use crate::cli::flags::network::NetworkFlags;
use crate::network::switch_access;
use crate::process::failure::wrong_flags;

/// Maximum size of a network file.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// A plan with its network.
pub struct NetworkPlan {
    /// The network.
    pub site: NetworkSite,
    /// The plan.
    pub plan: PhysicalPlan,
}

/// Rejects other inputs in addition to the network.
pub fn alone(flags: &WorkFlags) -> anyhow::Result<()> {
    let Some(_) = &flags.network.network else {
        return Ok(());
    };
    let others = [
        (!flags.read.is_empty(), "-r"),
        (flags.live.is_live(), "-i"),
        (flags.bus.kafka.is_some(), "--kafka"),
        (flags.write.is_some(), "-w"),
        (!flags.live.listen.is_empty(), "--listen"),
        (flags.live.exports, "--exports"),
        (flags.live.templates.is_some(), "--templates"),
    ];
    match others.iter().find(|(is_there, _)| *is_there) {
        Some((_, flag)) => Err(wrong_flags(format!(
            "--network cannot be combined with {flag}"
        ))),
        None => Ok(()),
    }
}

/// Plans a query for the network of the flags.
pub fn plan(
    flags: &NetworkFlags,
    network: &Path,
    plan: &Plan,
    budget: NetworkBudget,
) -> anyhow::Result<NetworkPlan> {
    let site = site(network)?;
    let costs = costs(flags.costs.as_deref())?;
    let mode: NetworkMode = flags.mode.into();
    let occupied = switch_access::occupied(&site, plan, mode);
    let asked = PlanRequest {
        plan,
        site: &site,
        expected: &flags.expect,
        costs: &costs,
        exact: flags.exact,
        mode,
        sampling: flags.sampling.map(NonZeroU32::get),
        occupied: &occupied,
        aggregate: flags.aggregate.into(),
        budget,
        seed: flags.seed,
    };
    let plan = physical(&asked)
        .map_err(|why| wrong_flags(format!("no plan for this network is possible: {why}")))?;
    Ok(NetworkPlan { site, plan })
}

/// The network of a file.
pub fn site(path: &Path) -> anyhow::Result<NetworkSite> {
    NetworkSite::parse(&read(path)?).map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(SiteError::to_string).collect();
        wrong_flags(format!("{}:\n  {}", path.display(), lines.join("\n  ")))
    })
}

/// The costs in a file, or the defaults.
pub fn costs(path: Option<&Path>) -> anyhow::Result<PlanCosts> {
    let Some(path) = path else {
        return Ok(PlanCosts::default());
    };
    PlanCosts::parse(&read(path)?).map_err(|why| wrong_flags(format!("{}: {why}", path.display())))
}

/// Reads a file up to the size limit.
pub fn read(path: &Path) -> anyhow::Result<String> {
    let name = path.display();
    let size = fs::metadata(path)
        .with_context(|| format!("cannot read {name}"))?
        .len();
    if size > FILE_BYTES_MAX {
        return Err(wrong_flags(format!(
            "{name} has {size} bytes; at most {FILE_BYTES_MAX} are read"
        )));
    }
    fs::read_to_string(path).with_context(|| format!("cannot read {name}"))
}
