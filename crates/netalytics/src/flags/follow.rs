//! Flags of `follow`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use clap::builder::ValueHint;

use super::limits::{bytes, duration};

/// Which flow, of which captures, and how it is shown.
#[derive(Args, Debug)]
pub struct FollowFlags {
    /// The flow: its id as tuples have it, 16 hexadecimal digits, or its Community ID, as in 1:EMwOMullOvnXqHxWgZVP3yf/x0c=
    #[arg(value_name = "ID")]
    pub id: FlowName,

    /// Captures to read, merged by time: the same ones, in the same order, as for the query that told the id
    #[arg(short, long, value_name = "FILE", num_args = 1.., required = true, value_hint = ValueHint::AnyPath)]
    #[arg(help_heading = "Input")]
    pub read: Vec<PathBuf>,

    /// Idle timeout of a TCP connection [default: 300s]
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Input")]
    pub tcp_idle: Option<i64>,

    /// Idle timeout of any other flow [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Input")]
    pub udp_idle: Option<i64>,

    /// Show bytes in hexadecimal
    #[arg(long, help_heading = "Output")]
    pub hex: bool,

    /// Maximum bytes to show, or all; the rest is counted
    #[arg(long, value_name = "BYTES", default_value = "64k", help_heading = "Output")]
    pub bytes_max: BytesMax,

    /// Write the flow's packets as pcapng; - is standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub write: Option<PathBuf>,

    /// Where the text goes; without it, or with -, to standard output
    #[arg(short, long, value_name = "PATH", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub output: Option<PathBuf>,
}

impl FollowFlags {
    /// The limits by which flows begin and end.
    pub fn config(&self) -> monitor::Config {
        let config = monitor::Config::default();
        let tcp_idle_ns = self.tcp_idle.unwrap_or(config.flow.tcp_idle_ns);
        let udp_idle_ns = self.udp_idle.unwrap_or(config.flow.udp_idle_ns);
        monitor::Config { flow: flow::Config { tcp_idle_ns, udp_idle_ns, ..config.flow }, ..config }
    }
}

/// How a flow is named.
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
                Err("16 hexadecimal digits, as the column id has them, or 1: and the rest of a Community ID"
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

/// So many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BytesMax(pub u64);

impl FromStr for BytesMax {
    type Err = String;

    fn from_str(text: &str) -> Result<BytesMax, String> {
        match text {
            "all" => Ok(BytesMax(u64::MAX)),
            _ => bytes(text).map(|n| BytesMax(n as u64)).map_err(|why| format!("{why}, or all")),
        }
    }
}
