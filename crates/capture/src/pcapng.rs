//! pcapng files (<https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-03.html>): sections in either byte order,
//! their interfaces, packets in enhanced, simple, and obsolete blocks, host names, and interface statistics. Other
//! blocks, including decryption secrets and custom ones, are skipped. A simple packet block has no time and gets that
//! of the previous packet.

mod fast_path;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::{LinkType, Timestamp};

use crate::records::{PacketLengths, RECORD_MAX, RecordSink, RecordStop};
use crate::sys;

/// Type of the block that starts a file and each section; equal in both byte orders.
pub(crate) const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

const INTERFACE_DESCRIPTION: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const NAME_RESOLUTION: u32 = 4;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;

/// Maximum interfaces stored per section.
const INTERFACES_MAX: usize = 1 << 16;
/// Maximum host names read from a file.
const NAMES_MAX: usize = 1 << 16;
/// Maximum length of a host name (RFC 1035 §2.3.4).
const NAME_LEN_MAX: usize = 255;

/// Type, length, and in a section header the byte-order magic.
const BLOCK_HEAD: usize = 12;

/// State of the current section.
#[derive(Debug)]
pub(crate) struct PcapNg {
    big_endian: bool,
    interfaces: Vec<PcapngInterface>,
    last_ts: Timestamp,
    lost_in_closed_sections: Option<u64>,
    names: Vec<(IpAddr, String)>,
    names_seen: usize,
    /// As [`crate::source::SourceCounters::nanosecond_fractions`].
    finer: u64,
}

#[derive(Debug)]
struct PcapngInterface {
    link_type: LinkType,
    snaplen: u32,
    resolution: TimestampResolution,
    offset_nanos: i64,
    lost: Option<u64>,
}

/// Conversion of timestamps to nanoseconds (option `if_tsresol`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimestampResolution {
    /// 10^-n seconds, n up to 9: factor.
    Multiply(u64),
    /// 10^-n seconds, n above 9: divisor.
    Divide(u64),
    /// 2^-n seconds: n.
    Binary(u32),
}

impl TimestampResolution {
    fn of_option(value: u8) -> TimestampResolution {
        match value {
            0..=9 => Self::Multiply(10u64.pow(9 - u32::from(value))),
            // More digits than u64 has give 0 for any u64.
            10..=0x7f => Self::Divide(10u64.checked_pow(u32::from(value) - 9).unwrap_or(u64::MAX)),
            _ => Self::Binary(u32::from(value & 0x7f)),
        }
    }

    #[inline]
    fn nanos(self, units: u64) -> i64 {
        let nanos = match self {
            Self::Multiply(by) => u128::from(units) * u128::from(by),
            Self::Divide(by) => u128::from(units / by),
            Self::Binary(n) => (u128::from(units) * 1_000_000_000) >> n,
        };
        i64::try_from(nanos).unwrap_or(i64::MAX)
    }

    /// The coarsest unit in which a time is not beyond the year 2262, if the stated one is coarser than nanoseconds:
    /// for example, a writer that counts nanoseconds without an option states microseconds.
    #[cold]
    fn finer(self, units: u64) -> Option<TimestampResolution> {
        let Self::Multiply(stated) = self else {
            return None;
        };
        let fits = |by: &u64| {
            units
                .checked_mul(*by)
                .is_some_and(|nanos| i64::try_from(nanos).is_ok())
        };
        [1_000_000, 1000, 1]
            .into_iter()
            .filter(|by| *by < stated)
            .find(fits)
            .map(Self::Multiply)
    }
}

impl PcapNg {
    /// Parses a file's first bytes; `None`: not a section header.
    pub fn of_header(head: &[u8; BLOCK_HEAD]) -> Option<PcapNg> {
        let [kind, _, _] = head.as_chunks::<4>().0 else {
            unreachable!("12 bytes are three words")
        };
        (u32::from_le_bytes(*kind) == SECTION_HEADER).then(|| PcapNg {
            big_endian: false,
            interfaces: Vec::new(),
            last_ts: Timestamp::default(),
            lost_in_closed_sections: None,
            names: Vec::new(),
            names_seen: 0,
            finer: 0,
        })
    }

