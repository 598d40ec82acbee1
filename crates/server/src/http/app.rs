//! What all requests share.

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

/// The client's address: that of the connection, or the one that a trusted proxy tells.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub IpAddr);

/// The certificate that the other end has shown, and that TLS has found to be good.
#[derive(Clone, Debug)]
pub struct Certificate(pub identity::Peer);

/// What all requests share.
pub struct App {
    /// What requests mean.
    pub service: Arc<Service>,
    /// Names under which we may be asked, in lower case.
    pub hosts: Vec<String>,
    /// The page's files.
    pub assets: Assets,
    /// How often they may ask.
    pub rates: Rates,
    /// What queries may be made of.
    pub catalog: CatalogText,
    /// When we were started.
    pub started: Instant,
    /// Turns to `true` when the service ends.
    pub ending: watch::Receiver<bool>,
    /// Queries of the past that may begin now.
    pub past_room: Arc<Semaphore>,
    /// Pages of sorted or searched rows that may be read now.
    pub selecting_room: Arc<Semaphore>,
    /// Files that may be sent now.
    pub sending_room: Arc<Semaphore>,
    /// Connections that have not shown a valid token.
    pub admission: Arc<Admission>,
    /// Connections that had to wait for others to end.
    pub connections_waited: AtomicU64,
    /// With TLS, or without.
    pub tls: Option<Arc<Tls>>,
    /// Increases when a token or an agent is revoked: existing connections are checked again.
    pub revoked: watch::Sender<u64>,
}

impl App {
    /// A token or an agent was revoked.
    pub fn look_again(&self) {
        self.revoked.send_modify(|times| *times += 1);
    }

    /// Does on a thread that may wait for the disk what would keep others waiting here.
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
