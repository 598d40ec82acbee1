//! Live capture: common parts of all live sources. [`open()`] returns one source per worker, each with complete
//! flows; they end when [`StopSignal`] is requested, after delivering what had arrived before.
//!
//! [`LiveError`] names what to change. Reception is done by the backends.

pub(crate) mod options;

use crate::af_packet;
use crate::af_xdp::{self, XdpError};
use crate::filter::filtered;
use crate::interfaces::{InterfaceState, NetworkInterface, interfaces};
use crate::source::PacketSource;
pub use options::{ANY, CaptureBackend, LiveError, LiveOptions, StopSignal, TimestampClock};

/// Opens the capture: `workers` sources, which begin to receive together.
///
/// # Errors
/// See [`LiveError`].
pub fn open(options: &LiveOptions) -> Result<Vec<Box<dyn PacketSource>>, LiveError> {
    if options.backend == CaptureBackend::Dpdk {
        return open_dpdk(options);
    }
    let interface = find(&options.interface)?;
    match options.backend {
        CaptureBackend::AfPacket => af_packet::open(options, interface.as_ref()),
        CaptureBackend::AfXdp => match &interface {
            Some(interface) => sift(options, af_xdp::open(options, interface)?),
            None => Err(XdpError::NotEthernet(ANY.to_owned()).into()),
        },
        CaptureBackend::Dpdk => unreachable!("DPDK ports are opened above"),
    }
}

#[cfg(feature = "dpdk")]
fn open_dpdk(options: &LiveOptions) -> Result<Vec<Box<dyn PacketSource>>, LiveError> {
    sift(options, crate::dpdk::open(options)?)
}

#[cfg(not(feature = "dpdk"))]
fn open_dpdk(_: &LiveOptions) -> Result<Vec<Box<dyn PacketSource>>, LiveError> {
    Err(LiveError::Unsupported(
        "DPDK is not in this build: build with --features dpdk, see docs/fast-capture.md".into(),
    ))
}

/// Applies the capture filter to sources that do not support one.
fn sift(
    options: &LiveOptions,
    sources: Vec<Box<dyn PacketSource>>,
) -> Result<Vec<Box<dyn PacketSource>>, LiveError> {
    match options.filter.trim() {
        "" => Ok(sources),
        text => sources
            .into_iter()
            .map(|source| filtered(source, text))
            .collect(),
    }
}

/// The interface with this name, which must be up; `None` for all interfaces.
fn find(name: &str) -> Result<Option<NetworkInterface>, LiveError> {
    let all = interfaces().map_err(|error| LiveError::System {
        what: "list the interfaces",
        error,
    })?;
    if name == ANY {
        return Ok(None);
    }
    let Some(found) = all.iter().find(|i| i.name == name) else {
        let available: Vec<String> = all.into_iter().map(|i| i.name).collect();
        let distance = |other: &&String| strsim::damerau_levenshtein(name, other);
        let nearest = available
            .iter()
            .min_by_key(distance)
            .filter(|other| distance(other) <= 2)
            .cloned();
        return Err(LiveError::NoSuchInterface {
            name: name.to_owned(),
            nearest,
            available,
        });
    };
    match found.state {
        InterfaceState::Down => Err(LiveError::InterfaceDown(name.to_owned())),
        _ => Ok(Some(found.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_name_gets_the_right_ones() {
        let error = find("l0").expect_err("there is no such interface");
        let LiveError::NoSuchInterface {
            nearest, available, ..
        } = &error
        else {
            panic!("{error}")
        };
        assert_eq!(nearest.as_deref(), Some("lo"));
        assert!(available.contains(&"lo".to_owned()));
        assert!(
            error
                .to_string()
                .starts_with("interface \"l0\" does not exist (did you mean \"lo\"?); available: "),
            "{error}"
        );
        assert!(find(ANY).expect("always there").is_none());
    }
}
