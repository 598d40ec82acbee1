//! Identities of a server and its agents. [`CertificateAuthority`] is the server's certificate authority: it signs agents'
//! requests ([`SigningRequest`]) and assigns their names, so an agent cannot choose its own. [`server_config`] and
//! [`client_config`] are the TLS 1.3 configurations of both ends, [`public_client_config`] is that of clients of other
//! programs; [`VerifiedPeer`] describes the owner of a certificate; [`in_words`] explains a failed handshake.
//!
//! No files, sockets, or clocks: keys and certificates are PEM texts, times are seconds since the epoch.

#![forbid(unsafe_code)]

mod authority;
mod peer;
mod pin;
mod tls;
mod tls_messages;

pub use authority::{
    CertificateAuthority, CertificateLifetime, CertificateSerial, SigningRequest, check_name,
};
pub use peer::VerifiedPeer;
pub use pin::AuthorityPin;
pub use tls::{TrustedClients, TrustedServers, client_config, public_client_config, server_config};
pub use tls_messages::{ConnectionEnd, in_words, time_in_words};

/// Reason why a key, certificate or request is unusable.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// Not a valid key, certificate, or request.
    #[error("{what} cannot be read: {why}")]
    Unreadable {
        /// The expected kind of object.
        what: &'static str,
        /// Reason.
        why: String,
    },
    /// A name not allowed in a certificate.
    #[error("{0:?} is not an agent name: 1 to 64 of a-z, A-Z, 0-9, '.', '-', and '_'")]
    BadName(String),
    /// The library failed.
    #[error("a certificate could not be created: {0}")]
    Signing(#[from] rcgen::Error),
    /// A TLS error, such as a key that does not match its certificate.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
}

fn unreadable(what: &'static str, why: impl ToString) -> IdentityError {
    IdentityError::Unreadable {
        what,
        why: why.to_string(),
    }
}
