//! Cleanup after a crash: Flink jobs and their output topics.

use std::sync::Arc;

use bus::{BusError, TopicAdmin};
use flink::{LocalMachine, SqlGateway};
use runner::bus::merged;

use crate::process::output;

/// Ends the jobs left by crashed processes, and deletes their output topics.
pub fn end(
    gateway: &Arc<SqlGateway>,
    machine: &LocalMachine,
    there: &TopicAdmin,
) -> anyhow::Result<()> {
    let found = gateway.end_left_over(machine)?;
    for ended in &found.ended {
        output::complain(&format!(
            "note: canceled Flink's job {}, left by a netalytics process that has ended",
            ended.name
        ));
    }
    // A job may have ended by itself after the crash.
    let gone = found
        .ended
        .iter()
        .map(|ended| &ended.name)
        .chain(&found.over);
    let prefixes: Vec<String> = gone.map(|name| merged(&name.job)).collect();
    if prefixes.is_empty() {
        Ok(())
    } else {
        delete_all(there, &prefixes)
    }
}

/// Deletes the topics with these name prefixes.
pub fn delete_all(there: &TopicAdmin, prefixes: &[String]) -> anyhow::Result<()> {
    let topics = there.list()?.into_keys();
    let left: Vec<String> = topics
        .filter(|topic| prefixes.iter().any(|prefix| topic.starts_with(prefix)))
        .collect();
    delete(there, &left);
    Ok(())
}

/// Deletes topics, and reports failures.
pub fn delete<'t>(there: &TopicAdmin, topics: impl IntoIterator<Item = &'t String>) {
    for topic in topics {
        let Err(why) = there.delete(topic) else {
            continue;
        };
        output::complain(&format!("note: cannot delete topic {topic}: {why}"));
        if matches!(why, BusError::Unreachable { .. }) {
            // The brokers are unreachable, so the other topics cannot be deleted, either.
            return;
        }
    }
}
