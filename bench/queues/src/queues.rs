//! Items per second from one thread to another, through our ring and its peers: the packet-level paper's figure 3.
//!
//! Three loads: single 4-byte integers, the same in batches of 64, and 64-byte messages by reference in batches of 32.
//! Every queue runs in every round; a JSON line per queue and load has the median and the best round. The sum of the
//! received items is checked.

mod pin;
#[allow(dead_code)]
mod ring;

use crossbeam_queue::ArrayQueue;
use pin::{pause, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Instant;

const CAPACITY: usize = 1 << 16;
const BATCH: usize = 64;
const REFERENCES: usize = 32;
const SECONDS: f64 = 0.25;

/// A 64-byte message; only its first word is used.
#[derive(Default)]
#[repr(align(64))]
struct Message([AtomicU64; 8]);

fn main() {
    let rounds: usize = std::env::args()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(5);
    let only = std::env::args().nth(2).unwrap_or_default();
    let pool: &'static [Message] = Vec::leak((0..1 << 18).map(|_| Message::default()).collect());
    for (load, runs) in [
        ("one", one_by_one()),
        ("batch", in_batches()),
        ("reference", by_reference(pool)),
    ] {
        let mut timed: Vec<(&str, Run, u64, Vec<f64>)> = runs
            .into_iter()
            .filter(|(name, _)| only.split(",").any(|o| name.contains(o)))
            .map(|(name, run)| {
                let n = calibrate(&run);
                (name, run, n, Vec::new())
            })
            .collect();
        for _ in 0..rounds {
            for (_, run, n, rates) in &mut timed {
                rates.push(rate(run, *n));
            }
        }
        for (name, _, n, mut rates) in timed {
            rates.sort_by(f64::total_cmp);
            let median = rates[rates.len() / 2];
            let best = rates[rates.len() - 1];
            println!(
                r#"{{"queue":"{name}","load":"{load}","items":{n},"median":{median:.0},"best":{best:.0}}}"#
            );
        }
    }
}

/// Sends 1..=n from another thread and returns the received sum.
type Run = Box<dyn Fn(u64) -> u64>;

fn calibrate(run: &Run) -> u64 {
    let mut n = 1 << 16;
    let mut found = rate(run, n);
    while (n as f64) < found * SECONDS / 4.0 {
        n *= 4;
        found = rate(run, n);
    }
    ((found * SECONDS) as u64).clamp(n, 1 << 29) / (BATCH as u64) * BATCH as u64
}

fn rate(run: &Run, n: u64) -> f64 {
    let begin = Instant::now();
    let sum = run(n);
    let rate = n as f64 / begin.elapsed().as_secs_f64();
    assert_eq!(sum, n * (n + 1) / 2, "what arrived");
    rate
}

/// The two ends on two cores: `send` runs in the other thread, `receive` here.
fn both<S: FnOnce() + Send + 'static>(send: S, receive: impl FnOnce() -> u64) -> u64 {
    let sending = thread::spawn(move || {
        pin(0);
        send();
    });
    pin(1);
    let sum = receive();
    sending.join().expect("the sender ends");
    sum
}

fn named(name: &'static str, run: impl Fn(u64) -> u64 + 'static) -> (&'static str, Run) {
    (name, Box::new(run))
}

