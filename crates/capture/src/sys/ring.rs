//! Memory shared by an AF_PACKET socket and the kernel: blocks of packets that are handed back and forth. A
//! [`RingBlock`] belongs to this process until it is dropped, on any thread; it keeps the mapping alive. Blocks are
//! bytes here, parsed by `af_packet`.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::packet_socket::PacketSocket;

/// Offset of a block's status (`tpacket_block_desc`): after the version and the offset of private bytes.
const STATUS_OFFSET: usize = 8;

/// The ring.
pub(crate) struct PacketRing {
    start: NonNull<u8>,
    block_len: usize,
    /// Blocks owned by this process: exactly those with a [`RingBlock`].
    taken: Box<[AtomicBool]>,
}

// SAFETY: the mapping belongs to the process and not to a thread; who may touch which block is settled by `taken` and
// the blocks' own status, both atomic.
unsafe impl Send for PacketRing {}
// SAFETY: as before.
unsafe impl Sync for PacketRing {}

impl PacketRing {
    /// Maps the ring of `socket`, created with the same lengths.
    pub fn map(
        socket: &PacketSocket,
        block_len: usize,
        blocks: usize,
    ) -> io::Result<Arc<PacketRing>> {
        let len = block_len
            .checked_mul(blocks)
            .ok_or(io::ErrorKind::InvalidInput)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at a place that the kernel chooses touches no memory of ours.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                protection,
                libc::MAP_SHARED,
                socket.descriptor(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let taken = (0..blocks).map(|_| AtomicBool::new(false)).collect();
        Ok(Arc::new(PacketRing {
            start,
            block_len,
            taken,
        }))
    }

    /// Number of blocks.
    pub fn blocks(&self) -> usize {
        self.taken.len()
    }

    /// Number of blocks from `next` on that are filled and not taken. The kernel fills them in order.
    pub fn n_ready(&self, next: usize) -> usize {
        let is_ready = |n: usize| {
            let index = (next + n) % self.taken.len();
            !self.taken[index].load(Ordering::Acquire)
                && self.status(index).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
        };
        let mut ready = 0;
        let mut unknown = self.taken.len();
        while ready < unknown {
            let middle = ready + (unknown - ready) / 2;
            if is_ready(middle) {
                ready = middle + 1
            } else {
                unknown = middle
            }
        }
        ready
    }

    /// Takes block `index` if it is filled and not taken.
    pub fn take(self: &Arc<Self>, index: usize) -> Option<RingBlock> {
        // Only the thread that reads packets takes blocks, so nothing happens between the two checks.
        let taken = &self.taken[index];
        if taken.load(Ordering::Acquire)
            || self.status(index).load(Ordering::Acquire) & libc::TP_STATUS_USER == 0
            || taken.swap(true, Ordering::AcqRel)
        {
            return None;
        }
        Some(RingBlock {
            ring: self.clone(),
            index,
        })
    }

    fn status(&self, index: usize) -> &AtomicU32 {
        // SAFETY: the status is an aligned number inside the mapping, which lives as long as `self`; the kernel and we
        // touch it as a whole.
        unsafe { AtomicU32::from_ptr(self.block(index).add(STATUS_OFFSET).as_ptr().cast()) }
    }

    fn block(&self, index: usize) -> NonNull<u8> {
        assert!(index < self.taken.len(), "a block of this ring");
        // SAFETY: all blocks lie in the mapping.
        unsafe { self.start.add(index * self.block_len) }
    }
}

impl Drop for PacketRing {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, of this length, and no block of it is left: each holds the ring.
        unsafe {
            libc::munmap(
                self.start.as_ptr().cast(),
                self.taken.len() * self.block_len,
            )
        };
    }
}

/// A filled block that the kernel does not touch until this is dropped.
pub(crate) struct RingBlock {
    ring: Arc<PacketRing>,
    index: usize,
}

impl RingBlock {
    /// Bytes of the block, mutable to restore stripped VLAN tags.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the block lies in the mapping, its status gave it to us, so that the kernel does not touch it, and
        // `taken` allows one `RingBlock` of it only, which is borrowed.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.ring.block(self.index).as_ptr(),
                self.ring.block_len,
            )
        }
    }
}

impl AsRef<[u8]> for RingBlock {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: as in `bytes_mut`.
        unsafe {
            std::slice::from_raw_parts(self.ring.block(self.index).as_ptr(), self.ring.block_len)
        }
    }
}

impl Drop for RingBlock {
    fn drop(&mut self) {
        self.ring
            .status(self.index)
            .store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.ring.taken[self.index].store(false, Ordering::Release);
    }
}
