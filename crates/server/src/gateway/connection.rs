//! A connection of an agent: carries bytes both ways, and knows nothing of what they say.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Semaphore, mpsc};

use super::{Door, Event};

/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;
/// Reads of one connection that wait for the gateway: then nothing more is read.
const READS_WAITING: usize = 4;
/// Frames that wait to be written.
const WRITES_WAITING: usize = 64;

/// The gateway has as many agents as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

/// Room for a connection.
pub struct Entry {
    door: Door,
    _room: tokio::sync::OwnedSemaphorePermit,
}

impl Door {
    /// Room for a connection, if there is any.
    pub fn enter(&self) -> Result<Entry, NoRoom> {
        let room = self.room.clone().try_acquire_owned().map_err(|_| NoRoom)?;
        Ok(Entry { door: self.clone(), _room: room })
    }
}

impl Entry {
    /// Carries a connection's bytes until it ends. `agent`: whose it is, as has been shown.
    pub async fn carry(self, agent: String, connection: impl AsyncRead + AsyncWrite) {
        let session = self.door.session();
        let (out, outgoing) = mpsc::channel(WRITES_WAITING);
        if self.door.events.send(Event::Connected { session, agent, out }).is_err() {
            return;
        }
        let (mut from, to) = tokio::io::split(connection);
        tokio::pin!(to);
        let reading = read(&self.door, session, &mut from);
        let writing = write(&self.door, session, outgoing, &mut to);
        tokio::select! {
            () = reading => {}
            () = writing => {}
        }
        let _ = self.door.events.send(Event::Closed { session });
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
        if door.events.send(Event::Bytes { session, bytes: bytes.freeze(), room }).is_err() {
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
        if was_full && door.events.send(Event::Written { session }).is_err() {
            return;
        }
    }
    let _ = to.shutdown().await;
}
