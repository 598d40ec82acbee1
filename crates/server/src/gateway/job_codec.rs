//! Stored form of a [`control`] job, without its order, which never changes.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use control::{
    ControlledJob, Degradation, EndReason, JobLifetime, JobLimit, JobSpec, JobState, TapAssignment,
};
use plan::{JobCost, ResourceUsage};
use serde::{Deserialize, Serialize};

use crate::job::JobKind;

#[derive(Serialize, Deserialize)]
struct SavedJob {
    owner: String,
    name: String,
    kind: JobKind,
    on: BTreeMap<String, String>,
    #[serde(default)]
    capability: Option<String>,
    packets: Option<u64>,
    ends_at_ns: Option<i64>,
    #[serde(default)]
    takes: SavedCost,
    state: SavedState,
    agents: BTreeMap<String, u64>,
    granted: u64,
    /// Absent in states written by older versions, which let any agent claim all that was granted.
    #[serde(default)]
    shares: Option<BTreeMap<String, u64>>,
    degraded: Vec<SavedDegraded>,
    /// Absent: by one agent.
    #[serde(default)]
    told_by_all: bool,
    #[serde(default)]
    interfaces: Vec<String>,
    /// The body contains an order per agent instead of one order.
    #[serde(default)]
    in_parts: bool,
}

