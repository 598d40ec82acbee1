//! Requests about jobs: submission, permissions, quotas, leases, stop; their alert rules and actions; enrolment of
//! agents. Without sockets.

mod action_requests;
pub(crate) mod enrolment;
mod leases;
pub(crate) mod limits;
pub(crate) mod rule_requests;
pub(crate) mod service;
pub(crate) mod trusted_proxies;
