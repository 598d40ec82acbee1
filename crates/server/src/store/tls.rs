//! TLS of the server: its certificate, and the built-in certificate authority that signs the certificates of agents
//! and, unless the operator provides one, of the server. Certificates are replaced at run time; existing connections
//! keep theirs.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use identity::{
    AuthorityPin, CertificateAuthority, CertificateLifetime, TrustedClients, server_config,
};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use crate::store::sqlite::now_ns;

/// Folder of the authority in the data directory.
const FOLDER: &str = "tls";
/// Files of the authority's certificate and key.
const FILES: [&str; 2] = ["ca.pem", "ca.key"];
/// Validity of the authority, and of a server certificate it signs, in seconds.
const AUTHORITY_SECONDS: i64 = 10 * 365 * 86_400;
const OWN_SECONDS: i64 = 30 * 86_400;
/// Interval at which certificates are checked for replacement.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Minimum interval between logged failures.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// Source of the server's certificate.
#[derive(Clone, Debug)]
pub enum ServerCertificate {
    /// Signed by the built-in authority.
    Own,
    /// Provided by the operator: PEM files with the chain and its key.
    Files {
        /// Chain, server certificate first.
        chain: PathBuf,
        /// Private key.
        key: PathBuf,
    },
}

/// See the module documentation.
pub struct ServerTls {
    shown: ServerCertificate,
    names: Vec<String>,
    authority: CertificateAuthority,
    /// Validity of agents' certificates, in seconds.
    pub agents_seconds: i64,
    now: Mutex<CurrentCertificate>,
    /// Number of failed handshakes, and time of the last log entry.
    refusals: AtomicU64,
    told: Mutex<Option<Instant>>,
}

/// Whether a failure is logged: at most one per second, so that strangers cannot fill the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogDecision {
    /// Logged.
    Yes,
    /// The message is counted and not logged.
    Counted,
}

/// Certificate for new connections.
struct CurrentCertificate {
    config: Arc<ServerConfig>,
    /// State of its files when it was loaded.
    state: Vec<(i64, i64, u64, u64)>,
    /// Time of its replacement, in seconds since the epoch.
    replace_at: i64,
}

/// The authority's certificate of the data directory at `folder`, PEM; created if missing.
///
/// # Errors
/// A message for the operator.
pub fn authority_pem(folder: &Path) -> Result<String, String> {
    Ok(authority(folder)?.certificate_pem().to_owned())
}

impl ServerTls {
    /// Opens the TLS state of a server with host names `names` and its data directory.
    ///
    /// # Errors
    /// A message for the operator if a certificate cannot be read or created.
    pub fn open(
        folder: &Path,
        shown: ServerCertificate,
        names: &[String],
        agents: Duration,
    ) -> Result<ServerTls, String> {
        let authority = authority(folder)?;
        let names: Vec<String> = names
            .iter()
            .map(|name| name.trim_matches(['[', ']']).to_owned())
            .collect();
        let now = current(&shown, &authority, &names)?.into();
        let agents_seconds = i64::try_from(agents.as_secs())
            .unwrap_or(i64::MAX / 2)
            .max(1);
        Ok(ServerTls {
            shown,
            names,
            authority,
            agents_seconds,
            now,
            refusals: AtomicU64::new(0),
            told: Mutex::default(),
        })
    }

    /// Counts a failed handshake.
    pub fn count_refusal(&self) -> LogDecision {
        self.refusals.fetch_add(1, Ordering::Relaxed);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_some_and(|at| at.elapsed() < TELL_EVERY) {
            return LogDecision::Counted;
        }
        *told = Some(Instant::now());
        LogDecision::Yes
    }

    /// Number of failed handshakes.
    pub fn refusals(&self) -> u64 {
        self.refusals.load(Ordering::Relaxed)
    }

    /// The authority for agents' certificates.
    pub fn authority(&self) -> &CertificateAuthority {
        &self.authority
    }

    /// Identifies the server for enrolling agents; `None` if its certificate is the operator's.
    pub fn pin(&self) -> Option<AuthorityPin> {
        let own =
            matches!(self.shown, ServerCertificate::Own).then(|| self.authority.certificate_pem());
        own.and_then(|pem| AuthorityPin::of_pem(pem).ok())
    }

    /// Acceptor for the next connection.
    pub fn acceptor(&self) -> TlsAcceptor {
        self.now
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .config
            .clone()
            .into()
    }

    /// Loads the current certificate; keeps the previous one on failure.
    fn replace(&self) {
        match current(&self.shown, &self.authority, &self.names) {
            Ok(current) => {
                *self.now.lock().unwrap_or_else(PoisonError::into_inner) = current;
                tracing::info!("new connections use a new certificate");
            }
            Err(why) => tracing::error!("the certificate is not replaced: {why}"),
        }
    }

    fn is_due(&self) -> bool {
        let now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let state = state(&self.shown);
        seconds() >= now.replace_at || !state.is_empty() && state != now.state
    }

    /// Replaces certificates when due, when their files have changed, and when `asked` changes; runs until the service
    /// ends.
    pub async fn keep(
        self: Arc<Self>,
        mut asked: watch::Receiver<u64>,
        mut ending: watch::Receiver<bool>,
    ) {
        loop {
            let is_asked = tokio::select! {
                changed = asked.changed() => changed.is_ok(),
                () = tokio::time::sleep(LOOK_EVERY) => false,
                _ = ending.wait_for(|ending| *ending) => return,
            };
            let tls = self.clone();
            let look = move || {
                if is_asked || tls.is_due() {
                    tls.replace();
                }
            };
            let _ = tokio::task::spawn_blocking(look).await;
        }
    }
}

