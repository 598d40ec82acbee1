//! Classic pcap files (<https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap-06.html>): microseconds and
//! nanoseconds, both byte orders, and Kuznetzov's variant with its longer record headers. A record's length is
//! believed up to the file's snaplen or [`LEN_PLAUSIBLE`]; beyond that the file is taken for damaged, and no attempt
//! is made to find the next record.

use wire::{LinkType, Timestamp};

use crate::records::{Lengths, RECORD_MAX, Records, Stop};
use crate::sys;

/// Length of the file header.
pub(crate) const HEADER_LEN: usize = 24;

const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
const KUZNETZOV: u32 = 0xa1b2_cd34;

/// First words of a file, in the byte order of the machine that wrote it.
pub(crate) const MAGICS: [u32; 3] = [MICROSECONDS, NANOSECONDS, KUZNETZOV];

/// Captured length that is believed whatever the snaplen says: offloading makes packets of up to 512 KiB.
const LEN_PLAUSIBLE: u32 = 1 << 20;

const SECOND: u64 = 1_000_000_000;

/// Bytes of a record header that all variants share: seconds, fraction, captured length, original length.
const RECORD_FIELDS: usize = 16;

/// The header of a file: how its records read.
#[derive(Debug)]
pub(crate) struct PcapFile {
    big_endian: bool,
    nanos_per_unit: u64,
    record_header_len: usize,
    link_type: LinkType,
    len_max: u32,
    lengths_may_be_swapped: bool,
}

impl PcapFile {
    /// From a file's first bytes; `None` when they are no pcap header.
    pub fn of_header(header: &[u8; HEADER_LEN]) -> Option<PcapFile> {
        let words = header.as_chunks::<4>().0;
        let big_endian = MAGICS.contains(&u32::from_be_bytes(words[0]));
        let word =
            |i: usize| if big_endian { u32::from_be_bytes(words[i]) } else { u32::from_le_bytes(words[i]) };
        let magic = word(0);
        if !MAGICS.contains(&magic) {
            return None;
        }
        // Two shorts: major and minor version, in the order of the machine.
        let version = if big_endian { word(1) } else { word(1).rotate_left(16) };
        Some(PcapFile {
            big_endian,
            nanos_per_unit: if magic == NANOSECONDS { 1 } else { 1000 },
            record_header_len: if magic == KUZNETZOV { 24 } else { RECORD_FIELDS },
            // The upper half may hold the length of a frame check sequence.
            link_type: LinkType::from(word(5) as u16),
            len_max: word(4).clamp(LEN_PLAUSIBLE, RECORD_MAX as u32 - 1024),
            // Before version 2.4 the two lengths stood the other way round, or either way (libpcap, savefile.c).
            lengths_may_be_swapped: version < 0x0002_0004,
        })
    }

    /// As [`crate::format::Format::read`].
    pub fn read(&mut self, window: &[u8], records: &mut Records<'_>) -> (usize, Stop) {
        // Each of them is a loop of its own: a question less for every packet.
        match (self.big_endian, self.lengths_may_be_swapped) {
            (false, false) => self.read_as::<false>(u32::from_le_bytes, window, records),
            (true, false) => self.read_as::<false>(u32::from_be_bytes, window, records),
            (false, true) => self.read_as::<true>(u32::from_le_bytes, window, records),
            (true, true) => self.read_as::<true>(u32::from_be_bytes, window, records),
        }
    }

    #[inline(always)]
    fn read_as<const SWAPPED: bool>(
        &self,
        word: fn([u8; 4]) -> u32,
        window: &[u8],
        records: &mut Records<'_>,
    ) -> (usize, Stop) {
        let (origin, places) = records.places();
        let (mut rest, mut n, mut stop) = (window, 0, Stop::Full);
        for place in places {
            let (ts, lengths) = match self.fields::<SWAPPED>(word, rest) {
                Ok(fields) => fields,
                Err(why) => {
                    stop = why;
                    break;
                }
            };
            let start = window.len() - rest.len() + self.record_header_len;
            let end = self.record_header_len + lengths.len as usize;
            let Some(next) = rest.get(end..) else {
                stop = Stop::Need(end);
                break;
            };
            *place = origin.record(ts, self.link_type, lengths, start);
            n += 1;
            sys::prefetch_ahead(rest, end);
            rest = next;
        }
        records.filled(n);
        (window.len() - rest.len(), stop)
    }

