//! What a certificate says of its bearer.

use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::{IdentityError, unreadable};

/// Whoever showed a certificate that TLS has found to be good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// As the authority named it.
    pub name: String,
    /// Serial number, hexadecimal: by this a single certificate is revoked.
    pub serial: String,
    /// The certificate is good until then, in seconds since the epoch.
    pub good_until: i64,
}

impl Peer {
    /// Who bears the certificate.
    ///
    /// # Errors
    /// When it is none, or has no name.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Peer, IdentityError> {
        const WHAT: &str = "the peer's certificate";
        let (_, parsed) = X509Certificate::from_der(certificate).map_err(|e| unreadable(WHAT, e))?;
        let name = parsed.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
        Ok(Peer {
            name: name.ok_or_else(|| unreadable(WHAT, "it has no name"))?.to_owned(),
            serial: parsed.raw_serial().iter().map(|byte| format!("{byte:02x}")).collect(),
            good_until: parsed.validity().not_after.timestamp(),
        })
    }
}
