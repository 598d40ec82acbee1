//! Jobs left over by processes that ended without cleanup. They are found by name; those of this machine are ended, and
//! those whose owner is not visible from here are reported.

use std::sync::Arc;

use crate::error::Error;
use crate::gateway::Gateway;
use crate::job::Job;
use crate::name::JobName;
use crate::process::{Fate, Machine};
use crate::state::State;

/// A remaining job that was ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Flink's id.
    pub id: String,
    /// Name with its owner.
    pub name: JobName,
    /// Final state, or the reason why it still runs.
    pub outcome: Result<State, Error>,
}

/// Result of the search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOver {
    /// Jobs whose process has ended; they were ended.
    pub ended: Vec<Ended>,
    /// Jobs of ended processes that had ended before.
    pub over: Vec<JobName>,
    /// Jobs of processes not visible from here; they were not changed.
    pub elsewhere: Vec<(String, JobName)>,
}

impl Gateway {
    /// Ends the jobs whose process has ended; a failure is reported and does not affect other jobs.
    ///
    /// # Errors
    /// `Error` if jobs cannot be listed.
    pub fn end_left_over(self: &Arc<Gateway>, machine: &Machine) -> Result<LeftOver, Error> {
        let mut found = LeftOver::default();
        for shown in self.jobs()? {
            let Some(name) = JobName::parse(&shown.name) else { continue };
            match machine.fate(&name.owner) {
                Fate::Lives => {}
                Fate::Ended if shown.state.is_over() => found.over.push(name),
                Fate::Unseen if shown.state.is_over() => {}
                Fate::Unseen => found.elsewhere.push((shown.id, name)),
                Fate::Ended => {
                    let outcome = Job::known(self, &shown.id, &shown.name).and_then(|job| job.cancel());
                    found.ended.push(Ended { id: shown.id, name, outcome });
                }
            }
        }
        Ok(found)
    }
}
