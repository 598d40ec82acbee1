//! An outlet whose rows are stored elsewhere, as in a server's history: it converts rows to messages and attempts to
//! send one on request. The caller decides on retries and stores the position. The same rows result in the same
//! messages and identifiers, also in another process, so messages in transit during a crash may be sent again.

use std::sync::Arc;
use std::time::Duration;

use sinks::ResultHead;
use tuple::Batch;

use crate::address::{OutletAddress, OutletScheme};
use crate::outlets::{OutletAddressError, OutletLimits, parts};
use crate::queue::OutletItem;
use crate::worker::{DeliveryFault, OutletMessage, OutletTransport, RowIdentity, RowMapping};

/// See the module documentation.
pub struct DirectOutlet {
    mapping: Box<dyn RowMapping>,
    transport: Box<dyn OutletTransport>,
    patience: Duration,
}

/// A message to be sent.
pub struct PreparedMessage(OutletMessage);

impl PreparedMessage {
    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.0.rows
    }
}

/// Result of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryAttempt {
    /// Acknowledged.
    Taken,
    /// Permanent failure of this number of rows, with the reason; the others were accepted.
    Refused(u64, String),
    /// Temporary failure, with the reason.
    Failed(String),
}

impl DirectOutlet {
    /// Creates an outlet of these rows to `address`, without a connection.
    ///
    /// # Errors
    /// `OutletAddressError` if the address is unusable.
    pub fn prepare(
        address: &OutletAddress,
        rows: &RowIdentity,
        limits: &OutletLimits,
    ) -> Result<DirectOutlet, OutletAddressError> {
        // Fails if a provider is already installed, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        if address.scheme == OutletScheme::Prometheus {
            return Err(OutletAddressError(format!(
                "{address}: a local listener, which cannot be a destination"
            )));
        }
        let made = parts(address, limits, &[], rows);
        let (mapping, transport) =
            made.map_err(|why| OutletAddressError(format!("{address}: {why}")))?;
        Ok(DirectOutlet {
            mapping,
            transport,
            patience: Duration::from_secs(5),
        })
    }

    /// Announces the results; must precede the first row.
    pub fn announce(&mut self, heads: &[ResultHead]) {
        self.mapping
            .take(OutletItem::Heads(Arc::from(heads)), &mut Vec::new());
    }

    /// Messages with rows of one result, of complete windows. Their identifiers start at `number`, at most one per row.
    pub fn pack(&mut self, result: usize, rows: &[Batch], number: u64) -> Vec<PreparedMessage> {
        let mut made = Vec::new();
        rows.iter().for_each(|batch| {
            self.mapping
                .take(OutletItem::Rows(result, batch.clone()), &mut made)
        });
        self.mapping.take(OutletItem::Complete, &mut made);
        let numbered = made.into_iter().zip(number..);
        numbered
            .map(|(message, number)| PreparedMessage(OutletMessage { number, ..message }))
            .collect()
    }

    /// Attempts to send a message; limited to some seconds.
    pub fn attempt(&mut self, parcel: &PreparedMessage) -> DeliveryAttempt {
        match self.transport.send(&parcel.0, self.patience) {
            Ok(()) => DeliveryAttempt::Taken,
            Err(DeliveryFault::Final(why)) => DeliveryAttempt::Refused(parcel.rows(), why),
            Err(DeliveryFault::Partly(rows, why)) => DeliveryAttempt::Refused(rows, why),
            Err(DeliveryFault::Passing(why)) => DeliveryAttempt::Failed(why),
        }
    }

    /// Series, points, and values omitted so far.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.mapping.left_out()
    }
}
