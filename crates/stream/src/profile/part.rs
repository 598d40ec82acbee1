//! What is counted of the operations of one window. Every part has a bounded size, and two parts of a window merge into
//! what one part of all their tuples would be: exact numbers exactly, estimates within their bounds.

use tuple::hashes;

use crate::config::Config;
use crate::ops::distinct::DistinctSet;
use crate::profile::heavy::{Counted, Heavy, name_of};
use crate::sketch::LogHistogram;

/// Different operations, and pairs of operation and status, of a window.
pub const OPERATIONS_MAX: usize = 256;
/// Bytes of a block of the working set.
pub const BLOCK_BYTES: u64 = 4096;
/// Maximum blocks of one operation in the working set: 16 MiB, because its length is not verified.
pub const BLOCKS_MAX: u64 = 4096;
/// HyperLogLog's p.
pub const PRECISION: u8 = 14;
/// Classes of sizes: 0, 1, 2, 3 to 4, … up to 2^64.
pub const SIZES: usize = 66;

/// Operations and the bytes that they moved, in the unit of weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Operations.
    pub count: u128,
    /// Bytes.
    pub bytes: u128,
}

impl Total {
    fn add(&mut self, one: &One<'_>) {
        self.merge(&Total { count: one.weight, bytes: one.weighted_bytes() });
    }
}

impl Counted for Total {
    fn merge(&mut self, other: &Total) {
        self.count.merge(&other.count);
        self.bytes.merge(&other.bytes);
    }
}

/// What an operation does to data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    Read,
    Write,
    Other,
}

/// How an operation follows the one before on the same file, over the same connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// It begins where that one ended, or near.
    Sequential,
    /// It does not.
    Random,
    /// None before is known.
    First,
}

/// One tuple, as a profile sees it.
#[derive(Clone, Copy, Debug)]
pub struct One<'a> {
    /// How many operations it stands for.
    pub weight: u128,
    /// What was done, and its hash.
    pub operation: (u64, &'a str),
    /// To data.
    pub kind: Kind,
    /// Bytes moved.
    pub bytes: u64,
    /// Bytes asked for, of reads and writes.
    pub size: Option<u64>,
    /// How long it took.
    pub time_ns: Option<i64>,
    /// It did not do what it should.
    pub failed: bool,
    /// Access pattern of reads and writes, if known.
    pub pattern: Option<Pattern>,
    /// The one before may have been forgotten.
    pub is_doubtful: bool,
    /// The file's hash and the first byte, where there is data at a place.
    pub place: Option<(u64, u64)>,
    /// Whether it is a matter of whole blocks.
    pub aligned: Option<bool>,
    /// Check-sums of the blocks.
    pub checksums: &'a [u8],
}

impl One<'_> {
    /// Bytes moved, in the unit of weights.
    pub fn weighted_bytes(&self) -> u128 {
        self.weight.saturating_mul(self.bytes.into())
    }
}

/// Of one kind of operation: what it moved, when it failed, how long it took.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Bytes, weighted.
    pub bytes: u128,
    /// Those that failed, weighted.
    pub failed: u128,
    /// Response times.
    pub times: LogHistogram,
}

impl Default for Operation {
    fn default() -> Operation {
        Operation { bytes: 0, failed: 0, times: LogHistogram::of_integers() }
    }
}

impl Counted for Operation {
    fn merge(&mut self, other: &Operation) {
        self.bytes.merge(&other.bytes);
        self.failed.merge(&other.failed);
        self.times.merge(&other.times);
    }
}

/// The hash of the operation that failed; 0: it is not known.
#[derive(Clone, Debug, Default)]
pub struct Failed(pub u64);

impl Counted for Failed {
    fn merge(&mut self, other: &Failed) {
        self.0 = if other.0 == 0 { self.0 } else { other.0 };
    }
}

/// Keys ranked twice.
#[derive(Clone, Debug)]
pub struct Hottest {
    /// Ranked by operations, with their bytes.
    pub by_operations: Heavy<u128>,
    /// Ranked by bytes, with their operations.
    pub by_bytes: Heavy<u128>,
}

