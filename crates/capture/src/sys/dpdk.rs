//! DPDK: its environment, one port, and the packets of its queues, through `dpdk_shim.c`. Packets stay in DPDK's own
//! buffers (mbufs) until their [`MbufBatch`] are dropped, on any thread. Nothing is sent.

use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::block::BLOCK_PACKETS;

/// A started port.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct StartedPort {
    id: u16,
    /// Number of receive queues.
    pub queues: u16,
    /// Whether both directions of a flow arrive in one queue.
    pub whole_flows: bool,
    /// Promiscuous mode.
    pub promiscuous: bool,
    /// Whether the link is up.
    pub link_up: bool,
    /// Whether timestamps are in microseconds rather than nanoseconds, if they are times at all.
    pub stamps_in_us: bool,
    /// Speed of the link.
    pub speed_mbps: u32,
    driver: [c_char; 32],
    memory: *const u8,
    memory_bytes: u64,
}

/// A received packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceivedMbuf {
    /// Offset in [`MbufBatch`]; `None` if it is elsewhere, or not contiguous.
    pub start: Option<u32>,
    /// Length of the packet.
    pub len: u32,
    /// The adapter's timestamp, in units of the driver; 0 if none.
    pub stamp: u64,
}

/// A receiving port. The memory of its mbufs is kept for the life of the process.
pub(crate) struct DpdkPort {
    started: StartedPort,
}

// SAFETY: the addresses are of memory that is never freed, and of no thread in particular.
unsafe impl Send for DpdkPort {}
// SAFETY: as above; functions called on a shared port (statistics) may be called by any thread.
unsafe impl Sync for DpdkPort {}

/// Reader of one queue of a port.
pub(crate) struct DpdkQueue {
    port: Arc<DpdkPort>,
    queue: u16,
    mbufs: Box<[MbufAddress; BLOCK_PACKETS]>,
    packets: Box<[DpdkPacket; BLOCK_PACKETS]>,
}

/// Mbufs of received packets; returned to DPDK when dropped.
pub(crate) struct MbufBatch {
    port: Arc<DpdkPort>,
    mbufs: Box<[MbufAddress]>,
}

/// Address of an mbuf. Its owner may use and free it, on any thread.
type MbufAddress = usize;

#[derive(Clone, Copy)]
#[repr(C)]
struct DpdkPacket {
    /// An address.
    bytes: usize,
    stamp: u64,
    len: u32,
    total: u32,
}

const NAME_BYTES: usize = 64;

unsafe extern "C" {
    fn netalytics_eal_start(argc: c_int, argv: *mut *mut c_char) -> c_int;
    fn netalytics_thread();
    fn netalytics_port_name(id: u16, name: *mut c_char) -> c_int;
    fn netalytics_port_start(
        id: u16,
        workers: u16,
        mbufs: u32,
        promiscuous: c_int,
        port: *mut StartedPort,
    ) -> c_int;
    fn netalytics_port_stop(id: u16);
    fn netalytics_receive(
        port: u16,
        queue: u16,
        mbufs: *mut MbufAddress,
        packets: *mut DpdkPacket,
        max: u16,
    ) -> u16;
    fn netalytics_copy(mbuf: MbufAddress, to: *mut u8, len: u32);
    fn netalytics_free(mbufs: *mut MbufAddress, n: u16);
    fn netalytics_drops(port: u16, drops: *mut u64) -> c_int;
}

