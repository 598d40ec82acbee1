//! Counters of the operations of one window. Every part has a bounded size. Merging two parts of a window is
//! equivalent to one part with all their tuples: exact counts stay exact, estimates stay within their bounds.

use tuple::hashes;

use crate::config::EngineConfig;
use crate::ops::distinct::DistinctSet;
use crate::profile::heavy_hitters::{HeavyHitters, KeyCounts, name_of};
use crate::sketch::LogHistogram;

/// Maximum distinct operations per window, and maximum distinct pairs of operation and status.
pub const OPERATIONS_MAX: usize = 256;
/// Size of a block of the working set, in bytes.
pub const BLOCK_BYTES: u64 = 4096;
/// Maximum blocks of one operation in the working set: 16 MiB, because its length is not verified.
pub const BLOCKS_MAX: u64 = 4096;
/// Precision p of HyperLogLog.
pub const PRECISION: u8 = 14;
/// Size classes: 0, 1, 2, 3 to 4, … up to 2^64.
pub const SIZES: usize = 66;

/// Number of operations and bytes, in units of weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationTotal {
    /// Operations.
    pub count: u128,
    /// Bytes.
    pub bytes: u128,
}

impl OperationTotal {
    fn add(&mut self, one: &ProfiledOperation<'_>) {
        self.merge(&OperationTotal {
            count: one.weight,
            bytes: one.weighted_bytes(),
        });
    }
}

impl KeyCounts for OperationTotal {
    fn merge(&mut self, other: &OperationTotal) {
        self.count.merge(&other.count);
        self.bytes.merge(&other.bytes);
    }
}

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum OperationKind {
    Read,
    Write,
    Other,
}

/// Position of an operation relative to the previous one on the same file over the same connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessPattern {
    /// Begins at or near the end of the previous operation.
    Sequential,
    /// Begins elsewhere.
    Random,
    /// No previous operation is known.
    First,
}

/// An operation, from one tuple.
#[derive(Clone, Copy, Debug)]
pub struct ProfiledOperation<'a> {
    /// Weight: the number of operations it represents.
    pub weight: u128,
    /// Hash and name of the operation.
    pub operation: (u64, &'a str),
    /// Kind of the operation.
    pub kind: OperationKind,
    /// Bytes transferred.
    pub bytes: u64,
    /// Bytes requested, for reads and writes.
    pub size: Option<u64>,
    /// Response time.
    pub time_ns: Option<i64>,
    /// Whether the operation failed.
    pub failed: bool,
    /// Access pattern of reads and writes, if known.
    pub pattern: Option<AccessPattern>,
    /// Whether the previous operation may have been evicted.
    pub is_doubtful: bool,
    /// Hash of the file and offset of the first byte, for operations with an offset.
    pub place: Option<(u64, u64)>,
    /// Whether offset and length are multiples of the block size.
    pub aligned: Option<bool>,
    /// Checksums of the blocks.
    pub checksums: &'a [u8],
}

impl ProfiledOperation<'_> {
    /// Bytes transferred, in units of weights.
    pub fn weighted_bytes(&self) -> u128 {
        self.weight.saturating_mul(self.bytes.into())
    }
}

/// Bytes, failures, and response times of one operation.
#[derive(Clone, Debug)]
pub struct OperationStats {
    /// Weighted bytes.
    pub bytes: u128,
    /// Weighted failures.
    pub failed: u128,
    /// Response times.
    pub times: LogHistogram,
}

impl Default for OperationStats {
    fn default() -> OperationStats {
        OperationStats {
            bytes: 0,
            failed: 0,
            times: LogHistogram::of_integers(),
        }
    }
}

impl KeyCounts for OperationStats {
    fn merge(&mut self, other: &OperationStats) {
        self.bytes.merge(&other.bytes);
        self.failed.merge(&other.failed);
        self.times.merge(&other.times);
    }
}

/// Hash of the failed operation; 0 if unknown.
#[derive(Clone, Debug, Default)]
pub struct FailedOperation(pub u64);

