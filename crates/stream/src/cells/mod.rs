//! Partial results as rows that a foreign engine merges with SUM, MIN and MAX, and nothing else; and back.
//!
//! A *cell* is what came to one group at one sampling rate and in one replicate during one pane. Workers give theirs as rows
//! ([`crate::Engine::cells`]), rows whose key columns are equal become one, each other column merged as [`CellTable`] says, and who
//! collects reads them again ([`crate::Engine::partial_of_cells`]), merged, partly merged or as they were, in any order and any
//! number of batches.
//!
//! # The rows
//!
//! Every row has `pane` (its number: the pane begins at this many times [`CellTable::pane_ns`]; without windows 0), the group's columns
//! `k0`, `k1` …, `rate` and `replicate`; `et_ms` is where its pane begins, rounded down, or without windows the time that event
//! time had come to. What is not named is null.
//!
//! - **Base rows**: `slot` and `whole` are null. That the group is there, `tuples`, `first_ns` and `last_ns` of the pane (as a whole: they
//!   may be in any of its rows), and the columns `a0…`, `a1…` of accumulators.
//! - **Entry rows**: `slot` is the number of a histogram or of a set of different values, `at` which of its entries, and `n` how many values
//!   it stands for. Of a histogram `at` is the bucket, `bits` says how fine, and `a{slot}_min` and `a{slot}_max` are the least and the largest value
//!   *of this row* (in none but entry rows; null: no less and no more than the bucket's ends). Of different values `at` is the hash, or it is null and `d{slot}` is the value itself.
//! - **Whole rows**: `whole` is not null: the form of a part of a pane (see `partial`) that cannot be rows, as its groups found no room, its sketches are
//!   coarse or estimates, its sums too long, or it is a profile or has deviations of real numbers. `n` is how many there are that are equal. There are no keys but `pane`.
//! - Rows without `pane` are no cells: beats and marks.
//!
//! # Cells of tuples
//!
//! What comes of one tuple, so that another engine can make cells itself. A tuple takes part that passes the filters, whose
//! [`CellTable::required`] column is not null and which, where there are windows, has a `ts_end`; `pane` is ⌊ts_end / pane length⌋ (rounded down, also
//! below 0), `rate` is [`CellTable::sample`], or where tuples say theirs that, with 1 for null and for what is not in (0, 1].
//! −0.0 in a group's column is 0.0. `replicate` is what [`crate::sampling::replicate`] says, or 0 where there is one only.
//!
//! One base row, `tuples` = 1, `first_ns` = `last_ns` = `ts_end`, and of accumulator i, x being its column's value:
//!
//! | [`Accumulated`] | columns |
//! |---|---|
//! | `Count` | `a{i}_n` = 1 |
//! | `Sum` | of x not null `a{i}_n` = 1, `a{i}_sum` = x |
//! | `Extreme` | `a{i}` = x, of unsigned x its bits with the topmost flipped (x − 2^63 as a signed number) |
//! | `Spread` of whole numbers | of x not null `a{i}_n` = 1, `a{i}_sum` = x, `a{i}_squares` = x² |
//! | `Spread` of real numbers | cannot be made of tuples |
//! | `Outcome` | where the predicate is true or false `a{i}_known` = 1, `a{i}_yes` = 1 if true, else 0 |
//!
//! And for each accumulator of the other two kinds one entry row where x is not null, `slot` = i, `n` = 1:
//!
//! | [`Accumulated`] | columns |
//! |---|---|
//! | `Distinct` | `d{i}` = x (of −0.0: 0.0) |
//! | `Histogram` of b bits | `at` = bucket(x), `bits` = b, `a{i}_min` = `a{i}_max` = x as a real number |
//!
//! The bucket of a negative number is minus that of its magnitude m = |x| (of the least signed number that is 2^63). Of whole numbers, with
//! e = ⌊log2 m⌋, exactly:
//!
//! - m < 2^(b+1): bucket = m
//! - else: bucket = (e − b) · 2^b + ⌊m / 2^(e−b)⌋
//!
//! Of real numbers, with e = ⌊log2 m⌋, exactly, where m / 2^e is at least 1 and below 2:
//!
//! - m < 2^−32: bucket = 0
//! - m ≥ 2^64: bucket = 96 · 2^b
//! - else: bucket = (e + 32) · 2^b + ⌊(m / 2^e − 1) · 2^b⌋ + 1
//!
//! A sum (`a{i}_sum`, `a{i}_squares`) that is null beside `a{i}_n` above 0 left its 38 digits, and such rows are refused.

mod column;
mod fingerprint;
mod parts;
mod read;
mod table;
mod times;
mod write;

pub use crate::ops::accumulated::{Accumulated, End, Measured};
pub(crate) use column::Building;
pub use column::CellType;
pub use fingerprint::fingerprint;
pub(crate) use parts::{DECIMAL_MAX, Entry, EntryOf, PartsOf};
pub(crate) use read::{CellRows, Kind};
pub use table::{CellColumn, CellTable, Merge, Origin, Role};
pub(crate) use times::Times;
pub(crate) use write::{Whose, Writer};
