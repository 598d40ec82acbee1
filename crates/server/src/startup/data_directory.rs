//! The data directory: creates it if missing, locks it, opens the store and history, and creates the first token.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::api::service::Service;
use crate::api::service::ServiceParts;
use crate::gateway::fleet::Fleet;
use crate::gateway::{Gateway, GatewayBackends, GatewaySettings};
use crate::jobs::limits::ServiceLimits;
use crate::results::delivery::NamedOutlets;
use crate::results::hub::ResultHub;
use crate::rules::actions::ActionRegistry;
use crate::rules::alerts::{AlertReceiver, AlertRegistry};
use crate::rules::evaluation::RuleEvaluation;
use crate::store::access::{self, AccessRole, NetworkScope};
use crate::store::directory_lock::{FileLock, lock_directory};
use crate::store::history::{self, RowHistory};
use crate::store::recording_store::{RecordingLimits, RecordingReader, RecordingStore};
use crate::store::sqlite::{ServerStore, StoreError, TokenStore};

/// File with the first token.
pub const ADMIN_TOKEN: &str = "admin.token";
/// File of the store.
const STORE: &str = "store.sqlite";

/// Reserve file, deleted if the disk is full and the store cannot be opened.
pub(crate) const RESERVE: &str = "reserve";
const RESERVE_BYTES: usize = 256 << 10;

/// Marker of an incomplete restore.
pub(crate) const RESTORING: &str = "restoring";

/// A data directory owned by this process.
pub struct DataDirectory {
    folder: PathBuf,
    store: ServerStore,
    history: Arc<RowHistory>,
    /// The hub that receives rows.
    pub hub: Arc<ResultHub>,
    alerts: Arc<AlertRegistry>,
    actions: Arc<ActionRegistry>,
    limits: ServiceLimits,
    /// File with the first token, if just created.
    pub admin_token: Option<PathBuf>,
    /// Addresses that jobs may use as outlets by name.
    pub outlets: NamedOutlets,
    /// Captures and recordings available for queries.
    recording_store: Option<RecordingStore>,
    /// Held for the lifetime of the process.
    lock: FileLock,
}

impl DataDirectory {
    /// Opens the data directory; creates it if missing.
    ///
    /// # Errors
    /// A message for the operator: another process uses it, or it cannot be read or written.
    pub fn open(folder: &Path, limits: ServiceLimits) -> Result<DataDirectory, String> {
        let name = folder.display();
        let failed = |what: &str, error: &dyn std::fmt::Display| format!("{what} {name}: {error}");
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| failed("cannot create the data directory", &error))?;
        let lock = lock_directory(folder)?;
        if folder.join(RESTORING).exists() {
            return Err(format!(
                "a restore into the data directory {name} was interrupted: remove the directory, and restore again"
            ));
        }
        // The store's files are created with access for their owner only.
        let path = folder.join(STORE);
        OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&path)
            .map_err(|error| failed("cannot write to the data directory", &error))?;
        let reserve = folder.join(RESERVE);
        let store = ServerStore::open(&path).or_else(|error| {
            // The store needs some space to open, for example after a kill on a full disk.
            fs::remove_file(&reserve).map_err(|_| error)?;
            tracing::warn!(
                "the disk is full: the reserved space in {} is used to open the store",
                reserve.display()
            );
            ServerStore::open(&path)
        });
        let store = store.map_err(|error| failed("cannot open the data directory", &error))?;
        keep_reserve(&reserve);
        let history = RowHistory::open(&store, folder.join(history::FOLDER))
            .map_err(|error| failed("cannot open the history in", &error))?;
        let history = Arc::new(history);
        let mut boot = [0; 8];
        getrandom::fill(&mut boot).map_err(|error| failed("no random numbers for", &error))?;
        // 53 bits, exactly representable in JavaScript.
        let boot = u64::from_be_bytes(boot) >> 11;
        let alerts = AlertRegistry::open(store.alerts.clone(), limits.alerts)
            .map_err(|error| failed("cannot read the alert rules in", &error))?;
        let alerts = Arc::new(alerts);
        let actions = ActionRegistry::open(store.actions.clone(), limits.actions)
            .map_err(|error| failed("cannot read the actions in", &error))?;
        let actions = Arc::new(actions);
        let rules = RuleEvaluation {
            alerts: alerts.clone(),
            actions: actions.clone(),
        };
        let hub = ResultHub::new(&store, history.clone(), Box::new(rules), limits.hub(), boot);
        let hub = Arc::new(hub);
        let admin_token = first_token(&store.tokens, folder)
            .map_err(|error| failed("cannot write the first token into", &error))?;
        let outlets = NamedOutlets::default();
        Ok(DataDirectory {
            folder: folder.to_owned(),
            store,
            history,
            hub,
            alerts,
            actions,
            limits,
            admin_token,
            outlets,
            recording_store: None,
            lock,
        })
    }

    /// Sets the receivers of alerts, before the service starts.
    pub fn set_receivers(&self, receivers: Vec<AlertReceiver>) {
        self.alerts.set_receivers(receivers);
    }

    /// Enables queries of uploads and of a folder; before the service starts.
    ///
    /// # Errors
    /// A message for the operator if a folder cannot be used.
    pub fn set_recordings(
        &mut self,
        reader: Arc<dyn RecordingReader>,
        folder: Option<PathBuf>,
        limits: RecordingLimits,
    ) -> Result<(), String> {
        self.recording_store = Some(RecordingStore::open(reader, &self.folder, folder, limits)?);
        Ok(())
    }

    /// Starts the service on this directory with `fleet` as executor, and resubmits jobs that had not ended.
    ///
    /// # Errors
    /// `StoreError` when the store cannot be read.
    pub fn serve(self, fleet: Arc<dyn Fleet>) -> Result<Arc<Service>, StoreError> {
        let parts = ServiceParts {
            folder: self.folder,
            store: self.store,
            history: self.history,
            hub: self.hub,
            alerts: self.alerts,
            actions: self.actions,
            outlets: self.outlets,
            recording_store: self.recording_store,
            limits: self.limits,
            lock: self.lock,
        };
        Service::start(parts, fleet)
    }

    /// Path of the store in a data directory.
    #[must_use]
    pub fn store_file(folder: &Path) -> PathBuf {
        folder.join(STORE)
    }
}

