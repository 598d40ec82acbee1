//! Wakes a delivery thread when rows arrive or the outlet closes.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// See the module documentation.
#[derive(Default)]
pub struct DeliveryNotifier {
    state: Mutex<DeliverySignal>,
    changed: Condvar,
    /// Held during a write; closing takes it to wait for the write.
    writing: Mutex<()>,
}

#[derive(Default)]
struct DeliverySignal {
    has_news: bool,
    is_over: bool,
}

/// Reason for a wakeup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryWakeup {
    /// Rows arrived, or the timeout elapsed.
    GoOn,
    /// Closed.
    Over,
}

impl DeliveryNotifier {
    fn lock(&self) -> MutexGuard<'_, DeliverySignal> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Signals that rows have arrived.
    pub fn ring(&self) {
        self.lock().has_news = true;
        self.changed.notify_all();
    }

    /// Closes and blocks until no write is in progress; no write follows.
    pub fn end(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
        drop(self.writing.lock());
    }

    /// Blocks until rows arrive, the outlet closes, or `most` elapses.
    pub fn wait(&self, most: Duration) -> DeliveryWakeup {
        self.sleep(most, |state| std::mem::take(&mut state.has_news))
    }

    /// Blocks for `time` unless the outlet closes; used between retries.
    pub fn pause(&self, time: Duration) -> DeliveryWakeup {
        self.sleep(time, |_| false)
    }

    fn sleep(
        &self,
        most: Duration,
        is_enough: impl Fn(&mut DeliverySignal) -> bool,
    ) -> DeliveryWakeup {
        let until = Instant::now() + most;
        let mut state = self.lock();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if state.is_over {
                return DeliveryWakeup::Over;
            }
            if left.is_zero() || is_enough(&mut state) {
                return DeliveryWakeup::GoOn;
            }
            state = self
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Runs a write unless the outlet is closed.
    pub fn write<T>(&self, act: impl FnOnce() -> T) -> Option<T> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        (!self.lock().is_over).then(act)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn a_signal_before_the_wait_ends_it_once() {
        let notifier = DeliveryNotifier::default();
        notifier.ring();
        notifier.ring();
        assert_eq!(notifier.wait(LONG), DeliveryWakeup::GoOn);
        assert_eq!(
            notifier.wait(Duration::from_millis(1)),
            DeliveryWakeup::GoOn,
            "by time"
        );
    }

    /// Rows that arrive during a pause are not forgotten.
    #[test]
    fn a_pause_keeps_the_signal() {
        let notifier = DeliveryNotifier::default();
        notifier.ring();
        assert_eq!(
            notifier.pause(Duration::from_millis(1)),
            DeliveryWakeup::GoOn
        );
        assert_eq!(notifier.wait(LONG), DeliveryWakeup::GoOn);
    }

    #[test]
    fn closing_ends_waits_and_pauses() {
        let notifier = Arc::new(DeliveryNotifier::default());
        let waiting = [true, false].map(|waits| {
            let notifier = notifier.clone();
            thread::spawn(move || {
                if waits {
                    notifier.wait(LONG)
                } else {
                    notifier.pause(LONG)
                }
            })
        });
        notifier.end();
        for thread in waiting {
            assert_eq!(thread.join().expect("no panic"), DeliveryWakeup::Over);
        }
        notifier.ring();
        assert_eq!(notifier.wait(LONG), DeliveryWakeup::Over);
    }

    #[test]
    fn no_write_follows_closing() {
        let notifier = Arc::new(DeliveryNotifier::default());
        assert_eq!(notifier.write(|| 1), Some(1));
        let closing = notifier.write(|| {
            let notifier = notifier.clone();
            let closing = thread::spawn(move || notifier.end());
            assert!(!closing.is_finished(), "it waits for this write");
            closing
        });
        closing.expect("it was open").join().expect("no panic");
        assert_eq!(notifier.write(|| 2), None);
    }
}
