//! All outlets of a run as one sink. Rows are shared between them, not copied; only the end waits, within a time limit.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sinks::{DeliveryOutcome, ResultHead, RunVitals, Sink};
use tuple::Batch;

use crate::address::{OutletAddress, OutletScheme};
use crate::counters::{OutletCounters, OutletLoss};
use crate::flow_collector::FlowCollector;
use crate::flow_columns::FlowFormat;
use crate::flow_records::FlowMapping;
use crate::kafka::KafkaOutlet;
use crate::lines::JsonLinesMapping;
use crate::otlp::{self, OtlpMapping};
use crate::prometheus::{BoardMapping, MetricsBoard, ScrapeTransport};
use crate::queue::{OutletItem, OutletQueue};
use crate::redis::{RedisKeys, RedisMapping, RedisServer};
use crate::tcp::TcpOutlet;
use crate::webhook::{self, WebhookMapping};
use crate::worker::{OutletThread, OutletTransport, RowIdentity, RowMapping};

/// Limits of an outlet.
#[derive(Clone, Copy, Debug)]
pub struct OutletLimits {
    /// Maximum bytes of waiting rows.
    pub queue_bytes: usize,
    /// Maximum series.
    pub series_max: usize,
    /// Maximum time to retry a message.
    pub retry_max: Duration,
    /// Time limit for remaining rows at the end.
    pub end_max: Duration,
}

impl Default for OutletLimits {
    fn default() -> OutletLimits {
        OutletLimits {
            queue_bytes: 16 << 20,
            series_max: 10_000,
            retry_max: Duration::from_secs(60),
            end_max: Duration::from_secs(10),
        }
    }
}

/// An unusable address, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutletAddressError(pub String);

/// See the module documentation.
pub struct OutletSink {
    outlets: Vec<RunOutlet>,
    limits: OutletLimits,
    /// Watermark of rows since the last complete windows.
    incomplete_at: Option<i64>,
    watermark_ns: i64,
    end: InputEnd,
    /// Descriptions of the results, once announced.
    heads: Vec<ResultHead>,
    /// Results whose first rows were seen, and notes about their columns.
    seen: Vec<usize>,
    notes: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InputEnd {
    NotYet,
    Reached,
}

struct RunOutlet {
    to: String,
    /// Form of flow records, if the receiver is a collector of flow records.
    format: Option<FlowFormat>,
    queue: Arc<OutletQueue>,
    tally: Arc<OutletCounters>,
    work: OutletWork,
}

enum OutletWork {
    /// Worker before the start of its thread.
    Prepared(Box<OutletThread>),
    /// Running thread.
    Running(JoinHandle<()>),
    /// The outlet has ended or has no thread.
    Over,
}

impl OutletSink {
    /// Opens ports and reads certificates before the run, without starting threads. `of`: name of the query.
    ///
    /// # Errors
    /// `OutletAddressError` for the first unusable address.
    pub fn prepare(
        addresses: &[OutletAddress],
        limits: OutletLimits,
        of: &str,
    ) -> Result<OutletSink, OutletAddressError> {
        // Fails if a provider is already installed, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let refused =
            |address: &OutletAddress, why| OutletAddressError(format!("{address}: {why}"));
        let rows = RowIdentity {
            of: of.to_owned(),
            run: RandomState::new().hash_one("run"),
        };
        let tallies: Vec<_> = addresses
            .iter()
            .map(|address| (address.to_string(), Arc::new(OutletCounters::default())))
            .collect();
        let outlet = |(address, (_, tally)): (&OutletAddress, &(String, Arc<OutletCounters>))| {
            let (mapping, transport) =
                parts(address, &limits, &tallies, &rows).map_err(|why| refused(address, why))?;
            let queue = Arc::new(OutletQueue::new(limits.queue_bytes));
            let worker = OutletThread {
                queue: queue.clone(),
                tally: tally.clone(),
                mapping,
                transport,
                retry_max: limits.retry_max,
            };
            Ok(RunOutlet {
                to: address.to_string(),
                format: FlowFormat::of(address).map_err(|why| refused(address, why))?,
                queue,
                tally: tally.clone(),
                work: OutletWork::Prepared(Box::new(worker)),
            })
        };
        let outlets = addresses
            .iter()
            .zip(&tallies)
            .map(outlet)
            .collect::<Result<Vec<_>, OutletAddressError>>()?;
        Ok(OutletSink {
            outlets,
            limits,
            incomplete_at: None,
            watermark_ns: i64::MIN,
            end: InputEnd::NotYet,
            heads: Vec::new(),
            seen: Vec::new(),
            notes: Vec::new(),
        })
    }