fn seconds() -> i64 {
    now_ns() / 1_000_000_000
}

/// State of the files, to detect changes: times, sizes, inodes.
fn state(shown: &ServerCertificate) -> Vec<(i64, i64, u64, u64)> {
    let ServerCertificate::Files { chain, key } = shown else {
        return Vec::new();
    };
    let of = |path| {
        fs::metadata(path).map(|file| (file.mtime(), file.mtime_nsec(), file.size(), file.ino()))
    };
    [chain, key]
        .into_iter()
        .filter_map(|path| of(path).ok())
        .collect()
}

fn current(
    shown: &ServerCertificate,
    authority: &CertificateAuthority,
    names: &[String],
) -> Result<CurrentCertificate, String> {
    let clients = TrustedClients::Of(authority.certificate_pem());
    let state = state(shown);
    let (config, replace_at) = match shown {
        ServerCertificate::Files { chain, key } => {
            let texts = (read(chain)?, read(key)?);
            let config = server_config(&texts.0, &texts.1, clients)
                .map_err(|why| format!("{} and {}: {why}", chain.display(), key.display()))?;
            (config, i64::MAX)
        }
        ServerCertificate::Own => {
            let lifetime = CertificateLifetime::lasting(seconds(), OWN_SECONDS);
            let made = authority
                .make_server(names, lifetime)
                .and_then(|(own, key)| {
                    server_config(
                        &format!("{own}{}", authority.certificate_pem()),
                        &key,
                        clients,
                    )
                });
            (
                made.map_err(|why| format!("cannot create the server's certificate: {why}"))?,
                lifetime.renew_at(),
            )
        }
    };
    let mut config = config;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(CurrentCertificate {
        config: config.into(),
        state,
        replace_at,
    })
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|why| format!("cannot read {}: {why}", path.display()))
}

/// The authority of a data directory; created if missing.
fn authority(folder: &Path) -> Result<CertificateAuthority, String> {
    let own = folder.join(FOLDER);
    if !own.exists() {
        make(folder, &own)
            .map_err(|why| format!("cannot create an authority in {}: {why}", own.display()))?;
    }
    let [certificate, key] = FILES.map(|name| own.join(name));
    CertificateAuthority::load(&read(&certificate)?, &read(&key)?)
        .map_err(|why| format!("{}: {why}", own.display()))
}

/// Creates the folder under a temporary name and renames it when it is complete.
fn make(folder: &Path, own: &Path) -> io::Result<()> {
    let mut id = [0; 8];
    getrandom::fill(&mut id).map_err(io::Error::other)?;
    let id = u64::from_le_bytes(id);
    let private = |path: &Path| {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
    };
    private(folder)?;
    let new = folder.join(format!("{FOLDER}.{id:016x}"));
    private(&new)?;
    let lifetime = CertificateLifetime::lasting(seconds(), AUTHORITY_SECONDS);
    let (authority, key) = CertificateAuthority::create(&format!("netalytics {id:016x}"), lifetime)
        .map_err(io::Error::other)?;
    for (name, text) in FILES.iter().zip([authority.certificate_pem(), &key]) {
        let mut file = OpenOptions::new()
            .create_new(true)
            .write(true)
            .mode(0o600)
            .open(new.join(name))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
    }
    match fs::rename(&new, own) {
        // Another process was faster.
        Err(_) if own.exists() => fs::remove_dir_all(&new),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_is_made_once_and_is_its_owners_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        let first = authority_pem(&data).expect("it is made");
        assert_eq!(authority_pem(&data).expect("it exists"), first);
        let mode = |name: &str| fs::metadata(data.join(name)).expect("it exists").mode() & 0o777;
        assert_eq!(
            ["tls", "tls/ca.pem", "tls/ca.key"].map(mode),
            [0o700, 0o600, 0o600]
        );
        fs::write(data.join("tls/ca.key"), "nonsense").expect("it is written");
        assert!(
            authority_pem(&data)
                .expect_err("no key")
                .contains("the authority's key cannot be read")
        );
    }

    #[test]
    fn changed_certificates_are_reloaded_unless_invalid() {
        let folder = tempfile::tempdir().expect("a folder");
        let [chain, key] = ["chain.pem", "key.pem"].map(|name| folder.path().join(name));
        let (operator, _) =
            CertificateAuthority::create("operator", CertificateLifetime::lasting(seconds(), 600))
                .expect("one");
        let put = || {
            let names = ["server.test".to_owned()];
            let made = operator
                .make_server(&names, CertificateLifetime::lasting(seconds(), 600))
                .expect("a certificate");
            fs::write(&chain, made.0)
                .and_then(|()| fs::write(&key, made.1))
                .expect("written");
        };
        put();
        let shown = ServerCertificate::Files {
            chain: chain.clone(),
            key: key.clone(),
        };
        let open = |shown| ServerTls::open(folder.path(), shown, &[], Duration::from_secs(60));
        let tls = open(shown.clone()).expect("TLS");
        let config = |tls: &ServerTls| tls.now.lock().expect("whole").config.clone();
        let first = config(&tls);
        assert!(!tls.is_due() && tls.pin().is_none());
        put();
        assert!(tls.is_due());
        tls.replace();
        let second = config(&tls);
        assert!(!Arc::ptr_eq(&first, &second) && !tls.is_due());
        fs::write(&chain, "nonsense").expect("written");
        tls.replace();
        assert!(Arc::ptr_eq(&second, &config(&tls)));
        assert!(
            open(shown)
                .err()
                .expect("no certificate")
                .contains("chain.pem")
        );
    }
}
