//! Sessions with agents, and the ends of their connections' queues.

use std::collections::BTreeMap;

use bytes::Bytes;
use link::{
    Hello, LaneRange, RecordLane, ServerSession, ServerSessionEvent, SessionLimits, SessionTime,
};
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;

use crate::job::counters::ServiceMetrics;

/// Session on one connection.
pub struct GatewaySession {
    /// Name of the agent.
    pub agent: String,
    /// Protocol state of the session.
    pub link: ServerSession,
    out: Sender<Bytes>,
    /// Incarnation of the agent, after its Hello was accepted.
    pub boot: Option<u64>,
    /// Data of its Hello, until the reply.
    pub greeting: Option<PendingGreeting>,
}

/// Fields of a Hello needed for the reply.
pub struct PendingGreeting {
    /// Highest protocol version supported by the agent.
    pub version_max: u32,
    /// Lanes in its spool.
    pub lanes: Vec<LaneRange>,
}

impl PendingGreeting {
    /// Fields of a Hello.
    pub fn of(hello: &Hello) -> PendingGreeting {
        PendingGreeting {
            version_max: hello.version_max,
            lanes: hello.lanes.clone(),
        }
    }
}

/// All sessions, by numbers that are never reused.
pub struct GatewaySessions {
    /// Identity of this server.
    server: u64,
    all: BTreeMap<u64, GatewaySession>,
    /// Sessions whose connection no longer reads.
    broken: Vec<u64>,
}

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionStatus {
    /// Open.
    Open,
    /// The other end no longer reads.
    Broken,
}

impl GatewaySessions {
    /// The sessions of the server with this number, initially none.
    pub fn of(server: u64) -> GatewaySessions {
        GatewaySessions {
            server,
            all: BTreeMap::new(),
            broken: Vec::new(),
        }
    }

    /// Adds a session for a new connection.
    pub fn add(
        &mut self,
        id: u64,
        agent: String,
        out: Sender<Bytes>,
        limits: SessionLimits,
        now: SessionTime,
    ) {
        let link = ServerSession::new(limits, self.server, now);
        self.all.insert(
            id,
            GatewaySession {
                agent,
                link,
                out,
                boot: None,
                greeting: None,
            },
        );
    }

    /// Session by number.
    pub fn get(&mut self, id: u64) -> Option<&mut GatewaySession> {
        self.all.get_mut(&id)
    }

    /// Number of the open session of an agent.
    pub fn of_agent(&self, agent: &str) -> Option<u64> {
        let is_its = |session: &GatewaySession| session.agent == agent && session.link.is_open();
        self.all
            .iter()
            .find(|(_, session)| is_its(session))
            .map(|(id, _)| *id)
    }

    /// Sends a message in a session, if it still exists.
    pub fn send(&mut self, id: u64, message: impl FnOnce(&mut ServerSession)) {
        if let Some(session) = self.all.get_mut(&id) {
            message(&mut session.link);
            self.pump(id);
        }
    }

    /// Passes outgoing data of a session to its connection.
    pub fn pump(&mut self, id: u64) {
        let session = self.all.get_mut(&id);
        if session.is_some_and(|session| session.pump() == ConnectionStatus::Broken) {
            self.broken.push(id);
        }
    }

    /// Passes outgoing data of all sessions to their connections.
    pub fn pump_all(&mut self) {
        for (id, session) in &mut self.all {
            if session.pump() == ConnectionStatus::Broken {
                self.broken.push(*id);
            }
        }
    }

    /// Next session whose connection no longer reads; it remains until it is removed.
    pub fn next_broken(&mut self) -> Option<u64> {
        self.broken.pop()
    }

    /// Acknowledges a committed record in the session on which it arrived, if it still exists.
    pub fn acknowledge(&mut self, id: u64, lane: RecordLane, seq: u64, meters: &ServiceMetrics) {
        if let Some(session) = self.all.get_mut(&id) {
            session.link.committed(lane, seq);
            meters.records_acknowledged.add(1);
        }
    }

    /// Removes the session; its connection ends when waiting data are written.
    pub fn remove(&mut self, id: u64) -> Option<GatewaySession> {
        let mut session = self.all.remove(&id)?;
        let _ = session.pump();
        Some(session)
    }

    /// Whether another process is connected under this name. A dead one counts until its timeout.
    pub fn has_another(&self, agent: &str, boot: u64) -> bool {
        let of_agent = |session: &&GatewaySession| session.agent == agent;
        self.all
            .values()
            .filter(of_agent)
            .any(|session| session.boot.is_some_and(|other| other != boot))
    }

    /// Removes all sessions.
    pub fn clear(&mut self) {
        self.all.values_mut().for_each(|session| {
            let _ = session.pump();
        });
        self.all.clear();
    }

    /// Number of sessions.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Earliest timer of a session, by the monotonic clock.
    pub fn timeout(&self) -> Option<u64> {
        self.all
            .values()
            .filter_map(|session| session.link.poll_timeout())
            .min()
    }

    /// Sessions with expired timers.
    pub fn due(&self, now_ns: u64) -> Vec<u64> {
        let is_due =
            |session: &GatewaySession| session.link.poll_timeout().is_some_and(|at| at <= now_ns);
        self.all
            .iter()
            .filter(|(_, session)| is_due(session))
            .map(|(id, _)| *id)
            .collect()
    }

    /// Sets the flow control window of every session: maximum uncommitted bytes.
    pub fn set_window(&mut self, bytes: u64) {
        self.all
            .values_mut()
            .for_each(|session| session.link.set_window(bytes));
    }
}

impl GatewaySession {
    /// Next event of the session.
    pub fn next(&mut self) -> Option<ServerSessionEvent> {
        self.link.poll_event()
    }

    /// Passes outgoing data to the connection, as far as its queue has space.
    fn pump(&mut self) -> ConnectionStatus {
        loop {
            let room = match self.out.try_reserve() {
                Ok(room) => room,
                // The connection signals when its queue has space again.
                Err(TrySendError::Full(())) => return ConnectionStatus::Open,
                Err(TrySendError::Closed(())) => return ConnectionStatus::Broken,
            };
            match self.link.poll_transmit() {
                Some(bytes) => room.send(bytes),
                None => return ConnectionStatus::Open,
            }
        }
    }
}