    /// What the header of the record at the front says.
    #[inline(always)]
    fn fields<const SWAPPED: bool>(
        &self,
        word: fn([u8; 4]) -> u32,
        rest: &[u8],
    ) -> Result<(Timestamp, Lengths), Stop> {
        let Some(fields) = rest.first_chunk::<RECORD_FIELDS>() else {
            return Err(Stop::Need(self.record_header_len));
        };
        let field = |i: usize| word(fields[4 * i..][..4].try_into().expect("16 bytes are four words"));
        let (seconds, fraction, mut len, mut original_len) = (field(0), field(1), field(2), field(3));
        if SWAPPED && len > original_len {
            (len, original_len) = (original_len, len);
        }
        if len > self.len_max {
            return Err(Stop::Bad(self.implausible(len)));
        }
        // A fraction of a second that is more than one is damage: it must not move the clock far.
        let fraction = (u64::from(fraction) * self.nanos_per_unit).min(SECOND);
        let nanos = (u64::from(seconds) * SECOND + fraction) as i64;
        Ok((Timestamp(nanos), Lengths { original_len, len }))
    }

    #[cold]
    fn implausible(&self, len: u32) -> String {
        format!(
            "the packet here claims {len} captured bytes, more than a capture can hold: the file is damaged"
        )
    }

    /// As [`crate::format::Format::cut`].
    pub fn cut(&self, rest: &[u8], needed: usize, packet: u64) -> String {
        let header_len = self.record_header_len;
        let place = match needed.checked_sub(header_len) {
            Some(len) if rest.len() >= header_len => {
                format!("packet {packet}: {} of {len} bytes", rest.len() - header_len)
            }
            _ => format!("the header of packet {packet}: {} of {header_len} bytes", rest.len()),
        };
        format!("the file ends inside {place}; it was probably cut while being written")
    }
}

#[cfg(test)]
pub(crate) mod samples {
    //! Files for the tests of this crate.

    /// A microsecond file of Ethernet packets: time in microseconds and bytes of each.
    pub fn pcap(packets: &[(u32, &[u8])]) -> Vec<u8> {
        let mut file = header(super::MICROSECONDS, 4, 262_144, 1).concat();
        for (micros, bytes) in packets {
            let len = bytes.len() as u32;
            file.extend([micros / 1_000_000, micros % 1_000_000, len, len].map(u32::to_le_bytes).concat());
            file.extend_from_slice(bytes);
        }
        file
    }

