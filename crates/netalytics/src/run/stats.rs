//! Statistics of workers during a query, one line each on standard error: rates since the last line, losses, use of
//! their tables. Requested by `--stats`, `-v` or SIGUSR1.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use monitor::vitals::VitalsReading;
use runner::RunPosition;
use sinks::units;

use crate::cli::flags::WorkFlags;
use crate::cli::verbosity::Verbosity;
use crate::process::output;
use crate::process::signals::SignalHandlers;
use crate::run::progress::{self, ReadProgress};

/// Prints statistics periodically or on request.
pub struct WorkerStats {
    every: Option<Duration>,
    /// Set to request statistics once.
    asked: Arc<AtomicBool>,
    looked: Instant,
    last: Vec<VitalsReading>,
}

impl WorkerStats {
    /// Prints statistics at the interval `every`, if given, and whenever `asked` is set.
    pub fn new(every: Option<Duration>, asked: Arc<AtomicBool>) -> WorkerStats {
        WorkerStats {
            every,
            asked,
            looked: Instant::now(),
            last: Vec::new(),
        }
    }

    /// Statistics by flags, and on SIGUSR1.
    pub fn of_run(flags: &WorkFlags, telling: Verbosity, signals: &SignalHandlers) -> WorkerStats {
        let every = flags
            .stats
            .map(|ns| Duration::from_nanos(ns.unsigned_abs()));
        let every = every.or((telling == Verbosity::Everything).then_some(Duration::from_secs(1)));
        WorkerStats::new(every, signals.stats())
    }

    /// Prints a line per worker if due; hides the progress bar meanwhile.
    pub fn tick(&mut self, readings: impl FnOnce() -> Vec<VitalsReading>, progress: &ReadProgress) {
        let since = self.looked.elapsed();
        if !self.take_asked() && self.every.is_none_or(|every| since < every) {
            return;
        }
        let now = readings();
        let nothing = VitalsReading::default();
        let before = self.last.iter().chain(std::iter::repeat(&nothing));
        let lines = now.iter().zip(before).enumerate();
        let lines: Vec<_> = lines
            .map(|(n, (now, before))| line(n, now, before, since))
            .collect();
        progress.aside(|| lines.iter().for_each(|line| output::complain(line)));
        self.looked = Instant::now();
        self.last = now;
    }

    /// Prints the read position if statistics were requested and no worker runs.
    pub fn tick_without_workers(
        &mut self,
        position: impl FnOnce() -> RunPosition,
        progress: &ReadProgress,
    ) {
        if self.take_asked() {
            progress.aside(|| output::complain(&progress::line(position())));
        }
    }

    fn take_asked(&self) -> bool {
        self.asked.swap(false, Ordering::Relaxed)
    }
}

fn line(worker: usize, now: &VitalsReading, before: &VitalsReading, since: Duration) -> String {
    let rate = |of: fn(&VitalsReading) -> u64| {
        of(now).saturating_sub(of(before)) as f64 / since.as_secs_f64()
    };
    let bytes = match now.bytes {
        0 => String::new(),
        _ => format!(" ({}/s)", units::bytes(rate(|r| r.bytes))),
    };
    let mut text = format!(
        "worker {worker}: {:.0} packets/s{bytes}, {:.0} tuples/s, {} flows, {} gaps, {} lost",
        rate(|r| r.packets),
        rate(|r| r.tuples),
        now.flows,
        now.gaps,
        now.lost,
    );
    if now.backlog > 0.0 {
        text.push_str(&format!(", buffer {:.0} % full", now.backlog * 100.0));
    }
    if now.sample_rate < 1.0 {
        text.push_str(&format!(", sampling {:.2} %", now.sample_rate * 100.0));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(now: VitalsReading, expected: &str) {
        let before = VitalsReading {
            packets: 1000,
            bytes: 1_000_000,
            tuples: 10,
            ..VitalsReading::default()
        };
        assert_eq!(line(1, &now, &before, Duration::from_secs(2)), expected);
    }

    #[test]
    fn lines() {
        let quiet = VitalsReading {
            packets: 1000,
            bytes: 1_000_000,
            tuples: 10,
            sample_rate: 1.0,
            ..VitalsReading::default()
        };
        check(
            quiet,
            "worker 1: 0 packets/s (0 B/s), 0 tuples/s, 0 flows, 0 gaps, 0 lost",
        );
        let busy = VitalsReading {
            packets: 5000,
            bytes: 3_000_000,
            flows: 7,
            gaps: 2,
            lost: 5,
            ..quiet
        };
        let busy = VitalsReading {
            backlog: 0.5,
            sample_rate: 0.25,
            ..busy
        };
        let rest = "7 flows, 2 gaps, 5 lost, buffer 50 % full, sampling 25.00 %";
        check(
            busy,
            &format!("worker 1: 2000 packets/s (1.0 MB/s), 0 tuples/s, {rest}"),
        );
    }
}
