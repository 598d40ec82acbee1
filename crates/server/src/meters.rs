//! What the service counts of its own work: each thing at one place, for scrapers and for the API's counters alike.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use outlets::Exponential;
use rustix::time::{ClockId, clock_gettime};

/// Maximum combinations of method, route, and status; further ones are counted together.
const REQUESTS_MAX: usize = 500;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// So many more.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    /// By now.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// How long things took.
#[derive(Default)]
pub struct Timings(Mutex<Exponential>);

impl Timings {
    /// Adds a request of this duration.
    pub fn record(&self, time: Duration) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).record(time.as_secs_f64());
    }

    /// By now.
    pub fn get(&self) -> Exponential {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What the gateway's thread spends its time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Reading records.
    Decode,
    /// Putting them, and rows, into the store.
    Commit,
    /// Merging them into results.
    Merge,
}

impl Stage {
    /// All, with their names.
    pub const ALL: [(Stage, &'static str); 3] =
        [(Stage::Decode, "decode"), (Stage::Commit, "commit"), (Stage::Merge, "merge")];
}

/// What the service may take, as far as what came beyond it is not counted elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Jobs that have not ended.
    Jobs,
    /// Agents at once.
    Agents,
    /// Live streams at once.
    Streams,
    /// The queue of a live stream: its client was too slow.
    StreamQueue,
    /// The time for a request.
    RequestTime,
    /// Outlets of jobs.
    Outlets,
    /// Jobs of one owner.
    JobsPerOwner,
    /// Live streams of one token.
    StreamsPerToken,
}

impl Bound {
    /// All, with their names.
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

/// Which requests: method, route, status.
pub type Asked = (&'static str, String, u16);

/// See the module's text.
#[derive(Default)]
pub struct Meters {
    /// Records that agents sent.
    pub records_received: Count,
    /// Their bytes.
    pub bytes_received: Count,
    /// Acknowledged records, on disk or discarded.
    pub records_acknowledged: Count,
    /// Records of removed jobs.
    pub records_unclaimed: Count,
    /// Records on disk.
    pub records_committed: Count,
    /// Their bytes.
    pub bytes_committed: Count,
    /// Transactions of records and rows.
    pub commits: Timings,
    /// From the arrival of a commit's oldest record until it is on disk.
    pub commit_delays: Timings,
    /// Windows whose rows are final.
    pub windows_closed: Count,
    /// Rows that are on disk.
    pub rows_kept: Count,
    /// Rows that could not be kept, by tries.
    pub rows_unkept: Count,
    /// Rows left out of events, since they were too many.
    pub rows_unshown: Count,
    /// Queries of the past that took longer than they may.
    pub queries_given_up: Count,
    /// Rows of their answers that were left out, since there were too many.
    pub query_rows_left_out: Count,
    /// Connections that ended since what came was no request of HTTP, or had too long a head.
    pub heads_refused: Count,
    /// Connections closed because no complete request head arrived in time, including idle ones.
    pub connections_silent: Count,
    /// Connections of agents that ended since what came breaks the link's rules.
    pub links_broken: Count,
    cpu_ns: [Count; Stage::ALL.len()],
    bounds: [Count; Bound::ALL.len()],
    requests: Mutex<HashMap<Asked, Exponential>>,
}

impl Meters {
    /// Does something, whose time of this thread is counted.
    pub fn during<T>(&self, stage: Stage, act: impl FnOnce() -> T) -> T {
        let before = thread_cpu();
        let value = act();
        let spent = thread_cpu().saturating_sub(before);
        self.cpu_ns[stage as usize].add(u64::try_from(spent.as_nanos()).unwrap_or(0));
        value
    }

    /// Time that was spent on something.
    pub fn cpu(&self, stage: Stage) -> Duration {
        Duration::from_nanos(self.cpu_ns[stage as usize].get())
    }

    /// Something came beyond a bound, and was refused or cut.
    pub fn reached(&self, bound: Bound) {
        self.bounds[bound as usize].add(1);
    }

    /// How often.
    pub fn times_reached(&self, bound: Bound) -> u64 {
        self.bounds[bound as usize].get()
    }

    /// A request was answered.
    pub fn answered(&self, asked: Asked, time: Duration) {
        let mut all = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = !all.contains_key(&asked);
        let asked = if is_new && all.len() >= REQUESTS_MAX { ("_OTHER", String::new(), 0) } else { asked };
        all.entry(asked).or_default().record(time.as_secs_f64());
    }

    /// The requests that were answered, in order.
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

/// Time that this process has computed.
pub fn process_cpu() -> Duration {
    since(ClockId::ProcessCPUTime)
}

fn since(clock: ClockId) -> Duration {
    let at = clock_gettime(clock);
    Duration::new(u64::try_from(at.tv_sec).unwrap_or(0), u32::try_from(at.tv_nsec).unwrap_or(0))
}

/// Memory that this process has in use, in bytes.
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
