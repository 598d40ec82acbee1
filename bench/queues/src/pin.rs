//! Keeps the calling thread on one core, where the system allows it.

use rustix::thread::{CpuSet, sched_setaffinity};

pub fn pin(core: usize) {
    let mut set = CpuSet::new();
    set.set(core % std::thread::available_parallelism().map_or(1, |n| n.get()));
    let _ = sched_setaffinity(None, &set);
}
