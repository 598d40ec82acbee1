//! State shared by all requests.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use tokio::sync::{Semaphore, watch};

use super::admission::ConnectionAdmission;
use super::assets::PageAssets;
use super::failure::ApiFailure;
use super::rate::RateLimits;
use crate::api::catalog::CatalogText;
use crate::api::service::Service;
use crate::store::service_error::ServiceError;
use crate::store::tls::ServerTls;

/// Address of the client: that of the connection, or the one reported by a trusted proxy.
#[derive(Clone, Copy, Debug)]
pub struct ClientAddress(pub IpAddr);

/// Client certificate, verified by TLS.
#[derive(Clone, Debug)]
pub struct ClientCertificate(pub identity::VerifiedPeer);

/// State shared by all requests.
pub struct AppState {
    /// The service.
    pub service: Arc<Service>,
    /// Accepted host names, in lower case.
    pub hosts: Vec<String>,
    /// Files of the page.
    pub assets: PageAssets,
    /// Rate limits.
    pub rates: RateLimits,
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
    pub admission: Arc<ConnectionAdmission>,
    /// Connections that waited for others to end.
    pub connections_waited: AtomicU64,
    /// TLS, if enabled.
    pub tls: Option<Arc<ServerTls>>,
    /// Increases when a token or an agent is revoked: existing connections are checked again.
    pub revoked: watch::Sender<u64>,
}

impl AppState {
    /// Has all connections checked after a revocation.
    pub fn look_again(&self) {
        self.revoked.send_modify(|times| *times += 1);
    }

    /// Runs a function that may block on the disk on a separate thread.
    pub async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        act: impl FnOnce(&Service) -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ApiFailure> {
        let service = self.service.clone();
        match tokio::task::spawn_blocking(move || act(&service)).await {
            Ok(result) => result.map_err(ApiFailure::from),
            Err(_) => Err(ApiFailure::internal()),
        }
    }
}
