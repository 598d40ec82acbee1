//! Carries decisions out: each action has a thread that notifies the receivers one after the other, in their order when
//! replicas are added and in reverse order, with a pause for work in progress, when they are removed. A receiver is
//! retried until it acknowledges; the acknowledgment is stored, so that it is notified again only after a kill in
//! between, with the same number. The next decision waits for all acknowledgments.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use outlets::{Backoff, Fault, Steward, Wanted};

use super::machine::Direction;
use super::running::{Running, Said};
use super::{Action, Actions};
use crate::bell::{Bell, Woken};
use crate::delivery::Named;
use crate::store::{StoreError, StoredDecision};

/// Approximate maximum duration of one attempt.
const ATTEMPT_MAX: Duration = Duration::from_secs(10);
/// Polling interval without a wakeup.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Delay after a failure of the local store.
const PAUSE: Duration = Duration::from_secs(5);

/// Carries out decisions until dropped.
pub struct Carrying(Arc<Actions>);

impl Carrying {
    /// Starts with the waiting decisions. `named`: addresses by name.
    pub fn start(actions: &Arc<Actions>, named: Named) -> Carrying {
        let _ = actions.named.set(named);
        let all: Vec<i64> = actions.lock().keys().copied().collect();
        all.into_iter().for_each(|id| actions.begin(id));
        Carrying(actions.clone())
    }
}

impl Drop for Carrying {
    /// Nothing is written after this returns; a thread that waits for another program ends by itself.
    fn drop(&mut self) {
        self.0.lock().values().for_each(|running| running.bell.end());
    }
}

/// Reason to stop.
enum Stop {
    /// The action was removed, or the server ends.
    Over,
    Failed(StoreError),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Stop {
        Stop::Failed(error)
    }
}

/// Carries out the decisions of one action.
struct Hand {
    actions: Arc<Actions>,
    id: i64,
    action: Action,
    run: u64,
    bell: Arc<Bell>,
    /// In the order of the receivers; created on first use.
    stewards: Vec<Option<Steward>>,
}

impl Actions {
    /// Starts the thread of an action if addresses are set.
    pub(super) fn begin(self: &Arc<Self>, id: i64) {
        if self.named.get().is_none() {
            return;
        }
        let hand = |running: &Running| Hand {
            actions: self.clone(),
            id,
            action: running.action.clone(),
            // Distinguishes actions of the same name, and of other data directories.
            run: running.created_ns.unsigned_abs(),
            bell: running.bell.clone(),
            stewards: running.action.asked.to.iter().map(|_| None).collect(),
        };
        let Some(mut hand) = self.lock().get(&id).map(hand) else { return };
        let begun = std::thread::Builder::new().name("action".into()).spawn(move || hand.work());
        if let Err(error) = begun {
            // Retried at the next start of the server.
            tracing::error!("decisions of action {id} are not carried out: {error}");
        }
    }
}

impl Hand {
    fn work(&mut self) {
        loop {
            let wait = match self.carry_out_all().and_then(|()| self.remind()) {
                Ok(()) => LOOK_EVERY,
                Err(Stop::Over) => return,
                Err(Stop::Failed(error)) => {
                    self.fail(Some(error.to_string()));
                    PAUSE
                }
            };
            if self.bell.wait(wait) == Woken::Over {
                return;
            }
        }
    }

    fn carry_out_all(&mut self) -> Result<(), Stop> {
        while let Some(decision) = self.actions.store.decision_waiting(self.id)? {
            self.carry_out(&decision)?;
            let write = || self.actions.store.finish_decision(self.id, decision.version);
            self.bell.write(write).ok_or(Stop::Over)??;
            self.actions.carried_out(self.id, decision.version);
        }
        Ok(())
    }

    /// A receiver may have lost the desired state, such as a Redis restarted without its data, so it receives the last
    /// decision again, which changes nothing if it still has it.
    fn remind(&mut self) -> Result<(), Stop> {
        let last = self.actions.store.decisions(self.id, None, 1)?;
        let Some((_, wanted)) = last.first().and_then(|decision| self.read(decision)) else { return Ok(()) };
        let mut fault = None;
        for place in 0..self.stewards.len() {
            let reminded = self.steward(place).and_then(|one| one.remind(&wanted, ATTEMPT_MAX).map_err(text));
            fault = fault.or(reminded.err().map(|why| self.of(place, &why)));
        }
        self.fail(fault);
        Ok(())
    }

    /// Desired state and direction of a decision.
    fn read(&self, decision: &StoredDecision) -> Option<(Direction, Wanted)> {
        let Ok(said) = serde_json::from_str::<Said>(&decision.body) else {
            tracing::error!("decision {} of action {} cannot be read", decision.version, self.id);
            return None;
        };
        let wanted = Wanted {
            of: said.action,
            run: self.run,
            version: decision.version,
            servers: said.servers,
            replicas: said.replicas.into_iter().collect(),
            document: decision.body.clone(),
        };
        Some((said.direction, wanted))
    }

    fn carry_out(&mut self, decision: &StoredDecision) -> Result<(), Stop> {
        let Some((direction, wanted)) = self.read(decision) else { return Ok(()) };
        let mut order: Vec<usize> = (0..self.stewards.len()).collect();
        let is_down = direction == Direction::Down;
        if is_down {
            order.reverse();
        }
        for (told, place) in order.into_iter().enumerate().skip(decision.reached) {
            if is_down && told > 0 && self.bell.pause(self.action.asked.drain()) == Woken::Over {
                return Err(Stop::Over);
            }
            self.tell(place, &wanted)?;
            let write = || self.actions.store.reach_decision(self.id, decision.version, told + 1);
            self.bell.write(write).ok_or(Stop::Over)??;
        }
        Ok(())
    }

    /// Notifies one receiver, with retries until it acknowledges.
    fn tell(&mut self, place: usize, wanted: &Wanted) -> Result<(), Stop> {
        let mut waits = Backoff::new(wanted.version ^ self.id.unsigned_abs().rotate_left(32));
        loop {
            match self.give(place, wanted) {
                Ok(()) => {
                    self.fail(None);
                    return Ok(());
                }
                // A receiver that rejects the decision is retried, too: the decision has no other copy, and a person
                // may correct the receiver.
                Err(why) => self.fail(Some(self.of(place, &why))),
            }
            self.actions.tally.retried.add(1);
            if self.bell.pause(waits.next().unwrap_or(LOOK_EVERY)) == Woken::Over {
                return Err(Stop::Over);
            }
        }
    }

    /// Error message with the receiver's address.
    fn of(&self, place: usize, why: &str) -> String {
        format!("{}: {why}", crate::delivery::shown_address(&self.action.asked.to[place]))
    }

    fn give(&mut self, place: usize, wanted: &Wanted) -> Result<(), String> {
        self.steward(place)?.give(wanted, ATTEMPT_MAX).map_err(text)
    }

    fn steward(&mut self, place: usize) -> Result<&mut Steward, String> {
        match &mut self.stewards[place] {
            Some(steward) => Ok(steward),
            none => {
                let named = self.actions.named.get().ok_or("no address is known yet")?;
                Ok(none.insert(Steward::new(&named.read(&self.action.asked.to[place])?)?))
            }
        }
    }

    fn fail(&self, why: Option<String>) {
        let Some(fault) = self.actions.lock().get(&self.id).map(|running| running.fault.clone()) else {
            return;
        };
        *fault.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }
}

fn text(fault: Fault) -> String {
    match fault {
        Fault::Passing(why) | Fault::Final(why) | Fault::Partly(_, why) => why,
    }
}
