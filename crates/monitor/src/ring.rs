//! Bounded channel between two threads: a single-producer single-consumer ring with blocking.
//!
//! Items arrive once and in order. A full ring blocks the sender, or is an error in [`Sender::try_send`], so memory is
//! bounded by the capacity given to [`ring`]. A waiting thread spins for about two microseconds, yields a few times,
//! and then parks: an idle channel costs nothing. Either end may be dropped at any time; the other is woken and sees
//! it. There is no selection over several rings.

use rtrb::chunks::ChunkError;
use rtrb::{Consumer, Producer, PushError, RingBuffer};
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};

/// A channel for `capacity` items (at least one).
pub fn ring<T: Send>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let (producer, consumer) = RingBuffer::new(capacity.max(1));
    let barrier = Barrier::new();
    let (sender, receiver) = (Arc::new(Sleeper::new(barrier)), Arc::new(Sleeper::new(barrier)));
    let to_receiver = Wake(Arc::clone(&receiver));
    let to_sender = Wake(Arc::clone(&sender));
    (
        Sender { producer, own: sender, receiver: to_receiver },
        Receiver { consumer, own: receiver, sender: to_sender },
    )
}

/// The end that gives.
#[derive(Debug)]
pub struct Sender<T> {
    // Dropped in this order: the producer says that it is gone, then the receiver is woken to see it.
    producer: Producer<T>,
    own: Arc<Sleeper>,
    receiver: Wake,
}

/// Why an item was not taken; it comes back.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused<T> {
    /// No room now.
    Full(T),
    /// The receiver is gone.
    Closed(T),
}

/// The other end is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed;

impl<T: Send> Sender<T> {
    /// Waits for room and sends; the item comes back when the receiver is gone.
    #[inline]
    pub fn send(&mut self, item: T) -> Result<(), T> {
        let mut item = item;
        loop {
            match self.try_send(item) {
                Ok(()) => return Ok(()),
                Err(Refused::Closed(back)) => return Err(back),
                Err(Refused::Full(back)) => item = back,
            }
            self.wait();
        }
    }

    /// Sends if there is room.
    #[inline]
    pub fn try_send(&mut self, item: T) -> Result<(), Refused<T>> {
        if self.producer.is_abandoned() {
            return Err(Refused::Closed(item));
        }
        match self.producer.push(item) {
            Ok(()) => {
                self.receiver.wake();
                Ok(())
            }
            Err(PushError::Full(item)) => Err(Refused::Full(item)),
        }
    }

    /// Sends all of `items` in their order, waiting for room as often as it takes; leaves `items` empty. When the
    /// receiver goes, what it can no longer be given stays in `items`.
    pub fn send_all(&mut self, items: &mut Vec<T>) -> Result<(), Closed> {
        while !items.is_empty() {
            if self.producer.is_abandoned() {
                return Err(Closed);
            }
            if self.send_some(items) == 0 {
                self.wait();
            }
        }
        Ok(())
    }

    /// The share of the capacity in use, 0.0 to 1.0.
    pub fn fill(&self) -> f32 {
        self.len() as f32 / self.capacity() as f32
    }

    /// Items sent and not yet taken.
    pub fn len(&self) -> usize {
        self.capacity() - self.producer.slots()
    }

    /// Whether everything sent was taken.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Items that fit.
    pub fn capacity(&self) -> usize {
        self.producer.buffer().capacity()
    }

    /// Moves as many items as there is room for.
    fn send_some(&mut self, items: &mut Vec<T>) -> usize {
        let chunk = match self.producer.write_chunk_uninit(items.len()) {
            Err(ChunkError::TooFewSlots(free)) => self.producer.write_chunk_uninit(free),
            whole => whole,
        };
        // What is free stays free until this thread fills it.
        let Ok(chunk) = chunk else { return 0 };
        let n = chunk.len();
        chunk.fill_from_iter(items.drain(..n));
        if n > 0 {
            self.receiver.wake();
        }
        n
    }

    fn wait(&self) {
        self.own.wait(|| !self.producer.is_full() || self.producer.is_abandoned());
    }
}

/// The end that takes.
#[derive(Debug)]
pub struct Receiver<T> {
    // Dropped in this order: the consumer says that it is gone, then the sender is woken to see it.
    consumer: Consumer<T>,
    own: Arc<Sleeper>,
    sender: Wake,
}

impl<T: Send> Receiver<T> {
    /// Waits for an item; none when the sender is gone and all it sent was taken.
    #[inline]
    pub fn recv(&mut self) -> Option<T> {
        loop {
            if let Some(item) = self.try_recv() {
                return Some(item);
            }
            if self.consumer.is_abandoned() {
                // Something may have come between the look and the end.
                return self.try_recv();
            }
            self.wait();
        }
    }

