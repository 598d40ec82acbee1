//! Bytes over TCP or TLS: connects when there is something to send, and anew when the other side has gone. Nothing is answered there,
//! so what counts as sent is what the connection took; a message whose sending broke off is sent again as a whole.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;

use crate::address::{Address, Scheme};
use crate::net::{self, Connection};
use crate::worker::{Fault, Message, Transport};

/// See the module's text.
pub struct Tcp {
    address: Address,
    tls: Option<Arc<ClientConfig>>,
    connection: Option<Connection>,
}

impl Tcp {
    /// To this address.
    ///
    /// # Errors
    /// A sentence, where TLS is not to be had.
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
        // Readers that never close have all the same what they were sent.
        if let Some(mut connection) = self.connection.take() {
            let _ = connection.close(patience.min(Duration::from_secs(1)));
        }
        Ok(())
    }
}
