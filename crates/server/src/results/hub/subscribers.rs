//! Watchers of running jobs: clients, each with a queue of events, and delivery threads.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, Weak};
use std::time::Instant;

use serde_json::{Value, json};

use super::live_job::LiveJob;
use super::{ResultHub, lock};
use crate::job::JobId;
use crate::results::events::{ClientQueue, EventKind, LiveEvent};
use crate::results::notifier::DeliveryNotifier;
use crate::store::persist_error::PersistError;

/// Events seen by a new client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResumePoint {
    /// None.
    Nothing,
    /// Up to this one.
    UpTo(u64),
    /// Events of another incarnation of the server, or an invalid id.
    OtherLife,
}

impl ResultHub {
    /// Registers `bell` to be woken when rows of a job arrive, or it ends.
    pub(crate) fn add_notifier(&self, job: JobId, bell: &Arc<DeliveryNotifier>) {
        lock(&self.bells).push((job, Arc::downgrade(bell)));
    }

    pub(super) fn wake(&self, job: JobId) {
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
        lock(&self.clients)
            .iter()
            .filter_map(Weak::upgrade)
            .any(|client| client.jobs.contains(&job))
    }

    pub(super) fn notify(&self, live: &mut LiveJob, job: JobId, kind: EventKind, data: &Value) {
        let seq = self.seq.fetch_add(1, Ordering::Relaxed) + 1;
        let event = LiveEvent::new(seq, kind, data);
        let bounds = (
            Instant::now(),
            self.limits.ring_time,
            self.limits.ring_bytes,
        );
        live.ring.push(event.clone(), bounds);
        let mut clients = lock(&self.clients);
        clients.retain(|client| client.strong_count() > 0);
        for client in clients
            .iter()
            .filter_map(Weak::upgrade)
            .filter(|client| client.jobs.contains(&job))
        {
            client.push(&event);
        }
    }

    /// Adds a client. Its queue starts with the events after those it has seen, if still available, otherwise with a
    /// snapshot; later events follow.
    pub(crate) fn watch(
        &self,
        queue: &Arc<ClientQueue>,
        seen: ResumePoint,
    ) -> Result<(), PersistError> {
        // Locked in order of their numbers, as everywhere, to avoid deadlock.
        let jobs: Vec<_> = queue
            .jobs
            .iter()
            .map(|id| self.live(*id))
            .collect::<Result<_, _>>()?;
        let locked: Vec<MutexGuard<'_, LiveJob>> = jobs.iter().map(|live| lock(live)).collect();
        let replayed = match seen {
            ResumePoint::UpTo(seq) => locked
                .iter()
                .map(|live| Some(live.ring.behind(seq)?.collect::<Vec<_>>()))
                .collect::<Option<Vec<_>>>(),
            ResumePoint::Nothing | ResumePoint::OtherLife => None,
        };
        match replayed {
            Some(events) => {
                let mut events: Vec<_> = events.into_iter().flatten().collect();
                events.sort_by_key(|event| event.seq);
                events.into_iter().for_each(|event| queue.begin(event));
            }
            None => {
                let seq = self.seq.load(Ordering::Relaxed);
                if let ResumePoint::UpTo(_) | ResumePoint::OtherLife = seen {
                    let reason = match seen {
                        ResumePoint::OtherLife => "the server was restarted",
                        _ => "the events in between are no longer stored",
                    };
                    queue.begin(LiveEvent::new(
                        seq,
                        EventKind::Gap,
                        &json!({ "reason": reason }),
                    ));
                }
                for (id, live) in queue.jobs.iter().zip(&locked) {
                    queue.begin(LiveEvent::new(
                        seq,
                        EventKind::Snapshot,
                        &live.snapshot(*id),
                    ));
                }
            }
        }
        lock(&self.clients).push(Arc::downgrade(queue));
        Ok(())
    }

    /// Ends all streams.
    pub(crate) fn end_streams(&self) {
        lock(&self.clients)
            .iter()
            .filter_map(Weak::upgrade)
            .for_each(|client| client.end());
    }
}
