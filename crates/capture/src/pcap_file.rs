//! Classic pcap files (<https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap-06.html>): microseconds and
//! nanoseconds, both byte orders, and Kuznetzov's variant with longer record headers. A record's length is accepted
//! up to the file's snaplen or [`LEN_PLAUSIBLE`]; beyond that the file is considered damaged, without a search for
//! the next record. Some programs write nanoseconds into files of microseconds: see [`TimestampFractions`].

use wire::{LinkType, Timestamp};

use crate::records::{PacketLengths, RECORD_MAX, RecordSink, RecordStop};
use crate::sys;

/// Length of the file header.
pub(crate) const HEADER_LEN: usize = 24;

const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
const KUZNETZOV: u32 = 0xa1b2_cd34;

/// Magic numbers, in the byte order of the writing machine.
pub(crate) const MAGICS: [u32; 3] = [MICROSECONDS, NANOSECONDS, KUZNETZOV];

/// Captured length accepted for any snaplen: offloading creates packets of up to 512 KiB.
const LEN_PLAUSIBLE: u32 = 1 << 20;

const SECOND: u64 = 1_000_000_000;
/// A second in microseconds; fractions are smaller.
const MICROS: u32 = 1_000_000;

/// Bytes of the record header common to all variants: seconds, fraction, captured length, original length.
const RECORD_FIELDS: usize = 16;

/// Format of a file's records.
#[derive(Debug)]
pub(crate) struct PcapFile {
    big_endian: bool,
    fractions: TimestampFractions,
    record_header_len: usize,
    link_type: LinkType,
    len_max: u32,
    lengths_may_be_swapped: bool,
}

impl PcapFile {
    /// Parses a file header; `None`: not a pcap file.
    pub fn of_header(header: &[u8; HEADER_LEN]) -> Option<PcapFile> {
        let words = header.as_chunks::<4>().0;
        let big_endian = MAGICS.contains(&u32::from_be_bytes(words[0]));
        let word = |i: usize| {
            if big_endian {
                u32::from_be_bytes(words[i])
            } else {
                u32::from_le_bytes(words[i])
            }
        };
        let magic = word(0);
        if !MAGICS.contains(&magic) {
            return None;
        }
        // Two shorts: major and minor version, in the machine's byte order.
        let version = if big_endian {
            word(1)
        } else {
            word(1).rotate_left(16)
        };
        Some(PcapFile {
            big_endian,
            fractions: TimestampFractions::of_unit(if magic == NANOSECONDS { 1 } else { 1000 }),
            record_header_len: if magic == KUZNETZOV {
                24
            } else {
                RECORD_FIELDS
            },
            // The upper half may hold the length of a frame check sequence.
            link_type: LinkType::from(word(5) as u16),
            len_max: word(4).clamp(LEN_PLAUSIBLE, RECORD_MAX as u32 - 1024),
            // Before version 2.4 the two lengths were swapped, or in either order (libpcap, savefile.c).
            lengths_may_be_swapped: version < 0x0002_0004,
        })
    }

    /// As [`crate::format::CaptureFormat::read`].
    pub fn read(&mut self, window: &[u8], records: &mut RecordSink<'_>) -> (usize, RecordStop) {
        // Separate loops: the usual one has fewer branches and variables.
        let is_usual = self.fractions.scale == FractionScale::MICROSECONDS;
        match (self.big_endian, self.lengths_may_be_swapped) {
            (false, false) if is_usual => {
                self.read_as::<false, true>(u32::from_le_bytes, window, records)
            }
            (false, false) => self.read_as::<false, false>(u32::from_le_bytes, window, records),
            (true, false) => self.read_as::<false, false>(u32::from_be_bytes, window, records),
            (false, true) => self.read_as::<true, false>(u32::from_le_bytes, window, records),
            (true, true) => self.read_as::<true, false>(u32::from_be_bytes, window, records),
        }
    }

