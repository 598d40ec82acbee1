//! Summaries of bounded size with proven and tested error bounds: [`LogHistogram`] for quantiles, [`HyperLogLog`] for
//! distinct values, [`SpaceSaving`] for the largest groups.

pub mod hyperloglog;
pub mod log_histogram;
pub mod space_saving;

pub use hyperloglog::HyperLogLog;
pub use log_histogram::LogHistogram;
pub use space_saving::SpaceSaving;