    /// A file header, little-endian.
    pub fn header(magic: u32, minor: u32, snaplen: u32, link_type: u32) -> [[u8; 4]; 6] {
        [magic, 2 | minor << 16, 0, 0, snaplen, link_type].map(u32::to_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::samples::header;
    use super::*;
    use crate::format::Format;
    use crate::format::samples::read;

    /// The words of a little-endian file, and the bytes behind them.
    fn file(header: [[u8; 4]; 6], record: &[u32], bytes: &[u8]) -> Vec<u8> {
        let record: Vec<_> = record.iter().flat_map(|w| w.to_le_bytes()).collect();
        [header.as_flattened(), &record, bytes].concat()
    }

    /// A file → time, link type, original length and bytes of its packets, and why it stopped.
    fn check(file: &[u8], expected: &[(i64, LinkType, u32, &[u8])], stop: Stop) {
        let (block, _, stopped) = read(&mut Format::Undetected, file);
        let packets: Vec<_> =
            block.packets().map(|c| (c.ts.0, c.link_type, c.original_len, c.bytes)).collect();
        assert_eq!((&packets[..], stopped), (expected, stop));
    }

    #[test]
    fn magics_and_link_types() {
        let record = [1, 5, 2, 60];
        let expected = |ts| [(ts, LinkType::Ethernet, 60, &[7, 8][..])];
        check(
            &file(header(MICROSECONDS, 4, 0, 1), &record, &[7, 8]),
            &expected(1_000_005_000),
            Stop::Need(16),
        );
        check(
            &file(header(NANOSECONDS, 4, 0, 1), &record, &[7, 8]),
            &expected(1_000_000_005),
            Stop::Need(16),
        );
        let long = [1, 5, 2, 60, 3, 0];
        check(&file(header(KUZNETZOV, 4, 0, 1), &long, &[7, 8]), &expected(1_000_005_000), Stop::Need(24));
        // Four bytes of frame check sequence, as the upper half of the link type says.
        check(
            &file(header(MICROSECONDS, 4, 0, 0x2400_0001), &record, &[7, 8]),
            &expected(1_000_005_000),
            Stop::Need(16),
        );
        for (number, link_type) in
            [(0, LinkType::Null), (113, LinkType::LinuxSll), (147, LinkType::Other(147))]
        {
            let file = file(header(MICROSECONDS, 4, 0, number), &[0, 0, 0, 0], &[]);
            check(&file, &[(0, link_type, 0, &[])], Stop::Need(16));
        }
    }

    #[test]
    fn big_endian() {
        let little = file(header(NANOSECONDS, 4, 65535, 276), &[u32::MAX, 999_999_999, 4, 4], b"abcd");
        let mut big = little.clone();
        big[..40].as_chunks_mut::<4>().0.iter_mut().for_each(|word| word.reverse());
        big[4..8].copy_from_slice(&[0, 2, 0, 4]);
        for file in [little, big] {
            let expected = (4_294_967_295_999_999_999, LinkType::LinuxSll2, 4, &b"abcd"[..]);
            check(&file, &[expected], Stop::Need(16));
        }
    }

    #[test]
    fn lengths() {
        let full = |record: &[u32]| file(header(MICROSECONDS, 4, 65535, 1), record, &[9; 8]);
        check(&full(&[0, 0, 9, 9]), &[], Stop::Need(25));
        check(&full(&[0, 0, 8, 4]), &[(0, LinkType::Ethernet, 4, &[9; 8])], Stop::Need(16));
        check(&full(&[0, 0, LEN_PLAUSIBLE, 0]), &[], Stop::Need(16 + LEN_PLAUSIBLE as usize));
        let bad = |len: u32| {
            format!(
                "the packet here claims {len} captured bytes, more than a capture can hold: the file is damaged"
            )
        };
        check(&full(&[0, 0, LEN_PLAUSIBLE + 1, 0]), &[], Stop::Bad(bad(LEN_PLAUSIBLE + 1)));
        check(&full(&[0, 0, u32::MAX, 0]), &[], Stop::Bad(bad(u32::MAX)));
        let unlimited = file(header(MICROSECONDS, 4, u32::MAX, 1), &[0, 0, 1 << 28, 0], &[]);
        check(&unlimited, &[], Stop::Bad(bad(1 << 28)));
        // Old files have the lengths the other way round.
        let old = file(header(MICROSECONDS, 3, 65535, 1), &[0, 0, 60, 8], &[9; 8]);
        check(&old, &[(0, LinkType::Ethernet, 60, &[9; 8])], Stop::Need(16));
    }

    #[test]
    fn a_damaged_fraction_moves_the_clock_by_a_second_at_most() {
        let file = file(header(MICROSECONDS, 4, 65535, 1), &[5, u32::MAX, 0, 0], &[]);
        check(&file, &[(6_000_000_000, LinkType::Ethernet, 0, &[])], Stop::Need(16));
    }
}
