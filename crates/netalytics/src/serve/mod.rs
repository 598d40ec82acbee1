//! Parts of `netalytics serve` in this process: queries over stored data, the page, the demonstration.

pub mod demo;
mod flow_reader;
pub mod page;
pub mod stored_reader;
pub mod temp_dir;
