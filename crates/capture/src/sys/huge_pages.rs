//! An allocator for programs with large tables: allocations of at least a huge page use huge pages, others the system
//! allocator. Access to such a table needs one page table entry per 2 MiB instead of 4 KiB; memory is committed on
//! first access, by huge page. If the kernel has no huge pages, ordinary ones are used.

use std::alloc::{GlobalAlloc, Layout, System};

/// The allocator.
#[derive(Debug, Default)]
pub struct HugePages;

const HUGE: usize = 2 << 20;

// SAFETY: small allocations are passed to the system allocator with their layout. Large ones have a mapping of their own,
// at least as long and as aligned as the layout, identified by the same layout and unmapped once.
unsafe impl GlobalAlloc for HugePages {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_large(layout) {
            return map(layout.size());
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_large(layout) {
            return map(layout.size()); // New pages are zero.
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if is_large(layout) {
            // SAFETY: the mapping was made for this layout, and the caller promises not to use it any more.
            return unsafe { unmap(memory, layout.size().next_multiple_of(HUGE)) };
        }
        // SAFETY: the caller's promise, and it was System that allocated it.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the new size fits the alignment as the old one did.
        let new_layout = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (is_large(layout), is_large(new_layout)) {
            // SAFETY: the caller's promise, and it was System that allocated it.
            (false, false) => unsafe { System.realloc(memory, layout, size) },
            (true, true) if layout.size().next_multiple_of(HUGE) == size.next_multiple_of(HUGE) => {
                memory
            }
            _ => {
                // SAFETY: the caller promises a size that is not zero.
                let new = unsafe { self.alloc(new_layout) };
                if !new.is_null() {
                    // SAFETY: both are valid for the smaller of the sizes, and the new memory is not the old.
                    unsafe { new.copy_from_nonoverlapping(memory, layout.size().min(size)) };
                    // SAFETY: the old memory was allocated here with this layout, and is no longer used.
                    unsafe { self.dealloc(memory, layout) };
                }
                new
            }
        }
    }
}

#[inline]
fn is_large(layout: Layout) -> bool {
    cfg!(target_os = "linux") && layout.size() >= HUGE && layout.align() <= HUGE
}

/// New zeroed memory in complete huge pages; null if there is none.
#[cold]
fn map(size: usize) -> *mut u8 {
    let Some(len) = size.checked_next_multiple_of(HUGE) else {
        return std::ptr::null_mut();
    };
    let Some(reserved) = len.checked_add(HUGE) else {
        return std::ptr::null_mut();
    };
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new private mapping at an address chosen by the kernel affects no existing memory.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), reserved, rights, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return std::ptr::null_mut();
    }
    let start = start.cast::<u8>();
    let before = start.align_offset(HUGE).min(HUGE);
    let memory = start.wrapping_add(before);
    // SAFETY: the ranges before and after the used part belong to the new mapping and have not been shared.
    unsafe {
        unmap(start, before);
        unmap(memory.wrapping_add(len), HUGE - before);
    }
    // SAFETY: advice about a mapping that is ours; it changes nothing that the program can see.
    #[cfg(target_os = "linux")]
    unsafe {
        libc::madvise(memory.cast(), len, libc::MADV_HUGEPAGE);
    }
    memory
}

/// Unmaps pages. They must be whole unused pages of [`map`].
#[cold]
unsafe fn unmap(start: *mut u8, len: usize) {
    if len > 0 {
        // SAFETY: guaranteed by the caller. On failure the memory stays reserved, which is harmless.
        unsafe { libc::munmap(start.cast(), len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_grows_and_shrinks_across_the_border() {
        let layout = |size| Layout::from_size_align(size, 64).expect("a layout");
        let sizes = [
            100,
            5000,
            HUGE - 1,
            HUGE,
            HUGE + 1,
            2 * HUGE,
            3 * HUGE + 5,
            HUGE,
            900,
            7 * HUGE,
            64,
        ];
        let mut size = 64;
        // SAFETY: each piece is used within its size and given back once, with the layout it has then.
        unsafe {
            let mut memory = HugePages.alloc_zeroed(layout(size));
            for next in sizes {
                memory = HugePages.realloc(memory, layout(size), next);
                assert_eq!(memory as usize % if next >= HUGE { HUGE } else { 64 }, 0);
                memory.write(memory.read() + 1);
                memory.add(next - 1).write(7);
                size = next;
            }
            assert_eq!(
                (memory.read(), memory.add(1).read()),
                (sizes.len() as u8, 0)
            );
            HugePages.dealloc(memory, layout(size));
        }
    }

    #[test]
    fn large_memory_is_zero_and_aligned() {
        let layout = Layout::from_size_align(HUGE + 4096, 4096).expect("a layout");
        // SAFETY: used within its size and given back once.
        unsafe {
            let memory = HugePages.alloc_zeroed(layout);
            assert_eq!(memory as usize % HUGE, 0);
            assert!(
                (0..layout.size())
                    .step_by(512)
                    .all(|i| memory.add(i).read() == 0)
            );
            HugePages.dealloc(memory, layout);
        }
    }
}
