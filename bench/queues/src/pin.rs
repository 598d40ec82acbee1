//! Waiting without locks, and pinned threads: `pin` binds the calling thread to a core if possible.

use std::cell::Cell;

use rustix::thread::{CpuSet, sched_setaffinity};

pub fn pin(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    let _ = sched_setaffinity(None, &set);
}

/// Pause between attempts on a queue that cannot block; yields the core after a while.
pub fn pause() {
    thread_local!(static WAITED: Cell<u32> = const { Cell::new(0) });
    let waited = WAITED.get().wrapping_add(1);
    WAITED.set(waited);
    if waited.is_multiple_of(2000) {
        std::thread::yield_now()
    } else {
        std::hint::spin_loop()
    }
}
