//! Errors of Kafka, grouped by who can resolve them.

/// A message never contains the value of a property.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BusError {
    /// The build lacks the feature `kafka`.
    #[error(
        "Kafka is not in this build: use a package, or build without --no-default-features; see docs/install.md"
    )]
    NotBuilt,
    /// No answer, or not from a broker; possible reasons are wrong addresses, certificates, and passwords.
    #[error("no broker responds at {servers}: {reason}")]
    Unreachable {
        /// Addresses tried.
        servers: String,
        /// Result of the last attempt.
        reason: String,
    },
    /// An invalid property.
    #[error("Kafka's property `{name}`: {reason}")]
    Property {
        /// Name.
        name: String,
        /// Reason.
        reason: String,
    },
    /// The topic was deleted, or never created.
    #[error("topic `{0}` does not exist at the brokers")]
    NoTopic(String),
    /// The record at an offset was deleted, or never written.
    #[error(
        "topic `{topic}`, partition {partition}: the start position of the read is no longer stored ({reason})"
    )]
    Gone {
        /// Name of the topic.
        topic: String,
        /// Partition.
        partition: i32,
        /// Reason given by the brokers.
        reason: String,
    },
    /// The brokers reject a request.
    #[error("{doing}: {reason}")]
    Refused {
        /// The request.
        doing: String,
        /// Reason given by the brokers.
        reason: String,
    },
    /// Records were not acknowledged in time.
    #[error("{records} records are not acknowledged yet by the brokers at {servers}: {reason}")]
    NotFlushed {
        /// Number of records.
        records: u64,
        /// Broker addresses.
        servers: String,
        /// Last connection error.
        reason: String,
    },
    /// The operation was stopped while waiting.
    #[error("stopped while waiting for the brokers at {0}")]
    Stopped(String),
}
