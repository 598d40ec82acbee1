//! Limits of the service: each has a default and a flag of the program, and losses caused by a limit are counted.

use std::time::Duration;

use crate::jobs::trusted_proxies::TrustedProxies;
use crate::rules::actions::ActionLimits;
use crate::rules::alerts::AlertLimits;

/// Retention of rows.
#[derive(Clone, Copy, Debug)]
pub struct RowRetention {
    /// Maximum age of segments in nanoseconds; 0: unlimited.
    pub age_ns: i64,
    /// Maximum bytes of segments; the oldest are removed first. 0: unlimited.
    pub bytes: u64,
}

impl Default for RowRetention {
    fn default() -> RowRetention {
        RowRetention { age_ns: 7 * 86_400_000_000_000, bytes: 10 << 30 }
    }
}

/// Access to metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScrapeAccess {
    /// Requires a token.
    #[default]
    WithToken,
    /// Open to every client.
    Anybody,
}

/// Limits of queries of the past.
#[derive(Clone, Copy, Debug)]
pub struct PastLimits {
    /// Maximum concurrent queries; further ones wait.
    pub at_once: usize,
    /// Time limit of a query.
    pub time: Duration,
    /// Memory limit of a query's groups, in bytes.
    pub bytes: usize,
}

impl Default for PastLimits {
    fn default() -> PastLimits {
        PastLimits { at_once: 2, time: Duration::from_secs(20), bytes: 64 << 20 }
    }
}

/// Limits of the service.
#[derive(Clone, Debug)]
pub struct ServiceLimits {
    /// Maximum unfinished jobs.
    pub jobs_max: usize,
    /// Maximum unfinished jobs per owner.
    pub jobs_per_owner_max: usize,
    /// Maximum bytes of a request's body.
    pub body_bytes_max: usize,
    /// Requests per second and token; bursts of twice as many.
    pub requests_per_second: u32,
    /// Time limit of a request, except streams.
    pub request_time: Duration,
    /// Maximum connections.
    pub connections_max: usize,
    /// Proxies whose client addresses are trusted.
    pub trusted_proxies: TrustedProxies,
    /// Connections from them begin with a header of the PROXY protocol.
    pub proxy_protocol: bool,
    /// Live streams at once.
    pub streams_max: usize,
    /// Maximum live streams per token.
    pub streams_per_token_max: usize,
    /// Maximum bytes of a live stream's queue.
    pub stream_queue_bytes: usize,
    /// Time for which events are kept for reconnecting streams.
    pub ring_time: Duration,
    /// Maximum bytes of a job's events kept for reconnecting streams.
    pub ring_bytes: usize,
    /// Interval between heartbeats of a stream.
    pub heartbeat: Duration,
    /// Maximum rows per page.
    pub page_rows_max: usize,
    /// Retention of results.
    pub retention: RowRetention,
    /// Limits of alerts.
    pub alerts: AlertLimits,
    /// Limits of actions.
    pub actions: ActionLimits,
    /// Access to metrics.
    pub scrapers: ScrapeAccess,
    /// Maximum outlets of all jobs.
    pub outlets_max: usize,
    /// Maximum rows that wait for an outlet.
    pub outlet_rows_max: u64,
    /// Maximum metric series per job.
    pub series_max: usize,
    /// Retention of tuples.
    pub tuples_retention: RowRetention,
    /// Limits of queries of the past.
    pub past: PastLimits,
}

impl Default for ServiceLimits {
    fn default() -> ServiceLimits {
        ServiceLimits {
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
            retention: RowRetention::default(),
            alerts: AlertLimits::default(),
            actions: ActionLimits::default(),
            scrapers: ScrapeAccess::default(),
            outlets_max: 64,
            outlet_rows_max: 1_000_000,
            series_max: 1000,
            tuples_retention: RowRetention::default(),
            past: PastLimits::default(),
        }
    }
}
