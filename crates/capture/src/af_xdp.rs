//! Live packets from AF_XDP sockets: the driver stores packets in this process's memory before they reach the network
//! stack. An XDP program selects the packets of the query; all others pass to the stack. Selected packets do **not**
//! reach the host: for mirror ports and taps. Rejected on an interface that the host itself uses, unless explicitly
//! requested.
//!
//! Each source has complete flows: if the adapter does not assign both directions of a flow to one queue, one source
//! reads all queues. A capture filter is applied to the selected packets. Time is that of the wall clock when a batch
//! was read, as XDP has no other; adapter timestamps are not read. VLAN tags removed by the adapter are not visible.

pub(crate) mod options;
mod source;

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tracing::{info, warn};

use crate::interfaces::NetworkInterface;
use crate::live::options::{LiveOptions, TimestampClock};
use crate::source::PacketSource;
use crate::sys::af_xdp::{FRAME_BYTES, FRAME_PACKET_BYTES, XdpBinding, XdpReceiver};
use crate::sys::ethtool::{RssConfig, rss};
use crate::sys::packet_socket::PacketSocket;
use crate::sys::xdp_program::{self, XdpHook};
pub use options::{XdpError, XdpMode, XdpOptions};
use source::{AfXdpSource, XdpProgram};

/// Opens at most `options.workers` sources: fewer if the interface has fewer queues, one if its queues do not hold
/// complete flows.
///
/// # Errors
/// See [`XdpError`].
pub(crate) fn open(
    options: &LiveOptions,
    interface: &NetworkInterface,
) -> Result<Vec<Box<dyn PacketSource>>, XdpError> {
    check(options, interface)?;
    let n_queues = n_queues(&interface.name)?;
    let n_sources = options
        .workers
        .clamp(1, n_whole_flows(options, interface, n_queues));
    let program = Arc::new(attach(options, interface, n_queues)?);
    let receivers = bind_all(
        interface,
        &program,
        n_queues,
        n_frames(options, n_sources, n_queues),
    )?;
    for (queue, receiver) in (0..).zip(&receivers) {
        xdp_program::set_socket(&program.map, queue, receiver.socket())
            .map_err(system("give packets to a socket"))?;
    }
    tell(interface, &program, &receivers);
    let mut sources: Vec<AfXdpSource> = (0..n_sources)
        .map(|i| AfXdpSource::new(options, interface, program.clone(), i == 0))
        .collect();
    for (queue, receiver) in (0..).zip(receivers) {
        sources[queue as usize % n_sources].add(queue, receiver);
    }
    Ok(sources
        .into_iter()
        .map(|source| Box::new(source) as Box<dyn PacketSource>)
        .collect())
}

/// Maximum number of queues; adapters have at most a few hundred.
const QUEUES_MAX: u32 = 1024;
/// Frames per queue: enough for a burst between reads, at most what a block's records can address.
const FRAMES_MIN: usize = 4096;
const FRAMES_MAX: usize = 1 << 19;
/// Attempts to get a queue or hook that was just released: the kernel cleans up asynchronously.
const RETRIES: u32 = 100;
const RETRY_AFTER: Duration = Duration::from_millis(20);

fn check(options: &LiveOptions, interface: &NetworkInterface) -> Result<(), XdpError> {
    if !matches!(interface.kind, libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK) {
        return Err(XdpError::NotEthernet(interface.name.clone()));
    }
    if options.clock == TimestampClock::Adapter {
        return Err(XdpError::Clock);
    }
    match used_by(interface) {
        Some(why) if !options.xdp.steal => Err(XdpError::InUse {
            interface: interface.name.clone(),
            why,
        }),
        _ => Ok(()),
    }
}

/// Why the host receives from this interface. A link-local IPv6 address does not count: every interface that is up
/// has one.
fn used_by(interface: &NetworkInterface) -> Option<String> {
    let own = |ip: &std::net::IpAddr| match ip {
        std::net::IpAddr::V4(_) => true,
        std::net::IpAddr::V6(ip) => !ip.is_unicast_link_local(),
    };
    if let Some(address) = interface.addresses.iter().find(|ip| own(ip)) {
        return Some(format!("it has the address {address}"));
    }
    // Bridge, bond, or switch that contains the interface, and VLANs and similar interfaces on top of it.
    let above = fs::read_dir(sysfs(&interface.name))
        .ok()?
        .flatten()
        .find_map(|entry| {
            let name = entry.file_name();
            Some(name.to_str()?.strip_prefix("upper_")?.to_owned())
        })?;
    Some(format!("{above} is on top of it"))
}

