//! Connections in memory: each direction preserves order, and is delayed, blocked by a partition, or broken. An end may
//! notice the break immediately, later or never.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use link::{Frame, FrameDecoder};

use crate::random::Random;

/// Sending end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Agent,
    Server,
}

#[derive(Default)]
struct Pipe {
    waiting: VecDeque<(u64, Bytes)>,
    last_ns: u64,
}

#[derive(Default)]
struct End {
    inbox: Pipe,
    is_told_ns: Option<u64>,
}

/// A connection dialed by an agent.
#[derive(Default)]
struct Connection {
    agent: usize,
    to_agent: End,
    to_server: End,
    is_broken: bool,
    /// Decodes the server's output.
    tap: FrameDecoder,
}

#[derive(Default)]
pub struct Network {
    connections: BTreeMap<u64, Connection>,
    next: u64,
    delay_max_ns: u64,
    /// Time until which nothing arrives at or from an agent.
    pub partitioned: BTreeMap<usize, u64>,
}

impl Network {
    pub fn new(delay_max_ns: u64) -> Self {
        Self {
            delay_max_ns,
            ..Self::default()
        }
    }

    pub fn dial(&mut self, agent: usize) -> u64 {
        self.next += 1;
        let connection = Connection {
            agent,
            to_agent: End::default(),
            to_server: End::default(),
            is_broken: false,
            tap: FrameDecoder::default(),
        };
        self.connections.insert(self.next, connection);
        self.next
    }

    /// Agent of the connection.
    pub fn agent(&self, id: u64) -> usize {
        self.connections
            .get(&id)
            .map_or(usize::MAX, |connection| connection.agent)
    }

    pub fn ids(&self) -> Vec<u64> {
        self.connections.keys().copied().collect()
    }

    /// Sends bytes. The server's output is returned as frames, for checks.
    pub fn send(
        &mut self,
        id: u64,
        from: Side,
        bytes: Bytes,
        now_ns: u64,
        random: &mut Random,
    ) -> Vec<Frame> {
        let delay_ns = random.between(0, self.delay_max_ns + 1);
        let Some(connection) = self.connections.get_mut(&id) else {
            return Vec::new();
        };
        let mut said = Vec::new();
        if from == Side::Server {
            connection.tap.push(&bytes);
            while let Ok(Some(incoming)) = connection.tap.next() {
                said.push(incoming.frame);
            }
        }
        if connection.is_broken {
            return said;
        }
        let end = match from {
            Side::Agent => &mut connection.to_server,
            Side::Server => &mut connection.to_agent,
        };
        end.inbox.last_ns = end.inbox.last_ns.max(now_ns + delay_ns);
        let cut = random.between(0, bytes.len() as u64 + 1) as usize;
        let mut rest = bytes;
        let first = rest.split_to(cut);
        end.inbox
            .waiting
            .extend([(end.inbox.last_ns, first), (end.inbox.last_ns, rest)]);
        said
    }

    /// The next bytes that have arrived by now.
    pub fn receive(&mut self, id: u64, at: Side, now_ns: u64) -> Option<Bytes> {
        let connection = self.connections.get_mut(&id)?;
        if self
            .partitioned
            .get(&connection.agent)
            .is_some_and(|until| *until > now_ns)
        {
            return None;
        }
        let end = if at == Side::Agent {
            &mut connection.to_agent
        } else {
            &mut connection.to_server
        };
        end.inbox
            .waiting
            .pop_front_if(|(due, _)| *due <= now_ns)
            .map(|(_, bytes)| bytes)
    }

    /// Whether an end has noticed that the connection is broken.
    pub fn is_closed(&self, id: u64, at: Side, now_ns: u64) -> bool {
        self.connections.get(&id).is_none_or(|connection| {
            let end = if at == Side::Agent {
                &connection.to_agent
            } else {
                &connection.to_server
            };
            end.is_told_ns.is_some_and(|told| told <= now_ns)
        })
    }

    /// Breaks a connection. Bytes in transit are lost, or still arrive.
    pub fn break_off(&mut self, id: u64, now_ns: u64, random: &mut Random) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        connection.is_broken = true;
        for end in [&mut connection.to_agent, &mut connection.to_server] {
            if random.chance(500_000) {
                end.inbox.waiting.clear();
            }
            if random.chance(700_000) {
                let told = now_ns + random.between(0, 2_000_000_000);
                end.is_told_ns = Some(end.is_told_ns.map_or(told, |before| before.min(told)));
            }
        }
    }

    /// An end's process closed it, or died.
    pub fn close(&mut self, id: u64, by: Side, now_ns: u64) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        connection.is_broken = true;
        let (own, other) = match by {
            Side::Agent => (&mut connection.to_agent, &mut connection.to_server),
            Side::Server => (&mut connection.to_server, &mut connection.to_agent),
        };
        own.is_told_ns = Some(0);
        // The other end reads the data in transit first.
        let told = other.inbox.last_ns.max(now_ns);
        other.is_told_ns = Some(other.is_told_ns.map_or(told, |before| before.min(told)));
        if connection.to_agent.is_told_ns == Some(0) && connection.to_server.is_told_ns == Some(0) {
            self.connections.remove(&id);
        }
    }
}
