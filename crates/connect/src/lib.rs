//! Outgoing connections: trusted certificate authorities ([`TrustedAuthorities`]), the set-up of HTTP clients
//! ([`HttpSettings`]), and delays between attempts ([`RetryPolicy`]).

#![forbid(unsafe_code)]

mod authorities;
mod http;
mod retry;

pub use authorities::{AuthorityError, TrustedAuthorities, system_certificates};
pub use http::HttpSettings;
pub use retry::{RetryDelays, RetryPolicy};