    /// As [`crate::format::CaptureFormat::read`].
    pub fn read(&mut self, window: &[u8], records: &mut RecordSink<'_>) -> (usize, RecordStop) {
        let mut at = 0;
        loop {
            at += self.read_fast(&window[at..], at, records);
            if records.is_full() {
                return (at, RecordStop::Full);
            }
            match self.read_block(&window[at..], at, records) {
                Ok(len) => at += len,
                Err(stop) => return (at, stop),
            }
        }
    }

    /// Reads the block at the front of `rest`, at `at` in the window; returns its length.
    fn read_block(
        &mut self,
        rest: &[u8],
        at: usize,
        records: &mut RecordSink<'_>,
    ) -> Result<usize, RecordStop> {
        let head: &[u8; BLOCK_HEAD] = rest.first_chunk().ok_or(RecordStop::Need(BLOCK_HEAD))?;
        let [kind, len, magic] = head.as_chunks::<4>().0 else {
            unreachable!("12 bytes are three words")
        };
        let big_endian = match u32::from_le_bytes(*kind) {
            SECTION_HEADER => section_order(*magic)?,
            _ => self.big_endian,
        };
        let word = if big_endian {
            u32::from_be_bytes
        } else {
            u32::from_le_bytes
        };
        let kind = word(*kind);
        let stated_len = word(*len);
        let len = stated_len as usize;
        if !(BLOCK_HEAD..=RECORD_MAX).contains(&len) || !len.is_multiple_of(4) {
            return Err(RecordStop::Bad(format!(
                "the block here (type {kind:#x}) has an impossible length of {len} bytes"
            )));
        }
        let block = rest.get(..len).ok_or(RecordStop::Need(len))?;
        sys::prefetch_ahead(rest, len);
        let (body, trailer) = block[8..]
            .split_last_chunk::<4>()
            .expect("a block is at least 12 bytes long");
        if word(*trailer) != stated_len {
            let second = word(*trailer);
            return Err(RecordStop::Bad(format!(
                "the block here (type {kind:#x}) has a length of {len} bytes at its start and {second} at its end"
            )));
        }
        // They refer to the packets before them, which are therefore delivered first, however the file is read.
        if matches!(kind, INTERFACE_STATISTICS | NAME_RESOLUTION) && !records.is_empty() {
            return Err(RecordStop::Full);
        }
        self.big_endian = big_endian;
        let body = PcapngBlockBody {
            bytes: body,
            big_endian,
        };
        match kind {
            ENHANCED_PACKET => self.enhanced_packet(body, at + 8, records)?,
            OBSOLETE_PACKET => self.obsolete_packet(body, at + 8, records)?,
            SIMPLE_PACKET => self.simple_packet(body, at + 8, records)?,
            SECTION_HEADER => self.new_section(body)?,
            INTERFACE_DESCRIPTION => self.interface(body)?,
            INTERFACE_STATISTICS => self.statistics(body),
            NAME_RESOLUTION => self.name_records(body),
            _ => (),
        }
        Ok(len)
    }

    fn enhanced_packet(
        &mut self,
        mut body: PcapngBlockBody<'_>,
        start: usize,
        records: &mut RecordSink<'_>,
    ) -> Result<(), RecordStop> {
        let ([interface, high, low, len, original_len], data) =
            body.words().ok_or_else(short_packet)?;
        let units = u64::from(high) << 32 | u64::from(low);
        body.bytes = data;
        self.packet(
            interface,
            units,
            [len, original_len],
            (body, start + 20),
            records,
        )
    }

    fn obsolete_packet(
        &mut self,
        mut body: PcapngBlockBody<'_>,
        start: usize,
        records: &mut RecordSink<'_>,
    ) -> Result<(), RecordStop> {
        let ([_, high, low, len, original_len], data) = body.words().ok_or_else(short_packet)?;
        let interface = u32::from(body.short(0).ok_or_else(short_packet)?);
        let units = u64::from(high) << 32 | u64::from(low);
        body.bytes = data;
        self.packet(
            interface,
            units,
            [len, original_len],
            (body, start + 20),
            records,
        )
    }

