//! Sockets that receive datagrams in batches: UDP, and IP packets of one protocol. Each datagram has the kernel's
//! timestamp and, if some were lost, their number.

use std::io;
use std::mem::{size_of, size_of_val, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use libc::{c_int, c_void, socklen_t};
use wire::Timestamp;

/// Datagrams received at a time.
const BATCH: usize = 64;
/// Maximum datagram length.
const DATAGRAM_LEN: usize = 65_536;
/// Space for a timestamp and a count.
const CONTROL_LEN: usize = 128;

/// A socket.
pub(crate) struct DatagramSocket {
    fd: OwnedFd,
}

/// One datagram, stored in a [`DatagramBuffer`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceivedDatagram {
    /// Length, from the start of its slot in the room.
    pub len: usize,
    /// Slot of the datagram.
    pub place: usize,
    pub from: SocketAddr,
    pub ts: Option<Timestamp>,
    /// Total losses of the socket since it was opened, if reported.
    pub lost: Option<u32>,
}

/// Receive memory.
pub(crate) struct DatagramBuffer(Vec<u8>);

impl DatagramBuffer {
    pub fn new() -> DatagramBuffer {
        DatagramBuffer(vec![0; BATCH * DATAGRAM_LEN])
    }

    pub fn bytes(&self, datagram: &ReceivedDatagram) -> &[u8] {
        let start = datagram.place * DATAGRAM_LEN;
        &self.0[start..start + datagram.len]
    }
}

impl DatagramSocket {
    /// Descriptor of the socket.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The address of a UDP socket.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        UdpSocket::from(self.fd.try_clone()?).local_addr()
    }

    /// Creates a UDP socket bound to this address.
    pub fn udp(at: SocketAddr) -> io::Result<DatagramSocket> {
        let socket = UdpSocket::bind(at)?;
        socket.set_nonblocking(true)?;
        DatagramSocket { fd: socket.into() }.stamped()
    }

    /// Creates a socket for IP packets of this protocol to this address, or to any; IPv4 packets include their IP
    /// header.
    pub fn ip(at: IpAddr, protocol: c_int) -> io::Result<DatagramSocket> {
        let family = if at.is_ipv4() {
            libc::AF_INET
        } else {
            libc::AF_INET6
        };
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: the call takes three numbers.
        let fd = check(unsafe { libc::socket(family, kind, protocol) })?;
        // SAFETY: the descriptor is new, valid, and not owned elsewhere.
        let socket = DatagramSocket {
            fd: unsafe { OwnedFd::from_raw_fd(fd) },
        };
        // SAFETY: all zeros is a valid address of any family.
        let mut address: libc::sockaddr_storage = unsafe { zeroed() };
        let place = (&raw mut address).cast::<c_void>();
        let len = match at {
            IpAddr::V4(ip) => {
                let s_addr = u32::from_ne_bytes(ip.octets());
                let v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as u16,
                    sin_port: 0,
                    sin_addr: libc::in_addr { s_addr },
                    sin_zero: [0; 8],
                };
                // SAFETY: the storage has room for an address of any family, and is aligned for it.
                unsafe { place.cast::<libc::sockaddr_in>().write(v4) };
                size_of::<libc::sockaddr_in>()
            }
            IpAddr::V6(ip) => {
                let v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as u16,
                    sin6_port: 0,
                    sin6_flowinfo: 0,
                    sin6_addr: libc::in6_addr {
                        s6_addr: ip.octets(),
                    },
                    sin6_scope_id: 0,
                };
                // SAFETY: as before.
                unsafe { place.cast::<libc::sockaddr_in6>().write(v6) };
                size_of::<libc::sockaddr_in6>()
            }
        };
        // SAFETY: the address is valid for `len` bytes and only read.
        check(unsafe { libc::bind(socket.fd.as_raw_fd(), place.cast(), len as socklen_t) })?;
        socket.stamped()
    }

    fn stamped(self) -> io::Result<DatagramSocket> {
        self.set(libc::SO_TIMESTAMPNS, 1)?;
        self.set(libc::SO_RXQ_OVFL, 1)?;
        Ok(self)
    }

    /// Sets the size of the socket buffer; returns the actual size. Exceeding the system's limit needs CAP_NET_ADMIN.
    pub fn set_buffer(&self, bytes: usize) -> io::Result<usize> {
        let wanted = c_int::try_from(bytes / 2).unwrap_or(c_int::MAX);
        if self.set(libc::SO_RCVBUFFORCE, wanted).is_err() {
            self.set(libc::SO_RCVBUF, wanted)?;
        }
        let mut got: c_int = 0;
        let mut len = size_of_val(&got) as socklen_t;
        let fd = self.fd.as_raw_fd();
        let into = (&raw mut got).cast::<c_void>();
        // SAFETY: the kernel writes at most `len` bytes to a number of that size.
        check(unsafe {
            libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, into, &raw mut len)
        })?;
        Ok(usize::try_from(got).unwrap_or(0))
    }

    /// Passes available datagrams to `take`; returns false if there are none.
    pub fn receive(
        &self,
        room: &mut DatagramBuffer,
        mut take: impl FnMut(&DatagramBuffer, &ReceivedDatagram),
    ) -> io::Result<bool> {
        // SAFETY: all zeros is a valid value of these plain structures of numbers and null pointers.
        let (mut names, mut iovs, mut messages): (
            [libc::sockaddr_storage; BATCH],
            [libc::iovec; BATCH],
            [libc::mmsghdr; BATCH],
        ) = unsafe { (zeroed(), zeroed(), zeroed()) };
        // Aligned like control messages.
        let mut controls = [[0u64; CONTROL_LEN / 8]; BATCH];
        for (i, place) in room.0.chunks_exact_mut(DATAGRAM_LEN).enumerate() {
            iovs[i] = libc::iovec {
                iov_base: place.as_mut_ptr().cast(),
                iov_len: DATAGRAM_LEN,
            };
            let header = &mut messages[i].msg_hdr;
            header.msg_name = (&raw mut names[i]).cast();
            header.msg_namelen = size_of::<libc::sockaddr_storage>() as socklen_t;
            header.msg_iov = &raw mut iovs[i];
            header.msg_iovlen = 1;
            header.msg_control = (&raw mut controls[i]).cast();
            header.msg_controllen = CONTROL_LEN;
        }
        let fd = self.fd.as_raw_fd();
        let none = std::ptr::null_mut();
        // SAFETY: every header points at memory of the lengths given there, which outlives the call.
        let received = check(unsafe {
            libc::recvmmsg(
                fd,
                messages.as_mut_ptr(),
                BATCH as u32,
                libc::MSG_DONTWAIT,
                none,
            )
        });
        let received = match received {
            Ok(n) => n as usize,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            // A response to a datagram sent from here, which does not happen; or a signal.
            Err(e) if matches!(e.raw_os_error(), Some(libc::ECONNREFUSED | libc::EINTR)) => {
                return Ok(false);
            }
            Err(e) => return Err(e),
        };
        for (place, message) in messages[..received].iter().enumerate() {
            let Some(from) = address(&names[place]) else {
                continue;
            };
            let len = (message.msg_len as usize).min(DATAGRAM_LEN);
            let mut datagram = ReceivedDatagram {
                len,
                place,
                from,
                ts: None,
                lost: None,
            };
            read_control(&message.msg_hdr, &mut datagram);
            take(room, &datagram);
        }
        Ok(received > 0)
    }

    fn set(&self, name: c_int, value: c_int) -> io::Result<()> {
        let from = (&raw const value).cast::<c_void>();
        let len = size_of_val(&value) as socklen_t;
        // SAFETY: the kernel reads `len` bytes from a value of that size.
        check(unsafe { libc::setsockopt(self.fd.as_raw_fd(), libc::SOL_SOCKET, name, from, len) })?;
        Ok(())
    }
}

