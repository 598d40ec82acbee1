//! Messages for users: why a job is rejected, why it ended, and its problems.

use std::collections::{BTreeMap, BTreeSet};

use control::{AdmissionError, Degradation, EndReason};

use super::job_runtime::JobRuntime;
use super::lanes::LaneEnd;
use crate::job::fleet_refusal::FleetRefusal;
use crate::job::{JobEnding as JobEnd, JobOutcome, JobState};
use crate::store::persist_error::WriteObstacle;

/// Reason why a job is rejected.
pub fn refused(refusal: &AdmissionError) -> FleetRefusal {
    match refusal {
        AdmissionError::StoreIsFull => {
            FleetRefusal::Busy("the server cannot store data: new jobs are rejected".into())
        }
        AdmissionError::OwnerHasTooMany { max } => {
            FleetRefusal::Busy(format!("the maximum is {max} jobs per owner"))
        }
        AdmissionError::TooMany { max } => {
            FleetRefusal::Busy(format!("{max} jobs are active, which is the maximum"))
        }
        AdmissionError::NoAgent {
            on,
            capability: Some(_),
        } => {
            let with = if on.is_empty() {
                ""
            } else {
                " with the labels "
            };
            FleetRefusal::NoAgent(format!(
                "no connected agent{with}{} receives export messages: add [exports] listen = [\"sflow://0.0.0.0\"] to \
                 the policy of an agent",
                labels(on)
            ))
        }
        AdmissionError::NoAgent { on, .. } if on.is_empty() => FleetRefusal::NoAgent(
            "no agent is connected to this server: a query needs an agent that captures".into(),
        ),
        AdmissionError::NoAgent { on, .. } => {
            FleetRefusal::NoAgent(format!("no connected agent has the labels {}", labels(on)))
        }
        AdmissionError::Missing { agent } => FleetRefusal::NoAgent(format!(
            "agent {agent}, which the network's file names, is not connected to this server"
        )),
        AdmissionError::TooCostly { agent, why } => {
            FleetRefusal::Unable(format!("agent {agent} has no capacity for it: {why}"))
        }
        AdmissionError::EndsInThePast => {
            FleetRefusal::Unable("it would end before it starts".into())
        }
    }
}

/// Reason why a job is rejected while the store rejects writes.
pub fn not_stored(obstacle: &WriteObstacle) -> FleetRefusal {
    FleetRefusal::Busy(format!("{obstacle}: new jobs are rejected"))
}

/// Labels as `NAME=VALUE, …`.
fn labels(on: &BTreeMap<String, String>) -> String {
    let labels = on.iter().map(|(name, value)| format!("{name}={value}"));
    labels.collect::<Vec<_>>().join(", ")
}

/// Outcome of a job; `troubles`: problems reported by agents; `has_parts`: each agent has its own part.
pub fn ended(why: &EndReason, troubles: &[String], has_parts: bool) -> JobEnd {
    let nobody = if has_parts {
        "an agent cannot run its part"
    } else {
        "no agent could run the job"
    };
    let (outcome, said) = match why {
        EndReason::PacketLimit => (JobOutcome::Limit, "it reached its packet limit".into()),
        EndReason::RowLimit => (JobOutcome::Limit, "it reached its row limit".into()),
        EndReason::TimeLimit => (JobOutcome::Limit, "it reached its time limit".into()),
        EndReason::Stopped { by } if by.is_empty() => {
            (JobOutcome::Stopped, "it was stopped".into())
        }
        EndReason::Stopped { by } => (JobOutcome::Stopped, format!("it was stopped: {by}")),
        EndReason::Abandoned => (
            JobOutcome::Abandoned,
            "its lease expired: its client is disconnected".into(),
        ),
        EndReason::Finished => (JobOutcome::Finished, "all agents have finished".into()),
        EndReason::Poisoned if troubles.is_empty() => (JobOutcome::Failed, nobody.into()),
        EndReason::Poisoned => (
            JobOutcome::Failed,
            format!("{nobody}: {}", troubles.join("; ")),
        ),
    };
    JobEnd::new(outcome, said)
}

impl From<&control::JobState> for JobState {
    fn from(state: &control::JobState) -> JobState {
        match state {
            control::JobState::Planned => JobState::Planned,
            control::JobState::Arming => JobState::Arming,
            control::JobState::Running => JobState::Running,
            control::JobState::Draining(_) => JobState::Draining,
            control::JobState::Ended(why) => JobState::Ended(ended(why, &[], false)),
        }
    }
}

/// Problems of a job, as messages.
pub fn degraded(all: &BTreeSet<Degradation>) -> impl Iterator<Item = String> {
    all.iter().map(|degraded| match degraded {
        Degradation::Absent { agent } => format!("agent {agent} is not connected"),
        Degradation::NoRoom { agent, why } => {
            format!("agent {agent} has no capacity for it: {why}")
        }
        Degradation::Poisoned { agent } => format!("agent {agent} cannot run it"),
        Degradation::Refused { agent } => format!("agent {agent} rejects it"),
        Degradation::EndedWithout { agent, .. } => {
            format!("it ended without agent {agent}, whose unsent data is not in the results")
        }
        Degradation::Restarted { agent, .. } => {
            format!("agent {agent} was restarted, and its unsent data is lost")
        }
    })
}

