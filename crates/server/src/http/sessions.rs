//! Sessions: what a token was exchanged for, by which a browser names itself.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::access;

/// The cookie's name.
pub const COOKIE: &str = "netalytics";
/// How long a session lasts.
pub const SESSION_TIME: Duration = Duration::from_secs(12 * 3600);
/// Sessions at once; the oldest ends when there is one more.
const SESSIONS_MAX: usize = 1024;

/// The hash of a token, or of a session's name.
pub type Hash = [u8; 32];

/// Sessions, by the hash of their name.
#[derive(Default)]
pub struct Sessions(Mutex<HashMap<Hash, (Hash, Instant)>>);

impl Sessions {
    /// Begins one for the token of that hash; its name.
    pub fn begin(&self, token: Hash) -> String {
        let name = access::random_hex();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, (_, begun)| begun.elapsed() < SESSION_TIME);
        if all.len() >= SESSIONS_MAX {
            let oldest = all.iter().min_by_key(|(_, (_, begun))| *begun).map(|(name, _)| *name);
            oldest.map(|name| all.remove(&name));
        }
        all.insert(access::hash(&name), (token, Instant::now()));
        name
    }

    /// Ends one.
    pub fn end(&self, name: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&access::hash(name));
    }

    /// The token of a session, if there is one and it is not over.
    pub fn token(&self, name: &str) -> Option<Hash> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&access::hash(name))
            .filter(|(_, begun)| begun.elapsed() < SESSION_TIME)
            .map(|(token, _)| *token)
    }
}
