//! Sessions with agents, and the ends of their connections' queues.

use std::collections::BTreeMap;

use bytes::Bytes;
use link::{Hello, LaneRange, Now, ServerEvent, ServerLimits, ServerSession};
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;

/// A connection.
pub struct Session {
    /// Whose it is.
    pub agent: String,
    /// Protocol state of the session.
    pub link: ServerSession,
    out: Sender<Bytes>,
    /// Which life of its agent it is, when that has been taken in.
    pub boot: Option<u64>,
    /// Data of its Hello, until the reply.
    pub greeting: Option<Greeting>,
}

/// What of a Hello is needed for the answer.
pub struct Greeting {
    /// The highest version that the agent speaks.
    pub version_max: u32,
    /// What its spool holds.
    pub lanes: Vec<LaneRange>,
}

impl Greeting {
    /// Of a Hello.
    pub fn of(hello: &Hello) -> Greeting {
        Greeting { version_max: hello.version_max, lanes: hello.lanes.clone() }
    }
}

/// All connections, by numbers that are never used again.
pub struct Sessions {
    /// Which server this is.
    server: u64,
    all: BTreeMap<u64, Session>,
}

/// Whether a connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// It does.
    Open,
    /// The other end no longer reads.
    Broken,
}

impl Sessions {
    /// None yet, with this server.
    pub fn of(server: u64) -> Sessions {
        Sessions { server, all: BTreeMap::new() }
    }

    /// A connection begins.
    pub fn add(&mut self, id: u64, agent: String, out: Sender<Bytes>, limits: ServerLimits, now: Now) {
        let link = ServerSession::new(limits, self.server, now);
        self.all.insert(id, Session { agent, link, out, boot: None, greeting: None });
    }

    /// One of them.
    pub fn get(&mut self, id: u64) -> Option<&mut Session> {
        self.all.get_mut(&id)
    }

    /// Removes the session; its connection ends when waiting data are written.
    pub fn remove(&mut self, id: u64) -> Option<Session> {
        let mut session = self.all.remove(&id)?;
        let _ = session.pump();
        Some(session)
    }

    /// Whether another process is here by this name. One that died without a word is not, as soon as its silence is noticed.
    pub fn has_another(&self, agent: &str, boot: u64) -> bool {
        let of_agent = |session: &&Session| session.agent == agent;
        self.all.values().filter(of_agent).any(|session| session.boot.is_some_and(|other| other != boot))
    }

    /// Their numbers.
    pub fn ids(&self) -> Vec<u64> {
        self.all.keys().copied().collect()
    }

    /// When one of them wants to be called, by the monotonic clock.
    pub fn timeout(&self) -> Option<u64> {
        self.all.values().filter_map(|session| session.link.poll_timeout()).min()
    }

    /// Those that want to be called.
    pub fn due(&self, now_ns: u64) -> Vec<u64> {
        let is_due = |session: &Session| session.link.poll_timeout().is_some_and(|at| at <= now_ns);
        self.all.iter().filter(|(_, session)| is_due(session)).map(|(id, _)| *id).collect()
    }

    /// How much may be on its way and not committed, in every session.
    pub fn set_window(&mut self, bytes: u64) {
        self.all.values_mut().for_each(|session| session.link.set_window(bytes));
    }
}

impl Session {
    /// What has happened.
    pub fn next(&mut self) -> Option<ServerEvent> {
        self.link.poll_event()
    }

    /// Passes data to write to the connection, as far as there is room.
    pub fn pump(&mut self) -> Line {
        loop {
            let room = match self.out.try_reserve() {
                Ok(room) => room,
                // The connection says when there is room again.
                Err(TrySendError::Full(())) => return Line::Open,
                Err(TrySendError::Closed(())) => return Line::Broken,
            };
            match self.link.poll_transmit() {
                Some(bytes) => room.send(bytes),
                None => return Line::Open,
            }
        }
    }
}
