//! Kafka connection by flags.

use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use bus::{BusError, Kafka};

use crate::cli::flags::bus::KafkaClientFlags;
use crate::process::failure::wrong_flags;
use crate::process::machine_name::machine_name;

/// Timeout of brokers.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Broker addresses and client settings.
pub fn of(brokers: &str, client: &KafkaClientFlags) -> anyhow::Result<Kafka> {
    let mut properties: Vec<String> = match &client.kafka_properties {
        Some(path) => in_file(path)?,
        None => Vec::new(),
    };
    properties.extend(
        client
            .properties
            .iter()
            .map(|(name, value)| format!("{name}={value}")),
    );
    Kafka::new(brokers, properties.iter().map(String::as_str)).map_err(|why| match why {
        BusError::Property { .. } | BusError::NotBuilt => wrong_flags(why.to_string()),
        other => other.into(),
    })
}

/// Host name in Kafka's records.
pub fn host_name() -> String {
    machine_name().unwrap_or_else(|| "unnamed".into())
}

/// A unique name of this run.
pub fn name_of_run() -> String {
    format!(
        "{}/{}/{:016x}",
        host_name(),
        std::process::id(),
        RandomState::new().hash_one(0)
    )
}

fn in_file(path: &Path) -> anyhow::Result<Vec<String>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(bus::properties_in(&text).map(str::to_owned).collect())
}
