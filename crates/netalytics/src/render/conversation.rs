//! Data of the two sides of a flow as text: `>` the client, `<` the server, in order, with times; or bytes in
//! hexadecimal. Terminal control characters are escaped. Output is limited to a number of bytes; the rest is counted.

use std::io::{self, Write};
use std::net::SocketAddr;

use flow::{CloseReason, Flow};
use monitor::capture_walk::FlowData;
use parsers::community_id::community_id;
use sinks::table::escape;
use sinks::{DisplayZone, units};
use wire::{FlowSide, IpProtocol, Timestamp};

/// Maximum bytes of an output line.
const LINE_BYTES_MAX: usize = 4096;
/// Pause of a side after which a heading with the time is repeated.
const PAUSE_NS: i64 = 1_000_000_000;
/// Bytes per line in hexadecimal.
const HEX_BYTES: usize = 16;

/// Format of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteFormat {
    /// Text, with other bytes escaped.
    Text,
    /// Hexadecimal, with offsets in the side's byte stream.
    Hex,
}

/// See the module documentation.
pub struct ConversationPrinter<W> {
    out: W,
    show: ByteFormat,
    /// Remaining bytes of output.
    room: u64,
    /// Flow of the last output.
    flow: Option<u64>,
    /// Side and time of the last output.
    speaker: Option<(FlowSide, Timestamp)>,
    /// Time of the first data of the flow.
    first: Option<Timestamp>,
    /// Data of an incomplete line.
    line: Vec<u8>,
    /// Offset of that data in the side's byte stream.
    line_at: u64,
    /// Bytes of sides A and B; of these, bytes not shown.
    said: [u64; 2],
    hidden: u64,
}

impl<W: Write> ConversationPrinter<W> {
    /// Limits the output to `bytes_max` bytes.
    pub fn new(out: W, show: ByteFormat, bytes_max: u64) -> ConversationPrinter<W> {
        ConversationPrinter {
            out,
            show,
            room: bytes_max,
            flow: None,
            speaker: None,
            first: None,
            line: Vec::new(),
            line_at: 0,
            said: [0; 2],
            hidden: 0,
        }
    }

    /// Handles the next event of a flow.
    ///
    /// # Errors
    /// `io::Error` of the writer.
    pub fn tell(&mut self, flow: &Flow<'_>, said: FlowData<'_>) -> io::Result<()> {
        if self.flow != Some(flow.id()) {
            self.begin(flow)?;
        }
        match said {
            FlowData::Bytes(side, bytes, ts) => self.bytes(flow, (side, ts), bytes),
            FlowData::Datagram(side, bytes, cut, ts) => {
                // Each datagram has its own heading.
                self.end_stretch(flow)?;
                self.bytes(flow, (side, ts), bytes)?;
                if cut > 0 {
                    self.note(&format!("{cut} bytes of the datagram were not captured"))?;
                }
                self.end_stretch(flow)
            }
            FlowData::Missing(side, bytes, ts) => {
                self.end_stretch(flow)?;
                let when = self.when(ts);
                self.note(&format!(
                    "{} {when}: {bytes} bytes are missing",
                    name(flow, side)
                ))
            }
            FlowData::End(side) => {
                self.end_stretch(flow)?;
                self.note(&format!("{} closed its side", name(flow, side)))
            }
            FlowData::Closed(CloseReason::Rst) => {
                self.end_stretch(flow)?;
                self.note("the connection is reset")
            }
            FlowData::Closed(_) => self.close(flow),
        }
    }

    /// Flushes the output.
    ///
    /// # Errors
    /// `io::Error` of the writer.
    pub fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn begin(&mut self, flow: &Flow<'_>) -> io::Result<()> {
        let (client, guessed) = flow.client();
        let key = flow.key();
        let guess = if guessed { " (guessed)" } else { "" };
        let end = |side| SocketAddr::new(key.end(side).addr.to_ip(), key.end(side).port);
        let asks = end(client);
        let answers = end(client.other());
        if self.flow.replace(flow.id()).is_some() {
            writeln!(self.out)?;
        }
        self.speaker = None;
        self.first = None;
        self.said = [0; 2];
        self.hidden = 0;
        self.line.clear();
        writeln!(
            self.out,
            "flow {}  {}  {}",
            units::id(flow.id()),
            flow_community_id(flow),
            transport(key.protocol)
        )?;
        writeln!(self.out, "> client {asks}{guess}\n< server {answers}\n")
    }