/// The fields of [`plan::JobCost`], in order.
#[derive(Default, Serialize, Deserialize)]
struct SavedCost([u64; 6]);

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SavedState {
    Planned,
    Arming,
    Running,
    Draining(SavedWhy),
    Ended(SavedWhy),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SavedWhy {
    PacketLimit,
    RowLimit,
    TimeLimit,
    Abandoned,
    Stopped(String),
    Finished,
    Poisoned,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SavedDegraded {
    Absent(String),
    /// Written by a version without the reason.
    NoRoom(String),
    TooCostly(String, String),
    Poisoned(String),
    Refused(String),
    EndedWithout(String, u64),
    Restarted(String, u64, i64),
}

/// Encodes a job as text.
pub fn write(job: &ControlledJob) -> String {
    let JobSpec {
        owner,
        name,
        kind,
        on,
        capability,
        limit,
        cost,
        taps,
        interfaces,
        parts,
        ..
    } = &job.request;
    let saved = SavedJob {
        owner: owner.clone(),
        name: name.clone(),
        kind: match kind {
            JobLifetime::OneOff => JobKind::OneOff,
            JobLifetime::Standing => JobKind::Standing,
        },
        on: on.clone(),
        capability: capability.clone(),
        packets: limit.packets,
        ends_at_ns: limit.ends_at_ns,
        takes: write_cost(cost),
        state: match &job.state {
            JobState::Planned => SavedState::Planned,
            JobState::Arming => SavedState::Arming,
            JobState::Running => SavedState::Running,
            JobState::Draining(why) => SavedState::Draining(write_why(why)),
            JobState::Ended(why) => SavedState::Ended(write_why(why)),
        },
        agents: job.agents.clone(),
        granted: job.granted,
        shares: Some(job.shares.clone()),
        degraded: job.degraded.iter().cloned().map(write_degraded).collect(),
        told_by_all: *taps == TapAssignment::All,
        interfaces: interfaces.clone(),
        in_parts: !parts.is_empty(),
    };
    serde_json::to_string(&saved).unwrap_or_default()
}

/// Encodes the order, or the orders of all agents, which never change.
pub fn write_body(request: &JobSpec) -> Bytes {
    if request.parts.is_empty() {
        return request.body.clone();
    }
    let parts: BTreeMap<&String, &[u8]> = request
        .parts
        .iter()
        .map(|(agent, body)| (agent, body.as_ref()))
        .collect();
    serde_json::to_vec(&parts).unwrap_or_default().into()
}

fn write_cost(cost: &JobCost) -> SavedCost {
    let JobCost {
        base: ResourceUsage {
            cpu_millis,
            memory_bytes,
        },
        cpu_ns_per_packet,
        memory_bytes_per_pps,
        memory_bytes_max,
        sent_bytes_per_1000_packets,
    } = *cost;
    let of_packets = [
        cpu_ns_per_packet,
        memory_bytes_per_pps,
        memory_bytes_max,
        sent_bytes_per_1000_packets,
    ];
    let [time, memory, most, sent] = of_packets;
    SavedCost([cpu_millis, memory_bytes, time, memory, most, sent])
}

fn read_cost(
    SavedCost([cpu_millis, memory_bytes, time, memory, most, sent]): &SavedCost,
) -> JobCost {
    JobCost {
        base: ResourceUsage {
            cpu_millis: *cpu_millis,
            memory_bytes: *memory_bytes,
        },
        cpu_ns_per_packet: *time,
        memory_bytes_per_pps: *memory,
        memory_bytes_max: *most,
        sent_bytes_per_1000_packets: *sent,
    }
}

fn write_why(why: &EndReason) -> SavedWhy {
    match why {
        EndReason::PacketLimit => SavedWhy::PacketLimit,
        EndReason::RowLimit => SavedWhy::RowLimit,
        EndReason::TimeLimit => SavedWhy::TimeLimit,
        EndReason::Abandoned => SavedWhy::Abandoned,
        EndReason::Stopped { by } => SavedWhy::Stopped(by.clone()),
        EndReason::Finished => SavedWhy::Finished,
        EndReason::Poisoned => SavedWhy::Poisoned,
    }
}

fn write_degraded(degraded: Degradation) -> SavedDegraded {
    match degraded {
        Degradation::Absent { agent } => SavedDegraded::Absent(agent),
        Degradation::NoRoom { agent, why } => SavedDegraded::TooCostly(agent, why),
        Degradation::Poisoned { agent } => SavedDegraded::Poisoned(agent),
        Degradation::Refused { agent } => SavedDegraded::Refused(agent),
        Degradation::EndedWithout { agent, boot } => SavedDegraded::EndedWithout(agent, boot),
        Degradation::Restarted { agent, boot, at_ns } => {
            SavedDegraded::Restarted(agent, boot, at_ns)
        }
    }
}

/// Decodes the output of [`write()`], with the job's number and order; `None` if it is invalid.
pub fn read(id: u64, text: &str, body: Bytes) -> Option<ControlledJob> {
    let saved: SavedJob = serde_json::from_str(text).ok()?;
    let parts: BTreeMap<String, Vec<u8>> = if saved.in_parts {
        serde_json::from_slice(&body).ok()?
    } else {
        BTreeMap::new()
    };
    let request = JobSpec {
        key: String::new(),
        owner: saved.owner,
        name: saved.name,
        labels: BTreeMap::new(),
        kind: kind(saved.kind),
        on: saved.on,
        capability: saved.capability,
        limit: JobLimit {
            packets: saved.packets,
            ends_at_ns: saved.ends_at_ns,
        },
        cost: read_cost(&saved.takes),
        taps: if saved.told_by_all {
            TapAssignment::All
        } else {
            TapAssignment::One
        },
        interfaces: saved.interfaces,
        body: if saved.in_parts { Bytes::new() } else { body },
        parts: parts
            .into_iter()
            .map(|(agent, body)| (agent, body.into()))
            .collect(),
    };
    let state = match saved.state {
        SavedState::Planned => JobState::Planned,
        SavedState::Arming => JobState::Arming,
        SavedState::Running => JobState::Running,
        SavedState::Draining(why) => JobState::Draining(read_why(why)),
        SavedState::Ended(why) => JobState::Ended(read_why(why)),
    };
    let degraded: BTreeSet<Degradation> = saved.degraded.into_iter().map(read_degraded).collect();
    let agents = saved.agents;
    let granted = saved.granted;
    let shares = saved.shares.unwrap_or_else(|| {
        agents
            .keys()
            .map(|agent| (agent.clone(), granted))
            .collect()
    });
    Some(ControlledJob {
        id,
        request,
        state,
        agents,
        granted,
        shares,
        degraded,
    })
}

/// Converts to the type of [`control`]; agents find the details in their plan.
pub fn taps(taps: plan::TapSelection) -> TapAssignment {
    match taps {
        plan::TapSelection::Server | plan::TapSelection::Client | plan::TapSelection::Ends => {
            TapAssignment::One
        }
        plan::TapSelection::All => TapAssignment::All,
    }
}

/// Converts to the type of [`control`].
pub fn kind(kind: JobKind) -> JobLifetime {
    match kind {
        JobKind::OneOff => JobLifetime::OneOff,
        JobKind::Standing => JobLifetime::Standing,
    }
}

fn read_why(why: SavedWhy) -> EndReason {
    match why {
        SavedWhy::PacketLimit => EndReason::PacketLimit,
        SavedWhy::RowLimit => EndReason::RowLimit,
        SavedWhy::TimeLimit => EndReason::TimeLimit,
        SavedWhy::Abandoned => EndReason::Abandoned,
        SavedWhy::Stopped(by) => EndReason::Stopped { by },
        SavedWhy::Finished => EndReason::Finished,
        SavedWhy::Poisoned => EndReason::Poisoned,
    }
}

fn read_degraded(degraded: SavedDegraded) -> Degradation {
    match degraded {
        SavedDegraded::Absent(agent) => Degradation::Absent { agent },
        SavedDegraded::NoRoom(agent) => Degradation::NoRoom {
            agent,
            why: String::new(),
        },
        SavedDegraded::TooCostly(agent, why) => Degradation::NoRoom { agent, why },
        SavedDegraded::Poisoned(agent) => Degradation::Poisoned { agent },
        SavedDegraded::Refused(agent) => Degradation::Refused { agent },
        SavedDegraded::EndedWithout(agent, boot) => Degradation::EndedWithout { agent, boot },
        SavedDegraded::Restarted(agent, boot, at_ns) => {
            Degradation::Restarted { agent, boot, at_ns }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_round_trip() {
        let why = EndReason::Stopped { by: "x".into() };
        for state in [
            JobState::Planned,
            JobState::Arming,
            JobState::Running,
            JobState::Draining(why),
        ] {
            let mut request = JobSpec {
                key: String::new(),
                owner: "o".into(),
                name: "n".into(),
                labels: BTreeMap::new(),
                kind: JobLifetime::Standing,
                on: [("rack".to_owned(), "a1".to_owned())].into(),
                capability: Some("exports".into()),
                limit: JobLimit {
                    packets: Some(7),
                    ends_at_ns: Some(-1),
                },
                cost: read_cost(&SavedCost([1, 2, 3, 4, 5, 6])),
                taps: TapAssignment::All,
                interfaces: vec!["br-*".into()],
                body: Bytes::from_static(b"body"),
                parts: BTreeMap::new(),
            };
            if state == JobState::Running {
                request.body = Bytes::new();
                request.parts = [("a".to_owned(), Bytes::from_static(b"\xff\0"))].into();
            }
            let restarted = Degradation::Restarted {
                agent: "a".into(),
                boot: u64::MAX,
                at_ns: 5,
            };
            let degraded = [
                Degradation::NoRoom {
                    agent: "b".into(),
                    why: "so".into(),
                },
                restarted,
            ]
            .into();
            let agents = [("a".to_owned(), u64::MAX)].into();
            let shares = [("a".to_owned(), 3)].into();
            let job = ControlledJob {
                id: 4,
                request,
                state,
                agents,
                granted: 5,
                shares,
                degraded,
            };
            assert_eq!(read(4, &write(&job), write_body(&job.request)), Some(job));
        }
        assert_eq!(read(4, "{}", Bytes::new()), None);
    }
}
