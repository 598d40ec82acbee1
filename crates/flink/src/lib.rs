//! A client of Apache Flink: of its SQL Gateway, which runs SQL statements as jobs, and of its REST API, which reports
//! more about jobs and ends them if the gateway fails to. Blocking. Every request is limited in time and size, because
//! servers are not trusted; idempotent requests are retried within a time limit.
//!
//! [`SqlGateway`] is a session that is created again when it is lost, with everything [prepared](SqlGateway::prepare) in it.
//! [`FlinkJob`] is a job on the cluster, which outlives its session and its process. Its [job_name](JobName) identifies its
//! owner, and [`SqlGateway::end_left_over`] ends jobs whose process has ended. Flink's error texts of hundreds of lines
//! are reduced to a sentence ([`ErrorSummary`]).
//!
//! Queries, packets, and Kafka are not known here: statements are texts.

#![forbid(unsafe_code)]

mod address;
mod cluster;
mod error;
mod error_summary;
mod gateway;
mod http;
mod job;
mod job_name;
mod leftover_jobs;
mod options;
mod process;
mod progress;
mod rows;
mod session;
mod state;
mod stop;
mod version;

pub use cluster::{FlinkCluster, JobCheckpoints, SlotMemory};
pub use error::{FlinkError, StatementError};
pub use error_summary::{ErrorSummary, KnownCause, StatementPosition};
pub use gateway::SqlGateway;
pub use job::FlinkJob;
pub use job_name::{JobName, JobOwner};
pub use leftover_jobs::{EndedLeftover, LeftoverJobs};
pub use options::{FlinkAuthorization, GatewayOptions};
pub use process::{LocalMachine, OwnerFate};
pub use progress::FlinkProgress;
pub use rows::StatementRows;
pub use state::FlinkJobState;
pub use stop::DrainedJob;
pub use version::{FlinkVersion, OLDEST};
