//! Flags of `monitor`, which agents start: what it may read and take. What is asked comes on standard input.

use std::path::PathBuf;

use clap::Args;
use clap::builder::ValueHint;

use super::bus::KafkaClientFlags;
use super::limits::duration;
use super::live::LiveFlags;
use super::query::workers;
use super::{Limits, Workers};

/// What to read, and how much to take.
#[derive(Args, Debug)]
pub struct MonitorFlags {
    /// Captures to read, merged by time: pcap or pcapng, also gzip or zstd of either
    #[arg(short, long, value_name = "FILE", num_args = 1.., value_hint = ValueHint::AnyPath)]
    #[arg(help_heading = "Input")]
    pub read: Vec<PathBuf>,

    /// A capture to play again and again in real time, as if it were live
    #[arg(long, value_name = "FILE", conflicts_with = "read", help_heading = "Input")]
    pub demo: Option<PathBuf>,

    /// The pause between two rounds of --demo
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s", help_heading = "Input")]
    pub demo_pause: i64,

    /// Begin each round of --demo when all others begin it who play that capture with that pause: they see the same packets then
    #[arg(long, requires = "demo", help_heading = "Input")]
    pub demo_in_step: bool,

    #[command(flatten)]
    pub live: LiveFlags,

    /// A capture filter: the same as --capture-filter
    #[arg(value_name = "FILTER")]
    pub words: Vec<String>,

    /// It ends after this, unless a line `renew MILLISECONDS` on standard input puts that off [default: it goes on]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub lease: Option<i64>,

    /// Threads that work on packets, each with its share of the flows; auto is one for each core with files, one live
    #[arg(long, value_name = "N", default_value = "auto", value_parser = workers, help_heading = "Workers")]
    pub workers: Workers,

    /// The Kafka of the order's topics: brokers to ask first, several with commas between
    #[arg(long, value_name = "HOST:PORT", help_heading = "Kafka")]
    pub kafka: Option<String>,

    #[command(flatten)]
    pub client: KafkaClientFlags,

    #[command(flatten)]
    pub limits: Limits,
}
