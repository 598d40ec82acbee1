//! Live events: per job a ring of recent events, and a queue per client. Nothing waits for a client: a slow client
//! loses provisional events first, then its connection, and can reconnect for the rest.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::Notify;

/// What an event tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// How far a job has come.
    Job,
    /// All that there is of a job.
    Snapshot,
    /// Rows of a window that is open.
    OpenWindow,
    /// Rows of a window that is closed.
    ClosedWindow,
    /// What a job has seen.
    Account,
    /// The share of flows that is looked at.
    Sampling,
    /// Change of an alert.
    Alert,
    /// Events that the client has missed.
    Gap,
}

impl Kind {
    /// As clients see it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Job => "job",
            Kind::Snapshot => "snapshot",
            Kind::OpenWindow | Kind::ClosedWindow => "window",
            Kind::Account => "account",
            Kind::Sampling => "sampling",
            Kind::Alert => "alert",
            Kind::Gap => "gap",
        }
    }

    /// Whether a later one replaces it anyhow.
    fn is_provisional(self) -> bool {
        matches!(self, Kind::OpenWindow | Kind::Account)
    }
}

/// An event, written once for all clients.
#[derive(Debug)]
pub struct Event {
    /// Its number; those of all jobs are counted together.
    pub seq: u64,
    /// Its kind.
    pub kind: Kind,
    /// Its JSON.
    pub data: String,
}

impl Event {
    /// An event.
    pub fn new(seq: u64, kind: Kind, data: &Value) -> Arc<Event> {
        Arc::new(Event { seq, kind, data: data.to_string() })
    }

    /// Memory that it takes, about.
    pub fn bytes(&self) -> usize {
        self.data.len() + 64
    }
}

/// The last events of a job.
#[derive(Default)]
pub struct Ring {
    events: VecDeque<(Instant, Arc<Event>)>,
    bytes: usize,
    /// The number of the last event that is no longer here.
    gone: u64,
}

impl Ring {
    /// Keeps an event; those that are too old, or too many, go.
    pub fn push(&mut self, event: Arc<Event>, (now, time, bytes): (Instant, Duration, usize)) {
        self.bytes += event.bytes();
        self.events.push_back((now, event));
        while let Some((at, first)) = self.events.front()
            && (self.bytes > bytes || now.duration_since(*at) > time)
        {
            self.bytes -= first.bytes();
            self.gone = first.seq;
            self.events.pop_front();
        }
    }

    /// When the last event came.
    pub fn newest(&self) -> Option<Instant> {
        self.events.back().map(|(at, _)| *at)
    }

    /// The events behind number `seq`; `None` when some of them are gone.
    pub fn behind(&self, seq: u64) -> Option<impl Iterator<Item = Arc<Event>> + '_> {
        let later = self.events.iter().map(|(_, event)| event).filter(move |event| event.seq > seq);
        (self.gone <= seq).then(|| later.cloned())
    }
}

/// The queue of one client.
pub struct Queue {
    state: Mutex<Waiting>,
    news: Notify,
    bytes_max: usize,
    /// The jobs that it wants.
    pub jobs: BTreeSet<i64>,
}

#[derive(Default)]
struct Waiting {
    /// Initial events of a client: rings share it, and no client gets them twice.
    first: VecDeque<Arc<Event>>,
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    provisional_dropped: u64,
    over: bool,
}

/// What a client gets next.
#[derive(Debug)]
pub enum Next {
    /// An event.
    Event(Arc<Event>),
    /// So many provisional ones were left out before what comes.
    LeftOut(u64),
    /// It has not kept up: no more.
    Over,
}

impl Queue {
    /// A queue of at most `bytes_max` for the events of `jobs`.
    pub fn new(jobs: BTreeSet<i64>, bytes_max: usize) -> Queue {
        Queue { state: Mutex::default(), news: Notify::new(), bytes_max, jobs }
    }

    /// Puts an event before all others, beyond the bound.
    pub fn begin(&self, event: Arc<Event>) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).first.push_back(event);
        self.news.notify_one();
    }

    /// Puts an event into the queue.
    pub fn push(&self, event: &Arc<Event>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.over {
            return;
        }
        let bytes = event.bytes();
        if state.bytes + bytes > self.bytes_max {
            state.drop_provisional();
        }
        if state.bytes + bytes > self.bytes_max {
            match event.kind.is_provisional() {
                true => state.provisional_dropped += 1,
                false => {
                    *state = Waiting { over: true, ..Waiting::default() };
                }
            }
        } else {
            state.bytes += bytes;
            state.events.push_back(event.clone());
        }
        self.news.notify_one();
    }

    /// Ends it.
    pub fn end(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).over = true;
        self.news.notify_one();
    }

    fn take(&self) -> Option<Next> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(event) = state.first.pop_front() {
            return Some(Next::Event(event));
        }
        if state.provisional_dropped > 0 {
            return Some(Next::LeftOut(std::mem::take(&mut state.provisional_dropped)));
        }
        if let Some(event) = state.events.pop_front() {
            state.bytes -= event.bytes();
            return Some(Next::Event(event));
        }
        state.over.then_some(Next::Over)
    }

    /// Waits for what comes next.
    pub async fn next(&self) -> Next {
        loop {
            if let Some(next) = self.take() {
                return next;
            }
            self.news.notified().await;
        }
    }
}

impl Waiting {
    fn drop_provisional(&mut self) {
        let before = self.events.len();
        self.events.retain(|event| !event.kind.is_provisional());
        self.provisional_dropped += (before - self.events.len()) as u64;
        self.bytes = self.events.iter().map(|event| event.bytes()).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(seq: u64, kind: Kind) -> Arc<Event> {
        Event::new(seq, kind, &Value::from("x".repeat(100)))
    }

    #[test]
    fn a_ring_says_when_it_has_forgotten() {
        let mut ring = Ring::default();
        let now = Instant::now();
        let (time, bytes) = (Duration::from_secs(60), 3 * event(0, Kind::ClosedWindow).bytes());
        (1..=5).for_each(|seq| ring.push(event(seq, Kind::ClosedWindow), (now, time, bytes)));
        let behind = |ring: &Ring, seq| ring.behind(seq).map(|e| e.map(|e| e.seq).collect::<Vec<_>>());
        assert_eq!(behind(&ring, 3), Some(vec![4, 5]));
        assert_eq!(behind(&ring, 2), Some(vec![3, 4, 5]));
        assert_eq!(behind(&ring, 1), None);
        ring.push(event(6, Kind::ClosedWindow), (now + time * 2, time, bytes));
        assert_eq!((behind(&ring, 5), behind(&ring, 4)), (Some(vec![6]), None));
    }

    #[test]
    fn who_does_not_keep_up_loses_what_is_provisional_and_then_everything() {
        let queue = Queue::new(BTreeSet::new(), 3 * event(0, Kind::ClosedWindow).bytes());
        for (seq, kind) in
            [(1, Kind::ClosedWindow), (2, Kind::OpenWindow), (3, Kind::ClosedWindow), (4, Kind::Job)]
        {
            queue.push(&event(seq, kind));
        }
        assert!(matches!(queue.take(), Some(Next::LeftOut(1))));
        for expected in [1, 3, 4] {
            assert!(matches!(queue.take(), Some(Next::Event(e)) if e.seq == expected));
        }
        assert!(queue.take().is_none());
        (5..=8).for_each(|seq| queue.push(&event(seq, Kind::ClosedWindow)));
        assert!(matches!(queue.take(), Some(Next::Over)));
    }
}
