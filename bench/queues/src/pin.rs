//! Waiting without a lock, and threads that stay where they are put: `pin` keeps the calling thread on one core, where there is that core and the system allows it.

use std::cell::Cell;

use rustix::thread::{CpuSet, sched_setaffinity};

pub fn pin(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    let _ = sched_setaffinity(None, &set);
}

/// Between two tries of a queue that cannot wait itself; gives the core away after a while.
pub fn pause() {
    thread_local!(static WAITED: Cell<u32> = const { Cell::new(0) });
    let waited = WAITED.get().wrapping_add(1);
    WAITED.set(waited);
    if waited.is_multiple_of(2000) { std::thread::yield_now() } else { std::hint::spin_loop() }
}
