//! A job on the cluster, independent of its session, the gateway, and this process.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::FlinkError;
use crate::gateway::{SqlGateway, StatementRepeat};
use crate::job_name::JobName;
use crate::progress::{self, FlinkProgress};
use crate::state::FlinkJobState;

/// Polling interval.
const LOOK: Duration = Duration::from_millis(100);
/// Maximum time for a job to appear after the connection was lost during its submission.
const SHOWING: Duration = Duration::from_secs(10);

/// See the module documentation.
#[derive(Clone)]
pub struct FlinkJob {
    pub(crate) gateway: Arc<SqlGateway>,
    id: String,
    name: String,
}

/// A row of `SHOW JOBS`.
pub(crate) struct ListedJob {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) state: FlinkJobState,
}

impl FlinkJob {
    /// Starts the job of a statement (`INSERT INTO …`, `EXECUTE STATEMENT SET BEGIN … END`) under a unique name, by
    /// which it is found if the connection is lost during the request.
    ///
    /// # Errors
    /// `FlinkError::Statement` if Flink rejects it; [`FlinkError::Unclear`] if the job did not appear: it may later, and
    /// [`SqlGateway::end_left_over`] finds it.
    pub fn start(
        gateway: &Arc<SqlGateway>,
        name: &JobName,
        statement: &str,
    ) -> Result<FlinkJob, FlinkError> {
        let name = name.to_string();
        let of = |id: String| FlinkJob {
            gateway: Arc::clone(gateway),
            id,
            name: name.clone(),
        };
        match gateway.run(
            statement,
            &[("pipeline.name", &name)],
            StatementRepeat::Harmful,
        ) {
            Ok(rows) => match rows.job.or_else(|| rows.rows.first()?.first()?.clone()) {
                Some(id) if is_id(&id) => Ok(of(id)),
                _ => Err(FlinkError::Foreign(
                    "the gateway has not started a job for that statement".into(),
                )),
            },
            Err(FlinkError::Unclear(why)) => {
                let begun = Instant::now();
                loop {
                    let found = gateway.jobs()?.into_iter().find(|job| job.name == name);
                    match found {
                        Some(found) => return Ok(of(found.id)),
                        None if begun.elapsed() > SHOWING => return Err(FlinkError::Unclear(why)),
                        None => thread::sleep(LOOK),
                    }
                }
            }
            Err(error) => Err(error),
        }
    }

    /// An existing job, by its id.
    ///
    /// # Errors
    /// `FlinkError::WrongUse` for an invalid id.
    pub fn known(gateway: &Arc<SqlGateway>, id: &str, name: &str) -> Result<FlinkJob, FlinkError> {
        if is_id(id) {
            Ok(FlinkJob {
                gateway: Arc::clone(gateway),
                id: id.to_owned(),
                name: name.to_owned(),
            })
        } else {
            Err(FlinkError::WrongUse(format!(
                "{id:?} is not a job id, which has 32 hex digits"
            )))
        }
    }

    /// Flink's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Name in Flink.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// State, from the REST API if available, otherwise from the gateway.
    ///
    /// # Errors
    /// `FlinkError::Unreachable` if neither answers.
    pub fn state(&self) -> Result<FlinkJobState, FlinkError> {
        if let Some(cluster) = self.gateway.cluster()
            && let Ok(Some(state)) = cluster.state(&self.id)
        {
            return Ok(state);
        }
        let shown = self
            .gateway
            .jobs()?
            .into_iter()
            .find(|job| job.id == self.id);
        Ok(shown.map_or(FlinkJobState::Gone, |job| job.state))
    }

    /// Waits for a wanted state or the end of the job; returns the state after `patience` at the latest.
    ///
    /// # Errors
    /// If neither the gateway nor the cluster can be reached.
    pub fn wait(
        &self,
        patience: Duration,
        mut wanted: impl FnMut(&FlinkJobState) -> bool,
    ) -> Result<FlinkJobState, FlinkError> {
        let begun = Instant::now();
        loop {
            let state = self.state()?;
            if wanted(&state) || state.is_over() || begun.elapsed() + LOOK > patience {
                return Ok(state);
            }
            thread::sleep(LOOK);
        }
    }

    /// Progress of the job; empty without the REST API or metrics (Flink collects them every ten seconds by default,
    /// `metrics.fetcher.update-interval`).
    ///
    /// # Errors
    /// `FlinkError::Unreachable` if there is no answer.
    pub fn progress(&self) -> Result<FlinkProgress, FlinkError> {
        match self.gateway.cluster() {
            Some(cluster) => progress::of(cluster, &self.id),
            None => Ok(FlinkProgress::default()),
        }
    }
}

impl SqlGateway {
    /// All jobs known to the cluster, including recently ended ones.
    pub(crate) fn jobs(&self) -> Result<Vec<ListedJob>, FlinkError> {
        let rows = self
            .run("SHOW JOBS", &[], StatementRepeat::Harmless)
            .map_err(|error| match error {
                // The error is not in the statement.
                FlinkError::Statement(error) => FlinkError::Unreachable(format!(
                    "the gateway cannot query its cluster: {}",
                    error.said
                )),
                error => error,
            })?;
        let (Some(id), Some(name), Some(state)) = (
            rows.column("job id"),
            rows.column("job name"),
            rows.column("status"),
        ) else {
            return Err(FlinkError::Foreign(
                "the gateway shows jobs without id, name and status".into(),
            ));
        };
        let shown = |row: &Vec<Option<String>>| {
            let text = |column: usize| row.get(column)?.clone();
            let id = text(id).filter(|id| is_id(id))?;
            Some(ListedJob {
                id,
                name: text(name)?,
                state: FlinkJobState::of(&text(state)?),
            })
        };
        Ok(rows.rows.iter().filter_map(shown).collect())
    }
}

/// An id is used in statements and paths, so only its characters are allowed.
fn is_id(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit())
}
