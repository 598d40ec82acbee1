//! All outlets of a run as one sink. Rows are shared between them, not copied; only the end waits, within a time limit.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sinks::{Delivered, ResultHead, Sink, Vitals};
use tuple::Batch;

use crate::address::{Address, Scheme};
use crate::kafka::Brokers;
use crate::lines::Lines;
use crate::otlp::{self, Requests};
use crate::prometheus::{Board, Posting, Scrapes};
use crate::queue::{Item, Queue};
use crate::redis::{Commands, Keys, Server};
use crate::tally::{Loss, Tally};
use crate::tcp::Tcp;
use crate::webhook::{self, Batches};
use crate::worker::{Mapping, Rows, Transport, Worker};

/// Limits of an outlet.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum bytes of waiting rows.
    pub queue_bytes: usize,
    /// Maximum series.
    pub series_max: usize,
    /// Maximum time to retry a message.
    pub retry_max: Duration,
    /// Time limit for remaining rows at the end.
    pub end_max: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            queue_bytes: 16 << 20,
            series_max: 10_000,
            retry_max: Duration::from_secs(60),
            end_max: Duration::from_secs(10),
        }
    }
}

/// An unusable address, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

/// See the module documentation.
pub struct Outlets {
    outlets: Vec<Outlet>,
    limits: Limits,
    /// Watermark of rows since the last complete windows.
    incomplete_at: Option<i64>,
    watermark_ns: i64,
    end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    NotYet,
    Reached,
}

struct Outlet {
    to: String,
    queue: Arc<Queue>,
    tally: Arc<Tally>,
    work: Work,
}

enum Work {
    /// Worker before the start of its thread.
    Prepared(Box<Worker>),
    /// Running thread.
    Running(JoinHandle<()>),
    /// The outlet has ended or has no thread.
    Over,
}

impl Outlets {
    /// Opens ports and reads certificates before the run, without starting threads. `of`: name of the query.
    ///
    /// # Errors
    /// `Refused` for the first unusable address.
    pub fn prepare(addresses: &[Address], limits: Limits, of: &str) -> Result<Outlets, Refused> {
        // Fails if a provider is already installed, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let refused = |address: &Address, why| Refused(format!("{address}: {why}"));
        let rows = Rows { of: of.to_owned(), run: RandomState::new().hash_one("run") };
        let tallies: Vec<_> =
            addresses.iter().map(|address| (address.to_string(), Arc::new(Tally::default()))).collect();
        let outlet = |(address, (_, tally)): (&Address, &(String, Arc<Tally>))| {
            let (mapping, transport) =
                parts(address, &limits, &tallies, &rows).map_err(|why| refused(address, why))?;
            let queue = Arc::new(Queue::new(limits.queue_bytes));
            let worker = Worker {
                queue: queue.clone(),
                tally: tally.clone(),
                mapping,
                transport,
                retry_max: limits.retry_max,
            };
            Ok(Outlet {
                to: address.to_string(),
                queue,
                tally: tally.clone(),
                work: Work::Prepared(Box::new(worker)),
            })
        };
        let outlets = addresses.iter().zip(&tallies).map(outlet).collect::<Result<Vec<_>, Refused>>()?;
        Ok(Outlets { outlets, limits, incomplete_at: None, watermark_ns: i64::MIN, end: End::NotYet })
    }

    /// Starts the threads; each calls `first`.
    ///
    /// # Errors
    /// `io::Error` if the system cannot create threads.
    pub fn start(&mut self, first: &Arc<dyn Fn() + Send + Sync>) -> io::Result<()> {
        // Waits until all threads have called `first`.
        let begun = Arc::new(Barrier::new(self.outlets.len() + 1));
        for outlet in &mut self.outlets {
            outlet.work = match std::mem::replace(&mut outlet.work, Work::Over) {
                Work::Prepared(worker) => {
                    let (first, begun) = (first.clone(), begun.clone());
                    let thread = thread::Builder::new().name("outlet".into());
                    Work::Running(thread.spawn(move || {
                        first();
                        begun.wait();
                        worker.run();
                    })?)
                }
                other => other,
            };
        }
        begun.wait();
        Ok(())
    }

