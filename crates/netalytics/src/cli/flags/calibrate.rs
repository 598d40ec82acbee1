//! Flags of `calibrate`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::ValueHint;

/// Flags of `calibrate`.
#[derive(Args, Debug)]
pub struct CalibrateFlags {
    /// Write the costs to this file, for --costs [default: standard output]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,

    /// Number of measurements of each value; the minimum is used
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=100))]
    pub rounds: u8,

    /// Send packets for the measurement: number, bytes, destination
    #[arg(
        long,
        hide = true,
        value_name = "PACKETS,BYTES,ADDRESS",
        conflicts_with = "output"
    )]
    pub send: Option<String>,
}
