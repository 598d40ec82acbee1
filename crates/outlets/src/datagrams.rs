//! Datagrams to a collector: the socket, and the limit of their rate, because receive buffers of collectors are small.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use wire::Timestamp;

/// Default maximum datagrams per second.
pub const DATAGRAMS_PER_SECOND: u64 = 5000;
/// Time to wait at the end for the report that the port is closed.
pub const LAST_REPORT: Duration = Duration::from_millis(100);
/// Time in which unused datagrams may be sent later.
const BURST: Duration = Duration::from_millis(10);

/// Limits the rate of datagrams.
#[derive(Debug)]
pub struct DatagramPacer {
    interval: Duration,
    next: Instant,
}

impl DatagramPacer {
    /// At most `rate` datagrams per second, at least 1.
    pub fn new(rate: u64) -> DatagramPacer {
        let rate = u32::try_from(rate.max(1)).unwrap_or(u32::MAX);
        DatagramPacer {
            interval: Duration::from_secs(1) / rate,
            next: Instant::now(),
        }
    }

    /// Waits until the next datagram may be sent.
    pub fn wait(&mut self) {
        let now = Instant::now();
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        self.next = self.next.max(earliest) + self.interval;
        thread::sleep(self.next.saturating_duration_since(now));
    }
}

/// A datagram socket to the first address of a host.
///
/// # Errors
/// `io::Error` when there is no address or socket.
pub fn connected(host: &str, port: u16) -> io::Result<UdpSocket> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for to in (host, port).to_socket_addrs()? {
        let from: SocketAddr = match to {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(from).and_then(|socket| {
            socket.connect(to)?;
            Ok(socket)
        });
        match socket {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Current time.
pub fn now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}
