//! AF_XDP sockets: frames of memory shared with the kernel, the fill ring by which frames are lent to it, and the
//! receive ring by which they return with packets. Frames of received packets belong to this process until their
//! [`ReceivedFrames`] are dropped, on any thread; then they return to the kernel. Nothing is sent. Independent of headers and
//! clocks.

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Bytes per frame: a packet with the kernel's headroom of 256 must fit, or is split.
pub(crate) const FRAME_BYTES: usize = 4096;
/// Bytes of a packet that fit into one frame.
pub(crate) const FRAME_PACKET_BYTES: usize = FRAME_BYTES - 256;

/// Parameters of a bound socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct XdpBinding {
    /// The interface.
    pub ifindex: u32,
    /// Receive queue of the socket.
    pub queue: u32,
    /// Disable zero copy.
    pub copy: bool,
    /// Accept packets of several frames.
    pub multi: bool,
}

/// A part of a packet, or all of it: offset in the memory, length, and whether another part follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FramePiece {
    pub start: u32,
    pub len: u32,
    pub more: bool,
}

/// Kernel counters of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct XdpStatistics {
    /// Packets dropped: no free frame, too long, or the receive ring full.
    pub dropped: u64,
    /// Times the kernel found no free frame.
    pub fill_empty: u64,
}

/// A bound, receiving socket.
pub(crate) struct XdpReceiver {
    received: XdpRing<libc::xdp_desc>,
    shared: Arc<XdpSocketState>,
}

/// Frames of received packets; returned to the kernel when dropped.
pub(crate) struct ReceivedFrames {
    shared: Arc<XdpSocketState>,
    /// Addresses of the frames.
    frames: Box<[u64]>,
}

/// Resources kept alive by the receiver and all outstanding frames.
struct XdpSocketState {
    // Drop order: the fill ring is unmapped before its socket is closed; the memory goes last.
    fill: Mutex<XdpRing<u64>>,
    /// Unused, but required to bind a socket.
    _completion: XdpRing<u64>,
    socket: OwnedFd,
    memory: MemoryMapping,
}

impl XdpReceiver {
    /// Creates a socket with `n_frames` (a power of two) of memory, all lent to the kernel.
    pub(crate) fn bind(binding: XdpBinding, n_frames: u32) -> io::Result<XdpReceiver> {
        assert!(n_frames.is_power_of_two() && n_frames as usize <= u32::MAX as usize / FRAME_BYTES);
        // SAFETY: a call without addresses.
        let socket = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        let socket = check(socket)?;
        // SAFETY: the kernel just made it, for us alone.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        let memory = MemoryMapping::anonymous(n_frames as usize * FRAME_BYTES)?;
        register(&socket, &memory)?;
        // As many entries as frames: neither ring can be full.
        set(&socket, libc::XDP_UMEM_FILL_RING, &n_frames)?;
        set(&socket, libc::XDP_UMEM_COMPLETION_RING, &COMPLETION_ENTRIES)?;
        set(&socket, libc::XDP_RX_RING, &n_frames)?;
        let offsets: libc::xdp_mmap_offsets = get(&socket, libc::XDP_MMAP_OFFSETS)?;
        let fill = XdpRing::map(
            &socket,
            libc::XDP_UMEM_PGOFF_FILL_RING as i64,
            &offsets.fr,
            n_frames,
        )?;
        let at = libc::XDP_UMEM_PGOFF_COMPLETION_RING as i64;
        let completion = XdpRing::map(&socket, at, &offsets.cr, COMPLETION_ENTRIES)?;
        let received = XdpRing::map(&socket, libc::XDP_PGOFF_RX_RING, &offsets.rx, n_frames)?;
        let shared = XdpSocketState {
            fill: Mutex::new(fill),
            _completion: completion,
            socket,
            memory,
        };
        shared.lend((0..n_frames).map(|i| u64::from(i) * FRAME_BYTES as u64));
        bind(&shared.socket, binding)?;
        Ok(XdpReceiver {
            received,
            shared: Arc::new(shared),
        })
    }

    /// Number of frames: the maximum of waiting packets.
    pub(crate) fn n_frames(&self) -> usize {
        self.shared.memory.len / FRAME_BYTES
    }

