//! Live capture by flags: sources, end by SIGINT, and privileges.

use std::thread;
use std::time::Duration;

use capture::PacketSource;
use capture::af_xdp::{self, XdpError, XdpOptions};
use capture::live::{self, LiveError, LiveOptions, StopSignal};
use capture::privileges::{PrivilegeError, UserAccount, becomes, give_up};
use capture::seccomp::{self, FileAccess, NetworkAccess};
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
        return Err(wrong_flags("DPDK captures from one port: -i once"));
    }
    let of_one = |interface: &String| open_one(interface, flags, workers, wanted, stop);
    let sources = flags.interfaces.iter().map(of_one).collect::<anyhow::Result<Vec<_>>>()?;
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
fn open_when_up(options: &LiveOptions, no_wait: bool) -> anyhow::Result<Vec<Box<dyn PacketSource>>> {
    let mut is_told = false;
    loop {
        match live::open(options) {
            Err(LiveError::InterfaceDown(name)) if !no_wait && !options.stop.is_asked() => {
                if !std::mem::replace(&mut is_told, true) {
                    warn!(
                        "{name} is down; waiting for it to come up (ip link set {name} up; --no-wait refuses)"
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
    let source = capture::mirror_source::open(&flags.listen, flags.buffer_size, stop).map_err(explain)?;
    filter(source, flags)
}

/// AF_XDP receives only the packets of FROM and TO.
fn xdp(flags: &LiveFlags, wanted: &MonitorSpec) -> XdpOptions {
    let ends =
        |list: &[AddressMatch]| list.iter().map(|m| XdpEndMatch { net: m.net, port: m.port }).collect();
    XdpOptions {
        filter: XdpFilter { clients: ends(&wanted.clients), servers: ends(&wanted.servers) },
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
pub fn filter(source: Box<dyn PacketSource>, flags: &LiveFlags) -> anyhow::Result<Box<dyn PacketSource>> {
    match flags.filter.as_str() {
        "" => Ok(source),
        text => capture::filtered(source, text).map_err(explain),
    }
}

/// Drops privileges that are no longer needed, after files were opened.
pub fn give_up_privileges(flags: &LiveFlags) -> anyhow::Result<()> {
    give_up(&account(flags)).map_err(refused)
}

/// User of the process after dropping privileges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunUser {
    /// The current user.
    Ourselves,
    /// Another user, when started as root.
    Another {
        /// User id.
        user: u32,
        /// Group id.
        group: u32,
    },
}

impl RunUser {
    /// User by flags.
    pub fn of(flags: &LiveFlags) -> anyhow::Result<RunUser> {
        if !flags.is_live() {
            return Ok(RunUser::Ourselves);
        }
        let numbers = becomes(&account(flags)).map_err(refused)?;
        Ok(numbers.map_or(RunUser::Ourselves, |(user, group)| RunUser::Another { user, group }))
    }
}

fn account(flags: &LiveFlags) -> UserAccount {
    match &flags.user {
        Some(name) => UserAccount::Named(name.clone()),
        None => caller().map_or_else(
            || UserAccount::Named("nobody".into()),
            |(user, group)| UserAccount::Numbered(user, group),
        ),
    }
}

fn refused(error: PrivilegeError) -> anyhow::Error {
    match error {
        PrivilegeError::NoSuchUser(_) => wrong_flags(error.to_string()),
        error => error.into(),
    }
}

/// Whether flags request the restriction of system calls.
pub fn restricts_system_calls(flags: &LiveFlags) -> bool {
    flags.is_live() && !flags.no_seccomp && flags.capture != BackendFlag::Dpdk
}

/// Restricts system calls from now on; prints a notice if impossible.
pub fn restrict_system_calls(flags: &LiveFlags, files: FileAccess, network: NetworkAccess) {
    if !restricts_system_calls(flags) {
        return;
    }
    if let Err(why) = seccomp::restrict(files, network) {
        warn!("{why}");
    }
}

/// Owner of files created before privileges are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOwner {
    /// The current user.
    Us,
    /// The user who called sudo, and the new user.
    Caller {
        /// User id.
        user: u32,
        /// Group id.
        group: u32,
    },
}

impl FileOwner {
    /// Owner by flags.
    pub fn of(flags: &LiveFlags) -> FileOwner {
        match caller().filter(|_| flags.is_live() && flags.user.is_none()) {
            Some((user, group)) => FileOwner::Caller { user, group },
            None => FileOwner::Us,
        }
    }
}

/// User and group who called sudo.
fn caller() -> Option<(u32, u32)> {
    let number = |name| std::env::var(name).ok()?.parse::<u32>().ok().filter(|n| *n != 0);
    Some((number("SUDO_UID")?, number("SUDO_GID")?))
}

fn explain(error: LiveError) -> anyhow::Error {
    match error {
        LiveError::BadFilter { .. }
        | LiveError::Unsupported(_)
        | LiveError::Xdp(XdpError::InUse { .. } | XdpError::NotEthernet(_) | XdpError::TooManyEnds) => {
            wrong_flags(error.to_string())
        }
        error => error.into(),
    }
}
