//! Giving up what only opening a capture needs: once sources and output files are open, the process becomes an
//! ordinary user, or loses its capabilities. Reading packets and statistics goes on. To be called before threads are
//! started: capabilities are a thread's own.

use std::io;

use crate::sys::privileges as sys;

/// Who to be from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Account {
    /// This name.
    Named(String),
    /// These numbers of user and group: who called `sudo`.
    Numbered(u32, u32),
}

/// Why privileges could not be given up.
#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    /// The name is wrong.
    #[error("there is no user {0:?} on this machine")]
    NoSuchUser(String),
    /// The system refused.
    #[error("cannot give up privileges: {0}; --user root keeps them")]
    Refused(#[from] io::Error),
}

/// Whom [`give_up`] makes of us, by the numbers of user and group; `None`: we stay who we are.
///
/// # Errors
/// When there is no such user.
pub fn becomes(account: &Account) -> Result<Option<(u32, u32)>, PrivilegeError> {
    if sys::effective_user() != 0 {
        return Ok(None);
    }
    let (user, group) = match account {
        Account::Numbered(user, group) => (*user, *group),
        Account::Named(name) => sys::account(name).ok_or_else(|| PrivilegeError::NoSuchUser(name.clone()))?,
    };
    Ok((user != 0).then_some((user, group)))
}

/// Gives up root's rights, where we have them, by becoming `account`, and otherwise all capabilities. To become root
/// is to keep everything.
///
/// # Errors
/// See [`PrivilegeError`]; then the process should not go on.
pub fn give_up(account: &Account) -> Result<(), PrivilegeError> {
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