    /// An item if one is there.
    #[inline]
    pub fn try_recv(&mut self) -> Option<T> {
        let item = self.consumer.pop().ok()?;
        self.sender.wake();
        Some(item)
    }

    /// Waits for at least one item and appends all there are, but at most `max`, to `into`; returns how many: 0 only
    /// when the sender is gone and all it sent was taken, or for a `max` of 0.
    pub fn recv_many(&mut self, into: &mut Vec<T>, max: usize) -> usize {
        self.recv_each(max, |item| into.push(item))
    }

    /// [`Receiver::recv_many`] without a place in between: `take` is called for each item.
    pub fn recv_each(&mut self, max: usize, take: impl FnMut(T)) -> usize {
        while max > 0 && self.consumer.is_empty() && !self.consumer.is_abandoned() {
            self.wait();
        }
        self.take_some(max, take)
    }

    /// Whether the sender is gone and all it sent was taken: nothing will come any more.
    pub fn is_closed(&self) -> bool {
        self.consumer.is_abandoned() && self.consumer.is_empty()
    }

    /// Items waiting to be taken.
    pub fn len(&self) -> usize {
        self.consumer.slots()
    }

    /// Whether nothing waits to be taken.
    pub fn is_empty(&self) -> bool {
        self.consumer.is_empty()
    }

    /// Takes what is there, at most `max`.
    fn take_some(&mut self, max: usize, take: impl FnMut(T)) -> usize {
        let n = self.consumer.slots().min(max);
        // What is there stays there until this thread takes it.
        let Ok(chunk) = self.consumer.read_chunk(n) else { return 0 };
        chunk.into_iter().for_each(take);
        self.sender.wake();
        n
    }

    fn wait(&self) {
        self.own.wait(|| !self.consumer.is_empty() || self.consumer.is_abandoned());
    }
}

/// A thread at one end that may be asleep.
///
/// No wake-up is lost: the sleeper says `asleep`, then looks at the ring once more, then parks; the other end changes the
/// ring, then looks at `asleep`. A [`Barrier`] stands between the two steps on both sides, so at least one of them sees
/// the other. An `unpark` that comes before the `park` makes it return at once, and a `park` that returns for no reason
/// looks again.
#[derive(Debug)]
struct Sleeper {
    asleep: AtomicBool,
    thread: Mutex<Option<Thread>>,
    barrier: Barrier,
}

/// Looks before giving the time slice away: about two microseconds.
const SPINS: usize = 64;
/// Time slices given away before parking.
const YIELDS: usize = 16;

impl Sleeper {
    fn new(barrier: Barrier) -> Self {
        Self { asleep: AtomicBool::new(false), thread: Mutex::default(), barrier }
    }

    /// Returns when `ready` (or, seldom, before).
    fn wait(&self, ready: impl Fn() -> bool) {
        for n in 0..SPINS + YIELDS {
            if ready() {
                return;
            }
            if n < SPINS { std::hint::spin_loop() } else { thread::yield_now() }
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
            && let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).as_ref()
        {
            thread.unpark();
        }
    }
}

/// How one end wakes the other: after every change of the ring, and when it goes.
#[derive(Debug)]
struct Wake(Arc<Sleeper>);

impl Wake {
    #[inline]
    fn wake(&self) {
        self.0.barrier.changing();
        if self.0.asleep.load(Ordering::Relaxed) {
            self.0.unpark();
        }
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        self.wake();
    }
}

/// Keeps "I changed the ring" before "do you sleep?" on one side and "I sleep" before "did the ring change?" on the
/// other. A fence on both sides would do, but the first side passes here with every item, where a fence costs more than
/// all the rest (37 instead of 290 million items a second between two cores). Linux offers a lopsided one: the side about
/// to sleep, whose next step is a system call anyway, has the kernel run a fence on every core where this process runs
/// (`membarrier(2)`), and the frequent side only keeps the compiler from swapping its two steps.
#[derive(Debug, Clone, Copy)]
struct Barrier {
    lopsided: bool,
}

impl Barrier {
    #[cfg(target_os = "linux")]
    fn new() -> Self {
        use rustix::thread::{MembarrierCommand, membarrier};
        Self { lopsided: membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok() }
    }

    #[cfg(not(target_os = "linux"))]
    fn new() -> Self {
        Self { lopsided: false }
    }

    /// The frequent side.
    #[inline]
    fn changing(self) {
        if self.lopsided {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    /// The side about to sleep; it must not when this is false.
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

    /// Numbers from a seed.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, n: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % n
        }

        /// Now and then long enough for the other end to go to sleep.
        fn pause(&mut self) {
            let yields = [0, 0, 0, 0, 0, 0, 1, 200][self.below(8) as usize];
            (0..yields).for_each(|_| thread::yield_now());
        }
    }

