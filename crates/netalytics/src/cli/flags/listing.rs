//! Flags of the commands that list parsers, processors and interfaces.

use clap::Args;

use super::OutputFormat;

/// Flags of `parsers`, `processors` and `interfaces`.
#[derive(Args, Debug)]
pub struct ListFlags {
    /// Names to list [default: all]
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,

    /// Output format
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    format: OutputFormat,

    /// Print JSON lines; short for --format jsonl
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

impl ListFlags {
    /// Output format.
    pub fn format(&self) -> OutputFormat {
        if self.json {
            OutputFormat::Jsonl
        } else {
            self.format
        }
    }
}
