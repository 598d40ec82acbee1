//! One connection: the header of a proxy where one is expected, TLS where the server has it, then HTTP until it ends.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use identity::ConnectionEnd;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::admission::{AdmittedConnection, CloseSignal};
use super::app::{AppState, ClientAddress, ClientCertificate};
use super::proxy_header;
use crate::store::tls::{LogDecision, ServerTls};

/// Time limit for the head of a request, and for the TLS handshake.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Maximum bytes of a request's head, and read buffer size.
const HEAD_BYTES: usize = 64 << 10;
/// Time for a rejected client to read the TLS alert.
const REASON_TIME: Duration = Duration::from_secs(1);
/// Content type of handshake records (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 22;
/// Response to HTTP clients on a TLS port.
const NOT_TLS: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n\
    This server uses TLS: its address begins with https://\n";

/// A connection before its first byte is read.
pub enum AcceptedConnection {
    /// Admitted by its address.
    Direct(TcpStream, SocketAddr, AdmittedConnection, CloseSignal),
    /// From a trusted proxy, whose header names the client; admitted by that.
    Proxied(TcpStream, SocketAddr),
}

impl AcceptedConnection {
    /// Admits it, unless its client is not known yet.
    pub fn new(app: &AppState, stream: TcpStream, peer: SocketAddr) -> AcceptedConnection {
        let limits = app.service.limits();
        if limits.proxy_protocol && limits.trusted_proxies.holds(peer.ip()) {
            return AcceptedConnection::Proxied(stream, peer);
        }
        let (admitted, closing) = app.admission.admit(peer.ip());
        AcceptedConnection::Direct(stream, peer, admitted, closing)
    }

    /// Serves it until it ends, or has to make room.
    pub async fn serve(self, app: Arc<AppState>, router: Router) {
        let (stream, peer, admitted, closing) = match self {
            AcceptedConnection::Direct(stream, peer, admitted, closing) => {
                (stream, peer, admitted, closing)
            }
            AcceptedConnection::Proxied(mut stream, proxy) => {
                let read = tokio::time::timeout(HEAD_TIME, proxy_header::client(&mut stream)).await;
                let peer = match read.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                    Ok(client) => client.unwrap_or(proxy),
                    Err(why) => {
                        app.service.hub().meters.heads_refused.add(1);
                        return tracing::warn!("connection from the proxy {proxy} closed: {why}");
                    }
                };
                let (admitted, closing) = app.admission.admit(peer.ip());
                (stream, peer, admitted, closing)
            }
        };
        tokio::select! {
            () = serve(app, router, stream, (peer, Arc::new(admitted))) => {}
            () = closing.wait() => {}
        }
    }
}

/// Serves a connection until it ends.
async fn serve(
    app: Arc<AppState>,
    router: Router,
    stream: TcpStream,
    (peer, admitted): (SocketAddr, Arc<AdmittedConnection>),
) {
    let _ = stream.set_nodelay(true);
    let Some(tls) = app.tls.clone() else {
        return answer(&app, router, stream, (peer.ip(), admitted, None)).await;
    };
    let shaken = tokio::time::timeout(HEAD_TIME, shake(&tls, stream)).await;
    let silent = || {
        Err(format!(
            "handshake not completed within {} s",
            HEAD_TIME.as_secs()
        ))
    };
    let stream = match shaken.unwrap_or_else(|_| silent()) {
        Ok(stream) => stream,
        Err(why) => {
            return match tls.count_refusal() {
                LogDecision::Yes => tracing::warn!("{peer} rejected: {why}"),
                LogDecision::Counted => tracing::debug!("{peer} rejected: {why}"),
            };
        }
    };
    let shown = stream
        .get_ref()
        .1
        .peer_certificates()
        .and_then(<[_]>::first);
    let certificate = match shown.map(identity::VerifiedPeer::of).transpose() {
        Ok(certificate) => certificate.map(ClientCertificate),
        Err(why) => return tracing::warn!("{peer}: {why}"),
    };
    answer(&app, router, stream, (peer.ip(), admitted, certificate)).await;
}

/// Performs the TLS handshake; a failing client receives the reason as a TLS alert.
async fn shake(tls: &ServerTls, mut stream: TcpStream) -> Result<TlsStream<TcpStream>, String> {
    let mut first = [0];
    if stream.peek(&mut first).await.is_ok_and(|n| n == 1) && first[0] != HANDSHAKE {
        let _ = stream.write_all(NOT_TLS).await;
        linger(stream).await;
        return Err("it does not use TLS".into());
    }
    let (why, stream) = match tls.acceptor().accept(stream).into_fallible().await {
        Ok(stream) => return Ok(stream),
        Err(failed) => failed,
    };
    linger(stream).await;
    Err(identity::in_words(&why, ConnectionEnd::Server).unwrap_or_else(|| why.to_string()))
}

/// Closes a connection after its data have been read: unread bytes would cause a reset.
async fn linger(mut stream: TcpStream) {
    let _ = stream.shutdown().await;
    let mut rest = [0; 4096];
    let drain = async { while stream.read(&mut rest).await.is_ok_and(|n| n > 0) {} };
    let _ = tokio::time::timeout(REASON_TIME, drain).await;
}

async fn answer(
    app: &AppState,
    router: Router,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    (peer, admitted, certificate): (IpAddr, Arc<AdmittedConnection>, Option<ClientCertificate>),
) {
    let proxies = app.service.limits().trusted_proxies.clone();
    let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        admitted.record_request();
        request.extensions_mut().insert(admitted.clone());
        let lines = request.headers().get_all("x-forwarded-for").iter().rev();
        let client = proxies.client(peer, lines.map(|line| line.to_str().unwrap_or_default()));
        request.extensions_mut().insert(ClientAddress(client));
        certificate
            .clone()
            .map(|certificate| request.extensions_mut().insert(certificate));
        TowerToHyperService::new(router.clone()).call(request)
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    tokio::pin!(connection);
    let mut ending = app.ending.clone();
    let ended = async move { drop(ending.wait_for(|is_ending| *is_ending).await) };
    // Disconnections by clients are not counted; those by the server are.
    tokio::select! {
        ended = connection.as_mut() => {
            let meters = &app.service.hub().meters;
            match ended {
                Err(why) if why.is_parse() => meters.heads_refused.add(1),
                Err(why) if why.is_timeout() => meters.connections_silent.add(1),
                _ => {}
            }
        }
        () = ended => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}
