//! Flags of `calibrate`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::ValueHint;

/// Where what was measured goes.
#[derive(Args, Debug)]
pub struct CalibrateFlags {
    /// The file to keep it in, for --costs [default: standard output]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,

    /// How often each thing is measured: the least counts, as others at work make it more only
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=100))]
    pub rounds: u8,

    /// Be the one who sends packets to measure with: how many, their bytes, to whom
    #[arg(long, hide = true, value_name = "PACKETS,BYTES,ADDRESS", conflicts_with = "output")]
    pub send: Option<String>,
}
