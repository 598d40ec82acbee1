//! The textbook ring of one sender and one receiver: two positions on lines of their own and an array. It only spins
//! (and gives the core away after a while), knows no end and no waking: the ceiling the queues are measured against.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};

/// Alone on its cache lines (two: the neighbour is fetched along).
#[derive(Default)]
#[repr(align(128))]
pub struct Padded<T>(pub T);

pub struct Limit {
    head: Padded<AtomicUsize>,
    tail: Padded<AtomicUsize>,
    /// The tail as the sender last saw it: batches ask less often.
    seen: Padded<AtomicUsize>,
    slots: Box<[AtomicU32]>,
}

pub fn pause() {
    use std::cell::Cell;
    thread_local!(static WAITED: Cell<u32> = const { Cell::new(0) });
    WAITED.with(|w| {
        w.set(w.get() + 1);
        if w.get() % 2000 == 0 { std::thread::yield_now() } else { std::hint::spin_loop() }
    });
}

/// Between two looks of an end that waits for a quarter of the ring: looking costs the other end the line it writes.
fn pause_long() {
    (0..50).for_each(|_| pause());
}

impl Limit {
    /// `capacity` is a power of two.
    pub fn new(capacity: usize) -> Self {
        Self {
            head: Padded::default(),
            tail: Padded::default(),
            seen: Padded::default(),
            slots: (0..capacity).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    fn slot(&self, at: usize) -> &AtomicU32 {
        &self.slots[at & (self.slots.len() - 1)]
    }

    pub fn push(&self, item: u32) {
        let head = self.head.0.load(Relaxed);
        while head - self.tail.0.load(Acquire) >= self.slots.len() {
            pause();
        }
        self.slot(head).store(item, Relaxed);
        self.head.0.store(head + 1, Release);
    }

    /// When full waits for a quarter of the ring: taking every line as it falls free is slower.
    pub fn push_all(&self, items: &[u32]) {
        let head = self.head.0.load(Relaxed);
        if head + items.len() - self.seen.0.load(Relaxed) > self.slots.len() {
            let mut tail = self.tail.0.load(Acquire);
            while head - tail > self.slots.len() / 4 * 3 {
                pause_long();
                tail = self.tail.0.load(Acquire);
            }
            self.seen.0.store(tail, Relaxed);
        }
        for (k, &item) in items.iter().enumerate() {
            self.slot(head + k).store(item, Relaxed);
        }
        self.head.0.store(head + items.len(), Release);
    }

    pub fn pop(&self) -> u32 {
        let tail = self.tail.0.load(Relaxed);
        while self.head.0.load(Acquire) == tail {
            pause_long();
        }
        let item = self.slot(tail).load(Relaxed);
        self.tail.0.store(tail + 1, Release);
        item
    }

    /// Takes a quarter of the ring, or all of `left`, once that is there.
    pub fn pop_each(&self, left: usize, mut take: impl FnMut(u32)) -> usize {
        let tail = self.tail.0.load(Relaxed);
        let mut head = self.head.0.load(Acquire);
        while head - tail < left.min(self.slots.len() / 4) {
            pause_long();
            head = self.head.0.load(Acquire);
        }
        head = head.min(tail + self.slots.len() / 4);
        for at in tail..head {
            take(self.slot(at).load(Relaxed));
        }
        self.tail.0.store(head, Release);
        head - tail
    }
}
