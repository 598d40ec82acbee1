//! What two cores can do at best: for single items the textbook ring (two positions on lines of their own, an array, and
//! spinning that gives the core away after a while), for batches wide copies and seldom looks. No end, no waking.

use rtrb::{Consumer, Producer};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};

/// Alone on its cache lines (two: the neighbour is fetched along).
#[derive(Default)]
#[repr(align(128))]
pub struct Padded<T>(pub T);

pub struct Limit {
    head: Padded<AtomicUsize>,
    tail: Padded<AtomicUsize>,
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

impl Limit {
    /// `capacity` is a power of two.
    pub fn new(capacity: usize) -> Self {
        Self {
            head: Padded::default(),
            tail: Padded::default(),

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

    pub fn pop(&self) -> u32 {
        let tail = self.tail.0.load(Relaxed);
        while self.head.0.load(Acquire) == tail {
            pause_long();
        }
        let item = self.slot(tail).load(Relaxed);
        self.tail.0.store(tail + 1, Release);
        item
    }
}

/// Batches at best: wide copies (rtrb's), and an end that has to wait waits for a quarter of the ring and looks seldom,
/// because every look takes from the other end the line that it writes.
pub fn push_all<T: Copy>(to: &mut Producer<T>, items: &[T]) {
    if to.push_entire_slice(items).is_err() {
        while to.slots() < to.buffer().capacity() / 4 {
            pause_long();
        }
        to.push_entire_slice(items).expect("a quarter of the ring holds a batch");
    }
}

/// Takes a quarter of the ring, or all of `left`.
pub fn pop_each<T: Copy>(from: &mut Consumer<T>, left: usize, mut take: impl FnMut(T)) -> usize {
    let n = left.min(from.buffer().capacity() / 4);
    while from.slots() < n {
        pause_long();
    }
    let chunk = from.read_chunk(n).expect("as many as it said");
    let (a, b) = chunk.as_slices();
    a.iter().chain(b).for_each(|&item| take(item));
    chunk.commit_all();
    n
}

/// A spinning end would slow the other where both are threads of one physical core.
fn pause_long() {
    std::thread::sleep(std::time::Duration::from_micros(1));
}
