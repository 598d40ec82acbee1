//! IPFIX over TCP in captured packets: divides the payload of a connection into messages. Segments are read in the
//! order of capture; behind a missing one, reading continues with the next segment that begins with a message header.
//! The exporter's sequence numbers reveal messages lost in this way.

use telemetry::ClockMap;
use wire::ipfix::split_messages;
use wire::{Endpoint, TcpInfo};

/// Connections; the least recently used ones are forgotten.
const STREAMS_MAX: usize = 4096;

/// Connections that carry messages.
#[derive(Debug)]
pub(super) struct MessageStreams(ClockMap<(Endpoint, Endpoint), MessageStream>);

/// Use of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SegmentOutcome {
    /// All bytes were read or wait for more, or were read before.
    Read,
    /// Bytes of messages were skipped.
    Gap,
    /// The connection is not known to carry messages, and the segment does not begin with one.
    NotExport,
}

#[derive(Debug)]
struct MessageStream {
    /// Sequence number of the next byte.
    next: u32,
    /// The beginning of a message.
    begun: Vec<u8>,
}

impl Default for MessageStreams {
    fn default() -> MessageStreams {
        MessageStreams(ClockMap::new(STREAMS_MAX))
    }
}

impl MessageStreams {
    /// Takes a segment; passes complete messages to `take`. A connection becomes known by a segment that begins with a
    /// message header.
    pub fn on_segment(
        &mut self,
        ends: (Endpoint, Endpoint),
        tcp: &TcpInfo,
        payload: &[u8],
        mut take: impl FnMut(&[u8]),
    ) -> SegmentOutcome {
        if payload.is_empty() {
            return SegmentOutcome::Read;
        }
        let next = tcp.seq.0.wrapping_add(payload.len() as u32);
        let Some(stream) = self.0.get_mut(&ends) else {
            let Ok(used) = split_messages(payload, take) else {
                return SegmentOutcome::NotExport;
            };
            let begun = payload[used..].to_vec();
            self.0.insert(ends, MessageStream { next, begun });
            return SegmentOutcome::Read;
        };
        // Repeated bytes are negative.
        let ahead = tcp.seq.0.wrapping_sub(stream.next) as i32;
        let repeated = ahead.min(0).unsigned_abs() as usize;
        if repeated >= payload.len() {
            return SegmentOutcome::Read;
        }
        let is_cut = ahead > 0 && !stream.begun.is_empty();
        if is_cut {
            stream.begun.clear();
        }
        stream.begun.extend_from_slice(&payload[repeated..]);
        stream.next = next;
        let used = split_messages(&stream.begun, &mut take);
        stream.begun.drain(..used.unwrap_or(stream.begun.len()));
        if used.is_ok() && !is_cut {
            SegmentOutcome::Read
        } else {
            SegmentOutcome::Gap
        }
    }
}

#[cfg(test)]
mod tests {
    use testkit::packet::tcp_info;
    use wire::packet::TcpFlags;

    use super::*;

    fn message(fill: u8, len: u16) -> Vec<u8> {
        let mut message = vec![fill; usize::from(len)];
        message[..2].copy_from_slice(&[0, 10]);
        message[2..4].copy_from_slice(&len.to_be_bytes());
        message
    }

    #[test]
    fn messages_are_found_across_segments_repetitions_and_gaps() {
        use SegmentOutcome::{Gap, NotExport, Read};
        let end = |text: &str| {
            let end: std::net::SocketAddr = text.parse().expect("an end");
            Endpoint {
                addr: end.ip().into(),
                port: end.port(),
            }
        };
        let ends = (end("10.0.0.1:4000"), end("10.0.0.2:4739"));
        let mut streams = MessageStreams::default();
        let mut found = Vec::new();
        let bytes = [message(1, 100), message(2, 40), message(3, 60)].concat();
        let mut segment = |seq: u32, payload: &[u8]| {
            let tcp = tcp_info(seq, 0, TcpFlags::ACK);
            streams.on_segment(ends, &tcp, payload, |m| found.push((m[5], m.len())))
        };
        // The sequence number wraps.
        let start = u32::MAX - 50;
        assert_eq!(segment(start, b"GET / HTTP/1.1"), NotExport);
        let at = |n: usize| start.wrapping_add(n as u32);
        assert_eq!(segment(at(0), &bytes[..70]), Read);
        assert_eq!(segment(at(0), &bytes[..70]), Read);
        assert_eq!(segment(at(30), &bytes[30..120]), Read);
        assert_eq!(segment(at(120), &bytes[120..]), Read);
        // A gap within a message; the next one begins a segment.
        assert_eq!(segment(at(200), &message(4, 50)[..20]), Read);
        assert_eq!(segment(at(250), &message(5, 30)), Gap);
        assert_eq!(segment(at(280), b"GET / HTTP/1.1"), Gap);
        assert_eq!(found, [(1, 100), (2, 40), (3, 60), (5, 30)]);
    }
}
