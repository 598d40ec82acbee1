//! Capture from the network as it happens: what all live sources have in common. [`open()`] gives one source for each
//! worker, each with whole flows; they end when [`Stop`] is asked for, after what had arrived before.
//!
//! An error says who has to act: [`LiveError`]. How packets come in is the backend's business.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::af_packet;
use crate::af_xdp::{self, XdpError, XdpOptions};
use crate::filter::filtered;
use crate::interfaces::{Interface, State, interfaces};
use crate::source::Source;

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

/// Opens the capture: `workers` sources, which begin to receive together.
///
/// # Errors
/// See [`LiveError`].
pub fn open(options: &LiveOptions) -> Result<Vec<Box<dyn Source>>, LiveError> {
    if options.backend == Backend::Dpdk {
        return open_dpdk(options);
    }
    let interface = find(&options.interface)?;
    match options.backend {
        Backend::AfPacket => af_packet::open(options, interface.as_ref()),
        Backend::AfXdp => match &interface {
            Some(interface) => sift(options, af_xdp::open(options, interface)?),
            None => Err(XdpError::NotEthernet(ANY.to_owned()).into()),
        },
        Backend::Dpdk => unreachable!("its ports are no interfaces: opened above"),
    }
}

#[cfg(feature = "dpdk")]
fn open_dpdk(options: &LiveOptions) -> Result<Vec<Box<dyn Source>>, LiveError> {
    sift(options, crate::dpdk::open(options)?)
}

#[cfg(not(feature = "dpdk"))]
fn open_dpdk(_: &LiveOptions) -> Result<Vec<Box<dyn Source>>, LiveError> {
    Err(LiveError::Unsupported(
        "DPDK is not in this build: build with --features dpdk, see docs/dpdk.md".into(),
    ))
}

/// What the capture filter takes, of sources that know none themselves.
fn sift(options: &LiveOptions, sources: Vec<Box<dyn Source>>) -> Result<Vec<Box<dyn Source>>, LiveError> {
    match options.filter.trim() {
        "" => Ok(sources),
        text => sources.into_iter().map(|source| filtered(source, text)).collect(),
    }
}

/// The interface of that name, switched on; `None` for all of them.
fn find(name: &str) -> Result<Option<Interface>, LiveError> {
    let all = interfaces().map_err(|error| LiveError::System { what: "list the interfaces", error })?;
    if name == ANY {
        return Ok(None);
    }
    let Some(found) = all.iter().find(|i| i.name == name) else {
        let available: Vec<String> = all.into_iter().map(|i| i.name).collect();
        let distance = |other: &&String| strsim::damerau_levenshtein(name, other);
        let nearest = available.iter().min_by_key(distance).filter(|other| distance(other) <= 2).cloned();
        return Err(LiveError::NoSuchInterface { name: name.to_owned(), nearest, available });
    };
    match found.state {
        State::Down => Err(LiveError::InterfaceDown(name.to_owned())),
        _ => Ok(Some(found.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_name_gets_the_right_ones() {
        let error = find("l0").expect_err("there is no such interface");
        let LiveError::NoSuchInterface { nearest, available, .. } = &error else { panic!("{error}") };
        assert_eq!(nearest.as_deref(), Some("lo"));
        assert!(available.contains(&"lo".to_owned()));
        assert!(error.to_string().starts_with("there is no interface \"l0\", but \"lo\"; there "), "{error}");
        assert!(find(ANY).expect("always there").is_none());
    }

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
