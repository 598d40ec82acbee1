//! Counters of the service, shared by the metrics and the API.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use outlets::ExponentialBuckets;
use rustix::time::{ClockId, clock_gettime};

/// Maximum combinations of method, route, and status; further ones are counted together.
const REQUESTS_MAX: usize = 500;

/// A monotonic counter.
#[derive(Debug, Default)]
pub struct EventCounter(AtomicU64);

impl EventCounter {
    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    /// Current value.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A histogram of durations.
#[derive(Default)]
pub struct TimingHistogram(Mutex<ExponentialBuckets>);

impl TimingHistogram {
    /// Adds a request of this duration.
    pub fn record(&self, time: Duration) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .record(time.as_secs_f64());
    }

    /// Current histogram.
    pub fn get(&self) -> ExponentialBuckets {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Stage of the gateway thread's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatewayStage {
    /// Decoding of records.
    Decode,
    /// Storage of records and rows.
    Commit,
    /// Merge of records into results.
    Merge,
}

impl GatewayStage {
    /// All stages with their names.
    pub const ALL: [(GatewayStage, &'static str); 3] = [
        (GatewayStage::Decode, "decode"),
        (GatewayStage::Commit, "commit"),
        (GatewayStage::Merge, "merge"),
    ];
}

/// Limits without their own counters elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKind {
    /// Unfinished jobs.
    Jobs,
    /// Connected agents.
    Agents,
    /// Live streams.
    Streams,
    /// Queue of a live stream with a slow client.
    StreamQueue,
    /// Duration of a request.
    RequestTime,
    /// Outlets of jobs.
    Outlets,
    /// Unfinished jobs per owner.
    JobsPerOwner,
    /// Live streams per token.
    StreamsPerToken,
}

impl LimitKind {
    /// All limits with their names.
    pub const ALL: [(LimitKind, &'static str); 8] = [
        (LimitKind::Jobs, "jobs"),
        (LimitKind::Agents, "agents"),
        (LimitKind::Streams, "streams"),
        (LimitKind::StreamQueue, "stream_queue"),
        (LimitKind::RequestTime, "request_time"),
        (LimitKind::Outlets, "outlets"),
        (LimitKind::JobsPerOwner, "jobs_per_owner"),
        (LimitKind::StreamsPerToken, "streams_per_token"),
    ];
}

/// Class of requests: method, route, status.
pub type Asked = (&'static str, String, u16);

/// See the module documentation.
#[derive(Default)]
pub struct ServiceMetrics {
    /// Records received from agents.
    pub records_received: EventCounter,
    /// Bytes of records received.
    pub bytes_received: EventCounter,
    /// Acknowledged records, on disk or discarded.
    pub records_acknowledged: EventCounter,
    /// Records of removed jobs.
    pub records_unclaimed: EventCounter,
    /// Records stored.
    pub records_committed: EventCounter,
    /// Bytes of records stored.
    pub bytes_committed: EventCounter,
    /// Durations of transactions with records and rows.
    pub commits: TimingHistogram,
    /// Delay from the arrival of a transaction's oldest record to its commit.
    pub commit_delays: TimingHistogram,
    /// Closed windows.
    pub windows_closed: EventCounter,
    /// Stored rows.
    pub rows_kept: EventCounter,
    /// Rows that could not be stored, counted at each attempt.
    pub rows_unkept: EventCounter,
    /// Rows omitted from events because there were too many.
    pub rows_unshown: EventCounter,
    /// Queries of the past aborted at their time limit.
    pub queries_given_up: EventCounter,
    /// Rows omitted from answers to queries of the past.
    pub query_rows_left_out: EventCounter,
    /// Connections closed because of malformed HTTP or a request head that is too long.
    pub heads_refused: EventCounter,
    /// Connections closed because no complete request head arrived in time, including idle ones.
    pub connections_silent: EventCounter,
    /// Connections of agents closed because of a protocol violation.
    pub links_broken: EventCounter,
    cpu_ns: [EventCounter; GatewayStage::ALL.len()],
    bounds: [EventCounter; LimitKind::ALL.len()],
    requests: Mutex<HashMap<Asked, ExponentialBuckets>>,
}

impl ServiceMetrics {
    /// Runs a function and adds its CPU time to a stage.
    pub fn during<T>(&self, stage: GatewayStage, act: impl FnOnce() -> T) -> T {
        let before = thread_cpu();
        let value = act();
        let spent = thread_cpu().saturating_sub(before);
        self.cpu_ns[stage as usize].add(u64::try_from(spent.as_nanos()).unwrap_or(0));
        value
    }

    /// Runs a commit, and records its CPU time and, if it succeeds, its duration.
    ///
    /// # Errors
    /// Those of the commit.
    pub fn during_commit<E>(&self, act: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let begun = Instant::now();
        self.during(GatewayStage::Commit, act)?;
        self.commits.record(begun.elapsed());
        Ok(())
    }

    /// CPU time of a stage.
    pub fn cpu(&self, stage: GatewayStage) -> Duration {
        Duration::from_nanos(self.cpu_ns[stage as usize].get())
    }

    /// Counts a rejection or loss caused by a limit.
    pub fn reached(&self, bound: LimitKind) {
        self.bounds[bound as usize].add(1);
    }

    /// Number of rejections and losses caused by a limit.
    pub fn times_reached(&self, bound: LimitKind) -> u64 {
        self.bounds[bound as usize].get()
    }

    /// Counts a request.
    pub fn answered(&self, asked: Asked, time: Duration) {
        let mut all = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = !all.contains_key(&asked);
        let asked = if is_new && all.len() >= REQUESTS_MAX {
            ("_OTHER", String::new(), 0)
        } else {
            asked
        };
        all.entry(asked).or_default().record(time.as_secs_f64());
    }

    /// All classes of requests, sorted.
    pub fn requests(&self) -> Vec<(Asked, ExponentialBuckets)> {
        let all = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = all
            .iter()
            .map(|(asked, times)| (asked.clone(), times.clone()))
            .collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }
}

fn thread_cpu() -> Duration {
    since(ClockId::ThreadCPUTime)
}

/// CPU time of this process.
pub fn process_cpu() -> Duration {
    since(ClockId::ProcessCPUTime)
}

fn since(clock: ClockId) -> Duration {
    let at = clock_gettime(clock);
    Duration::new(
        u64::try_from(at.tv_sec).unwrap_or(0),
        u32::try_from(at.tv_nsec).unwrap_or(0),
    )
}

/// Resident memory of this process, in bytes.
pub fn process_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(
        line.trim()
            .trim_end_matches("kB")
            .trim()
            .parse::<u64>()
            .ok()?
            * 1024,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_lists() {
        for (place, (stage, _)) in GatewayStage::ALL.iter().enumerate() {
            assert_eq!(*stage as usize, place);
        }
        for (place, (bound, _)) in LimitKind::ALL.iter().enumerate() {
            assert_eq!(*bound as usize, place);
        }
    }

    #[test]
    fn requests_are_distinguished_up_to_a_limit() {
        let meters = ServiceMetrics::default();
        for status in 0..2000 {
            meters.answered(("GET", "/".into(), status), Duration::from_millis(1));
        }
        let all = meters.requests();
        assert_eq!(all.len(), REQUESTS_MAX + 1);
        assert_eq!(
            all.iter().map(|(_, times)| times.count()).sum::<u64>(),
            2000
        );
    }
}
