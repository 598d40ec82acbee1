//! The agent's connection to the server, from looking for one to its end.

use std::io;
use std::time::Instant;

use bytes::Bytes;
use link::{AgentSession, Spool};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::task::JoinHandle;

use crate::dial::{DialError, Server, Stream};

type Dialing = JoinHandle<Result<Box<dyn Stream>, DialError>>;

/// How it stands with the server.
pub enum Connection {
    /// No connection attempt before this time.
    Waiting { until: Instant },
    /// It is being called.
    Dialing(Dialing),
    /// It is there.
    Open {
        session: Box<AgentSession>,
        reading: ReadHalf<Box<dyn Stream>>,
        writing: WriteHalf<Box<dyn Stream>>,
        /// What is to be written next.
        outgoing: Bytes,
    },
}

/// What has happened to the connection.
pub enum Happened {
    Due,
    Dialed(Result<Box<dyn Stream>, String>),
    Read(io::Result<usize>),
    Written(io::Result<()>),
}

impl Connection {
    /// Calls the server.
    pub fn dial(server: Server) -> Connection {
        Connection::Dialing(tokio::spawn(async move { server.dial().await }))
    }

    /// Begins a session over what was dialled.
    pub fn open(session: AgentSession, stream: Box<dyn Stream>) -> Connection {
        let (reading, writing) = split(stream);
        Connection::Open { session: Box::new(session), reading, writing, outgoing: Bytes::new() }
    }

    /// Whether the server is there.
    pub fn is_open(&self) -> bool {
        matches!(self, Connection::Open { .. })
    }

    /// The session, where the server is there.
    pub fn session(&self) -> Option<&AgentSession> {
        match self {
            Connection::Open { session, .. } => Some(session),
            _ => None,
        }
    }

    /// The same, to change it.
    pub fn session_mut(&mut self) -> Option<&mut AgentSession> {
        match self {
            Connection::Open { session, .. } => Some(session),
            _ => None,
        }
    }

    /// Whether nothing is left to be written.
    pub fn is_sent(&self) -> bool {
        match self {
            Connection::Open { outgoing, .. } => outgoing.is_empty(),
            _ => true,
        }
    }

    /// Has the session say more, once all that it said is written.
    pub fn fill(&mut self, spool: &mut Spool) {
        if let Connection::Open { session, outgoing, .. } = self
            && outgoing.is_empty()
        {
            *outgoing = session.poll_transmit(spool).unwrap_or_default();
        }
    }

    /// The next thing that happens. Nothing is lost where it is given up in the middle.
    pub async fn step(&mut self, buffer: &mut [u8]) -> Happened {
        match self {
            Connection::Waiting { until } => {
                tokio::time::sleep_until((*until).into()).await;
                Happened::Due
            }
            Connection::Dialing(dialing) => Happened::Dialed(match dialing.await {
                Ok(dialed) => dialed.map_err(|why| why.to_string()),
                Err(why) => Err(why.to_string()),
            }),
            Connection::Open { reading, writing, outgoing, .. } => tokio::select! {
                read = reading.read(buffer) => Happened::Read(read),
                written = writing.write_buf(outgoing), if !outgoing.is_empty() => Happened::Written(written.map(drop)),
            },
        }
    }

    /// Tells the server that this agent ends.
    pub async fn bye(self, spool: &mut Spool) {
        let Connection::Open { mut session, mut writing, .. } = self else { return };
        session.bye("this agent ends");
        if let Some(bytes) = session.poll_transmit(spool) {
            // An error means that the server is gone.
            let _ = writing.write_all(&bytes).await;
        }
    }
}
