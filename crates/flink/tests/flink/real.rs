//! Flink, its gateway and a Kafka broker, started by `deploy/kafka-flink.sh` in a directory of their own and ended by their numbers.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use flink::{Gateway, JobName, Machine, Options};
use testkit::programs;

/// Time for a state to come about; a busy machine starts Java slowly.
pub const PATIENCE: Duration = Duration::from_secs(90);

pub struct Real {
    dir: tempfile::TempDir,
    pub kafka: String,
    pub gateway: String,
    pub machine: Machine,
}

/// A script of this repository.
fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/kafka-flink.sh")
}

/// Where the programs are installed, once for all runs.
fn installed() -> Option<PathBuf> {
    let dir = std::env::var_os("NETALYTICS_KAFKA_DIR").map(PathBuf::from);
    let dir = dir.unwrap_or_else(|| Path::new(env!("CARGO_TARGET_TMPDIR")).join("kafka-flink"));
    if !dir.join("flink/complete").exists() {
        if !programs::are_there(&["java", "mvn", "python3", "curl"]) {
            testkit::nothing_checked("NO Java, Maven, Python or curl");
            return None;
        }
        let installed = Command::new(script()).arg("install").arg(&dir).output().expect("the script");
        if !installed.status.success() {
            testkit::nothing_checked(&format!("NO KAFKA AND FLINK: {}", said(&installed)));
            return None;
        }
    }
    Some(dir.canonicalize().expect("it is there"))
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

impl Real {
    /// Starts all of it; `None`, loudly, where it cannot be installed.
    pub fn start() -> Option<Real> {
        let installed = installed()?;
        let dir = tempfile::tempdir().expect("a directory");
        symlink(installed.join("kafka"), dir.path().join("kafka")).expect("a link");
        // Its configuration is written there, so only what is in it is shared.
        fs::create_dir(dir.path().join("flink")).expect("a directory");
        for part in ["lib", "gateway", "complete"] {
            symlink(installed.join("flink").join(part), dir.path().join("flink").join(part)).expect("a link");
        }
        let machine = Machine::this().expect("proc");
        let mut real = Real { dir, kafka: String::new(), gateway: String::new(), machine };
        real.script("start", None);
        let addresses = fs::read_to_string(real.path("addresses")).expect("addresses");
        let address = |name: &str| {
            let line = addresses.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            line.unwrap_or_else(|| panic!("no {name} in {addresses}")).to_owned()
        };
        (real.kafka, real.gateway) = (address("KAFKA"), address("GATEWAY"));
        Some(real)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn script(&self, what: &str, part: Option<&str>) {
        let done = Command::new(script())
            .arg(what)
            .arg(self.dir.path())
            .args(part)
            // A scenario that fails leaves its jobs, which shall not be in the way of the next one's.
            .env("SLOTS", "16")
            .stdin(Stdio::null())
            .output();
        let done = done.expect("the script");
        assert!(done.status.success(), "{what} {part:?}: {}\n{}", said(&done), self.logs());
    }

    /// Starts a part that was killed.
    pub fn start_again(&self, part: &str) {
        self.script("start", Some(part));
    }

    /// kill -9.
    pub fn kill(&self, part: &str) {
        let file = self.path(&format!("run/{part}.pid"));
        let pid = fs::read_to_string(&file).expect("its number");
        let killed = Command::new("kill").args(["-9", pid.trim()]).status().expect("kill");
        assert!(killed.success(), "{part} {pid}");
        let pid = pid.trim().parse().expect("a number");
        programs::wait_for("its end", || match self.machine.process(pid) {
            Some(_) => Err(format!("{part} {pid} runs")),
            None => Ok(()),
        });
    }

    /// Adds to the gateway's part of the configuration, for its next start.
    pub fn configure_gateway(&self, text: &str) {
        let file = self.path("flink/conf/config.yaml");
        let old = fs::read_to_string(&file).expect("a configuration");
        let new = old.replace("sql-gateway: {", &format!("sql-gateway: {{{text}, "));
        assert_ne!(old, new);
        fs::write(file, new).expect("a configuration");
    }

    pub fn open(&self, options: Options) -> Arc<Gateway> {
        Arc::new(Gateway::open(&self.gateway, options).expect("a session"))
    }

    /// A name for a job of this process.
    pub fn name(&self, job: &str) -> JobName {
        JobName::new(self.machine.owner(), job)
    }

    /// What Kafka's own consumer finds committed in a topic, a line for each record.
    pub fn committed(&self, topic: &str, records: usize) -> Vec<String> {
        let found = Command::new("java")
            .args(["-cp", &format!("{}/*", self.path("kafka").display())])
            .args(["org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", &self.kafka])
            .args(["--topic", topic, "--from-beginning", "--isolation-level", "read_committed"])
            .args(["--max-messages", &records.to_string(), "--timeout-ms", "20000"])
            .output()
            .expect("java");
        String::from_utf8_lossy(&found.stdout).lines().map(str::to_owned).collect()
    }

    /// The last lines that each of them has said.
    pub fn logs(&self) -> String {
        let mut text = String::new();
        for entry in fs::read_dir(self.path("log")).into_iter().flatten().flatten() {
            let said = fs::read_to_string(entry.path()).unwrap_or_default();
            let last: Vec<&str> = said.lines().rev().filter(|line| !line.starts_with('\t')).take(6).collect();
            text += &format!("{}:\n", entry.file_name().to_string_lossy());
            text.extend(last.iter().rev().map(|line| format!("  {line}\n")));
        }
        text
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = Command::new(script()).arg("stop").arg(self.dir.path()).output();
    }
}
