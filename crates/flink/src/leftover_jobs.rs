//! Jobs left over by processes that ended without cleanup. They are found by name; those of this machine are ended, and
//! those whose owner is not visible from here are reported.

use std::sync::Arc;

use crate::error::FlinkError;
use crate::gateway::SqlGateway;
use crate::job::FlinkJob;
use crate::job_name::JobName;
use crate::process::{LocalMachine, OwnerFate};
use crate::state::FlinkJobState;

/// A remaining job that was ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedLeftover {
    /// Flink's id.
    pub id: String,
    /// Name with its owner.
    pub name: JobName,
    /// Final state, or the reason why the job still runs.
    pub outcome: Result<FlinkJobState, FlinkError>,
}

/// Result of the search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftoverJobs {
    /// Jobs that still ran although their process had ended; canceled.
    pub ended: Vec<EndedLeftover>,
    /// Jobs that had ended, as their process had.
    pub over: Vec<JobName>,
    /// Jobs of processes that are not visible from this host; not changed.
    pub elsewhere: Vec<(String, JobName)>,
}

impl SqlGateway {
    /// Ends the jobs whose process has ended; a failure is reported and does not affect other jobs.
    ///
    /// # Errors
    /// `FlinkError` if jobs cannot be listed.
    pub fn end_left_over(
        self: &Arc<SqlGateway>,
        machine: &LocalMachine,
    ) -> Result<LeftoverJobs, FlinkError> {
        let mut found = LeftoverJobs::default();
        for shown in self.jobs()? {
            let Some(name) = JobName::parse(&shown.name) else {
                continue;
            };
            match machine.fate(&name.owner) {
                OwnerFate::Lives => {}
                OwnerFate::Ended if shown.state.is_over() => found.over.push(name),
                OwnerFate::Unseen if shown.state.is_over() => {}
                OwnerFate::Unseen => found.elsewhere.push((shown.id, name)),
                OwnerFate::Ended => {
                    let outcome =
                        FlinkJob::known(self, &shown.id, &shown.name).and_then(|job| job.cancel());
                    found.ended.push(EndedLeftover {
                        id: shown.id,
                        name,
                        outcome,
                    });
                }
            }
        }
        Ok(found)
    }
}
