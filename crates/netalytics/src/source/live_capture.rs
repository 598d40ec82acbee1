//! Live capture by flags: sources of packets from interfaces and from received mirrors.

use std::thread;
use std::time::Duration;

use capture::PacketSource;
use capture::af_xdp::{self, XdpError, XdpOptions};
use capture::live::{self, LiveError, LiveOptions, StopSignal};
use capture::xdp_filter::{XdpEndMatch, XdpFilter};
use plan::{AddressMatch, MonitorSpec};
use tracing::warn;

use crate::cli::flags::live::{BackendFlag, ClockFlag, LiveFlags, XdpModeFlag};
use crate::process::failure::wrong_flags;

/// Polling interval for an interface to come up.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Opens `workers` sources per interface. They end when `stop` is set.
pub fn open(
    flags: &LiveFlags,
    workers: usize,
    wanted: &MonitorSpec,
    stop: &StopSignal,
) -> anyhow::Result<Vec<Box<dyn PacketSource>>> {
    if flags.capture == BackendFlag::Dpdk && flags.interfaces.len() > 1 {
        return Err(wrong_flags("DPDK captures from one port: give -i once"));
    }
    let of_one = |interface: &String| open_one(interface, flags, workers, wanted, stop);
    let sources = flags
        .interfaces
        .iter()
        .map(of_one)
        .collect::<anyhow::Result<Vec<_>>>()?;
    Ok(sources.into_iter().flatten().collect())
}

fn open_one(
    interface: &str,
    flags: &LiveFlags,
    workers: usize,
    wanted: &MonitorSpec,
    stop: &StopSignal,
) -> anyhow::Result<Vec<Box<dyn PacketSource>>> {
    let options = LiveOptions {
        workers,
        snaplen: flags.snaplen,
        promiscuous: !flags.no_promiscuous,
        buffer_bytes: flags.buffer_size,
        filter: flags.filter.clone(),
        backend: match flags.capture {
            BackendFlag::AfPacket => live::CaptureBackend::AfPacket,
            BackendFlag::AfXdp => live::CaptureBackend::AfXdp,
            BackendFlag::Dpdk => live::CaptureBackend::Dpdk,
        },
        xdp: xdp(flags, wanted),
        dpdk_args: flags
            .dpdk_args
            .iter()
            .flat_map(|args| args.split_whitespace())
            .map(str::to_owned)
            .collect(),
        clock: match flags.timestamps {
            ClockFlag::System => live::TimestampClock::System,
            ClockFlag::Adapter => live::TimestampClock::Adapter,
        },
        stop: stop.clone(),
        ..LiveOptions::new(interface)
    };
    open_when_up(&options, flags.no_wait)
}

/// Opens a capture; waits for an interface that is down, unless `no_wait` is set.
fn open_when_up(
    options: &LiveOptions,
    no_wait: bool,
) -> anyhow::Result<Vec<Box<dyn PacketSource>>> {
    let mut is_told = false;
    loop {
        match live::open(options) {
            Err(LiveError::InterfaceDown(name)) if !no_wait && !options.stop.is_asked() => {
                if !std::mem::replace(&mut is_told, true) {
                    warn!(
                        "{name} is down; waiting for it to come up (ip link set {name} up; --no-wait makes this an error)"
                    );
                }
                thread::sleep(LOOK_EVERY);
            }
            opened => {
                if is_told && opened.is_ok() {
                    warn!("{} is up", options.interface);
                }
                return opened.map_err(explain);
            }
        }
    }
}

/// Opens a source of mirrored packets sent to this machine.
pub fn listen(flags: &LiveFlags, stop: &StopSignal) -> anyhow::Result<Box<dyn PacketSource>> {
    let source =
        capture::mirror_source::open(&flags.listen, flags.buffer_size, stop).map_err(explain)?;
    filter(source, flags)
}

/// AF_XDP receives only the packets of FROM and TO.
fn xdp(flags: &LiveFlags, wanted: &MonitorSpec) -> XdpOptions {
    let ends = |list: &[AddressMatch]| {
        list.iter()
            .map(|m| XdpEndMatch {
                net: m.net,
                port: m.port,
            })
            .collect()
    };
    XdpOptions {
        filter: XdpFilter {
            clients: ends(&wanted.clients),
            servers: ends(&wanted.servers),
        },
        mode: match flags.xdp_mode {
            XdpModeFlag::Auto => af_xdp::XdpMode::Auto,
            XdpModeFlag::Native => af_xdp::XdpMode::Native,
            XdpModeFlag::Generic => af_xdp::XdpMode::Generic,
        },
        steal: flags.xdp_steal,
        trust_queues: flags.xdp_trust_queues,
    }
}

/// Applies the capture filter to a source.
pub fn filter(
    source: Box<dyn PacketSource>,
    flags: &LiveFlags,
) -> anyhow::Result<Box<dyn PacketSource>> {
    match flags.filter.as_str() {
        "" => Ok(source),
        text => capture::filtered(source, text).map_err(explain),
    }
}

fn explain(error: LiveError) -> anyhow::Error {
    match error {
        LiveError::BadFilter { .. }
        | LiveError::Unsupported(_)
        | LiveError::Xdp(
            XdpError::InUse { .. } | XdpError::NotEthernet(_) | XdpError::TooManyEnds,
        ) => wrong_flags(error.to_string()),
        error => error.into(),
    }
}
