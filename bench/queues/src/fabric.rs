//! Messages per second around a ring of threads and from all to all, over our rings and over tokio's channels: the
//! Chronicle paper's figure 4.
//!
//! `ring`: every thread forwards its neighbor's messages; 64 messages per thread circulate. `mesh`: every thread sends the
//! same number to every other and receives. Ours: a thread and a ring per pair; tokio (as Go, in `go/main.go`): an inbox
//! per task, as many workers as cores. A JSON line per fabric, pattern, and thread count has the median and the best round.
//! The number of received messages is checked.

#[allow(dead_code)]
mod ring;

use ring::{RingReceiver, RingSender, ring};
use std::thread;
use std::time::Instant;
use tokio::sync::mpsc;

const TOKENS: usize = 64;
const HOPS: u64 = 10_000;
const MESSAGES: usize = 1_500_000;
const CAPACITY: usize = 1024;

fn main() {
    let rounds: usize = std::env::args()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(5);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .build()
        .expect("a runtime");
    for threads in 2..=8 {
        let each = MESSAGES / (threads * (threads - 1));
        let all = each * threads * (threads - 1);
        measure("ours", "ring", threads, rounds, || our_ring(threads));
        measure("ours", "mesh", threads, rounds, || {
            exactly(all, our_mesh(threads, each))
        });
        measure("tokio mpsc", "ring", threads, rounds, || {
            runtime.block_on(tokio_ring(threads))
        });
        measure("tokio mpsc", "mesh", threads, rounds, || {
            exactly(all, runtime.block_on(tokio_mesh(threads, each)))
        });
    }
}

fn exactly(expected: usize, got: usize) -> usize {
    assert_eq!(got, expected, "messages arrived");
    got
}

fn measure(fabric: &str, pattern: &str, threads: usize, rounds: usize, run: impl Fn() -> usize) {
    let mut rates: Vec<f64> = (0..rounds)
        .map(|_| {
            let begin = Instant::now();
            run() as f64 / begin.elapsed().as_secs_f64()
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    let median = rates[rounds / 2];
    let best = rates[rounds - 1];
    println!(
        r#"{{"fabric":"{fabric}","pattern":"{pattern}","threads":{threads},"median":{median:.0},"best":{best:.0}}}"#
    );
}

fn our_ring(threads: usize) -> usize {
    let (mut senders, receivers): (Vec<_>, Vec<_>) =
        (0..threads).map(|_| ring(TOKENS * threads)).unzip();
    for sender in &mut senders {
        sender
            .send_all(&mut vec![HOPS; TOKENS])
            .expect("a receiver");
    }
    senders.rotate_left(1);
    let running: Vec<_> = senders
        .into_iter()
        .zip(receivers)
        .map(|(to, from)| thread::spawn(move || pass_on(from, to)))
        .collect();
    running
        .into_iter()
        .map(|t| t.join().expect("the thread ends"))
        .sum()
}

/// Until the first message has completed its path, or the neighbors have ended for that reason.
fn pass_on(mut from: RingReceiver<u64>, mut to: RingSender<u64>) -> usize {
    let mut passed = 0;
    let mut batch = Vec::new();
    while from.recv_many(&mut batch, usize::MAX) > 0 {
        let end = batch.contains(&0);
        batch
            .iter_mut()
            .for_each(|left| *left = left.saturating_sub(1));
        passed += batch.len();
        if to.send_all(&mut batch).is_err() || end {
            break;
        }
    }
    passed
}

fn our_mesh(threads: usize, each: usize) -> usize {
    let mut to: Vec<Vec<RingSender<usize>>> = (0..threads).map(|_| Vec::new()).collect();
    let mut from: Vec<Vec<RingReceiver<usize>>> = (0..threads).map(|_| Vec::new()).collect();
    for (a, b) in (0..threads).flat_map(|a| (1..threads).map(move |k| (a, (a + k) % threads))) {
        let (sender, receiver) = ring(CAPACITY);
        to[a].push(sender);
        from[b].push(receiver);
    }
    let running: Vec<_> = to
        .into_iter()
        .zip(from)
        .map(|(to, from)| thread::spawn(move || exchange(to, from, each)))
        .collect();
    running
        .into_iter()
        .map(|t| t.join().expect("the thread ends"))
        .sum()
}

/// Does not block on one ring while another can proceed; yields if none can.
fn exchange(
    mut to: Vec<RingSender<usize>>,
    mut from: Vec<RingReceiver<usize>>,
    each: usize,
) -> usize {
    let mut sent = vec![0; to.len()];
    let mut got = 0;
    while got < each * from.len() || sent.iter().any(|&n| n < each) {
        let before = got;
        for (to, sent) in to.iter_mut().zip(&mut sent) {
            while *sent < each && to.try_send(*sent).is_ok() {
                *sent += 1;
            }
        }
        for from in &mut from {
            while from.try_recv().is_some() {
                got += 1;
            }
        }
        if got == before {
            thread::yield_now();
        }
    }
    got
}

async fn tokio_ring(threads: usize) -> usize {
    let (mut senders, receivers): (Vec<_>, Vec<_>) = (0..threads)
        .map(|_| mpsc::channel(TOKENS * threads))
        .unzip();
    for sender in &senders {
        for _ in 0..TOKENS {
            sender.send(HOPS).await.expect("a receiver");
        }
    }
    senders.rotate_left(1);
    let running: Vec<_> = senders
        .into_iter()
        .zip(receivers)
        .map(|(to, mut from)| {
            tokio::spawn(async move {
                let mut passed = 0;
                let mut batch = Vec::new();
                while from.recv_many(&mut batch, CAPACITY).await > 0 {
                    for left in batch.drain(..) {
                        passed += 1;
                        if to.send(left.saturating_sub(1)).await.is_err() || left == 0 {
                            return passed;
                        }
                    }
                }
                passed
            })
        })
        .collect();
    let mut sum = 0;
    for task in running {
        sum += task.await.expect("the task ends");
    }
    sum
}

async fn tokio_mesh(threads: usize, each: usize) -> usize {
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..threads)
        .map(|_| mpsc::channel::<usize>(CAPACITY * threads))
        .unzip();
    for a in 0..threads {
        let to: Vec<_> = (1..threads)
            .map(|k| senders[(a + k) % threads].clone())
            .collect();
        tokio::spawn(async move {
            for i in 0..each {
                for to in &to {
                    to.send(i).await.expect("a receiver");
                }
            }
        });
    }
    drop(senders);
    let running: Vec<_> = receivers
        .into_iter()
        .map(|mut from| {
            tokio::spawn(async move {
                let mut got = 0;
                let mut batch = Vec::new();
                while from.recv_many(&mut batch, CAPACITY).await > 0 {
                    got += batch.len();
                    batch.clear();
                }
                got
            })
        })
        .collect();
    let mut sum = 0;
    for task in running {
        sum += task.await.expect("the task ends");
    }
    sum
}
