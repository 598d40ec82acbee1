//! Bounded channel between two threads: a single-producer single-consumer ring with blocking.
//!
//! Items arrive once and in order. A full ring blocks the sender, or is an error in [`RingSender::try_send`], so memory is
//! bounded by the capacity given to [`ring`]. A waiting thread spins for about two microseconds, yields a few times,
//! and then parks: an idle channel costs nothing. Either end may be dropped at any time; the other is woken and sees
//! it. There is no selection over several rings.

use rtrb::chunks::ChunkError;
use rtrb::{Consumer, Producer, PushError, RingBuffer};
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};

/// Creates a channel for `capacity` items (at least one).
pub fn ring<T: Send>(capacity: usize) -> (RingSender<T>, RingReceiver<T>) {
    let (producer, consumer) = RingBuffer::new(capacity.max(1));
    let barrier = RingBarrier::new();
    let sender = Arc::new(RingSleeper::new(barrier));
    let receiver = Arc::new(RingSleeper::new(barrier));
    let to_receiver = RingWaker(Arc::clone(&receiver));
    let to_sender = RingWaker(Arc::clone(&sender));
    (
        RingSender {
            producer,
            own: sender,
            receiver: to_receiver,
        },
        RingReceiver {
            consumer,
            own: receiver,
            sender: to_sender,
        },
    )
}

/// Sending end.
#[derive(Debug)]
pub struct RingSender<T> {
    // Drop order: the producer marks the ring abandoned, then the receiver is woken.
    producer: Producer<T>,
    own: Arc<RingSleeper>,
    receiver: RingWaker,
}

/// Reason for a rejected item, which is returned.
#[derive(Debug, PartialEq, Eq)]
pub enum RingSendError<T> {
    /// The ring is full.
    Full(T),
    /// The receiver was dropped.
    Closed(T),
}

/// The other end was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingClosed;

impl<T: Send> RingSender<T> {
    /// Waits for room and sends; returns the item if the receiver was dropped.
    #[inline]
    pub fn send(&mut self, item: T) -> Result<(), T> {
        let mut item = item;
        loop {
            match self.try_send(item) {
                Ok(()) => return Ok(()),
                Err(RingSendError::Closed(back)) => return Err(back),
                Err(RingSendError::Full(back)) => item = back,
            }
            self.wait();
        }
    }

    /// Sends if there is room.
    #[inline]
    pub fn try_send(&mut self, item: T) -> Result<(), RingSendError<T>> {
        if self.producer.is_abandoned() {
            return Err(RingSendError::Closed(item));
        }
        match self.producer.push(item) {
            Ok(()) => {
                self.receiver.wake();
                Ok(())
            }
            Err(PushError::Full(item)) => Err(RingSendError::Full(item)),
        }
    }

    /// Sends all of `items` in order, waiting for room as needed; leaves `items` empty. If the receiver is
    /// dropped, the unsent items stay in `items`.
    pub fn send_all(&mut self, items: &mut Vec<T>) -> Result<(), RingClosed> {
        while !items.is_empty() {
            if self.producer.is_abandoned() {
                return Err(RingClosed);
            }
            if self.send_some(items) == 0 {
                self.wait();
            }
        }
        Ok(())
    }

    /// Share of the capacity in use, 0.0 to 1.0.
    pub fn fill(&self) -> f32 {
        self.len() as f32 / self.capacity() as f32
    }

    /// Items sent and not yet received.
    pub fn len(&self) -> usize {
        self.capacity() - self.producer.slots()
    }

    /// Whether every sent item was received.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Capacity in items.
    pub fn capacity(&self) -> usize {
        self.producer.buffer().capacity()
    }

    /// Sends as many items as fit.
    fn send_some(&mut self, items: &mut Vec<T>) -> usize {
        let chunk = match self.producer.write_chunk_uninit(items.len()) {
            Err(ChunkError::TooFewSlots(free)) => self.producer.write_chunk_uninit(free),
            whole => whole,
        };
        // Free slots stay free: only this thread fills them.
        let Ok(chunk) = chunk else { return 0 };
        let n = chunk.len();
        chunk.fill_from_iter(items.drain(..n));
        if n > 0 {
            self.receiver.wake();
        }
        n
    }

    fn wait(&self) {
        self.own
            .wait(|| !self.producer.is_full() || self.producer.is_abandoned());
    }
}

