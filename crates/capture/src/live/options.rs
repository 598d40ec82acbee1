//! Options of live sources, how to stop them, and errors at startup.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::af_xdp::options::{XdpError, XdpOptions};

/// The name that means all interfaces.
pub const ANY: &str = "any";

/// Options of a live capture.
#[derive(Clone, Debug)]
pub struct LiveOptions {
    /// Name of the interface, or [`ANY`].
    pub interface: String,
    /// Number of sources, among which the flows are divided.
    pub workers: usize,
    /// Maximum bytes kept of a packet.
    pub snaplen: u32,
    /// Promiscuous mode.
    pub promiscuous: bool,
    /// Memory for waiting packets, per worker.
    pub buffer_bytes: usize,
    /// Capture filter in tcpdump's language; empty for all.
    pub filter: String,
    /// Way in which packets are received.
    pub backend: CaptureBackend,
    /// Options for [`CaptureBackend::AfXdp`].
    pub xdp: XdpOptions,
    /// DPDK arguments for [`CaptureBackend::Dpdk`], for which `interface` is the name or number of a port.
    pub dpdk_args: Vec<String>,
    /// Clock of the timestamps.
    pub clock: TimestampClock,
    /// Ends the capture.
    pub stop: StopSignal,
}

impl LiveOptions {
    /// All packets of `interface`, on one worker.
    #[must_use]
    pub fn new(interface: &str) -> LiveOptions {
        LiveOptions {
            interface: interface.to_owned(),
            workers: 1,
            snaplen: 262_144,
            promiscuous: true,
            buffer_bytes: 32 << 20,
            filter: String::new(),
            backend: CaptureBackend::AfPacket,
            xdp: XdpOptions::default(),
            dpdk_args: Vec::new(),
            clock: TimestampClock::System,
            stop: StopSignal::default(),
        }
    }
}

/// Reception method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CaptureBackend {
    /// A ring filled by the kernel.
    #[default]
    AfPacket,
    /// Queues of the adapter's driver, bypassing the kernel's network stack.
    AfXdp,
    /// The adapter itself, polled.
    Dpdk,
}

/// Clock that stamps packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimestampClock {
    /// The machine's.
    #[default]
    System,
    /// The network adapter's.
    Adapter,
}

impl TimestampClock {
    /// Name of the method.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            TimestampClock::System => "system",
            TimestampClock::Adapter => "adapter",
        }
    }
}

/// Requests the end of live sources; clones share the request.
#[derive(Clone, Debug, Default)]
pub struct StopSignal(Arc<AtomicBool>);

impl StopSignal {
    /// Requests the stop: packets that have arrived are still delivered, later ones are not.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether a stop was requested.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The flag itself, for a signal handler.
    #[must_use]
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }
}

/// Errors when opening a capture.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// No interface has this name.
    #[error("interface {name:?} does not exist{}; {}", meant(.nearest.as_deref()), listed(.available))]
    NoSuchInterface {
        /// Name from the options.
        name: String,
        /// Most similar name.
        nearest: Option<String>,
        /// Existing interfaces.
        available: Vec<String>,
    },
    /// The interface is down.
    #[error("{0} is down; bring it up first: ip link set {0} up")]
    InterfaceDown(String),
    /// Missing permission.
    #[error(
        "no permission to capture: it needs CAP_NET_RAW; run as root, or grant it to the program once: \
         setcap cap_net_raw+ep $(command -v netalytics)"
    )]
    NoPermission,
    /// The filter is invalid.
    #[error("the capture filter {text:?} is wrong: {message}")]
    BadFilter {
        /// The filter.
        text: String,
        /// Message of libpcap.
        message: String,
    },
    /// Not supported by this machine or build.
    #[error("{0}")]
    Unsupported(String),
    /// Error of AF_XDP.
    #[error(transparent)]
    Xdp(#[from] XdpError),
    /// Error of DPDK.
    #[cfg(feature = "dpdk")]
    #[error(transparent)]
    Dpdk(#[from] crate::dpdk::error::DpdkError),
    /// Not enough memory.
    #[error("no memory for a capture buffer of {0} bytes for each worker; reduce --buffer-size")]
    NoMemory(usize),
    /// A system call failed.
    #[error("cannot {what}: {error}")]
    System {
        /// The operation.
        what: &'static str,
        /// The error.
        error: io::Error,
    },
}

fn meant(name: Option<&str>) -> String {
    name.map(|name| format!(" (did you mean {name:?}?)"))
        .unwrap_or_default()
}

fn listed(names: &[String]) -> String {
    match names {
        [] => "this machine has no interface".into(),
        names => format!("available: {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_interfaces_are_listed() {
        let names =
            |names: &[&str]| listed(&names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>());
        assert_eq!(
            [names(&[]), names(&["lo"]), names(&["lo", "eth0"])],
            [
                "this machine has no interface",
                "available: lo",
                "available: lo, eth0"
            ]
        );
    }

    #[test]
    fn clones_stop_together() {
        let stop = StopSignal::default();
        let clone = stop.clone();
        assert!(!clone.is_asked());
        stop.stop();
        assert!(clone.is_asked());
    }
}