/// Data missing in a job's results, by its committed records.
pub fn lacks(work: &JobRuntime) -> Vec<String> {
    let mut said = Vec::new();
    for (key, known) in &work.lanes.known {
        let facts = &known.facts;
        if facts.records_lost > 0 {
            // Earlier versions did not store whether the number is known.
            let tuples = match (facts.tuples_lost, facts.end) {
                (0, LaneEnd::Lost) => "an unknown number of tuples".to_owned(),
                (n, _) if facts.is_loss_unknown => format!("{n} tuples or more"),
                (n, _) => format!("{n} tuples"),
            };
            said.push(format!(
                "agent {} lost {tuples}: its spool was full, it died, or it was disconnected for too long",
                key.agent
            ));
        }
        if facts.malformed > 0 {
            said.push(format!(
                "agent {} sent {} records that cannot be read",
                key.agent, facts.malformed
            ));
        }
        if let Some(dropped) = facts.counters.get("dropped") {
            let agent = &key.agent;
            said.push(format!(
                "Kafka rejected {dropped} records of agent {agent}, which are in no row"
            ));
        }
    }
    for agent in work.pace.silent() {
        said.push(format!(
            "agent {agent} is connected, but its results make no progress"
        ));
    }
    if work.unreadable > 0 {
        said.push(format!(
            "{} records from before the server's restart cannot be read",
            work.unreadable
        ));
    }
    if work.progress.late > 0 {
        said.push(format!(
            "{} tuples arrived after their windows were closed",
            work.progress.late
        ));
    }
    said
}

/// Message about a clock with this offset.
pub fn clock(agent: &str, offset_ns: i64) -> String {
    let ms = offset_ns.unsigned_abs() / 1_000_000;
    let side = if offset_ns > 0 { "ahead of" } else { "behind" };
    format!("the clock of agent {agent} is {ms} ms {side} the server's")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(refusal: FleetRefusal) -> (bool, String) {
        match refusal {
            FleetRefusal::Busy(why) => (true, why),
            FleetRefusal::NoAgent(why) | FleetRefusal::Unable(why) => (false, why),
        }
    }

    #[test]
    fn the_lack_of_an_agent_names_what_is_asked_of_it() {
        let labels: BTreeMap<_, _> = [("b", "2"), ("a", "1")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        for (on, expected) in [
            (BTreeMap::new(), "no agent is connected to this server"),
            (labels, "no connected agent has the labels a=1, b=2"),
        ] {
            let refusal = AdmissionError::NoAgent {
                on,
                capability: None,
            };
            let (is_busy, why) = text(refused(&refusal));
            assert!(!is_busy && why.starts_with(expected), "{why}");
        }
        let refusal = AdmissionError::Missing {
            agent: "web1".into(),
        };
        assert!(text(refused(&refusal)).1.starts_with("agent web1, which"));
    }

    /// The client may try again later only if the reason passes.
    #[test]
    fn limits_are_reasons_to_try_again() {
        for (refusal, expected) in [
            (
                AdmissionError::StoreIsFull,
                "the server cannot store data: new jobs are rejected",
            ),
            (
                AdmissionError::TooMany { max: 3 },
                "3 jobs are active, which is the maximum",
            ),
            (
                AdmissionError::OwnerHasTooMany { max: 3 },
                "the maximum is 3 jobs per owner",
            ),
        ] {
            assert_eq!(text(refused(&refusal)), (true, expected.to_owned()));
        }
        let past = text(refused(&AdmissionError::EndsInThePast));
        assert_eq!(past, (false, "it would end before it starts".to_owned()));
    }

    #[test]
    fn failed_jobs_name_the_problems_of_their_agents() {
        let end = |why, troubles: &[&str], has_parts| {
            let troubles: Vec<String> = troubles.iter().map(|text| (*text).to_owned()).collect();
            let end = ended(&why, &troubles, has_parts);
            (end.outcome, end.why)
        };
        let failed = |why: &str| (JobOutcome::Failed, why.to_owned());
        assert_eq!(
            end(EndReason::Poisoned, &[], false),
            failed("no agent could run the job")
        );
        assert_eq!(
            end(EndReason::Poisoned, &["a: no memory", "b: no device"], true),
            failed("an agent cannot run its part: a: no memory; b: no device")
        );
        let stopped = |by: &str| end(EndReason::Stopped { by: by.into() }, &[], false);
        assert_eq!(stopped("").1, "it was stopped");
        assert_eq!(stopped("bob").1, "it was stopped: bob");
        // Problems of an agent are no reason of a regular end.
        assert_eq!(
            end(EndReason::RowLimit, &["a: late"], false).1,
            "it reached its row limit"
        );
    }

    #[test]
    fn clock_offsets_have_a_side_and_do_not_overflow() {
        for (ns, expected) in [
            (
                1_500_000,
                "the clock of agent a is 1 ms ahead of the server's",
            ),
            (
                -2_000_000_000,
                "the clock of agent a is 2000 ms behind the server's",
            ),
            (
                i64::MIN,
                "the clock of agent a is 9223372036854 ms behind the server's",
            ),
        ] {
            assert_eq!(clock("a", ns), expected);
        }
    }
}
