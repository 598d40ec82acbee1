//! The only unsafe code: system calls, each behind a safe function.

#![allow(unsafe_code)]

pub(crate) mod af_xdp;
pub(crate) mod bpf;
pub(crate) mod datagram_socket;
#[cfg(feature = "dpdk")]
pub(crate) mod dpdk;
pub(crate) mod ethtool;
pub(crate) mod huge_pages;
pub(crate) mod interfaces;
pub(crate) mod memory_lock;
pub(crate) mod packet_socket;
pub(crate) mod poll;
pub(crate) mod privileges;
pub(crate) mod ring;
pub(crate) mod tap;
pub(crate) mod xdp_program;

use std::fs::File;
use std::io;

use memmap2::{Advice, Mmap, MmapOptions};

/// Maps `len` bytes of `file` from `offset` on, for one sequential pass.
pub(crate) fn map(file: &File, offset: u64, len: usize) -> io::Result<Mmap> {
    // SAFETY: the mapping is private, read-only and only ever seen as bytes that are checked as they are read, so
    // another process that writes the file changes what we read but nothing that Rust relies on; one that cuts the
    // file short below the mapped range ends us with SIGBUS, as it does every reader of mapped files.
    let map = unsafe { MmapOptions::new().offset(offset).len(len).map(file) }?;
    // Advice only affects speed. Sequential halves the time of a file that is not cached, and huge pages keep it
    // cached in few large pages, which later mappings use as a whole.
    let _ = map.advise(Advice::Sequential);
    #[cfg(target_os = "linux")]
    let _ = map.advise(Advice::HugePage);
    Ok(map)
}

/// Distance of prefetching: more than memory delivers during the processing of one record.
const PREFETCH_AHEAD: usize = 2048;
/// Maximum bytes prefetched per record; the rest of a longer one is fetched when it is read.
const PREFETCH_MAX: usize = 4096;
const LINE: usize = 64;

/// Prefetches the length of the record at the front of `rest`, at some distance ahead. Each record is found by the
/// previous one's length, so without this every one waits for memory: reading a large file takes twice as long.
#[inline(always)]
pub(crate) fn prefetch_ahead(rest: &[u8], record_len: usize) {
    let Some(ahead) = rest.get(PREFETCH_AHEAD..) else {
        return;
    };
    // Two lines at once, without a branch that small records of different lengths would mispredict.
    prefetch_line(ahead, 0);
    prefetch_line(ahead, LINE);
    if record_len > 2 * LINE {
        let lines = (2 * LINE..record_len.min(PREFETCH_MAX)).step_by(LINE);
        lines.for_each(|at| prefetch_line(ahead, at));
    }
}

/// Prefetches the line `at` bytes after the start of `bytes`, which may be beyond their end.
#[inline(always)]
fn prefetch_line(bytes: &[u8], at: usize) {
    prefetch(bytes.as_ptr().wrapping_add(at));
}

/// Prefetches the cache line at `address`, which may be invalid, without waiting.
#[inline(always)]
pub fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch affects only the caches, and has no effect for an unmapped address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn maps_any_range() {
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(&[1, 2, 3, 4, 5]).expect("a write");
        assert_eq!(map(&file, 1, 3).expect("a mapping")[..], [2, 3, 4]);
    }
}
