//! A client of Apache Flink: of its SQL Gateway, which runs SQL statements as jobs, and of its REST API, which reports
//! more about jobs and ends them if the gateway fails to. Blocking. Every request is limited in time and size, because
//! servers are not trusted; idempotent requests are retried within a time limit.
//!
//! [`Gateway`] is a session that is created again when it is lost, with everything [prepared](Gateway::prepare) in it.
//! [`Job`] is a job on the cluster, which outlives its session and its process. Its [name](JobName) identifies its
//! owner, and [`Gateway::end_left_over`] ends jobs whose process has ended. Flink's error texts of hundreds of lines
//! are reduced to a sentence ([`Said`]).
//!
//! Queries, packets, and Kafka are not known here: statements are texts.

#![forbid(unsafe_code)]

mod address;
mod cluster;
mod ending;
mod error;
mod gateway;
mod http;
mod job;
mod left_over;
mod name;
mod options;
mod process;
mod progress;
mod rows;
mod said;
mod session;
mod state;
mod version;

pub use cluster::{Checkpoints, Cluster, SlotMemory};
pub use ending::Drained;
pub use error::{Error, StatementError};
pub use gateway::Gateway;
pub use job::Job;
pub use left_over::{Ended, LeftOver};
pub use name::{JobName, Owner};
pub use options::{Authorization, Options};
pub use process::{Fate, Machine};
pub use progress::Progress;
pub use rows::Rows;
pub use said::{Cause, Place, Said};
pub use state::State;
pub use version::{OLDEST, Version};
