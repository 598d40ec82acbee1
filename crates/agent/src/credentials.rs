//! Credentials of the agent: its key and certificate, and the certificate authority of its server, in files of its
//! folder with access for their owner only. The key is generated here and never leaves the host.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use identity::{IdentityError, TrustedServers, VerifiedPeer, client_config};
use rustls::ClientConfig;

/// Key and certificate in one file, so that they always match.
const OWN: &str = "identity.pem";
/// Certificate authority of the server; without it, the system's authorities apply.
const AUTHORITY: &str = "ca.pem";

/// Reason why the agent's files are unusable.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// A file cannot be read or written.
    #[error("{path}: {why}")]
    File {
        /// Path of the file.
        path: String,
        /// The system's reason.
        why: io::Error,
    },
    /// The content of a file is invalid.
    #[error("{path}: {why}")]
    Content {
        /// Path of the file.
        path: String,
        /// Reason.
        why: IdentityError,
    },
}

/// See the module documentation.
#[derive(Clone, Debug)]
pub struct AgentCredentials {
    folder: PathBuf,
    /// Contents of the certificate.
    pub peer: VerifiedPeer,
    /// Key and certificate, PEM.
    own: String,
    authority: Option<String>,
}

impl AgentCredentials {
    /// Reads the credentials in an agent's folder, if it has enrolled.
    ///
    /// # Errors
    /// `CredentialsError::File` or `CredentialsError::Content`.
    pub fn read(folder: &Path) -> Result<Option<AgentCredentials>, CredentialsError> {
        let Some(own) = text(&folder.join(OWN))? else {
            return Ok(None);
        };
        let authority = text(&folder.join(AUTHORITY))?;
        AgentCredentials::of(folder, own, authority).map(Some)
    }

    /// Stores new credentials in an agent's folder, which is created if missing.
    ///
    /// # Errors
    /// `CredentialsError::File` if they cannot be written, `CredentialsError::Content` if the certificate is invalid.
    pub fn keep(
        folder: &Path,
        key: &str,
        certificate: &str,
        authority: Option<String>,
    ) -> Result<AgentCredentials, CredentialsError> {
        let new = AgentCredentials::of(folder, format!("{key}{certificate}"), authority)?;
        let _ = client_config(
            TrustedServers::AnyOf(Vec::new()),
            Some((&new.own, &new.own)),
        )
        .map_err(|why| new.wrong(OWN, why))?;
        let made = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder);
        made.map_err(|why| CredentialsError::File {
            path: folder.display().to_string(),
            why,
        })?;
        // Removes the authority of an earlier enrollment.
        match &new.authority {
            Some(pem) => new.put(AUTHORITY, pem)?,
            None => drop(fs::remove_file(folder.join(AUTHORITY))),
        }
        new.put(OWN, &new.own)?;
        Ok(new)
    }

    /// Stores the next certificate with its key.
    ///
    /// # Errors
    /// As [`AgentCredentials::keep`].
    pub fn renewed(
        &self,
        key: &str,
        certificate: &str,
    ) -> Result<AgentCredentials, CredentialsError> {
        AgentCredentials::keep(&self.folder, key, certificate, self.authority.clone())
    }

    fn of(
        folder: &Path,
        own: String,
        authority: Option<String>,
    ) -> Result<AgentCredentials, CredentialsError> {
        let path = folder.join(OWN).display().to_string();
        let peer =
            VerifiedPeer::of_pem(&own).map_err(|why| CredentialsError::Content { path, why })?;
        Ok(AgentCredentials {
            folder: folder.to_owned(),
            peer,
            own,
            authority,
        })
    }

    /// TLS configuration for connections to the server.
    ///
    /// # Errors
    /// `CredentialsError::Content` if they are invalid.
    pub fn tls(&self) -> Result<ClientConfig, CredentialsError> {
        let trusts = match &self.authority {
            Some(pem) => TrustedServers::Of(pem),
            None => system(),
        };
        client_config(trusts, Some((&self.own, &self.own))).map_err(|why| self.wrong(OWN, why))
    }

    fn wrong(&self, name: &str, why: IdentityError) -> CredentialsError {
        CredentialsError::Content {
            path: self.folder.join(name).display().to_string(),
            why,
        }
    }

    /// Replaces a file atomically.
    fn put(&self, name: &str, text: &str) -> Result<(), CredentialsError> {
        let path = self.folder.join(name);
        let new = self.folder.join(format!("{name}.new"));
        let write = || {
            let mut file = OpenOptions::new()
                .create(true)
                .truncate(true)
                .write(true)
                .mode(0o600)
                .open(&new)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &path)
        };
        write().map_err(|why| CredentialsError::File {
            path: path.display().to_string(),
            why,
        })
    }
}

/// Certificate authorities trusted by the system.
#[must_use]
pub fn system() -> TrustedServers<'static> {
    TrustedServers::AnyOf(connect::system_certificates())
}

fn text(path: &Path) -> Result<Option<String>, CredentialsError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(why) => Err(CredentialsError::File {
            path: path.display().to_string(),
            why,
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use identity::{CertificateAuthority, CertificateLifetime, CertificateSerial, SigningRequest};

    use super::*;

    #[test]
    fn credentials_are_private_and_reloaded() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = folder.path().join("agent");
        assert!(
            AgentCredentials::read(&own)
                .expect("nothing is there")
                .is_none()
        );
        let lifetime = CertificateLifetime {
            from: 0,
            to: 4_000_000_000,
        };
        let (authority, _) = CertificateAuthority::create("test", lifetime).expect("an authority");
        let serial = CertificateSerial {
            enrollment: 7,
            number: 1,
        };
        let make = |name: &str| {
            let request = SigningRequest::create().expect("a request");
            let certificate = authority
                .sign_agent(&request.request_pem, name, serial, lifetime)
                .expect("signed");
            (request.key_pem, certificate)
        };
        let (key, certificate) = make("web-1");
        let other = make("web-1");
        let ca = Some(authority.certificate_pem().to_owned());
        let kept = AgentCredentials::keep(&own, &key, &certificate, ca).expect("kept");
        kept.renewed(&other.0, &other.1).expect("kept");
        let found = AgentCredentials::read(&own)
            .expect("readable")
            .expect("there");
        assert_eq!(
            (found.peer.name.as_str(), found.own),
            ("web-1", other.0.clone() + &other.1)
        );
        for name in [OWN, AUTHORITY] {
            let mode = fs::metadata(own.join(name))
                .expect("there")
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        // A mismatched key and certificate are rejected.
        assert!(kept.renewed(&key, &other.1).is_err());
        assert!(
            AgentCredentials::read(&own)
                .expect("readable")
                .expect("there")
                .tls()
                .is_ok()
        );
    }
}
