//! The service as a process: its threads, and the signals that end it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};

use crate::http::Serving;
use crate::service::Service;

/// Serves on `address` until SIGINT or SIGTERM comes, and lets what is being answered come to its end. `names` are names of
/// hosts by which clients may call us; `ready` is told where we listen once we do.
///
/// # Errors
/// When the address cannot be had, or the system gives no threads.
pub fn serve(
    service: Arc<Service>,
    address: SocketAddr,
    names: &[String],
    ready: impl FnOnce(SocketAddr),
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let serving = Serving::bind(service, address, names).await?;
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