/// Receiving end.
#[derive(Debug)]
pub struct RingReceiver<T> {
    // Drop order: the consumer marks the ring abandoned, then the sender is woken.
    consumer: Consumer<T>,
    own: Arc<RingSleeper>,
    sender: RingWaker,
}

impl<T: Send> RingReceiver<T> {
    /// Waits for an item; returns `None` if the sender was dropped and the ring is empty.
    #[inline]
    pub fn recv(&mut self) -> Option<T> {
        loop {
            if let Some(item) = self.try_recv() {
                return Some(item);
            }
            if self.consumer.is_abandoned() {
                // An item may have arrived between the two checks.
                return self.try_recv();
            }
            self.wait();
        }
    }

    /// Returns an item if available.
    #[inline]
    pub fn try_recv(&mut self) -> Option<T> {
        let item = self.consumer.pop().ok()?;
        self.sender.wake();
        Some(item)
    }

    /// Waits for at least one item and appends up to `max` available items to `into`; returns their number.
    /// Returns 0 only if the sender was dropped and the ring is empty, or `max` is 0.
    pub fn recv_many(&mut self, into: &mut Vec<T>, max: usize) -> usize {
        self.recv_each(max, |item| into.push(item))
    }

    /// Like [`RingReceiver::recv_many`], but calls `take` for each item.
    pub fn recv_each(&mut self, max: usize, take: impl FnMut(T)) -> usize {
        while max > 0 && self.consumer.is_empty() && !self.consumer.is_abandoned() {
            self.wait();
        }
        self.take_some(max, take)
    }

    /// Whether the sender was dropped and the ring is empty.
    pub fn is_closed(&self) -> bool {
        self.consumer.is_abandoned() && self.consumer.is_empty()
    }

    /// Items waiting to be received.
    pub fn len(&self) -> usize {
        self.consumer.slots()
    }

    /// Whether no item is waiting.
    pub fn is_empty(&self) -> bool {
        self.consumer.is_empty()
    }

    /// Receives up to `max` available items.
    fn take_some(&mut self, max: usize, take: impl FnMut(T)) -> usize {
        let n = self.consumer.slots().min(max);
        // Available items stay available: only this thread takes them.
        let Ok(chunk) = self.consumer.read_chunk(n) else {
            return 0;
        };
        chunk.into_iter().for_each(take);
        self.sender.wake();
        n
    }

    fn wait(&self) {
        self.own
            .wait(|| !self.consumer.is_empty() || self.consumer.is_abandoned());
    }
}

/// A thread at one end that may be asleep.
///
/// No wake-up is lost: the sleeper sets `asleep`, checks the ring once more, then parks; the other end
/// changes the ring, then checks `asleep`. A [`RingBarrier`] separates the two steps on both sides, so at least
/// one of them sees the other's change. An `unpark` before the `park` makes it return at once, and the
/// sleeper checks again after a spurious wake-up.
#[derive(Debug)]
struct RingSleeper {
    asleep: AtomicBool,
    thread: Mutex<Option<Thread>>,
    barrier: RingBarrier,
}

/// Checks before yielding: about two microseconds.
const SPINS: usize = 64;
/// Yields before parking.
const YIELDS: usize = 16;

impl RingSleeper {
    fn new(barrier: RingBarrier) -> Self {
        Self {
            asleep: AtomicBool::new(false),
            thread: Mutex::default(),
            barrier,
        }
    }

    /// Blocks until `ready`; may return early in rare cases.
    fn wait(&self, ready: impl Fn() -> bool) {
        for n in 0..SPINS + YIELDS {
            if ready() {
                return;
            }
            if n < SPINS {
                std::hint::spin_loop()
            } else {
                thread::yield_now()
            }
        }
        self.park(ready);
    }

    #[cold]
    fn park(&self, ready: impl Fn() -> bool) {
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread::current());
        self.asleep.store(true, Ordering::Release);
        if self.barrier.sleeping() {
            while !ready() && self.asleep.load(Ordering::Relaxed) {
                thread::park();
            }
        }
        self.asleep.store(false, Ordering::Relaxed);
    }

    #[cold]
    fn unpark(&self) {
        if self.asleep.swap(false, Ordering::Acquire)
            && let Some(thread) = self
                .thread
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .as_ref()
        {
            thread.unpark();
        }
    }
}

