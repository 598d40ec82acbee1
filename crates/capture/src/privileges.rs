//! Drops the privileges needed only to open a capture: once sources and output files are open, the process switches
//! to an ordinary user, or clears its capabilities. Packets and statistics can still be read. To be called before
//! threads are started: capabilities are per thread.

use std::io;

use crate::sys::privileges as sys;

/// User to switch to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserAccount {
    /// By name.
    Named(String),
    /// By user and group id: the user who called `sudo`.
    Numbered(u32, u32),
}

/// Errors when dropping privileges.
#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    /// No user has this name.
    #[error("user {0:?} does not exist on this machine")]
    NoSuchUser(String),
    /// The system call failed.
    #[error("cannot drop privileges: {0}; --user root keeps them")]
    Refused(#[from] io::Error),
}

/// User and group id that [`give_up`] switches to; `None`: no switch.
///
/// # Errors
/// [`PrivilegeError::NoSuchUser`].
pub fn becomes(account: &UserAccount) -> Result<Option<(u32, u32)>, PrivilegeError> {
    if sys::effective_user() != 0 {
        return Ok(None);
    }
    let (user, group) = match account {
        UserAccount::Numbered(user, group) => (*user, *group),
        UserAccount::Named(name) => {
            sys::account(name).ok_or_else(|| PrivilegeError::NoSuchUser(name.clone()))?
        }
    };
    Ok((user != 0).then_some((user, group)))
}

/// Drops privileges: root switches to `account`, others clear all capabilities. Switching to root keeps everything.
///
/// # Errors
/// See [`PrivilegeError`]; the process should not continue then.
pub fn give_up(account: &UserAccount) -> Result<(), PrivilegeError> {
    let is_root = sys::effective_user() == 0;
    match becomes(account)? {
        Some((user, group)) => {
            sys::drop_bounding_set();
            sys::become_user(user, group)?;
        }
        None if is_root => return Ok(()),
        None => sys::drop_bounding_set(),
    }
    sys::clear_capabilities()?;
    sys::forbid_new_privileges()?;
    Ok(())
}
