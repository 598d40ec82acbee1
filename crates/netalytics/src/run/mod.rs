//! A run, from checked flags to rows, packets, and the summary; its progress display, privileges, and outlets.

pub mod assertions;
pub mod comparison;
pub mod display;
pub mod frequent_values;
pub mod live_table;
pub mod loss_notice;
pub mod multi_query;
pub mod open_outlets;
pub mod output_folder;
pub mod packet_writer;
pub mod prepared_run;
pub mod privileges;
pub mod progress;
pub mod query_source;
pub mod redaction;
pub mod result_target;
pub mod run_query;
pub mod running_query;
pub mod stats;
