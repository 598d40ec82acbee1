//! Requests to pass on the content of open windows before it is due. All workers of a job share the number of the last
//! request; each passes its windows on at the end of its epoch and reports the number.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wire::Timestamp;

/// Number of the last request; 0: none.
#[derive(Clone, Debug, Default)]
pub struct FlushRequests(Arc<AtomicU64>);

impl FlushRequests {
    /// Adds the request `number`; it includes those with smaller numbers.
    pub fn request(&self, number: u64) {
        self.0.fetch_max(number, Ordering::Relaxed);
    }

    /// Number of the last request.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A request that all workers have carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletedFlush {
    /// Number of the request.
    pub number: u64,
    /// Event time of the worker that was the last to carry it out.
    pub until: Timestamp,
}

/// Requests that the workers of a job have carried out.
#[derive(Debug)]
pub(crate) struct FlushProgress {
    workers: Vec<WorkerFlush>,
    reported: u64,
}

/// The last request that a worker has carried out; number 0: none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkerFlush {
    pub number: u64,
    /// The epoch at whose end the request was carried out.
    pub epoch: u64,
    /// Event time of that end.
    pub clock: Timestamp,
}

impl FlushProgress {
    /// No request so far.
    pub fn of_workers(workers: usize) -> FlushProgress {
        FlushProgress {
            workers: vec![
                WorkerFlush {
                    number: 0,
                    epoch: 0,
                    clock: Timestamp::MIN,
                };
                workers
            ],
            reported: 0,
        }
    }

    /// Adds a request that a worker has carried out.
    pub fn add(&mut self, worker: usize, flush: WorkerFlush) {
        self.workers[worker] = flush;
    }

    /// The last request whose results are released, once; `released`: the last released epoch.
    pub fn take(&mut self, released: Option<u64>) -> Option<CompletedFlush> {
        let number = self.workers.iter().map(|flush| flush.number).min()?;
        let until = self.workers.iter().map(|flush| flush.clock).max()?;
        let is_released = self
            .workers
            .iter()
            .all(|flush| released >= Some(flush.epoch));
        let is_new = number > self.reported && is_released;
        is_new.then(|| {
            self.reported = number;
            CompletedFlush { number, until }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_carried_out_when_the_epochs_of_all_workers_are_released() {
        let mut progress = FlushProgress::of_workers(2);
        let flush = |number, epoch| WorkerFlush {
            number,
            epoch,
            clock: Timestamp(epoch as i64 * 100),
        };
        let taken = |progress: &mut FlushProgress, released| {
            let taken = progress.take(released);
            taken.map(|CompletedFlush { number, until }| (number, until.0))
        };
        assert_eq!(taken(&mut progress, Some(9)), None);
        progress.add(0, flush(1, 10));
        assert_eq!(taken(&mut progress, Some(10)), None);
        progress.add(1, flush(2, 12));
        assert_eq!(taken(&mut progress, None), None);
        assert_eq!(taken(&mut progress, Some(11)), None);
        assert_eq!(taken(&mut progress, Some(12)), Some((1, 1200)));
        assert_eq!(taken(&mut progress, Some(13)), None);
        progress.add(0, flush(2, 13));
        assert_eq!(taken(&mut progress, Some(13)), Some((2, 1300)));
    }
}
