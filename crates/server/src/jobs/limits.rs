//! Limits of the service: each has a default and a flag of the program, and losses caused by a limit are counted. The
//! rooms below declare the limits that they apply; this is the only struct with all of them.

use std::time::Duration;

use crate::jobs::trusted_proxies::TrustedProxies;
use crate::results::delivery::DeliveryLimits;
use crate::results::hub::HubLimits;
use crate::rules::actions::ActionLimits;
use crate::rules::alerts::AlertLimits;
use crate::store::history::RowRetention;

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
        PastLimits {
            at_once: 2,
            time: Duration::from_secs(20),
            bytes: 64 << 20,
        }
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
        let hub = HubLimits::default();
        let delivery = DeliveryLimits::default();
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
            ring_time: hub.ring_time,
            ring_bytes: hub.ring_bytes,
            heartbeat: Duration::from_secs(10),
            page_rows_max: 10_000,
            retention: hub.retention,
            alerts: AlertLimits::default(),
            actions: ActionLimits::default(),
            scrapers: ScrapeAccess::default(),
            outlets_max: delivery.outlets_max,
            outlet_rows_max: delivery.outlet_rows_max,
            series_max: delivery.series_max,
            tuples_retention: hub.tuples_retention,
            past: PastLimits::default(),
        }
    }
}

impl ServiceLimits {
    /// The limits of live and stored rows.
    pub(crate) fn hub(&self) -> HubLimits {
        HubLimits {
            ring_time: self.ring_time,
            ring_bytes: self.ring_bytes,
            retention: self.retention,
            tuples_retention: self.tuples_retention,
        }
    }

    /// The limits of the delivery to outlets.
    pub(crate) fn delivery(&self) -> DeliveryLimits {
        DeliveryLimits {
            outlets_max: self.outlets_max,
            outlet_rows_max: self.outlet_rows_max,
            series_max: self.series_max,
        }
    }
}
