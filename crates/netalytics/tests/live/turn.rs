//! Limits the tests that run at the same time to the number of cores: each runs several programs, whose timing it judges.

use std::sync::{Condvar, Mutex, PoisonError};

static RUNNING: Mutex<usize> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();

/// The permission to run, until it is dropped. A test holds at most one.
pub struct TestTurn(());

impl TestTurn {
    /// Waits until fewer tests than cores are running.
    pub fn wait() -> TestTurn {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let mut running = ENDED
            .wait_while(running, |running| *running >= cores)
            .unwrap_or_else(PoisonError::into_inner);
        *running += 1;
        TestTurn(())
    }
}

impl Drop for TestTurn {
    fn drop(&mut self) {
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        ENDED.notify_one();
    }
}
