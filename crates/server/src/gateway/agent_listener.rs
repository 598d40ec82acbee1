//! Accepts connections of agents and transfers their bytes in both directions without interpretation.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Maximum connections of an agent: its own, those that the network has cut without notice, and those of another
/// agent with its name.
const CONNECTIONS_PER_AGENT: usize = 8;
/// Maximum bytes per read.
const READ_BYTES: usize = 64 << 10;
/// Maximum reads per connection that wait for the gateway; then reading stops.
const READS_WAITING: usize = 4;
/// Maximum frames that wait to be written.
const WRITES_WAITING: usize = 64;

/// Time limit for the last bytes of a connection.
const GOODBYE_TIME: Duration = Duration::from_secs(1);

/// Events of a connection.
pub enum AgentConnectionEvent {
    /// An authenticated agent has connected.
    Connected {
        /// Number of the connection; never reused.
        session: u64,
        /// Name of the agent.
        agent: String,
        /// Channel for messages to it.
        out: mpsc::Sender<Bytes>,
    },
    /// Received bytes.
    Bytes {
        /// Number of the connection.
        session: u64,
        /// The bytes.
        bytes: Bytes,
        /// Memory permit; released when the bytes are dropped.
        room: OwnedSemaphorePermit,
    },
    /// The channel to the agent has room again.
    Written {
        /// Number of the connection.
        session: u64,
    },
    /// The connection has ended.
    Closed {
        /// Number of the connection.
        session: u64,
    },
}

/// The receiver of events has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewayClosed;

/// Callback for events.
type Tell = dyn Fn(AgentConnectionEvent) -> Result<(), GatewayClosed> + Send + Sync;

/// See the module documentation.
#[derive(Clone)]
pub struct AgentListener {
    tell: Arc<Tell>,
    sessions: Arc<AtomicU64>,
    agents_max: usize,
    /// Number of connections of each connected agent.
    connected: Arc<Mutex<HashMap<String, usize>>>,
}

/// Reason why an agent's connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgentLimit {
    /// Too many agents.
    #[error("the maximum number of agents is connected")]
    Agents,
    /// Too many connections of this agent.
    #[error("this agent has {CONNECTIONS_PER_AGENT} connections, the maximum")]
    Connections,
}

/// Permit for a connection of an agent.
pub struct AgentSlot {
    door: AgentListener,
    agent: String,
}

impl AgentListener {
    /// A listener for at most `agents_max` agents.
    pub fn new(agents_max: usize, tell: Arc<Tell>) -> AgentListener {
        AgentListener {
            tell,
            sessions: Arc::default(),
            agents_max,
            connected: Arc::default(),
        }
    }

    /// Permit for a connection of the agent with this authenticated name.
    pub fn enter(&self, agent: &str) -> Result<AgentSlot, AgentLimit> {
        let mut connected = self.connected();
        match connected.get(agent) {
            None if connected.len() >= self.agents_max => return Err(AgentLimit::Agents),
            Some(&open) if open >= CONNECTIONS_PER_AGENT => return Err(AgentLimit::Connections),
            _ => *connected.entry(agent.to_owned()).or_default() += 1,
        }
        drop(connected);
        Ok(AgentSlot {
            door: self.clone(),
            agent: agent.to_owned(),
        })
    }

    fn connected(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.connected
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for AgentSlot {
    fn drop(&mut self) {
        let mut connected = self.door.connected();
        match connected.get_mut(&self.agent) {
            Some(open) if *open > 1 => *open -= 1,
            _ => drop(connected.remove(&self.agent)),
        }
    }
}

impl AgentSlot {
    /// Transfers a connection's bytes until it ends, or `over` is signaled.
    pub async fn carry(
        self,
        connection: impl AsyncRead + AsyncWrite,
        over: impl Future<Output = ()>,
    ) {
        let session = self.door.sessions.fetch_add(1, Ordering::Relaxed) + 1;
        let (out, outgoing) = mpsc::channel(WRITES_WAITING);
        if (self.door.tell)(AgentConnectionEvent::Connected {
            session,
            agent: self.agent.clone(),
            out,
        })
        .is_err()
        {
            return;
        }
        let (mut from, to) = tokio::io::split(connection);
        tokio::pin!(to);
        let reading = read(&self.door, session, &mut from);
        let writing = write(&self.door, session, outgoing, &mut to);
        tokio::select! {
            () = reading => {}
            () = writing => {}
            () = over => {}
        }
        let _ = (self.door.tell)(AgentConnectionEvent::Closed { session });
        // Sends the end of the stream, as TLS requires.
        let _ = tokio::time::timeout(GOODBYE_TIME, to.shutdown()).await;
    }
}

async fn read(door: &AgentListener, session: u64, from: &mut (impl AsyncRead + Unpin)) {
    let waiting = Arc::new(Semaphore::new(READS_WAITING));
    loop {
        let Ok(room) = waiting.clone().acquire_owned().await else {
            return;
        };
        let mut bytes = BytesMut::with_capacity(READ_BYTES);
        match from.read_buf(&mut bytes).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        if (door.tell)(AgentConnectionEvent::Bytes {
            session,
            bytes: bytes.freeze(),
            room,
        })
        .is_err()
        {
            return;
        }
    }
}

async fn write(
    door: &AgentListener,
    session: u64,
    mut outgoing: mpsc::Receiver<Bytes>,
    to: &mut (impl AsyncWrite + Unpin),
) {
    while let Some(bytes) = outgoing.recv().await {
        let was_full = outgoing.len() + 1 >= WRITES_WAITING;
        if to.write_all(&bytes).await.is_err() {
            return;
        }
        if outgoing.is_empty() && to.flush().await.is_err() {
            return;
        }
        if was_full && (door.tell)(AgentConnectionEvent::Written { session }).is_err() {
            return;
        }
    }
    let _ = to.shutdown().await;
}
