//! An outlet whose rows wait elsewhere, as in a server's history: it is handed rows, makes messages of them, and tries one when it is
//! told to. Who owns it decides how long to go on, and remembers how far it has come. The same rows make the same messages under the same
//! identifiers, also in another process: so what was on its way when one was killed may be sent again.

use std::sync::Arc;
use std::time::Duration;

use sinks::ResultHead;
use tuple::Batch;

use crate::address::{Address, Scheme};
use crate::outlets::{Limits, Refused, parts};
use crate::queue::Item;
use crate::worker::{Fault, Mapping, Message, Rows, Transport};

/// See the module's text.
pub struct Carrier {
    mapping: Box<dyn Mapping>,
    transport: Box<dyn Transport>,
    patience: Duration,
}

/// A message, to be tried until it is taken or given up.
pub struct Parcel(Message);

impl Parcel {
    /// The rows in it.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.0.rows
    }
}

/// Result of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// It was taken.
    Taken,
    /// So many of its rows will not be taken, however often they are tried, and the others were: why.
    Refused(u64, String),
    /// It was not taken, and may be another time: why.
    Failed(String),
}

impl Carrier {
    /// Of these rows to `address`. Nothing is connected yet.
    ///
    /// # Errors
    /// Why it cannot be used.
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

    /// Says what results there will be; comes before the first row.
    pub fn announce(&mut self, heads: &[ResultHead]) {
        self.mapping.take(Item::Heads(Arc::from(heads)), &mut Vec::new());
    }

    /// The messages of rows of one result, of windows that are complete. Their identifiers count from `number` on, and there are no
    /// more of them than rows.
    pub fn pack(&mut self, result: usize, rows: &[Batch], number: u64) -> Vec<Parcel> {
        let mut made = Vec::new();
        rows.iter().for_each(|batch| self.mapping.take(Item::Rows(result, batch.clone()), &mut made));
        self.mapping.take(Item::Complete, &mut made);
        let numbered = made.into_iter().zip(number..);
        numbered.map(|(message, number)| Parcel(Message { number, ..message })).collect()
    }

    /// Tries one; takes some seconds at most.
    pub fn attempt(&mut self, parcel: &Parcel) -> Attempt {
        match self.transport.send(&parcel.0, self.patience) {
            Ok(()) => Attempt::Taken,
            Err(Fault::Final(why)) => Attempt::Refused(parcel.rows(), why),
            Err(Fault::Partly(rows, why)) => Attempt::Refused(rows, why),
            Err(Fault::Passing(why)) => Attempt::Failed(why),
        }
    }

    /// Series and points that were left out by now.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.mapping.left_out()
    }
}
