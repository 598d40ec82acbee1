//! Live events: per job a ring of recent events, and a queue per client. Nothing waits for a client: a slow client
//! loses provisional events first, then its connection, and can reconnect for the rest.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::Notify;

use crate::job::JobId;

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// State of a job.
    Job,
    /// Complete state of a job and its results.
    Snapshot,
    /// Rows of an open window.
    OpenWindow,
    /// Rows of a closed window.
    ClosedWindow,
    /// Counters of a job.
    Account,
    /// Sampling rate of flows.
    Sampling,
    /// Change of an alert.
    Alert,
    /// Events lost by the client.
    Gap,
}

impl EventKind {
    /// Name in the event stream.
    pub fn name(self) -> &'static str {
        match self {
            EventKind::Job => "job",
            EventKind::Snapshot => "snapshot",
            EventKind::OpenWindow | EventKind::ClosedWindow => "window",
            EventKind::Account => "account",
            EventKind::Sampling => "sampling",
            EventKind::Alert => "alert",
            EventKind::Gap => "gap",
        }
    }

    /// Whether a later event replaces it.
    fn is_provisional(self) -> bool {
        matches!(self, EventKind::OpenWindow | EventKind::Account)
    }
}

/// An event, serialized once for all clients.
#[derive(Debug)]
pub struct LiveEvent {
    /// Sequence number across all jobs.
    pub seq: u64,
    /// Kind.
    pub kind: EventKind,
    /// JSON.
    pub data: String,
}

impl LiveEvent {
    /// Creates an event.
    pub fn new(seq: u64, kind: EventKind, data: &Value) -> Arc<LiveEvent> {
        Arc::new(LiveEvent {
            seq,
            kind,
            data: data.to_string(),
        })
    }

    /// Approximate memory in bytes.
    pub fn bytes(&self) -> usize {
        self.data.len() + 64
    }
}

/// Recent events of a job.
#[derive(Default)]
pub struct EventRing {
    events: VecDeque<(Instant, Arc<LiveEvent>)>,
    bytes: usize,
    /// Number of the last event dropped.
    gone: u64,
}

impl EventRing {
    /// Adds an event; drops events beyond the age and size limits.
    pub fn push(&mut self, event: Arc<LiveEvent>, (now, time, bytes): (Instant, Duration, usize)) {
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

    /// Time of the last event.
    pub fn newest(&self) -> Option<Instant> {
        self.events.back().map(|(at, _)| *at)
    }

    /// Events after number `seq`; `None` if some of them were dropped.
    pub fn behind(&self, seq: u64) -> Option<impl Iterator<Item = Arc<LiveEvent>> + '_> {
        let later = self
            .events
            .iter()
            .map(|(_, event)| event)
            .filter(move |event| event.seq > seq);
        (self.gone <= seq).then(|| later.cloned())
    }
}

/// Queue of one client.
pub struct ClientQueue {
    state: Mutex<ClientQueueState>,
    news: Notify,
    bytes_max: usize,
    /// Subscribed jobs.
    pub jobs: BTreeSet<JobId>,
}

#[derive(Default)]
struct ClientQueueState {
    /// Initial events of a client: shared with the rings, and sent only once.
    first: VecDeque<Arc<LiveEvent>>,
    events: VecDeque<Arc<LiveEvent>>,
    bytes: usize,
    provisional_dropped: u64,
    over: bool,
}

/// Next item for a client.
#[derive(Debug)]
pub enum NextEvent {
    /// An event.
    Event(Arc<LiveEvent>),
    /// Number of provisional events dropped before the next one.
    LeftOut(u64),
    /// The client was too slow; the queue is closed.
    Over,
}

impl ClientQueue {
    /// A queue of at most `bytes_max` for the events of `jobs`.
    pub fn new(jobs: BTreeSet<JobId>, bytes_max: usize) -> ClientQueue {
        ClientQueue {
            state: Mutex::default(),
            news: Notify::new(),
            bytes_max,
            jobs,
        }
    }

    /// Inserts an event before all others, regardless of the limit.
    pub fn begin(&self, event: Arc<LiveEvent>) {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .first
            .push_back(event);
        self.news.notify_one();
    }

    /// Appends an event.
    pub fn push(&self, event: &Arc<LiveEvent>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.over {
            return;
        }
        let bytes = event.bytes();
        if state.bytes + bytes > self.bytes_max {
            state.drop_provisional();
        }
        if state.bytes + bytes > self.bytes_max {
            if event.kind.is_provisional() {
                state.provisional_dropped += 1
            } else {
                *state = ClientQueueState {
                    over: true,
                    ..ClientQueueState::default()
                };
            }
        } else {
            state.bytes += bytes;
            state.events.push_back(event.clone());
        }
        self.news.notify_one();
    }

    /// Closes the queue.
    pub fn end(&self) {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .over = true;
        self.news.notify_one();
    }

    fn take(&self) -> Option<NextEvent> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(event) = state.first.pop_front() {
            return Some(NextEvent::Event(event));
        }
        if state.provisional_dropped > 0 {
            return Some(NextEvent::LeftOut(std::mem::take(
                &mut state.provisional_dropped,
            )));
        }
        if let Some(event) = state.events.pop_front() {
            state.bytes -= event.bytes();
            return Some(NextEvent::Event(event));
        }
        state.over.then_some(NextEvent::Over)
    }

    /// Waits for the next item.
    pub async fn next(&self) -> NextEvent {
        loop {
            if let Some(next) = self.take() {
                return next;
            }
            self.news.notified().await;
        }
    }
}

impl ClientQueueState {
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

    fn event(seq: u64, kind: EventKind) -> Arc<LiveEvent> {
        LiveEvent::new(seq, kind, &Value::from("x".repeat(100)))
    }

