//! An outlet whose rows are stored elsewhere, as in a server's history: it converts rows to messages and attempts to
//! send one on request. The caller decides on retries and stores the position. The same rows result in the same
//! messages and identifiers, also in another process, so messages in transit during a crash may be sent again.

use std::sync::Arc;
use std::time::Duration;

use sinks::ResultHead;
use tuple::Batch;

use crate::address::{Address, Scheme};
use crate::outlets::{Limits, Refused, parts};
use crate::queue::Item;
use crate::worker::{Fault, Mapping, Message, Rows, Transport};

/// See the module documentation.
pub struct Carrier {
    mapping: Box<dyn Mapping>,
    transport: Box<dyn Transport>,
    patience: Duration,
}

/// A message to be sent.
pub struct Parcel(Message);

impl Parcel {
    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.0.rows
    }
}

/// Result of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// Acknowledged.
    Taken,
    /// Permanent failure of this number of rows, with the reason; the others were accepted.
    Refused(u64, String),
    /// Temporary failure, with the reason.
    Failed(String),
}

impl Carrier {
    /// Creates an outlet of these rows to `address`, without a connection.
    ///
    /// # Errors
    /// `Refused` if the address is unusable.
    pub fn prepare(address: &Address, rows: &Rows, limits: &Limits) -> Result<Carrier, Refused> {
        // Fails if a provider is already installed, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        if address.scheme == Scheme::Prometheus {
            return Err(Refused(format!("{address}: it listens here, and nothing is delivered to it")));
        }
        let made = parts(address, limits, &[], rows);
        let (mapping, transport) = made.map_err(|why| Refused(format!("{address}: {why}")))?;
        Ok(Carrier { mapping, transport, patience: Duration::from_secs(5) })
    }

    /// Announces the results; must precede the first row.
    pub fn announce(&mut self, heads: &[ResultHead]) {
        self.mapping.take(Item::Heads(Arc::from(heads)), &mut Vec::new());
    }

    /// Messages with rows of one result, of complete windows. Their identifiers start at `number`, at most one per row.
    pub fn pack(&mut self, result: usize, rows: &[Batch], number: u64) -> Vec<Parcel> {
        let mut made = Vec::new();
        rows.iter().for_each(|batch| self.mapping.take(Item::Rows(result, batch.clone()), &mut made));
        self.mapping.take(Item::Complete, &mut made);
        let numbered = made.into_iter().zip(number..);
        numbered.map(|(message, number)| Parcel(Message { number, ..message })).collect()
    }

    /// Attempts to send a message; limited to some seconds.
    pub fn attempt(&mut self, parcel: &Parcel) -> Attempt {
        match self.transport.send(&parcel.0, self.patience) {
            Ok(()) => Attempt::Taken,
            Err(Fault::Final(why)) => Attempt::Refused(parcel.rows(), why),
            Err(Fault::Partly(rows, why)) => Attempt::Refused(rows, why),
            Err(Fault::Passing(why)) => Attempt::Failed(why),
        }
    }

    /// Series and points omitted so far.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.mapping.left_out()
    }
}
