//! From a job's order to a monitor's arguments, within what the host's owner allows. The order says what is wanted; what is read
//! and taken the arguments say, and those are made here.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plan::message::{JobOrder, Packets};
use plan::{Burden, Cost};
use tuple::Schema;

use crate::host::Host;
use crate::policy::{Ask, Leaves, Policy};

/// An order, and how its monitor is started.
#[derive(Debug)]
pub struct Asked {
    /// What is wanted.
    pub order: JobOrder,
    /// What is behind `monitor` on its command line.
    pub arguments: Vec<String>,
    /// What it takes of the host, as estimated.
    pub cost: Cost,
}

/// What the host bears already.
#[derive(Clone, Copy, Debug, Default)]
pub struct Borne {
    /// Jobs that run.
    pub jobs: usize,
    /// What they take, as estimated.
    pub burden: Burden,
    /// Packets that the host sees.
    pub packets_per_second: u64,
}

/// A capture that is played again and again.
#[derive(Clone, Debug)]
pub struct Demo {
    /// The file.
    pub capture: PathBuf,
    /// Between two rounds.
    pub pause: Duration,
}

/// What a message asks, if it may; else why not, in words. `demo`: what this agent reads in place of interfaces.
///
/// # Errors
/// When the message asks for what this program does not know, or the host's owner does not allow.
pub fn asked(
    body: &[u8],
    policy: &Policy,
    host: &Host,
    demo: Option<&Demo>,
    borne: Borne,
) -> Result<Asked, String> {
    let schemas = parsers::registry::schemas();
    let named = |name: &str| -> Option<Arc<Schema>> { schemas.iter().find(|s| s.name == name).cloned() };
    let mut order = JobOrder::decode(body, &named).map_err(|why| why.to_string())?;
    let mut refusals = Vec::new();
    let interfaces = match (&order.packets, demo) {
        (_, Some(_)) => Vec::new(),
        (Packets::Interfaces { names, .. }, None) if names.is_empty() => {
            host.interfaces.iter().filter(|name| policy.allows_interface(name)).cloned().collect()
        }
        (Packets::Interfaces { names, .. }, None) => names.clone(),
        (Packets::Demo, None) => {
            refusals.push("this agent has no demonstration".to_owned());
            Vec::new()
        }
        (Packets::Files(_), None) => {
            refusals.push("an agent reads no files".to_owned());
            Vec::new()
        }
    };
    order.memory_max = if order.memory_max == 0 { policy.memory_max } else { order.memory_max };
    let leaves = match (&order.redaction, order.plan.dataflow.pipelines.is_empty()) {
        (None, _) => Leaves::Raw,
        (Some(_), true) => Leaves::Tuples,
        (Some(_), false) => Leaves::Results,
    };
    let mut cost = planner::cost(&order.plan);
    // It is held to that.
    cost.memory_bytes_max = cost.memory_bytes_max.min(order.memory_max);
    let ask = Ask {
        plan: &order.plan,
        interfaces: &interfaces,
        leaves,
        jobs: borne.jobs as u32,
        workers: order.workers,
        memory_max: order.memory_max,
        takes: cost.at(borne.packets_per_second),
        borne: borne.burden,
        ceiling: policy.ceiling(host),
    };
    refusals.extend(policy.refusals(&ask));
    if !refusals.is_empty() {
        return Err(refusals.join("; "));
    }
    let mut arguments = vec!["--memory-max".to_owned(), order.memory_max.to_string()];
    if order.workers > 0 {
        arguments.extend(["--workers".to_owned(), order.workers.to_string()]);
    }
    for name in &interfaces {
        arguments.extend(["-i".to_owned(), name.clone()]);
    }
    if let Some(Demo { capture, pause }) = demo {
        arguments.extend(["--demo".to_owned(), capture.display().to_string()]);
        arguments.extend(["--demo-pause".to_owned(), format!("{}ms", pause.as_millis())]);
    }
    if let Packets::Interfaces { filter: Some(filter), .. } = &order.packets {
        arguments.extend(["--capture-filter".to_owned(), filter.clone()]);
    }
    Ok(Asked { order, arguments, cost })
}
