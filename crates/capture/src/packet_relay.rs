//! Export messages received once and read by several processes. A port can be bound by one process only, so the relay
//! listens, and sends every packet to each reader connected to its socket in the file system. A reader that is too slow
//! loses packets, which are counted in its own source and do not affect the others.
//!
//! A frame consists of a header (length of the rest in 4 bytes, packets lost so far in 8, number of packets in 4) and the
//! packets (time in 8 bytes, length in 4, and the bytes), in little endian.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tracing::warn;
use wire::{LinkType, Timestamp};

use crate::block::{PacketBlock, PacketRecord};
use crate::live::{LiveError, StopSignal, TimestampClock};
use crate::mirror_source::{self, MirrorListenAddress, MirrorSource};
use crate::source::{PacketSource, SourceCounters, SourceError};
use crate::sys::poll::is_readable;

/// Bytes of the header, and its part after the length.
const HEADER: usize = 16;
const HEADER_REST: usize = HEADER - 4;
/// Bytes before each packet.
const PACKET_HEADER: usize = 12;
/// Maximum bytes that wait for a reader in addition to its socket's buffer.
const PENDING_BYTES_MAX: usize = 16 << 20;
/// Readers at a time; further ones are closed at once.
const READERS_MAX: usize = 256;
/// Interval at which a reader without packets returns.
const IDLE: Duration = Duration::from_millis(100);
const READ_BYTES: usize = 256 << 10;

/// A listening relay. It ends when dropped.
pub struct PacketRelay {
    stop: StopSignal,
    path: PathBuf,
    thread: Option<JoinHandle<()>>,
}

impl PacketRelay {
    /// Receives at these addresses, with `buffer_bytes` of socket buffer each, and serves readers at `path`. An
    /// existing file at `path` is replaced.
    ///
    /// # Errors
    /// When an address is not this machine's or in use, or the file cannot be created.
    pub fn start(
        addresses: &[MirrorListenAddress],
        buffer_bytes: usize,
        path: &Path,
    ) -> Result<PacketRelay, LiveError> {
        let stop = StopSignal::default();
        let source = mirror_source::open_sockets(addresses, buffer_bytes, &stop)?;
        let failed = |error: io::Error| {
            LiveError::Unsupported(format!("cannot create {}: {error}", path.display()))
        };
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let thread = thread::Builder::new()
            .name("export relay".to_owned())
            .spawn(move || serve(source, &listener))
            .map_err(failed)?;
        Ok(PacketRelay {
            stop,
            path: path.to_owned(),
            thread: Some(thread),
        })
    }

