//! Receivers of alerts and their delivery: each receiver has its own thread, so that none delays another.
//!
//! A webhook receives the documents that wait in the store, one after the other, each until it is acknowledged,
//! rejected, or its time limit is reached; only then it is removed from the store. An Alertmanager receives the current
//! state repeatedly, as it expects of its clients: all firing alerts, and recently resolved ones.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use connect::RetryPolicy;
use outlets::address::{OutletAddress, OutletScheme, SystemSecrets};
use outlets::{AlertSender, DeliveryFault};
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use super::machine::{AlertState, NotifiedState};
use super::messages::{AlertMessage, for_alertmanager};
use super::{AlertRegistry, Tell};
use crate::store::sqlite::{StoreError, now_ns};

/// Approximate maximum duration of one attempt.
const ATTEMPT_MAX: Duration = Duration::from_secs(10);
/// Maximum alerts per request to an Alertmanager.
const CHUNK: usize = 500;
/// Interval at which the passage of time is evaluated.
const REVIEW_EVERY: Duration = Duration::from_secs(1);

/// A receiver of alerts.
pub struct AlertReceiver {
    /// Name used by rules.
    pub name: String,
    /// Scheme, host and port.
    to: String,
    courier: AlertSender,
    bell: ReceiverNotifier,
    /// Error of the last attempt.
    problem: Mutex<Option<String>>,
    sent: AtomicU64,
}

/// State of a receiver.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ReceiverState {
    /// Name.
    pub name: String,
    /// Scheme, host and port; never secrets.
    pub to: String,
    /// Number of waiting documents.
    pub waiting: u64,
    /// Documents accepted since the start of the server.
    pub sent: u64,
    /// Error of the last attempt, if it failed.
    pub problem: Option<String>,
}

/// Result of a test notification.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ReceiverTestResult {
    /// Whether it was accepted.
    pub taken: bool,
    /// Error, if it was not.
    pub problem: Option<String>,
}

impl AlertReceiver {
    /// Parses `NAME=URL` or `NAME=@FILE`, and reads the secrets.
    ///
    /// # Errors
    /// A message for the operator.
    pub fn read(argument: &str) -> Result<AlertReceiver, String> {
        let (name, url) = argument
            .split_once('=')
            .ok_or("a receiver has the form NAME=URL or NAME=@FILE")?;
        let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || name.len() > 100 || !name.chars().all(is_part) {
            return Err(format!(
                "`{name}` is not a receiver name, which consists of letters, digits, -, _, and ."
            ));
        }
        let address = OutletAddress::read(url, &SystemSecrets)
            .map_err(|why| format!("receiver {name}: {why}"))?;
        if matches!(
            address.scheme,
            OutletScheme::Webhook | OutletScheme::WebhookTls
        ) && address.secret.is_none()
        {
            return Err(format!(
                "receiver {name}: notifications are signed: give the key by #secret-file=FILE or #secret-env=NAME"
            ));
        }
        let courier =
            AlertSender::new(&address).map_err(|why| format!("receiver {name}: {why}"))?;
        Ok(AlertReceiver {
            name: name.into(),
            to: address.to_string(),
            courier,
            bell: ReceiverNotifier::default(),
            problem: Mutex::default(),
            sent: AtomicU64::new(0),
        })
    }

    /// Whether it receives documents, each once; otherwise it receives the current state.
    pub fn takes_documents(&self) -> bool {
        matches!(self.courier, AlertSender::Webhook(_))
    }

    /// Wakes the receiver's thread.
    pub fn wake(&self) {
        self.bell.ring();
    }

    fn try_once(&self, id: &str, body: &[u8]) -> Result<(), DeliveryFault> {
        let result = self.courier.send(id, body, ATTEMPT_MAX);
        let problem = match &result {
            Ok(()) => None,
            Err(
                DeliveryFault::Passing(why)
                | DeliveryFault::Final(why)
                | DeliveryFault::Partly(_, why),
            ) => Some(why.clone()),
        };
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
        if result.is_ok() {
            self.sent.fetch_add(1, Ordering::Relaxed);
        }
        result
    }

