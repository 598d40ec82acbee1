//! Requests about jobs: submission, permissions, quotas, leases, stop; their alert rules and actions; enrollment of
//! agents. Without sockets.

pub(crate) mod action_requests;
pub(crate) mod audit_trail;
pub(crate) mod enrollment;
pub(crate) mod job_requests;
mod leases;
pub(crate) mod limits;
pub(crate) mod permissions;
pub(crate) mod query_checker;
pub(crate) mod rule_requests;
pub(crate) mod trusted_proxies;
