//! How a job does, asked aside: whoever answers may take a minute, and results come meanwhile.

use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use flink::{Error, Job, State};

/// So often a job is looked at.
const EVERY: Duration = Duration::from_millis(300);
/// So often it is asked what was dropped; Flink itself gathers such figures every ten seconds.
const FIGURES_EVERY: Duration = Duration::from_secs(2);

/// See the module's text.
pub struct Watch {
    seen: Receiver<Seen>,
}

/// What was seen.
pub enum Seen {
    /// How it does.
    State(State),
    /// So many rows were dropped by now, as they came too late.
    Late(u64),
    /// Nobody could be asked.
    Nobody(Error),
}

impl Watch {
    /// Looks until this is dropped.
    pub fn start(job: &Job) -> std::io::Result<Watch> {
        let (tell, seen) = channel();
        let job = job.clone();
        let mut figures = Instant::now();
        let watch = move || {
            loop {
                if figures.elapsed() >= FIGURES_EVERY {
                    figures = Instant::now();
                    let late = job.progress().ok().and_then(|progress| progress.rows_late);
                    if late.is_some_and(|late| tell.send(Seen::Late(late)).is_err()) {
                        return;
                    }
                }
                let seen = job.state().map_or_else(Seen::Nobody, Seen::State);
                if tell.send(seen).is_err() {
                    return;
                }
                std::thread::sleep(EVERY);
            }
        };
        std::thread::Builder::new().name("job".into()).spawn(watch)?;
        Ok(Watch { seen })
    }

    /// What was seen since, the oldest first.
    pub fn next(&self) -> Option<Seen> {
        match self.seen.try_recv() {
            Ok(seen) => Some(seen),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => None,
        }
    }
}
