//! Where agents' connections come in: bytes are carried both ways, and nothing is known of what they say.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;
/// Reads of one connection that wait for the gateway: then nothing more is read.
const READS_WAITING: usize = 4;
/// Frames that wait to be written.
const WRITES_WAITING: usize = 64;

/// Time for the last bytes of a connection.
const GOODBYE_TIME: Duration = Duration::from_secs(1);

/// What comes of a connection.
pub enum Arrival {
    /// An authenticated agent has connected.
    Connected {
        /// The connection, by a number that is never used again.
        session: u64,
        /// Its agent.
        agent: String,
        /// Channel for messages to it.
        out: mpsc::Sender<Bytes>,
    },
    /// What it says.
    Bytes {
        /// Which connection.
        session: u64,
        /// What.
        bytes: Bytes,
        /// To be let go of when it is no longer in memory.
        room: OwnedSemaphorePermit,
    },
    /// The channel to the agent has room again.
    Written {
        /// Which connection.
        session: u64,
    },
    /// The connection has ended.
    Closed {
        /// Which connection.
        session: u64,
    },
}

/// The receiver of events is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended;

/// Tells of what comes.
type Tell = dyn Fn(Arrival) -> Result<(), Ended> + Send + Sync;

/// See the module's text.
#[derive(Clone)]
pub struct Door {
    tell: Arc<Tell>,
    sessions: Arc<AtomicU64>,
    room: Arc<Semaphore>,
}

/// The gateway has as many agents as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

/// Room for a connection.
pub struct Entry {
    door: Door,
    _room: OwnedSemaphorePermit,
}

impl Door {
    /// A listener for at most `agents_max` agents.
    pub fn new(agents_max: usize, tell: Arc<Tell>) -> Door {
        Door { tell, sessions: Arc::default(), room: Arc::new(Semaphore::new(agents_max)) }
    }

    /// Room for a connection, if there is any.
    pub fn enter(&self) -> Result<Entry, NoRoom> {
        let room = self.room.clone().try_acquire_owned().map_err(|_| NoRoom)?;
        Ok(Entry { door: self.clone(), _room: room })
    }
}

impl Entry {
    /// Carries a connection's bytes until it ends, or `over` comes. `agent`: whose it is, as has been shown.
    pub async fn carry(
        self,
        agent: String,
        connection: impl AsyncRead + AsyncWrite,
        over: impl Future<Output = ()>,
    ) {
        let session = self.door.sessions.fetch_add(1, Ordering::Relaxed) + 1;
        let (out, outgoing) = mpsc::channel(WRITES_WAITING);
        if (self.door.tell)(Arrival::Connected { session, agent, out }).is_err() {
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
        let _ = (self.door.tell)(Arrival::Closed { session });
        // Sends the end of the stream, which TLS requires.
        let _ = tokio::time::timeout(GOODBYE_TIME, to.shutdown()).await;
    }
}

async fn read(door: &Door, session: u64, from: &mut (impl AsyncRead + Unpin)) {
    let waiting = Arc::new(Semaphore::new(READS_WAITING));
    loop {
        let Ok(room) = waiting.clone().acquire_owned().await else { return };
        let mut bytes = BytesMut::with_capacity(READ_BYTES);
        match from.read_buf(&mut bytes).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        if (door.tell)(Arrival::Bytes { session, bytes: bytes.freeze(), room }).is_err() {
            return;
        }
    }
}

async fn write(
    door: &Door,
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
        if was_full && (door.tell)(Arrival::Written { session }).is_err() {
            return;
        }
    }
    let _ = to.shutdown().await;
}