    /// The socket, for the map that assigns packets to it.
    pub(crate) fn socket(&self) -> c_int {
        self.shared.socket.as_raw_fd()
    }

    /// Whether the adapter writes into this memory without a copy by the kernel.
    pub(crate) fn is_zero_copy(&self) -> io::Result<bool> {
        let options: libc::xdp_options = get(&self.shared.socket, libc::XDP_OPTIONS)?;
        Ok(options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
    }

    /// Appends up to `max` parts of received packets to `pieces` and returns their frames; `None` if there are none.
    /// Also wakes the driver if it waits for frames.
    pub(crate) fn receive(
        &mut self,
        max: usize,
        pieces: &mut Vec<FramePiece>,
    ) -> Option<ReceivedFrames> {
        self.wake_if_needed();
        let n = self.received.filled(max);
        if n == 0 {
            return None;
        }
        let memory_bytes = self.shared.memory.len as u64;
        let mut frames = Vec::with_capacity(n);
        for _ in 0..n {
            let libc::xdp_desc { addr, len, options } = self.received.take();
            // The kernel writes only into frames: any other address is its error, and is not read.
            let sound = addr
                .checked_add(u64::from(len))
                .is_some_and(|end| end <= memory_bytes);
            let (start, len) = if sound { (addr as u32, len) } else { (0, 0) };
            pieces.push(FramePiece {
                start,
                len,
                more: options & libc::XDP_PKT_CONTD != 0,
            });
            if sound {
                frames.push(addr & !(FRAME_BYTES as u64 - 1));
            }
        }
        self.received.publish();
        Some(ReceivedFrames {
            shared: self.shared.clone(),
            frames: frames.into(),
        })
    }

    /// Number of received frames not taken yet.
    pub(crate) fn n_waiting(&self) -> usize {
        self.received.filled(self.n_frames())
    }

    /// Counters since the socket was created.
    pub(crate) fn statistics(&self) -> io::Result<XdpStatistics> {
        let s: libc::xdp_statistics = get(&self.shared.socket, libc::XDP_STATISTICS)?;
        Ok(XdpStatistics {
            dropped: s.rx_dropped + s.rx_ring_full,
            fill_empty: s.rx_fill_ring_empty_descs,
        })
    }

    fn wake_if_needed(&self) {
        if self
            .shared
            .fill
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .needs_wakeup()
        {
            let fd = self.socket();
            let none = std::ptr::null_mut();
            // SAFETY: nothing is received into memory by this call: length and addresses are none.
            unsafe { libc::recvfrom(fd, none, 0, libc::MSG_DONTWAIT, none.cast(), none.cast()) };
        }
    }
}

/// Waits until one of `receivers` has packets, at most for `timeout`.
///
/// # Errors
/// When an interface was removed.
pub(crate) fn wait<'a>(
    mut receivers: impl Iterator<Item = &'a XdpReceiver> + Clone,
    timeout: Duration,
) -> io::Result<()> {
    let poll = |r: &XdpReceiver| libc::pollfd {
        fd: r.socket(),
        events: libc::POLLIN,
        revents: 0,
    };
    let mut polls: Vec<libc::pollfd> = receivers.clone().map(poll).collect();
    // SAFETY: the array has the stated length and lives until the call returns.
    let answer = unsafe {
        libc::poll(
            polls.as_mut_ptr(),
            polls.len() as libc::nfds_t,
            timeout.as_millis() as c_int,
        )
    };
    match check(answer) {
        // The removal of an interface must be queried explicitly.
        Ok(0) => receivers.try_for_each(|r| socket_error(&r.shared.socket)),
        Err(e) if e.kind() != io::ErrorKind::Interrupted => Err(e),
        _ => Ok(()),
    }
}

impl AsRef<[u8]> for ReceivedFrames {
    fn as_ref(&self) -> &[u8] {
        let MemoryMapping { start, len } = self.shared.memory;
        // SAFETY: the mapping has `len` bytes and lives as long as `self`. It also holds frames that the kernel writes
        // concurrently; these are never read, since packets only reference frames that were taken from the receive ring
        // and are returned by our drop.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), len) }
    }
}

impl Drop for ReceivedFrames {
    fn drop(&mut self) {
        self.shared.lend(self.frames.iter().copied());
    }
}