    fn bytes(
        &mut self,
        flow: &Flow<'_>,
        (side, ts): (FlowSide, Timestamp),
        bytes: &[u8],
    ) -> io::Result<()> {
        let pauses =
            |(before, last): (FlowSide, Timestamp)| before != side || ts.since(last) >= PAUSE_NS;
        if self.speaker.is_none_or(pauses) {
            self.end_stretch(flow)?;
            if self.room > 0 {
                let when = self.when(ts);
                self.note(&format!("{} {when}", name(flow, side)))?;
            }
        }
        self.speaker = Some((side, ts));
        let shown = bytes
            .len()
            .min(usize::try_from(self.room).unwrap_or(usize::MAX));
        let mut rest = &bytes[..shown];
        while !rest.is_empty() {
            let (to, ends) = self.line_end(side, rest);
            if self.line.is_empty() {
                self.line_at = self.said[side.index()];
            }
            self.line.extend_from_slice(&rest[..to]);
            self.said[side.index()] += to as u64;
            if ends {
                self.end_line(flow, side)?;
            }
            rest = &rest[to..];
        }
        let hidden = (bytes.len() - shown) as u64;
        self.room -= shown as u64;
        self.said[side.index()] += hidden;
        self.hidden += hidden;
        Ok(())
    }

    /// Number of these bytes that belong to the current line, and whether they complete it.
    fn line_end(&self, side: FlowSide, bytes: &[u8]) -> (usize, bool) {
        let full = match self.show {
            ByteFormat::Hex => HEX_BYTES - self.said[side.index()] as usize % HEX_BYTES,
            ByteFormat::Text => LINE_BYTES_MAX - self.line.len(),
        };
        let feed = bytes
            .iter()
            .position(|b| *b == b'\n')
            .filter(|_| self.show == ByteFormat::Text);
        match feed.map(|at| at + 1).filter(|len| *len <= full) {
            Some(len) => (len, true),
            None if bytes.len() >= full => (full, true),
            None => (bytes.len(), false),
        }
    }

    fn end_line(&mut self, flow: &Flow<'_>, side: FlowSide) -> io::Result<()> {
        let mark = if flow.client().0 == side { '>' } else { '<' };
        match self.show {
            ByteFormat::Text => {
                let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
                let line = line.strip_suffix(b"\r").unwrap_or(line);
                writeln!(self.out, "{mark} {}", visible(line))?;
            }
            ByteFormat::Hex => {
                let at = self.line_at;
                let bytes = self
                    .line
                    .iter()
                    .map(|b| format!("{b:02x} "))
                    .collect::<String>();
                let plain = |b: &u8| {
                    if matches!(b, b' '..=b'~') {
                        char::from(*b)
                    } else {
                        '.'
                    }
                };
                let text: String = self.line.iter().map(plain).collect();
                writeln!(self.out, "{mark} {at:08x}  {bytes:48} |{text}|")?;
            }
        }
        self.line.clear();
        Ok(())
    }

    /// Ends the output of a side for now.
    fn end_stretch(&mut self, flow: &Flow<'_>) -> io::Result<()> {
        match self.speaker.take() {
            Some((side, _)) if !self.line.is_empty() => self.end_line(flow, side),
            _ => Ok(()),
        }
    }

    fn close(&mut self, flow: &Flow<'_>) -> io::Result<()> {
        self.end_stretch(flow)?;
        let client = flow.client().0;
        let [asked, answered] = [client, client.other()].map(|side| self.said[side.index()]);
        let hidden = match self.hidden {
            0 => String::new(),
            n => format!("; {n} of them are not shown: --bytes-max all shows them"),
        };
        self.note(&format!(
            "client sent {asked} bytes, server {answered}{hidden}"
        ))
    }

    fn note(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "[{text}]")
    }

    /// Formats a time: the first in full, others relative to it.
    fn when(&mut self, ts: Timestamp) -> String {
        match self.first {
            None => {
                self.first = Some(ts);
                DisplayZone::default().time(ts.0)
            }
            Some(first) => {
                let after = ts.since(first);
                let sign = if after < 0 { "" } else { "+" };
                format!("{sign}{}", units::duration(after as f64))
            }
        }
    }
}

/// Name of a side.
fn name(flow: &Flow<'_>, side: FlowSide) -> &'static str {
    if flow.client().0 == side {
        "client"
    } else {
        "server"
    }
}

/// Name of a transport protocol.
pub fn transport(protocol: IpProtocol) -> String {
    match protocol {
        IpProtocol::TCP => "tcp".into(),
        IpProtocol::UDP => "udp".into(),
        IpProtocol(other) => format!("protocol {other}"),
    }
}

/// Escapes characters with an effect on a terminal; bytes that are not text become `\xNN`.
fn visible(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(&escape(chunk.valid()));
        chunk
            .invalid()
            .iter()
            .for_each(|b| out.push_str(&format!("\\x{b:02x}")));
    }
    out
}

/// The flow's Community ID.
pub fn flow_community_id(flow: &Flow<'_>) -> String {
    let key = flow.key();
    community_id(key.protocol, [key.a, key.b])
}
