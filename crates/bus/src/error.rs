//! What goes wrong with Kafka, sorted by who must act.

/// Said in a sentence; no value of a property is in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No answer, or not from a broker; wrong addresses, certificates, and passwords are possible reasons.
    #[error("no broker answers at {servers}: {reason}")]
    Unreachable {
        /// The addresses that were tried.
        servers: String,
        /// What the last attempt came to.
        reason: String,
    },
    /// A property that cannot be given so.
    #[error("Kafka's property `{name}`: {reason}")]
    Property {
        /// Its name.
        name: String,
        /// Why not.
        reason: String,
    },
    /// It was deleted, or never made.
    #[error("there is no topic `{0}` at the brokers")]
    NoTopic(String),
    /// What is at an offset has been deleted, or was never written.
    #[error(
        "topic `{topic}`, partition {partition}: nothing is kept from where reading was to begin ({reason})"
    )]
    Gone {
        /// The topic.
        topic: String,
        /// Its partition.
        partition: i32,
        /// What the brokers say.
        reason: String,
    },
    /// The brokers answer, and refuse.
    #[error("{doing}: {reason}")]
    Refused {
        /// What was asked of them.
        doing: String,
        /// What they say.
        reason: String,
    },
    /// Records that were not acknowledged in time.
    #[error("{records} records are not acknowledged yet by the brokers at {servers}: {reason}")]
    NotFlushed {
        /// How many.
        records: u64,
        /// The brokers.
        servers: String,
        /// What the last trouble was.
        reason: String,
    },
    /// The operation was asked to stop while waiting.
    #[error("stopped while it waited for the brokers at {0}")]
    Stopped(String),
}
