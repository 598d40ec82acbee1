//! An AF_PACKET socket: each kernel request as a safe method with the kernel's error. The requests and their order
//! are chosen by `af_packet`.

use std::io;
use std::mem::{size_of, size_of_val};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use libc::{c_int, c_void, socklen_t};

use super::bpf::ClassicBpfProgram;

/// An AF_PACKET socket.
pub(crate) struct PacketSocket {
    fd: OwnedFd,
}

/// Kernel counters since the previous read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SocketStatistics {
    /// Packets dropped because the ring was full.
    pub drops: u32,
    /// Times the ring was full.
    pub freezes: u32,
}

/// Result of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketReadiness {
    Nothing,
    /// A block of the ring is ready, possibly one already taken.
    Block,
    /// The socket has an error.
    Trouble,
}

impl PacketSocket {
    /// Creates a socket that receives nothing yet: without link headers if `cooked`.
    pub fn new(cooked: bool) -> io::Result<PacketSocket> {
        let kind = if cooked {
            libc::SOCK_DGRAM
        } else {
            libc::SOCK_RAW
        };
        // SAFETY: the call takes three numbers.
        let fd = check(unsafe { libc::socket(libc::AF_PACKET, kind | libc::SOCK_CLOEXEC, 0) })?;
        // SAFETY: the descriptor is new, valid, and not owned elsewhere.
        Ok(PacketSocket {
            fd: unsafe { OwnedFd::from_raw_fd(fd) },
        })
    }

    /// Ring format 3, with `reserve` bytes free before each packet.
    pub fn set_format(&self, reserve: u32) -> io::Result<()> {
        self.set(
            libc::SOL_PACKET,
            libc::PACKET_VERSION,
            &libc::tpacket_versions::TPACKET_V3,
        )?;
        self.set(libc::SOL_PACKET, libc::PACKET_RESERVE, &reserve)
    }

    /// Creates the kernel's side of a ring: a block is handed over when it is full or `timeout` old.
    pub fn make_ring(&self, block_len: u32, blocks: u32, timeout: Duration) -> io::Result<()> {
        // The frame length must divide the block; in this format packets are stored contiguously.
        const FRAME_LEN: u32 = 2048;
        let request = libc::tpacket_req3 {
            tp_block_size: block_len,
            tp_block_nr: blocks,
            tp_frame_size: FRAME_LEN,
            tp_frame_nr: blocks * (block_len / FRAME_LEN),
            tp_retire_blk_tov: timeout.as_millis().clamp(1, 1000) as u32,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        self.set(libc::SOL_PACKET, libc::PACKET_RX_RING, &request)
    }

    /// Restricts reception to packets that match `program`.
    pub fn attach(&self, program: &ClassicBpfProgram) -> io::Result<()> {
        let instructions = program.instructions();
        let program = libc::sock_fprog {
            len: u16::try_from(instructions.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
            filter: instructions.as_ptr().cast_mut(),
        };
        self.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
    }

    /// Binds to an interface, 0 for all, and starts reception.
    pub fn bind(&self, interface_index: u32) -> io::Result<()> {
        // SAFETY: all zeros is a valid address.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = interface_index as i32;
        let len = size_of_val(&address) as socklen_t;
        // SAFETY: the address is valid for `len` bytes and only read.
        check(unsafe { libc::bind(self.fd.as_raw_fd(), (&raw const address).cast(), len) })?;
        Ok(())
    }

    /// Creates a fanout group by flow hash with this socket as its first member; returns its number, unique on the
    /// machine.
    pub fn found_fanout(&self) -> io::Result<u16> {
        self.fanout(0, libc::PACKET_FANOUT_FLAG_UNIQUEID)?;
        let value: u32 = self.option(libc::PACKET_FANOUT)?;
        Ok(value as u16)
    }

    /// Joins a fanout group.
    pub fn join_fanout(&self, group: u16) -> io::Result<()> {
        self.fanout(group, 0)
    }

    /// No rollover to another member when a ring is full: it would split flows. Fragments are reassembled, as only
    /// the first has ports to hash.
    fn fanout(&self, group: u16, flags: u32) -> io::Result<()> {
        let mode = libc::PACKET_FANOUT_HASH | libc::PACKET_FANOUT_FLAG_DEFRAG | flags;
        self.set(
            libc::SOL_PACKET,
            libc::PACKET_FANOUT,
            &(u32::from(group) | mode << 16),
        )
    }

    /// Enables promiscuous mode while the socket is open.
    pub fn set_promiscuous(&self, interface_index: u32) -> io::Result<()> {
        let request = libc::packet_mreq {
            mr_ifindex: interface_index as i32,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        self.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
    }

    /// Excludes packets sent by this machine.
    pub fn ignore_outgoing(&self) -> io::Result<()> {
        self.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1)
    }

    /// Enables and uses the timestamps of `interface`'s adapter.
    pub fn use_adapter_clock(&self, interface: &str) -> io::Result<()> {
        let mut config = libc::hwtstamp_config {
            flags: 0,
            tx_type: 0,
            rx_filter: libc::HWTSTAMP_FILTER_ALL as c_int,
        };
        let mut request = interface_request(interface)?;
        request.ifr_ifru.ifru_data = (&raw mut config).cast();
        // SAFETY: the kernel reads and writes the request and the configuration it points to; both outlive the call.
        check(unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::SIOCSHWTSTAMP, &raw mut request) })?;
        let source = libc::SOF_TIMESTAMPING_RAW_HARDWARE as c_int;
        self.set(libc::SOL_PACKET, libc::PACKET_TIMESTAMP, &source)
    }

