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
}
