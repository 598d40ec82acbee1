//! Final counters of a run for the sender of its order: the summary's numbers by name.

use plan::message::{InputFault, JobOrder, MonitorEndReason, MonitorFinalReport};
use serde_json::Value;

use crate::summary::{InputError, RunSummary};

/// Numbers of the summary that are not counts.
const NO_COUNTS: [&str; 3] = ["format", "first_ts", "last_ts"];

impl RunSummary {
    /// Counters of a monitor that ended by itself or on request.
    #[must_use]
    pub fn closing(&self, order: &JobOrder, was_stopped: bool) -> MonitorFinalReport {
        let mut counts = Vec::new();
        add(&self.value(), String::new(), &mut counts);
        let failure = self
            .panics
            .first()
            .or(self.cut_short.as_ref())
            .or(self.output_errors.first());
        let end = match failure {
            Some(text) => MonitorEndReason::Failed(text.clone()),
            None if self.limit_reached => MonitorEndReason::Limit,
            None if was_stopped => MonitorEndReason::Stopped,
            None => MonitorEndReason::Input,
        };
        let fault = |error: &InputError| InputFault {
            path: error.path.clone(),
            offset: error.offset,
            text: error.text.clone(),
            after_packets: error.after_packets,
        };
        MonitorFinalReport {
            job: order.job,
            generation: order.generation,
            attempt: order.attempt,
            end,
            counts,
            seen: self.seen.map(|(first, last)| (first.0, last.0)),
            errors: self.errors.iter().map(fault).collect(),
            panics: self.panics.clone(),
            sampling_lowest: self.sampling.lowest,
        }
    }
}

/// Adds the integers of a value, each under its path.
fn add(value: &Value, path: String, counts: &mut Vec<(String, u64)>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                add(value, path, counts);
            }
        }
        Value::Number(number) if !NO_COUNTS.contains(&path.as_str()) => {
            counts.extend(number.as_u64().map(|n| (path, n)));
        }
        _ => {}
    }
}
