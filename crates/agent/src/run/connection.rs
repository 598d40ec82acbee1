//! The agent's connection to the server, from dialing to its end.

use std::io;
use std::time::Instant;

use bytes::Bytes;
use link::{AgentSession, Spool};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::task::JoinHandle;

use crate::dial::{DialError, DuplexStream, ServerEndpoint};

type Dialing = JoinHandle<Result<Box<dyn DuplexStream>, DialError>>;

/// State of the connection.
pub enum ServerConnection {
    /// No connection attempt before this time.
    Waiting { until: Instant },
    /// Dialing.
    Dialing(Dialing),
    /// Connected.
    Open {
        session: Box<AgentSession>,
        reading: ReadHalf<Box<dyn DuplexStream>>,
        writing: WriteHalf<Box<dyn DuplexStream>>,
        /// Data to write next.
        outgoing: Bytes,
    },
}

/// Event of the connection.
pub enum ServerConnectionEvent {
    Due,
    Dialed(Result<Box<dyn DuplexStream>, String>),
    Read(io::Result<usize>),
    Written(io::Result<()>),
}

impl ServerConnection {
    /// Starts to dial the server.
    pub fn dial(server: ServerEndpoint) -> ServerConnection {
        ServerConnection::Dialing(tokio::spawn(async move { server.dial().await }))
    }

    /// Starts a session on a new connection.
    pub fn open(session: AgentSession, stream: Box<dyn DuplexStream>) -> ServerConnection {
        let (reading, writing) = split(stream);
        ServerConnection::Open {
            session: Box::new(session),
            reading,
            writing,
            outgoing: Bytes::new(),
        }
    }

    /// Whether the agent is connected.
    pub fn is_open(&self) -> bool {
        matches!(self, ServerConnection::Open { .. })
    }

    /// The session, if connected.
    pub fn session(&self) -> Option<&AgentSession> {
        match self {
            ServerConnection::Open { session, .. } => Some(session),
            _ => None,
        }
    }

    /// The session, if connected.
    pub fn session_mut(&mut self) -> Option<&mut AgentSession> {
        match self {
            ServerConnection::Open { session, .. } => Some(session),
            _ => None,
        }
    }

    /// Whether all outgoing data was written.
    pub fn is_sent(&self) -> bool {
        match self {
            ServerConnection::Open { outgoing, .. } => outgoing.is_empty(),
            _ => true,
        }
    }

    /// Requests more outgoing data from the session after the previous was written.
    pub fn fill(&mut self, spool: &mut Spool) {
        if let ServerConnection::Open {
            session, outgoing, ..
        } = self
            && outgoing.is_empty()
        {
            *outgoing = session.poll_transmit(spool).unwrap_or_default();
        }
    }

    /// Waits for the next event. Cancellation-safe.
    pub async fn step(&mut self, buffer: &mut [u8]) -> ServerConnectionEvent {
        match self {
            ServerConnection::Waiting { until } => {
                tokio::time::sleep_until((*until).into()).await;
                ServerConnectionEvent::Due
            }
            ServerConnection::Dialing(dialing) => {
                ServerConnectionEvent::Dialed(match dialing.await {
                    Ok(dialed) => dialed.map_err(|why| why.to_string()),
                    Err(why) => Err(why.to_string()),
                })
            }
            ServerConnection::Open {
                reading,
                writing,
                outgoing,
                ..
            } => tokio::select! {
                read = reading.read(buffer) => ServerConnectionEvent::Read(read),
                written = writing.write_buf(outgoing), if !outgoing.is_empty() => ServerConnectionEvent::Written(written.map(drop)),
            },
        }
    }

    /// Notifies the server of the end of this agent.
    pub async fn bye(self, spool: &mut Spool) {
        let ServerConnection::Open {
            mut session,
            mut writing,
            ..
        } = self
        else {
            return;
        };
        session.bye("this agent is stopping");
        if let Some(bytes) = session.poll_transmit(spool) {
            // An error means that the server has disconnected.
            let _ = writing.write_all(&bytes).await;
        }
    }
}