impl Gateway {
    /// Opens a gateway on a data directory; pass it to [`DataDirectory::serve`] before any other use.
    ///
    /// # Errors
    /// `StoreError` when the store cannot be read, or the system cannot create threads.
    pub fn open(
        opened: &DataDirectory,
        settings: GatewaySettings,
    ) -> Result<Arc<Gateway>, StoreError> {
        Gateway::open_with(opened, settings, GatewayBackends::default())
    }

    /// Opens a gateway with interfaces for jobs on a bus or in a network.
    ///
    /// # Errors
    /// As [`Gateway::open`].
    pub fn open_with(
        opened: &DataDirectory,
        settings: GatewaySettings,
        backends: GatewayBackends,
    ) -> Result<Arc<Gateway>, StoreError> {
        Gateway::on(&opened.store, opened.hub.clone(), settings, backends)
    }
}

/// Writes the reserve file if it is missing and there is space.
fn keep_reserve(path: &Path) {
    if path.exists() {
        return;
    }
    // Nonzero bytes, so that file systems do not store a hole.
    let written = fs::write(path, vec![0x55; RESERVE_BYTES]);
    if let Err(error) = written {
        tracing::warn!("{} cannot be written: {error}", path.display());
        let _ = fs::remove_file(path);
    }
}

/// Creates the first token if there are none; returns its file.
fn first_token(store: &TokenStore, folder: &Path) -> io::Result<Option<PathBuf>> {
    if !store.all().map_err(io::Error::other)?.is_empty() {
        return Ok(None);
    }
    let path = folder.join(ADMIN_TOKEN);
    // Left by a start that was killed between the file and the store.
    let _ = fs::remove_file(&path);
    let mut file = OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(&path)?;
    let made = access::make(
        store,
        "admin",
        AccessRole::Admin,
        &NetworkScope::default(),
        None,
    )
    .map_err(io::Error::other)?;
    let Some(made) = made else { return Ok(None) };
    let written = writeln!(file, "{}", made.secret).and_then(|()| file.sync_all());
    if let Err(error) = written {
        // A token that cannot be written to its file is removed.
        let _ = store.remove(made.token.id);
        return Err(error);
    }
    Ok(Some(path))
}
