//! Requests to pass on the content of open windows before it is due. All workers of a job share the number of the last
//! request; each passes its windows on at the end of its epoch and reports the number.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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

/// Requests that the workers of a job have carried out.
#[derive(Debug)]
pub(crate) struct FlushProgress {
    /// Per worker: the last request, and the epoch at whose end it was carried out.
    workers: Vec<(u64, u64)>,
    reported: u64,
}

impl FlushProgress {
    /// No request so far.
    pub fn of_workers(workers: usize) -> FlushProgress {
        FlushProgress {
            workers: vec![(0, 0); workers],
            reported: 0,
        }
    }

    /// A worker has carried out the request `number` at the end of `epoch`.
    pub fn add(&mut self, worker: usize, number: u64, epoch: u64) {
        self.workers[worker] = (number, epoch);
    }

    /// The last request whose results are released, once; `released`: the last released epoch.
    pub fn take(&mut self, released: Option<u64>) -> Option<u64> {
        let number = self.workers.iter().map(|(number, _)| *number).min()?;
        let is_released = self
            .workers
            .iter()
            .all(|(_, epoch)| released >= Some(*epoch));
        let is_new = number > self.reported && is_released;
        is_new.then(|| {
            self.reported = number;
            number
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_carried_out_when_the_epochs_of_all_workers_are_released() {
        let mut progress = FlushProgress::of_workers(2);
        assert_eq!(progress.take(Some(9)), None);
        progress.add(0, 1, 10);
        assert_eq!(progress.take(Some(10)), None);
        progress.add(1, 2, 12);
        assert_eq!((progress.take(None), progress.take(Some(11))), (None, None));
        assert_eq!(
            (progress.take(Some(12)), progress.take(Some(13))),
            (Some(1), None)
        );
        progress.add(0, 2, 13);
        assert_eq!(progress.take(Some(13)), Some(2));
    }
}
