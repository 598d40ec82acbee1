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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::SystemSecrets;
    use crate::tests::{head, result};

    fn outlet(to: &str) -> DirectOutlet {
        let address = OutletAddress::read(to, &SystemSecrets).expect("an address");
        let rows = RowIdentity {
            of: "job".into(),
            run: 7,
        };
        let outlet = DirectOutlet::prepare(&address, &rows, &OutletLimits::default());
        let mut outlet = outlet.expect("an outlet");
        outlet.announce(&[head()]);
        outlet
    }

    fn rows(first: u64) -> Vec<Batch> {
        let row = |n: u64| (n.cast_signed() / 300, "/", n);
        [first, first + 700]
            .map(|from| result(&(from..from + 700).map(row).collect::<Vec<_>>()))
            .to_vec()
    }

    /// Numbers, sizes and bytes of messages.
    fn packed(outlet: &mut DirectOutlet, first: u64, number: u64) -> Vec<(u64, u64, Vec<u8>)> {
        let messages = outlet.pack(0, &rows(first), number);
        let message = |PreparedMessage(message): PreparedMessage| {
            (message.number, message.rows, message.body.bytes().to_vec())
        };
        messages.into_iter().map(message).collect()
    }

    /// After a crash, the messages in transit are sent again by another process.
    #[test]
    fn the_same_rows_are_the_same_messages_after_a_restart() {
        for to in ["tcp://h:1", "webhook+http://h", "otlp+http://h"] {
            let mut first = outlet(to);
            packed(&mut first, 0, 1);
            let before = packed(&mut first, 1400, 1401);
            let after = packed(&mut outlet(to), 1400, 1401);
            assert_eq!(before, after, "{to}");
            let rows: u64 = after.iter().map(|(_, rows, _)| rows).sum();
            assert_eq!(rows, 1400, "{to}");
        }
    }

    /// Identifiers of the next rows start behind those of these.
    #[test]
    fn messages_have_no_more_numbers_than_rows() {
        for to in [
            "tcp://h:1",
            "webhook+http://h",
            "otlp+http://h",
            "redis://h",
            "ipfix://h",
        ] {
            let mut outlet = outlet(to);
            let messages = outlet.pack(0, &[result(&[(0, "/", 1), (10, "/", 2)])], 100);
            let numbers: Vec<u64> = messages.iter().map(|message| message.0.number).collect();
            assert!(numbers.len() <= 2, "{to}");
            assert_eq!(
                numbers,
                (100..).take(numbers.len()).collect::<Vec<_>>(),
                "{to}"
            );
            assert!(outlet.pack(0, &[], 102).is_empty(), "{to}");
        }
    }
}