fn sysfs(interface: &str) -> PathBuf {
    PathBuf::from("/sys/class/net").join(interface)
}

fn n_queues(interface: &str) -> Result<u32, XdpError> {
    let queues = sysfs(interface).join("queues");
    let entries =
        fs::read_dir(queues).map_err(system("read the interface's receive queues in /sys"))?;
    let n = entries
        .flatten()
        .filter(|e| e.file_name().to_string_lossy().starts_with("rx-"))
        .count();
    Ok((n as u32).clamp(1, QUEUES_MAX))
}

/// Number of sources for which the queues can be divided into complete flows.
fn n_whole_flows(options: &LiveOptions, interface: &NetworkInterface, n_queues: u32) -> usize {
    if n_queues == 1 || options.workers <= 1 {
        return 1;
    }
    if options.xdp.trust_queues || rss(&interface.name).is_ok_and(|rss| is_symmetric(&rss)) {
        return n_queues as usize;
    }
    warn!(
        "{name} does not assign both directions of a flow to one queue, so one worker reads all {n_queues}; a \
         symmetric hash helps: ethtool -X {name} hkey 6d:5a:6d:5a:… (6d:5a as often as its key is long)",
        name = interface.name
    );
    1
}

/// Whether both directions of a flow have the same hash.
fn is_symmetric(rss: &RssConfig) -> bool {
    const TOEPLITZ: u8 = 1;
    const XOR: u8 = 2;
    // Addresses, and ports, are combined with each other before hashing.
    const SYMMETRIC: u8 = 0b11;
    let key = &rss.key;
    // With a key that repeats every 16 bits the hash is independent of the order of 16-bit words.
    let repeats = key.len() > 2 && key.windows(3).all(|w| w[0] == w[2]);
    rss.transformation & SYMMETRIC != 0
        || rss.function == XOR
        || rss.function == TOEPLITZ && repeats
}

fn attach(
    options: &LiveOptions,
    interface: &NetworkInterface,
    n_queues: u32,
) -> Result<XdpProgram, XdpError> {
    let port = PacketSocket::new(false).map_err(system("open a packet socket"))?;
    if options.promiscuous {
        port.set_promiscuous(interface.index)
            .map_err(system("make the interface promiscuous"))?;
    }
    let map = xdp_program::socket_map(n_queues).map_err(system("make a map of sockets"))?;
    let hooks: &[XdpHook] = match options.xdp.mode {
        XdpMode::Auto => &[XdpHook::Native, XdpHook::Generic],
        XdpMode::Native => &[XdpHook::Native],
        XdpMode::Generic => &[XdpHook::Generic],
    };
    let (program, multi) = load(&options.xdp, &map)?;
    let mut refused = None;
    for &hook in hooks {
        match retry(|| xdp_program::attach_xdp(&program, interface.index, hook)) {
            Ok(link) => {
                return Ok(XdpProgram {
                    map,
                    hook,
                    multi,
                    _link: link,
                    _port: port,
                });
            }
            Err(error) if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST)) => {
                return Err(XdpError::Busy {
                    interface: interface.name.clone(),
                    what: "has another XDP program",
                });
            }
            Err(error) => refused = Some(error),
        }
    }
    Err(system("attach the XDP program")(
        refused.unwrap_or_else(|| io::ErrorKind::Unsupported.into()),
    ))
}

/// Loads the program; also returns whether it accepts packets of several frames, which older kernels do not support.
fn load(xdp: &XdpOptions, map: &OwnedFd) -> Result<(OwnedFd, bool), XdpError> {
    let insns = xdp
        .filter
        .program(std::os::fd::AsRawFd::as_raw_fd(map))
        .ok_or(XdpError::TooManyEnds)?;
    if let Ok(program) = xdp_program::load_xdp(&insns, true) {
        return Ok((program, true));
    }
    match xdp_program::load_xdp(&insns, false) {
        Ok(program) => Ok((program, false)),
        Err(error) if is_permission(&error) => Err(XdpError::NoPermission),
        Err(error) => Err(XdpError::Refused {
            error,
            log: xdp_program::verifier_log(&insns, false),
        }),
    }
}

