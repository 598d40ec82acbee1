//! Watchers of running jobs: clients, each with a queue of events, and delivery threads.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, Weak};
use std::time::Instant;

use serde_json::{Value, json};

use super::live::Live;
use super::{Hub, lock};
use crate::bell::Bell;
use crate::events::{Event, Kind, Queue};
use crate::job::JobId;
use crate::unkept::Unkept;

/// Events seen by a new client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// None.
    Nothing,
    /// Up to this one.
    UpTo(u64),
    /// Events of another incarnation of the server, or an invalid id.
    OtherLife,
}

impl Hub {
    /// Registers `bell` to be woken when rows of a job arrive, or it ends.
    pub(crate) fn wake(&self, job: JobId, bell: &Arc<Bell>) {
        lock(&self.bells).push((job, Arc::downgrade(bell)));
    }

    pub(super) fn ring(&self, job: JobId) {
        let mut bells = lock(&self.bells);
        bells.retain(|(_, bell)| bell.strong_count() > 0);
        bells
            .iter()
            .filter(|(of, _)| *of == job)
            .filter_map(|(_, bell)| bell.upgrade())
            .for_each(|b| b.ring());
    }

    /// Whether a job has watchers.
    pub(crate) fn is_watched(&self, job: JobId) -> bool {
        lock(&self.clients).iter().filter_map(Weak::upgrade).any(|client| client.jobs.contains(&job.0))
    }

    pub(super) fn tell(&self, live: &mut Live, job: JobId, kind: Kind, data: &Value) {
        let seq = self.seq.fetch_add(1, Ordering::Relaxed) + 1;
        let event = Event::new(seq, kind, data);
        let bounds = (Instant::now(), self.limits.ring_time, self.limits.ring_bytes);
        live.ring.push(event.clone(), bounds);
        let mut clients = lock(&self.clients);
        clients.retain(|client| client.strong_count() > 0);
        for client in clients.iter().filter_map(Weak::upgrade).filter(|client| client.jobs.contains(&job.0)) {
            client.push(&event);
        }
    }

    /// Adds a client. Its queue starts with the events after those it has seen, if still available, otherwise with a
    /// snapshot; later events follow.
    pub(crate) fn watch(&self, queue: &Arc<Queue>, seen: Seen) -> Result<(), Unkept> {
        // Locked in order of their numbers, as everywhere, to avoid deadlock.
        let jobs: Vec<_> = queue.jobs.iter().map(|id| self.live(JobId(*id))).collect::<Result<_, _>>()?;
        let locked: Vec<MutexGuard<'_, Live>> = jobs.iter().map(|live| lock(live)).collect();
        let replayed = match seen {
            Seen::UpTo(seq) => locked
                .iter()
                .map(|live| Some(live.ring.behind(seq)?.collect::<Vec<_>>()))
                .collect::<Option<Vec<_>>>(),
            Seen::Nothing | Seen::OtherLife => None,
        };
        match replayed {
            Some(events) => {
                let mut events: Vec<_> = events.into_iter().flatten().collect();
                events.sort_by_key(|event| event.seq);
                events.into_iter().for_each(|event| queue.begin(event));
            }
            None => {
                let seq = self.seq.load(Ordering::Relaxed);
                if let Seen::UpTo(_) | Seen::OtherLife = seen {
                    let reason = match seen {
                        Seen::OtherLife => "the server was started again",
                        _ => "the events between are not kept any more",
                    };
                    queue.begin(Event::new(seq, Kind::Gap, &json!({ "reason": reason })));
                }
                for (id, live) in queue.jobs.iter().zip(&locked) {
                    queue.begin(Event::new(seq, Kind::Snapshot, &live.snapshot(JobId(*id))));
                }
            }
        }
        lock(&self.clients).push(Arc::downgrade(queue));
        Ok(())
    }

    /// Ends all streams.
    pub(crate) fn end_streams(&self) {
        lock(&self.clients).iter().filter_map(Weak::upgrade).for_each(|client| client.end());
    }
}
