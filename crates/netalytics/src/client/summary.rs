//! Final notes on a job: its outcome, the counters of each agent, and missing agents.

use std::time::Duration;

use serde_json::{Value, json};
use sinks::{DeliveryOutcome, units};

use super::rows::RowCoverage;
use runner::SUMMARY_FORMAT;

/// See the module documentation.
pub struct JobSummary {
    /// The query.
    pub query: String,
    /// API view of the job.
    pub job: Value,
    /// Known counters of its agents.
    pub agents: Vec<Value>,
    /// Requests by tap, for a query over both taps.
    pub taps: Value,
    /// Number of rows received.
    pub rows: u64,
    /// Agents missing in these rows.
    pub coverage: RowCoverage,
    /// Result of the delivery to outlets.
    pub delivered: Vec<DeliveryOutcome>,
    /// Cause of the end.
    pub ended_by: RunEndCause,
    /// Errors of the output.
    pub output_errors: Vec<String>,
    /// Duration of the run.
    pub elapsed: Duration,
}

/// Cause of the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEndCause {
    /// The job ended.
    Itself,
    /// This process stopped the job.
    Us,
}

impl JobSummary {
    fn outcome(&self) -> &str {
        self.job["outcome"].as_str().unwrap_or_default()
    }

    fn reason(&self) -> &str {
        self.job["reason"].as_str().unwrap_or_default()
    }

    /// Whether the job ended normally, or its output is no longer needed.
    fn ended_well(&self) -> bool {
        matches!(
            (self.outcome(), self.ended_by),
            ("finished" | "limit", _) | ("stopped" | "", RunEndCause::Us)
        )
    }

    /// Whether nothing failed and nothing is missing.
    pub fn is_complete(&self) -> bool {
        self.complaints().is_empty()
    }

    /// Failures and gaps, one line each.
    pub fn complaints(&self) -> Vec<String> {
        let mut said = Vec::new();
        let id = self.job["id"].as_str().unwrap_or_default();
        if !self.ended_well() {
            said.push(format!("job {id} ended: {}", self.reason()));
        }
        if self.coverage.rows > 0 && self.outcome() != "failed" {
            let agents: Vec<&str> = self.coverage.agents.iter().map(String::as_str).collect();
            let rows = rows(self.coverage.rows, "lacks", "lack");
            said.push(format!("{rows} agents: {}", agents.join(", ")));
        }
        for agent in &self.agents {
            let name = agent["agent"].as_str().unwrap_or_default();
            // A failed job's reason consists of its agents' reasons.
            if let Some(why) = agent["reason"]
                .as_str()
                .filter(|_| self.outcome() != "failed")
            {
                said.push(format!("agent {name}: {why}"));
            }
            if agent["records_lost"].as_u64().is_some_and(|lost| lost > 0) {
                said.push(format!(
                    "agent {name} lost results: its spool was full, or it died"
                ));
            }
        }
        said.extend(self.output_errors.iter().cloned());
        said
    }

    /// Summary as text.
    pub fn text(&self) -> String {
        let id = self.job["id"].as_str().unwrap_or_default();
        let mut text = String::new();
        if self.ended_well() {
            text.push_str(&format!("job {id} ended: {}\n", self.reason()));
        }
        let names = self
            .agents
            .iter()
            .filter_map(|agent| agent["agent"].as_str());
        let width = names.map(|name| name.chars().count()).max().unwrap_or(0);
        for agent in &self.agents {
            let name = agent["agent"].as_str().unwrap_or_default();
            let count = |name: &str| agent["counters"][name].as_u64().unwrap_or(0);
            let mut counts = vec![
                format!("{} packets", count("packets")),
                format!("{} tuples", count("tuples")),
            ];
            for what in ["lost", "gaps"] {
                counts.extend(
                    Some(count(what))
                        .filter(|n| *n > 0)
                        .map(|n| format!("{n} {what}")),
                );
            }
            let state = match (
                agent["state"].as_str().unwrap_or_default(),
                agent["reason"].is_string(),
            ) {
                ("gone", true) => "did not run it",
                (state, _) => state,
            };
            text.push_str(&format!(
                "agent {name:width$}  {}  {state}\n",
                counts.join(", ")
            ));
        }
        if let Value::Object(taps) = &self.taps {
            let counts: Vec<String> = taps
                .iter()
                .map(|(name, n)| format!("{n} {}", name.replace('_', " ")))
                .collect();
            text.push_str(&format!("seen by both taps  {}\n", counts.join(", ")));
        }
        for delivered in &self.delivered {
            text.push_str(&format!(
                "delivered {} of {} rows to {}\n",
                delivered.sent, delivered.rows, delivered.to
            ));
        }
        let elapsed = units::duration(self.elapsed.as_secs_f64() * 1e9);
        text.push_str(&format!("{} {elapsed}\n", rows(self.rows, "in", "in")));
        text
    }

    /// Summary as JSON, with a line break.
    pub fn json(&self) -> String {
        let error = |text: &String| json!({ "path": null, "offset": null, "message": text, "after_packets": 0 });
        let output = &self.output_errors;
        let other = self
            .complaints()
            .into_iter()
            .filter(|text| !output.contains(text));
        let summary = json!({
            "query": self.query,
            "version": env!("CARGO_PKG_VERSION"),
            "format": SUMMARY_FORMAT,
            "complete": self.is_complete(),
            "errors": other.map(|text| error(&text)).collect::<Vec<_>>(),
            "panics": [],
            "output_error": (!output.is_empty()).then(|| output.join("; ")),
            "limit_reached": self.outcome() == "limit",
            "job": self.job,
            "agents": self.agents,
            "taps": self.taps,
            "rows_lacking_agents": self.coverage.rows,
            "agents_missing": self.coverage.agents,
            "delivered": self.delivered.iter().map(|d| json!({
                "to": d.to, "rows": d.rows, "sent": d.sent, "lost": d.lost_rows(), "problem": d.problem,
            })).collect::<Vec<_>>(),
            "rows": self.rows,
            "elapsed_ns": u64::try_from(self.elapsed.as_nanos()).unwrap_or(u64::MAX),
        });
        format!("{summary:#}\n")
    }
}

/// A count of rows with the matching verb.
fn rows(n: u64, one: &str, several: &str) -> String {
    if n == 1 {
        format!("1 row {one}")
    } else {
        format!("{n} rows {several}")
    }
}