impl XdpSocketState {
    /// Lends frames to the kernel.
    fn lend(&self, frames: impl Iterator<Item = u64>) {
        let mut fill = self.fill.lock().unwrap_or_else(PoisonError::into_inner);
        frames.for_each(|frame| fill.put(frame));
        fill.publish();
    }
}

/// Nothing completes, as nothing is sent.
const COMPLETION_ENTRIES: u32 = 2;

fn register(socket: &OwnedFd, memory: &MemoryMapping) -> io::Result<()> {
    // SAFETY: a structure of numbers, for which all zeros are a value.
    let mut reg: libc::xdp_umem_reg = unsafe { std::mem::zeroed() };
    reg.addr = memory.start.as_ptr() as u64;
    reg.len = memory.len as u64;
    reg.chunk_size = FRAME_BYTES as u32;
    set(socket, libc::XDP_UMEM_REG, &reg)
}

fn bind(socket: &OwnedFd, binding: XdpBinding) -> io::Result<()> {
    let copy = if binding.copy { libc::XDP_COPY } else { 0 };
    let multi = if binding.multi { libc::XDP_USE_SG } else { 0 };
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: libc::XDP_USE_NEED_WAKEUP | copy | multi,
        sxdp_ifindex: binding.ifindex,
        sxdp_queue_id: binding.queue,
        sxdp_shared_umem_fd: 0,
    };
    let len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the address has the stated length and lives until the call returns.
    check(unsafe { libc::bind(socket.as_raw_fd(), std::ptr::from_ref(&address).cast(), len) })
        .map(|_| ())
}

