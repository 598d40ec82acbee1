//! Counters of the service, shared by the metrics and the API.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use outlets::Exponential;
use rustix::time::{ClockId, clock_gettime};

/// Maximum combinations of method, route, and status; further ones are counted together.
const REQUESTS_MAX: usize = 500;

/// A monotonic counter.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
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
pub struct Timings(Mutex<Exponential>);

impl Timings {
    /// Adds a request of this duration.
    pub fn record(&self, time: Duration) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).record(time.as_secs_f64());
    }

    /// Current histogram.
    pub fn get(&self) -> Exponential {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Stage of the gateway thread's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Decoding of records.
    Decode,
    /// Storage of records and rows.
    Commit,
    /// Merge of records into results.
    Merge,
}

impl Stage {
    /// All stages with their names.
    pub const ALL: [(Stage, &'static str); 3] =
        [(Stage::Decode, "decode"), (Stage::Commit, "commit"), (Stage::Merge, "merge")];
}

/// Limits without their own counters elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
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

impl Bound {
    /// All limits with their names.
    pub const ALL: [(Bound, &'static str); 8] = [
        (Bound::Jobs, "jobs"),
        (Bound::Agents, "agents"),
        (Bound::Streams, "streams"),
        (Bound::StreamQueue, "stream_queue"),
        (Bound::RequestTime, "request_time"),
        (Bound::Outlets, "outlets"),
        (Bound::JobsPerOwner, "jobs_per_owner"),
        (Bound::StreamsPerToken, "streams_per_token"),
    ];
}

/// Class of requests: method, route, status.
pub type Asked = (&'static str, String, u16);

/// See the module documentation.
#[derive(Default)]
pub struct Meters {
    /// Records received from agents.
    pub records_received: Count,
    /// Bytes of records received.
    pub bytes_received: Count,
    /// Acknowledged records, on disk or discarded.
    pub records_acknowledged: Count,
    /// Records of removed jobs.
    pub records_unclaimed: Count,
    /// Records stored.
    pub records_committed: Count,
    /// Bytes of records stored.
    pub bytes_committed: Count,
    /// Durations of transactions with records and rows.
    pub commits: Timings,
    /// Delay from the arrival of a transaction's oldest record to its commit.
    pub commit_delays: Timings,
    /// Closed windows.
    pub windows_closed: Count,
    /// Stored rows.
    pub rows_kept: Count,
    /// Rows that could not be stored, counted at each attempt.
    pub rows_unkept: Count,
    /// Rows omitted from events because there were too many.
    pub rows_unshown: Count,
    /// Queries of the past aborted at their time limit.
    pub queries_given_up: Count,
    /// Rows omitted from answers to queries of the past.
    pub query_rows_left_out: Count,
    /// Connections closed because of malformed HTTP or a request head that is too long.
    pub heads_refused: Count,
    /// Connections closed because no complete request head arrived in time, including idle ones.
    pub connections_silent: Count,
    /// Connections of agents closed because of a protocol violation.
    pub links_broken: Count,
    cpu_ns: [Count; Stage::ALL.len()],
    bounds: [Count; Bound::ALL.len()],
    requests: Mutex<HashMap<Asked, Exponential>>,
}

impl Meters {
    /// Runs a function and adds its CPU time to a stage.
    pub fn during<T>(&self, stage: Stage, act: impl FnOnce() -> T) -> T {
        let before = thread_cpu();
        let value = act();
        let spent = thread_cpu().saturating_sub(before);
        self.cpu_ns[stage as usize].add(u64::try_from(spent.as_nanos()).unwrap_or(0));
        value
    }

    /// CPU time of a stage.
    pub fn cpu(&self, stage: Stage) -> Duration {
        Duration::from_nanos(self.cpu_ns[stage as usize].get())
    }

    /// Counts a rejection or loss caused by a limit.
    pub fn reached(&self, bound: Bound) {
        self.bounds[bound as usize].add(1);
    }

    /// Number of rejections and losses caused by a limit.
    pub fn times_reached(&self, bound: Bound) -> u64 {
        self.bounds[bound as usize].get()
    }

    /// Counts a request.
    pub fn answered(&self, asked: Asked, time: Duration) {
        let mut all = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = !all.contains_key(&asked);
        let asked = if is_new && all.len() >= REQUESTS_MAX { ("_OTHER", String::new(), 0) } else { asked };
        all.entry(asked).or_default().record(time.as_secs_f64());
    }

    /// All classes of requests, sorted.
    pub fn requests(&self) -> Vec<(Asked, Exponential)> {
        let all = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = all.iter().map(|(asked, times)| (asked.clone(), times.clone())).collect();
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
    Duration::new(u64::try_from(at.tv_sec).unwrap_or(0), u32::try_from(at.tv_nsec).unwrap_or(0))
}

/// Resident memory of this process, in bytes.
pub fn process_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_lists() {
        for (place, (stage, _)) in Stage::ALL.iter().enumerate() {
            assert_eq!(*stage as usize, place);
        }
        for (place, (bound, _)) in Bound::ALL.iter().enumerate() {
            assert_eq!(*bound as usize, place);
        }
    }

    #[test]
    fn requests_are_told_apart_up_to_a_bound() {
        let meters = Meters::default();
        for status in 0..2000 {
            meters.answered(("GET", "/".into(), status), Duration::from_millis(1));
        }
        let all = meters.requests();
        assert_eq!(all.len(), REQUESTS_MAX + 1);
        assert_eq!(all.iter().map(|(_, times)| times.count()).sum::<u64>(), 2000);
    }
}