    /// Announces the results; must precede the first row.
    pub fn announce(&mut self, heads: &[ResultHead]) {
        self.tell(&Item::Heads(heads.into()));
    }

    fn tell(&self, item: &Item) {
        for outlet in &self.outlets {
            let lost = outlet.queue.push(item.clone());
            outlet.tally.lost(Loss::QueueFull, lost);
        }
    }
}

/// Mapping and transport of an outlet.
pub(crate) type Parts = (Box<dyn Mapping>, Box<dyn Transport>);

/// The parts of an outlet. `tallies`: counters of all outlets of the run, for the Prometheus page.
pub(crate) fn parts(
    address: &Address,
    limits: &Limits,
    tallies: &[(String, Arc<Tally>)],
    rows: &Rows,
) -> Result<Parts, String> {
    Ok(match address.scheme {
        Scheme::Tcp | Scheme::TcpTls => (Box::new(Lines::default()), Box::new(Tcp::new(address)?)),
        Scheme::Prometheus => {
            let board = Board::new(limits.series_max, tallies.to_vec());
            (Box::new(Posting::new(board.clone())), Box::new(Scrapes::new(address, board)?))
        }
        Scheme::Redis | Scheme::RedisTls => {
            let keys = Keys {
                prefix: address.text("prefix", "netalytics").to_owned(),
                entries_max: address.number("entries", 100_000)?,
                seconds: address.number("keep", 3600)?,
            };
            (Box::new(Commands::new(keys)), Box::new(Server::new(address)?))
        }
        Scheme::Webhook | Scheme::WebhookTls => {
            (Box::new(Batches::default()), Box::new(webhook::Receiver::new(address)?.of_run(rows.run)))
        }
        Scheme::Otlp | Scheme::OtlpTls => {
            (Box::new(Requests::new(limits.series_max, now_ns)), Box::new(otlp::Collector::new(address)?))
        }
        Scheme::Kafka => (Box::new(Lines::default()), Box::new(Brokers::new(address, rows)?)),
        Scheme::Alertmanager | Scheme::AlertmanagerTls => {
            return Err("it takes alerts, not rows: netalytics serve --receiver sends it those".into());
        }
    })
}

/// Current time in nanoseconds since 1970, for results without a time.
fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

impl Sink for Outlets {
    fn write(&mut self, result: usize, batch: &Batch) -> io::Result<()> {
        for outlet in &self.outlets {
            outlet.tally.rows.fetch_add(batch.rows() as u64, Relaxed);
        }
        self.incomplete_at = Some(self.watermark_ns);
        self.tell(&Item::Rows(result, batch.clone()));
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Rows of a window arrive at one watermark: when it advances, the window is complete.
    fn advance(&mut self, watermark_ns: i64) -> io::Result<()> {
        self.watermark_ns = watermark_ns;
        if self.incomplete_at.is_some_and(|at| at < watermark_ns) {
            self.incomplete_at = None;
            self.tell(&Item::Complete);
        }
        Ok(())
    }

    fn learn_vitals(&mut self, vitals: &Vitals) {
        self.tell(&Item::Vitals(*vitals));
    }

    /// Waits for all outlets in parallel, within their time limit.
    fn finish(&mut self) -> io::Result<()> {
        if self.end == End::Reached {
            return Ok(());
        }
        self.end = End::Reached;
        let deadline = Instant::now() + self.limits.end_max;
        self.outlets.iter().for_each(|outlet| outlet.queue.end(deadline));
        // An attempt that started in time may end a little later; one that hangs in a system call is abandoned.
        let patience = deadline + Duration::from_millis(500);
        for outlet in &mut self.outlets {
            let Work::Running(thread) = std::mem::replace(&mut outlet.work, Work::Over) else { continue };
            while !thread.is_finished() && Instant::now() < patience {
                thread::sleep(Duration::from_millis(2));
            }
            if thread.is_finished() && thread.join().is_err() {
                outlet.tally.problem("its thread has failed: please report that as a bug");
            }
        }
        Ok(())
    }

    fn delivered(&self) -> Vec<Delivered> {
        self.outlets.iter().map(|outlet| outlet.tally.delivered(outlet.to.clone())).collect()
    }
}
