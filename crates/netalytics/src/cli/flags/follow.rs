//! Flags of `follow`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use clap::builder::ValueHint;

use super::limits::{bytes, duration};

/// Flags of `follow`.
#[derive(Args, Debug)]
pub struct FollowFlags {
    /// Flow id as in tuples, 16 hexadecimal digits, or Community ID, as in 1:EMwOMullOvnXqHxWgZVP3yf/x0c=
    #[arg(value_name = "ID")]
    pub id: FlowName,

    /// Captures, merged by time: the same, in the same order, as in the query that printed the id
    #[arg(short, long, value_name = "FILE", num_args = 1.., required = true, value_hint = ValueHint::AnyPath)]
    #[arg(help_heading = "Input")]
    pub read: Vec<PathBuf>,

    /// Idle timeout of a TCP flow [default: 300s]
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Limits")]
    pub tcp_idle: Option<i64>,

    /// Idle timeout of any other flow [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Limits")]
    pub udp_idle: Option<i64>,

    /// Print bytes in hexadecimal
    #[arg(long, help_heading = "Output")]
    pub hex: bool,

    /// Maximum bytes to print, or all; the rest is counted
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "64k",
        help_heading = "Output"
    )]
    pub bytes_max: ByteLimit,

    /// Write the packets of the flow as pcapng; - is standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub write: Option<PathBuf>,

    /// Write the text to this file; - is standard output [default: -]
    #[arg(short, long, value_name = "PATH", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub output: Option<PathBuf>,
}

impl FollowFlags {
    /// The limits by which flows begin and end.
    pub fn config(&self) -> monitor::MonitorConfig {
        let config = monitor::MonitorConfig::default();
        let tcp_idle_ns = self.tcp_idle.unwrap_or(config.flow.tcp_idle_ns);
        let udp_idle_ns = self.udp_idle.unwrap_or(config.flow.udp_idle_ns);
        monitor::MonitorConfig {
            flow: flow::FlowTableConfig {
                tcp_idle_ns,
                udp_idle_ns,
                ..config.flow
            },
            ..config
        }
    }
}

/// Name of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowName {
    /// By its id: one flow.
    Id(u64),
    /// By its ends: one flow, or several after each other.
    CommunityId(String),
}

impl FromStr for FlowName {
    type Err = String;

    fn from_str(text: &str) -> Result<FlowName, String> {
        // Lines of CSV end with CR LF.
        let text = text.trim_ascii();
        let is_community_id = text.len() == 30 && text.starts_with("1:");
        let is_id = text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit());
        match u64::from_str_radix(text, 16) {
            Ok(id) if is_id => Ok(FlowName::Id(id)),
            _ if is_community_id => Ok(FlowName::CommunityId(text.to_owned())),
            _ => {
                Err("16 hexadecimal digits, as in the column id, or a Community ID, which starts with 1:"
                    .into())
            }
        }
    }
}

impl fmt::Display for FlowName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlowName::Id(id) => f.write_str(&sinks::units::id(*id)),
            FlowName::CommunityId(id) => f.write_str(id),
        }
    }
}

/// Maximum number of bytes to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteLimit(pub u64);

impl FromStr for ByteLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<ByteLimit, String> {
        match text {
            "all" => Ok(ByteLimit(u64::MAX)),
            _ => bytes(text)
                .map(|n| ByteLimit(n as u64))
                .map_err(|why| format!("{why}, or all")),
        }
    }
}