fn one_by_one() -> Vec<(&'static str, Run)> {
    vec![
        named("ours", |n| {
            let (mut to, mut from) = ring::ring::<u32>(CAPACITY);
            both(
                move || (1..=n).for_each(|i| to.send(i as u32).expect("a receiver")),
                move || {
                    let mut sum = 0;
                    while let Some(i) = from.recv() {
                        sum += u64::from(i);
                    }
                    sum
                },
            )
        }),
        named("rtrb, spinning", |n| {
            let (mut to, mut from) = rtrb::RingBuffer::<u32>::new(CAPACITY);
            both(
                move || {
                    (1..=n).for_each(|i| {
                        while to.push(i as u32).is_err() {
                            pause()
                        }
                    })
                },
                move || {
                    (0..n)
                        .map(|_| {
                            loop {
                                if let Ok(i) = from.pop() {
                                    break u64::from(i);
                                }
                                pause();
                            }
                        })
                        .sum()
                },
            )
        }),
        named("std mpsc", |n| {
            let (to, from) = std::sync::mpsc::sync_channel::<u32>(CAPACITY);
            both(
                move || (1..=n).for_each(|i| to.send(i as u32).expect("a receiver")),
                move || from.iter().map(u64::from).sum(),
            )
        }),
        named("crossbeam-channel", |n| {
            let (to, from) = crossbeam_channel::bounded::<u32>(CAPACITY);
            both(
                move || (1..=n).for_each(|i| to.send(i as u32).expect("a receiver")),
                move || from.iter().map(u64::from).sum(),
            )
        }),
        named("crossbeam ArrayQueue", |n| {
            let queue = Arc::new(ArrayQueue::<u32>::new(CAPACITY));
            let other = Arc::clone(&queue);
            both(
                move || {
                    (1..=n).for_each(|i| {
                        while other.push(i as u32).is_err() {
                            pause()
                        }
                    })
                },
                move || {
                    (0..n)
                        .map(|_| {
                            loop {
                                if let Some(i) = queue.pop() {
                                    break u64::from(i);
                                }
                                pause();
                            }
                        })
                        .sum()
                },
            )
        }),
        named("kanal", |n| {
            let (to, from) = kanal::bounded::<u32>(CAPACITY);
            both(
                move || (1..=n).for_each(|i| to.send(i as u32).expect("a receiver")),
                move || {
                    (0..n)
                        .map(|_| u64::from(from.recv().expect("a sender")))
                        .sum()
                },
            )
        }),
        named("flume", |n| {
            let (to, from) = flume::bounded::<u32>(CAPACITY);
            both(
                move || (1..=n).for_each(|i| to.send(i as u32).expect("a receiver")),
                move || from.iter().map(u64::from).sum(),
            )
        }),
    ]
}

/// 64 integers; a channel without batches takes an array of them as one item.
fn in_batches() -> Vec<(&'static str, Run)> {
    fn batches(n: u64) -> impl Iterator<Item = [u32; BATCH]> {
        (0..n / BATCH as u64)
            .map(|b| std::array::from_fn(|k| b as u32 * BATCH as u32 + k as u32 + 1))
    }
    fn sum(batch: [u32; BATCH]) -> u64 {
        batch.into_iter().map(u64::from).sum()
    }
    vec![
        named("ours", |n| {
            let (mut to, mut from) = ring::ring::<u32>(CAPACITY);
            both(
                move || {
                    let mut items = Vec::with_capacity(BATCH);
                    for batch in batches(n) {
                        items.extend_from_slice(&batch);
                        to.send_all(&mut items).expect("a receiver");
                    }
                },
                move || {
                    let mut sum = 0;
                    while from.recv_each(usize::MAX, |i| sum += u64::from(i)) > 0 {}
                    sum
                },
            )
        }),
        named("rtrb, spinning", |n| {
            let (mut to, mut from) = rtrb::RingBuffer::<u32>::new(CAPACITY);
            both(
                move || {
                    batches(n).for_each(|b| {
                        while to.push_entire_slice(&b).is_err() {
                            pause()
                        }
                    })
                },
                move || {
                    let mut got = 0;
                    let mut sum = 0;
                    while got < n {
                        let slots = from.slots();
                        let chunk = from.read_chunk(slots).expect("the stated number");
                        let (a, b) = chunk.as_slices();
                        sum += a.iter().chain(b).map(|&i| u64::from(i)).sum::<u64>();
                        chunk.commit_all();
                        got += slots as u64;
                        if slots == 0 {
                            pause()
                        }
                    }
                    sum
                },
            )
        }),
        named("std mpsc", |n| {
            let (to, from) = std::sync::mpsc::sync_channel(CAPACITY / BATCH);
            both(
                move || batches(n).for_each(|b| to.send(b).expect("a receiver")),
                move || from.iter().map(sum).sum(),
            )
        }),
        named("crossbeam-channel", |n| {
            let (to, from) = crossbeam_channel::bounded(CAPACITY / BATCH);
            both(
                move || batches(n).for_each(|b| to.send(b).expect("a receiver")),
                move || from.iter().map(sum).sum(),
            )
        }),
        named("crossbeam ArrayQueue", |n| {
            let queue = Arc::new(ArrayQueue::<[u32; BATCH]>::new(CAPACITY / BATCH));
            let other = Arc::clone(&queue);
            both(
                move || {
                    batches(n).for_each(|b| {
                        while other.push(b).is_err() {
                            pause()
                        }
                    })
                },
                move || {
                    (0..n / BATCH as u64)
                        .map(|_| {
                            loop {
                                if let Some(b) = queue.pop() {
                                    break sum(b);
                                }
                                pause();
                            }
                        })
                        .sum()
                },
            )
        }),
        named("kanal", |n| {
            let (to, from) = kanal::bounded(CAPACITY / BATCH);
            both(
                move || batches(n).for_each(|b| to.send(b).expect("a receiver")),
                move || {
                    (0..n / BATCH as u64)
                        .map(|_| sum(from.recv().expect("a sender")))
                        .sum()
                },
            )
        }),
        named("flume", |n| {
            let (to, from) = flume::bounded(CAPACITY / BATCH);
            both(
                move || batches(n).for_each(|b| to.send(b).expect("a receiver")),
                move || from.iter().map(sum).sum(),
            )
        }),
    ]
}

