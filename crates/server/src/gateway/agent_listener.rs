//! Accepts connections of agents and transfers their bytes in both directions without interpretation.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

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
    room: Arc<Semaphore>,
}

/// The limit of agents is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyAgents;

/// Permit for one connection.
pub struct AgentSlot {
    door: AgentListener,
    _room: OwnedSemaphorePermit,
}

impl AgentListener {
    /// A listener for at most `agents_max` agents.
    pub fn new(agents_max: usize, tell: Arc<Tell>) -> AgentListener {
        AgentListener {
            tell,
            sessions: Arc::default(),
            room: Arc::new(Semaphore::new(agents_max)),
        }
    }

    /// Permit for a connection, if the limit allows one.
    pub fn enter(&self) -> Result<AgentSlot, TooManyAgents> {
        let room = self
            .room
            .clone()
            .try_acquire_owned()
            .map_err(|_| TooManyAgents)?;
        Ok(AgentSlot {
            door: self.clone(),
            _room: room,
        })
    }
}

impl AgentSlot {
    /// Transfers a connection's bytes until it ends, or `over` is signaled. `agent`: its authenticated name.
    pub async fn carry(
        self,
        agent: String,
        connection: impl AsyncRead + AsyncWrite,
        over: impl Future<Output = ()>,
    ) {
        let session = self.door.sessions.fetch_add(1, Ordering::Relaxed) + 1;
        let (out, outgoing) = mpsc::channel(WRITES_WAITING);
        if (self.door.tell)(AgentConnectionEvent::Connected {
            session,
            agent,
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
