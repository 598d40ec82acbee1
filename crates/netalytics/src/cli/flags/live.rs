//! Flags of live capture.

use std::path::PathBuf;

use capture::mirror_source::MirrorListenAddress;
use clap::{Args, ValueEnum};

use crate::process::failure::wrong_flags;
use crate::process::file_owner::{self, FileOwner};

/// Flags of live capture.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Live capture")]
pub struct LiveFlags {
    /// Capture from these interfaces (eth0, eth0,eth1 or any); words after the name are a capture filter
    #[arg(short, long, value_names = ["IFACE", "FILTER"], num_args = 1.., conflicts_with = "read")]
    pub interface: Vec<String>,

    /// The names alone.
    #[arg(skip)]
    pub interfaces: Vec<String>,

    /// Capture filter, from the flag or positional; empty: every packet.
    #[arg(skip)]
    pub filter: String,

    /// Socket of an agent that passes on export messages, from the flag of `monitor`.
    #[arg(skip)]
    pub relay: Option<PathBuf>,

    /// Receive mirrored traffic (vxlan://ADDR:PORT, geneve://ADDR:PORT, gre://ADDR, erspan://ADDR) or export messages
    /// of switches and routers (sflow://ADDR:PORT, ipfix://ADDR:PORT, netflow://ADDR:PORT); several with commas
    #[arg(long, value_name = "WHAT://ADDR", value_delimiter = ',', conflicts_with_all = ["read", "interface"])]
    pub listen: Vec<MirrorListenAddress>,

    /// Read the payload of the packets (-r, -i) as sFlow, NetFlow, and IPFIX: samples and flow records of switches and
    /// routers
    #[arg(long)]
    pub exports: bool,

    /// Keep the templates and sampling rates of exporters in this file, so that data is decoded at once after a restart
    #[arg(long, value_name = "FILE")]
    pub templates: Option<PathBuf>,

    /// Names of information elements for columns such as field.flowScore: a file with an element per line, in the textual form of
    /// RFC 7013
    #[arg(long, value_name = "FILE")]
    pub elements: Option<PathBuf>,

    /// Fail if an interface is down, instead of waiting for it
    #[arg(long)]
    pub no_wait: bool,

    /// Read an interface with one thread, which distributes packets by their innermost headers
    #[arg(long)]
    #[arg(help_heading = "Tuning")]
    pub one_reader: bool,

    /// Read only packets that match this filter in tcpdump's language; also for files
    #[arg(long, value_name = "FILTER")]
    pub capture_filter: Option<String>,

    /// Maximum bytes captured of a packet
    #[arg(short, long, value_name = "BYTES", default_value = "262144", value_parser = clap::value_parser!(u32).range(1..=262_144))]
    pub snaplen: u32,

    /// Do not set the interface to promiscuous mode
    #[arg(long)]
    pub no_promiscuous: bool,

    /// Size of the packet ring of each worker
    #[arg(long, value_name = "BYTES", default_value = "32M", value_parser = super::limits::bytes)]
    #[arg(help_heading = "Tuning")]
    pub buffer_size: usize,

    /// Capture method
    #[arg(long, value_enum, default_value_t = BackendFlag::AfPacket, value_name = "HOW")]
    pub capture: BackendFlag,

    /// AF_XDP: redirect matching packets even on an interface that this machine uses
    #[arg(long)]
    pub xdp_steal: bool,

    /// AF_XDP: place of the XDP program
    #[arg(long, value_enum, default_value_t = XdpModeFlag::Auto, value_name = "WHERE")]
    #[arg(help_heading = "Tuning")]
    pub xdp_mode: XdpModeFlag,

    /// AF_XDP: assume that both directions of a flow arrive on one queue, so that workers share the queues
    #[arg(long)]
    #[arg(help_heading = "Tuning")]
    pub xdp_trust_queues: bool,

    /// DPDK: arguments of its environment, as in "-l 0 -a 0000:3b:00.0"; -i names a port
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    pub dpdk_args: Option<String>,

    /// Clock for packet timestamps
    #[arg(long, value_enum, default_value_t = ClockFlag::System, value_name = "CLOCK")]
    pub timestamps: ClockFlag,

    /// User to switch to after the capture is opened, if started as root
    /// [default: the caller of sudo, otherwise nobody]
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,

    /// Do not restrict system calls after the capture is opened
    #[arg(long)]
    pub no_seccomp: bool,
}

/// Capture method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BackendFlag {
    /// Ring filled by the kernel; every interface
    AfPacket,
    /// Queues of the driver, without the kernel's network stack
    AfXdp,
    /// Network adapter polled in user space
    Dpdk,
}

/// Place of the XDP program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum XdpModeFlag {
    /// Native if the driver supports it, otherwise generic
    Auto,
    /// In the driver
    Native,
    /// In the network stack; every driver, slower
    Generic,
}

/// Clock for packet timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClockFlag {
    /// Clock of the machine
    System,
    /// Clock of the network adapter, if it has one
    Adapter,
}

impl LiveFlags {
    /// Adds the interfaces of one `-i`. Names of DPDK ports may contain commas.
    pub fn add_interfaces(&mut self, names: &str) {
        match self.capture {
            BackendFlag::Dpdk => self.interfaces.push(names.to_owned()),
            _ => self.interfaces.extend(
                names
                    .split(',')
                    .filter(|name| !name.is_empty())
                    .map(str::to_owned),
            ),
        }
    }

    /// Whether packets come from the network.
    pub fn is_live(&self) -> bool {
        !self.interfaces.is_empty() || !self.listen.is_empty() || self.relay.is_some()
    }

    /// Whether the packets carry export messages (sFlow, NetFlow, IPFIX).
    ///
    /// # Errors
    /// `--listen` for both mirrors and export messages.
    pub fn reads_exports(&self) -> anyhow::Result<bool> {
        let exports = self
            .listen
            .iter()
            .filter(|address| address.is_export())
            .count();
        if exports > 0 && exports < self.listen.len() {
            return Err(wrong_flags(
                "--listen receives mirrored packets or export messages (sflow, ipfix, netflow), not both at once",
            ));
        }
        Ok(self.exports || exports > 0)
    }

    /// Owner of files created before privileges are dropped.
    pub fn file_owner(&self) -> FileOwner {
        match file_owner::caller().filter(|_| self.is_live() && self.user.is_none()) {
            Some((user, group)) => FileOwner::Caller { user, group },
            None => FileOwner::Us,
        }
    }
}
