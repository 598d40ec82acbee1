//! State of a handshake, from which its tuple is written.

use wire::Timestamp;

use super::certificate::TlsCertificate;
use super::codes;
use super::hello::{ClientHello, ServerHello};
use crate::{Direction, MessageSpan};

/// State of a handshake.
#[derive(Debug, Default)]
pub struct TlsHandshake {
    pub client: Option<ClientHello>,
    pub server: Option<ServerHello>,
    /// Arrival of the ClientHello, and whether its end is known.
    pub asked: Option<(MessageSpan, bool)>,
    /// Start of the server's response.
    pub answered: Option<Timestamp>,
    /// The server sent a HelloRetryRequest.
    pub retried: bool,
    pub certificate: TlsCertificate,
    /// Whether a session is resumed; `None`: unknown.
    pub resumed: Option<bool>,
    /// Whether the client sent a certificate; `None`: unknown.
    pub client_certificate: Option<bool>,
    pub alert: Option<TlsAlert>,
    /// Time at which the client may send data.
    pub finished: Option<Timestamp>,
    /// Bytes are missing.
    pub gap: bool,
}

/// The first alert.
#[derive(Clone, Copy, Debug)]
pub struct TlsAlert {
    pub by: Direction,
    /// Level and description; `None`: encrypted.
    pub what: Option<(u8, u8)>,
}

impl TlsAlert {
    /// Whether it is a warning other than close_notify.
    pub fn is_warning(self) -> bool {
        matches!(self.what, Some((1, description)) if description != 0)
    }
}

impl TlsHandshake {
    pub fn version(&self) -> Option<u16> {
        self.server.as_ref().and_then(|server| server.version)
    }

    pub fn is_tls13(&self) -> bool {
        self.version().is_some_and(codes::is_tls13)
    }
}
