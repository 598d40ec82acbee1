//! Interface of a protocol: a [`ProtocolDefinition`] defines how to recognize it and how to start a [`StreamParser`].

use wire::{IpProtocol, Timestamp};

use crate::{Direction, ParserOutput, StreamGap, StreamSegment};

/// A protocol's entry in the registry.
pub struct ProtocolDefinition {
    /// Name for counters and messages.
    pub name: &'static str,
    /// Usual server ports: a hint that lets `probe` accept weaker evidence.
    pub ports: &'static [u16],
    /// Whether it uses TCP.
    pub tcp: bool,
    /// Whether it uses UDP.
    pub udp: bool,
    /// Examines the first bytes that one end sent (all of them so far, at most a few KiB).
    pub probe: fn(&[u8], ProbeContext) -> ProbeResult,
    /// Creates a parser for one flow.
    pub start: fn() -> Box<dyn StreamParser>,
}

/// Facts about a flow that a probe may use.
#[derive(Clone, Copy, Debug)]
pub struct ProbeContext {
    /// TCP or UDP.
    pub transport: IpProtocol,
    /// The server's port (or either port, if the roles are unknown) is a usual port of the protocol.
    pub usual_port: bool,
    /// The bytes may not be the first ones of the connection.
    pub midstream: bool,
    /// Direction of the bytes by the SYN; `None` without a SYN.
    pub speaker: Option<Direction>,
    /// The other side's bytes so far may be a request of the protocol, which these bytes would answer.
    pub answers: bool,
}

/// Result of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeResult {
    /// Too few bytes; probe again with more.
    NeedMore,
    /// Not this protocol, or not the start of a message.
    NotForUs,
    /// A message of a client.
    Request,
    /// A message of a server.
    Response,
}

/// Silence after which a parser that asked for it is called, in nanoseconds.
pub const SILENCE_NS: i64 = 500_000_000;

/// End of a byte stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// FIN: the stream is complete.
    Fin,
    /// RST: the stream may be incomplete.
    Reset,
}

/// Parses both byte streams of one flow. Bytes of one direction are contiguous except for reported gaps; a
/// segment is delivered after the bytes that its sender had received ([`flow::StreamPlace::ack`]). The tuples do
/// not depend on segment boundaries.
pub trait StreamParser: Send {
    /// Handles the next bytes of one direction.
    fn on_bytes(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    );

    /// Handles a gap in one direction; the stream continues after it.
    fn on_gap(&mut self, direction: Direction, gap: StreamGap, out: &mut ParserOutput<'_>);

    /// Handles the end of one direction.
    fn on_end(&mut self, direction: Direction, end: StreamEnd, out: &mut ParserOutput<'_>);

    /// Handles the end of the flow (both FINs, RST, idle timeout, end of input): open transactions are
    /// written, as halves if incomplete.
    fn on_close(&mut self, out: &mut ParserOutput<'_>);

    /// Handles the idle timeout of a TCP connection: pending transactions are written, complete or as halves.
    /// Returns whether the parser can continue at its position, which requires that no message is in
    /// progress; otherwise it is closed.
    fn on_idle(&mut self, out: &mut ParserOutput<'_>) -> bool {
        self.on_close(out);
        false
    }

    /// Handles the time for which it asked with [`ParserOutput::wake`], or a later one.
    fn on_silence(&mut self, now: Timestamp, out: &mut ParserOutput<'_>) {
        let _ = (now, out);
    }

    /// Handles a UDP datagram; `cut` of its bytes were not captured.
    fn on_datagram(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        cut: u32,
        ts: Timestamp,
        out: &mut ParserOutput<'_>,
    ) {
        let _ = (direction, bytes, cut, ts, out);
    }

    /// Whether no further tuple will follow (encrypted, compressed, upgraded): the caller may stop delivering
    /// bytes.
    fn is_done(&self) -> bool {
        false
    }

    /// If a finished parser leaves the connection to another protocol, to be recognized by the next bytes: the
    /// number of bytes at the end of the last segment that belong to it.
    fn hands_over(&self) -> Option<usize> {
        None
    }
}
