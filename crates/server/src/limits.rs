//! What the service may take: each with a default; the program has a flag for each, and what is lost to one is counted.

use std::time::Duration;

use crate::actions::ActionLimits;
use crate::alerts::AlertLimits;
use crate::proxies::TrustedProxies;

/// How long rows are kept.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// Maximum age of segments in nanoseconds; 0: unlimited.
    pub age_ns: i64,
    /// The oldest go while all take more bytes; 0 keeps them.
    pub bytes: u64,
}

impl Default for Retention {
    fn default() -> Retention {
        Retention { age_ns: 7 * 86_400_000_000_000, bytes: 10 << 30 }
    }
}

/// Who may read how the service does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scrapers {
    /// Those with a token.
    #[default]
    WithToken,
    /// Everybody who reaches the server's port.
    Anybody,
}

/// What a query of the past may take.
#[derive(Clone, Copy, Debug)]
pub struct PastLimits {
    /// So many are answered at once; others wait.
    pub at_once: usize,
    /// Time for one.
    pub time: Duration,
    /// Memory for the groups of one.
    pub bytes: usize,
}

impl Default for PastLimits {
    fn default() -> PastLimits {
        PastLimits { at_once: 2, time: Duration::from_secs(20), bytes: 64 << 20 }
    }
}

/// Limits of the service.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Jobs that have not ended.
    pub jobs_max: usize,
    /// Of these, jobs of one owner.
    pub jobs_per_owner_max: usize,
    /// Bytes of a request's body.
    pub body_bytes_max: usize,
    /// Requests of one token a second; twice as many at once.
    pub requests_per_second: u32,
    /// Time for a request, streams aside.
    pub request_time: Duration,
    /// Connections at once.
    pub connections_max: usize,
    /// Proxies that tell the addresses of their clients.
    pub trusted_proxies: TrustedProxies,
    /// Connections from them begin with a header of the PROXY protocol.
    pub proxy_protocol: bool,
    /// Live streams at once.
    pub streams_max: usize,
    /// Of these, streams of one token.
    pub streams_per_token_max: usize,
    /// Bytes of a live stream's queue.
    pub stream_queue_bytes: usize,
    /// How long events are kept for streams that come back.
    pub ring_time: Duration,
    /// Bytes of events of one job that are kept for streams that come back.
    pub ring_bytes: usize,
    /// Between two signs of life of a stream.
    pub heartbeat: Duration,
    /// Rows of a page.
    pub page_rows_max: usize,
    /// What is kept of results.
    pub retention: Retention,
    /// Of alerts.
    pub alerts: AlertLimits,
    /// Of actions.
    pub actions: ActionLimits,
    /// Who may read how the service does.
    pub scrapers: Scrapers,
    /// Outlets of all jobs at once.
    pub outlets_max: usize,
    /// Rows that may wait for an outlet.
    pub outlet_rows_max: u64,
    /// Series of each job that scrapers are shown.
    pub series_max: usize,
    /// What is kept of jobs that keep their tuples.
    pub tuples_retention: Retention,
    /// Queries of the past.
    pub past: PastLimits,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            jobs_max: 100,
            jobs_per_owner_max: 50,
            body_bytes_max: 1 << 20,
            requests_per_second: 1000,
            request_time: Duration::from_secs(30),
            connections_max: 512,
            trusted_proxies: TrustedProxies::default(),
            proxy_protocol: false,
            streams_max: 100,
            streams_per_token_max: 50,
            stream_queue_bytes: 1 << 20,
            ring_time: Duration::from_secs(60),
            ring_bytes: 4 << 20,
            heartbeat: Duration::from_secs(10),
            page_rows_max: 10_000,
            retention: Retention::default(),
            alerts: AlertLimits::default(),
            actions: ActionLimits::default(),
            scrapers: Scrapers::default(),
            outlets_max: 64,
            outlet_rows_max: 1_000_000,
            series_max: 1000,
            tuples_retention: Retention::default(),
            past: PastLimits::default(),
        }
    }
}
