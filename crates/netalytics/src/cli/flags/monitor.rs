//! Flags of `monitor`, which agents start. Its order comes on standard input.

use std::path::PathBuf;

use clap::Args;
use clap::builder::ValueHint;

use super::bus::KafkaClientFlags;
use super::limits::duration;
use super::live::LiveFlags;
use super::values::workers;
use super::{LimitFlags, WorkerCount};

/// Flags of `monitor`.
#[derive(Args, Debug)]
pub struct MonitorFlags {
    /// Captures (pcap, pcapng, also gzip or zstd), merged by time
    #[arg(short, long, value_name = "FILE", num_args = 1.., value_hint = ValueHint::AnyPath)]
    #[arg(help_heading = "Input")]
    pub read: Vec<PathBuf>,

    /// Replay this capture in a loop, in real time
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "read",
        help_heading = "Input"
    )]
    pub demo: Option<PathBuf>,

    /// Pause between two rounds of --demo
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s", help_heading = "Input")]
    pub demo_pause: i64,

    /// Start each round of --demo at the same time as other processes that replay the same capture
    #[arg(long, requires = "demo", help_heading = "Input")]
    pub demo_in_step: bool,

    /// Read the export messages that an agent receives from this socket
    #[arg(long, value_name = "SOCKET", conflicts_with_all = ["read", "demo", "interface", "listen"], help_heading = "Input")]
    pub exports_from: Option<PathBuf>,

    #[command(flatten)]
    pub live: LiveFlags,

    /// Capture filter; the same as --capture-filter
    #[arg(value_name = "FILTER")]
    pub words: Vec<String>,

    /// Stop after this time unless `renew MILLISECONDS` on standard input extends it [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub lease: Option<i64>,

    /// Number of threads that process packets, 1 to 256; auto: one per core for files, one for live capture
    #[arg(long, value_name = "N", default_value = "auto", value_parser = workers, help_heading = "Resources")]
    pub workers: WorkerCount,

    /// Bootstrap brokers of the Kafka topics that the order names, separated by commas
    #[arg(long, value_name = "HOST:PORT", help_heading = "Kafka")]
    pub kafka: Option<String>,

    #[command(flatten)]
    pub client: KafkaClientFlags,

    #[command(flatten)]
    pub limits: LimitFlags,
}