    /// Sends a test alert, marked by `alertname`.
    pub fn test(&self, who: &str) -> ReceiverTestResult {
        let now_ns = now_ns();
        let labels = json!({ "alertname": "netalytics_test", "asked_by": who });
        let at = super::messages::time(now_ns);
        let alert = json!({
            "labels": labels, "annotations": { "summary": "test notification from netalytics" },
            "startsAt": at, "endsAt": at,
        });
        let body = if self.takes_documents() {
            let mut alert = alert;
            alert["status"] = "resolved".into();
            alert["fingerprint"] = "".into();
            alert["values"] = json!({});
            json!({
                "version": "4", "groupKey": "test", "truncatedAlerts": 0, "status": "resolved", "receiver": self.name,
                "groupLabels": {}, "commonLabels": labels, "commonAnnotations": {}, "externalURL": "", "alerts": [alert],
            })
        } else {
            json!([alert])
        };
        let result = self.try_once(
            &format!("alert_test_{now_ns:x}"),
            body.to_string().as_bytes(),
        );
        let problem = match result {
            Ok(()) => None,
            Err(
                DeliveryFault::Passing(why)
                | DeliveryFault::Final(why)
                | DeliveryFault::Partly(_, why),
            ) => Some(why),
        };
        ReceiverTestResult {
            taken: problem.is_none(),
            problem,
        }
    }
}

/// Wakes a thread.
#[derive(Default)]
struct ReceiverNotifier {
    state: Mutex<ReceiverSignal>,
    news: Condvar,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum ReceiverSignal {
    #[default]
    No,
    Yes,
    /// Set to end the thread.
    End,
}

impl ReceiverNotifier {
    fn ring(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if *state == ReceiverSignal::No {
            *state = ReceiverSignal::Yes;
        }
        self.news.notify_all();
    }

    fn end(&self) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = ReceiverSignal::End;
        self.news.notify_all();
    }

    fn is_over(&self) -> bool {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) == ReceiverSignal::End
    }

    /// Waits for a notification or `most`; returns whether to continue.
    fn wait(&self, most: Duration, woken: ReceiverWakeup) -> bool {
        let until = Instant::now() + most;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match *state {
                ReceiverSignal::End => return false,
                ReceiverSignal::Yes if woken == ReceiverWakeup::ByNews => {
                    *state = ReceiverSignal::No;
                    return true;
                }
                _ if left.is_zero() => return true,
                _ => {
                    state = self
                        .news
                        .wait_timeout(state, left)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            }
        }
    }
}

/// Events that end a wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReceiverWakeup {
    /// New notifications, or time.
    ByNews,
    /// Time only.
    ByTime,
}

/// Delivery threads; joined on drop.
pub struct AlertSenderThreads {
    alerts: Arc<AlertRegistry>,
    review: Arc<ReceiverNotifier>,
    threads: Vec<JoinHandle<()>>,
}

impl AlertSenderThreads {
    /// Starts the threads. `tell` receives changes caused by time alone.
    ///
    /// # Errors
    /// If the system cannot create more threads.
    pub fn start(
        alerts: &Arc<AlertRegistry>,
        tell: Box<Tell>,
    ) -> Result<AlertSenderThreads, StoreError> {
        for (name, waiting) in alerts.store.waiting_counts()? {
            if !alerts
                .receivers()
                .iter()
                .any(|receiver| receiver.name == name)
            {
                tracing::warn!(
                    "{waiting} notifications wait for {name}, for which there is no --receiver"
                );
            }
        }
        let review = Arc::new(ReceiverNotifier::default());
        let mut sending = AlertSenderThreads {
            alerts: alerts.clone(),
            review: review.clone(),
            threads: Vec::new(),
        };
        let of_review = alerts.clone();
        sending.spawn(move || {
            while review.wait(REVIEW_EVERY, ReceiverWakeup::ByTime) {
                of_review
                    .review()
                    .iter()
                    .for_each(|(job, event)| tell(*job, event));
            }
        })?;
        for receiver in alerts.receivers() {
            let alerts = alerts.clone();
            let receiver = receiver.clone();
            sending.spawn(move || {
                if receiver.takes_documents() {
                    alerts.deliver(&receiver)
                } else {
                    alerts.repeat(&receiver)
                }
            })?;
        }
        Ok(sending)
    }

    fn spawn(&mut self, act: impl FnOnce() + Send + 'static) -> Result<(), StoreError> {
        let thread = std::thread::Builder::new().name("alerts".into()).spawn(act);
        self.threads
            .push(thread.map_err(|_| StoreError::Other(rusqlite::Error::InvalidQuery))?);
        Ok(())
    }
}