/// A window's synopses.
#[derive(Clone, Debug)]
pub struct Part {
    /// Tuples taken.
    pub tuples: u64,
    /// Event time of the first and the last.
    pub span_ns: (i64, i64),
    /// By [`Kind`].
    pub mix: [Total; 3],
    /// By [`Pattern`], of reads and of writes.
    pub patterns: [[Total; 3]; 2],
    /// Whether an operation before may have been forgotten, of reads and of writes.
    pub is_doubtful: [bool; 2],
    /// By class of size, of reads and of writes.
    pub sizes: [[Total; SIZES]; 2],
    /// Misaligned and aligned, of reads and of writes.
    pub aligned: [[u128; 2]; 2],
    /// 4 KiB blocks read at random.
    pub working_set: DistinctSet,
    /// Check-sums seen: of reads, of writes, of both. Not weighted.
    pub checksums: [u64; 3],
    /// Different ones.
    pub contents: [DistinctSet; 3],
    /// By what was done.
    pub operations: Heavy<Operation>,
    /// By what was done and the status, of those that failed.
    pub errors: Heavy<Failed>,
    /// Objects.
    pub objects: Hottest,
    /// Clients.
    pub clients: Hottest,
    /// Memory as it was counted last.
    pub weighed: usize,
    exact_max: usize,
}

impl Part {
    /// Of nothing; `keys_max` bounds the lists of objects and clients.
    #[must_use]
    pub fn new(keys_max: usize, config: &Config) -> Part {
        let set = DistinctSet::default;
        Part {
            tuples: 0,
            span_ns: (i64::MAX, i64::MIN),
            mix: Default::default(),
            patterns: Default::default(),
            is_doubtful: [false; 2],
            sizes: [[Total::default(); SIZES]; 2],
            aligned: Default::default(),
            working_set: set(),
            checksums: [0; 3],
            contents: [set(), set(), set()],
            operations: Heavy::new(OPERATIONS_MAX),
            errors: Heavy::new(OPERATIONS_MAX),
            objects: Hottest::new(keys_max),
            clients: Hottest::new(keys_max),
            weighed: 0,
            exact_max: config.distinct_exact_max,
        }
    }

