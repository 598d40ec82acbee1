//! What wakes a thread that delivers: there are new rows, or it is over.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// See the module's text.
#[derive(Default)]
pub struct Bell {
    state: Mutex<State>,
    changed: Condvar,
    /// Held while something is written: whoever ends it knows that nothing is written after that.
    writing: Mutex<()>,
}

#[derive(Default)]
struct State {
    has_news: bool,
    is_over: bool,
}

/// Why somebody was woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// There is news, or the time is up.
    GoOn,
    /// It is over.
    Over,
}

impl Bell {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is news.
    pub fn ring(&self) {
        self.lock().has_news = true;
        self.changed.notify_all();
    }

    /// It is over. When this returns nothing is being written any more, and nothing will be.
    pub fn end(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
        drop(self.writing.lock());
    }

    /// Waits for news, so long at most.
    pub fn wait(&self, most: Duration) -> Woken {
        self.sleep(most, |state| std::mem::take(&mut state.has_news))
    }

    /// Waits so long, whatever news there is.
    pub fn pause(&self, time: Duration) -> Woken {
        self.sleep(time, |_| false)
    }

    fn sleep(&self, most: Duration, is_enough: impl Fn(&mut State) -> bool) -> Woken {
        let until = Instant::now() + most;
        let mut state = self.lock();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if state.is_over {
                return Woken::Over;
            }
            if left.is_zero() || is_enough(&mut state) {
                return Woken::GoOn;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Writes something, unless it is over.
    pub fn write<T>(&self, act: impl FnOnce() -> T) -> Option<T> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        (!self.lock().is_over).then(act)
    }
}
