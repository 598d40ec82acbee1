//! Content of a certificate.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::{CertificateLifetime, IdentityError, unreadable};

/// The owner of a certificate that TLS has verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedPeer {
    /// Name assigned by the authority.
    pub name: String,
    /// Enrollment number; see [`CertificateSerial`](crate::CertificateSerial).
    pub enrollment: u64,
    /// Validity of the certificate.
    pub lifetime: CertificateLifetime,
}

impl VerifiedPeer {
    /// Owner of the certificate.
    ///
    /// # Errors
    /// `IdentityError` if it is malformed or has no name.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<VerifiedPeer, IdentityError> {
        const WHAT: &str = "the peer's certificate";
        let (_, parsed) =
            X509Certificate::from_der(certificate).map_err(|e| unreadable(WHAT, e))?;
        let name = parsed
            .subject()
            .iter_common_name()
            .next()
            .and_then(|name| name.as_str().ok());
        Ok(VerifiedPeer {
            name: name
                .ok_or_else(|| unreadable(WHAT, "it has no subject name"))?
                .to_owned(),
            enrollment: parsed
                .raw_serial()
                .iter()
                .rev()
                .skip(8)
                .take(8)
                .rev()
                .fold(0, |n, byte| n << 8 | u64::from(*byte)),
            lifetime: CertificateLifetime {
                from: parsed.validity().not_before.timestamp(),
                to: parsed.validity().not_after.timestamp(),
            },
        })
    }

    /// Owner of the first certificate in a text (PEM).
    ///
    /// # Errors
    /// `IdentityError` if there is none, or it has no name.
    pub fn of_pem(text: &str) -> Result<VerifiedPeer, IdentityError> {
        let first = CertificateDer::from_pem_slice(text.as_bytes());
        VerifiedPeer::of(&first.map_err(|why| unreadable("the certificate", why))?)
    }
}
