//! Flink, its gateway and a Kafka broker, and the owner of jobs.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use flink::{GatewayOptions, JobName, LocalMachine, SqlGateway};
use testkit::cluster::{ClusterParts, TestCluster};

/// Timeout for a state; a busy machine starts Java slowly.
pub const PATIENCE: Duration = Duration::from_secs(90);

pub struct Real {
    pub cluster: TestCluster,
    pub machine: LocalMachine,
}

impl Real {
    /// Starts all of it; `None`, with a message, if it cannot be installed.
    pub fn start() -> Option<Real> {
        let cluster = TestCluster::start(
            Path::new(env!("CARGO_TARGET_TMPDIR")),
            "flink",
            ClusterParts::KafkaAndFlink,
        )?;
        Some(Real {
            cluster,
            machine: LocalMachine::this().expect("proc"),
        })
    }

    pub fn url(&self) -> &str {
        self.cluster.gateway.as_deref().expect("a gateway")
    }

    pub fn open(&self, options: GatewayOptions) -> Arc<SqlGateway> {
        Arc::new(SqlGateway::open(self.url(), options).expect("a session"))
    }

    /// A name for a job of this process.
    pub fn name(&self, job: &str) -> JobName {
        JobName::new(self.machine.owner(), job)
    }

    /// Committed records of a topic, read by Kafka's own consumer, one line each.
    pub fn committed(&self, topic: &str, records: usize) -> Vec<String> {
        let found = self
            .cluster
            .kafka_tool("org.apache.kafka.tools.consumer.ConsoleConsumer")
            .args([
                "--topic",
                topic,
                "--from-beginning",
                "--isolation-level",
                "read_committed",
            ])
            .args([
                "--max-messages",
                &records.to_string(),
                "--timeout-ms",
                "20000",
            ])
            .output()
            .expect("java");
        String::from_utf8_lossy(&found.stdout)
            .lines()
            .map(str::to_owned)
            .collect()
    }

    /// Last lines of each log.
    pub fn logs(&self) -> String {
        let mut text = String::new();
        for process in [
            "jobmanager",
            "taskmanager-1",
            "taskmanager-2",
            "gateway",
            "broker-1",
        ] {
            let said = std::fs::read_to_string(self.cluster.log(process)).unwrap_or_default();
            let last: Vec<&str> = said
                .lines()
                .rev()
                .filter(|line| !line.starts_with('\t'))
                .take(6)
                .collect();
            text += &format!("{process}:\n");
            text.extend(last.iter().rev().map(|line| format!("  {line}\n")));
        }
        text
    }
}