impl Drop for AlertSenderThreads {
    fn drop(&mut self) {
        self.review.end();
        self.alerts
            .receivers()
            .iter()
            .for_each(|receiver| receiver.bell.end());
        // An attempt in progress ends within its time limit.
        self.threads
            .drain(..)
            .for_each(|thread| drop(thread.join()));
    }
}

impl AlertRegistry {
    /// State of all receivers.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn receiver_states(&self) -> Result<Vec<ReceiverState>, StoreError> {
        let waiting = self.store.waiting_counts()?;
        let state = |receiver: &Arc<AlertReceiver>| ReceiverState {
            name: receiver.name.clone(),
            to: receiver.to.clone(),
            waiting: waiting.get(&receiver.name).copied().unwrap_or(0),
            sent: receiver.sent.load(Ordering::Relaxed),
            problem: receiver
                .problem
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
        };
        Ok(self.receivers().iter().map(state).collect())
    }

    /// Delivers documents one after the other until the end.
    fn deliver(&self, receiver: &AlertReceiver) {
        // Acknowledged documents whose removal from the store failed.
        let mut done = BTreeSet::new();
        let mut backoff = None;
        loop {
            let next = self
                .store
                .waiting(&receiver.name, 1)
                .unwrap_or_default()
                .pop();
            let Some(next) = next else {
                if receiver
                    .bell
                    .wait(Duration::from_secs(60), ReceiverWakeup::ByNews)
                {
                    continue;
                } else {
                    return;
                }
            };
            if !done.contains(&next.id) {
                match receiver.try_once(&next.of.key, next.of.body.as_bytes()) {
                    Ok(()) => {
                        self.tally.sent.add(1);
                    }
                    Err(DeliveryFault::Passing(why)) => {
                        let waited = Duration::from_nanos(
                            now_ns().saturating_sub(next.since_ns).unsigned_abs(),
                        );
                        if waited < self.limits().retry_max {
                            self.tally.retried.add(1);
                            let waits = backoff.get_or_insert_with(|| {
                                RetryPolicy::RECEIVER.delays(next.id.unsigned_abs())
                            });
                            if !receiver
                                .bell
                                .wait(waits.next_delay(), ReceiverWakeup::ByTime)
                            {
                                return;
                            }
                            continue;
                        }
                        self.lose(receiver, &why);
                    }
                    Err(DeliveryFault::Final(why) | DeliveryFault::Partly(_, why)) => {
                        self.lose(receiver, &why)
                    }
                }
                backoff = None;
                done.insert(next.id);
            }
            match self.store.remove_notification(next.id) {
                Ok(()) => drop(done.remove(&next.id)),
                Err(error) => {
                    tracing::warn!("{error}");
                    if !receiver.bell.wait(REVIEW_EVERY, ReceiverWakeup::ByTime) {
                        return;
                    }
                }
            }
            if receiver.bell.is_over() {
                return;
            }
        }
    }

    fn lose(&self, receiver: &AlertReceiver, why: &str) {
        self.tally.lost.add(1);
        tracing::warn!(
            "a notification of alerts for {} is lost: {why}",
            receiver.name
        );
    }

    /// Sends the current state repeatedly until the end.
    fn repeat(&self, receiver: &AlertReceiver) {
        let mut backoff = RetryPolicy::RECEIVER.delays(1);
        loop {
            let all = self.standing_for(&receiver.name);
            let chunks = all.chunks(CHUNK);
            let body = |some: &[AlertMessage]| {
                for_alertmanager(some, now_ns(), self.limits().resend).to_string()
            };
            let failed = chunks
                .map(|some| receiver.try_once("", body(some).as_bytes()))
                .find_map(Result::err);
            let (wait, woken) = match failed {
                None => {
                    backoff = RetryPolicy::RECEIVER.delays(now_ns().unsigned_abs());
                    self.tally.sent.add(u64::from(!all.is_empty()));
                    (self.limits().resend, ReceiverWakeup::ByNews)
                }
                Some(_) => {
                    self.tally.retried.add(1);
                    (backoff.next_delay(), ReceiverWakeup::ByTime)
                }
            };
            if !receiver.bell.wait(wait, woken) {
                return;
            }
        }
    }

    /// Announced alerts that fire or resolved recently.
    fn standing_for(&self, receiver: &str) -> Vec<AlertMessage> {
        let inner = self.lock();
        let mut all = Vec::new();
        for watched in inner
            .rules
            .values()
            .filter(|w| w.rule.asked.receivers.iter().any(|name| name == receiver))
        {
            let told = watched
                .standing
                .alerts
                .iter()
                .filter(|(_, alert)| match alert.state {
                    AlertState::Pending => false,
                    AlertState::Firing { .. } | AlertState::Resolved { .. } => {
                        alert.told != NotifiedState::Nothing
                    }
                });
            all.extend(told.map(|(subject, alert)| {
                AlertMessage::of(&watched.rule, watched.id, subject, alert)
            }));
        }
        let parted = inner.parted.iter().filter(|(_, to, said)| {
            to.iter().any(|name| name == receiver)
                && !all
                    .iter()
                    .any(|other| other.fingerprint == said.fingerprint)
        });
        let parted: Vec<AlertMessage> = parted.map(|(.., said)| said.clone()).collect();
        all.extend(parted);
        all
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    fn refused(argument: &str) -> String {
        AlertReceiver::read(argument).err().unwrap_or_default()
    }

    #[test]
    fn receivers_have_a_name_and_an_address() {
        assert_eq!(
            refused("pager"),
            "a receiver has the form NAME=URL or NAME=@FILE"
        );
        for name in ["", "a b", "ü", &"x".repeat(101)] {
            let error = refused(&format!("{name}=alertmanager+http://h"));
            assert!(
                error.starts_with(&format!("`{name}` is not a receiver name")),
                "{error}"
            );
        }
        assert!(refused("pager=ftp://h").starts_with("receiver pager: an address must start with"));
        assert!(
            refused("pager=@/no/such/file")
                .starts_with("receiver pager: cannot read /no/such/file")
        );
    }

    #[test]
    fn notifications_of_webhooks_are_signed() {
        let error = refused("pager=webhook+http://127.0.0.1:1/");
        assert!(
            error.starts_with("receiver pager: notifications are signed"),
            "{error}"
        );
        let folder = tempfile::tempdir().expect("a folder");
        let key = folder.path().join("key");
        std::fs::write(&key, "s3cret").expect("written");
        let argument = format!(
            "pager=webhook+http://127.0.0.1:1/x#secret-file={}",
            key.display()
        );
        let receiver = AlertReceiver::read(&argument).expect("a receiver");
        assert!(receiver.takes_documents());
        assert_eq!(
            receiver.to, "webhook+http://127.0.0.1:1",
            "neither path nor secret"
        );
    }

    #[test]
    fn an_alertmanager_receives_the_state() {
        let receiver =
            AlertReceiver::read("am=alertmanager+http://127.0.0.1:1").expect("a receiver");
        assert!(!receiver.takes_documents());
    }

    /// Nothing listens there.
    #[test]
    fn a_failed_test_notification_has_its_reason() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        drop(listener);
        let receiver = AlertReceiver::read(&format!("am=alertmanager+http://127.0.0.1:{port}"))
            .expect("a receiver");
        let result = receiver.test("me");
        assert!(!result.taken && result.problem.is_some(), "{result:?}");
        assert_eq!(*receiver.problem.lock().expect("no panic"), result.problem);
        assert_eq!(receiver.sent.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn notifications_end_one_wait() {
        let notifier = ReceiverNotifier::default();
        notifier.ring();
        assert!(notifier.wait(LONG, ReceiverWakeup::ByNews));
        assert!(
            notifier.wait(Duration::from_millis(1), ReceiverWakeup::ByNews),
            "by time"
        );
    }

    /// The repetition of the state is by time: news do not shorten it, and are not forgotten.
    #[test]
    fn news_do_not_shorten_a_wait_by_time() {
        let notifier = ReceiverNotifier::default();
        notifier.ring();
        assert!(notifier.wait(Duration::from_millis(1), ReceiverWakeup::ByTime));
        assert!(notifier.wait(LONG, ReceiverWakeup::ByNews));
    }

    #[test]
    fn the_end_is_final() {
        let notifier = Arc::new(ReceiverNotifier::default());
        let waiting = {
            let notifier = notifier.clone();
            thread::spawn(move || notifier.wait(LONG, ReceiverWakeup::ByTime))
        };
        notifier.end();
        assert!(!waiting.join().expect("no panic"));
        notifier.ring();
        assert!(notifier.is_over() && !notifier.wait(LONG, ReceiverWakeup::ByNews));
    }
}
