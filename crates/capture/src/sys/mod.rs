//! The only unsafe code: calls into the operating system, each behind a safe function.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;

use memmap2::{Advice, Mmap, MmapOptions};

/// Maps `len` bytes of `file` from `offset` on, to be read once from front to back.
pub(crate) fn map(file: &File, offset: u64, len: usize) -> io::Result<Mmap> {
    // SAFETY: the mapping is private, read-only and only ever seen as bytes that are checked as they are read, so
    // another process that writes the file changes what we read but nothing that Rust relies on; one that cuts the
    // file short below the mapped range ends us with SIGBUS, as it does every reader of mapped files.
    let map = unsafe { MmapOptions::new().offset(offset).len(len).map(file) }?;
    // Only advice: whether it is taken changes the speed and nothing else.
    let _ = map.advise(Advice::Sequential);
    Ok(map)
}

/// Asks for the cache lines of `bytes` in `start..start + len` before they are needed. Records are found one by the
/// other's length, so that without this each waits for memory: walking a large file takes twice as long.
#[inline(always)]
pub(crate) fn prefetch(bytes: &[u8], start: usize, len: usize) {
    const LINE: usize = 64;
    #[cfg(target_arch = "x86_64")]
    if let Some(bytes) = bytes.get(start..start.saturating_add(len)) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let mut at = 0;
        while at < bytes.len() {
            // SAFETY: the address is that of a byte we may read, and a prefetch changes nothing but the caches.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(&bytes[at]).cast()) };
            at += LINE;
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, start, len, LINE);
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
