//! Kafka connection: addresses, and librdkafka properties, which are passed on unchanged, so that TLS, SASL and all
//! other settings are available. Values of properties are never shown, since they include passwords.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::client::OAuthToken;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::types::RDKafkaConfRes;

use crate::BusError;

/// Brokers and client settings.
#[derive(Clone, PartialEq, Eq)]
pub struct Kafka {
    servers: String,
    properties: Vec<(String, String)>,
}

/// Properties set by this crate because its guarantees depend on them.
const OURS: [&str; 12] = [
    "auto.offset.reset",
    "bootstrap.servers",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.idempotence",
    "enable.partition.eof",
    "isolation.level",
    "message.timeout.ms",
    "metadata.broker.list",
    // Settings must not load code.
    "plugin.library.paths",
    "queue.buffering.max.kbytes",
    "queue.buffering.max.messages",
];

impl Kafka {
    /// Brokers as `HOST:PORT,…`, and properties as `NAME=VALUE`.
    ///
    /// # Errors
    /// `BusError::Property` for a malformed or unknown property, or one set by this crate.
    pub fn new<'a>(
        servers: &str,
        properties: impl IntoIterator<Item = &'a str>,
    ) -> Result<Kafka, BusError> {
        let mut kafka = Kafka {
            servers: servers.trim().to_owned(),
            properties: Vec::new(),
        };
        for property in properties {
            let (name, value) = property.split_once('=').ok_or_else(|| {
                // The text may be a misplaced password.
                refused("…", "expected NAME=VALUE, found no `=`")
            })?;
            let name = name.trim();
            if OURS.contains(&name) {
                return Err(refused(name, "set by the program"));
            }
            kafka
                .properties
                .push((name.to_owned(), value.trim().to_owned()));
        }
        kafka
            .config()
            .create_native_config()
            .map_err(|e| kafka.explain(&e))?;
        Ok(kafka)
    }

    /// Broker addresses.
    #[must_use]
    pub fn servers(&self) -> &str {
        &self.servers
    }

    /// All properties, passwords included; not for display.
    pub fn properties(&self) -> impl Iterator<Item = (&str, &str)> {
        self.properties
            .iter()
            .map(|(name, value)| (&**name, &**value))
    }

    /// Settings of every client. The crate's defaults come first, so that the given ones take precedence.
    pub(crate) fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config
            .set("client.id", "netalytics")
            // Reconnects within a second.
            .set("reconnect.backoff.ms", "100")
            .set("reconnect.backoff.max.ms", "1000")
            .set("topic.metadata.propagation.max.ms", "5000")
            .set("log_level", "0")
            .set_log_level(RDKafkaLogLevel::Emerg);
        for (name, value) in &self.properties {
            config.set(name, value);
        }
        config.set("bootstrap.servers", &self.servers);
        config
    }

    pub(crate) fn unreachable(&self, trouble: &ConnectionTrouble) -> BusError {
        BusError::Unreachable {
            servers: self.servers.clone(),
            reason: trouble.reason(),
        }
    }

    /// Error of a client that could not be created.
    pub(crate) fn explain(&self, error: &KafkaError) -> BusError {
        match error {
            // librdkafka's message would contain the value.
            KafkaError::ClientConfig(RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN, _, name, _) => {
                refused(name, "librdkafka has no property of this name")
            }
            KafkaError::ClientConfig(_, _, name, _) => {
                refused(name, "librdkafka rejects this value")
            }
            other => {
                let reason = match other {
                    KafkaError::ClientCreation(reason) => reason.clone(),
                    other => other.to_string(),
                };
                BusError::Refused {
                    doing: "cannot create a Kafka client".into(),
                    reason,
                }
            }
        }
    }
}

fn refused(name: &str, reason: &str) -> BusError {
    BusError::Property {
        name: name.into(),
        reason: reason.into(),
    }
}

impl fmt::Debug for Kafka {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.properties().map(|(name, _)| name).collect();
        f.debug_struct("Kafka")
            .field("servers", &self.servers)
            .field("properties", &names)
            .finish()
    }
}

/// Last connection errors reported by a client.
#[derive(Debug, Default)]
pub(crate) struct ConnectionTrouble {
    last: Mutex<LastTrouble>,
    is_fatal: AtomicBool,
}

#[derive(Debug, Default)]
struct LastTrouble {
    reason: Option<String>,
    /// Set after a fatal error: the client is unusable.
    fatal: Option<String>,
}

