//! The bpf(2) system call: a map of sockets, an XDP program, and the link that attaches it. Each is a file
//! descriptor: when the last one is closed, also by the death of the process, the program is detached.

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::xdp_filter::EbpfInstruction;

const MAP_CREATE: c_int = 0;
const MAP_UPDATE_ELEM: c_int = 2;
const MAP_DELETE_ELEM: c_int = 3;
const PROG_LOAD: c_int = 5;
const LINK_CREATE: c_int = 28;

const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_TYPE_XDP: u32 = 37;
const PROG_XDP_HAS_FRAGS: u32 = 1 << 5;

/// Location of a program in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum XdpHook {
    /// In the stack, with any driver.
    Generic = 1 << 1,
    /// In the driver, before the stack allocates anything.
    Native = 1 << 2,
}

#[derive(Default)]
#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    entries_max: u32,
    flags: u32,
}

#[derive(Default)]
#[repr(C)]
struct MapUpdate {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[derive(Default)]
#[repr(C)]
struct ProgLoad {
    prog_type: u32,
    n_insns: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
}

#[derive(Default)]
#[repr(C)]
struct LinkCreate {
    prog: u32,
    ifindex: u32,
    attach_type: u32,
    flags: u32,
}

/// A map from receive queues to AF_XDP sockets.
pub(crate) fn socket_map(n_queues: u32) -> io::Result<OwnedFd> {
    let attr = MapCreate {
        map_type: MAP_TYPE_XSKMAP,
        key_size: 4,
        value_size: 4,
        entries_max: n_queues,
        ..Default::default()
    };
    // SAFETY: the attribute holds no addresses.
    unsafe { bpf_fd(MAP_CREATE, &attr) }
}

/// Assigns the packets of `queue` to `socket` in `map`.
pub(crate) fn set_socket(map: &OwnedFd, queue: u32, socket: c_int) -> io::Result<()> {
    let attr = MapUpdate {
        map: map.as_raw_fd() as u32,
        key: address(&queue),
        value: address(&socket),
        ..Default::default()
    };
    // SAFETY: key and value are the 4 bytes each that the map was made for, and live until the call returns.
    unsafe { bpf(MAP_UPDATE_ELEM, &attr) }.map(|_| ())
}

/// Removes the socket of `queue` from `map`.
pub(crate) fn remove_socket(map: &OwnedFd, queue: u32) -> io::Result<()> {
    let attr = MapUpdate {
        map: map.as_raw_fd() as u32,
        key: address(&queue),
        ..Default::default()
    };
    // SAFETY: the key is the 4 bytes that the map was made for, and lives until the call returns.
    unsafe { bpf(MAP_DELETE_ELEM, &attr) }.map(|_| ())
}

/// Loads an XDP program; `frags`: it accepts packets of several buffers.
pub(crate) fn load_xdp(insns: &[EbpfInstruction], frags: bool) -> io::Result<OwnedFd> {
    load(insns, frags, &mut [])
}

/// The verifier's log for a rejected program.
pub(crate) fn verifier_log(insns: &[EbpfInstruction], frags: bool) -> String {
    // The end of a long log is relevant, which the kernel keeps since Linux 6.4.
    let mut log = vec![0; 64 << 10];
    let _ = load(insns, frags, &mut log);
    let end = log.iter().position(|&b| b == 0).unwrap_or(log.len());
    String::from_utf8_lossy(&log[..end]).into_owned()
}

fn load(insns: &[EbpfInstruction], frags: bool, log: &mut [u8]) -> io::Result<OwnedFd> {
    let mut prog_name = [0; 16];
    prog_name[..10].copy_from_slice(b"netalytics");
    let attr = ProgLoad {
        prog_type: PROG_TYPE_XDP,
        n_insns: insns.len() as u32,
        insns: insns.as_ptr() as u64,
        license: c"Apache-2.0".as_ptr() as u64,
        log_level: u32::from(!log.is_empty()),
        log_size: log.len() as u32,
        log_buf: if log.is_empty() {
            0
        } else {
            log.as_mut_ptr() as u64
        },
        prog_flags: if frags { PROG_XDP_HAS_FRAGS } else { 0 },
        prog_name,
        expected_attach_type: ATTACH_TYPE_XDP,
        ..Default::default()
    };
    // SAFETY: instructions, license and log live until the call returns, and the lengths are theirs.
    unsafe { bpf_fd(PROG_LOAD, &attr) }
}

/// Attaches `program` until the returned link is closed.
pub(crate) fn attach_xdp(program: &OwnedFd, ifindex: u32, hook: XdpHook) -> io::Result<OwnedFd> {
    let attr = LinkCreate {
        prog: program.as_raw_fd() as u32,
        ifindex,
        attach_type: ATTACH_TYPE_XDP,
        flags: hook as u32,
    };
    // SAFETY: the attribute holds no addresses.
    unsafe { bpf_fd(LINK_CREATE, &attr) }
}

fn address<T>(of: &T) -> u64 {
    std::ptr::from_ref(of) as u64
}

/// # Safety
/// As for [`bpf`]; `command` must be one that answers with a new descriptor.
unsafe fn bpf_fd<T>(command: c_int, attr: &T) -> io::Result<OwnedFd> {
    // SAFETY: the caller's promise.
    let fd = unsafe { bpf(command, attr) }?;
    // SAFETY: the kernel just made it, for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// # Safety
/// `T` must begin as the kernel's `union bpf_attr` does for `command`, and every address in it must be good for what
/// the command does there.
unsafe fn bpf<T>(command: c_int, attr: &T) -> io::Result<c_int> {
    let attr_ptr: *const c_void = std::ptr::from_ref(attr).cast();
    // SAFETY: `attr` has the stated length; the caller guarantees the rest.
    let answer = unsafe { libc::syscall(libc::SYS_bpf, command, attr_ptr, size_of::<T>()) };
    if answer < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(answer as c_int)
    }
}