/// The sender writes a message's first word, the receiver reads it through the reference.
fn by_reference(pool: &'static [Message]) -> Vec<(&'static str, Run)> {
    let write = move |i: u64| {
        let message = &pool[i as usize % pool.len()];
        message.0[0].store(i, Relaxed);
        message
    };
    fn read(message: &Message) -> u64 {
        message.0[0].load(Relaxed)
    }
    vec![
        named("ours", move |n| {
            let (mut to, mut from) = ring::ring::<&'static Message>(CAPACITY);
            both(
                move || {
                    let mut batch = Vec::with_capacity(REFERENCES);
                    for first in (1..=n).step_by(REFERENCES) {
                        batch.extend((first..).take(REFERENCES).map(write));
                        to.send_all(&mut batch).expect("a receiver");
                    }
                },
                move || {
                    let mut sum = 0;
                    while from.recv_each(REFERENCES, |message| sum += read(message)) > 0 {}
                    sum
                },
            )
        }),
        named("std mpsc", move |n| {
            let (to, from) = std::sync::mpsc::sync_channel(CAPACITY);
            both(
                move || (1..=n).for_each(|i| to.send(write(i)).expect("a receiver")),
                move || from.iter().map(read).sum(),
            )
        }),
        named("crossbeam-channel", move |n| {
            let (to, from) = crossbeam_channel::bounded(CAPACITY);
            both(
                move || (1..=n).for_each(|i| to.send(write(i)).expect("a receiver")),
                move || from.iter().map(read).sum(),
            )
        }),
        named("crossbeam ArrayQueue", move |n| {
            let queue = Arc::new(ArrayQueue::<&'static Message>::new(CAPACITY));
            let other = Arc::clone(&queue);
            both(
                move || {
                    (1..=n).for_each(|i| {
                        let m = write(i);
                        while other.push(m).is_err() {
                            pause()
                        }
                    })
                },
                move || {
                    (0..n)
                        .map(|_| {
                            loop {
                                if let Some(m) = queue.pop() {
                                    break read(m);
                                }
                                pause();
                            }
                        })
                        .sum()
                },
            )
        }),
        named("kanal", move |n| {
            let (to, from) = kanal::bounded(CAPACITY);
            both(
                move || (1..=n).for_each(|i| to.send(write(i)).expect("a receiver")),
                move || (0..n).map(|_| read(from.recv().expect("a sender"))).sum(),
            )
        }),
        named("flume", move |n| {
            let (to, from) = flume::bounded(CAPACITY);
            both(
                move || (1..=n).for_each(|i| to.send(write(i)).expect("a receiver")),
                move || from.iter().map(read).sum(),
            )
        }),
    ]
}
