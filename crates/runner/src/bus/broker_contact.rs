//! Connection of a reader to its brokers: they are queried only after a silence.

use std::time::{Duration, Instant};

use ::bus::{BusError, PartitionReader};

/// Silence before brokers are queried; publishers send something every second.
const QUIET: Duration = Duration::from_secs(3);
/// Timeout of the query.
const ANSWER: Duration = Duration::from_secs(1);
/// Time without brokers after which a reader of existing records stops.
const AWAY_MAX: Duration = Duration::from_secs(60);

/// See the module documentation.
pub struct BrokerContact {
    /// Time of the last record or answer.
    heard: Instant,
    asked: Instant,
    state: ContactState,
    notes: Vec<String>,
}

enum ContactState {
    Near,
    /// The reason for the missing connection.
    Away(BusError),
}

impl BrokerContact {
    /// Connected.
    pub fn new() -> BrokerContact {
        let now = Instant::now();
        BrokerContact {
            heard: now,
            asked: now,
            state: ContactState::Near,
            notes: Vec::new(),
        }
    }

    /// Notes the arrival of a record.
    pub fn heard(&mut self) {
        self.heard = Instant::now();
        if let ContactState::Away(_) = std::mem::replace(&mut self.state, ContactState::Near) {
            self.notes.push("brokers respond again".into());
        }
    }

    /// Notes that nothing has arrived, and checks the brokers if it is time.
    ///
    /// # Errors
    /// `BusError::Unreachable` if a reader of existing records stops because brokers were unreachable for `AWAY_MAX`.
    pub fn miss(&mut self, reader: &PartitionReader) -> Result<(), BusError> {
        if self.heard.elapsed() < QUIET || self.asked.elapsed() < QUIET {
            return Ok(());
        }
        let answer = reader.is_answered(ANSWER);
        self.asked = Instant::now();
        match answer {
            Ok(()) => self.heard(),
            Err(error) => {
                if let ContactState::Near = self.state {
                    self.notes.push(format!("{error}; waiting for them"));
                }
                self.state = ContactState::Away(error);
            }
        }
        match self.away() {
            Some(error) if self.heard.elapsed() > AWAY_MAX => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// The reason if brokers are unreachable.
    pub fn away(&self) -> Option<&BusError> {
        match &self.state {
            ContactState::Near => None,
            ContactState::Away(error) => Some(error),
        }
    }

    /// Notes for the user.
    pub fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }
}
