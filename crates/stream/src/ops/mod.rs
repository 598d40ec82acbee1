//! The operators, one per file. Each processes whole columns; windows are handled elsewhere.

pub mod accumulator;
pub mod accumulator_spec;
pub mod aggregate;
pub mod conditions;
pub mod count;
pub mod distinct;
pub mod expr;
pub mod filter;
pub mod group_by;
pub mod join;
pub mod like;
pub mod min_max;
pub mod quantile;
pub mod spread;
pub mod success;
pub mod sum;
pub mod take;
pub mod text;
pub mod top_k;
pub mod top_rows;