    fn packet(
        &mut self,
        interface: u32,
        units: u64,
        [len, original_len]: [u32; 2],
        (data, start): (PcapngBlockBody<'_>, usize),
        records: &mut RecordSink<'_>,
    ) -> Result<(), RecordStop> {
        let n = self.interfaces.len();
        let Some(of) = self.interfaces.get(interface as usize) else {
            return Err(RecordStop::Bad(format!(
                "the packet here is of interface {interface}, but only {n} were described"
            )));
        };
        if len as usize > data.bytes.len() {
            return Err(RecordStop::Bad(format!(
                "the packet here claims {len} captured bytes, more than its block holds"
            )));
        }
        let mut nanos = of.resolution.nanos(units);
        if nanos == i64::MAX
            && let Some(finer) = of.resolution.finer(units)
        {
            self.finer += 1;
            nanos = finer.nanos(units);
        }
        let ts = Timestamp(nanos.saturating_add(of.offset_nanos));
        self.last_ts = ts;
        records.push(ts, of.link_type, PacketLengths { original_len, len }, start);
        Ok(())
    }

    fn simple_packet(
        &mut self,
        body: PcapngBlockBody<'_>,
        start: usize,
        records: &mut RecordSink<'_>,
    ) -> Result<(), RecordStop> {
        let ([original_len], data) = body.words().ok_or_else(short_packet)?;
        let Some(of) = self.interfaces.first() else {
            return Err(RecordStop::Bad(
                "the packet here is of interface 0, but none was described".into(),
            ));
        };
        let snaplen = if of.snaplen == 0 {
            u32::MAX
        } else {
            of.snaplen
        };
        // A block is at most RECORD_MAX long.
        let len = original_len.min(snaplen).min(data.len() as u32);
        records.push(
            self.last_ts,
            of.link_type,
            PacketLengths { original_len, len },
            start + 4,
        );
        Ok(())
    }

    fn new_section(&mut self, body: PcapngBlockBody<'_>) -> Result<(), RecordStop> {
        self.lost_in_closed_sections = self.lost_before_us();
        self.interfaces.clear();
        match (body.short(4), body.short(6)) {
            (Some(1), _) => Ok(()),
            (Some(major), Some(minor)) => Err(RecordStop::Bad(format!(
                "the section here is of pcapng version {major}.{minor}; only version 1 is read"
            ))),
            _ => Err(RecordStop::Bad(
                "the section header here is too short".into(),
            )),
        }
    }

    fn interface(&mut self, mut body: PcapngBlockBody<'_>) -> Result<(), RecordStop> {
        if self.interfaces.len() == INTERFACES_MAX {
            return Err(RecordStop::Bad(format!(
                "more than {INTERFACES_MAX} interfaces in a section"
            )));
        }
        let short = || RecordStop::Bad("the interface description here is too short".into());
        let link_type = LinkType::from(body.short(0).ok_or_else(short)?);
        let ([_, snaplen], options) = body.words().ok_or_else(short)?;
        let mut resolution = TimestampResolution::of_option(6);
        let mut offset_nanos = 0;
        body.bytes = options;
        for (code, value) in body.options() {
            match (code, value) {
                (9, &[exponent, ..]) => resolution = TimestampResolution::of_option(exponent),
                (14, value) => {
                    offset_nanos = (body.long(value) as i64).saturating_mul(1_000_000_000)
                }
                _ => (),
            }
        }
        self.interfaces.push(PcapngInterface {
            link_type,
            snaplen,
            resolution,
            offset_nanos,
            lost: None,
        });
        Ok(())
    }

    /// Counts are totals since the start of the capture: later statistics of an interface replace earlier ones.
    fn statistics(&mut self, mut body: PcapngBlockBody<'_>) {
        let Some(([interface, _, _], options)) = body.words() else {
            return;
        };
        let Some(of) = self.interfaces.get_mut(interface as usize) else {
            return;
        };
        body.bytes = options;
        // isb_ifdrop, for lack of resources at the interface, and isb_osdrop, in the operating system.
        let dropped = body
            .options()
            .filter(|(code, _)| matches!(code, 5 | 7))
            .map(|(_, value)| body.long(value));
        of.lost = dropped.reduce(u64::saturating_add).or(of.lost);
    }

    fn name_records(&mut self, body: PcapngBlockBody<'_>) {
        for (kind, value) in body.options() {
            let (addr, names) = match (kind, value.first_chunk::<4>(), value.first_chunk::<16>()) {
                (1, Some(v4), _) => (IpAddr::from(Ipv4Addr::from(*v4)), &value[4..]),
                (2, _, Some(v6)) => (IpAddr::from(Ipv6Addr::from(*v6)), &value[16..]),
                _ => continue,
            };
            // The first name is shown; the others are aliases.
            let name = names
                .split(|&b| b == 0)
                .next()
                .and_then(|n| std::str::from_utf8(n).ok())
                .unwrap_or("");
            let printable = !name.chars().any(char::is_control);
            if printable
                && !name.is_empty()
                && name.len() <= NAME_LEN_MAX
                && self.names_seen < NAMES_MAX
            {
                self.names_seen += 1;
                self.names.push((addr, name.to_owned()));
            }
        }
    }

    /// As [`crate::format::CaptureFormat::cut`].
    pub fn cut(&self, rest: &[u8], needed: usize, packet: u64) -> String {
        let kind = rest.first_chunk().map(|w| {
            if self.big_endian {
                u32::from_be_bytes(*w)
            } else {
                u32::from_le_bytes(*w)
            }
        });
        let place = match kind {
            Some(ENHANCED_PACKET | OBSOLETE_PACKET | SIMPLE_PACKET) => format!("packet {packet}"),
            Some(kind) => format!("a block (type {kind:#x})"),
            None => "a block".into(),
        };
        format!(
            "the file ends inside {place}: {} of {needed} bytes; it was probably cut while being written",
            rest.len()
        )
    }

    /// As [`crate::source::SourceCounters::lost_before_us`].
    pub fn lost_before_us(&self) -> Option<u64> {
        let here = self.interfaces.iter().filter_map(|i| i.lost);
        here.chain(self.lost_in_closed_sections)
            .reduce(u64::saturating_add)
    }

    /// As [`crate::source::SourceCounters::nanosecond_fractions`].
    pub fn nanosecond_fractions(&self) -> u64 {
        self.finer
    }

    /// Host names read since the last call.
    pub fn take_names(&mut self) -> Vec<(IpAddr, String)> {
        std::mem::take(&mut self.names)
    }
}

/// Whether the section is big-endian.
fn section_order(magic: [u8; 4]) -> Result<bool, RecordStop> {
    match magic {
        m if u32::from_be_bytes(m) == BYTE_ORDER_MAGIC => Ok(true),
        m if u32::from_le_bytes(m) == BYTE_ORDER_MAGIC => Ok(false),
        m => Err(RecordStop::Bad(format!(
            "the section header here has an unknown byte order ({m:02x?})"
        ))),
    }
}

#[cold]
fn short_packet() -> RecordStop {
    RecordStop::Bad("the packet block here is too short for its own fields".into())
}

/// A block's body, or the rest of one, with its byte order.
#[derive(Clone, Copy)]
struct PcapngBlockBody<'a> {
    bytes: &'a [u8],
    big_endian: bool,
}