/// Wakes the other end: after every change of the ring, and on drop.
#[derive(Debug)]
struct RingWaker(Arc<RingSleeper>);

impl RingWaker {
    #[inline]
    fn wake(&self) {
        self.0.barrier.changing();
        if self.0.asleep.load(Ordering::Relaxed) {
            self.0.unpark();
        }
    }
}

impl Drop for RingWaker {
    fn drop(&mut self) {
        self.wake();
    }
}

/// Orders "change the ring" before "check `asleep`" on one side and "set `asleep`" before "check the ring" on
/// the other. A fence on both sides would suffice, but the first side runs once per item, where a fence costs
/// more than everything else (37 instead of 290 million items per second between two cores). Linux offers an
/// asymmetric barrier: the side about to sleep, whose next step is a system call anyway, has the kernel
/// execute a fence on every core that runs this process (`membarrier(2)`), and the frequent side needs only a
/// compiler fence.
#[derive(Debug, Clone, Copy)]
struct RingBarrier {
    lopsided: bool,
}

impl RingBarrier {
    #[cfg(target_os = "linux")]
    fn new() -> Self {
        use rustix::thread::{MembarrierCommand, membarrier};
        Self {
            lopsided: membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok(),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn new() -> Self {
        Self { lopsided: false }
    }

    /// Barrier of the frequent side.
    #[inline]
    fn changing(self) {
        if self.lopsided {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    /// Barrier of the side about to sleep. Returns false if it failed: the caller must not sleep.
    fn sleeping(self) -> bool {
        fence(Ordering::SeqCst);
        #[cfg(target_os = "linux")]
        if self.lopsided {
            use rustix::thread::{MembarrierCommand, membarrier};
            return membarrier(MembarrierCommand::PrivateExpedited).is_ok();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seeded pseudo-random numbers.
    struct SeededGenerator(u64);

    impl SeededGenerator {
        fn below(&mut self, n: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % n
        }

        /// Random pause, occasionally long enough for the other end to sleep.
        fn pause(&mut self) {
            let yields = [0, 0, 0, 0, 0, 0, 1, 200][self.below(8) as usize];
            (0..yields).for_each(|_| thread::yield_now());
        }
    }

    fn until_asleep(sleeper: &RingSleeper) {
        while !sleeper.asleep.load(Ordering::SeqCst) {
            thread::yield_now();
        }
    }

    /// Sends 0..n through a ring of `capacity`, both ends pausing at random, singly or in batches; checks the
    /// order.
    fn check_delivery(capacity: usize, n: u64, batch: usize, seed: u64) {
        let (mut sender, mut receiver) = ring(capacity);
        let sending = thread::spawn(move || {
            let mut dice = SeededGenerator(seed);
            let mut items = Vec::new();
            for i in 0..n {
                items.push(Box::new(i));
                if items.len() as u64 > dice.below(batch as u64) {
                    dice.pause();
                    match items.len() {
                        1 => sender
                            .send(items.pop().expect("one item"))
                            .expect("a receiver"),
                        _ => sender.send_all(&mut items).expect("a receiver"),
                    }
                }
            }
            sender.send_all(&mut items).expect("a receiver");
        });
        let mut dice = SeededGenerator(seed ^ 0x5eed);
        let mut got: Vec<Box<u64>> = Vec::new();
        loop {
            dice.pause();
            let max = dice.below(batch as u64 + 1) as usize;
            if max == 0 {
                let Some(item) = receiver.recv() else { break };
                got.push(item);
            } else if receiver.recv_many(&mut got, max) == 0 {
                break;
            }
        }
        sending.join().expect("the sender ends");
        assert!(
            got.iter().map(|b| **b).eq(0..n),
            "capacity {capacity}, batch {batch}, seed {seed}"
        );
        assert!(receiver.is_closed() && receiver.recv().is_none() && receiver.try_recv().is_none());
    }

    #[test]
    fn everything_arrives_once_and_in_order() {
        for (capacity, batch) in [
            (1, 1),
            (1, 5),
            (2, 1),
            (3, 7),
            (64, 1),
            (64, 64),
            (1000, 100),
        ] {
            for seed in 1..=2 {
                check_delivery(capacity, 1_000, batch, seed * 7919);
            }
        }
    }

    #[test]
    fn a_full_ring_refuses() {
        let (mut sender, mut receiver) = ring(2);
        assert_eq!((sender.try_send(1), sender.try_send(2)), (Ok(()), Ok(())));
        assert_eq!(sender.try_send(3), Err(RingSendError::Full(3)));
        assert_eq!((sender.len(), sender.fill(), receiver.len()), (2, 1.0, 2));
        assert_eq!(receiver.try_recv(), Some(1));
        assert_eq!(
            (sender.len(), sender.fill(), sender.is_empty()),
            (1, 0.5, false)
        );
        assert_eq!(sender.try_send(3), Ok(()));
        assert_eq!(
            (
                receiver.try_recv(),
                receiver.try_recv(),
                receiver.try_recv()
            ),
            (Some(2), Some(3), None)
        );
        assert!(!receiver.is_closed());
    }

    #[test]
    fn a_ring_of_none_is_one_of_one() {
        let (mut sender, mut receiver) = ring(0);
        assert_eq!(sender.capacity(), 1);
        assert_eq!(
            (sender.try_send(1), sender.try_send(2)),
            (Ok(()), Err(RingSendError::Full(2)))
        );
        assert_eq!(receiver.recv(), Some(1));
    }

    #[test]
    fn batches_have_the_requested_size() {
        let (mut sender, mut receiver) = ring(8);
        sender.send_all(&mut (0..6).collect()).expect("a receiver");
        let mut got = Vec::new();
        assert_eq!(
            (
                receiver.recv_many(&mut got, 0),
                receiver.recv_many(&mut got, 4)
            ),
            (0, 4)
        );
        sender
            .send_all(&mut (6..12).collect())
            .expect("room past the end of the buffer");
        assert_eq!(receiver.recv_many(&mut got, usize::MAX), 8);
        assert!(got.into_iter().eq(0..12));
    }

    #[test]
    fn items_are_returned_when_the_receiver_is_gone() {
        let (mut sender, receiver) = ring(4);
        sender.send(1).expect("a receiver");
        drop(receiver);
        assert_eq!(
            (sender.send(2), sender.try_send(3)),
            (Err(2), Err(RingSendError::Closed(3)))
        );
        let mut items = vec![4, 5];
        assert_eq!(
            (sender.send_all(&mut items), items),
            (Err(RingClosed), vec![4, 5])
        );
    }

    #[test]
    fn values_sent_before_the_end_are_received() {
        let (mut sender, mut receiver) = ring(4);
        sender.send_all(&mut vec![1, 2]).expect("a receiver");
        drop(sender);
        assert!(!receiver.is_closed());
        assert_eq!(
            (receiver.recv(), receiver.recv(), receiver.recv()),
            (Some(1), Some(2), None)
        );
        assert_eq!(receiver.recv_many(&mut Vec::new(), 9), 0);
    }

    #[test]
    fn a_sleeping_receiver_is_woken_by_an_item_and_by_the_end() {
        let (mut sender, mut receiver) = ring(4);
        let asleep = Arc::clone(&receiver.own);
        let receiving = thread::spawn(move || (receiver.recv(), receiver.recv()));
        until_asleep(&asleep);
        sender.send(1).expect("a receiver");
        until_asleep(&asleep);
        drop(sender);
        assert_eq!(
            receiving.join().expect("the receiver ends"),
            (Some(1), None)
        );
    }

    #[test]
    fn a_sleeping_sender_is_woken_by_room_and_by_the_end() {
        let (mut sender, mut receiver) = ring(1);
        let asleep = Arc::clone(&sender.own);
        let sending = thread::spawn(move || (sender.send(1), sender.send(2), sender.send(3)));
        until_asleep(&asleep);
        assert_eq!(receiver.recv(), Some(1));
        while receiver.is_empty() {
            thread::yield_now();
        }
        until_asleep(&asleep);
        drop(receiver);
        assert_eq!(
            sending.join().expect("the sender ends"),
            (Ok(()), Ok(()), Err(3))
        );
    }

    #[test]
    fn unreceived_values_are_dropped_once() {
        let counted = Arc::new(());
        let (mut sender, receiver) = ring(4);
        sender
            .send_all(&mut vec![Arc::clone(&counted), Arc::clone(&counted)])
            .expect("a receiver");
        drop((receiver, sender));
        assert_eq!(Arc::strong_count(&counted), 1);
    }
}
