//! Carries decisions out: each action has a thread that notifies the receivers one after the other, in their order when
//! replicas are added and in reverse order, with a pause for work in progress, when they are removed. A receiver is
//! retried until it acknowledges; the acknowledgment is stored, so that it is notified again only after a kill in
//! between, with the same number. The next decision waits for all acknowledgments.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use connect::RetryPolicy;
use outlets::{DeliveryFault, DesiredState, DesiredStateSender};

use super::machine::ScalingDirection;
use super::running_action::{DecisionMessage, RunningAction};
use super::{ActionRegistry, ActionSpec};
use crate::results::delivery::NamedOutlets;
use crate::results::notifier::{DeliveryNotifier, DeliveryWakeup};
use crate::store::sqlite::{StoreError, StoredDecision};

/// Approximate maximum duration of one attempt.
const ATTEMPT_MAX: Duration = Duration::from_secs(10);
/// Polling interval without a wakeup.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Carries out decisions until dropped.
pub struct ActionExecutors(Arc<ActionRegistry>);

impl ActionExecutors {
    /// Starts with the waiting decisions. `named`: addresses by name.
    pub fn start(actions: &Arc<ActionRegistry>, named: NamedOutlets) -> ActionExecutors {
        let _ = actions.named.set(named);
        let all: Vec<i64> = actions.lock().keys().copied().collect();
        all.into_iter().for_each(|id| actions.begin(id));
        ActionExecutors(actions.clone())
    }
}

impl Drop for ActionExecutors {
    /// Nothing is written after this returns; a thread that waits for another program ends by itself.
    fn drop(&mut self) {
        self.0
            .lock()
            .values()
            .for_each(|running| running.bell.end());
    }
}

/// Reason to stop.
enum ExecutorStop {
    /// The action was removed, or the server ends.
    Over,
    Failed(StoreError),
}

impl From<StoreError> for ExecutorStop {
    fn from(error: StoreError) -> ExecutorStop {
        ExecutorStop::Failed(error)
    }
}

/// Carries out the decisions of one action.
struct DecisionExecutor {
    actions: Arc<ActionRegistry>,
    id: i64,
    action: ActionSpec,
    run: u64,
    bell: Arc<DeliveryNotifier>,
    /// In the order of the receivers; created on first use.
    stewards: Vec<Option<DesiredStateSender>>,
}

impl ActionRegistry {
    /// Starts the thread of an action if addresses are set.
    pub(super) fn begin(self: &Arc<Self>, id: i64) {
        if self.named.get().is_none() {
            return;
        }
        let hand = |running: &RunningAction| DecisionExecutor {
            actions: self.clone(),
            id,
            action: running.action.clone(),
            // Distinguishes actions of the same name, and of other data directories.
            run: running.created_ns.unsigned_abs(),
            bell: running.bell.clone(),
            stewards: running.action.asked.to.iter().map(|_| None).collect(),
        };
        let Some(mut hand) = self.lock().get(&id).map(hand) else {
            return;
        };
        let begun = std::thread::Builder::new()
            .name("action".into())
            .spawn(move || hand.work());
        if let Err(error) = begun {
            // Retried at the next start of the server.
            tracing::error!("decisions of action {id} are not executed: {error}");
        }
    }
}

impl DecisionExecutor {
    fn work(&mut self) {
        loop {
            let wait = match self.carry_out_all().and_then(|()| self.remind()) {
                Ok(()) => LOOK_EVERY,
                Err(ExecutorStop::Over) => return,
                Err(ExecutorStop::Failed(error)) => {
                    self.fail(Some(error.to_string()));
                    RetryPolicy::STORE.delay(0, self.run)
                }
            };
            if self.bell.wait(wait) == DeliveryWakeup::Over {
                return;
            }
        }
    }

    fn carry_out_all(&mut self) -> Result<(), ExecutorStop> {
        while let Some(decision) = self.actions.store.decision_waiting(self.id)? {
            self.carry_out(&decision)?;
            let write = || {
                self.actions
                    .store
                    .finish_decision(self.id, decision.version)
            };
            self.bell.write(write).ok_or(ExecutorStop::Over)??;
            self.actions.carried_out(self.id, decision.version);
        }
        Ok(())
    }

