//! Options of live sources, how to stop them, and errors at their start.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::af_xdp::{XdpError, XdpOptions};

/// The name that means all interfaces.
pub const ANY: &str = "any";

/// What to capture, and how.
#[derive(Clone, Debug)]
pub struct LiveOptions {
    /// The interface's name, or [`ANY`].
    pub interface: String,
    /// How many sources: the flows are shared out among them.
    pub workers: usize,
    /// Most bytes kept of a packet.
    pub snaplen: u32,
    /// Packets for other machines, too.
    pub promiscuous: bool,
    /// Memory for packets that wait, of each worker.
    pub buffer_bytes: usize,
    /// Which packets, in the language of tcpdump; empty for all.
    pub filter: String,
    /// How packets come in.
    pub backend: Backend,
    /// What only [`Backend::AfXdp`] asks.
    pub xdp: XdpOptions,
    /// What DPDK is started with by [`Backend::Dpdk`], for which `interface` is the name or number of a port.
    pub dpdk_args: Vec<String>,
    /// Whose clock stamps them.
    pub clock: Clock,
    /// Ends the capture.
    pub stop: Stop,
}

impl LiveOptions {
    /// Everything of `interface`, on one worker.
    #[must_use]
    pub fn new(interface: &str) -> LiveOptions {
        LiveOptions {
            interface: interface.to_owned(),
            workers: 1,
            snaplen: 262_144,
            promiscuous: true,
            buffer_bytes: 32 << 20,
            filter: String::new(),
            backend: Backend::AfPacket,
            xdp: XdpOptions::default(),
            dpdk_args: Vec::new(),
            clock: Clock::System,
            stop: Stop::default(),
        }
    }
}

/// How packets come in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// A ring that the kernel fills.
    #[default]
    AfPacket,
    /// Queues of the adapter's driver, past the kernel's network stack.
    AfXdp,
    /// The adapter itself, polled.
    Dpdk,
}

/// Whose clock stamps packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// The machine's.
    #[default]
    System,
    /// The network adapter's.
    Adapter,
}

impl Clock {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Clock::System => "system",
            Clock::Adapter => "adapter",
        }
    }
}

/// Asks live sources to end; all clones are one.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// What has arrived by now is still delivered, nothing later.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it has been asked for.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The flag itself, for a signal handler to raise.
    #[must_use]
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }
}

/// Why a capture can not begin.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The name is wrong.
    #[error("there is no interface {name:?}{}; there {}", meant(.nearest.as_deref()), listed(.available))]
    NoSuchInterface {
        /// What was asked for.
        name: String,
        /// What may have been meant.
        nearest: Option<String>,
        /// What there is.
        available: Vec<String>,
    },
    /// The interface is switched off.
    #[error("{0} is down; switch it on first: ip link set {0} up")]
    InterfaceDown(String),
    /// The user may not.
    #[error(
        "no permission to capture: it needs CAP_NET_RAW; run as root, or allow it to the program once: \
         setcap cap_net_raw+ep $(command -v netalytics)"
    )]
    NoPermission,
    /// The filter is wrong.
    #[error("the capture filter {text:?} is wrong: {message}")]
    BadFilter {
        /// The filter.
        text: String,
        /// libpcap's words.
        message: String,
    },
    /// This machine, or this build, can not do it.
    #[error("{0}")]
    Unsupported(String),
    /// What is asked for can not be done by AF_XDP.
    #[error(transparent)]
    Xdp(#[from] XdpError),
    /// DPDK does not do what is asked for.
    #[cfg(feature = "dpdk")]
    #[error(transparent)]
    Dpdk(#[from] crate::dpdk::DpdkError),
    /// Too much memory was asked for.
    #[error("no memory for a capture buffer of {0} bytes for each worker; a smaller --buffer-size may do")]
    NoMemory(usize),
    /// The system did not do what it should.
    #[error("cannot {what}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What it said.
        error: io::Error,
    },
}

fn meant(name: Option<&str>) -> String {
    name.map(|name| format!(", but {name:?}")).unwrap_or_default()
}

fn listed(names: &[String]) -> String {
    match names {
        [] => "is none at all".into(),
        [one] => format!("is {one}"),
        names => format!("are {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_in_words() {
        let names = |names: &[&str]| listed(&names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>());
        assert_eq!(
            [names(&[]), names(&["lo"]), names(&["lo", "eth0"])],
            ["is none at all", "is lo", "are lo, eth0"]
        );
    }

    #[test]
    fn clones_stop_together() {
        let stop = Stop::default();
        let clone = stop.clone();
        assert!(!clone.is_asked());
        stop.stop();
        assert!(clone.is_asked());
    }
}