    /// Reads records up to the first one with an unusual fraction, inclusive. `MICROSECONDS`: the usual ones are
    /// microseconds.
    #[inline(always)]
    fn read_as<const SWAPPED: bool, const MICROSECONDS: bool>(
        &mut self,
        word: fn([u8; 4]) -> u32,
        window: &[u8],
        records: &mut RecordSink<'_>,
    ) -> (usize, RecordStop) {
        let (origin, places) = records.places();
        let scale = if MICROSECONDS {
            FractionScale::MICROSECONDS
        } else {
            self.fractions.scale
        };
        let mut rest = window;
        let mut n = 0;
        let mut stop = RecordStop::Full;
        let mut is_unusual = false;
        for place in places {
            let (seconds, fraction, lengths) = match self.fields::<SWAPPED>(word, rest) {
                Ok(fields) => fields,
                Err(why) => {
                    stop = why;
                    break;
                }
            };
            let start = window.len() - rest.len() + self.record_header_len;
            let end = self.record_header_len + lengths.len as usize;
            let Some(next) = rest.get(end..) else {
                stop = RecordStop::Need(end);
                break;
            };
            let Some(nanos) = scale.nanos(fraction) else {
                is_unusual = true;
                break;
            };
            *place = origin.record(time(seconds, nanos), self.link_type, lengths, start);
            n += 1;
            sys::prefetch_ahead(rest, end);
            rest = next;
        }
        records.filled(n);
        self.fractions.read += n as u64;
        let at = window.len() - rest.len();
        if is_unusual {
            return self.read_unusual::<SWAPPED>(word, window, at, records);
        }
        (at, stop)
    }

    /// Reads the complete record at `at`, whose fraction is unusual. Returns as [`PcapFile::read`].
    #[cold]
    fn read_unusual<const SWAPPED: bool>(
        &mut self,
        word: fn([u8; 4]) -> u32,
        window: &[u8],
        at: usize,
        records: &mut RecordSink<'_>,
    ) -> (usize, RecordStop) {
        let (seconds, fraction, lengths) = match self.fields::<SWAPPED>(word, &window[at..]) {
            Ok(fields) => fields,
            Err(stop) => return (at, stop),
        };
        let start = at + self.record_header_len;
        let end = start + lengths.len as usize;
        let nanos = self.fractions.unusual(fraction);
        records.push(time(seconds, nanos), self.link_type, lengths, start);
        self.fractions.read += 1;
        (end, RecordStop::Full)
    }

    /// Fields of the record header at the front.
    #[inline(always)]
    fn fields<const SWAPPED: bool>(
        &self,
        word: fn([u8; 4]) -> u32,
        rest: &[u8],
    ) -> Result<(u32, u32, PacketLengths), RecordStop> {
        let Some(fields) = rest.first_chunk::<RECORD_FIELDS>() else {
            return Err(RecordStop::Need(self.record_header_len));
        };
        let field = |i: usize| {
            word(
                fields[4 * i..][..4]
                    .try_into()
                    .expect("16 bytes are four words"),
            )
        };
        let seconds = field(0);
        let fraction = field(1);
        let mut len = field(2);
        let mut original_len = field(3);
        if SWAPPED && len > original_len {
            (len, original_len) = (original_len, len);
        }
        if len > self.len_max {
            return Err(RecordStop::Bad(self.implausible(len)));
        }
        Ok((seconds, fraction, PacketLengths { original_len, len }))
    }

    /// As [`crate::source::SourceCounters::nanosecond_fractions`].
    pub fn nanosecond_fractions(&self) -> u64 {
        self.fractions.too_large()
    }

    #[cold]
    fn implausible(&self, len: u32) -> String {
        format!(
            "a packet claims {len} captured bytes, more than a capture can hold: the file is damaged"
        )
    }

