//! The command line: flags with their help, the configuration file, and the text of the query.

pub mod flags;
pub mod query_text;
pub mod verbosity;
