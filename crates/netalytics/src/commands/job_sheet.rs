//! `netalytics jobs show`: details of one job.

use serde_json::{Value, json};
use sinks::table::{escape, pad};

use super::listing::{JOB_COLUMNS, listed, print_things, text, with_times};
use crate::cli::flags::OutputFormat;
use crate::client::server_client::ServerClient;
use crate::process::failure::CommandOutcome;
use crate::process::output;

/// Fields of a job shown first, by their API names and labels.
const LINES: [(&str, &str); 19] = [
    ("id", "job"),
    ("name", "name"),
    ("query", "query"),
    ("kind", "kind"),
    ("state", "state"),
    ("outcome", "outcome"),
    ("reason", "reason"),
    ("owner", "owner"),
    ("on", "on"),
    ("source", "source"),
    ("interfaces", "interfaces"),
    ("capture_filter", "capture filter"),
    ("keep", "keeps"),
    ("bus", "bus"),
    ("engine", "engine"),
    ("lease_seconds", "lease, s"),
    ("created", "created"),
    ("ended", "ended"),
    ("taps", "both taps"),
];

/// Shows a job: as text for people, or as JSON with the counters of its agents (`agents`).
pub fn show(
    remote: &ServerClient,
    job: &str,
    format: OutputFormat,
) -> anyhow::Result<CommandOutcome> {
    let mut shown = remote.json("GET", &format!("/api/v1/jobs/{job}"), None)?;
    if matches!(format, OutputFormat::Csv | OutputFormat::Parquet) {
        return print_things(&JOB_COLUMNS, &[shown], format);
    }
    let told = remote.json("GET", &format!("/api/v1/jobs/{job}/agents"), None)?;
    // For a query over both taps: number of requests by tap.
    shown["taps"] = told["taps"].clone();
    if format == OutputFormat::Jsonl {
        shown["agents"] = told["agents"].clone();
        return print_things(&JOB_COLUMNS, &[shown], format);
    }
    let times = [("created_ns", "created"), ("ended_ns", "ended")];
    let shown = with_times(vec![shown], &times).remove(0);
    output::print(
        sheet(
            &shown,
            told["agents"]
                .as_array()
                .map(Vec::as_slice)
                .unwrap_or_default(),
        )
        .as_bytes(),
    )
}

fn sheet(job: &Value, agents: &[Value]) -> String {
    let mut out = String::new();
    for (name, ours) in LINES {
        let value = text(&job[name]);
        if !value.is_empty() {
            pad(&mut out, ours, 14, false);
            out.push_str(&format!("  {}\n", escape(&value)));
        }
    }
    let flat = |agent: &Value| {
        let mut agent = agent.clone();
        for count in ["packets", "tuples", "lost"] {
            agent[count] = agent["counters"][count].clone();
        }
        if let (Some(state), Some(jobs)) = (
            agent["state"].as_str(),
            agent["counters"]["monitor_jobs"].as_u64(),
        ) {
            agent["state"] = format!("{state}, monitor of {jobs} jobs").into();
        }
        agent
    };
    let agents: Vec<Value> = agents.iter().map(flat).collect();
    let exporters: Vec<Value> = agents.iter().flat_map(exporters).collect();
    let exports: Vec<Value> = agents.iter().flat_map(export_counters).collect();
    let outlets: Vec<Value> = job["outlets"]
        .as_array()
        .into_iter()
        .flatten()
        .map(with_losses)
        .collect();
    for (columns, things) in [
        (
            &[
                "agent",
                "state",
                "packets",
                "lost",
                "tuples",
                "records_lost",
                "reason",
            ][..],
            &agents,
        ),
        (&["agent", "export messages", "count"], &exports),
        (
            &[
                "agent",
                "exporter",
                "domain",
                "protocol",
                "received",
                "lost",
                "restarts",
                "clock off by",
            ],
            &exporters,
        ),
        (
            &[
                "to",
                "state",
                "delivered",
                "behind",
                "refused",
                "backlog",
                "gone",
                "problem",
            ],
            &outlets,
        ),
    ] {
        if !things.is_empty() {
            out.push('\n');
            out.push_str(&listed(columns, things));
        }
    }
    out
}

/// Counters of an agent's export messages.
fn export_counters(agent: &Value) -> Vec<Value> {
    let counters = agent["counters"].as_object().into_iter().flatten();
    counters
        .filter_map(|(name, n)| {
            let name = name.strip_prefix(collect::EXPORTS)?;
            Some(json!({"agent": agent["agent"], "export messages": name, "count": n}))
        })
        .collect()
}

/// Exporters of an agent.
fn exporters(agent: &Value) -> Vec<Value> {
    let exporters = agent["exporters"].as_array().into_iter().flatten();
    exporters
        .map(|exporter| {
            let mut exporter = exporter.clone();
            exporter["agent"] = agent["agent"].clone();
            let offset = exporter["clock_offset_ns"].as_str();
            let offset: Option<f64> = offset.and_then(|text| text.parse().ok());
            exporter["clock off by"] = offset.map(sinks::units::duration).into();
            exporter
        })
        .collect()
}

/// An outlet's fields with its losses.
fn with_losses(outlet: &Value) -> Value {
    let mut outlet = outlet.clone();
    for cause in ["refused", "backlog", "gone"] {
        outlet[cause] = outlet["lost"][cause].clone();
    }
    outlet
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sheets_show_the_available_facts() {
        let job = json!({
            "id": "5", "name": "rows", "query": "PARSE http", "state": "running", "reason": null, "on": {"role": "web"},
            "taps": {"joined": 3, "unkept": 0},
            "outlets": [{"to": "hook", "state": "up", "delivered": 51, "behind": 0,
                         "lost": {"refused": 1, "backlog": 0, "gone": 0}, "problem": null}],
        });
        let agents = [
            json!({"agent": "web-1", "state": "running", "reason": null, "records_lost": 0,
                             "counters": {"packets": 7, "tuples": 2, "lost": 0}}),
            json!({"agent": "web-2", "state": "running", "reason": null, "records_lost": 0,
                             "counters": {"packets": 7, "tuples": 2, "lost": 0, "monitor_jobs": 2}}),
        ];
        assert_eq!(
            sheet(&job, &agents),
            "job             5\n\
             name            rows\n\
             query           PARSE http\n\
             state           running\n\
             on              role=web\n\
             both taps       joined=3 unkept=0\n\
             \n\
             agent  state                       packets  lost  tuples  records_lost  reason\n\
             web-1  running                     7        0     2       0\n\
             web-2  running, monitor of 2 jobs  7        0     2       0\n\
             \n\
             to    state  delivered  behind  refused  backlog  gone  problem\n\
             hook  up     51         0       1        0        0\n"
        );
    }
}
