//! Requests for packets that agents keep. The requester's thread asks all agents for the first part, then the one with
//! most packets for the others; the gateway's thread passes requests on, and replies back.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::time::{Duration, Instant};

use link::{KEEPS_PACKETS, PacketReply, PacketRequest};

use super::GatewayEvent;
use crate::gateway::fleet::{AgentView, FlowPackets, NO_RECORDER, PacketQuery};
use crate::job::fleet_refusal::FleetRefusal;

/// Time limit of the replies of all agents, which need up to 20 s to select packets; later, of each part.
const TIME: Duration = Duration::from_secs(25);
/// Agents rotate their files at about the requested size.
const EXCESS: u64 = 1 << 20;

/// Requests that wait for a reply, by number.
#[derive(Default)]
pub struct PacketRequests {
    waiting: BTreeMap<u64, WaitingRequest>,
}

/// A request that waits for a reply.
struct WaitingRequest {
    session: u64,
    since: Instant,
    answer: SyncSender<PacketReply>,
}

impl PacketRequests {
    /// Notes a request that was sent in a session.
    pub fn add(&mut self, session: u64, number: u64, answer: SyncSender<PacketReply>) {
        let since = Instant::now();
        self.waiting.insert(
            number,
            WaitingRequest {
                session,
                since,
                answer,
            },
        );
    }

    /// Passes a reply on; a reply of another session is ignored.
    pub fn answer(&mut self, session: u64, reply: PacketReply) {
        let is_its = |request: &&WaitingRequest| request.session == session;
        if self.waiting.get(&reply.request).filter(is_its).is_some()
            && let Some(request) = self.waiting.remove(&reply.request)
        {
            // The requester may have given up.
            let _ = request.answer.send(reply);
        }
    }

    /// Ends the requests of a session: their requesters notice the closed channel.
    pub fn close(&mut self, session: u64) {
        self.waiting.retain(|_, request| request.session != session);
    }

    /// Removes requests whose requesters have given up.
    pub fn expire(&mut self) {
        self.waiting
            .retain(|_, request| request.since.elapsed() < TIME);
    }
}

/// Part of the packets of an agent.
struct FirstPart<'a> {
    agent: &'a str,
    reply: PacketReply,
}

/// Collects the packets of a flow from the agent that has most.
///
/// # Errors
/// As in [`super::Fleet::packets`].
pub fn collect(
    events: &Sender<GatewayEvent>,
    agents: &[AgentView],
    asked: &PacketQuery,
) -> Result<FlowPackets, FleetRefusal> {
    let keeps = |agent: &&AgentView| {
        agent.connected
            && agent.capabilities.iter().any(|what| what == KEEPS_PACKETS)
            && asked.agent.as_ref().is_none_or(|name| *name == agent.name)
    };
    let keepers: Vec<&AgentView> = agents.iter().filter(keeps).collect();
    if keepers.is_empty() {
        return Err(FleetRefusal::NoAgent(NO_RECORDER.into()));
    }
    let numbers = RandomState::new();
    let ask = |(place, agent): (usize, &&AgentView)| {
        let request = PacketRequest {
            request: numbers.hash_one(place),
            offset: 0,
            community_id: asked.community_id.clone(),
            since_ns: asked.period_ns.0,
            until_ns: asked.period_ns.1,
            bytes_max: asked.bytes_max,
        };
        (agent.name.clone(), send(events, &agent.name, request))
    };
    // All are asked before the first reply is awaited.
    let asked_all: Vec<_> = keepers.iter().enumerate().map(ask).collect();
    let until = Instant::now() + TIME;
    let mut notes = Vec::new();
    let mut best: Option<FirstPart<'_>> = None;
    for (agent, answer) in &asked_all {
        match wait(answer, until) {
            Err(why) => notes.push(format!("agent {agent}: {why}")),
            Ok(reply) if !reply.problem.is_empty() => {
                notes.push(format!("agent {agent}: {}", reply.problem));
            }
            Ok(reply) => {
                let most = best.as_ref().map_or(0, |best| best.reply.total);
                if reply.total > most {
                    best = Some(FirstPart { agent, reply });
                }
            }
        }
    }
    match best {
        Some(first) => rest(events, asked, first, notes),
        None if notes.is_empty() => Err(FleetRefusal::NoAgent(
            "no agent has packets of this flow: they are older than the packets kept, or did not pass a host that keeps packets"
                .into(),
        )),
        None => Err(FleetRefusal::Unable(notes.join("; "))),
    }
}

/// Requests the other parts of a file.
fn rest(
    events: &Sender<GatewayEvent>,
    asked: &PacketQuery,
    FirstPart { agent, reply }: FirstPart<'_>,
    notes: Vec<String>,
) -> Result<FlowPackets, FleetRefusal> {
    let unable = |why: &str| FleetRefusal::Unable(format!("agent {agent}: {why}"));
    if reply.total > asked.bytes_max.saturating_add(EXCESS) {
        return Err(unable("its file is larger than requested"));
    }
    let mut pcapng = reply.part.to_vec();
    while (pcapng.len() as u64) < reply.total {
        let request = PacketRequest {
            request: reply.request,
            offset: pcapng.len() as u64,
            ..PacketRequest::default()
        };
        let next = wait(&send(events, agent, request), Instant::now() + TIME).map_err(unable)?;
        if !next.problem.is_empty() {
            return Err(unable(&next.problem));
        }
        if next.part.is_empty() || next.offset != pcapng.len() as u64 {
            return Err(unable("its file ended early"));
        }
        pcapng.extend_from_slice(&next.part);
    }
    pcapng.truncate(usize::try_from(reply.total).unwrap_or(usize::MAX));
    Ok(FlowPackets {
        agent: agent.to_owned(),
        pcapng,
        is_cut: reply.is_cut,
        notes,
    })
}

