//! What a protocol has to offer: a [`Protocol`] says how to recognise it and how to start a [`StreamParser`].

use wire::{IpProtocol, Timestamp};

use crate::{Direction, Gap, Output, Segment};

/// A protocol's entry in the registry.
pub struct Protocol {
    /// Its name, for counters and messages.
    pub name: &'static str,
    /// Ports it is usually found on: only a hint that lets `probe` be content with weaker evidence.
    pub ports: &'static [u16],
    /// Whether it is spoken over TCP.
    pub tcp: bool,
    /// Whether it is spoken over UDP.
    pub udp: bool,
    /// Looks at the first bytes one end sent (all of them so far, at most a few KiB).
    pub probe: fn(&[u8], ProbeContext) -> Probe,
    /// Starts a parser for one flow.
    pub start: fn() -> Box<dyn StreamParser>,
}

/// What is known of a flow when it is probed.
#[derive(Clone, Copy, Debug)]
pub struct ProbeContext {
    /// TCP or UDP.
    pub transport: IpProtocol,
    /// The server's port (or, where the ends are not known, either port) is one of the protocol's usual ones.
    pub usual_port: bool,
    /// The bytes are not known to be the first ones of the connection.
    pub midstream: bool,
    /// Who the SYN says is speaking; `None` without a SYN.
    pub speaker: Option<Direction>,
    /// What the other side has said so far may be a request of the protocol, which this would answer.
    pub answers: bool,
}

/// What the first bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// Too few bytes to tell; ask again when there are more.
    NeedMore,
    /// Not this protocol, or not the start of a message.
    NotForUs,
    /// A client of this protocol speaks.
    Request,
    /// A server of this protocol speaks.
    Response,
}

/// How a byte stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its sender has said that it is complete (FIN).
    Fin,
    /// The connection was reset: there may have been more.
    Reset,
}

/// Reads both byte streams of one flow. Bytes of one direction are contiguous but for reported gaps; what one side had heard
/// of the other when it spoke comes before what it said ([`flow::Place::ack`]). Any cutting of the same bytes gives the
/// same tuples.
pub trait StreamParser: Send {
    /// The next bytes of one direction.
    fn on_bytes(&mut self, direction: Direction, segment: Segment<'_>, out: &mut Output<'_>);

    /// Bytes of one direction are missing; the stream goes on behind them.
    fn on_gap(&mut self, direction: Direction, gap: Gap, out: &mut Output<'_>);

    /// The stream of one direction has ended.
    fn on_end(&mut self, direction: Direction, end: End, out: &mut Output<'_>);

    /// The flow has ended (both FINs, RST, idle, end of input): open transactions are written, as halves if incomplete.
    fn on_close(&mut self, out: &mut Output<'_>);

    /// A TCP connection has been silent for the idle timeout: what waits is written now, half or whole. Whether the parser can go on
    /// where it is, because neither side has left anything unsaid; otherwise it is closed.
    fn on_idle(&mut self, out: &mut Output<'_>) -> bool {
        self.on_close(out);
        false
    }

    /// A whole datagram (UDP); `cut` of its bytes were not captured.
    fn on_datagram(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        cut: u32,
        ts: Timestamp,
        out: &mut Output<'_>,
    ) {
        let _ = (direction, bytes, cut, ts, out);
    }

    /// Whether no further tuple will come of this flow (encrypted, compressed, upgraded to something else): the
    /// caller may stop delivering bytes.
    fn is_done(&self) -> bool {
        false
    }

    /// Whether, being done, it leaves the connection to another protocol: the caller may ask whose the next bytes are.
    fn hands_over(&self) -> bool {
        false
    }
}
