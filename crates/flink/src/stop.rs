//! Ends a job: cancels it, or drains it, which flushes open windows and commits the sinks. Flink may report a running
//! job as stopped, so only the job's state counts, and the request is repeated, alternating between gateway and
//! cluster.

use std::thread;
use std::time::{Duration, Instant};

use crate::cluster::{FlinkCluster, StopStatus};
use crate::error::{FlinkError, StatementError};
use crate::error_summary::{ErrorSummary, KnownCause};
use crate::gateway::StatementRepeat;
use crate::job::FlinkJob;
use crate::state::FlinkJobState;

/// Time for a request to take effect before it is repeated.
const EFFECT: Duration = Duration::from_secs(5);
/// Polling interval of a stop.
const LOOK: Duration = Duration::from_millis(100);

/// Result of draining a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainedJob {
    /// Final state of the job.
    pub state: FlinkJobState,
    /// Savepoint written by Flink; its deletion is requested if the REST API is reachable.
    pub savepoint: Option<String>,
}

/// Recipient of a request to end a job.
#[derive(Clone, Copy)]
enum StopEndpoint {
    Gateway,
    Cluster,
}

impl FlinkJob {
    /// Cancels the job. Results that were not emitted are lost.
    ///
    /// # Errors
    /// [`FlinkError::StillRuns`] if it still runs after [`crate::GatewayOptions::ending`].
    pub fn cancel(&self) -> Result<FlinkJobState, FlinkError> {
        let end = Instant::now() + self.gateway.options().ending;
        let mut why = None;
        for way in [StopEndpoint::Gateway, StopEndpoint::Cluster]
            .into_iter()
            .cycle()
        {
            // One of both is sufficient; the job's state shows the result.
            why = match (way, self.gateway.cluster()) {
                (StopEndpoint::Cluster, Some(cluster)) => cluster.cancel(self.id()).err(),
                _ => self
                    .gateway
                    .run(
                        &format!("STOP JOB '{}'", self.id()),
                        &[],
                        StatementRepeat::Harmless,
                    )
                    .err(),
            }
            .or(why);
            match self.wait(EFFECT.min(left(end)), FlinkJobState::is_over) {
                Ok(state) if state.is_over() => return Ok(state),
                Ok(_) => {}
                Err(error) if error.is_passing() => why = Some(error),
                Err(error) => return Err(error),
            }
            if Instant::now() >= end {
                break;
            }
            // Avoids a busy loop if requests are rejected immediately.
            thread::sleep(LOOK);
        }
        Err(self.still_runs("canceled", why))
    }

    /// Processes all input, flushes, commits, and ends the job. Waits for a restarting job, because only a running one
    /// can be drained.
    ///
    /// # Errors
    /// [`FlinkError::StillRuns`] if it still runs after [`crate::GatewayOptions::ending`]; also if Flink has no directory for
    /// savepoints.
    pub fn stop_with_drain(&self) -> Result<DrainedJob, FlinkError> {
        let end = Instant::now() + self.gateway.options().ending;
        let mut why = None;
        let mut savepoint = None;
        for way in [StopEndpoint::Gateway, StopEndpoint::Cluster]
            .into_iter()
            .cycle()
        {
            match self.wait(left(end), |state| *state == FlinkJobState::Running) {
                Ok(state) if state.is_over() => {
                    self.forget_savepoint(savepoint.as_deref());
                    return Ok(DrainedJob { state, savepoint });
                }
                Ok(_) => {}
                Err(error) if error.is_passing() => why = Some(error),
                Err(error) => return Err(error),
            }
            if Instant::now() >= end {
                break;
            }
            let asked = match (way, self.gateway.cluster()) {
                (StopEndpoint::Cluster, Some(cluster)) => self.drained_by(cluster, end),
                _ => self.drained_by_gateway(),
            };
            match asked {
                Ok(path) => savepoint = path.or(savepoint),
                Err(FlinkError::Statement(error))
                    if error.said.cause == Some(KnownCause::NoSavepointDirectory) =>
                {
                    return Err(FlinkError::Statement(error));
                }
                Err(error) => why = Some(error),
            }
            // The savepoint is complete shortly before the job ends.
            let _ = self.wait(EFFECT.min(left(end)), |state| {
                !matches!(state, FlinkJobState::Running | FlinkJobState::Ending)
            });
            thread::sleep(LOOK);
        }
        Err(self.still_runs("drained", why))
    }

    fn drained_by_gateway(&self) -> Result<Option<String>, FlinkError> {
        let statement = format!("STOP JOB '{}' WITH SAVEPOINT WITH DRAIN", self.id());
        let rows = self
            .gateway
            .run(&statement, &[], StatementRepeat::Harmless)?;
        Ok(rows.first().map(str::to_owned))
    }

    fn drained_by(
        &self,
        cluster: &FlinkCluster,
        end: Instant,
    ) -> Result<Option<String>, FlinkError> {
        let request = cluster.drain(self.id())?;
        while Instant::now() < end {
            match cluster.drained(self.id(), &request)? {
                StopStatus::InProgress => thread::sleep(LOOK),
                StopStatus::Done(savepoint) => return Ok(Some(savepoint)),
                StopStatus::Failed(said) => return Err(self.refused(said)),
            }
        }
        Ok(None)
    }

    fn refused(&self, said: ErrorSummary) -> FlinkError {
        FlinkError::Statement(Box::new(StatementError::new(
            &format!("stop of job {}", self.id()),
            said,
        )))
    }

    /// Requests the deletion of the unused savepoint.
    fn forget_savepoint(&self, savepoint: Option<&str>) {
        if let Some((cluster, savepoint)) = self.gateway.cluster().zip(savepoint) {
            cluster.dispose(savepoint);
        }
    }

    fn still_runs(&self, what: &str, why: Option<FlinkError>) -> FlinkError {
        let seconds = self.gateway.options().ending.as_secs();
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        FlinkError::StillRuns(format!(
            "Flink's job {} ({}) is still running {seconds} s after it should have been {what}{why}",
            self.id(),
            self.name()
        ))
    }
}

fn left(end: Instant) -> Duration {
    end.saturating_duration_since(Instant::now())
}
