//! Certificate authorities that a client trusts: those of a file, or the system's.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use identity::IdentityError;
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use ureq::tls::{Certificate, RootCerts};

/// Maximum bytes of a certificate file.
const PEM_BYTES_MAX: u64 = 16 << 20;

/// At least one certificate authority.
#[derive(Clone, Debug)]
pub struct TrustedAuthorities(Vec<CertificateDer<'static>>);

/// Reason why no authority is trusted.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The file cannot be read, or has a malformed certificate.
    #[error("cannot read certificates from {}: {why}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Reason.
        why: String,
    },
    /// The file has none.
    #[error("{} has no certificate (PEM)", .0.display())]
    Empty(PathBuf),
    /// The system has none.
    #[error("this system has no trusted certificates")]
    NoneInSystem,
}

impl TrustedAuthorities {
    /// The authorities of `file`, or else the system's.
    ///
    /// # Errors
    /// See [`AuthorityError`].
    pub fn new(file: Option<&Path>) -> Result<TrustedAuthorities, AuthorityError> {
        match file {
            Some(path) => TrustedAuthorities::of_file(path),
            None => match system_certificates() {
                found if found.is_empty() => Err(AuthorityError::NoneInSystem),
                found => Ok(TrustedAuthorities(found)),
            },
        }
    }

    fn of_file(path: &Path) -> Result<TrustedAuthorities, AuthorityError> {
        let unreadable = |why: &dyn ToString| AuthorityError::Unreadable {
            path: path.into(),
            why: why.to_string(),
        };
        let size = fs::metadata(path).map_err(|why| unreadable(&why))?.len();
        if size > PEM_BYTES_MAX {
            return Err(unreadable(&format!(
                "it has {size} bytes; at most {PEM_BYTES_MAX} are read"
            )));
        }
        let text = fs::read(path).map_err(|why| unreadable(&why))?;
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
        match found {
            Err(why) => Err(unreadable(&why)),
            Ok(found) if found.is_empty() => Err(AuthorityError::Empty(path.into())),
            Ok(found) => Ok(TrustedAuthorities(found)),
        }
    }

    /// TLS configuration of a client of any server.
    ///
    /// # Errors
    /// `IdentityError::Tls`.
    pub fn client_config(&self) -> Result<Arc<ClientConfig>, IdentityError> {
        identity::public_client_config(self.0.clone()).map(Arc::new)
    }

    pub(crate) fn roots(&self) -> RootCerts {
        let all = self
            .0
            .iter()
            .map(|certificate| Certificate::from_der(certificate).to_owned());
        RootCerts::Specific(Arc::new(all.collect()))
    }
}

/// Certificate authorities trusted by the system; empty if there are none.
#[must_use]
pub fn system_certificates() -> Vec<CertificateDer<'static>> {
    rustls_native_certs::load_native_certs().certs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_without_a_certificate_are_rejected() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).expect("a file");
            path
        };
        let key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        let broken = "-----BEGIN CERTIFICATE-----\n*\n-----END CERTIFICATE-----\n";
        for (path, words) in [
            (file("empty", ""), "empty has no certificate (PEM)"),
            (file("key", key), "key has no certificate (PEM)"),
            (file("broken", broken), "cannot read certificates from"),
            (folder.path().join("missing"), "No such file"),
        ] {
            let said = TrustedAuthorities::new(Some(&path))
                .expect_err(words)
                .to_string();
            assert!(said.contains(words), "{said}");
        }
        let certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let both = TrustedAuthorities::new(Some(&file(
            "both",
            &format!("{key}{certificate}{certificate}"),
        )));
        assert_eq!(both.expect("two certificates").0.len(), 2);
    }
}