    fn until_asleep(sleeper: &Sleeper) {
        while !sleeper.asleep.load(Ordering::SeqCst) {
            thread::yield_now();
        }
    }

    /// All of 0..n in order through a ring of `capacity`, both ends pausing at random, one by one or in batches.
    fn check_delivery(capacity: usize, n: u64, batch: usize, seed: u64) {
        let (mut sender, mut receiver) = ring(capacity);
        let sending = thread::spawn(move || {
            let mut dice = Dice(seed);
            let mut items = Vec::new();
            for i in 0..n {
                items.push(Box::new(i));
                if items.len() as u64 > dice.below(batch as u64) {
                    dice.pause();
                    match items.len() {
                        1 => sender.send(items.pop().expect("one item")).expect("a receiver"),
                        _ => sender.send_all(&mut items).expect("a receiver"),
                    }
                }
            }
            sender.send_all(&mut items).expect("a receiver");
        });
        let mut dice = Dice(seed ^ 0x5eed);
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
        assert!(got.iter().map(|b| **b).eq(0..n), "capacity {capacity}, batch {batch}, seed {seed}");
        assert!(receiver.is_closed() && receiver.recv().is_none() && receiver.try_recv().is_none());
    }

    #[test]
    fn everything_arrives_once_and_in_order() {
        for (capacity, batch) in [(1, 1), (1, 5), (2, 1), (3, 7), (64, 1), (64, 64), (1000, 100)] {
            for seed in 1..=2 {
                check_delivery(capacity, 1_000, batch, seed * 7919);
            }
        }
    }

    #[test]
    fn a_full_ring_refuses() {
        let (mut sender, mut receiver) = ring(2);
        assert_eq!((sender.try_send(1), sender.try_send(2)), (Ok(()), Ok(())));
        assert_eq!(sender.try_send(3), Err(Refused::Full(3)));
        assert_eq!((sender.len(), sender.fill(), receiver.len()), (2, 1.0, 2));
        assert_eq!(receiver.try_recv(), Some(1));
        assert_eq!((sender.len(), sender.fill(), sender.is_empty()), (1, 0.5, false));
        assert_eq!(sender.try_send(3), Ok(()));
        assert_eq!((receiver.try_recv(), receiver.try_recv(), receiver.try_recv()), (Some(2), Some(3), None));
        assert!(!receiver.is_closed());
    }

    #[test]
    fn a_ring_of_none_is_one_of_one() {
        let (mut sender, mut receiver) = ring(0);
        assert_eq!(sender.capacity(), 1);
        assert_eq!((sender.try_send(1), sender.try_send(2)), (Ok(()), Err(Refused::Full(2))));
        assert_eq!(receiver.recv(), Some(1));
    }

    #[test]
    fn the_batch_that_was_asked_for_and_no_more() {
        let (mut sender, mut receiver) = ring(8);
        sender.send_all(&mut (0..6).collect()).expect("a receiver");
        let mut got = Vec::new();
        assert_eq!((receiver.recv_many(&mut got, 0), receiver.recv_many(&mut got, 4)), (0, 4));
        sender.send_all(&mut (6..12).collect()).expect("room past the end of the buffer");
        assert_eq!(receiver.recv_many(&mut got, usize::MAX), 8);
        assert!(got.into_iter().eq(0..12));
    }

    #[test]
    fn a_receiver_gone_gives_items_back() {
        let (mut sender, receiver) = ring(4);
        sender.send(1).expect("a receiver");
        drop(receiver);
        assert_eq!((sender.send(2), sender.try_send(3)), (Err(2), Err(Refused::Closed(3))));
        let mut items = vec![4, 5];
        assert_eq!((sender.send_all(&mut items), items), (Err(Closed), vec![4, 5]));
    }

    #[test]
    fn what_was_sent_before_the_end_is_taken() {
        let (mut sender, mut receiver) = ring(4);
        sender.send_all(&mut vec![1, 2]).expect("a receiver");
        drop(sender);
        assert!(!receiver.is_closed());
        assert_eq!((receiver.recv(), receiver.recv(), receiver.recv()), (Some(1), Some(2), None));
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
        assert_eq!(receiving.join().expect("the receiver ends"), (Some(1), None));
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
        assert_eq!(sending.join().expect("the sender ends"), (Ok(()), Ok(()), Err(3)));
    }

    #[test]
    fn what_is_never_taken_is_dropped_once() {
        let counted = Arc::new(());
        let (mut sender, receiver) = ring(4);
        sender.send_all(&mut vec![Arc::clone(&counted), Arc::clone(&counted)]).expect("a receiver");
        drop((receiver, sender));
        assert_eq!(Arc::strong_count(&counted), 1);
    }
}
