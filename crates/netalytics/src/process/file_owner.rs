//! Owner of files that are created before privileges are dropped.

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

/// User and group who called sudo.
pub fn caller() -> Option<(u32, u32)> {
    let number = |name| {
        std::env::var(name)
            .ok()?
            .parse::<u32>()
            .ok()
            .filter(|n| *n != 0)
    };
    Some((number("SUDO_UID")?, number("SUDO_GID")?))
}
