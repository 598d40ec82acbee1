//! How a job does, asked aside: whoever answers may take a minute, and results come meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use bus::Topics;
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
    /// What it reads was deleted, which Flink does not notice.
    Deleted(String),
}

impl Watch {
    /// Looks until this is dropped.
    pub fn start(job: &Job, there: &Arc<Topics>, topics: Vec<String>) -> std::io::Result<Watch> {
        let (tell, seen) = channel();
        let (job, there, mut ends) = (job.clone(), there.clone(), BTreeMap::new());
        let mut figures = Instant::now();
        let watch = move || {
            loop {
                if figures.elapsed() >= FIGURES_EVERY {
                    figures = Instant::now();
                    let late = job.progress().ok().and_then(|progress| progress.rows_late);
                    let gone = topics.iter().find(|topic| is_gone(&there, topic, &mut ends));
                    let seen = late.map(Seen::Late).into_iter().chain(gone.cloned().map(Seen::Deleted));
                    if seen.map(|seen| tell.send(seen)).any(|sent| sent.is_err()) {
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
        self.seen.try_recv().ok()
    }
}

/// Whether a topic was deleted since it was asked for last. One that brokers have made anew by themselves is shorter than it was.
fn is_gone(there: &Topics, topic: &str, ends: &mut BTreeMap<String, Vec<i64>>) -> bool {
    match there.offsets(topic) {
        Ok(ranges) => {
            let now: Vec<i64> = ranges.iter().map(|range| range.end).collect();
            let before = ends.insert(topic.to_owned(), now.clone()).unwrap_or_default();
            before.len() > now.len() || before.iter().zip(&now).any(|(before, now)| before > now)
        }
        Err(error) => matches!(error, bus::Error::NoTopic(_)),
    }
}