    /// Losses since the last call.
    pub fn statistics(&self) -> io::Result<SocketStatistics> {
        let raw: [u32; 3] = self.option(libc::PACKET_STATISTICS)?;
        Ok(SocketStatistics {
            drops: raw[1],
            freezes: raw[2],
        })
    }

    /// Socket error since the last call.
    pub fn take_error(&self) -> Option<io::Error> {
        let mut error: c_int = 0;
        let mut len = size_of_val(&error) as socklen_t;
        let into = (&raw mut error).cast::<c_void>();
        // SAFETY: the kernel writes at most `len` bytes to a number of that size.
        let asked = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ERROR,
                into,
                &raw mut len,
            )
        };
        match (check(asked), error) {
            (Err(e), _) => Some(e),
            (Ok(_), 0) => None,
            (Ok(_), error) => Some(io::Error::from_raw_os_error(error)),
        }
    }

    /// Flags (`IFF_UP` …) of the interface with this name and index; `None` if it was removed.
    pub fn interface_flags(&self, name: &str, index: u32) -> Option<c_int> {
        let mut request = interface_request(name).ok()?;
        let fd = self.fd.as_raw_fd();
        // SAFETY: the kernel reads and writes the request only, which outlives the call, and leaves an index in it.
        let found = unsafe {
            (libc::ioctl(fd, libc::SIOCGIFINDEX, &raw mut request) == 0)
                .then_some(request.ifr_ifru.ifru_ifindex)
        };
        // SAFETY: as before; here it leaves flags.
        let flags = unsafe {
            (libc::ioctl(fd, libc::SIOCGIFFLAGS, &raw mut request) == 0)
                .then_some(request.ifr_ifru.ifru_flags)
        };
        flags
            .filter(|_| found == i32::try_from(index).ok())
            .map(c_int::from)
    }

    /// Waits until a block of the ring is ready, an error occurs, a signal arrives, or `timeout` elapses.
    pub fn wait(&self, timeout: Duration) -> SocketReadiness {
        let mut poll = libc::pollfd {
            fd: self.fd.as_raw_fd(),
            events: libc::POLLIN | libc::POLLERR,
            revents: 0,
        };
        // SAFETY: the array has one entry, as stated.
        let ready =
            unsafe { libc::poll(&raw mut poll, 1, timeout.as_millis().min(10_000) as c_int) };
        match poll.revents {
            _ if ready <= 0 => SocketReadiness::Nothing,
            libc::POLLIN => SocketReadiness::Block,
            _ => SocketReadiness::Trouble,
        }
    }

    pub(super) fn descriptor(&self) -> c_int {
        self.fd.as_raw_fd()
    }

    fn set<T: Copy>(&self, level: c_int, name: c_int, value: &T) -> io::Result<()> {
        let from = std::ptr::from_ref(value).cast();
        let len = size_of::<T>() as socklen_t;
        // SAFETY: the kernel reads `len` bytes from a value of that size.
        check(unsafe { libc::setsockopt(self.fd.as_raw_fd(), level, name, from, len) })?;
        Ok(())
    }

    fn option<T: Copy + Default>(&self, name: c_int) -> io::Result<T> {
        let mut value = T::default();
        let mut len = size_of::<T>() as socklen_t;
        let into = (&raw mut value).cast();
        // SAFETY: the kernel writes at most `len` bytes to a value of that size, which is numbers only.
        check(unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                name,
                into,
                &raw mut len,
            )
        })?;
        Ok(value)
    }
}

/// Hardware type of an interface (`ARPHRD_ETHER` …); needs no privilege.
pub(super) fn kind(name: &str) -> io::Result<u16> {
    // SAFETY: the call takes three numbers.
    let fd =
        check(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the descriptor is new, valid, and not owned elsewhere.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut request = interface_request(name)?;
    // SAFETY: the kernel reads and writes the request, which outlives the call.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFHWADDR, &raw mut request) })?;
    // SAFETY: after success the address is valid; its family states the kind of interface.
    Ok(unsafe { request.ifr_ifru.ifru_hwaddr.sa_family })
}

/// A request about the interface `name`.
fn interface_request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: all zeros is a valid request.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays 0.
    if name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