    /// As [`crate::format::CaptureFormat::cut`].
    pub fn cut(&self, rest: &[u8], needed: usize, packet: u64) -> String {
        let header_len = self.record_header_len;
        let place = match needed.checked_sub(header_len) {
            Some(len) if rest.len() >= header_len => {
                format!(
                    "packet {packet}: {} of {len} bytes",
                    rest.len() - header_len
                )
            }
            _ => format!(
                "the header of packet {packet}: {} of {header_len} bytes",
                rest.len()
            ),
        };
        format!("the file ends inside {place}; it was probably cut while being written")
    }
}

#[inline(always)]
fn time(seconds: u32, nanos: u64) -> Timestamp {
    Timestamp((u64::from(seconds) * SECOND + nanos) as i64)
}

/// Unit of fractions of a second. A fraction of a million or more in a file of microseconds is nanoseconds: nearly
/// all are in a file with a wrong magic number, but only single ones in a damaged file. So each of them is read as
/// nanoseconds, and smaller ones are as long as large ones prevail among the latest. Depends on the records alone,
/// not on how the file is read.
#[derive(Debug)]
struct TimestampFractions {
    /// Microseconds or nanoseconds, by the magic number.
    stated: u64,
    /// Unit assumed at present.
    scale: FractionScale,
    /// Records read so far.
    read: u64,
    /// Records already counted below.
    judged: u64,
    /// Above 0: large fractions prevail.
    votes: i64,
    too_large: u64,
}

/// Unit of the fractions of a second, and the range of fractions that is valid without further checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FractionScale {
    nanos_per_unit: u64,
    /// The smallest fraction of the range.
    least: u32,
    /// Size of the range.
    usual: u32,
}

impl FractionScale {
    const MICROSECONDS: FractionScale = FractionScale {
        nanos_per_unit: 1000,
        least: 0,
        usual: MICROS,
    };

    /// Nanoseconds of a fraction in the range.
    #[inline(always)]
    fn nanos(self, fraction: u32) -> Option<u64> {
        let is_usual = fraction.wrapping_sub(self.least) < self.usual;
        is_usual.then(|| u64::from(fraction) * self.nanos_per_unit)
    }
}

impl TimestampFractions {
    /// Maximum distance of the votes from 0. The first record starts with this lead: a valid file does not begin with
    /// a fraction that is too large.
    const VOTES_MAX: i64 = 8;
    const LEAD: i64 = 3;

    fn of_unit(stated: u64) -> TimestampFractions {
        let scale = FractionScale {
            nanos_per_unit: stated,
            least: 0,
            usual: (SECOND / stated) as u32,
        };
        TimestampFractions {
            stated,
            scale,
            read: 0,
            judged: 0,
            votes: Self::LEAD,
            too_large: 0,
        }
    }

    /// Nanoseconds of the next record, whose fraction is out of range.
    fn unusual(&mut self, fraction: u32) -> u64 {
        let record = self.read;
        // A fraction above one second is damage: it must not move the clock far.
        if self.stated == 1 || u64::from(fraction) >= SECOND {
            return SECOND;
        }
        let is_large = fraction >= MICROS;
        self.too_large = self.too_large_before(record) + u64::from(is_large);
        let before = (record - self.judged).min(Self::VOTES_MAX as u64) as i64;
        let sign = |large| if large { 1 } else { -1 };
        let votes = self.votes + sign(self.scale.nanos_per_unit == 1) * before;
        self.votes = votes.clamp(-Self::VOTES_MAX, Self::VOTES_MAX) + sign(is_large);
        self.judged = record + 1;
        self.scale = if self.votes > 0 {
            FractionScale {
                nanos_per_unit: 1,
                least: MICROS,
                usual: SECOND as u32 - MICROS,
            }
        } else {
            FractionScale::MICROSECONDS
        };
        u64::from(fraction)
            * if is_large {
                1
            } else {
                self.scale.nanos_per_unit
            }
    }

    /// Number of fractions so far that cannot be microseconds.
    fn too_large(&self) -> u64 {
        self.too_large_before(self.read)
    }