impl KeyCounts for FailedOperation {
    fn merge(&mut self, other: &FailedOperation) {
        self.0 = if other.0 == 0 { self.0 } else { other.0 };
    }
}

/// Keys in two rankings.
#[derive(Clone, Debug)]
pub struct HottestKeys {
    /// Ranked by operations, with their bytes.
    pub by_operations: HeavyHitters<u128>,
    /// Ranked by bytes, with their operations.
    pub by_bytes: HeavyHitters<u128>,
}

/// The synopses of a window.
#[derive(Clone, Debug)]
pub struct ProfilePart {
    /// Number of tuples.
    pub tuples: u64,
    /// Event time of the first and last tuple.
    pub span_ns: (i64, i64),
    /// Indexed by [`OperationKind`].
    pub mix: [OperationTotal; 3],
    /// Indexed by [`AccessPattern`], for reads and writes.
    pub patterns: [[OperationTotal; 3]; 2],
    /// Whether a previous operation may have been evicted, for reads and writes.
    pub is_doubtful: [bool; 2],
    /// By size class, for reads and writes.
    pub sizes: [[OperationTotal; SIZES]; 2],
    /// Misaligned and aligned, for reads and writes.
    pub aligned: [[u128; 2]; 2],
    /// 4 KiB blocks read at random.
    pub working_set: DistinctSet,
    /// Number of checksums: of reads, of writes, of both. Not weighted.
    pub checksums: [u64; 3],
    /// Distinct checksums.
    pub contents: [DistinctSet; 3],
    /// By operation.
    pub operations: HeavyHitters<OperationStats>,
    /// Failures by operation and status.
    pub errors: HeavyHitters<FailedOperation>,
    /// Objects.
    pub objects: HottestKeys,
    /// Clients.
    pub clients: HottestKeys,
    /// Memory as last counted.
    pub weighed: usize,
    exact_max: usize,
}

impl ProfilePart {
    /// Creates an empty part; `keys_max` limits the lists of objects and clients.
    #[must_use]
    pub fn new(keys_max: usize, config: &EngineConfig) -> ProfilePart {
        let set = DistinctSet::default;
        ProfilePart {
            tuples: 0,
            span_ns: (i64::MAX, i64::MIN),
            mix: Default::default(),
            patterns: Default::default(),
            is_doubtful: [false; 2],
            sizes: [[OperationTotal::default(); SIZES]; 2],
            aligned: Default::default(),
            working_set: set(),
            checksums: [0; 3],
            contents: [set(), set(), set()],
            operations: HeavyHitters::new(OPERATIONS_MAX),
            errors: HeavyHitters::new(OPERATIONS_MAX),
            objects: HottestKeys::new(keys_max),
            clients: HottestKeys::new(keys_max),
            weighed: 0,
            exact_max: config.distinct_exact_max,
        }
    }