/// Waits until one of the sockets is readable, `timeout` elapses, or a signal arrives.
pub(crate) fn wait<'a>(sockets: impl Iterator<Item = BorrowedFd<'a>>, timeout: Duration) {
    let poll = |socket: BorrowedFd<'_>| libc::pollfd {
        fd: socket.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let mut polls: Vec<libc::pollfd> = sockets.map(poll).collect();
    let timeout = timeout.as_millis().min(10_000) as c_int;
    // SAFETY: the array has the stated number of entries.
    unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, timeout) };
}

fn read_control(header: &libc::msghdr, datagram: &mut ReceivedDatagram) {
    // SAFETY: the kernel has left whole control messages in the buffer of the header, which lives.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while let Some(this) = message.as_ref() {
            let data = libc::CMSG_DATA(message);
            match (this.cmsg_level, this.cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    let time = data.cast::<libc::timespec>().read_unaligned();
                    datagram.ts = Some(Timestamp(time.tv_sec * 1_000_000_000 + time.tv_nsec));
                }
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                    datagram.lost = Some(data.cast::<u32>().read_unaligned());
                }
                _ => {}
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
    }
}

fn address(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let place = (&raw const *storage).cast::<c_void>();
    match c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family states the type of the address, and the storage is aligned for it.
            let v4 = unsafe { place.cast::<libc::sockaddr_in>().read() };
            let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::new(ip.into(), u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as before.
            let v6 = unsafe { place.cast::<libc::sockaddr_in6>().read() };
            Some(SocketAddr::new(
                Ipv6Addr::from(v6.sin6_addr.s6_addr).into(),
                u16::from_be(v6.sin6_port),
            ))
        }
        _ => None,
    }
}

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
