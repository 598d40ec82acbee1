//! Properties of a TLS connection that its handshake shows.

use crate::tls::TlsHandshake;
use crate::tls::codes::{self, TLS12};

/// Overhead of TLS 1.3, in bytes: the tag, which is shorter in CCM_8, and the content type.
const TLS13_OVERHEAD: u16 = 16 + 1;
const TLS13_OVERHEAD_CCM_8: u16 = 8 + 1;

/// Application protocols whose records have known patterns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplicationProtocol {
    Http1,
    Http2,
    Other,
}

/// Properties of a connection.
#[derive(Debug)]
pub struct TlsSession {
    pub sni: Option<Box<[u8]>>,
    /// Protocol chosen by the server (ALPN), if visible.
    pub alpn: Option<Box<[u8]>>,
    pub version: Option<u16>,
    pub is_tls13: bool,
    /// Both hellos were captured.
    pub is_from_start: bool,
    pub has_early_data: bool,
    /// The client accepts HTTP/2 and another protocol.
    pub offers_http2: bool,
    pub protocol: Option<ApplicationProtocol>,
    /// Minimum bytes that encryption adds to a record.
    pub overhead: u16,
}

impl TlsSession {
    /// The properties after the handshake, or without it if the connection was joined midway.
    pub fn of(handshake: &TlsHandshake) -> TlsSession {
        let client = handshake.client.as_ref();
        let server = handshake.server.as_ref();
        let offered = client.and_then(|client| client.alpn.as_deref());
        let alpn = server.and_then(|server| server.alpn.as_deref());
        let is_tls13 = handshake.is_tls13();
        let offers = |name: &[u8]| {
            offered.is_some_and(|all| all.split(|byte| *byte == b',').any(|one| one == name))
        };
        let is_hidden = is_tls13 && alpn.is_none();
        let offers_http2 = is_hidden && offers(b"h2");
        let only = offered.filter(|all| is_hidden && !all.contains(&b','));
        let cipher = server.and_then(|server| server.cipher);
        TlsSession {
            sni: client
                .and_then(|client| client.sni.as_deref())
                .map(Box::from),
            alpn: alpn.map(Box::from),
            version: handshake.version(),
            is_tls13,
            is_from_start: client.is_some() && server.is_some(),
            has_early_data: client.is_some_and(|client| client.early_data),
            offers_http2,
            protocol: alpn.or(only).map(protocol),
            overhead: overhead(handshake.version(), cipher),
        }
    }
}

fn protocol(alpn: &[u8]) -> ApplicationProtocol {
    match alpn {
        b"h2" => ApplicationProtocol::Http2,
        b"http/1.1" | b"http/1.0" => ApplicationProtocol::Http1,
        _ => ApplicationProtocol::Other,
    }
}

/// Minimum bytes that a suite adds: explicit nonce or initialization vector, tag or MAC, padding (RFC 5246 section 6.2.3).
fn overhead(version: Option<u16>, cipher: Option<u16>) -> u16 {
    let name = cipher.and_then(codes::cipher).unwrap_or_default();
    let Some(version) = version.filter(|version| !codes::is_tls13(*version)) else {
        return if name.contains("_CCM_8") {
            TLS13_OVERHEAD_CCM_8
        } else {
            TLS13_OVERHEAD
        };
    };
    if name.contains("CHACHA20") {
        return 16;
    }
    if name.contains("_GCM_") || name.ends_with("_CCM") {
        return 8 + 16;
    }
    if name.ends_with("_CCM_8") {
        return 8 + 8;
    }
    let mac = match name.rsplit('_').next() {
        Some("MD5") => 16,
        Some("SHA256") => 32,
        Some("SHA384") => 48,
        _ => 20,
    };
    let (vector, padding) = match name {
        _ if name.contains("_RC4_") || name.contains("_NULL_") => (0, 0),
        _ if version < TLS12 - 1 => (0, 1),
        _ if name.contains("DES") => (8, 1),
        _ => (16, 1),
    };
    vector + mac + padding
}
