//! Kafka and Flink for tests, started by `deploy/kafka-flink.sh`: on free ports, in a separate directory, stopped on
//! drop. Also a Python with independent Kafka clients.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::require;

/// The processes to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterParts {
    /// Number of brokers.
    Kafka(u8),
    /// A broker, a job manager, a task manager, and a gateway.
    KafkaAndFlink,
    /// Three brokers with replication factor three, and the same Flink processes.
    ThreeBrokersAndFlink,
}

/// The owner that stops a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClusterLifetime {
    WithUs,
    Elsewhere,
}

/// A running cluster of brokers and Flink.
pub struct TestCluster {
    dir: PathBuf,
    end: ClusterLifetime,
    /// `HOST:PORT,…` of the brokers.
    pub kafka: String,
    /// Address of Flink's job manager.
    pub flink: Option<String>,
    /// Address of Flink's SQL gateway.
    pub gateway: Option<String>,
}

impl TestCluster {
    /// Starts a cluster below `tmp`, or uses the one that runs in `NETALYTICS_CLUSTER_DIR`; `None` if
    /// the programs are unavailable and `ALLOW_MISSING` names them. `name` identifies the test.
    ///
    /// # Panics
    /// If the installed programs do not start.
    #[must_use]
    pub fn start(tmp: &Path, name: &str, parts: ClusterParts) -> Option<TestCluster> {
        if let Some(dir) = std::env::var_os("NETALYTICS_CLUSTER_DIR") {
            return Some(TestCluster::at(
                PathBuf::from(dir),
                ClusterLifetime::Elsewhere,
            ));
        }
        let programs = programs()?;
        // A separate directory per cluster: a test may start one while that of another is being removed.
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let nth = STARTED.fetch_add(1, Ordering::Relaxed);
        let dir = tmp.join(format!("{name}-{}-{nth}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        // Output of the programs goes next to the installation.
        fs::create_dir_all(dir.join("flink")).expect("a directory");
        for part in ["kafka", "flink/lib", "flink/gateway", "flink/complete"] {
            symlink(programs.join(part), dir.join(part)).expect("a link");
        }
        let (part, brokers) = match parts {
            ClusterParts::Kafka(brokers) => (Some("kafka"), brokers),
            ClusterParts::KafkaAndFlink => (None, 1),
            ClusterParts::ThreeBrokersAndFlink => (None, 3),
        };
        let started = script_in(&dir, "start", part)
            .env("BROKERS", brokers.to_string())
            .env("SLOTS", "16")
            .env("SLOT_MEMORY", "128")
            .output()
            .expect("bash");
        let said = String::from_utf8_lossy(&started.stderr);
        assert!(started.status.success(), "no cluster: {said}");
        Some(TestCluster::at(dir, ClusterLifetime::WithUs))
    }

    /// A running cluster, given its directory.
    fn at(dir: PathBuf, end: ClusterLifetime) -> TestCluster {
        let addresses = fs::read_to_string(dir.join("addresses")).expect("addresses");
        let address = |name: &str| {
            let line = addresses
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            line.map(str::to_owned)
        };
        let kafka = address("KAFKA").expect("brokers");
        TestCluster {
            kafka,
            flink: address("FLINK"),
            gateway: address("GATEWAY"),
            dir,
            end,
        }
    }

    /// The ID of a process.
    ///
    /// # Panics
    /// If it was never started.
    #[must_use]
    pub fn pid(&self, process: &str) -> String {
        let file = self.dir.join("run").join(format!("{process}.pid"));
        fs::read_to_string(&file)
            .expect("its number")
            .trim()
            .to_owned()
    }

    /// Kills a process immediately: `broker-1`, `taskmanager-1`, `jobmanager`, `gateway`.
    ///
    /// # Panics
    /// If it is not running.
    pub fn kill(&self, process: &str) {
        let killed = Command::new("kill")
            .args(["-9", &self.pid(process)])
            .status()
            .expect("kill");
        assert!(killed.success(), "{process}");
    }

    /// Restarts a killed process with its data and port; it may need some seconds to respond.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start_again(&self, process: &str) {
        let started = self.script("start", Some(process)).status().expect("bash");
        assert!(started.success(), "{process}");
    }

    /// Extends a line of Flink's configuration for processes started later.
    ///
    /// # Panics
    /// If there is no such line.
    pub fn configure(&self, line: &str, more: &str) {
        let file = self.dir.join("flink/conf/config.yaml");
        let old = fs::read_to_string(&file).expect("a configuration");
        let new = old.replace(&format!("{line}: {{"), &format!("{line}: {{{more}, "));
        assert_ne!(old, new, "{line}");
        fs::write(file, new).expect("a configuration");
    }

    /// A command of Kafka's tools, by class name.
    #[must_use]
    pub fn kafka_tool(&self, class: &str) -> Command {
        let mut command = Command::new("java");
        command
            .arg("-cp")
            .arg(self.dir.join("kafka/*"))
            .arg(class)
            .args(["--bootstrap-server", &self.kafka]);
        command
    }

    /// The value of a broker's property.
    ///
    /// # Panics
    /// If there is no such broker or property.
    #[must_use]
    pub fn property(&self, broker: &str, name: &str) -> String {
        let file = self.dir.join("run").join(format!("{broker}.properties"));
        let all = fs::read_to_string(&file).expect("its properties");
        let found = all
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        found.expect("the property").to_owned()
    }

    /// Changes a broker's properties; each line replaces the property of the same name. The broker reads them at its
    /// next start.
    ///
    /// # Panics
    /// If there is no such broker.
    pub fn configure_broker(&self, broker: &str, lines: &[String]) {
        let file = self.dir.join("run").join(format!("{broker}.properties"));
        let before = fs::read_to_string(&file).expect("its properties");
        let name = |line: &str| line.split('=').next().unwrap_or_default().to_owned();
        let is_kept = |line: &&str| lines.iter().all(|new| name(new) != name(line));
        let kept = before.lines().filter(is_kept).map(str::to_owned);
        let all: Vec<String> = kept.chain(lines.iter().cloned()).collect();
        fs::write(file, all.join("\n")).expect("its properties");
    }

    /// Path of a process's log.
    #[must_use]
    pub fn log(&self, process: &str) -> PathBuf {
        self.dir.join("log").join(process)
    }

    fn script(&self, what: &str, part: Option<&str>) -> Command {
        script_in(&self.dir, what, part)
    }
}

impl Drop for TestCluster {
    fn drop(&mut self) {
        if self.end == ClusterLifetime::Elsewhere {
            return;
        }
        let _ = self.script("stop", None).status();
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("crates/testkit lies two below")
}

fn script_in(dir: &Path, what: &str, part: Option<&str>) -> Command {
    let mut command = script();
    command
        .arg(what)
        .arg(dir)
        .args(part)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}

fn script() -> Command {
    Command::new(root().join("deploy/kafka-flink.sh"))
}

/// Serializes installation by tests.
static INSTALLING: Mutex<()> = Mutex::new(());

/// The directory of the programs: `NETALYTICS_KAFKA_DIR`, or `target/kafka-flink`, where missing programs are
/// installed.
fn programs() -> Option<PathBuf> {
    let _one = INSTALLING.lock().unwrap_or_else(|e| e.into_inner());
    let given = std::env::var_os("NETALYTICS_KAFKA_DIR");
    let dir = given.map_or_else(|| root().join("target/kafka-flink"), PathBuf::from);
    let is_there = || dir.join("kafka/complete").exists() && dir.join("flink/complete").exists();
    require!("java", "curl", "python3");
    if !is_there() {
        require!("mvn");
        let _ = script()
            .arg("install")
            .arg(&dir)
            .stdin(Stdio::null())
            .status();
    }
    require!("kafka-flink" => is_there().then_some(()).ok_or("deploy/kafka-flink.sh could not install them"));
    Some(dir.canonicalize().expect("it exists"))
}

/// Independent implementations of Kafka's protocol and Avro, in Python.
const WITNESSES: &str = "kafka-python==3.0.12 lz4==4.4.5 zstandard==0.25.0 fastavro==1.13.1";

/// A Python with the packages kafka-python and fastavro, created once below `tmp`; `None` if that is
/// impossible and `ALLOW_MISSING` names `pip`.
#[must_use]
pub fn python(tmp: &Path) -> Option<PathBuf> {
    crate::programs::python(tmp, "kafka-witnesses", WITNESSES)
}