    /// Memory that it takes, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let sets: usize = self.contents.iter().chain([&self.working_set]).map(DistinctSet::bytes).sum();
        let times: usize = self.operations.counted().map(|operation| operation.times.bytes()).sum();
        let lists =
            self.operations.bytes() + self.errors.bytes() + self.objects.bytes() + self.clients.bytes();
        size_of::<Part>() + sets + times + lists
    }

    /// Whether keys of any list lost their places.
    #[must_use]
    pub fn is_overflowed(&self) -> bool {
        let of_pair = |pair: &Hottest| pair.by_operations.is_overflowed() || pair.by_bytes.is_overflowed();
        self.operations.is_overflowed()
            || self.errors.is_overflowed()
            || of_pair(&self.objects)
            || of_pair(&self.clients)
    }

    /// Takes an operation; the caller adds to the lists of errors, objects and clients. Returns how many blocks were too
    /// many, and whether the operation took another's place in its list.
    pub fn take(&mut self, time_ns: i64, one: &One<'_>) -> (u64, bool) {
        self.tuples += 1;
        self.span_ns = (self.span_ns.0.min(time_ns), self.span_ns.1.max(time_ns));
        self.mix[one.kind as usize].add(one);
        let (hash, name) = one.operation;
        let (operation, took) = self.operations.add(hash, || name_of(name), one.weight);
        operation.bytes.merge(&one.weighted_bytes());
        operation.failed.merge(&if one.failed { one.weight } else { 0 });
        if let Some(time_ns) = one.time_ns {
            operation.times.add_i64(time_ns);
        }
        let skipped = match one.kind {
            Kind::Other => 0,
            kind => self.take_data(kind as usize, one),
        };
        (skipped, took)
    }

    fn take_data(&mut self, kind: usize, one: &One<'_>) -> u64 {
        if let Some(size) = one.size {
            self.sizes[kind][size_class(size)].add(one);
        }
        if let Some(aligned) = one.aligned {
            self.aligned[kind][usize::from(aligned)].merge(&one.weight);
        }
        self.is_doubtful[kind] |= one.is_doubtful;
        if let Some(pattern) = one.pattern {
            self.patterns[kind][pattern as usize].add(one);
        }
        for checksum in hashes::of(one.checksums).flatten() {
            for which in [kind, 2] {
                self.checksums[which] += 1;
                self.contents[which].add(crate::column::mix(checksum), self.exact_max, PRECISION);
            }
        }
        match (one.pattern, one.place) {
            (Some(Pattern::Random), Some((file, offset))) if kind == Kind::Read as usize => {
                self.take_blocks(file, offset, one.bytes)
            }
            _ => 0,
        }
    }

    /// Puts what was read into the working set; returns how many blocks were too many.
    fn take_blocks(&mut self, file: u64, offset: u64, bytes: u64) -> u64 {
        let Some(more) = bytes.checked_sub(1) else { return 0 };
        let (first, last) = (offset / BLOCK_BYTES, offset.saturating_add(more) / BLOCK_BYTES);
        let taken = last.min(first.saturating_add(BLOCKS_MAX - 1));
        for block in first..=taken {
            let hash = crate::column::mix(file ^ crate::column::mix(block));
            self.working_set.add(hash, self.exact_max, PRECISION);
        }
        last - taken
    }

    /// Takes over another part of the same window; returns how many keys found no room.
    pub fn merge(&mut self, other: Part) -> usize {
        self.tuples += other.tuples;
        self.span_ns = (self.span_ns.0.min(other.span_ns.0), self.span_ns.1.max(other.span_ns.1));
        merge_all(&mut self.mix, &other.mix);
        for kind in 0..2 {
            self.is_doubtful[kind] |= other.is_doubtful[kind];
            merge_all(&mut self.patterns[kind], &other.patterns[kind]);
            merge_all(&mut self.sizes[kind], &other.sizes[kind]);
            merge_all(&mut self.aligned[kind], &other.aligned[kind]);
        }
        self.working_set.merge(&other.working_set, self.exact_max, PRECISION);
        for which in 0..3 {
            self.checksums[which] += other.checksums[which];
            self.contents[which].merge(&other.contents[which], self.exact_max, PRECISION);
        }
        self.operations.merge(other.operations)
            + self.errors.merge(other.errors)
            + self.objects.merge(other.objects)
            + self.clients.merge(other.clients)
    }
}

impl Hottest {
    fn bytes(&self) -> usize {
        self.by_operations.bytes() + self.by_bytes.bytes()
    }

    fn new(keys_max: usize) -> Hottest {
        Hottest { by_operations: Heavy::new(keys_max), by_bytes: Heavy::new(keys_max) }
    }

    /// Takes an operation of a key; returns how many keys lost their places.
    pub fn take(&mut self, hash: u64, name: impl Fn() -> Box<str>, one: &One<'_>) -> u64 {
        let bytes = one.weighted_bytes();
        let (counted, took) = self.by_operations.add(hash, &name, one.weight);
        counted.merge(&bytes);
        if bytes == 0 {
            return took.into();
        }
        let (counted, took_too) = self.by_bytes.add(hash, &name, bytes);
        counted.merge(&one.weight);
        u64::from(took) + u64::from(took_too)
    }

    fn merge(&mut self, other: Hottest) -> usize {
        self.by_operations.merge(other.by_operations) + self.by_bytes.merge(other.by_bytes)
    }
}

fn merge_all<T: Counted>(mine: &mut [T], theirs: &[T]) {
    mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| mine.merge(theirs));
}

/// 0 for nothing, else 1 more than the exponent of the least power of two that is not smaller.
fn size_class(size: u64) -> usize {
    size.checked_sub(1).map_or(0, |less| 65 - less.leading_zeros() as usize)
}

/// The largest size of a class.
#[must_use]
pub fn largest_of(class: usize) -> u128 {
    if class == 0 { 0 } else { 1 << (class - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_end_at_powers_of_two() {
        for (size, largest) in
            [(0, 0), (1, 1), (2, 2), (3, 4), (4, 4), (4095, 4096), (4096, 4096), (4097, 8192)]
        {
            assert_eq!(largest_of(size_class(size)), largest, "{size}");
        }
        assert_eq!(largest_of(size_class(u64::MAX)), 1 << 64);
        assert_eq!(size_class(u64::MAX), SIZES - 1);
    }
}
