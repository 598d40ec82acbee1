//! Options of AF_XDP, and errors at startup.

use std::io;

use crate::xdp_filter::XdpFilter;

/// Options of AF_XDP besides [`crate::live::LiveOptions`].
#[derive(Clone, Debug, Default)]
pub struct XdpOptions {
    /// Filter of the XDP program: FROM and TO of the query.
    pub filter: XdpFilter,
    /// Place of the XDP program.
    pub mode: XdpMode,
    /// Take packets from the host even on an interface that it uses.
    pub steal: bool,
    /// Skip the check that the adapter assigns both directions of a flow to one queue.
    pub trust_queues: bool,
}

/// Place of the XDP program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver if supported, otherwise in the stack.
    #[default]
    Auto,
    /// In the driver.
    Native,
    /// At the stack's entry, with any driver; slower.
    Generic,
}

/// Errors when opening AF_XDP.
#[derive(Debug, thiserror::Error)]
pub enum XdpError {
    /// The interface is not an Ethernet interface.
    #[error(
        "AF_XDP needs one Ethernet interface, which {0} is not; use --capture af-packet for other interfaces"
    )]
    NotEthernet(String),
    /// The host would lose packets.
    #[error(
        "AF_XDP takes packets away from the host, and {interface} is in use: {why}. Capture on a mirror or \
         tap port, use --capture af-packet, or add --xdp-steal if the host does not need those packets"
    )]
    InUse {
        /// The interface.
        interface: String,
        /// User of the interface.
        why: String,
    },
    /// Only the machine's clock is available.
    #[error("AF_XDP does not support the adapter's clock; use --capture af-packet")]
    Clock,
    /// FROM and TO exceed the size of a program.
    #[error(
        "FROM and TO name too many addresses for AF_XDP, which takes about a thousand; name networks instead"
    )]
    TooManyEnds,
    /// Missing permission.
    #[error(
        "no permission to use AF_XDP: it needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF; run as root"
    )]
    NoPermission,
    /// Another program uses the queue or hook.
    #[error("{interface} {what}; `ip link show {interface}` and `ss --xdp` name it")]
    Busy {
        /// The interface.
        interface: String,
        /// The resource in use.
        what: &'static str,
    },
    /// The kernel rejected the program.
    #[error("the kernel rejects the XDP program: {error}\n{log}")]
    Refused {
        /// The error.
        error: io::Error,
        /// Log of the verifier.
        log: String,
    },
    /// This kernel or driver does not support an operation.
    #[error("cannot {what}: {error}")]
    System {
        /// The operation.
        what: &'static str,
        /// The error.
        error: io::Error,
    },
}
