//! Known causes and their remedies.

/// See the module documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownCause {
    /// The Kafka connector is missing.
    NoKafka,
    /// The Avro format is missing.
    NoAvro,
    /// zstd is not supported.
    NoZstd,
    /// No directory for savepoints, which draining a job requires.
    NoSavepointDirectory,
    /// A malformed record in a topic.
    Unreadable,
}

impl KnownCause {
    pub(super) fn of(text: &str) -> Option<KnownCause> {
        let lacks = |factory: &str, package: &str| {
            text.contains(&format!("any factory for identifier '{factory}'"))
                || is_missing(text, package)
        };
        if is_missing(text, "com.github.luben.zstd") {
            Some(KnownCause::NoZstd)
        } else if lacks("kafka", "org.apache.flink.connector.kafka") {
            Some(KnownCause::NoKafka)
        } else if lacks("avro", "org.apache.flink.formats.avro") {
            Some(KnownCause::NoAvro)
        } else if text.contains("savepoint-dir") || text.contains("state.savepoints.dir") {
            Some(KnownCause::NoSavepointDirectory)
        } else if text.contains("Failed to deserialize") {
            Some(KnownCause::Unreadable)
        } else {
            None
        }
    }

    /// Remedy.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        match self {
            KnownCause::NoKafka => {
                "this Flink has no connector for Kafka: put flink-sql-connector-kafka-VERSION.jar (as 5.0.0-2.2 for Flink 2.2) into lib/ of the gateway, the JobManager and every TaskManager, and start them again"
            }
            KnownCause::NoAvro => {
                "this Flink cannot read Avro: put flink-sql-avro-VERSION.jar (Flink's own version) into lib/ of the gateway, the JobManager and every TaskManager, and start them again"
            }
            KnownCause::NoZstd => {
                "records are packed with zstd, which this Flink cannot unpack: put zstd-jni-VERSION.jar into lib/ of every TaskManager and start them again, or publish with --compression lz4"
            }
            KnownCause::NoSavepointDirectory => {
                "this Flink has no savepoint directory, which is needed to drain a job: set execution.checkpointing.savepoint-dir (before Flink 1.20: state.savepoints.dir)"
            }
            KnownCause::Unreadable => {
                "a record in the topic is not from netalytics, or is from a version with fewer columns; Flink cannot skip it: --engine embedded skips it and reports its position; SINCE starts after it"
            }
        }
    }
}

/// Whether Java did not find a class of the package. The occurrence of a class in a stack trace is not sufficient.
fn is_missing(text: &str, package: &str) -> bool {
    let behind = |words: &'static str| text.split(words).skip(1);
    let mut classes = behind("ClassNotFoundException: ").chain(behind("NoClassDefFoundError: "));
    classes.any(|class| {
        let name = class.split_whitespace().next().unwrap_or_default();
        name.replace('/', ".").starts_with(package)
    })
}
