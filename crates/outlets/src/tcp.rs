//! Bytes over TCP or TLS: connects on the first message, and reconnects after a failure. There are no acknowledgments,
//! so data count as sent when passed to the connection; an interrupted message is sent again as a whole.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;

use crate::address::{OutletAddress, OutletScheme};
use crate::net::{self, OutletConnection};
use crate::worker::{DeliveryFault, OutletMessage, OutletTransport};

/// See the module documentation.
pub struct TcpOutlet {
    address: OutletAddress,
    tls: Option<Arc<ClientConfig>>,
    connection: Option<OutletConnection>,
}

impl TcpOutlet {
    /// A connection to this address.
    ///
    /// # Errors
    /// A message, if TLS is not available.
    pub fn new(address: &OutletAddress) -> Result<TcpOutlet, String> {
        let tls = (address.scheme == OutletScheme::TcpTls)
            .then(|| net::tls(address))
            .transpose()?;
        Ok(TcpOutlet {
            address: address.clone(),
            tls,
            connection: None,
        })
    }

    fn try_send(&mut self, body: &[u8], patience: Duration) -> io::Result<()> {
        if self
            .connection
            .as_ref()
            .is_some_and(OutletConnection::is_closed)
        {
            self.connection = None;
        }
        let connection = match &mut self.connection {
            Some(connection) => connection,
            None => self.connection.insert(OutletConnection::open(
                &self.address,
                self.tls.as_ref(),
                patience,
            )?),
        };
        connection.write_all(body)?;
        connection.flush()
    }
}

impl OutletTransport for TcpOutlet {
    fn send(&mut self, message: &OutletMessage, patience: Duration) -> Result<(), DeliveryFault> {
        self.try_send(message.body.bytes(), patience)
            .map_err(|error| {
                self.connection = None;
                DeliveryFault::Passing(net::in_words(error.to_string()))
            })
    }

    fn finish(&mut self, patience: Duration) -> Result<(), (u64, String)> {
        // The error is ignored: a receiver that never closes has received the data.
        if let Some(mut connection) = self.connection.take() {
            let _ = connection.close(patience.min(Duration::from_secs(1)));
        }
        Ok(())
    }
}
