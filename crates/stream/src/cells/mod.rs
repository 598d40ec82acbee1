//! Partial results as rows that a foreign engine merges with SUM, MIN and MAX, and nothing else.
//!
//! A *cell* is what came to one group at one sampling rate and in one replicate during one pane. Rows of equal key columns are
//! one row in the end, whose merged columns are the sums, least and largest of theirs; [`CellTable`] says which column is
//! which. There are three kinds of rows:
//!
//! - **Base rows** (`slot` and `whole` are null): that the group is there, and what is accumulated in a fixed number of columns.
//! - **Entry rows** (`slot` is the place of an accumulator): a bucket of a histogram, or one of different values.
//! - **Whole rows** (`whole` is not null): what cannot be rows.

mod table;

pub use crate::ops::accumulated::{Accumulated, Measured};
pub use crate::ops::min_max::End;
pub use table::{CellColumn, CellTable, CellType, Merge, Origin, Role};
