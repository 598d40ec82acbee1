//! The only unsafe code: calls into the operating system, each behind a safe function.

#![allow(unsafe_code)]

pub(crate) mod af_xdp;
pub(crate) mod bpf;
pub(crate) mod datagram_socket;
#[cfg(feature = "dpdk")]
pub(crate) mod dpdk;
pub(crate) mod ethtool;
pub(crate) mod huge_pages;
pub(crate) mod interfaces;
pub(crate) mod packet_socket;
pub(crate) mod poll;
pub(crate) mod privileges;
pub(crate) mod ring;
pub(crate) mod tap;
pub(crate) mod xdp_program;

use std::fs::File;
use std::io;

use memmap2::{Advice, Mmap, MmapOptions};

/// Maps `len` bytes of `file` from `offset` on, to be read once from front to back.
pub(crate) fn map(file: &File, offset: u64, len: usize) -> io::Result<Mmap> {
    // SAFETY: the mapping is private, read-only and only ever seen as bytes that are checked as they are read, so
    // another process that writes the file changes what we read but nothing that Rust relies on; one that cuts the
    // file short below the mapped range ends us with SIGBUS, as it does every reader of mapped files.
    let map = unsafe { MmapOptions::new().offset(offset).len(len).map(file) }?;
    // Only advice: whether it is taken changes the speed and nothing else. Sequential halves the time of a file that
    // is not in memory yet, and huge pages keep it there in few large pieces, which later mappings take over whole.
    let _ = map.advise(Advice::Sequential);
    #[cfg(target_os = "linux")]
    let _ = map.advise(Advice::HugePage);
    Ok(map)
}

/// How far ahead of a record memory is asked for: more than memory delivers while one record is looked at.
const PREFETCH_AHEAD: usize = 2048;
/// How much at a time: what a longer record has behind that, its reader's own walk brings in.
const PREFETCH_MAX: usize = 4096;
const LINE: usize = 64;

/// Asks for as much memory as the record at the front of `rest` is long, but some way ahead, before it is needed.
/// Records are found one by the other's length, so that without this each waits for memory: walking a large file
/// takes twice as long.
#[inline(always)]
pub(crate) fn prefetch_ahead(rest: &[u8], record_len: usize) {
    let Some(ahead) = rest.get(PREFETCH_AHEAD..) else { return };
    // Two lines at once, without a branch that small records of different lengths would mislead.
    prefetch_line(ahead, 0);
    prefetch_line(ahead, LINE);
    let mut at = 2 * LINE;
    while at < record_len.min(PREFETCH_MAX) {
        prefetch_line(ahead, at);
        at += LINE;
    }
}

/// The line that lies `at` bytes behind the start of `bytes`, which may be beyond their end.
#[inline(always)]
fn prefetch_line(bytes: &[u8], at: usize) {
    prefetch(bytes.as_ptr().wrapping_add(at));
}

/// Asks for the cache line at `address`, which need not be anybody's, and does not wait for it.
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
