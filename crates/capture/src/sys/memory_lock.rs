//! Memory that is never swapped to a disk.

/// Locks the pages of `bytes` as far as the system permits (RLIMIT_MEMLOCK), and excludes them from core dumps.
pub fn lock_memory(bytes: &[u8]) {
    const PAGE: usize = 4096;
    let start = bytes.as_ptr() as usize & !(PAGE - 1);
    let len = bytes.as_ptr() as usize + bytes.len() - start;
    // SAFETY: both calls change only how the kernel treats the pages, not their contents; they remain with the process
    // until it ends or unmaps them. Other data in the first and last page is treated alike.
    unsafe {
        libc::mlock(start as *const libc::c_void, len);
        libc::madvise(start as *mut libc::c_void, len, libc::MADV_DONTDUMP);
    }
}
