//! Byte limit for messages between the workers and the consumer of results. A worker blocks while the limit
//! is exceeded, so memory stays bounded if the consumer is slower than the workers.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes in flight. Clones share one count.
#[derive(Clone)]
pub(crate) struct InFlightBytes(Arc<InFlightState>);

struct InFlightState {
    bytes: Mutex<usize>,
    bytes_max: usize,
    less: Condvar,
}

/// Bytes of one message; subtracted when dropped.
pub(crate) struct InFlightWeight {
    shared: Arc<InFlightState>,
    bytes: usize,
}

impl InFlightBytes {
    /// Creates a count with a limit of `bytes_max`.
    pub fn new(bytes_max: usize) -> InFlightBytes {
        InFlightBytes(Arc::new(InFlightState {
            bytes: Mutex::new(0),
            bytes_max,
            less: Condvar::new(),
        }))
    }

    /// Blocks until `bytes` fit. A message above the limit is admitted alone.
    pub fn enter(&self, bytes: usize) -> InFlightWeight {
        let shared = self.0.clone();
        let mut now = shared.lock();
        while *now > 0 && *now + bytes > shared.bytes_max {
            now = shared
                .less
                .wait(now)
                .unwrap_or_else(PoisonError::into_inner);
        }
        *now += bytes;
        drop(now);
        InFlightWeight { shared, bytes }
    }
}

impl InFlightState {
    /// Ignores poisoning: a panic cannot leave a single number inconsistent.
    fn lock(&self) -> MutexGuard<'_, usize> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for InFlightWeight {
    fn drop(&mut self) {
        *self.shared.lock() -= self.bytes;
        self.shared.less.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    #[test]
    fn senders_wait_for_free_capacity() {
        let in_flight = InFlightBytes::new(10);
        let (tell, told) = sync_channel(8);
        let held = in_flight.enter(7);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                drop(in_flight.enter(3));
                tell.send("beside it").expect("somebody listens");
                let _too_much = in_flight.enter(8);
                tell.send("after it").expect("somebody listens");
            });
            assert_eq!(told.recv(), Ok("beside it"));
            assert!(told.try_recv().is_err(), "7 and 8 are more than 10");
            drop(held);
        });
        assert_eq!(told.try_recv(), Ok("after it"));
        drop(in_flight.enter(11));
    }
}