impl<'a> PcapngBlockBody<'a> {
    /// The first `N` words, and the rest.
    #[inline]
    fn words<const N: usize>(&self) -> Option<([u32; N], &'a [u8])> {
        let word = if self.big_endian {
            u32::from_be_bytes
        } else {
            u32::from_le_bytes
        };
        let (words, _) = self.bytes.as_chunks::<4>();
        Some((words.first_chunk::<N>()?.map(word), &self.bytes[4 * N..]))
    }

    fn short(&self, at: usize) -> Option<u16> {
        let bytes = self.bytes.get(at..)?.first_chunk()?;
        Some(if self.big_endian {
            u16::from_be_bytes(*bytes)
        } else {
            u16::from_le_bytes(*bytes)
        })
    }

    /// An option's value as an eight-byte number; 0 if it is shorter.
    fn long(&self, value: &[u8]) -> u64 {
        let bytes = value.first_chunk().copied().unwrap_or_default();
        if self.big_endian {
            u64::from_be_bytes(bytes)
        } else {
            u64::from_le_bytes(bytes)
        }
    }

    /// Codes and values, each padded to four bytes; ends at code 0 or at an invalid length.
    fn options(self) -> impl Iterator<Item = (u16, &'a [u8])> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let code = self.short(at)?;
            let len = usize::from(self.short(at + 2)?);
            let value = self.bytes.get(at + 4..)?.get(..len)?;
            at += 4 + len.next_multiple_of(4);
            (code != 0).then_some((code, value))
        })
    }
}