    /// A receiver may have lost the desired state, such as a Redis restarted without its data, so it receives the last
    /// decision again, which changes nothing if it still has it.
    fn remind(&mut self) -> Result<(), ExecutorStop> {
        let last = self.actions.store.decisions(self.id, None, 1)?;
        let Some((_, wanted)) = last.first().and_then(|decision| self.read(decision)) else {
            return Ok(());
        };
        let mut fault = None;
        for place in 0..self.stewards.len() {
            let reminded = self
                .sender(place)
                .and_then(|one| one.remind(&wanted, ATTEMPT_MAX).map_err(text));
            fault = fault.or(reminded.err().map(|why| self.of(place, &why)));
        }
        self.fail(fault);
        Ok(())
    }

    /// Desired state and direction of a decision.
    fn read(&self, decision: &StoredDecision) -> Option<(ScalingDirection, DesiredState)> {
        let Ok(said) = serde_json::from_str::<DecisionMessage>(&decision.body) else {
            tracing::error!(
                "decision {} of action {} cannot be read",
                decision.version,
                self.id
            );
            return None;
        };
        let wanted = DesiredState {
            of: said.action,
            run: self.run,
            version: decision.version,
            servers: said.servers,
            replicas: said.replicas.into_iter().collect(),
            document: decision.body.clone(),
        };
        Some((said.direction, wanted))
    }

    fn carry_out(&mut self, decision: &StoredDecision) -> Result<(), ExecutorStop> {
        let Some((direction, wanted)) = self.read(decision) else {
            return Ok(());
        };
        let mut order: Vec<usize> = (0..self.stewards.len()).collect();
        let is_down = direction == ScalingDirection::Down;
        if is_down {
            order.reverse();
        }
        for (told, place) in order.into_iter().enumerate().skip(decision.reached) {
            if is_down
                && told > 0
                && self.bell.pause(self.action.asked.drain()) == DeliveryWakeup::Over
            {
                return Err(ExecutorStop::Over);
            }
            self.tell(place, &wanted)?;
            let write = || {
                self.actions
                    .store
                    .reach_decision(self.id, decision.version, told + 1)
            };
            self.bell.write(write).ok_or(ExecutorStop::Over)??;
        }
        Ok(())
    }

    /// Notifies one receiver, with retries until it acknowledges.
    fn tell(&mut self, place: usize, wanted: &DesiredState) -> Result<(), ExecutorStop> {
        let mut waits =
            RetryPolicy::RECEIVER.delays(wanted.version ^ self.id.unsigned_abs().rotate_left(32));
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
            if self.bell.pause(waits.next_delay()) == DeliveryWakeup::Over {
                return Err(ExecutorStop::Over);
            }
        }
    }

    /// Error message with the receiver's address.
    fn of(&self, place: usize, why: &str) -> String {
        format!(
            "{}: {why}",
            crate::results::delivery::shown_address(&self.action.asked.to[place])
        )
    }

    fn give(&mut self, place: usize, wanted: &DesiredState) -> Result<(), String> {
        self.sender(place)?.give(wanted, ATTEMPT_MAX).map_err(text)
    }

    fn sender(&mut self, place: usize) -> Result<&mut DesiredStateSender, String> {
        match &mut self.stewards[place] {
            Some(sender) => Ok(sender),
            none => {
                let named = self.actions.named.get().ok_or("no address is known yet")?;
                Ok(none.insert(DesiredStateSender::new(
                    &named.read(&self.action.asked.to[place])?,
                )?))
            }
        }
    }

    fn fail(&self, why: Option<String>) {
        let Some(fault) = self
            .actions
            .lock()
            .get(&self.id)
            .map(|running| running.fault.clone())
        else {
            return;
        };
        *fault.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }
}

fn text(fault: DeliveryFault) -> String {
    match fault {
        DeliveryFault::Passing(why) | DeliveryFault::Final(why) | DeliveryFault::Partly(_, why) => {
            why
        }
    }
}
