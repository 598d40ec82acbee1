//! JSON output of physical plans.

use plan::AddressMatch;
use serde_json::{Value, json};

use super::physical_plan::{
    AggregatorPart, CopyProof, CoveredFlows, MonitorPart, MonitorPlace, PacketPath, PhysicalPlan,
    SwitchPart,
};
use super::text::mode;
use crate::query_text;
use crate::topology::LINK_CLASSES;

/// The plan as JSON.
#[must_use]
pub fn to_json(plan: &PhysicalPlan) -> Value {
    let taken = &plan.taken;
    let copied: serde_json::Map<String, Value> = LINK_CLASSES
        .iter()
        .zip(taken.copied.0)
        .map(|(class, mbps)| (format!("{class:?}").to_lowercase(), json!(mbps)))
        .collect();
    let passed_over: Vec<Value> = plan
        .choice
        .passed_over
        .iter()
        .map(|other| json!({ "what": other.what, "why": other.why }))
        .collect();
    let mut of = json!({
        "query": plan.query,
        "flows": plan.covered.iter().map(covering).collect::<Vec<_>>(),
        "not_covered": plan.uncovered,
        "mode": { "copied": mode(plan), "why": plan.choice.why, "passed_over": passed_over },
        "lacks": plan.lacks,
        "switches": plan.switches.iter().map(switch).collect::<Vec<_>>(),
        "proof": proof(plan.proof),
        "monitors": plan.monitors.iter().map(monitor).collect::<Vec<_>>(),
        "dataflow": {
            "inputs": plan.dataflow.inputs.iter().map(|input| json!({
                "parser": input.schema.name,
                "columns": input.columns.iter().map(|id| input.schema.field(*id).name.to_string()).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
            "results": plan.dataflow.pipelines.iter().map(|pipeline| pipeline.name.clone()).collect::<Vec<_>>(),
        },
        "takes": {
            "copied_mbps": copied,
            "results_mbps": taken.results_mbps,
            "monitor_cores": taken.monitor_cores,
            "switch_cores": taken.switch_cores,
            "delay_us": taken.delay_us,
        },
    });
    if !plan.aggregators.is_empty() {
        of["aggregators"] = plan
            .aggregators
            .iter()
            .map(|part| aggregator(plan, part))
            .collect();
    }
    if let Some(part) = &plan.export {
        of["export"] = json!({
            "protocol": part.slot.column(),
            "switches": part.switches.iter().map(|switch| &switch.name).collect::<Vec<_>>(),
            "sampling": part.sampling,
            "seconds": part.period,
            "error_of_total": part.error(1.0),
            "error_of_tenth": part.error(0.1),
            "mbps": part.mbps,
        });
    }
    if let Some(why) = &plan.unaggregated {
        of["not_aggregated"] = json!(why);
    }
    of
}

fn aggregator(plan: &PhysicalPlan, part: &AggregatorPart) -> Value {
    json!({
        "host": part.name,
        "monitors": part.monitors.iter().map(|at| plan.monitors[*at].name.clone()).collect::<Vec<_>>(),
        "in_mbps": part.in_mbps,
        "out_mbps": part.out_mbps,
        "saved_mbps": part.saved_mbps(),
        "cores": part.cores,
        "memory_gb": part.memory_gb,
    })
}

/// Endpoints in the syntax of FROM and TO.
#[must_use]
pub fn ends(ends: &[AddressMatch]) -> Vec<String> {
    ends.iter().map(query_text::end).collect()
}

fn covering(covering: &CoveredFlows) -> Value {
    let rates = &covering.rates;
    json!({
        "switch": covering.name,
        "clients": ends(&covering.clients),
        "servers": ends(&covering.servers),
        "mbps": rates.mbps,
        "packets_per_second": rates.packets,
        "connections_per_second": rates.connections,
        "supposed": rates.supposed,
    })
}

fn proof(proof: CopyProof) -> Value {
    let (state, classes) = match proof {
        CopyProof::NotNeeded => ("not needed", None),
        CopyProof::TooManyHosts => ("too many hosts", None),
        CopyProof::Holds(classes) => ("holds", Some(classes)),
    };
    json!({ "state": state, "classes": classes })
}

fn switch(part: &SwitchPart) -> Value {
    let (way, to) = match part.way {
        PacketPath::Sniffer => ("sniffer", None),
        PacketPath::Rules { port } => ("rules", Some(port)),
        PacketPath::Interface => ("interface", None),
        PacketPath::Mirror { port } => ("mirror", Some(port)),
        PacketPath::Tunnel { end } => ("tunnel", Some(end.port)),
    };
    let mut of = json!({
        "switch": part.name,
        "way": way,
        "to_port": to,
        "ports": part.ports,
        "rules": part.rules.iter().map(mirror::json::rule_to_json).collect::<Vec<_>>(),
    });
    if let Some(landing) = &part.landing {
        of["to_switch"] = json!(landing.name);
        of["rules_there"] = landing
            .rules
            .iter()
            .map(mirror::json::rule_to_json)
            .collect();
    }
    of
}

fn monitor(part: &MonitorPart) -> Value {
    json!({
        "name": part.name,
        "on": match part.place { MonitorPlace::Switch(_) => "switch", MonitorPlace::Host(_) => "host" },
        "host": part.host,
        "clients": ends(&part.spec.clients),
        "servers": ends(&part.spec.servers),
        "mbps": part.mbps,
        "cores": part.cores,
        "host_cores": part.host_cores,
        "memory_gb": part.memory_gb,
    })
}
