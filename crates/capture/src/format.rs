//! Interface of capture file formats (classic pcap and pcapng). A format reads a window of the file, appends complete
//! records, and returns why it stopped. It does no I/O, so mapped files and streams use the same code.

use std::net::IpAddr;

use crate::pcap_file::PcapFile;
use crate::pcapng::PcapNg;
use crate::records::{RecordSink, RecordStop};
use crate::unsupported_formats;
use zeroize::Zeroizing;

/// A capture file format with its state.
pub(crate) enum CaptureFormat {
    /// The first bytes have not been read.
    Undetected,
    Pcap(PcapFile),
    PcapNg(PcapNg),
}

impl CaptureFormat {
    /// Bytes needed to distinguish all formats; no format is shorter.
    pub const HEAD_LEN: usize = 24;

    /// Whether bytes begin a capture; otherwise a description of them.
    pub fn check_head(window: &[u8]) -> Result<(), String> {
        Self::detect(window)
            .map(drop)
            .ok_or_else(|| unsupported_formats::describe(window))
    }

    /// Reads complete records in `window` while `records` has room. Returns the number of bytes consumed and the reason
    /// for stopping. Call it again with the window advanced by that number.
    pub fn read(&mut self, window: &[u8], records: &mut RecordSink<'_>) -> (usize, RecordStop) {
        match self {
            CaptureFormat::Pcap(pcap) => pcap.read(window, records),
            CaptureFormat::PcapNg(pcapng) => pcapng.read(window, records),
            CaptureFormat::Undetected if window.len() < Self::HEAD_LEN => {
                (0, RecordStop::Need(Self::HEAD_LEN))
            }
            CaptureFormat::Undetected => match Self::detect(window) {
                Some((format, header_len)) => {
                    *self = format;
                    let (len, stop) = self.read_behind(header_len, window, records);
                    (header_len + len, stop)
                }
                None => (0, RecordStop::Bad(unsupported_formats::describe(window))),
            },
        }
    }

    fn read_behind(
        &mut self,
        start: usize,
        window: &[u8],
        records: &mut RecordSink<'_>,
    ) -> (usize, RecordStop) {
        records.skip(start);
        self.read(&window[start..], records)
    }

    /// The format, and the length of the header consumed.
    fn detect(window: &[u8]) -> Option<(CaptureFormat, usize)> {
        if let Some(pcap) = PcapFile::of_header(window.first_chunk()?) {
            return Some((CaptureFormat::Pcap(pcap), crate::pcap_file::HEADER_LEN));
        }
        PcapNg::of_header(window.first_chunk()?).map(|pcapng| (CaptureFormat::PcapNg(pcapng), 0))
    }

    /// Message for a file that ends with `rest`, where `needed` bytes were expected; `packet` is the number of the
    /// next packet.
    pub fn cut(&self, rest: &[u8], needed: usize, packet: u64) -> String {
        match self {
            CaptureFormat::Pcap(pcap) => pcap.cut(rest, needed, packet),
            CaptureFormat::PcapNg(pcapng) => pcapng.cut(rest, needed, packet),
            CaptureFormat::Undetected if rest.is_empty() => "the file is empty".into(),
            CaptureFormat::Undetected if is_magic_start(rest) => {
                format!(
                    "the file ends inside its header: {} bytes; it was probably cut while being written",
                    rest.len()
                )
            }
            CaptureFormat::Undetected => unsupported_formats::describe(rest),
        }
    }

    /// Packets lost before the file, if it states them.
    pub fn lost_before_us(&self) -> Option<u64> {
        match self {
            CaptureFormat::PcapNg(pcapng) => pcapng.lost_before_us(),
            _ => None,
        }
    }

    /// As [`crate::source::SourceCounters::nanosecond_fractions`].
    pub fn nanosecond_fractions(&self) -> u64 {
        match self {
            CaptureFormat::Pcap(pcap) => pcap.nanosecond_fractions(),
            CaptureFormat::PcapNg(pcapng) => pcapng.nanosecond_fractions(),
            CaptureFormat::Undetected => 0,
        }
    }

    /// Requests key logs from a file whose first bytes are `window`. Returns whether it may have some.
    pub fn keep_key_logs(&mut self, window: &[u8]) -> bool {
        let Some((CaptureFormat::PcapNg(mut pcapng), _)) = Self::detect(window) else {
            return false;
        };
        pcapng.take_key_logs();
        *self = CaptureFormat::PcapNg(pcapng);
        true
    }

    /// As [`PcapNg::take_key_logs`].
    pub fn take_key_logs(&mut self) -> Vec<Zeroizing<Vec<u8>>> {
        match self {
            CaptureFormat::PcapNg(pcapng) => pcapng.take_key_logs(),
            _ => Vec::new(),
        }
    }

    /// Host names read since the last call.
    pub fn take_names(&mut self) -> Vec<(IpAddr, String)> {
        match self {
            CaptureFormat::PcapNg(pcapng) => pcapng.take_names(),
            _ => Vec::new(),
        }
    }
}

/// Whether a file that is too short to be a capture began as one.
fn is_magic_start(rest: &[u8]) -> bool {
    let magics = crate::pcap_file::MAGICS
        .iter()
        .flat_map(|m| [m.to_be_bytes(), m.to_le_bytes()]);
    magics
        .chain([crate::pcapng::SECTION_HEADER.to_be_bytes()])
        .any(|m| rest.starts_with(&m[..rest.len().min(4)]))
}

#[cfg(test)]
pub(crate) mod samples {
    use std::sync::Arc;

    use super::*;
    use crate::block::PacketBlock;

    /// Result of `format` for a window.
    pub fn read(format: &mut CaptureFormat, window: &[u8]) -> (PacketBlock, usize, RecordStop) {
        let mut block = PacketBlock::default();
        let buffer = block.add_buffer(Arc::new(window.to_vec()));
        let (len, stop) = format.read(window, &mut RecordSink::new(&mut block, buffer, 0));
        (block, len, stop)
    }
}
