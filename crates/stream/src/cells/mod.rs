//! Partial results as rows that another engine merges using only SUM, MIN, and MAX, and the conversion back.
//!
//! A *cell* is the content of one group at one sampling rate and in one replicate for one pane. Workers emit theirs as rows
//! ([`crate::Engine::cells`]). Rows with equal key columns become one, with each other column merged as defined in
//! [`CellTable`]. The collector reads merged, partly merged, and unmerged rows in any order and any number of batches
//! ([`crate::Engine::partial_of_cells`]).
//!
//! # Rows
//!
//! Every row has `pane` (its number: the pane begins at this multiple of [`CellTable::pane_ns`]; 0 without windows), the
//! group columns `k0`, `k1`, …, `rate`, and `replicate`. `et_ms` is the start of the pane, rounded down, or without windows
//! the event time reached. Columns not listed below are null.
//!
//! - **Base rows**: `slot` and `whole` are null. The row states that the group exists, and contains `tuples`, `first_ns`, and
//!   `last_ns` (of the pane as a whole, in any of its rows), and the accumulator columns `a0…`, `a1…`.
//! - **Entry rows**: `slot` is the number of a histogram or of a set of distinct values, `at` the entry, and `n` its number of
//!   values. For a histogram, `at` is the bucket, `bits` the resolution, and `a{slot}_min` and `a{slot}_max` are the minimum
//!   and maximum value *of this row* (only in entry rows; null means the bounds of the bucket). For distinct values, `at` is
//!   the hash, or it is null and `d{slot}` is the value itself.
//! - **Whole rows**: `whole` is not null. It is the encoding (see `partial`) of a part of a pane that cannot be converted to
//!   rows, because its groups overflowed, its sketches are coarse or estimates, its sums are too long, or it is a profile or
//!   has deviations of floating point numbers. `n` is the number of equal parts. The only key is `pane`.
//! - Rows without `pane` are not cells: beats and marks.
//!
//! # Cells of tuples
//!
//! The rows for a single tuple, so that another engine can create cells. A tuple is included if it passes the filters, its
//! [`CellTable::required`] column is not null, and, with windows, it has a `ts_end`. `pane` is ⌊ts_end / pane length⌋ (rounded
//! down, also below 0). `rate` is [`CellTable::sample`], or the rate of the tuple if tuples carry it, with 1 for null and for
//! values outside (0, 1]. −0.0 in a group column is 0.0. `replicate` is the result of [`crate::sampling::replicate`], or 0 if
//! there is only one.
//!
//! One base row, with `tuples` = 1, `first_ns` = `last_ns` = `ts_end`, and for accumulator i with column value x:
//!
//! | [`AccumulatorSpec`] | columns |
//! |---|---|
//! | `Count` | `a{i}_n` = 1 |
//! | `Sum` | for non-null x `a{i}_n` = 1, `a{i}_sum` = x |
//! | `Extreme` | `a{i}` = x; for unsigned x its bits with the top bit flipped (x − 2^63 as a signed number) |
//! | `Spread` of integers | for non-null x `a{i}_n` = 1, `a{i}_sum` = x, `a{i}_squares` = x² |
//! | `Spread` of floating point numbers | cannot be computed from tuples |
//! | `Outcome` | if the predicate is not null `a{i}_known` = 1, `a{i}_yes` = 1 if true, otherwise 0 |
//!
//! For each accumulator of the other two kinds, one entry row if x is not null, with `slot` = i, `n` = 1:
//!
//! | [`AccumulatorSpec`] | columns |
//! |---|---|
//! | `Distinct` | `d{i}` = x (0.0 for −0.0) |
//! | `Histogram` of b bits | `at` = bucket(x), `bits` = b, `a{i}_min` = `a{i}_max` = x as floating point |
//!
//! The bucket of a negative number is the negated bucket of its magnitude m = |x| (2^63 for the smallest signed number). For
//! integers, exactly, with e = ⌊log2 m⌋:
//!
//! - m < 2^(b+1): bucket = m
//! - otherwise: bucket = (e − b) · 2^b + ⌊m / 2^(e−b)⌋
//!
//! For floating point numbers, exactly, with e = ⌊log2 m⌋ and m / 2^e in [1, 2):
//!
//! - m < 2^−32: bucket = 0
//! - m ≥ 2^64: bucket = 96 · 2^b
//! - otherwise: bucket = (e + 32) · 2^b + ⌊(m / 2^e − 1) · 2^b⌋ + 1
//!
//! A sum (`a{i}_sum`, `a{i}_squares`) that is null while `a{i}_n` is above 0 exceeded 38 digits; such rows are rejected.

mod column;
mod fingerprint;
mod parts;
mod read;
mod table;
mod times;
mod write;

pub use crate::ops::accumulator_spec::{AccumulatorSpec, ExtremeEnd, MeasuredColumn};
pub(crate) use column::CellColumnBuilder;
pub use column::CellType;
pub use fingerprint::fingerprint;
pub(crate) use parts::{AccumulatorEntry, AccumulatorParts, DECIMAL_MAX, EntryParts};
pub(crate) use read::{CellRowKind, CellRows};
pub use table::{CellColumn, CellColumnRole, CellMerge, CellOrigin, CellTable};
pub(crate) use times::CellTimes;
pub(crate) use write::{CellRowOwner, CellWriter};
