//! Options of AF_XDP, and errors at its start.

use std::io;

use crate::xdp_filter::XdpFilter;

/// Options of AF_XDP besides [`crate::live::LiveOptions`].
#[derive(Clone, Debug, Default)]
pub struct XdpOptions {
    /// Which packets are taken: FROM and TO of the query.
    pub filter: XdpFilter,
    /// Where the program runs.
    pub mode: XdpMode,
    /// Take packets from the host even on an interface that it uses.
    pub steal: bool,
    /// The adapter deals both directions of a flow to one queue: do not look whether it does.
    pub trust_queues: bool,
}

/// Where the XDP program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver where it can, else in the stack.
    #[default]
    Auto,
    /// In the driver.
    Native,
    /// At the stack's entry, with any driver; slower.
    Generic,
}

/// Why AF_XDP can not begin.
#[derive(Debug, thiserror::Error)]
pub enum XdpError {
    /// What is asked for is not an Ethernet interface.
    #[error("AF_XDP needs one Ethernet interface, which {0} is not; --capture af-packet takes any")]
    NotEthernet(String),
    /// The host would lose packets.
    #[error(
        "AF_XDP takes packets away from the host, and {interface} is in use: {why}. Capture on a mirror or tap port, \
         use --capture af-packet, or say --xdp-steal if those packets may be lost to the host"
    )]
    InUse {
        /// The interface.
        interface: String,
        /// By whom.
        why: String,
    },
    /// It stamps with the machine's clock only.
    #[error("AF_XDP does not read the adapter's clock; --capture af-packet does")]
    Clock,
    /// FROM and TO are too long for a program.
    #[error(
        "FROM and TO name too many addresses for AF_XDP, which takes about a thousand; name networks instead"
    )]
    TooManyEnds,
    /// The user may not.
    #[error("no permission to use AF_XDP: it needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF; run as root")]
    NoPermission,
    /// Another program uses the queue.
    #[error("{interface} {what}; `ip link show {interface}` and `ss --xdp` name it")]
    Busy {
        /// The interface.
        interface: String,
        /// What is taken.
        what: &'static str,
    },
    /// The kernel does not take our program.
    #[error("the kernel refuses the XDP program: {error}\n{log}")]
    Refused {
        /// Why.
        error: io::Error,
        /// The verifier's words.
        log: String,
    },
    /// This kernel or driver can not do it.
    #[error("cannot {what}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What it said.
        error: io::Error,
    },
}
