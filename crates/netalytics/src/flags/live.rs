//! Flags of live capture.

use capture::listen::Listen;
use clap::{Args, ValueEnum};

/// What to capture, and how.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Live capture")]
pub struct LiveFlags {
    /// Capture from a network interface, or from any; words behind it are a capture filter: -i eth0 tcp port 80.
    /// Several, as eth0,eth1 or with -i repeated, have workers of their own
    #[arg(short, long, value_names = ["IFACE", "FILTER"], num_args = 1.., conflicts_with = "read")]
    pub interface: Vec<String>,

    /// The names alone.
    #[arg(skip)]
    pub interfaces: Vec<String>,

    /// Whichever way the capture filter was given; empty: every packet.
    #[arg(skip)]
    pub filter: String,

    /// Receive mirrors sent to this machine: vxlan://ADDR:PORT, geneve://ADDR:PORT, gre://ADDR, erspan://ADDR
    #[arg(long, value_name = "WHAT://ADDR", num_args = 1.., conflicts_with_all = ["read", "interface"])]
    pub listen: Vec<Listen>,

    /// Refuse an interface that is down, instead of waiting until it is up
    #[arg(long)]
    pub no_wait: bool,

    /// Read an interface with one thread that deals packets to the workers by what is inside of tunnels
    #[arg(long)]
    pub one_reader: bool,

    /// Look at packets only that this filter, in tcpdump's language, takes; also of captures that are read
    #[arg(long, value_name = "FILTER")]
    pub capture_filter: Option<String>,

    /// Most bytes kept of a packet
    #[arg(short, long, value_name = "BYTES", default_value = "262144", value_parser = clap::value_parser!(u32).range(1..=262_144))]
    pub snaplen: u32,

    /// Leave the interface as it is: only packets from and to this machine, as a rule
    #[arg(long)]
    pub no_promiscuous: bool,

    /// Memory for packets that wait, of each worker
    #[arg(long, value_name = "BYTES", default_value = "32M", value_parser = super::limits::bytes)]
    pub buffer_size: usize,

    /// How packets come in
    #[arg(long, value_enum, default_value_t = Backend::AfPacket, value_name = "HOW")]
    pub capture: Backend,

    /// With af-xdp: take the query's packets away from this machine even where it uses the interface itself
    #[arg(long)]
    pub xdp_steal: bool,

    /// With af-xdp: where packets are taken
    #[arg(long, value_enum, default_value_t = XdpMode::Auto, value_name = "WHERE")]
    pub xdp_mode: XdpMode,

    /// With af-xdp: both directions of a flow are known to come to one queue, so that workers may share the queues
    #[arg(long)]
    pub xdp_trust_queues: bool,

    /// With dpdk: what it is started with, as --dpdk-args "-l 0 -a 0000:3b:00.0"; -i names one of its ports
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    pub dpdk_args: Option<String>,

    /// Whose clock stamps packets
    #[arg(long, value_enum, default_value_t = Clock::System, value_name = "CLOCK")]
    pub timestamps: Clock,

    /// User to switch to after the capture is open, when started as root [default: the caller of sudo, else nobody]
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,

    /// Leave the system calls unrestricted that the program may make once the capture is open
    #[arg(long)]
    pub no_seccomp: bool,
}

/// How packets come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// From a ring that the kernel fills; works with every interface
    AfPacket,
    /// From the driver's queues, past the kernel's network stack
    AfXdp,
    /// From the adapter itself, polled
    Dpdk,
}

/// Where AF_XDP takes packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum XdpMode {
    /// In the driver where it can, else in the stack
    Auto,
    /// In the driver
    Native,
    /// At the network stack's entry: with any driver, and slower
    Generic,
}

/// Whose clock stamps packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Clock {
    /// The machine's
    System,
    /// The network adapter's, where it has one
    Adapter,
}

impl LiveFlags {
    /// Adds the interfaces of one `-i`. DPDK's names of ports have commas of their own.
    pub fn add_interfaces(&mut self, names: &str) {
        match self.capture {
            Backend::Dpdk => self.interfaces.push(names.to_owned()),
            _ => self.interfaces.extend(names.split(',').filter(|name| !name.is_empty()).map(str::to_owned)),
        }
    }

    /// Whether packets come from the network.
    pub fn is_live(&self) -> bool {
        !self.interfaces.is_empty() || !self.listen.is_empty()
    }
}