    /// Starts the threads; each calls `first`.
    ///
    /// # Errors
    /// `io::Error` if the system cannot create threads.
    pub fn start(&mut self, first: &Arc<dyn Fn() + Send + Sync>) -> io::Result<()> {
        // Waits until all threads have called `first`.
        let begun = Arc::new(Barrier::new(self.outlets.len() + 1));
        for outlet in &mut self.outlets {
            outlet.work = match std::mem::replace(&mut outlet.work, OutletWork::Over) {
                OutletWork::Prepared(worker) => {
                    let first = first.clone();
                    let begun = begun.clone();
                    let thread = thread::Builder::new().name("outlet".into());
                    OutletWork::Running(thread.spawn(move || {
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
        self.heads = heads.to_vec();
        self.tell(&OutletItem::Heads(heads.into()));
    }

    /// Notes the columns that flow records lack.
    fn note_columns(&mut self, result: usize, batch: &Batch) {
        self.seen.push(result);
        let parser = self.heads.get(result).and_then(|head| head.parsers.first());
        for outlet in &self.outlets {
            let Some((format, parser)) = outlet.format.zip(parser) else {
                continue;
            };
            let names = format.unsent(parser, batch);
            if !names.is_empty() {
                self.notes.push(format!(
                    "--to {}: columns without an information element are not sent: {}",
                    outlet.to,
                    names.join(", ")
                ));
            }
        }
    }

    fn tell(&self, item: &OutletItem) {
        for outlet in &self.outlets {
            let lost = outlet.queue.push(item.clone());
            outlet.tally.lost(OutletLoss::QueueFull, lost);
        }
    }
}

/// Mapping and transport of an outlet.
pub(crate) type Parts = (Box<dyn RowMapping>, Box<dyn OutletTransport>);

/// The parts of an outlet. `tallies`: counters of all outlets of the run, for the Prometheus page.
pub(crate) fn parts(
    address: &OutletAddress,
    limits: &OutletLimits,
    tallies: &[(String, Arc<OutletCounters>)],
    rows: &RowIdentity,
) -> Result<Parts, String> {
    Ok(match address.scheme {
        OutletScheme::Tcp | OutletScheme::TcpTls => (
            Box::new(JsonLinesMapping::default()),
            Box::new(TcpOutlet::new(address)?),
        ),
        OutletScheme::Prometheus => {
            let board = MetricsBoard::new(limits.series_max, tallies.to_vec());
            (
                Box::new(BoardMapping::new(board.clone())),
                Box::new(ScrapeTransport::new(address, board)?),
            )
        }
        OutletScheme::Redis | OutletScheme::RedisTls => {
            let keys = RedisKeys {
                prefix: address.text("prefix", "netalytics").to_owned(),
                entries_max: address.number("entries", 100_000)?,
                seconds: address.number("keep", 3600)?,
            };
            (
                Box::new(RedisMapping::new(keys)),
                Box::new(RedisServer::new(address)?),
            )
        }
        OutletScheme::Webhook | OutletScheme::WebhookTls => (
            Box::new(WebhookMapping::default()),
            Box::new(webhook::WebhookReceiver::new(address)?.of_run(rows.run)),
        ),
        OutletScheme::Otlp | OutletScheme::OtlpTls => (
            Box::new(OtlpMapping::new(limits.series_max, now_ns)),
            Box::new(otlp::OtlpCollector::new(address)?),
        ),
        OutletScheme::Kafka => (
            Box::new(JsonLinesMapping::default()),
            Box::new(KafkaOutlet::new(address, rows)?),
        ),
        OutletScheme::Ipfix | OutletScheme::IpfixTcp | OutletScheme::Netflow9 => {
            let format = FlowFormat::of(address)?.ok_or("no flow records")?;
            (
                Box::new(FlowMapping::new(format)),
                Box::new(FlowCollector::new(address, &format)?),
            )
        }
        OutletScheme::Sflow => {
            return Err("sFlow has packets, not rows: use -w sflow://HOST:PORT".into());
        }
        OutletScheme::Alertmanager | OutletScheme::AlertmanagerTls => {
            return Err("it accepts alerts, not rows: use netalytics serve --receiver".into());
        }
    })
}

/// Current time in nanoseconds since 1970, for results without a time.
fn now_ns() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

impl Sink for OutletSink {
    fn write(&mut self, result: usize, batch: &Batch) -> io::Result<()> {
        for outlet in &self.outlets {
            outlet.tally.rows.fetch_add(batch.rows() as u64, Relaxed);
        }
        if !self.seen.contains(&result) {
            self.note_columns(result, batch);
        }
        self.incomplete_at = Some(self.watermark_ns);
        self.tell(&OutletItem::Rows(result, batch.clone()));
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
            self.tell(&OutletItem::Complete);
        }
        Ok(())
    }

    fn learn_vitals(&mut self, vitals: &RunVitals) {
        self.tell(&OutletItem::Vitals(*vitals));
    }

    /// Waits for all outlets in parallel, within their time limit.
    fn finish(&mut self) -> io::Result<()> {
        if self.end == InputEnd::Reached {
            return Ok(());
        }
        self.end = InputEnd::Reached;
        let deadline = Instant::now() + self.limits.end_max;
        self.outlets
            .iter()
            .for_each(|outlet| outlet.queue.end(deadline));
        // An attempt that started in time may end a little later; one that hangs in a system call is abandoned.
        let patience = deadline + Duration::from_millis(500);
        for outlet in &mut self.outlets {
            let OutletWork::Running(thread) = std::mem::replace(&mut outlet.work, OutletWork::Over)
            else {
                continue;
            };
            while !thread.is_finished() && Instant::now() < patience {
                thread::sleep(Duration::from_millis(2));
            }
            if thread.is_finished() && thread.join().is_err() {
                outlet
                    .tally
                    .problem("its thread failed; please report this as a bug");
            }
        }
        Ok(())
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    fn delivered(&self) -> Vec<DeliveryOutcome> {
        self.outlets
            .iter()
            .map(|outlet| outlet.tally.delivered(outlet.to.clone()))
            .collect()
    }
}
