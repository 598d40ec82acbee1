//! Converts a job's order to a monitor's arguments, within the policy of the host's owner. The order defines the query;
//! the input and resources are set by the arguments, which are created here.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use control::MonitorEnd;
use control::pattern::matches;
use plan::message::{JobOrder, OrderInput};
use plan::{JobCost, ResourceUsage};
use tuple::AgentOrigin;

use crate::host::AgentHost;
use crate::policy::{ExportLevel, HostPolicy, PolicyRequest};
use crate::sharing::MonitorIdentity;

/// Maximum interfaces listed in a rejection.
const LISTED: usize = 20;

/// A permitted order and the monitor's arguments.
#[derive(Debug)]
pub struct PreparedOrder {
    /// The order.
    pub order: JobOrder,
    /// Arguments after `monitor` on the command line.
    pub arguments: Vec<String>,
    /// Estimated cost on the host.
    pub cost: JobCost,
    /// Monitors of this identity serve the job, too; `None`: only its own.
    pub identity: Option<MonitorIdentity>,
}

/// Current load of the host by jobs.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostLoad {
    /// Number of running jobs.
    pub jobs: usize,
    /// Estimated cost of these jobs.
    pub burden: ResourceUsage,
    /// Packets per second on the host.
    pub packets_per_second: u64,
    /// Whether one of their monitors can serve another job.
    pub can_share: bool,
}

/// A capture replayed in a loop.
#[derive(Clone, Debug)]
pub struct DemoCapture {
    /// The file.
    pub capture: PathBuf,
    /// Pause between repetitions.
    pub pause: Duration,
    /// Whether all jobs receive the same packets at the same time.
    pub in_step: bool,
}

impl DemoCapture {
    /// Name in the list of interfaces.
    pub const INTERFACE: &'static str = "demo";
}

/// Inputs of an agent besides its interfaces.
#[derive(Clone, Copy, Debug)]
pub struct AgentInputs<'a> {
    /// Input in place of interfaces.
    pub demo: Option<&'a DemoCapture>,
    /// Socket that passes on received export messages, if the policy permits them.
    pub exports: Option<&'a Path>,
    /// Data folder of the agent.
    pub folder: &'a Path,
}

/// File in the agent's folder with the templates of exporters, shared by all monitors.
const TEMPLATES: &str = "export-templates.json";

/// Decodes and checks an order. `inputs`: those of this agent besides interfaces. `origin`: origin of the job's tuples.
/// `borne`: load of the host, and whether it has a monitor of this identity for the job.
///
/// # Errors
/// The reason: it requires something unknown to this program, or the policy does not allow it.
pub fn asked(
    body: &[u8],
    policy: &HostPolicy,
    host: &AgentHost,
    inputs: &AgentInputs<'_>,
    origin: AgentOrigin,
    borne: impl FnOnce(Option<&MonitorIdentity>) -> HostLoad,
) -> Result<PreparedOrder, MonitorEnd> {
    let mut order = JobOrder::decode(body, &parsers::registry::schema)
        .map_err(|why| MonitorEnd::Refused(why.to_string()))?;
    order.origin = origin;
    let mut refusals = Vec::new();
    let input = input_arguments(&order, policy, host, inputs).unwrap_or_else(|mut lacking| {
        refusals.append(&mut lacking);
        Vec::new()
    });
    order.memory_max = if order.memory_max == 0 {
        policy.memory_max
    } else {
        order.memory_max
    };
    let leaves = match (&order.redaction, order.plan.dataflow.pipelines.is_empty()) {
        (None, _) => ExportLevel::Raw,
        (Some(_), true) => ExportLevel::Tuples,
        (Some(_), false) => ExportLevel::Results,
    };
    let mut cost = planner::cost(&order.plan);
    // The limit is enforced.
    cost.memory_bytes_max = cost.memory_bytes_max.min(order.memory_max);
    let arguments = arguments(&order, input, policy);
    let identity = MonitorIdentity::of(&order, &arguments);
    let borne = borne(identity.as_ref());
    let takes = if borne.can_share {
        ResourceUsage::default()
    } else {
        cost.at(borne.packets_per_second)
    };
    let ask = PolicyRequest {
        plan: &order.plan,
        leaves,
        publishes: !order.topics.is_empty(),
        jobs: borne.jobs as u32,
        workers: order.workers,
        memory_max: order.memory_max,
        takes,
        borne: borne.burden,
        ceiling: policy.ceiling(host),
    };
    refusals.extend(policy.refusals(&ask));
    if !refusals.is_empty() {
        return Err(MonitorEnd::Refused(refusals.join("; ")));
    }
    let crowding = policy.crowding(&ask);
    if !crowding.is_empty() {
        return Err(MonitorEnd::Crowded(crowding.join("; ")));
    }
    Ok(PreparedOrder {
        order,
        arguments,
        cost,
        identity,
    })
}

