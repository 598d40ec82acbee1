//! Flags of `network discover`.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use clap::builder::ValueHint;
use clap::{Args, Subcommand};

/// Flags of `network`.
#[derive(Args, Debug)]
#[command(arg_required_else_help = false)]
pub struct NetworkVerbFlags {
    #[command(subcommand)]
    pub what: NetworkCommand,
}

/// Subcommands of `network`.
#[derive(Debug, Subcommand)]
pub enum NetworkCommand {
    /// Describe a network from the data of its switches and a server's agents
    #[command(after_help = super::help::DISCOVER_EXAMPLES)]
    Discover(Box<DiscoverFlags>),
}

/// Flags of `network discover`.
#[derive(Args, Debug)]
pub struct DiscoverFlags {
    /// Switch: its name, the Open vSwitch database socket on this machine, and its bridge (default br0); repeatable
    #[arg(long = "switch", value_name = "NAME=unix:PATH[,BRIDGE]", required = true, value_parser = switch)]
    pub switches: Vec<NamedSwitch>,

    /// REST API of the controller that receives rules instead of the switches' databases: docs/sdn.md
    #[arg(long, value_name = "URL")]
    pub controller: Option<String>,

    /// File with the controller's token, named in the network's description
    #[arg(long, value_name = "FILE", requires = "controller")]
    pub controller_token: Option<std::path::PathBuf>,

    /// Command prefix to run programs on the machine of a switch or host, as in leaf1='ssh leaf1'; repeatable
    #[arg(long, value_name = "NAME=WORDS", value_parser = via)]
    pub via: Vec<(String, Vec<String>)>,

    /// Addresses to find behind switch ports, as in 10.0.1.0/24, in addition to those of agents; repeatable
    #[arg(long, value_name = "NET", value_parser = network)]
    pub addresses: Vec<(Ipv4Addr, u8)>,

    /// Capacity of each link in Mb/s [default: as reported by the switches]
    #[arg(long, value_name = "N", value_parser = rate)]
    pub link_mbps: Option<f64>,

    /// Existing description of this network; keys other than places and addresses are kept
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub into: Option<PathBuf>,

    /// Write the description to this file [default: standard output]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,

    /// Server whose agents are hosts of the network
    #[arg(long, value_name = "URL", help_heading = "By a server")]
    pub server: Option<String>,

    /// File with the token [default: NETALYTICS_TOKEN, NETALYTICS_TOKEN_FILE, or token_file in the client profile]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "server", help_heading = "By a server")]
    pub token_file: Option<PathBuf>,

    /// Certificate (PEM) of the authority that signed the server's, for https:// [default: NETALYTICS_CA, ca in the
    /// client profile, or the system's authorities]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "server", help_heading = "By a server")]
    pub ca: Option<PathBuf>,
}

/// A switch whose data is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedSwitch {
    /// Name of the switch.
    pub name: String,
    /// Socket of the switch's database.
    pub socket: PathBuf,
    /// Bridge of the switch.
    pub bridge: String,
}

fn switch(text: &str) -> Result<NamedSwitch, String> {
    let wrong = || format!("{text:?} is not a switch, such as leaf1=unix:/run/leaf1/db.sock,br0");
    let (name, at) = text.split_once("=unix:").ok_or_else(wrong)?;
    let (socket, bridge) = at.rsplit_once(',').unwrap_or((at, "br0"));
    if name.is_empty() || name.contains(':') || bridge.is_empty() {
        return Err(wrong());
    }
    if !socket.starts_with('/') || !socket.ends_with("/db.sock") {
        return Err(format!(
            "{socket:?} must be the full path of a db.sock, in the folder with the switch's other sockets"
        ));
    }
    Ok(NamedSwitch {
        name: name.to_owned(),
        socket: socket.into(),
        bridge: bridge.to_owned(),
    })
}

fn via(text: &str) -> Result<(String, Vec<String>), String> {
    let (name, words) = text
        .split_once('=')
        .ok_or_else(|| format!("{text:?} must have the form NAME=WORDS"))?;
    Ok((
        name.to_owned(),
        words.split_whitespace().map(str::to_owned).collect(),
    ))
}

fn network(text: &str) -> Result<(Ipv4Addr, u8), String> {
    let (address, length) = text.split_once('/').unwrap_or((text, "32"));
    let read = address
        .parse()
        .ok()
        .zip(length.parse().ok().filter(|length| *length <= 32));
    read.ok_or_else(|| {
        format!("{text:?} is not a network, such as 10.0.1.0/24, or an IPv4 address")
    })
}

fn rate(text: &str) -> Result<f64, String> {
    let rate: Option<f64> = text.parse().ok();
    rate.filter(|rate| rate.is_finite() && *rate > 0.0)
        .ok_or_else(|| format!("{text:?} is not a number above 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_and_networks_are_read() {
        let read = switch("leaf1=unix:/run/leaf1/db.sock").expect("a switch");
        assert_eq!((read.name.as_str(), read.bridge.as_str()), ("leaf1", "br0"));
        assert_eq!(
            switch("a=unix:/run/db.sock,br9").expect("a switch").bridge,
            "br9"
        );
        for wrong in [
            "leaf1",
            "=unix:/run/db.sock",
            "a:1=unix:/run/db.sock",
            "a=unix:run/db.sock",
            "a=unix:/run/x.sock",
            "a=tcp:1.2.3.4",
        ] {
            assert!(switch(wrong).is_err(), "{wrong}");
        }
        assert_eq!(network("10.0.1.0/24"), Ok(([10, 0, 1, 0].into(), 24)));
        assert_eq!(network("10.0.1.9"), Ok(([10, 0, 1, 9].into(), 32)));
        assert!(network("10.0.1.0/33").is_err() && network("fd00::/8").is_err());
        assert_eq!(via("leaf1=ssh leaf1").expect("words").1, ["ssh", "leaf1"]);
        assert!(rate("0").is_err() && rate("inf").is_err());
    }
}
