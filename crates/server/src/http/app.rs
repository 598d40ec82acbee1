//! State shared by all requests.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use tokio::sync::{Semaphore, watch};

use super::admission::Admission;
use super::assets::Assets;
use super::failure::Failure;
use super::rate::Rates;
use crate::catalog::CatalogText;
use crate::service::{Denied, Service};
use crate::tls::Tls;

/// Address of the client: that of the connection, or the one reported by a trusted proxy.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub IpAddr);

/// Client certificate, verified by TLS.
#[derive(Clone, Debug)]
pub struct Certificate(pub identity::Peer);

/// State shared by all requests.
pub struct App {
    /// The service.
    pub service: Arc<Service>,
    /// Accepted host names, in lower case.
    pub hosts: Vec<String>,
    /// Files of the page.
    pub assets: Assets,
    /// Rate limits.
    pub rates: Rates,
    /// Catalog of the query language.
    pub catalog: CatalogText,
    /// Time of the start.
    pub started: Instant,
    /// True when the service ends.
    pub ending: watch::Receiver<bool>,
    /// Permits for queries of the past.
    pub past_room: Arc<Semaphore>,
    /// Permits for sorted or searched pages.
    pub selecting_room: Arc<Semaphore>,
    /// Permits for uploads.
    pub sending_room: Arc<Semaphore>,
    /// Limits of unauthenticated connections.
    pub admission: Arc<Admission>,
    /// Connections that waited for others to end.
    pub connections_waited: AtomicU64,
    /// TLS, if enabled.
    pub tls: Option<Arc<Tls>>,
    /// Increases when a token or an agent is revoked: existing connections are checked again.
    pub revoked: watch::Sender<u64>,
}

impl App {
    /// Has all connections checked after a revocation.
    pub fn look_again(&self) {
        self.revoked.send_modify(|times| *times += 1);
    }

    /// Runs a function that may block on the disk on a separate thread.
    pub async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        act: impl FnOnce(&Service) -> Result<T, Denied> + Send + 'static,
    ) -> Result<T, Failure> {
        let service = self.service.clone();
        match tokio::task::spawn_blocking(move || act(&service)).await {
            Ok(result) => result.map_err(Failure::from),
            Err(_) => Err(Failure::internal()),
        }
    }
}
