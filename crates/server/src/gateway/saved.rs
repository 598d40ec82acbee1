//! Stored form of a [`control`] job, without its order, which never changes.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use control::{Degraded, Job, JobState, Kind, Limit, Request, Taps, Why};
use plan::{Burden, Cost};
use serde::{Deserialize, Serialize};

use crate::job::JobKind;

#[derive(Serialize, Deserialize)]
struct Saved {
    owner: String,
    name: String,
    kind: JobKind,
    on: BTreeMap<String, String>,
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

/// The fields of [`plan::Cost`], in order.
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
pub fn write(job: &Job) -> String {
    let Request { owner, name, kind, on, limit, cost, taps, interfaces, parts, .. } = &job.request;
    let saved = Saved {
        owner: owner.clone(),
        name: name.clone(),
        kind: match kind {
            Kind::OneOff => JobKind::OneOff,
            Kind::Standing => JobKind::Standing,
        },
        on: on.clone(),
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
        told_by_all: *taps == Taps::All,
        interfaces: interfaces.clone(),
        in_parts: !parts.is_empty(),
    };
    serde_json::to_string(&saved).unwrap_or_default()
}

/// Encodes the order, or the orders of all agents, which never change.
pub fn write_body(request: &Request) -> Bytes {
    if request.parts.is_empty() {
        return request.body.clone();
    }
    let parts: BTreeMap<&String, &[u8]> =
        request.parts.iter().map(|(agent, body)| (agent, body.as_ref())).collect();
    serde_json::to_vec(&parts).unwrap_or_default().into()
}

fn write_cost(cost: &Cost) -> SavedCost {
    let Cost {
        base: Burden { cpu_millis, memory_bytes },
        cpu_ns_per_packet,
        memory_bytes_per_pps,
        memory_bytes_max,
        sent_bytes_per_1000_packets,
    } = *cost;
    let of_packets = [cpu_ns_per_packet, memory_bytes_per_pps, memory_bytes_max, sent_bytes_per_1000_packets];
    let [time, memory, most, sent] = of_packets;
    SavedCost([cpu_millis, memory_bytes, time, memory, most, sent])
}

fn read_cost(SavedCost([cpu_millis, memory_bytes, time, memory, most, sent]): &SavedCost) -> Cost {
    Cost {
        base: Burden { cpu_millis: *cpu_millis, memory_bytes: *memory_bytes },
        cpu_ns_per_packet: *time,
        memory_bytes_per_pps: *memory,
        memory_bytes_max: *most,
        sent_bytes_per_1000_packets: *sent,
    }
}

fn write_why(why: &Why) -> SavedWhy {
    match why {
        Why::PacketLimit => SavedWhy::PacketLimit,
        Why::RowLimit => SavedWhy::RowLimit,
        Why::TimeLimit => SavedWhy::TimeLimit,
        Why::Abandoned => SavedWhy::Abandoned,
        Why::Stopped { by } => SavedWhy::Stopped(by.clone()),
        Why::Finished => SavedWhy::Finished,
        Why::Poisoned => SavedWhy::Poisoned,
    }
}

fn write_degraded(degraded: Degraded) -> SavedDegraded {
    match degraded {
        Degraded::Absent { agent } => SavedDegraded::Absent(agent),
        Degraded::NoRoom { agent, why } => SavedDegraded::TooCostly(agent, why),
        Degraded::Poisoned { agent } => SavedDegraded::Poisoned(agent),
        Degraded::Refused { agent } => SavedDegraded::Refused(agent),
        Degraded::EndedWithout { agent, boot } => SavedDegraded::EndedWithout(agent, boot),
        Degraded::Restarted { agent, boot, at_ns } => SavedDegraded::Restarted(agent, boot, at_ns),
    }
}

/// Decodes the output of [`write`], with the job's number and order; `None` if it is invalid.
pub fn read(id: u64, text: &str, body: Bytes) -> Option<Job> {
    let saved: Saved = serde_json::from_str(text).ok()?;
    let parts: BTreeMap<String, Vec<u8>> = match saved.in_parts {
        true => serde_json::from_slice(&body).ok()?,
        false => BTreeMap::new(),
    };
    let request = Request {
        key: String::new(),
        owner: saved.owner,
        name: saved.name,
        labels: BTreeMap::new(),
        kind: kind(saved.kind),
        on: saved.on,
        limit: Limit { packets: saved.packets, ends_at_ns: saved.ends_at_ns },
        cost: read_cost(&saved.takes),
        taps: if saved.told_by_all { Taps::All } else { Taps::One },
        interfaces: saved.interfaces,
        body: if saved.in_parts { Bytes::new() } else { body },
        parts: parts.into_iter().map(|(agent, body)| (agent, body.into())).collect(),
    };
    let state = match saved.state {
        SavedState::Planned => JobState::Planned,
        SavedState::Arming => JobState::Arming,
        SavedState::Running => JobState::Running,
        SavedState::Draining(why) => JobState::Draining(read_why(why)),
        SavedState::Ended(why) => JobState::Ended(read_why(why)),
    };
    let degraded: BTreeSet<Degraded> = saved.degraded.into_iter().map(read_degraded).collect();
    let (agents, granted) = (saved.agents, saved.granted);
    let shares =
        saved.shares.unwrap_or_else(|| agents.keys().map(|agent| (agent.clone(), granted)).collect());
    Some(Job { id, request, state, agents, granted, shares, degraded })
}

/// Converts to the type of [`control`]; agents find the details in their plan.
pub fn taps(taps: plan::Taps) -> Taps {
    match taps {
        plan::Taps::Server | plan::Taps::Client | plan::Taps::Ends => Taps::One,
        plan::Taps::All => Taps::All,
    }
}

/// Converts to the type of [`control`].
pub fn kind(kind: JobKind) -> Kind {
    match kind {
        JobKind::OneOff => Kind::OneOff,
        JobKind::Standing => Kind::Standing,
    }
}

fn read_why(why: SavedWhy) -> Why {
    match why {
        SavedWhy::PacketLimit => Why::PacketLimit,
        SavedWhy::RowLimit => Why::RowLimit,
        SavedWhy::TimeLimit => Why::TimeLimit,
        SavedWhy::Abandoned => Why::Abandoned,
        SavedWhy::Stopped(by) => Why::Stopped { by },
        SavedWhy::Finished => Why::Finished,
        SavedWhy::Poisoned => Why::Poisoned,
    }
}

fn read_degraded(degraded: SavedDegraded) -> Degraded {
    match degraded {
        SavedDegraded::Absent(agent) => Degraded::Absent { agent },
        SavedDegraded::NoRoom(agent) => Degraded::NoRoom { agent, why: String::new() },
        SavedDegraded::TooCostly(agent, why) => Degraded::NoRoom { agent, why },
        SavedDegraded::Poisoned(agent) => Degraded::Poisoned { agent },
        SavedDegraded::Refused(agent) => Degraded::Refused { agent },
        SavedDegraded::EndedWithout(agent, boot) => Degraded::EndedWithout { agent, boot },
        SavedDegraded::Restarted(agent, boot, at_ns) => Degraded::Restarted { agent, boot, at_ns },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let why = Why::Stopped { by: "x".into() };
        for state in [JobState::Planned, JobState::Arming, JobState::Running, JobState::Draining(why)] {
            let mut request = Request {
                key: String::new(),
                owner: "o".into(),
                name: "n".into(),
                labels: BTreeMap::new(),
                kind: Kind::Standing,
                on: [("rack".to_owned(), "a1".to_owned())].into(),
                limit: Limit { packets: Some(7), ends_at_ns: Some(-1) },
                cost: read_cost(&SavedCost([1, 2, 3, 4, 5, 6])),
                taps: Taps::All,
                interfaces: vec!["br-*".into()],
                body: Bytes::from_static(b"body"),
                parts: BTreeMap::new(),
            };
            if state == JobState::Running {
                request.body = Bytes::new();
                request.parts = [("a".to_owned(), Bytes::from_static(b"\xff\0"))].into();
            }
            let restarted = Degraded::Restarted { agent: "a".into(), boot: u64::MAX, at_ns: 5 };
            let degraded = [Degraded::NoRoom { agent: "b".into(), why: "so".into() }, restarted].into();
            let agents = [("a".to_owned(), u64::MAX)].into();
            let shares = [("a".to_owned(), 3)].into();
            let job = Job { id: 4, request, state, agents, granted: 5, shares, degraded };
            assert_eq!(read(4, &write(&job), write_body(&job.request)), Some(job));
        }
        assert_eq!(read(4, "{}", Bytes::new()), None);
    }
}