#[cfg(test)]
pub(crate) mod samples {
    //! Blocks for the tests of this crate, in either byte order.

    /// Writes blocks.
    #[derive(Default)]
    pub struct PcapngBlockWriter {
        pub big_endian: bool,
        pub bytes: Vec<u8>,
    }

    impl PcapngBlockWriter {
        /// A file that begins with a section.
        pub fn new(big_endian: bool) -> PcapngBlockWriter {
            PcapngBlockWriter {
                big_endian,
                bytes: Vec::new(),
            }
            .section(big_endian)
        }

        pub fn word(&self, word: u32) -> [u8; 4] {
            if self.big_endian {
                word.to_be_bytes()
            } else {
                word.to_le_bytes()
            }
        }

        pub fn short(&self, short: u16) -> [u8; 2] {
            if self.big_endian {
                short.to_be_bytes()
            } else {
                short.to_le_bytes()
            }
        }

        pub fn long(&self, long: u64) -> [u8; 8] {
            if self.big_endian {
                long.to_be_bytes()
            } else {
                long.to_le_bytes()
            }
        }

        /// Any block: its body is padded.
        pub fn block(mut self, kind: u32, body: &[&[u8]]) -> PcapngBlockWriter {
            let mut body = body.concat();
            body.resize(body.len().next_multiple_of(4), 0);
            let len = self.word(12 + body.len() as u32);
            let kind = self.word(kind);
            self.bytes.extend([&kind[..], &len, &body, &len].concat());
            self
        }

        pub fn section(mut self, big_endian: bool) -> PcapngBlockWriter {
            self.big_endian = big_endian;
            let magic = self.word(super::BYTE_ORDER_MAGIC);
            let one = self.short(1);
            let zero = self.short(0);
            self.block(super::SECTION_HEADER, &[&magic, &one, &zero, &[0xff; 8]])
        }

        /// With options as in the file.
        pub fn interface(self, link_type: u16, snaplen: u32, options: &[u8]) -> PcapngBlockWriter {
            let link_type = self.short(link_type);
            let snaplen = self.word(snaplen);
            self.block(
                super::INTERFACE_DESCRIPTION,
                &[&link_type, &[0, 0], &snaplen, options],
            )
        }

        pub fn option(&self, code: u16, value: &[u8]) -> Vec<u8> {
            let mut option = [
                &self.short(code)[..],
                &self.short(value.len() as u16),
                value,
            ]
            .concat();
            option.resize(option.len().next_multiple_of(4), 0);
            option
        }