    #[test]
    fn rings_report_evicted_events() {
        let mut ring = EventRing::default();
        let now = Instant::now();
        let time = Duration::from_secs(60);
        let bytes = 3 * event(0, EventKind::ClosedWindow).bytes();
        (1..=5).for_each(|seq| ring.push(event(seq, EventKind::ClosedWindow), (now, time, bytes)));
        let behind = |ring: &EventRing, seq| {
            ring.behind(seq)
                .map(|e| e.map(|e| e.seq).collect::<Vec<_>>())
        };
        assert_eq!(behind(&ring, 3), Some(vec![4, 5]));
        assert_eq!(behind(&ring, 2), Some(vec![3, 4, 5]));
        assert_eq!(behind(&ring, 1), None);
        ring.push(
            event(6, EventKind::ClosedWindow),
            (now + time * 2, time, bytes),
        );
        assert_eq!((behind(&ring, 5), behind(&ring, 4)), (Some(vec![6]), None));
    }

    #[test]
    fn slow_subscribers_lose_open_windows_first() {
        let queue = ClientQueue::new(
            BTreeSet::new(),
            3 * event(0, EventKind::ClosedWindow).bytes(),
        );
        for (seq, kind) in [
            (1, EventKind::ClosedWindow),
            (2, EventKind::OpenWindow),
            (3, EventKind::ClosedWindow),
            (4, EventKind::Job),
        ] {
            queue.push(&event(seq, kind));
        }
        assert!(matches!(queue.take(), Some(NextEvent::LeftOut(1))));
        for expected in [1, 3, 4] {
            assert!(matches!(queue.take(), Some(NextEvent::Event(e)) if e.seq == expected));
        }
        assert!(queue.take().is_none());
        (5..=8).for_each(|seq| queue.push(&event(seq, EventKind::ClosedWindow)));
        assert!(matches!(queue.take(), Some(NextEvent::Over)));
    }

    /// Numbers of the events of a queue, `None` for omitted ones, until it is empty or closed.
    fn taken(queue: &ClientQueue) -> (Vec<Option<u64>>, bool) {
        let mut seen = Vec::new();
        while let Some(next) = queue.take() {
            match next {
                NextEvent::Event(event) => seen.push(Some(event.seq)),
                NextEvent::LeftOut(_) => seen.push(None),
                NextEvent::Over => return (seen, true),
            }
        }
        (seen, false)
    }

    #[test]
    fn an_event_beyond_the_limit_is_omitted_or_closes_the_queue() {
        let bytes = event(0, EventKind::Job).bytes();
        for (kind, expected) in [
            (EventKind::OpenWindow, (vec![None], false)),
            (EventKind::Account, (vec![None], false)),
            (EventKind::ClosedWindow, (vec![], true)),
        ] {
            let queue = ClientQueue::new(BTreeSet::new(), bytes - 1);
            queue.push(&event(1, kind));
            assert_eq!(taken(&queue), expected, "{kind:?}");
            // A closed queue accepts nothing more.
            queue.push(&LiveEvent::new(2, EventKind::Job, &Value::Null));
            assert_eq!(taken(&queue).1, expected.1, "{kind:?}");
        }
    }

    /// The initial events may be larger than the queue: they are those that a client asked for.
    #[test]
    fn initial_events_come_first_whatever_their_size() {
        let queue = ClientQueue::new(BTreeSet::new(), event(0, EventKind::Job).bytes());
        queue.push(&event(100, EventKind::Job));
        (1..=50).for_each(|seq| queue.begin(event(seq, EventKind::Snapshot)));
        queue.end();
        let expected: Vec<_> = (1..=50).chain([100]).map(Some).collect();
        assert_eq!(taken(&queue), (expected, true));
    }

    /// A client that reads at intervals loses provisional events only, and receives their number.
    #[test]
    fn final_events_are_never_omitted_silently() {
        let queue = ClientQueue::new(BTreeSet::new(), 8 * event(0, EventKind::Job).bytes());
        let mut finals = Vec::new();
        let mut seen = Vec::new();
        let mut omitted = 0;
        for seq in 1..=1000 {
            let kind = if seq % 5 == 0 {
                EventKind::ClosedWindow
            } else {
                EventKind::OpenWindow
            };
            queue.push(&event(seq, kind));
            finals.extend((seq % 5 == 0).then_some(seq));
            if seq % 30 == 0 || seq == 1000 {
                while let Some(next) = queue.take() {
                    match next {
                        NextEvent::Event(event) => seen.push(event.seq),
                        NextEvent::LeftOut(n) => omitted += n,
                        NextEvent::Over => panic!("six final events fit"),
                    }
                }
            }
        }
        assert!(seen.is_sorted());
        assert_eq!(seen.len() as u64 + omitted, 1000);
        assert!(omitted > 0);
        let found: Vec<u64> = seen.into_iter().filter(|seq| seq % 5 == 0).collect();
        assert_eq!(found, finals);
    }

    #[test]
    fn a_ring_without_room_reports_every_event_as_dropped() {
        let mut ring = EventRing::default();
        let bounds = |bytes| (Instant::now(), Duration::from_secs(60), bytes);
        assert_eq!(ring.behind(0).map(Iterator::count), Some(0));
        ring.push(event(7, EventKind::Job), bounds(1));
        assert_eq!((ring.bytes, ring.newest()), (0, None));
        assert!(ring.behind(6).is_none());
        assert_eq!(ring.behind(7).map(Iterator::count), Some(0));
        ring.push(event(9, EventKind::Job), bounds(1 << 20));
        assert_eq!(ring.behind(8).map(Iterator::count), Some(1));
    }
}
