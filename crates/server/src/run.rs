//! The service as a process: its threads, and the signals that end it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};

use crate::http::Serving;
use crate::service::Service;
use crate::tls::Tls;

/// Where it serves, and as whom.
pub struct Listen<'a> {
    /// Where.
    pub address: SocketAddr,
    /// Names of hosts by which clients may call us.
    pub names: &'a [String],
    /// With TLS, or without.
    pub tls: Option<Tls>,
}

/// Serves until SIGINT or SIGTERM comes, and lets what is being answered come to its end; with SIGHUP it reads its certificate anew.
/// `ready` is told where we listen once we do.
///
/// # Errors
/// When the address cannot be had, or the system gives no threads.
pub fn serve(service: Arc<Service>, listen: Listen<'_>, ready: impl FnOnce(SocketAddr)) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let mut serving = Serving::bind(service, listen.address, listen.names).await?;
        if let Some(tls) = listen.tls {
            let anew = serving.secure(tls);
            tokio::spawn(async move {
                while hangup.recv().await.is_some() {
                    anew.send_modify(|times| *times += 1);
                }
            });
        }
        ready(serving.address()?);
        serving
            .until(async {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
            })
            .await;
        Ok(())
    })
}
