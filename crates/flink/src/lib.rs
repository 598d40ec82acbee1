//! A client of Apache Flink: of its SQL Gateway, where jobs are made of SQL statements, and of its own REST API, which tells more of
//! how they do and ends them where the gateway's way does nothing. Blocking; every request is bounded in time and bytes, since who
//! answers may be anybody; what is safe to ask twice is asked again until somebody's patience ends.
//!
//! [`Gateway`] is a session that is made anew when it died, with all that was [prepared](Gateway::prepare) in it. [`Job`] is a job on
//! the cluster, which lives without its session and without us; so its [name](JobName) says whose it is, and
//! [`Gateway::end_left_over`] ends those whose process is gone. What Flink says in hundreds of lines becomes a sentence
//! ([`Said`]).
//!
//! It knows nothing of queries, packets or Kafka: statements are texts.

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
