//! A worker's vital signs, written at the end of each block and readable by any thread: rates, losses, table
//! sizes. For display while a query runs; the final accounting is separate.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use crate::exports::ExportAccounting;

/// Live counters of one worker, on their own cache lines so that readers do not slow the worker.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct WorkerVitals {
    packets: AtomicU64,
    bytes: AtomicU64,
    tuples: AtomicU64,
    flows: AtomicU64,
    gaps: AtomicU64,
    lost: AtomicU64,
    backlog_permille: AtomicU64,
    rate_ppm: AtomicU64,
    sampled_out: AtomicU64,
    cut_off: AtomicU64,
    strays: AtomicU64,
    slice_level: AtomicU64,
    position: AtomicU64,
    position_max: AtomicU64,
    exports: Mutex<ExportAccounting>,
}

/// One reading of the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct VitalsReading {
    /// Packets taken from the source.
    pub packets: u64,
    /// Bytes of these packets on the wire.
    pub bytes: u64,
    /// Tuples written.
    pub tuples: u64,
    /// Flows in the table.
    pub flows: u64,
    /// Gaps in byte streams.
    pub gaps: u64,
    /// Packets lost by the kernel or the adapter.
    pub lost: u64,
    /// Share of the source's buffer waiting to be read, 0 to 1.
    pub backlog: f64,
    /// Sampling rate, 0 to 1.
    pub sample_rate: f64,
    /// Packets of flows excluded by SAMPLE.
    pub sampled_out: u64,
    /// Flows cut off and packets outside the slice that switches copy.
    pub cut_off: u64,
    /// Packets outside the slice; see [`PacketAccounting::strays`](crate::accounting::PacketAccounting::strays).
    pub strays: u64,
    /// Level of the slice that the worker applies.
    pub slice_level: u8,
    /// Bytes of input consumed, and the total if known; only from the worker that reads.
    pub position: (u64, Option<u64>),
}

impl WorkerVitals {
    /// Stores all counters.
    pub fn write(&self, now: &VitalsReading) {
        let share = |share: f64, scale: f64| (share.clamp(0.0, 1.0) * scale) as u64;
        let all = [
            (&self.packets, now.packets),
            (&self.bytes, now.bytes),
            (&self.tuples, now.tuples),
            (&self.flows, now.flows),
            (&self.gaps, now.gaps),
            (&self.lost, now.lost),
            (&self.backlog_permille, share(now.backlog, 1e3)),
            (&self.rate_ppm, share(now.sample_rate, 1e6)),
            (&self.sampled_out, now.sampled_out),
            (&self.cut_off, now.cut_off),
            (&self.strays, now.strays),
            (&self.slice_level, now.slice_level.into()),
        ];
        all.into_iter()
            .for_each(|(sign, value)| sign.store(value, Relaxed));
    }

    /// Stores the position in the input.
    pub fn write_position(&self, (done, all): (u64, Option<u64>)) {
        self.position.store(done, Relaxed);
        self.position_max
            .store(all.map_or(0, |all| all.max(1)), Relaxed);
    }

    /// Stores the counts of export messages.
    pub fn write_exports(&self, now: &ExportAccounting) {
        let mut exports = self.exports.lock().unwrap_or_else(PoisonError::into_inner);
        if *exports != *now {
            exports.clone_from(now);
        }
    }

    /// Counts of export messages.
    #[must_use]
    pub fn exports(&self) -> ExportAccounting {
        let exports = self.exports.lock();
        exports.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads all counters. Each is exact, but they are not from the same instant.
    #[must_use]
    pub fn read(&self) -> VitalsReading {
        let all = self.position_max.load(Relaxed);
        VitalsReading {
            packets: self.packets.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            tuples: self.tuples.load(Relaxed),
            flows: self.flows.load(Relaxed),
            gaps: self.gaps.load(Relaxed),
            lost: self.lost.load(Relaxed),
            backlog: self.backlog_permille.load(Relaxed) as f64 / 1e3,
            sample_rate: self.rate_ppm.load(Relaxed) as f64 / 1e6,
            sampled_out: self.sampled_out.load(Relaxed),
            cut_off: self.cut_off.load(Relaxed),
            strays: self.strays.load(Relaxed),
            slice_level: self.slice_level.load(Relaxed) as u8,
            position: (self.position.load(Relaxed), (all > 0).then_some(all)),
        }
    }

    /// Creates counters for `workers` workers.
    #[must_use]
    pub fn of_all(workers: usize) -> Arc<[WorkerVitals]> {
        let new = |_| {
            let vitals = WorkerVitals::default();
            vitals.write(&VitalsReading {
                sample_rate: 1.0,
                ..VitalsReading::default()
            });
            vitals
        };
        (0..workers).map(new).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vitals_round_trip() {
        let vitals = WorkerVitals::of_all(2);
        let reading = VitalsReading {
            packets: 5,
            bytes: 700,
            gaps: 1,
            backlog: 0.25,
            sample_rate: 1.0,
            ..VitalsReading::default()
        };
        vitals[1].write(&reading);
        assert_eq!(vitals[1].read(), reading);
        assert_eq!(
            vitals[0].read(),
            VitalsReading {
                sample_rate: 1.0,
                ..VitalsReading::default()
            }
        );
        vitals[0].write_position((7, Some(9)));
        assert_eq!(vitals[0].read().position, (7, Some(9)));
    }
}
