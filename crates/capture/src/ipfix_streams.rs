//! IPFIX over TCP (RFC 7011 section 10.4): accepts connections of exporters, and divides their streams into messages.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use tracing::warn;
use wire::ipfix::split_messages;

use crate::sys::poll::is_readable;

/// Connections at a time; further ones are closed at once.
const CONNECTIONS_MAX: usize = 1024;
/// Bytes read from a connection at a time.
const READ_BYTES: usize = 64 << 10;

/// A listening socket with its connections.
pub(crate) struct IpfixStreams {
    listener: TcpListener,
    connections: Vec<IpfixConnection>,
    buffer: Vec<u8>,
    /// Whether the last connection could not be accepted.
    is_failing: bool,
}

struct IpfixConnection {
    stream: TcpStream,
    peer: SocketAddr,
    /// The beginning of a message.
    begun: Vec<u8>,
}

impl IpfixStreams {
    /// Listens at `address`.
    pub fn listen(address: SocketAddr) -> io::Result<IpfixStreams> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(IpfixStreams {
            listener,
            connections: Vec::new(),
            buffer: vec![0; READ_BYTES],
            is_failing: false,
        })
    }

    /// Passes complete messages with the address of their exporter to `take`; does not wait.
    pub fn receive(&mut self, mut take: impl FnMut(SocketAddr, &[u8])) {
        loop {
            let (stream, peer) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    if !std::mem::replace(&mut self.is_failing, true) {
                        warn!("connections of exporters cannot be accepted: {error}");
                    }
                    break;
                }
            };
            self.is_failing = false;
            if self.connections.len() >= CONNECTIONS_MAX {
                warn!("{peer} was refused: {CONNECTIONS_MAX} exporters are connected");
                continue;
            }
            self.connections.push(IpfixConnection {
                stream,
                peer,
                begun: Vec::new(),
            });
        }
        let buffer = &mut self.buffer;
        self.connections
            .retain_mut(|connection| connection.receive(buffer, &mut take));
    }

    /// Closes all connections.
    pub fn close(&mut self) {
        self.connections.clear();
    }

    /// Descriptors that become readable with new data.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let streams = self.connections.iter().map(|of| of.stream.as_fd());
        [self.listener.as_fd()].into_iter().chain(streams)
    }
}

impl IpfixConnection {
    /// Reads available bytes; returns false if the connection has ended.
    fn receive(&mut self, buffer: &mut [u8], take: &mut impl FnMut(SocketAddr, &[u8])) -> bool {
        if !is_readable(&self.stream, Duration::ZERO).unwrap_or(true) {
            return true;
        }
        match self.stream.read(buffer) {
            Ok(0) => {
                if !self.begun.is_empty() {
                    warn!(
                        "{} closed its connection in the middle of a message",
                        self.peer
                    );
                }
                return false;
            }
            Ok(len) => self.begun.extend_from_slice(&buffer[..len]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return true,
            Err(error) => {
                warn!("the connection of {} failed: {error}", self.peer);
                return false;
            }
        }
        let Ok(used) = split_messages(&self.begun, |message| take(self.peer, message)) else {
            warn!("{} sends no IPFIX; its connection is closed", self.peer);
            return false;
        };
        self.begun.drain(..used);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Instant;

    use super::*;

    fn message(fill: u8, len: u16) -> Vec<u8> {
        let mut message = vec![fill; usize::from(len)];
        message[..2].copy_from_slice(&[0, 10]);
        message[2..4].copy_from_slice(&len.to_be_bytes());
        message
    }

    /// Messages received within two seconds, until there are `n`.
    fn received(streams: &mut IpfixStreams, n: usize) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let started = Instant::now();
        while all.len() < n && started.elapsed() < Duration::from_secs(10) {
            streams.receive(|_, message| all.push(message.to_vec()));
            std::thread::sleep(Duration::from_millis(1));
        }
        all
    }

    #[test]
    fn streams_are_divided_into_messages() {
        let mut streams =
            IpfixStreams::listen("127.0.0.1:0".parse().expect("an address")).expect("a free port");
        let to = streams.listener.local_addr().expect("an address");
        let sent: Vec<Vec<u8>> = (0..500).map(|n| message(n as u8, 16 + 97 * n)).collect();
        let bytes = sent.concat();
        let sender = std::thread::spawn(move || {
            let mut stream = TcpStream::connect(to).expect("a connection");
            for part in bytes.chunks(7919) {
                stream.write_all(part).expect("sent");
            }
        });
        assert_eq!(received(&mut streams, 500), sent);
        sender.join().expect("sent");
    }

    #[test]
    fn other_streams_are_closed() {
        let mut streams =
            IpfixStreams::listen("127.0.0.1:0".parse().expect("an address")).expect("a free port");
        let to = streams.listener.local_addr().expect("an address");
        for bytes in [&b"GET / HTTP/1.1\r\n"[..], &[0, 10, 0, 3, 1]] {
            let mut stream = TcpStream::connect(to).expect("a connection");
            stream.write_all(bytes).expect("sent");
            let started = Instant::now();
            while started.elapsed() < Duration::from_secs(10) {
                streams.receive(|_, _| panic!("no message"));
                stream
                    .set_read_timeout(Some(Duration::from_millis(10)))
                    .expect("a timeout");
                if !matches!(stream.read(&mut [0; 1]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
                {
                    break;
                }
            }
            assert!(streams.connections.is_empty());
        }
    }
}
