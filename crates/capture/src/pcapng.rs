//! pcapng files (<https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-03.html>): sections in either byte order,
//! their interfaces, packets in enhanced, simple, and obsolete blocks, host names, and interface statistics. Decryption
//! secrets are read on request only. Other blocks, including custom ones, are skipped. A simple packet block has no time and gets that
//! of the previous packet.

mod fast_path;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::{LinkType, Timestamp};
use zeroize::Zeroizing;

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
const DECRYPTION_SECRETS: u32 = 10;
/// Type of secrets: an NSS key log.
const TLS_KEY_LOG: u32 = 0x544c_534b;

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
    /// Key logs read since the last call, if they are requested.
    key_logs: Option<Vec<Zeroizing<Vec<u8>>>>,
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
            key_logs: None,
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
                "a block (type {kind:#x}) has an impossible length of {len} bytes"
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
                "a block (type {kind:#x}) has a length of {len} bytes at its start and {second} at its end"
            )));
        }
        // These blocks refer to earlier packets, which are therefore delivered first in every reading mode.
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
            DECRYPTION_SECRETS => self.secrets(body),
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
                "a packet names interface {interface}, but only {n} were described"
            )));
        };
        if len as usize > data.bytes.len() {
            return Err(RecordStop::Bad(format!(
                "a packet claims {len} captured bytes, more than its block holds"
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
                "a packet names interface 0, but none was described".into(),
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
                "a section has pcapng version {major}.{minor}; only version 1 is read"
            ))),
            _ => Err(RecordStop::Bad("a section header is too short".into())),
        }
    }

    fn interface(&mut self, mut body: PcapngBlockBody<'_>) -> Result<(), RecordStop> {
        if self.interfaces.len() == INTERFACES_MAX {
            return Err(RecordStop::Bad(format!(
                "more than {INTERFACES_MAX} interfaces in a section"
            )));
        }
        let short = || RecordStop::Bad("an interface description is too short".into());
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

    fn secrets(&mut self, body: PcapngBlockBody<'_>) {
        if let Some(key_logs) = &mut self.key_logs
            && let Some(([TLS_KEY_LOG, len], data)) = body.words()
            && let Some(text) = data.get(..len as usize)
        {
            key_logs.push(Zeroizing::new(text.to_vec()));
        }
    }

    /// Key logs read since the last call, and from the first call on.
    pub fn take_key_logs(&mut self) -> Vec<Zeroizing<Vec<u8>>> {
        self.key_logs.replace(Vec::new()).unwrap_or_default()
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
            "a section header has an unknown byte order ({m:02x?})"
        ))),
    }
}

#[cold]
fn short_packet() -> RecordStop {
    RecordStop::Bad("a packet block is too short for its fields".into())
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
pub(crate) mod samples;
#[cfg(test)]
mod tests;
