//! An authority known only by its fingerprint, for the first connection to a server without a file of its certificate.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use sha2::{Digest, Sha256};

use crate::{IdentityError, unreadable};

/// SHA-256 of a certificate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AuthorityPin([u8; 32]);

impl AuthorityPin {
    /// Fingerprint of the first certificate in a text (PEM).
    ///
    /// # Errors
    /// `IdentityError` if there is none.
    pub fn of_pem(text: &str) -> Result<AuthorityPin, IdentityError> {
        let first = CertificateDer::from_pem_slice(text.as_bytes());
        Ok(AuthorityPin::of(
            &first.map_err(|why| unreadable("the certificate", why))?,
        ))
    }

    fn of(certificate: &CertificateDer<'_>) -> AuthorityPin {
        AuthorityPin(Sha256::digest(certificate).into())
    }
}

impl fmt::Display for AuthorityPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for AuthorityPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for AuthorityPin {
    type Err = IdentityError;

    fn from_str(text: &str) -> Result<AuthorityPin, IdentityError> {
        let bad = || unreadable("a fingerprint", "expected 64 hexadecimal digits");
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(bad());
        }
        let mut bytes = [0; 32];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[i * 2..i * 2 + 2], 16).map_err(|_| bad())?;
        }
        Ok(AuthorityPin(bytes))
    }
}

/// Accepts a server's certificate if it is signed by the pinned authority; all other checks are the usual ones.
#[derive(Debug)]
pub struct PinnedVerifier {
    pin: AuthorityPin,
    provider: Arc<CryptoProvider>,
}

impl PinnedVerifier {
    /// Accepts this authority.
    pub fn new(pin: AuthorityPin, provider: Arc<CryptoProvider>) -> PinnedVerifier {
        PinnedVerifier { pin, provider }
    }
}

impl ServerCertVerifier for PinnedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let pinned = intermediates
            .iter()
            .find(|certificate| AuthorityPin::of(certificate) == self.pin);
        let pinned = pinned.ok_or(CertificateError::UnknownIssuer)?;
        let mut roots = RootCertStore::empty();
        roots.add(pinned.clone().into_owned())?;
        let webpki =
            WebPkiServerVerifier::builder_with_provider(roots.into(), self.provider.clone())
                .build();
        let webpki = webpki.map_err(|why| Error::General(why.to_string()))?;
        webpki.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(
            message,
            certificate,
            signed,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(
            message,
            certificate,
            signed,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