impl ConnectionTrouble {
    pub(crate) fn note(&self, error: &KafkaError, reason: &str) {
        let mut last = self.last.lock().unwrap_or_else(|e| e.into_inner());
        match error.rdkafka_error_code() {
            // Less informative than the previous error.
            Some(RDKafkaErrorCode::AllBrokersDown) if last.reason.is_some() => {}
            Some(RDKafkaErrorCode::Fatal) => {
                last.fatal = Some(plain(reason).to_owned());
                self.is_fatal.store(true, Ordering::Relaxed);
            }
            _ => last.reason = Some(plain(reason).to_owned()),
        }
    }

    pub(crate) fn reason(&self) -> String {
        let last = self.last.lock().unwrap_or_else(|e| e.into_inner());
        last.reason
            .clone()
            .unwrap_or_else(|| "no answer in time".into())
    }

    pub(crate) fn fatal(&self) -> Option<String> {
        if !self.is_fatal.load(Ordering::Relaxed) {
            return None;
        }
        self.last
            .lock()
            .unwrap_or_else(|e| e.into_inner())
            .fatal
            .clone()
    }
}

/// Removes details from messages such as `127.0.0.1:9092/bootstrap: Connect to ipv4#127.0.0.1:9092 failed: Connection
/// refused (after 0ms in state CONNECT)`.
fn plain(reason: &str) -> &str {
    let reason = reason.split(" (after ").next().unwrap_or(reason);
    let reason = match reason.split_once(": ") {
        Some((broker, rest)) if broker.contains([':', '/']) => rest,
        _ => reason,
    };
    match reason.split_once(" failed: ") {
        Some((connecting, rest)) if connecting.starts_with("Connect to") => rest,
        _ => reason,
    }
}

/// Callbacks of librdkafka for consumers.
#[derive(Debug, Default)]
pub(crate) struct ReaderContext {
    pub(crate) trouble: ConnectionTrouble,
}

impl ClientContext for ReaderContext {
    fn log(&self, _: RDKafkaLogLevel, _: &str, _: &str) {}

    fn error(&self, error: KafkaError, reason: &str) {
        self.trouble.note(&error, reason);
    }

    fn generate_oauth_token(
        &self,
        _: Option<&str>,
    ) -> Result<OAuthToken, Box<dyn std::error::Error>> {
        Err("OAuth tokens are not supported".into())
    }
}

impl ConsumerContext for ReaderContext {}

/// Processes the connection events of a consumer, which reports them only when polled, one at a time, and ignores those
/// that it handles itself.
pub(crate) fn listen(consumer: &BaseConsumer<ReaderContext>) -> &ConnectionTrouble {
    for _ in 0..EVENTS_MAX {
        consumer.poll(Duration::ZERO);
    }
    &consumer.context().trouble
}

/// Maximum events between two calls.
const EVENTS_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_not_shown() {
        let kafka =
            Kafka::new("h:1", ["sasl.username=u", "sasl.password=se=cret"]).expect("properties");
        assert_eq!(
            format!("{kafka:?}"),
            r#"Kafka { servers: "h:1", properties: ["sasl.username", "sasl.password"] }"#
        );
        assert_eq!(
            kafka.properties().nth(1),
            Some(("sasl.password", "se=cret"))
        );
    }

    #[test]
    fn properties_that_are_none() {
        let check = |property: &str, expected: &str| {
            let error = Kafka::new("h:1", [property]).expect_err(property);
            assert_eq!(error.to_string(), expected);
        };
        check(
            "secret",
            "Kafka's property `…`: expected NAME=VALUE, found no `=`",
        );
        check(
            "enable.idempotence=false",
            "Kafka's property `enable.idempotence`: set by the program",
        );
        check(
            "plugin.library.paths=/x.so",
            "Kafka's property `plugin.library.paths`: set by the program",
        );
        check(
            "sasl.pass=secret",
            "Kafka's property `sasl.pass`: librdkafka has no property of this name",
        );
        check(
            "linger.ms=secret",
            "Kafka's property `linger.ms`: librdkafka rejects this value",
        );
    }

    #[test]
    fn reasons_are_plain() {
        for (told, expected) in [
            (
                "127.0.0.1:9/bootstrap: Connect to ipv4#127.0.0.1:9 failed: Connection refused (after 0ms in state CONNECT)",
                "Connection refused",
            ),
            (
                "sasl_ssl://h:9/bootstrap: SASL authentication error: Authentication failed (after 3ms in state AUTH_REQ, 2 identical error(s) suppressed)",
                "SASL authentication error: Authentication failed",
            ),
            ("1/1 brokers are down", "1/1 brokers are down"),
        ] {
            assert_eq!(plain(told), expected);
        }
    }
}
