//! The service as a process: its threads and signals.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::api::service::Service;
use crate::api::{HttpServer, PageFile};
use crate::store::tls::ServerTls;

/// Listening address and identity.
pub struct ListenOptions<'a> {
    /// Address.
    pub address: SocketAddr,
    /// Host names that clients may use.
    pub names: &'a [String],
    /// TLS, if enabled.
    pub tls: Option<ServerTls>,
    /// Files of the page; empty: only the page without scripts.
    pub page: Vec<PageFile>,
    /// Additional listener.
    pub beside: SecondAddress,
}

/// Additional listener of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecondAddress {
    /// None.
    Nothing,
    /// A loopback port without TLS, for a local agent without a trusted certificate authority.
    Loopback,
}

/// Addresses on which a server listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundAddresses {
    /// The configured address.
    pub address: SocketAddr,
    /// See [`SecondAddress`].
    pub beside: Option<SocketAddr>,
}

/// Serves until SIGINT or SIGTERM and completes requests in progress; SIGHUP reloads its certificate. `ready` receives
/// the address once it listens.
///
/// # Errors
/// If the address is unavailable, or the system cannot create threads.
pub fn serve(
    service: Arc<Service>,
    listen: ListenOptions<'_>,
    ready: impl FnOnce(BoundAddresses),
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let mut serving = HttpServer::bind(service.clone(), listen.address, listen.names).await?;
        serving.show(listen.page);
        let beside = match listen.beside {
            SecondAddress::Nothing => None,
            SecondAddress::Loopback => {
                Some(HttpServer::bind(service, (Ipv4Addr::LOCALHOST, 0).into(), &[]).await?)
            }
        };
        if let Some(tls) = listen.tls {
            let anew = serving.secure(tls);
            tokio::spawn(async move {
                while hangup.recv().await.is_some() {
                    anew.send_modify(|times| *times += 1);
                }
            });
        }
        let beside_at = beside.as_ref().map(HttpServer::address).transpose()?;
        ready(BoundAddresses {
            address: serving.address()?,
            beside: beside_at,
        });
        let (end, mut ended) = watch::channel(());
        let beside = beside.map(|beside| {
            tokio::spawn(beside.until(async move {
                // The sender was dropped.
                let _ = ended.changed().await;
            }))
        });
        serving
            .until(async {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
            })
            .await;
        drop(end);
        if let Some(beside) = beside {
            beside.await?;
        }
        Ok(())
    })
}
