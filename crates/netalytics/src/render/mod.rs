//! Output formats: reports (HTML, SVG), conversations, host names, the summary file.

pub mod comparison_table;
pub mod conversation;
pub mod hosts;
pub mod report;
pub mod summary_file;
