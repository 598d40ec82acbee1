//! The end of a job: cancelled, or drained, which flushes open windows and commits what sinks hold. Flink may say that a job was stopped
//! that goes on; so nothing is believed but the job's state, and it is asked again, by turns of the gateway and of the cluster.

use std::thread;
use std::time::{Duration, Instant};

use crate::cluster::{Cluster, Stop};
use crate::error::{Error, StatementError};
use crate::gateway::Again;
use crate::job::Job;
use crate::said::{Cause, Said};
use crate::state::State;

/// So long it takes effect to be asked to end, before it is asked again.
const EFFECT: Duration = Duration::from_secs(5);
/// Between two looks at how a stop goes.
const LOOK: Duration = Duration::from_millis(100);

/// How a job was drained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Its state, which is over.
    pub state: State,
    /// The savepoint that Flink wrote for it; where Flink's REST API can be asked, it is being deleted.
    pub savepoint: Option<String>,
}

/// Whom a job's end is asked of.
#[derive(Clone, Copy)]
enum Way {
    Gateway,
    Cluster,
}

impl Job {
    /// Ends it now. What it has not given yet is lost.
    ///
    /// # Errors
    /// [`Error::StillRuns`] where it does, when [`crate::Options::ending`] is over.
    pub fn cancel(&self) -> Result<State, Error> {
        let end = Instant::now() + self.gateway.options().ending;
        let mut why = None;
        for way in [Way::Gateway, Way::Cluster].into_iter().cycle() {
            // One of both is enough; what has become of it is seen by the job's state.
            why = match (way, self.gateway.cluster()) {
                (Way::Cluster, Some(cluster)) => cluster.cancel(self.id()).err(),
                _ => self.gateway.run(&format!("STOP JOB '{}'", self.id()), &[], Again::Harmless).err(),
            }
            .or(why);
            match self.wait(EFFECT.min(left(end)), State::is_over) {
                Ok(state) if state.is_over() => return Ok(state),
                Ok(_) => {}
                Err(error) if error.is_passing() => why = Some(error),
                Err(error) => return Err(error),
            }
            if Instant::now() >= end {
                break;
            }
            // Whoever refuses at once would be asked without a pause.
            thread::sleep(LOOK);
        }
        Err(self.still_runs("cancelled", why))
    }

    /// Has it take in what there is, flush all it holds, commit, and end. A job that restarts is waited for, since only one at work can
    /// be drained.
    ///
    /// # Errors
    /// [`Error::StillRuns`] where it does, when [`crate::Options::ending`] is over; where Flink has no directory for savepoints.
    pub fn stop_with_drain(&self) -> Result<Drained, Error> {
        let end = Instant::now() + self.gateway.options().ending;
        let mut why = None;
        let mut savepoint = None;
        for way in [Way::Gateway, Way::Cluster].into_iter().cycle() {
            match self.wait(left(end), |state| *state == State::Running) {
                Ok(state) if state.is_over() => {
                    self.forget_savepoint(savepoint.as_deref());
                    return Ok(Drained { state, savepoint });
                }
                Ok(_) => {}
                Err(error) if error.is_passing() => why = Some(error),
                Err(error) => return Err(error),
            }
            if Instant::now() >= end {
                break;
            }
            let asked = match (way, self.gateway.cluster()) {
                (Way::Cluster, Some(cluster)) => self.drained_by(cluster, end),
                _ => self.drained_by_gateway(),
            };
            match asked {
                Ok(path) => savepoint = path.or(savepoint),
                Err(Error::Statement(error)) if error.said.cause == Some(Cause::NoSavepointDirectory) => {
                    return Err(Error::Statement(error));
                }
                Err(error) => why = Some(error),
            }
            // The savepoint is complete a moment before the job is over.
            let _ =
                self.wait(EFFECT.min(left(end)), |state| !matches!(state, State::Running | State::Ending));
            thread::sleep(LOOK);
        }
        Err(self.still_runs("drained", why))
    }

    fn drained_by_gateway(&self) -> Result<Option<String>, Error> {
        let statement = format!("STOP JOB '{}' WITH SAVEPOINT WITH DRAIN", self.id());
        let rows = self.gateway.run(&statement, &[], Again::Harmless)?;
        Ok(rows.first().map(str::to_owned))
    }

    fn drained_by(&self, cluster: &Cluster, end: Instant) -> Result<Option<String>, Error> {
        let request = cluster.drain(self.id())?;
        while Instant::now() < end {
            match cluster.drained(self.id(), &request)? {
                Stop::InProgress => thread::sleep(LOOK),
                Stop::Done(savepoint) => return Ok(Some(savepoint)),
                Stop::Failed(said) => return Err(self.refused(said)),
            }
        }
        Ok(None)
    }

    fn refused(&self, said: Said) -> Error {
        Error::Statement(Box::new(StatementError::new(&format!("stop of job {}", self.id()), said)))
    }

    /// Nobody will start from it.
    fn forget_savepoint(&self, savepoint: Option<&str>) {
        if let Some((cluster, savepoint)) = self.gateway.cluster().zip(savepoint) {
            cluster.dispose(savepoint);
        }
    }

    fn still_runs(&self, what: &str, why: Option<Error>) -> Error {
        let seconds = self.gateway.options().ending.as_secs();
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        Error::StillRuns(format!(
            "Flink's job {} ({}) still runs {seconds} s after it was to be {what}{why}",
            self.id(),
            self.name()
        ))
    }
}

fn left(end: Instant) -> Duration {
    end.saturating_duration_since(Instant::now())
}