    /// Approximate memory in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let sets: usize = self
            .contents
            .iter()
            .chain([&self.working_set])
            .map(DistinctSet::bytes)
            .sum();
        let times: usize = self
            .operations
            .counted()
            .map(|operation| operation.times.bytes())
            .sum();
        let lists = self.operations.bytes()
            + self.errors.bytes()
            + self.objects.bytes()
            + self.clients.bytes();
        size_of::<ProfilePart>() + sets + times + lists
    }

    /// Whether any list evicted keys.
    #[must_use]
    pub fn is_overflowed(&self) -> bool {
        let of_pair = |pair: &HottestKeys| {
            pair.by_operations.is_overflowed() || pair.by_bytes.is_overflowed()
        };
        self.operations.is_overflowed()
            || self.errors.is_overflowed()
            || of_pair(&self.objects)
            || of_pair(&self.clients)
    }

    /// Adds an operation; the caller updates the lists of errors, objects, and clients. Returns the number of skipped
    /// blocks, and whether the operation evicted another from its list.
    pub fn take(&mut self, time_ns: i64, one: &ProfiledOperation<'_>) -> (u64, bool) {
        self.tuples += 1;
        self.span_ns = (self.span_ns.0.min(time_ns), self.span_ns.1.max(time_ns));
        self.mix[one.kind as usize].add(one);
        let (hash, name) = one.operation;
        let (operation, took) = self.operations.add(hash, || name_of(name), one.weight);
        operation.bytes.merge(&one.weighted_bytes());
        operation
            .failed
            .merge(&if one.failed { one.weight } else { 0 });
        if let Some(time_ns) = one.time_ns {
            operation.times.add_i64(time_ns);
        }
        let skipped = match one.kind {
            OperationKind::Other => 0,
            kind => self.take_data(kind as usize, one),
        };
        (skipped, took)
    }

    fn take_data(&mut self, kind: usize, one: &ProfiledOperation<'_>) -> u64 {
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
            (Some(AccessPattern::Random), Some((file, offset)))
                if kind == OperationKind::Read as usize =>
            {
                self.take_blocks(file, offset, one.bytes)
            }
            _ => 0,
        }
    }

    /// Adds a read range to the working set; returns the number of skipped blocks.
    fn take_blocks(&mut self, file: u64, offset: u64, bytes: u64) -> u64 {
        let Some(more) = bytes.checked_sub(1) else {
            return 0;
        };
        let first = offset / BLOCK_BYTES;
        let last = offset.saturating_add(more) / BLOCK_BYTES;
        let taken = last.min(first.saturating_add(BLOCKS_MAX - 1));
        for block in first..=taken {
            let hash = crate::column::mix(file ^ crate::column::mix(block));
            self.working_set.add(hash, self.exact_max, PRECISION);
        }
        last - taken
    }

    /// Merges another part of the same window; returns the number of evicted keys.
    pub fn merge(&mut self, other: ProfilePart) -> usize {
        self.tuples += other.tuples;
        self.span_ns = (
            self.span_ns.0.min(other.span_ns.0),
            self.span_ns.1.max(other.span_ns.1),
        );
        merge_all(&mut self.mix, &other.mix);
        for kind in 0..2 {
            self.is_doubtful[kind] |= other.is_doubtful[kind];
            merge_all(&mut self.patterns[kind], &other.patterns[kind]);
            merge_all(&mut self.sizes[kind], &other.sizes[kind]);
            merge_all(&mut self.aligned[kind], &other.aligned[kind]);
        }
        self.working_set
            .merge(&other.working_set, self.exact_max, PRECISION);
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

impl HottestKeys {
    fn bytes(&self) -> usize {
        self.by_operations.bytes() + self.by_bytes.bytes()
    }

    fn new(keys_max: usize) -> HottestKeys {
        HottestKeys {
            by_operations: HeavyHitters::new(keys_max),
            by_bytes: HeavyHitters::new(keys_max),
        }
    }

    /// Adds an operation of a key; returns the number of evicted keys.
    pub fn take(
        &mut self,
        hash: u64,
        name: impl Fn() -> Box<str>,
        one: &ProfiledOperation<'_>,
    ) -> u64 {
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

    fn merge(&mut self, other: HottestKeys) -> usize {
        self.by_operations.merge(other.by_operations) + self.by_bytes.merge(other.by_bytes)
    }
}

fn merge_all<T: KeyCounts>(mine: &mut [T], theirs: &[T]) {
    mine.iter_mut()
        .zip(theirs)
        .for_each(|(mine, theirs)| mine.merge(theirs));
}

/// 0 for size 0, otherwise 1 plus the exponent of the smallest power of two not below the size.
fn size_class(size: u64) -> usize {
    size.checked_sub(1)
        .map_or(0, |less| 65 - less.leading_zeros() as usize)
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
        for (size, largest) in [
            (0, 0),
            (1, 1),
            (2, 2),
            (3, 4),
            (4, 4),
            (4095, 4096),
            (4096, 4096),
            (4097, 8192),
        ] {
            assert_eq!(largest_of(size_class(size)), largest, "{size}");
        }
        assert_eq!(largest_of(size_class(u64::MAX)), 1 << 64);
        assert_eq!(size_class(u64::MAX), SIZES - 1);
    }
}