/// Sets an option of the socket to `value`, whose type must be that of `option` in the kernel.
fn set<T>(socket: &OwnedFd, option: c_int, value: &T) -> io::Result<()> {
    let value = std::ptr::from_ref(value).cast();
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value has the stated length and lives until the call returns; where it holds an address (the memory's),
    // `XdpSocketState` keeps that alive for longer than the socket.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_XDP, option, value, len) })
        .map(|_| ())
}

/// An option of the socket. `T` is a kernel structure of numbers.
fn get<T: SocketOptionValue>(socket: &OwnedFd, option: c_int) -> io::Result<T> {
    // SAFETY: `T` consists of numbers only, for which all zeros are a value.
    let mut value: T = unsafe { std::mem::zeroed() };
    let mut len = size_of::<T>() as libc::socklen_t;
    let into = std::ptr::from_mut(&mut value).cast();
    // SAFETY: there are `len` bytes to write to, of which any are a value of `T`.
    check(unsafe { libc::getsockopt(socket.as_raw_fd(), T::LEVEL, option, into, &mut len) })?;
    if len as usize != size_of::<T>() {
        // An older kernel with an older structure.
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(value)
}

/// Types that [`get`] may read: numbers only.
trait SocketOptionValue {
    const LEVEL: c_int = libc::SOL_XDP;
}
impl SocketOptionValue for libc::xdp_options {}
impl SocketOptionValue for libc::xdp_mmap_offsets {}
impl SocketOptionValue for libc::xdp_statistics {}
impl SocketOptionValue for c_int {
    const LEVEL: c_int = libc::SOL_SOCKET;
}

fn socket_error(socket: &OwnedFd) -> io::Result<()> {
    match get::<c_int>(socket, libc::SO_ERROR)? {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

fn check(answer: c_int) -> io::Result<c_int> {
    if answer < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(answer)
    }
}

/// A ring of `T` shared with the kernel, with this process as its only producer or only consumer.
struct XdpRing<T> {
    /// Owns the memory that the pointers refer to.
    _mapping: MemoryMapping,
    producer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    mask: u32,
    /// Own position: after the last entry put or taken.
    at: u32,
    /// The counter owned by this process.
    ours: NonNull<AtomicU32>,
}

// SAFETY: the pointers go into the mapping that the ring owns, not to anything of the thread that made it.
unsafe impl<T> Send for XdpRing<T> {}
// SAFETY: shared references are used for atomic loads only.
unsafe impl<T> Sync for XdpRing<T> {}

impl<T: Copy> XdpRing<T> {
    /// Maps the ring at `page_offset`; `T` is the kernel's entry type, `n` (a power of two) the number of entries.
    fn map(
        socket: &OwnedFd,
        page_offset: i64,
        offsets: &libc::xdp_ring_offset,
        n: u32,
    ) -> io::Result<XdpRing<T>> {
        let len = offsets.desc as usize + n as usize * size_of::<T>();
        let mapping = MemoryMapping::shared(socket, page_offset, len)?;
        let at = |offset: u64| {
            assert!(
                offset as usize + size_of::<u32>() <= len,
                "the kernel's ring fits into its mapping"
            );
            // SAFETY: within the mapping, as was just checked.
            unsafe { mapping.start.add(offset as usize) }
        };
        let producer = at(offsets.producer).cast();
        let consumer = at(offsets.consumer).cast();
        let flags = at(offsets.flags).cast();
        let entries = at(offsets.desc).cast();
        // A ring filled by the kernel (received, completion) is at 0, as is one filled by this process: both are new.
        let ours = if page_offset == libc::XDP_UMEM_PGOFF_FILL_RING as i64 {
            producer
        } else {
            consumer
        };
        Ok(XdpRing {
            _mapping: mapping,
            producer,
            flags,
            entries,
            mask: n - 1,
            at: 0,
            ours,
        })
    }

    /// Number of entries that can be taken, at most `max`.
    fn filled(&self, max: usize) -> usize {
        // SAFETY: an aligned counter in the mapping. Acquire: the entries were written before it.
        let produced = unsafe { self.producer.as_ref() }.load(Ordering::Acquire);
        max.min(produced.wrapping_sub(self.at).min(self.mask + 1) as usize)
    }

    /// Takes the next entry; only after [`Self::filled`] has reported it.
    fn take(&mut self) -> T {
        // SAFETY: the mask keeps the place within the entries, and the kernel leaves it alone until it is published.
        let entry = unsafe { self.entries.add((self.at & self.mask) as usize).read() };
        self.at = self.at.wrapping_add(1);
        entry
    }

    /// Writes the next entry. There is always room, because the ring has as many entries as there are frames.
    fn put(&mut self, entry: T) {
        // SAFETY: the mask keeps the place within the entries, and the kernel does not read it before it is published.
        unsafe {
            self.entries
                .add((self.at & self.mask) as usize)
                .write(entry)
        };
        self.at = self.at.wrapping_add(1);
    }

    /// Publishes entries put or taken to the kernel.
    fn publish(&self) {
        // SAFETY: an aligned counter in the mapping, written by us only. Release: orders our earlier reads and writes before it.
        unsafe { self.ours.as_ref() }.store(self.at, Ordering::Release);
    }

    fn needs_wakeup(&self) -> bool {
        // SAFETY: an aligned word in the mapping.
        unsafe { self.flags.as_ref() }.load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// Mapped memory, unmapped when dropped.
struct MemoryMapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: memory of the process, not bound to a thread; the ring's protocol governs access.
unsafe impl Send for MemoryMapping {}
// SAFETY: as above.
unsafe impl Sync for MemoryMapping {}

impl MemoryMapping {
    /// Zeroed memory, populated at once so that no packet waits for a page fault.
    fn anonymous(len: usize) -> io::Result<MemoryMapping> {
        Self::map(
            len,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
            -1,
            0,
        )
    }

    fn shared(socket: &OwnedFd, offset: i64, len: usize) -> io::Result<MemoryMapping> {
        Self::map(
            len,
            libc::MAP_SHARED | libc::MAP_POPULATE,
            socket.as_raw_fd(),
            offset,
        )
    }

    fn map(len: usize, flags: c_int, fd: c_int, offset: i64) -> io::Result<MemoryMapping> {
        let anywhere = std::ptr::null_mut();
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping where the kernel finds room overlaps nothing.
        let start: *mut c_void = unsafe { libc::mmap(anywhere, len, access, flags, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start =
            NonNull::new(start.cast()).expect("nothing is mapped at address 0 unless asked for");
        Ok(MemoryMapping { start, len })
    }
}

impl Drop for MemoryMapping {
    fn drop(&mut self) {
        // SAFETY: mapped by us with this length; all pointers into it ended with their owner.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
