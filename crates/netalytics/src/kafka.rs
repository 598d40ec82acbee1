//! Kafka as the flags name it.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use bus::{Error, Kafka};

use crate::failure::wrong_flags;
use crate::flags::bus::KafkaClientFlags;

/// How long brokers may take to answer.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Its brokers, and how they are spoken to.
pub fn of(brokers: &str, client: &KafkaClientFlags) -> anyhow::Result<Kafka> {
    let mut properties: Vec<String> = match &client.kafka_properties {
        Some(path) => in_file(path)?,
        None => Vec::new(),
    };
    properties.extend(client.properties.iter().map(|(name, value)| format!("{name}={value}")));
    Kafka::new(brokers, properties.iter().map(String::as_str)).map_err(|why| match why {
        Error::Property { .. } => wrong_flags(why.to_string()),
        other => other.into(),
    })
}

fn in_file(path: &Path) -> anyhow::Result<Vec<String>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Kafka::properties_in(&text).map(str::to_owned).collect())
}