        pub fn enhanced(
            self,
            interface: u32,
            units: u64,
            original_len: u32,
            bytes: &[u8],
        ) -> PcapngBlockWriter {
            let words = [
                interface,
                (units >> 32) as u32,
                units as u32,
                bytes.len() as u32,
                original_len,
            ];
            let fields = words.map(|w| self.word(w)).concat();
            self.block(super::ENHANCED_PACKET, &[&fields, bytes])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::samples::PcapngBlockWriter;
    use super::*;
    use crate::format::CaptureFormat;

    /// Time, original length and bytes.
    type Seen = (i64, u32, Vec<u8>);

    fn read(bytes: &[u8]) -> (CaptureFormat, Vec<Seen>, RecordStop) {
        let mut format = CaptureFormat::Undetected;
        let mut packets = Vec::new();
        let mut at = 0;
        loop {
            let (block, len, stop) = crate::format::samples::read(&mut format, &bytes[at..]);
            packets.extend(
                block
                    .packets()
                    .map(|c| (c.ts.0, c.original_len, c.bytes.to_vec())),
            );
            at += len;
            if stop != RecordStop::Full {
                return (format, packets, stop);
            }
        }
    }

    /// Blocks → time, original length, and bytes of each packet, without errors.
    fn check(blocks: &PcapngBlockWriter, expected: &[(i64, u32, &[u8])]) {
        let (_, packets, stop) = read(&blocks.bytes);
        let packets: Vec<_> = packets
            .iter()
            .map(|(ts, len, bytes)| (*ts, *len, &bytes[..]))
            .collect();
        assert_eq!(
            (&packets[..], stop),
            (expected, RecordStop::Need(BLOCK_HEAD))
        );
    }

    fn check_bad(blocks: &[u8], packets: usize, expected: &str) {
        let (_, read, stop) = read(blocks);
        let RecordStop::Bad(message) = stop else {
            panic!("{stop:?}")
        };
        assert!(message.contains(expected), "{message}");
        assert_eq!(read.len(), packets, "{message}");
    }

    #[test]
    fn packets_in_every_block_and_both_orders() {
        for big_endian in [false, true] {
            let blocks = PcapngBlockWriter::new(big_endian)
                .interface(1, 0, &[])
                .enhanced(0, 5, 99, &[1, 2, 3]);
            let fields = [0, 6, 2, 2].map(|w| blocks.word(w)).concat();
            let interface = blocks.short(0);
            let blocks = blocks.block(OBSOLETE_PACKET, &[&interface, &[0xff; 2], &fields, &[4, 5]]);
            let original_len = blocks.word(3);
            let blocks = blocks.block(SIMPLE_PACKET, &[&original_len, &[6, 7, 8]]);
            check(
                &blocks,
                &[
                    (5000, 99, &[1, 2, 3]),
                    (6000, 2, &[4, 5]),
                    (6000, 3, &[6, 7, 8]),
                ],
            );
        }
    }

    #[test]
    fn a_simple_packet_is_cut_by_the_snaplen() {
        let blocks = PcapngBlockWriter::new(false).interface(1, 2, &[]);
        let original_len = blocks.word(100);
        check(
            &blocks.block(SIMPLE_PACKET, &[&original_len, &[6, 7, 0, 0]]),
            &[(0, 100, &[6, 7])],
        );
    }

    #[test]
    fn resolutions_and_offsets() {
        let check = |option: u8, units: u64, offset: i64, expected: i64| {
            let blocks = PcapngBlockWriter::new(false);
            let options = [
                blocks.option(9, &[option]),
                blocks.option(14, &blocks.long(offset as u64)),
            ]
            .concat();
            check(
                &blocks.interface(1, 0, &options).enhanced(0, units, 0, &[]),
                &[(expected, 0, &[])],
            );
        };
        check(0, 3, 0, 3_000_000_000);
        check(3, 1500, 0, 1_500_000_000);
        check(6, 1, 0, 1000);
        check(9, 1, 10, 10_000_000_001);
        check(12, 1_234_567, 0, 1234);
        check(127, u64::MAX, 0, 1);
        check(0x80, 3, -1, 2_000_000_000);
        check(0x80 | 10, 512, 0, 500_000_000);
        check(0xff, u64::MAX, 0, 0);
        check(0, u64::MAX, i64::MAX, i64::MAX);
        // Nanoseconds since 1970 stated as microseconds, and microseconds as milliseconds.
        check(6, 1_700_000_000_123_456_789, 0, 1_700_000_000_123_456_789);
        check(3, 1_700_000_000_123_456, 0, 1_700_000_000_123_456_000);
        check(0, 0, i64::MIN, i64::MIN);
    }

    #[test]
    fn each_packet_has_its_interface() {
        let blocks = PcapngBlockWriter::new(false);
        let nanoseconds = blocks.option(9, &[9]);
        let blocks = blocks.interface(1, 0, &[]).interface(113, 0, &nanoseconds);
        let blocks = blocks.enhanced(1, 7, 0, &[]).enhanced(0, 7, 0, &[]);
        // A new section, in the other byte order, has its own interfaces.
        let blocks = blocks
            .section(true)
            .interface(101, 0, &[])
            .enhanced(0, 8, 0, &[]);
        let (block, ..) =
            crate::format::samples::read(&mut CaptureFormat::Undetected, &blocks.bytes);
        let seen: Vec<_> = block.packets().map(|c| (c.ts.0, c.link_type)).collect();
        assert_eq!(
            seen,
            [
                (7, LinkType::LinuxSll),
                (7000, LinkType::Ethernet),
                (8000, LinkType::Raw)
            ]
        );
    }

    #[test]
    fn names_and_losses() {
        for big_endian in [false, true] {
            let blocks = PcapngBlockWriter::new(big_endian)
                .interface(1, 0, &[])
                .interface(1, 0, &[]);
            let names = [
                blocks.option(1, b"\x0a\0\0\x01first\0alias\0"),
                blocks.option(1, b"\x0a\0\0\x02bad\x1b[2J\0"),
                blocks.option(1, b"\x0a"),
                blocks.option(2, b"\x20\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\x01six\0"),
                blocks.option(0, &[]),
                blocks.option(1, b"\x0a\0\0\x03after the end\0"),
            ];
            let statistics = |blocks: PcapngBlockWriter, interface: u32, lost: &[(u16, u64)]| {
                let options: Vec<_> = lost
                    .iter()
                    .map(|(code, n)| blocks.option(*code, &blocks.long(*n)))
                    .collect();
                let interface = blocks.word(interface);
                blocks.block(
                    INTERFACE_STATISTICS,
                    &[&interface, &[0; 8], &options.concat()],
                )
            };
            let blocks = blocks.block(NAME_RESOLUTION, &[&names.concat()]);
            let blocks = statistics(blocks, 0, &[(4, 100), (5, 3)]);
            let blocks = statistics(blocks, 0, &[(5, 4), (7, 10)]); // replaces
            let blocks = statistics(statistics(blocks, 1, &[(5, 1000)]), 9, &[(5, 1)]);
            let blocks = statistics(
                blocks.section(!big_endian).interface(1, 0, &[]),
                0,
                &[(5, 20_000)],
            );
            let (mut format, _, stop) = read(&blocks.bytes);
            assert_eq!(
                (stop, format.lost_before_us()),
                (RecordStop::Need(BLOCK_HEAD), Some(21_014))
            );
            let names = format.take_names();
            let names: Vec<_> = names
                .iter()
                .map(|(ip, name)| (ip.to_string(), &name[..]))
                .collect();
            assert_eq!(
                names,
                [("10.0.0.1".into(), "first"), ("2001::1".into(), "six")]
            );
        }
    }

    #[test]
    fn other_blocks_are_skipped() {
        let blocks = PcapngBlockWriter::new(false)
            .block(0xbad, &[&[1; 9]])
            .block(0x0a, &[b"secrets"])
            .block(0x4000_0bad, &[]);
        check(
            &blocks.interface(1, 0, &[]).enhanced(0, 1, 0, &[]),
            &[(1000, 0, &[])],
        );
    }

    #[test]
    fn bad_blocks() {
        let good = || {
            PcapngBlockWriter::new(false)
                .interface(1, 0, &[])
                .enhanced(0, 1, 4, &[1, 2, 3, 4])
        };
        check_bad(
            &good().enhanced(1, 1, 0, &[]).bytes,
            1,
            "interface 1, but only 1",
        );
        let patched = |at_end: usize, value: u8| {
            let mut bytes = good().bytes;
            let at = bytes.len() - at_end;
            bytes[at] = value;
            bytes
        };
        check_bad(
            &patched(4, 36 + 4),
            0,
            "36 bytes at its start and 40 at its end",
        );
        check_bad(&patched(32, 8), 0, "impossible length of 8 bytes");
        check_bad(&patched(32, 37), 0, "impossible length of 37 bytes");
        check_bad(
            &patched(29, 0x80),
            0,
            "impossible length of 2147483684 bytes",
        );
        check_bad(&patched(16, 5), 0, "claims 5 captured bytes");
        check_bad(
            &good().block(ENHANCED_PACKET, &[&[0; 16]]).bytes,
            1,
            "too short",
        );
        check_bad(
            &good().block(INTERFACE_DESCRIPTION, &[&[0; 4]]).bytes,
            1,
            "too short",
        );
        let section = good().bytes.len();
        let mut next = good().section(true);
        next.bytes[section + 13] = 2;
        check_bad(&next.bytes, 1, "version 2.0");
        next.bytes[section + 8] = 0;
        check_bad(&next.bytes, 1, "byte order");
    }
}