fn send(
    events: &Sender<GatewayEvent>,
    agent: &str,
    request: PacketRequest,
) -> Receiver<PacketReply> {
    let (answer, answered) = mpsc::sync_channel(1);
    // If the gateway has ended, the channel is closed.
    let _ = events.send(GatewayEvent::Packets {
        agent: agent.to_owned(),
        request,
        answer,
    });
    answered
}

fn wait(answered: &Receiver<PacketReply>, until: Instant) -> Result<PacketReply, &'static str> {
    let left = until.saturating_duration_since(Instant::now());
    answered.recv_timeout(left).map_err(|error| match error {
        mpsc::RecvTimeoutError::Timeout => "it did not reply",
        mpsc::RecvTimeoutError::Disconnected => "it is not connected",
    })
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn keeper(name: &str) -> AgentView {
        AgentView {
            name: name.into(),
            labels: BTreeMap::new(),
            connected: true,
            version: String::new(),
            interfaces: Vec::new(),
            cores: 1,
            memory_bytes: 0,
            capabilities: vec![KEEPS_PACKETS.into()],
            addresses: Vec::new(),
            addresses_shared: Vec::new(),
            packets_per_second: None,
            jobs: Vec::new(),
            clock_offset_ns: None,
            last_seen_ns: None,
        }
    }

    /// Collects from agents that reply by `reply`; without a reply, the session is closed.
    fn collected(
        agents: &[&str],
        reply: impl Fn(&str, PacketRequest) -> Option<PacketReply> + Send + 'static,
    ) -> Result<FlowPackets, FleetRefusal> {
        let (events, incoming) = mpsc::channel();
        let gateway = thread::spawn(move || {
            for event in incoming {
                if let GatewayEvent::Packets {
                    agent,
                    request,
                    answer,
                } = event
                    && let Some(reply) = reply(&agent, request)
                {
                    answer.send(reply).expect("it waits");
                }
            }
        });
        let agents: Vec<AgentView> = agents.iter().map(|name| keeper(name)).collect();
        let asked = PacketQuery {
            agent: None,
            community_id: "1:a".into(),
            period_ns: (0, 1),
            bytes_max: 1 << 20,
        };
        let found = collect(&events, &agents, &asked);
        drop(events);
        gateway.join().expect("it ends");
        found
    }

    /// A part of at most three bytes of a file.
    fn part(file: &[u8], request: &PacketRequest) -> PacketReply {
        let rest = &file[request.offset as usize..];
        PacketReply {
            request: request.request,
            offset: request.offset,
            total: file.len() as u64,
            part: rest[..rest.len().min(3)].to_vec().into(),
            ..PacketReply::default()
        }
    }

    fn refused(why: &str, request: &PacketRequest) -> PacketReply {
        PacketReply {
            request: request.request,
            problem: why.into(),
            ..PacketReply::default()
        }
    }

    #[test]
    fn the_agent_with_most_packets_sends_all_parts() {
        let found = collected(&["a", "b", "c", "d"], |agent, request| match agent {
            "a" => Some(part(b"short", &request)),
            "b" => Some(part(b"the longest", &request)),
            "c" => Some(refused("it may not", &request)),
            _ => None,
        });
        let expected = FlowPackets {
            agent: "b".into(),
            pcapng: b"the longest".to_vec(),
            is_cut: false,
            notes: vec![
                "agent c: it may not".into(),
                "agent d: it is not connected".into(),
            ],
        };
        assert_eq!(found, Ok(expected));
    }

    #[test]
    fn agents_without_the_packets_and_false_ones_are_refused() {
        let of = |reply: fn(&str, PacketRequest) -> Option<PacketReply>| {
            collected(&["a"], reply)
                .map(drop)
                .map_err(|why| why.to_string())
        };
        let nothing = of(|_, request| Some(part(b"", &request)));
        assert!(nothing.is_err_and(|why| why.starts_with("no agent has packets")));
        let late = of(|_, request| (request.offset == 0).then(|| part(b"the longest", &request)));
        assert_eq!(late, Err("agent a: it is not connected".into()));
        let short = of(|_, request| {
            let first = part(b"the longest", &request);
            Some(PacketReply {
                total: 99,
                part: if request.offset < 9 {
                    first.part
                } else {
                    "".into()
                },
                ..first
            })
        });
        assert_eq!(short, Err("agent a: its file ended early".into()));
        let large = of(|_, request| {
            Some(PacketReply {
                total: 1 << 40,
                ..part(b"the longest", &request)
            })
        });
        assert_eq!(
            large,
            Err("agent a: its file is larger than requested".into())
        );
        let silent = collected(&[], |_, _| None).map(drop);
        assert_eq!(silent, Err(FleetRefusal::NoAgent(NO_RECORDER.into())));
    }
}
