//! A job on the cluster. It goes on without its session, without the gateway, and without us.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::gateway::{Again, Gateway};
use crate::name::JobName;
use crate::progress::{self, Progress};
use crate::state::State;

/// Between two looks at a job that is waited for.
const LOOK: Duration = Duration::from_millis(100);
/// So long a job may take to show, when the gateway went away while it was handed over.
const SHOWING: Duration = Duration::from_secs(10);

/// See the module's text.
#[derive(Clone)]
pub struct Job {
    pub(crate) gateway: Arc<Gateway>,
    id: String,
    name: String,
}

/// A row of `SHOW JOBS`.
pub(crate) struct Shown {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) state: State,
}

impl Job {
    /// Starts the job of a statement (`INSERT INTO …`, `EXECUTE STATEMENT SET BEGIN … END`) under a name that no other job has. Where
    /// the gateway goes away in the midst of it, the job is looked for by that name.
    ///
    /// # Errors
    /// What Flink has against it; [`Error::Unclear`] where the job did not show: it may later, and [`Gateway::end_left_over`] finds it.
    pub fn start(gateway: &Arc<Gateway>, name: &JobName, statement: &str) -> Result<Job, Error> {
        let name = name.to_string();
        let of = |id: String| Job { gateway: Arc::clone(gateway), id, name: name.clone() };
        match gateway.run(statement, &[("pipeline.name", &name)], Again::Harmful) {
            Ok(rows) => match rows.job.or_else(|| rows.rows.first()?.first()?.clone()) {
                Some(id) if is_id(&id) => Ok(of(id)),
                _ => Err(Error::Foreign("the gateway has started no job of that statement".into())),
            },
            Err(Error::Unclear(why)) => {
                let begun = Instant::now();
                loop {
                    let found = gateway.jobs()?.into_iter().find(|job| job.name == name);
                    match found {
                        Some(found) => return Ok(of(found.id)),
                        None if begun.elapsed() > SHOWING => return Err(Error::Unclear(why)),
                        None => thread::sleep(LOOK),
                    }
                }
            }
            Err(error) => Err(error),
        }
    }

    /// A job that was started before, by its id.
    ///
    /// # Errors
    /// Where that is no id.
    pub fn known(gateway: &Arc<Gateway>, id: &str, name: &str) -> Result<Job, Error> {
        match is_id(id) {
            true => Ok(Job { gateway: Arc::clone(gateway), id: id.to_owned(), name: name.to_owned() }),
            false => Err(Error::WrongUse(format!("{id:?} is no id of a job, which has 32 hex digits"))),
        }
    }

    /// By which Flink knows it.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its name, as Flink shows it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How it does: by Flink's REST API if that answers, by the gateway otherwise.
    ///
    /// # Errors
    /// Where neither answers.
    pub fn state(&self) -> Result<State, Error> {
        if let Some(cluster) = self.gateway.cluster()
            && let Ok(Some(state)) = cluster.state(&self.id)
        {
            return Ok(state);
        }
        let shown = self.gateway.jobs()?.into_iter().find(|job| job.id == self.id);
        Ok(shown.map_or(State::Gone, |job| job.state))
    }

    /// Waits for a wanted state or the end of the job; returns the state after `patience` at the latest.
    ///
    /// # Errors
    /// If neither the gateway nor the cluster can be reached.
    pub fn wait(&self, patience: Duration, mut wanted: impl FnMut(&State) -> bool) -> Result<State, Error> {
        let begun = Instant::now();
        loop {
            let state = self.state()?;
            if wanted(&state) || state.is_over() || begun.elapsed() + LOOK > patience {
                return Ok(state);
            }
            thread::sleep(LOOK);
        }
    }

    /// Its progress; empty without Flink's REST API or without figures (Flink collects them every ten seconds by
    /// default, `metrics.fetcher.update-interval`).
    ///
    /// # Errors
    /// If there is no answer.
    pub fn progress(&self) -> Result<Progress, Error> {
        match self.gateway.cluster() {
            Some(cluster) => progress::of(cluster, &self.id),
            None => Ok(Progress::default()),
        }
    }
}

impl Gateway {
    /// All jobs that the cluster knows, also those that ended not long ago.
    pub(crate) fn jobs(&self) -> Result<Vec<Shown>, Error> {
        let rows = self.run("SHOW JOBS", &[], Again::Harmless).map_err(|error| match error {
            // Nothing is wrong with the statement.
            Error::Statement(error) => {
                Error::Unreachable(format!("the gateway cannot ask its cluster: {}", error.said))
            }
            error => error,
        })?;
        let (Some(id), Some(name), Some(state)) =
            (rows.column("job id"), rows.column("job name"), rows.column("status"))
        else {
            return Err(Error::Foreign("the gateway shows jobs without id, name and status".into()));
        };
        let shown = |row: &Vec<Option<String>>| {
            let text = |column: usize| row.get(column)?.clone();
            let id = text(id).filter(|id| is_id(id))?;
            Some(Shown { id, name: text(name)?, state: State::of(&text(state)?) })
        };
        Ok(rows.rows.iter().filter_map(shown).collect())
    }
}

/// An id goes into statements and paths: nothing else may be in it.
fn is_id(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit())
}