    /// Socket that [`connect`] reads from.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PacketRelay {
    fn drop(&mut self) {
        self.stop.stop();
        let _ = self.thread.take().map(JoinHandle::join);
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Passes packets on until the source ends.
fn serve(mut source: MirrorSource, listener: &UnixListener) {
    let mut readers: Vec<RelayReader> = Vec::new();
    let mut block = PacketBlock::default();
    let mut packets = Vec::new();
    while source.next_block(&mut block) {
        let lost = source.counters().lost_before_us.unwrap_or(0);
        let new = accept(listener, readers.len(), lost);
        if !new.is_empty() {
            // Exporters send their templates at the start of a connection only.
            source.close_streams();
            readers.extend(new);
        }
        packets.clear();
        for packet in block.packets() {
            packets.extend(packet.ts.0.to_le_bytes());
            packets.extend((packet.bytes.len() as u32).to_le_bytes());
            packets.extend(packet.bytes);
        }
        let count = block.len() as u32;
        readers.retain_mut(|reader| reader.send(&packets, count, lost));
    }
    source
        .errors()
        .iter()
        .for_each(|error| warn!("export messages are not received any more: {error}"));
}

/// New readers.
fn accept(listener: &UnixListener, known: usize, lost: u64) -> Vec<RelayReader> {
    let mut new = Vec::new();
    while let Ok((stream, _)) = listener.accept() {
        if known + new.len() >= READERS_MAX {
            warn!("a reader of export messages was refused: {READERS_MAX} are connected");
        } else if stream.set_nonblocking(true).is_ok() {
            new.push(RelayReader {
                stream,
                pending: Vec::new(),
                sent: 0,
                dropped: 0,
                lost_before: lost,
            });
        }
    }
    new
}

/// A connected reader.
struct RelayReader {
    stream: UnixStream,
    /// Frames, of which the first `sent` bytes are written.
    pending: Vec<u8>,
    sent: usize,
    /// Packets dropped because the reader was too slow.
    dropped: u64,
    /// Packets that the sockets had lost when the reader connected.
    lost_before: u64,
}

impl RelayReader {
    /// Sends a frame; returns false if the reader has left.
    fn send(&mut self, packets: &[u8], count: u32, lost: u64) -> bool {
        if !self.write() {
            return false;
        }
        let waiting = self.pending.len() - self.sent;
        if waiting + HEADER + packets.len() > PENDING_BYTES_MAX {
            self.dropped += u64::from(count);
            return true;
        }
        if count == 0 && waiting > 0 {
            return true;
        }
        let lost = lost.saturating_sub(self.lost_before) + self.dropped;
        let len = (HEADER_REST + packets.len()) as u32;
        self.pending.extend(len.to_le_bytes());
        self.pending.extend(lost.to_le_bytes());
        self.pending.extend(count.to_le_bytes());
        self.pending.extend(packets);
        self.write()
    }

    /// Writes as much as the reader takes now; returns false if it has left.
    fn write(&mut self) -> bool {
        while self.sent < self.pending.len() {
            match self.stream.write(&self.pending[self.sent..]) {
                Ok(n) => self.sent += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return false,
            }
        }
        if self.sent == self.pending.len() || self.sent > PENDING_BYTES_MAX {
            self.pending.drain(..self.sent);
            self.sent = 0;
        }
        true
    }
}

/// Connects to the relay at `path`. The source ends with the relay, which is an error, or when `stop` is set.
///
/// # Errors
/// `io::Error` when no relay listens there.
pub fn connect(path: &Path, stop: &StopSignal) -> io::Result<Box<dyn PacketSource>> {
    let stream = UnixStream::connect(path)?;
    Ok(Box::new(RelayedSource {
        // Plain reads are permitted when system calls are restricted.
        file: File::from(OwnedFd::from(stream)),
        path: path.to_owned(),
        stop: stop.clone(),
        received: Vec::new(),
        counters: SourceCounters {
            clock: Some(TimestampClock::System),
            lost_before_us: Some(0),
            ..SourceCounters::default()
        },
        errors: Vec::new(),
    }))
}

/// Reads the packets of a relay.
struct RelayedSource {
    file: File,
    path: PathBuf,
    stop: StopSignal,
    received: Vec<u8>,
    counters: SourceCounters,
    errors: Vec<SourceError>,
}

impl RelayedSource {
    /// Moves the first complete frame to `block`; returns false if there is none.
    fn take_frame(&mut self, block: &mut PacketBlock) -> bool {
        let Some(header) = self.received.first_chunk::<HEADER>() else {
            return false;
        };
        let len = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize + 4;
        if self.received.len() < len {
            return false;
        }
        let lost = header[4..12].iter().rev();
        let lost = lost.fold(0, |lost, byte| lost << 8 | u64::from(*byte));
        self.counters.lost_before_us = Some(lost);
        let rest = self.received.split_off(len);
        let frame = Arc::new(std::mem::replace(&mut self.received, rest));
        let buffer = block.add_buffer(frame.clone());
        let mut at = HEADER;
        while let Some(header) = frame
            .get(at..)
            .and_then(|rest| rest.first_chunk::<PACKET_HEADER>())
        {
            let [t0, t1, t2, t3, t4, t5, t6, t7, l0, l1, l2, l3] = *header;
            let len = u32::from_le_bytes([l0, l1, l2, l3]);
            let start = at + PACKET_HEADER;
            if start + len as usize > frame.len() {
                break;
            }
            block.push(PacketRecord {
                ts: Timestamp(i64::from_le_bytes([t0, t1, t2, t3, t4, t5, t6, t7])),
                link_type: LinkType::Raw,
                original_len: len,
                len,
                start: start as u32,
                buffer,
            });
            at = start + len as usize;
        }
        self.counters.count(block);
        true
    }

    /// Reads available bytes; returns false at the end.
    fn read(&mut self) -> bool {
        let known = self.received.len();
        self.received.resize(known + READ_BYTES, 0);
        let read = self.file.read(&mut self.received[known..]);
        self.received.truncate(known + *read.as_ref().unwrap_or(&0));
        let message = match read {
            Ok(0) => "the relay of export messages has ended".to_owned(),
            Ok(_) => return true,
            Err(error) if error.kind() == ErrorKind::Interrupted => return true,
            Err(error) => format!("cannot be read: {error}"),
        };
        self.errors.push(SourceError {
            path: self.path.clone(),
            offset: None,
            message,
            after_packets: self.counters.packets,
        });
        false
    }
}

impl PacketSource for RelayedSource {
    fn next_block(&mut self, block: &mut PacketBlock) -> bool {
        block.clear();
        loop {
            let ends = self.stop.is_asked();
            if self.take_frame(block) {
                if block.is_empty() {
                    // The relay has received nothing for a while.
                    block.set_clock(Timestamp(
                        mirror_source::now().0 - 2 * IDLE.as_nanos() as i64,
                    ));
                }
                return true;
            }
            let timeout = if ends { Duration::ZERO } else { IDLE };
            match is_readable(&self.file, timeout) {
                Ok(false) => return !ends,
                _ if !self.read() => return false,
                _ => {}
            }
        }
    }

    fn errors(&self) -> &[SourceError] {
        &self.errors
    }

    fn counters(&self) -> SourceCounters {
        self.counters
    }

    fn progress(&self) -> (u64, Option<u64>) {
        (self.counters.captured_bytes, None)
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    /// Payloads of all datagrams that a stopped source still delivers.
    fn payloads(source: &mut dyn PacketSource) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let mut block = PacketBlock::default();
        while source.next_block(&mut block) {
            all.extend(block.packets().map(|packet| packet.bytes[28..].to_vec()));
        }
        all
    }

    fn relay(folder: &Path) -> (PacketRelay, UdpSocket) {
        let free = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let to = free.local_addr().expect("an address");
        drop(free);
        let address = format!("sflow://{to}").parse().expect("an address");
        let relay = PacketRelay::start(&[address], 1 << 20, &folder.join("exports.sock"));
        let sender = UdpSocket::bind("127.0.0.1:0").expect("a port");
        sender.connect(to).expect("a peer");
        (relay.expect("a relay"), sender)
    }

    #[test]
    fn every_reader_gets_every_packet_after_its_start() {
        let folder = tempfile::tempdir().expect("a folder");
        let (relay, sender) = relay(folder.path());
        let stop = StopSignal::default();
        let connect = || connect(relay.path(), &stop).expect("a relay");
        let mut first = connect();
        let numbers = |from: u32, to: u32| -> Vec<Vec<u8>> {
            (from..to).map(|n| n.to_be_bytes().to_vec()).collect()
        };
        for number in numbers(0, 500) {
            sender.send(&number).expect("sent");
        }
        std::thread::sleep(Duration::from_millis(300));
        let mut second = connect();
        for number in numbers(500, 900) {
            sender.send(&number).expect("sent");
        }
        std::thread::sleep(Duration::from_millis(300));
        stop.stop();
        assert_eq!(payloads(&mut *first), numbers(0, 900));
        assert_eq!(payloads(&mut *second), numbers(500, 900));
        assert_eq!(second.counters().lost_before_us, Some(0));
        let socket = relay.path().to_owned();
        drop(relay);
        assert!(!socket.exists());
    }

    #[test]
    fn a_slow_reader_counts_its_losses_and_does_not_delay_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let (relay, sender) = relay(folder.path());
        let stop = StopSignal::default();
        let mut slow = connect(relay.path(), &stop).expect("a relay");
        let sent = 40 * (1 << 20) / 60_000;
        let mut quick = connect(relay.path(), &stop).expect("a relay");
        let reading = std::thread::spawn(move || (payloads(&mut *quick).len(), quick.counters()));
        for n in 0..sent {
            sender.send(&[n as u8; 60_000]).expect("sent");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(300));
        stop.stop();
        let (read, counters) = reading.join().expect("it reads");
        assert_eq!(
            read as u64 + counters.lost_before_us.unwrap_or(0),
            sent as u64
        );
        // The frames that waited, and then the loss with the next frame.
        let mut got = 0;
        let mut block = PacketBlock::default();
        let until = std::time::Instant::now() + Duration::from_secs(10);
        slow = {
            let mut source = slow;
            while got + source.counters().lost_before_us.unwrap_or(0) < sent as u64
                && std::time::Instant::now() < until
            {
                let _ = source.next_block(&mut block);
                got += block.len() as u64;
            }
            source
        };
        let lost = slow.counters().lost_before_us.unwrap_or(0);
        assert_eq!((got + lost, lost > 0), (sent as u64, true));
    }

    #[test]
    fn the_end_of_the_relay_is_an_error_of_its_readers() {
        let folder = tempfile::tempdir().expect("a folder");
        let (relay, _) = relay(folder.path());
        let mut reader = connect(relay.path(), &StopSignal::default()).expect("a relay");
        std::thread::sleep(Duration::from_millis(300));
        drop(relay);
        assert_eq!(payloads(&mut *reader), Vec::<Vec<u8>>::new());
        assert!(reader.errors()[0].message.contains("has ended"));
    }
}
