//! Flags of the commands that list parsers, processors and interfaces.

use clap::Args;

use super::Format;

/// Flags of `parsers`, `processors` and `interfaces`.
#[derive(Args, Debug)]
pub struct ListFlags {
    /// Only these
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,

    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,

    /// Print JSON lines; short for --format jsonl
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

impl ListFlags {
    /// Output format.
    pub fn format(&self) -> Format {
        if self.json { Format::Jsonl } else { self.format }
    }
}
