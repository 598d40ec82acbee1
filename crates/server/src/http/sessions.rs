//! Sessions: what a token was exchanged for, by which a browser names itself. They are kept, so that a browser need not log in again
//! because the server was started again.

use std::time::Duration;

use crate::access;
use crate::store::{Store, StoreError};

/// The cookie's name.
pub const COOKIE: &str = "netalytics";
/// How long a session lasts.
pub const SESSION_TIME: Duration = Duration::from_secs(12 * 3600);
const SESSION_NS: i64 = SESSION_TIME.as_nanos() as i64;
/// Sessions at once; the oldest ends when there is one more.
const SESSIONS_MAX: usize = 1024;

/// The hash of a token, or of a session's name.
pub type Hash = [u8; 32];

/// Begins one for the token of that hash; its name.
pub fn begin(store: &Store, token: Hash) -> Result<String, StoreError> {
    let name = access::random_hex();
    store.begin_session((&access::hash(&name), &token), (SESSION_NS, SESSIONS_MAX))?;
    Ok(name)
}

/// Ends one.
pub fn end(store: &Store, name: &str) -> Result<(), StoreError> {
    store.end_session(&access::hash(name))
}

/// The token of a session, if there is one and it is not over.
pub fn token(store: &Store, name: &str) -> Result<Option<Hash>, StoreError> {
    let found = store.session(&access::hash(name), SESSION_NS)?;
    Ok(found.and_then(|hash| hash.try_into().ok()))
}
