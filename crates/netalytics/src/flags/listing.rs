//! Flags of the verbs that list what there is.

use clap::Args;

use super::Format;

/// Flags of `parsers`, `processors` and `interfaces`.
#[derive(Args, Debug)]
pub struct ListFlags {
    /// Only these
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,

    /// How to print: a text for people, or one row for each
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}
