//! Privileges of a live capture: the user that it becomes, and the system calls that it keeps.

use anyhow::Context;
use capture::live::StopSignal;
use capture::privileges::{self, PrivilegeError, UserAccount};
use capture::seccomp::{self, FileAccess, NetworkAccess};
use tracing::warn;

use crate::cli::flags::live::{BackendFlag, LiveFlags};
use crate::process::failure::wrong_flags;
use crate::process::file_owner::caller;
use crate::process::signals::SignalHandlers;

/// Ends the phase that needs privileges, after files and sources were opened: handles signals from then on, and in a live
/// capture changes the user and restricts system calls. `start` starts threads that are not restricted.
pub fn drop_all(
    flags: &LiveFlags,
    stop: &StopSignal,
    files: FileAccess,
    network: NetworkAccess,
    start: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<SignalHandlers> {
    if flags.is_live() {
        privileges::give_up(&account(flags)).map_err(refused)?;
    }
    let signals = SignalHandlers::end_unwatched(stop).context("cannot handle signals")?;
    start()?;
    restrict_system_calls(flags, files, network);
    signals.watch().context("cannot handle signals")?;
    Ok(signals)
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
        let numbers = privileges::becomes(&account(flags)).map_err(refused)?;
        Ok(
            numbers.map_or(RunUser::Ourselves, |(user, group)| RunUser::Another {
                user,
                group,
            }),
        )
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
fn restrict_system_calls(flags: &LiveFlags, files: FileAccess, network: NetworkAccess) {
    if !restricts_system_calls(flags) {
        return;
    }
    if let Err(why) = seccomp::restrict(files, network) {
        warn!("{why}");
    }
}