/// Starts DPDK's environment, once per process.
///
/// # Errors
/// `AlreadyExists` if it has been started before, otherwise DPDK's own, with more details on standard error.
pub(crate) fn start(arguments: &[String]) -> io::Result<()> {
    static STARTED: AtomicBool = AtomicBool::new(false);
    if STARTED.swap(true, Ordering::SeqCst) {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let arguments: Vec<CString> = [String::from("netalytics")]
        .iter()
        .chain(arguments)
        .map(|a| CString::new(a.as_str()))
        .collect::<Result<_, _>>()?;
    // DPDK pins the starting thread, and its children, to a core: so it gets its own thread.
    let started = thread::spawn(move || {
        // DPDK may reorder the arguments and keeps some of them.
        let mut argv: Vec<*mut c_char> = arguments.into_iter().map(CString::into_raw).collect();
        let argc = argv.len() as c_int;
        argv.push(std::ptr::null_mut());
        // SAFETY: the stated number of strings, terminated by null, and never freed.
        check(unsafe { netalytics_eal_start(argc, argv.leak().as_mut_ptr()) })
    });
    started
        .join()
        .unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
}

/// Registers the calling thread for reception.
pub(crate) fn register_thread() {
    // SAFETY: any thread may.
    unsafe { netalytics_thread() }
}

/// Existing ports, by number.
pub(crate) fn ports() -> Vec<(u16, String)> {
    (0..u16::from(u8::MAX))
        .filter_map(|id| {
            let mut name = [0; NAME_BYTES];
            // SAFETY: there is room for the longest name (RTE_ETH_NAME_MAX_LEN), and a missing port returns an error.
            check(unsafe { netalytics_port_name(id, name.as_mut_ptr()) }).ok()?;
            Some((id, text(&name)))
        })
        .collect()
}

impl DpdkPort {
    /// Starts a port with at most `workers` queues, or all of the device's if it has no hash, and `mbufs` for each.
    pub(crate) fn start(
        id: u16,
        workers: u16,
        mbufs: u32,
        promiscuous: bool,
    ) -> io::Result<DpdkPort> {
        // SAFETY: numbers, booleans that are 0 or 1, and an address that is not used: zeros are a value.
        let mut started: StartedPort = unsafe { std::mem::zeroed() };
        // SAFETY: the structure is the one that the other side fills, and its flags are 0 or 1.
        check(unsafe {
            netalytics_port_start(id, workers, mbufs, promiscuous.into(), &mut started)
        })?;
        Ok(DpdkPort { started })
    }

    pub(crate) fn started(&self) -> &StartedPort {
        &self.started
    }

    /// Packets that the port has dropped since its start.
    pub(crate) fn drops(&self) -> Option<u64> {
        let mut drops = 0;
        // SAFETY: there is a number to write to.
        check(unsafe { netalytics_drops(self.started.id, &mut drops) })
            .ok()
            .map(|()| drops)
    }
}

impl StartedPort {
    /// The driver's name.
    pub(crate) fn driver(&self) -> String {
        text(&self.driver)
    }
}

impl Drop for DpdkPort {
    fn drop(&mut self) {
        // SAFETY: the port has no receiver anymore; remaining mbufs belong to their pool, which stays.
        unsafe { netalytics_port_stop(self.started.id) }
    }
}

impl DpdkQueue {
    /// One reader for each queue of `port`.
    pub(crate) fn all(port: &Arc<DpdkPort>) -> Vec<DpdkQueue> {
        let none = DpdkPacket {
            bytes: 0,
            stamp: 0,
            len: 0,
            total: 0,
        };
        let queue = |queue| DpdkQueue {
            port: port.clone(),
            queue,
            mbufs: Box::new([0; BLOCK_PACKETS]),
            packets: Box::new([none; BLOCK_PACKETS]),
        };
        (0..port.started.queues).map(queue).collect()
    }

    /// Appends available packets, at most a block, to `received` and returns their mbufs.
    pub(crate) fn receive(&mut self, received: &mut Vec<ReceivedMbuf>) -> Option<MbufBatch> {
        let id = self.port.started.id;
        let max = BLOCK_PACKETS as u16;
        // SAFETY: there is room for `max` of both, and we alone read this queue.
        let n = unsafe {
            netalytics_receive(
                id,
                self.queue,
                self.mbufs.as_mut_ptr(),
                self.packets.as_mut_ptr(),
                max,
            )
        };
        if n == 0 {
            return None;
        }
        let n = usize::from(n);
        received.extend(
            self.packets[..n]
                .iter()
                .map(|packet| self.port.place(packet)),
        );
        Some(MbufBatch {
            port: self.port.clone(),
            mbufs: self.mbufs[..n].into(),
        })
    }
}

impl DpdkPort {
    fn place(&self, packet: &DpdkPacket) -> ReceivedMbuf {
        let &DpdkPacket {
            bytes,
            stamp,
            len,
            total,
        } = packet;
        let start = bytes.wrapping_sub(self.started.memory as usize) as u64;
        let inside =
            start.saturating_add(u64::from(len)) <= self.started.memory_bytes && len == total;
        ReceivedMbuf {
            start: u32::try_from(start).ok().filter(|_| inside),
            len: total,
            stamp,
        }
    }
}

impl MbufBatch {
    /// A copy of the first `len` bytes of packet `at`.
    pub(crate) fn copy(&self, at: usize, len: u32) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        // SAFETY: the mbuf is ours, and has space for the copied bytes.
        unsafe { netalytics_copy(self.mbufs[at], bytes.as_mut_ptr(), len) };
        bytes
    }
}

impl AsRef<[u8]> for MbufBatch {
    fn as_ref(&self) -> &[u8] {
        let StartedPort {
            memory,
            memory_bytes,
            ..
        } = self.port.started;
        // SAFETY: the pool's memory, which stays as long as the process. It also holds mbufs that the adapter writes
        // concurrently; these are never read, since packets only reference mbufs that were received and are freed by
        // our drop.
        unsafe { std::slice::from_raw_parts(memory, memory_bytes as usize) }
    }
}

impl Drop for MbufBatch {
    fn drop(&mut self) {
        // SAFETY: they are ours, each once, and at most a block's.
        unsafe { netalytics_free(self.mbufs.as_mut_ptr(), self.mbufs.len() as u16) }
    }
}

fn text(name: &[c_char]) -> String {
    let bytes: Vec<u8> = name.iter().map(|&c| c as u8).collect();
    CStr::from_bytes_until_nul(&bytes)
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn check(answer: c_int) -> io::Result<()> {
    if answer < 0 {
        Err(io::Error::from_raw_os_error(-answer))
    } else {
        Ok(())
    }
}
