//! A source that several workers share. Workers take turns at reading: a worker with nothing to process reads the next
//! chunk and sorts its packets by worker, while the others process theirs. Every worker processes its packets of all chunks
//! in order, so the results do not depend on the reader of a chunk. No thread only reads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, RwLock};

use crate::chunk_reader::ChunkReader;
use crate::packet_chunk::PacketChunk;

/// Chunks in flight: bounds memory, and how far a worker may fall behind the others. Few enough to stay in the cache.
const CHUNKS: usize = 16;

/// Polls before a worker sleeps, about 100 µs: the time in which another worker reads a chunk. The sleep and wake-up of a
/// thread takes as long, and most waits are shorter.
const POLLS: u32 = 3000;

/// See the module documentation.
pub(crate) struct SharedInput {
    state: Mutex<InputState>,
    changed: Condvar,
    /// Number of changes of the state.
    changes: AtomicU64,
    chunks: [RwLock<PacketChunk>; CHUNKS],
    workers: usize,
}

struct InputState {
    /// The reader; `None` while a worker reads, and after the end.
    reader: Option<Box<ChunkReader>>,
    /// Number of the next chunk to be read.
    next: u64,
    /// Storage of chunks; chunk `n` is in slot `n % CHUNKS`.
    slots: [ChunkSlot; CHUNKS],
    /// Whether the input has ended: no chunk follows.
    is_ended: bool,
    /// Whether a worker has panicked: chunks that it would have processed are not reused.
    is_broken: bool,
    /// Workers that sleep until the next change.
    sleeping: usize,
}

/// State of a chunk's storage.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChunkSlot {
    Free,
    /// A worker reads or sorts.
    Filling,
    /// Sorted; this number of workers have not processed it yet.
    Ready(usize),
}

/// Next task of a worker.
pub(crate) enum WorkerTask<'i> {
    /// Read this chunk, then call [`SharedInput::read`] and [`SharedInput::sorted`].
    Read(Box<ChunkReader>, u64, &'i RwLock<PacketChunk>),
    /// Process the worker's packets of its next chunk, then call [`SharedInput::processed`].
    Process(&'i RwLock<PacketChunk>),
    /// No chunk follows.
    End,
}

impl SharedInput {
    /// Creates the input of this number of workers.
    pub fn new(reader: ChunkReader, workers: usize) -> SharedInput {
        SharedInput {
            state: Mutex::new(InputState {
                reader: Some(Box::new(reader)),
                next: 0,
                slots: [ChunkSlot::Free; CHUNKS],
                is_ended: false,
                is_broken: false,
                sleeping: 0,
            }),
            changed: Condvar::new(),
            changes: AtomicU64::new(0),
            chunks: Default::default(),
            workers,
        }
    }

    /// Waits for the next task of a worker whose next chunk is `number`.
    pub fn task(&self, number: u64) -> WorkerTask<'_> {
        let mut state = self.state();
        loop {
            let slot = state.slots[place(number)];
            if matches!(slot, ChunkSlot::Ready(_)) && number < state.next {
                return WorkerTask::Process(&self.chunks[place(number)]);
            }
            let next = state.next;
            if state.slots[place(next)] == ChunkSlot::Free
                && let Some(reader) = state.reader.take()
            {
                state.slots[place(next)] = ChunkSlot::Filling;
                state.next += 1;
                return WorkerTask::Read(reader, next, &self.chunks[place(next)]);
            }
            if state.is_broken || state.is_ended && number == next {
                return WorkerTask::End;
            }
            state = self.wait(state);
        }
    }

    /// Returns the reader, so that another worker may read; `None`: the input has ended.
    pub fn read(&self, reader: Option<Box<ChunkReader>>) {
        let mut state = self.state();
        state.is_ended = reader.is_none();
        state.reader = reader;
        self.tell(state);
    }

    /// Releases a sorted chunk to all workers.
    pub fn sorted(&self, number: u64) {
        let mut state = self.state();
        state.slots[place(number)] = ChunkSlot::Ready(self.workers);
        self.tell(state);
    }

    /// Releases a chunk that a worker has processed.
    pub fn processed(&self, number: u64) {
        let mut state = self.state();
        let slot = &mut state.slots[place(number)];
        match slot {
            ChunkSlot::Ready(left) if *left > 1 => *left -= 1,
            _ => {
                *slot = ChunkSlot::Free;
                self.tell(state);
            }
        }
    }

    /// Waits for a change: first by polling, because most waits are shorter than the sleep of a thread.
    fn wait<'i>(&'i self, state: MutexGuard<'i, InputState>) -> MutexGuard<'i, InputState> {
        let seen = self.changes.load(Ordering::Relaxed);
        drop(state);
        for _ in 0..POLLS {
            if self.changes.load(Ordering::Acquire) != seen {
                return self.state();
            }
            std::hint::spin_loop();
        }
        let mut state = self.state();
        if self.changes.load(Ordering::Relaxed) == seen {
            state.sleeping += 1;
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            state.sleeping -= 1;
        }
        state
    }

    /// Releases the state after a change, and wakes the workers that wait for one.
    fn tell(&self, state: MutexGuard<'_, InputState>) {
        self.changes.fetch_add(1, Ordering::Release);
        if state.sleeping > 0 {
            self.changed.notify_all();
        }
    }

    fn state(&self) -> MutexGuard<'_, InputState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn place(number: u64) -> usize {
    (number % CHUNKS as u64) as usize
}

/// The presence of a worker; if it panics, the others end instead of waiting for it.
pub(crate) struct WorkerPresence<'i>(pub &'i SharedInput);

impl Drop for WorkerPresence<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut state = self.0.state();
            state.is_broken = true;
            self.0.tell(state);
        }
    }
}