/// Arguments for the input of the monitor; the errors list missing and forbidden inputs.
fn input_arguments(
    order: &JobOrder,
    policy: &HostPolicy,
    host: &AgentHost,
    inputs: &AgentInputs<'_>,
) -> Result<Vec<String>, Vec<String>> {
    if order.capture.input == OrderInput::Exports {
        let socket = inputs.exports.ok_or_else(|| {
            let why = "this host does not receive export messages: its policy file has no addresses for them \
                       ([exports] listen = [\"sflow://0.0.0.0\"])";
            vec![why.to_owned()]
        })?;
        let templates = inputs.folder.join(TEMPLATES);
        let elements = policy.exports.as_ref().and_then(|of| of.elements.as_ref());
        let mut arguments = vec![
            format!("--exports-from={}", socket.display()),
            format!("--templates={}", templates.display()),
        ];
        arguments.extend(elements.map(|file| format!("--elements={}", file.display())));
        return Ok(arguments);
    }
    let interfaces = interfaces(&order.capture.interfaces, policy, host)?;
    let Some(demo) = inputs.demo else {
        let named = |name| ["-i".to_owned(), name];
        return Ok(interfaces.into_iter().flat_map(named).collect());
    };
    let mut arguments = vec!["--demo".to_owned(), demo.capture.display().to_string()];
    arguments.extend([
        "--demo-pause".to_owned(),
        format!("{}ms", demo.pause.as_millis()),
    ]);
    arguments.extend(demo.in_step.then(|| "--demo-in-step".to_owned()));
    Ok(arguments)
}

/// Arguments of the monitor.
fn arguments(order: &JobOrder, input: Vec<String>, policy: &HostPolicy) -> Vec<String> {
    let mut arguments = vec!["--memory-max".to_owned(), order.memory_max.to_string()];
    if order.workers > 0 {
        arguments.extend(["--workers".to_owned(), order.workers.to_string()]);
    }
    arguments.extend(input);
    if let Some(kafka) = policy.kafka.as_ref().filter(|_| !order.topics.is_empty()) {
        arguments.push(format!("--kafka={}", kafka.brokers));
        arguments.extend(
            kafka
                .properties_file
                .iter()
                .map(|path| format!("--kafka-properties={}", path.display())),
        );
    }
    if let Some(filter) = &order.capture.filter {
        // One argument, because the filter may start with a dash.
        arguments.push(format!("--capture-filter={filter}"));
    }
    arguments
}

/// The selected interfaces; the errors list missing and forbidden ones.
fn interfaces(
    wanted: &[String],
    policy: &HostPolicy,
    host: &AgentHost,
) -> Result<Vec<String>, Vec<String>> {
    let allowed: Vec<&String> = host
        .interfaces
        .iter()
        .filter(|name| policy.allows_interface(name))
        .collect();
    if wanted.is_empty() {
        let all: Vec<String> = allowed.into_iter().cloned().collect();
        return if all.is_empty() {
            Err(vec![
                "this host has no interface that allows capture".into(),
            ])
        } else {
            Ok(all)
        };
    }
    let mut chosen = BTreeSet::new();
    let mut lacking = Vec::new();
    for pattern in wanted {
        let of_host = host.interfaces.iter().filter(|name| matches(pattern, name));
        let here = allowed.iter().filter(|name| matches(pattern, name));
        let before = chosen.len();
        chosen.extend(here.map(|name| (*name).clone()));
        if chosen.len() > before || chosen.iter().any(|name| matches(pattern, name)) {
            continue;
        }
        lacking.push(match of_host.count() {
            0 => format!(
                "this host has no interface {pattern}; it has {}",
                listed(&allowed)
            ),
            _ => format!("this host does not allow capture from {pattern}"),
        });
    }
    if lacking.is_empty() {
        Ok(chosen.into_iter().collect())
    } else {
        Err(lacking)
    }
}

/// Lists names, shortened if there are many.
fn listed(names: &[&String]) -> String {
    let mut shown: Vec<&str> = names
        .iter()
        .take(LISTED)
        .map(|name| name.as_str())
        .collect();
    if names.len() > LISTED {
        shown.push("…");
    }
    if shown.is_empty() {
        "none".into()
    } else {
        shown.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_selected_among_the_allowed() {
        let names = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        let host = AgentHost {
            interfaces: names(&["lo", "eth0", "eth1", "br-1"]),
            ..AgentHost::default()
        };
        let policy = HostPolicy {
            interfaces: names(&["eth0", "br-*"]),
            ..HostPolicy::default()
        };
        for (wanted, chosen) in [
            (&[][..], Ok(&["eth0", "br-1"][..])),
            (&["eth0"], Ok(&["eth0"])),
            (&["*", "eth*"], Ok(&["br-1", "eth0"])),
            (
                &["eth1"],
                Err(&["this host does not allow capture from eth1"][..]),
            ),
            (
                &["eth0", "wlan*", "lo"],
                Err(&[
                    "this host has no interface wlan*; it has eth0, br-1",
                    "this host does not allow capture from lo",
                ]),
            ),
        ] {
            let found = interfaces(&names(wanted), &policy, &host);
            assert_eq!(found, chosen.map(names).map_err(names), "{wanted:?}");
        }
        let nothing = interfaces(
            &[],
            &HostPolicy {
                interfaces: Vec::new(),
                ..HostPolicy::default()
            },
            &host,
        );
        assert_eq!(
            nothing,
            Err(names(&["this host has no interface that allows capture"]))
        );
    }
}
