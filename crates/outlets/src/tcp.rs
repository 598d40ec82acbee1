//! Bytes over TCP or TLS: connects on the first message, and reconnects after a failure. There are no acknowledgments,
//! so data count as sent when passed to the connection; an interrupted message is sent again as a whole.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;

use crate::address::{Address, Scheme};
use crate::net::{self, Connection};
use crate::worker::{Fault, Message, Transport};

/// See the module documentation.
pub struct Tcp {
    address: Address,
    tls: Option<Arc<ClientConfig>>,
    connection: Option<Connection>,
}

impl Tcp {
    /// A connection to this address.
    ///
    /// # Errors
    /// A message, if TLS is not available.
    pub fn new(address: &Address) -> Result<Tcp, String> {
        let tls = (address.scheme == Scheme::TcpTls).then(|| net::tls(address)).transpose()?;
        Ok(Tcp { address: address.clone(), tls, connection: None })
    }

    fn try_send(&mut self, body: &[u8], patience: Duration) -> io::Result<()> {
        if self.connection.as_ref().is_some_and(Connection::is_closed) {
            self.connection = None;
        }
        let connection = match &mut self.connection {
            Some(connection) => connection,
            None => self.connection.insert(Connection::open(&self.address, self.tls.as_ref(), patience)?),
        };
        connection.write_all(body)?;
        connection.flush()
    }
}

impl Transport for Tcp {
    fn send(&mut self, message: &Message, patience: Duration) -> Result<(), Fault> {
        self.try_send(message.body.bytes(), patience).map_err(|error| {
            self.connection = None;
            Fault::Passing(net::in_words(error.to_string()))
        })
    }

    fn finish(&mut self, patience: Duration) -> Result<(), (u64, String)> {
        // Receivers that never close have received the data nevertheless.
        if let Some(mut connection) = self.connection.take() {
            let _ = connection.close(patience.min(Duration::from_secs(1)));
        }
        Ok(())
    }
}
