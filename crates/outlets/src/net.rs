//! Connections: TCP, and TLS by rustls, with the system's certificate authorities or those of a file. Names are
//! resolved for every connection, so that a server that has moved is found.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use connect::{AuthorityError, TrustedAuthorities};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::address::OutletAddress;

/// A bidirectional connection.
pub enum OutletConnection {
    /// Plain TCP.
    Plain(TcpStream),
    /// TLS.
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// Trusted certificate authorities for `address`.
///
/// # Errors
/// A message, if there are none.
pub fn authorities(address: &OutletAddress) -> Result<TrustedAuthorities, String> {
    TrustedAuthorities::new(address.ca_file.as_deref().map(Path::new)).map_err(|why| match why {
        AuthorityError::NoneInSystem => format!("{why}: give them by #ca-file=FILE"),
        why => why.to_string(),
    })
}

/// TLS configuration for `address`.
///
/// # Errors
/// A message, if no authority is trusted.
pub fn tls(address: &OutletAddress) -> Result<Arc<ClientConfig>, String> {
    authorities(address)?
        .client_config()
        .map_err(|why| why.to_string())
}

/// Explains a certificate error.
pub fn in_words(why: String) -> String {
    let said = [
        (
            "UnknownIssuer",
            "its certificate is not signed by a trusted authority (#ca-file=FILE names one)",
        ),
        ("NotValidForName", "its certificate is for another name"),
        ("not valid for name", "its certificate is for another name"),
        ("xpired", "its certificate has expired"),
        ("NotValidYet", "its certificate is not valid yet"),
        ("not valid yet", "its certificate is not valid yet"),
    ];
    let is_tls = why.contains("ertificate");
    match said.iter().find(|(word, _)| is_tls && why.contains(word)) {
        Some((_, words)) => format!("{words}: {why}"),
        None => why,
    }
}

impl OutletConnection {
    /// Connects, trying each address of the host.
    ///
    /// # Errors
    /// `io::Error` of the last address.
    pub fn open(
        address: &OutletAddress,
        tls: Option<&Arc<ClientConfig>>,
        patience: Duration,
    ) -> io::Result<OutletConnection> {
        let until = Instant::now() + patience;
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for to in (address.host.as_str(), address.port).to_socket_addrs()? {
            let left = until
                .saturating_duration_since(Instant::now())
                .max(Duration::from_millis(10));
            match TcpStream::connect_timeout(&to, left) {
                Ok(stream) => return OutletConnection::begin(stream, address, tls, patience),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn begin(
        stream: TcpStream,
        address: &OutletAddress,
        tls: Option<&Arc<ClientConfig>>,
        patience: Duration,
    ) -> io::Result<OutletConnection> {
        stream.set_write_timeout(Some(patience))?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_nodelay(true)?;
        let Some(tls) = tls else {
            return Ok(OutletConnection::Plain(stream));
        };
        let name = ServerName::try_from(address.host.clone()).map_err(io::Error::other)?;
        let tls = ClientConnection::new(tls.clone(), name).map_err(io::Error::other)?;
        Ok(OutletConnection::Tls(Box::new(StreamOwned::new(
            tls, stream,
        ))))
    }

    fn socket(&self) -> &TcpStream {
        match self {
            OutletConnection::Plain(stream) => stream,
            OutletConnection::Tls(tls) => tls.get_ref(),
        }
    }

    /// Whether the peer has closed the connection, or the connection has failed.
    pub fn is_closed(&self) -> bool {
        let socket = self.socket();
        let peeked = socket
            .set_nonblocking(true)
            .and_then(|()| socket.peek(&mut [0]));
        let is_open = match peeked {
            Ok(n) => n > 0,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        };
        !is_open || socket.set_nonblocking(false).is_err()
    }

    /// Shuts down the sending direction, and waits until the peer has closed the connection.
    ///
    /// # Errors
    /// `io::Error` if it does not within `patience`.
    pub fn close(&mut self, patience: Duration) -> io::Result<()> {
        if let OutletConnection::Tls(tls) = self {
            tls.conn.send_close_notify();
            tls.flush()?;
        }
        let socket = self.socket();
        socket.set_read_timeout(Some(patience.max(Duration::from_millis(1))))?;
        socket.shutdown(Shutdown::Write)?;
        let mut socket = socket;
        let mut unasked = [0; 4096];
        let until = Instant::now() + patience;
        while Instant::now() < until {
            if socket.read(&mut unasked)? == 0 {
                return Ok(());
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

impl Write for OutletConnection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            OutletConnection::Plain(stream) => stream.write(bytes),
            OutletConnection::Tls(tls) => tls.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            OutletConnection::Plain(stream) => stream.flush(),
            OutletConnection::Tls(tls) => tls.flush(),
        }
    }
}
