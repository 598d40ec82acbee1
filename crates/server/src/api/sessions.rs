//! Sessions of browsers, each in exchange for a token. They are stored, so that logins survive a restart of the server.

use std::time::Duration;

use crate::store::access;
use crate::store::sqlite::{SessionStore, StoreError};

/// Name of the cookie.
pub const COOKIE: &str = "netalytics";
/// Lifetime of a session.
pub const SESSION_TIME: Duration = Duration::from_secs(12 * 3600);
const SESSION_NS: i64 = SESSION_TIME.as_nanos() as i64;
/// Maximum sessions; the oldest ends when it is exceeded.
const SESSIONS_MAX: usize = 1024;

/// Hash of a token, or of a session's name.
pub type Hash = [u8; 32];

/// Creates a session for the token with that hash; returns its name.
pub fn begin(store: &SessionStore, token: Hash) -> Result<String, StoreError> {
    let name = access::random_hex();
    store.begin(&access::hash(&name), &token, SESSION_NS, SESSIONS_MAX)?;
    Ok(name)
}

/// Ends a session.
pub fn end(store: &SessionStore, name: &str) -> Result<(), StoreError> {
    store.end(&access::hash(name))
}

/// The token of a session, if the session exists and has not expired.
pub fn token(store: &SessionStore, name: &str) -> Result<Option<Hash>, StoreError> {
    let found = store.token(&access::hash(name), SESSION_NS)?;
    Ok(found.and_then(|hash| hash.try_into().ok()))
}
