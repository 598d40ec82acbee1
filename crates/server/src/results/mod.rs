//! Results of jobs: commit of rows, live rows and their subscribers, and delivery of committed rows to outlets.

pub(crate) mod commit_participant;
pub(crate) mod coverage;
pub(crate) mod delivery;
pub(crate) mod events;
pub(crate) mod hub;
pub(crate) mod notifier;