    fn too_large_before(&self, record: u64) -> u64 {
        self.too_large
            + if self.scale.nanos_per_unit < self.stated {
                record - self.judged
            } else {
                0
            }
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
            file.extend(
                [micros / 1_000_000, micros % 1_000_000, len, len]
                    .map(u32::to_le_bytes)
                    .concat(),
            );
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
    use crate::format::CaptureFormat;
    use crate::format::samples::read;

    /// The words of a little-endian file, and the bytes after them.
    fn file(header: [[u8; 4]; 6], record: &[u32], bytes: &[u8]) -> Vec<u8> {
        let record: Vec<_> = record.iter().flat_map(|w| w.to_le_bytes()).collect();
        [header.as_flattened(), &record, bytes].concat()
    }

    /// A file → time, link type, original length, and bytes of its packets, and the reason for the stop.
    fn check(file: &[u8], expected: &[(i64, LinkType, u32, &[u8])], stop: RecordStop) {
        let (block, _, stopped) = read(&mut CaptureFormat::Undetected, file);
        let packets: Vec<_> = block
            .packets()
            .map(|c| (c.ts.0, c.link_type, c.original_len, c.bytes))
            .collect();
        assert_eq!((&packets[..], stopped), (expected, stop));
    }

    #[test]
    fn magics_and_link_types() {
        let record = [1, 5, 2, 60];
        let expected = |ts| [(ts, LinkType::Ethernet, 60, &[7, 8][..])];
        check(
            &file(header(MICROSECONDS, 4, 0, 1), &record, &[7, 8]),
            &expected(1_000_005_000),
            RecordStop::Need(16),
        );
        check(
            &file(header(NANOSECONDS, 4, 0, 1), &record, &[7, 8]),
            &expected(1_000_000_005),
            RecordStop::Need(16),
        );
        let long = [1, 5, 2, 60, 3, 0];
        check(
            &file(header(KUZNETZOV, 4, 0, 1), &long, &[7, 8]),
            &expected(1_000_005_000),
            RecordStop::Need(24),
        );
        // Four bytes of frame check sequence, in the upper half of the link type.
        check(
            &file(header(MICROSECONDS, 4, 0, 0x2400_0001), &record, &[7, 8]),
            &expected(1_000_005_000),
            RecordStop::Need(16),
        );
        for (number, link_type) in [
            (0, LinkType::Null),
            (113, LinkType::LinuxSll),
            (147, LinkType::Other(147)),
        ] {
            let file = file(header(MICROSECONDS, 4, 0, number), &[0, 0, 0, 0], &[]);
            check(&file, &[(0, link_type, 0, &[])], RecordStop::Need(16));
        }
    }

    #[test]
    fn big_endian() {
        let little = file(
            header(NANOSECONDS, 4, 65535, 276),
            &[u32::MAX, 999_999_999, 4, 4],
            b"abcd",
        );
        let mut big = little.clone();
        big[..40]
            .as_chunks_mut::<4>()
            .0
            .iter_mut()
            .for_each(|word| word.reverse());
        big[4..8].copy_from_slice(&[0, 2, 0, 4]);
        for file in [little, big] {
            let expected = (
                4_294_967_295_999_999_999,
                LinkType::LinuxSll2,
                4,
                &b"abcd"[..],
            );
            check(&file, &[expected], RecordStop::Need(16));
        }
    }

    #[test]
    fn lengths() {
        let full = |record: &[u32]| file(header(MICROSECONDS, 4, 65535, 1), record, &[9; 8]);
        check(&full(&[0, 0, 9, 9]), &[], RecordStop::Need(25));
        check(
            &full(&[0, 0, 8, 4]),
            &[(0, LinkType::Ethernet, 4, &[9; 8])],
            RecordStop::Need(16),
        );
        check(
            &full(&[0, 0, LEN_PLAUSIBLE, 0]),
            &[],
            RecordStop::Need(16 + LEN_PLAUSIBLE as usize),
        );
        let bad = |len: u32| {
            format!(
                "a packet claims {len} captured bytes, more than a capture can hold: the file is damaged"
            )
        };
        check(
            &full(&[0, 0, LEN_PLAUSIBLE + 1, 0]),
            &[],
            RecordStop::Bad(bad(LEN_PLAUSIBLE + 1)),
        );
        check(
            &full(&[0, 0, u32::MAX, 0]),
            &[],
            RecordStop::Bad(bad(u32::MAX)),
        );
        let unlimited = file(
            header(MICROSECONDS, 4, u32::MAX, 1),
            &[0, 0, 1 << 28, 0],
            &[],
        );
        check(&unlimited, &[], RecordStop::Bad(bad(1 << 28)));
        // Old files have the lengths swapped.
        let old = file(header(MICROSECONDS, 3, 65535, 1), &[0, 0, 60, 8], &[9; 8]);
        check(
            &old,
            &[(0, LinkType::Ethernet, 60, &[9; 8])],
            RecordStop::Need(16),
        );
    }

    /// Seconds and fractions of a microsecond file → nanoseconds, and the number of fractions that are too large; for
    /// any division.
    fn check_fractions(records: &[(u32, u32)], expected: &[i64], too_large: u64) {
        let words: Vec<_> = records
            .iter()
            .flat_map(|(seconds, fraction)| [*seconds, *fraction, 0, 0])
            .collect();
        let file = file(header(MICROSECONDS, 4, 65535, 1), &words, &[]);
        for piece in [file.len(), 50, 17] {
            let mut format = CaptureFormat::Undetected;
            let mut times = Vec::new();
            let mut at = 0;
            let mut end = piece;
            while at < file.len() {
                let (block, len, _) = read(&mut format, &file[at..end.min(file.len())]);
                times.extend(block.packets().map(|packet| packet.ts.0));
                at += len;
                end += piece;
            }
            assert_eq!(times, expected, "in pieces of {piece} bytes");
            assert_eq!(format.nanosecond_fractions(), too_large);
        }
    }

    #[test]
    fn nanoseconds_in_a_file_of_microseconds() {
        check_fractions(
            &[(1, 5_000_000), (1, 999_999_999), (2, 7)],
            &[1_005_000_000, 1_999_999_999, 2_000_000_007],
            2,
        );
        check_fractions(
            &[(0, 1_000_000), (0, 1_000_001)],
            &[1_000_000, 1_000_001],
            2,
        );
        // Large fractions appear late: earlier small ones are microseconds, later ones soon are not.
        let late = |n: usize| {
            let small = (0..n).map(|_| (1, 9));
            let large = (0..9).map(|_| (1, 2_000_000));
            small.chain(large).chain([(2, 9)]).collect::<Vec<_>>()
        };
        for n in [1, 100] {
            let expected: Vec<_> = std::iter::repeat_n(1_000_009_000, n)
                .chain(std::iter::repeat_n(1_002_000_000, 9))
                .chain([2_000_000_009])
                .collect();
            check_fractions(&late(n), &expected, 9);
        }
        // One damaged fraction affects no other packet.
        let mut damaged: Vec<_> = (0..20).map(|n| (n, 5)).collect();
        damaged[10].1 = 1 << 28;
        let mut expected: Vec<_> = (0..20).map(|n| n * 1_000_000_000 + 5_000).collect();
        expected[10] += (1 << 28) - 5_000;
        check_fractions(&damaged, &expected, 1);
    }

    #[test]
    fn a_damaged_fraction_moves_the_clock_by_a_second_at_most() {
        let file = file(header(MICROSECONDS, 4, 65535, 1), &[5, u32::MAX, 0, 0], &[]);
        check(
            &file,
            &[(6_000_000_000, LinkType::Ethernet, 0, &[])],
            RecordStop::Full,
        );
    }
}
