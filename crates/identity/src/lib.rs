//! Who a server and its agents are. [`Authority`] is the small certificate authority that a server keeps: it signs what agents
//! ask for ([`Request`]) and names them itself, so that a name never comes from whoever bears it. [`server_config`] and
//! [`client_config`] are the TLS 1.3 that both ends speak; [`Peer`] is what a certificate says of its bearer; [`in_words`] says
//! what is wrong when the two ends do not come together.
//!
//! No file, socket or clock: keys and certificates are PEM texts, times are seconds since the epoch.

#![forbid(unsafe_code)]

mod authority;
mod peer;
mod pin;
mod tls;
mod words;

pub use authority::{Authority, Lifetime, Request, Serial, check_name};
pub use peer::Peer;
pub use pin::Pin;
pub use tls::{Clients, Servers, client_config, server_config};
pub use words::{End, in_words, time_in_words};

/// Why a key, a certificate or a request cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// Not what it is said to be.
    #[error("{what} cannot be read: {why}")]
    Unreadable {
        /// What it is said to be.
        what: &'static str,
        /// What is wrong.
        why: String,
    },
    /// A name that cannot stand in a certificate.
    #[error("{0:?} is no name for an agent: 1 to 64 of a-z, A-Z, 0-9, '.', '-' and '_'")]
    BadName(String),
    /// The library refused.
    #[error("a certificate could not be made: {0}")]
    Signing(#[from] rcgen::Error),
    /// Keys and certificates that do not go together, and the like.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
}

fn unreadable(what: &'static str, why: impl ToString) -> IdentityError {
    IdentityError::Unreadable { what, why: why.to_string() }
}
