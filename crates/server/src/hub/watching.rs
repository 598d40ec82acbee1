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

/// What a client that comes has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Nothing.
    Nothing,
    /// Events up to this one.
    UpTo(u64),
    /// Events of another incarnation of the server, or of none.
    OtherLife,
}

impl Hub {
    /// Wakes `bell` from now on when there are rows of a job, or it has ended.
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

    /// A client comes: behind what it has seen, if that is still here, else with how things stand. Its queue begins with
    /// what it lacks, and everything that comes later is put behind that.
    pub(crate) fn watch(&self, queue: &Arc<Queue>, seen: Seen) -> Result<(), Unkept> {
        // In the order of their numbers, as everybody who takes several.
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