/// Frames per queue: a power of two.
fn n_frames(options: &LiveOptions, n_sources: usize, n_queues: u32) -> u32 {
    let of_queue = options.buffer_bytes.saturating_mul(n_sources) / n_queues as usize / FRAME_BYTES;
    let n = of_queue.clamp(FRAMES_MIN, FRAMES_MAX);
    1 << n.ilog2()
}

/// Binds a socket to every queue.
fn bind_all(
    interface: &NetworkInterface,
    program: &XdpProgram,
    n_queues: u32,
    n_frames: u32,
) -> Result<Vec<XdpReceiver>, XdpError> {
    // In the driver, packets are limited by the MTU; in the stack they may have been merged.
    let long = program.hook == XdpHook::Generic
        || mtu(&interface.name) + LINK_HEADERS > FRAME_PACKET_BYTES;
    let copy = program.hook == XdpHook::Generic;
    let bind = |queue| {
        let binding = XdpBinding {
            ifindex: interface.index,
            queue,
            copy,
            multi: program.multi && long,
        };
        let one_frame = XdpBinding {
            multi: false,
            ..binding
        };
        retry(|| XdpReceiver::bind(binding, n_frames)).or_else(|e| match e.raw_os_error() {
            Some(libc::EINVAL | libc::EOPNOTSUPP) if binding.multi => {
                XdpReceiver::bind(one_frame, n_frames)
            }
            _ => Err(e),
        })
    };
    (0..n_queues)
        .map(bind)
        .collect::<io::Result<_>>()
        .map_err(|error| match error.raw_os_error() {
            Some(libc::EBUSY) => XdpError::Busy {
                interface: interface.name.clone(),
                what: "has another AF_XDP socket on one of its queues",
            },
            _ => system("bind an AF_XDP socket")(error),
        })
}

/// Ethernet with several tags.
const LINK_HEADERS: usize = 14 + 3 * 4;

fn mtu(interface: &str) -> usize {
    let text = fs::read_to_string(sysfs(interface).join("mtu")).unwrap_or_default();
    text.trim().parse().unwrap_or(usize::MAX / 2)
}

/// Retries an operation for a while when a resource is about to be released.
fn retry<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 0..RETRIES {
        match attempt() {
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) => thread::sleep(RETRY_AFTER),
            done => return done,
        }
    }
    attempt()
}

fn system(what: &'static str) -> impl Fn(io::Error) -> XdpError {
    move |error| {
        if is_permission(&error) {
            XdpError::NoPermission
        } else {
            XdpError::System { what, error }
        }
    }
}

fn is_permission(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES))
}

/// Reports the mode of reception, which determines its speed.
fn tell(interface: &NetworkInterface, program: &XdpProgram, receivers: &[XdpReceiver]) {
    let hook = match program.hook {
        XdpHook::Native => "in the driver",
        XdpHook::Generic => "in the stack (generic)",
    };
    let copied = if receivers.iter().all(|r| r.is_zero_copy().unwrap_or(false)) {
        "zero copy"
    } else {
        "copied"
    };
    info!(
        "AF_XDP on {}: {hook}, {copied}, {} queues",
        interface.name,
        receivers.len()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_hashes_are_symmetric() {
        let check = |function, transformation, key: &[u8], expected| {
            let rss = RssConfig {
                function,
                transformation,
                key: key.to_vec(),
            };
            assert_eq!(is_symmetric(&rss), expected, "{rss:?}");
        };
        check(1, 0, &[0x6d, 0x5a].repeat(20), true);
        check(
            1,
            0,
            &[0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2],
            false,
        );
        check(1, 1, &[0x6d, 0x5a, 0x56, 0xda], true);
        check(1, 0, &[], false);
        check(4, 0, &[0x6d, 0x5a].repeat(20), false);
    }

    #[test]
    fn frames_are_a_power_of_two_within_bounds() {
        let n = |buffer_bytes, n_sources, n_queues| {
            n_frames(
                &LiveOptions {
                    buffer_bytes,
                    ..LiveOptions::new("x")
                },
                n_sources,
                n_queues,
            )
        };
        assert_eq!(n(32 << 20, 1, 1), 8192);
        assert_eq!(n(33 << 20, 2, 2), 8192);
        assert_eq!(n(32 << 20, 1, 64), FRAMES_MIN as u32);
        assert_eq!(n(usize::MAX, 1, 1), FRAMES_MAX as u32);
    }
}
