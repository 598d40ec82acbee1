//! Pairs that rely on the assumption that the client waits for its responses. They are returned when enough
//! later rounds agree with it, and as halves as soon as one contradicts it.
//!
//! A client that keeps several requests outstanding sends one for each response, as one that waits does. So
//! where several requests may have been outstanding, a round of one request is weak evidence, and a round of
//! several is strong.

use super::pairing_trial::{EVIDENCE_MAX, PairingTrial};
use super::queue::{CountValidity, MissingSide, TransactionQueue};
use super::transaction::{RequestMatcher, ResponseExpectation, TransactionOutcome};
use crate::Direction;

/// Sufficient evidence at the end of the connection.
const ENOUGH_AT_END: usize = 8;
/// Weight of a round that is strong evidence.
const STRONG: usize = 4;
/// Weight of a round with an unknown number of missing messages if the first requests are missing, too: any
/// number may have been outstanding from the beginning.
const WEAK: usize = 2;

impl<Q: Default, R: Default + RequestMatcher<Q>> TransactionQueue<Q, R> {
    /// Starts a trial: pairs of request `from` and later ones rely on the client's behavior.
    #[cold]
    pub(super) fn begin_trial(&mut self, from: u64) {
        let trial = PairingTrial {
            starts: [from; EVIDENCE_MAX],
            oldest: 0,
            of_several: 0,
            singly: true,
            whole: 0,
            hidden: 0,
        };
        match &mut self.trial {
            Some(trial) => trial.whole = 0,
            None => {
                self.held_from = from;
                self.trial = Some(Box::new(trial));
            }
        }
    }

    /// Records a round that agrees: it began with request `start`, had at least `requests`, and may have had
    /// as many responses. `whole`: the number of its missing messages is known.
    #[cold]
    pub(super) fn agree(&mut self, start: u64, requests: u32, whole: bool) {
        let several = self.may_have_asked_several();
        let singly = self.client.asks_singly();
        // At most this at the end of the connection.
        let most = if self.lacks_first && !whole {
            WEAK
        } else {
            STRONG
        };
        let Some(trial) = &mut self.trial else { return };
        let weight = if several && requests < 2 { 1 } else { STRONG };
        for _ in 0..weight {
            self.held_from = std::mem::replace(&mut trial.starts[trial.oldest], start);
            trial.oldest = (trial.oldest + 1) % EVIDENCE_MAX;
        }
        if std::mem::replace(&mut trial.singly, singly) != singly {
            trial.of_several = 0;
        }
        trial.of_several += if several { weight.min(most) } else { 0 };
        trial.whole = if whole { trial.whole + weight } else { 0 };
        if trial.whole >= EVIDENCE_MAX {
            self.anchored = true;
            self.pass_trial();
        }
    }

    /// Whether several requests may have been outstanding: several in one round, or missing in a row.
    fn may_have_asked_several(&self) -> bool {
        let hidden = self.trial.as_ref().map_or(0, |trial| trial.hidden);
        let bytes = u64::from(hidden)
            * u64::from(self.message_bytes_min[Direction::ClientToServer as usize]);
        !self.client.asks_singly() || bytes >= 2 * u64::from(self.smallest_request)
    }

    /// Records up to `requests` missing in a row.
    pub(super) fn hide(&mut self, requests: u32) {
        if let Some(trial) = &mut self.trial {
            trial.hidden = trial.hidden.max(requests);
        }
    }

    /// Ends the trial with the connection, or when it is idle. If it fails, the count, which relied on the client, is lost.
    pub(super) fn end_trial(&mut self) {
        if self.counting == CountValidity::Exact && !self.owes(self.next_request) {
            self.agree(self.round.first, self.round.asked, true);
        }
        let Some(trial) = &self.trial else { return };
        if self.client.asks_singly() || self.client.waits() && trial.of_several >= ENOUGH_AT_END {
            self.pass_trial()
        } else {
            self.fail_trial();
            self.counting = CountValidity::Lost(MissingSide::Requests);
        }
    }

    fn pass_trial(&mut self) {
        self.held_from = u64::MAX;
        self.trial = None;
    }

    /// Fails the trial: pairs on trial become halves.
    #[cold]
    pub(super) fn fail_trial(&mut self) {
        if self.trial.is_none() {
            return;
        }
        for number in self.held_from.max(self.base)..self.next_request {
            let Some(transaction) = self.at(number) else {
                continue;
            };
            transaction.apart = true;
            let is_guess = transaction.outcome == TransactionOutcome::Silent
                && transaction.expects == ResponseExpectation::Perhaps;
            if transaction.outcome == TransactionOutcome::Open || is_guess {
                transaction.outcome = TransactionOutcome::Half;
            }
        }
        self.pass_trial();
    }

    /// Handles a request that the client sent although an earlier one was unanswered.
    #[cold]
    pub(super) fn contradict(&mut self) {
        self.client.asked_unanswered();
        if !self.anchored {
            self.fail_trial();
            self.counting = CountValidity::Lost(MissingSide::Requests);
        }
    }
}
