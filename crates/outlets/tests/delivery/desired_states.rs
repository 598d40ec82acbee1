//! Desired states in Redis: deliveries that are late, repeated, or of another run.

use std::process::Command;

use outlets::address::SystemSecrets;
use outlets::{DesiredState, DesiredStateSender, OutletAddress};
use testkit::programs::{PATIENCE, TestProgram, free_port, wait_for};

/// A server without files.
struct TestRedis {
    port: u16,
    _program: TestProgram,
}

impl TestRedis {
    fn start() -> TestRedis {
        let port = free_port();
        let args = ["--port", &port.to_string(), "--save", ""];
        let redis = TestRedis {
            port,
            _program: TestProgram::start(Command::new("redis-server").args(args)),
        };
        wait_for("Redis", || match redis.ask(&["ping"]).as_str() {
            "PONG" => Ok(()),
            other => Err(other.to_owned()),
        });
        redis
    }

    fn ask(&self, words: &[&str]) -> String {
        let output = Command::new("redis-cli")
            .args(["--raw", "-p", &self.port.to_string()])
            .args(words)
            .output();
        let text = String::from_utf8_lossy(&output.expect("it runs").stdout).into_owned();
        text.trim().replace('\n', " ")
    }

    fn sender(&self) -> DesiredStateSender {
        let to = format!("redis://127.0.0.1:{}#prefix=n", self.port);
        let address = OutletAddress::read(&to, &SystemSecrets).expect("an address");
        DesiredStateSender::new(&address).expect("a sender")
    }

    /// Run, version, document, servers, and replicas.
    fn stored(&self) -> [String; 3] {
        [
            self.ask(&["hmget", "n:hot", "run", "version", "document"]),
            self.ask(&["lrange", "n:hot:servers", "0", "-1"]),
            self.ask(&["hgetall", "n:hot:replicas"]),
        ]
    }
}

fn state(run: u64, version: u64, servers: &[&str], replicas: &[(&str, u32)]) -> DesiredState {
    DesiredState {
        of: "hot".into(),
        run,
        version,
        servers: servers.iter().map(|name| (*name).to_owned()).collect(),
        replicas: replicas
            .iter()
            .map(|(name, n)| ((*name).to_owned(), *n))
            .collect(),
        document: format!("{run}.{version}"),
    }
}

#[test]
fn an_older_version_of_a_run_changes_nothing() {
    testkit::require!("redis-server", "redis-cli");
    let redis = TestRedis::start();
    let mut sender = redis.sender();
    let give = |sender: &mut DesiredStateSender, state: &DesiredState| sender.give(state, PATIENCE);
    give(&mut sender, &state(10, 2, &["web1", "web2"], &[("/a", 2)])).expect("it is stored");
    let stored = ["a 2 10.2".to_owned(), "web1 web2".into(), "/a 2".into()];
    assert_eq!(redis.stored(), stored);
    // Late, and repeated with another content.
    for late in [
        state(10, 1, &[], &[]),
        state(10, 2, &["web9"], &[("/z", 9)]),
    ] {
        give(&mut sender, &late).expect("it is newer already");
        assert_eq!(redis.stored(), stored);
    }
    // By number, not by text.
    give(&mut sender, &state(10, 10, &[], &[])).expect("it is stored");
    assert_eq!(redis.stored(), ["a 10 10.10", "", ""]);
}

#[test]
fn another_run_replaces_any_version() {
    testkit::require!("redis-server", "redis-cli");
    let redis = TestRedis::start();
    let mut sender = redis.sender();
    for (state, stored) in [
        (state(1, 500, &["web1"], &[]), ["1 500 1.500", "web1", ""]),
        (
            state(2, 1, &["web2"], &[("/a b", 3)]),
            ["2 1 2.1", "web2", "/a b 3"],
        ),
        (
            state(u64::MAX, 1, &[], &[]),
            ["ffffffffffffffff 1 18446744073709551615.1", "", ""],
        ),
    ] {
        sender.give(&state, PATIENCE).expect("it is stored");
        assert_eq!(redis.stored(), stored);
    }
}

/// A reminder restores what Redis has lost, and never replaces a state, whatever its run.
#[test]
fn a_reminder_is_stored_only_if_nothing_is() {
    testkit::require!("redis-server", "redis-cli");
    let redis = TestRedis::start();
    let mut sender = redis.sender();
    let older = state(1, 1, &["web1"], &[]);
    sender.remind(&older, PATIENCE).expect("it is stored");
    assert_eq!(redis.stored(), ["1 1 1.1", "web1", ""]);
    for other in [state(1, 7, &["web2"], &[]), state(3, 1, &["web2"], &[])] {
        sender.remind(&other, PATIENCE).expect("there is one");
        assert_eq!(redis.stored(), ["1 1 1.1", "web1", ""]);
    }
    redis.ask(&["flushall"]);
    sender
        .remind(&state(3, 9, &[], &[("/a", 1)]), PATIENCE)
        .expect("it is stored");
    assert_eq!(redis.stored(), ["3 9 3.9", "", "/a 1"]);
}

/// Names are not words of the script.
#[test]
fn many_servers_and_groups_with_any_name_are_stored() {
    testkit::require!("redis-server", "redis-cli");
    let redis = TestRedis::start();
    let servers: Vec<String> = (0..2000).map(|n| format!("web {n} 'x' {{}}")).collect();
    let groups: Vec<String> = (0..1500).map(|n| format!("/{n}?newer=missing")).collect();
    let servers: Vec<&str> = servers.iter().map(String::as_str).collect();
    let replicas: Vec<(&str, u32)> = groups
        .iter()
        .map(|name| (name.as_str(), u32::MAX))
        .collect();
    let wanted = state(1, 1, &servers, &replicas);
    redis
        .sender()
        .give(&wanted, PATIENCE)
        .expect("it is stored");
    assert_eq!(redis.ask(&["llen", "n:hot:servers"]), "2000");
    assert_eq!(
        redis.ask(&["lindex", "n:hot:servers", "1999"]),
        servers[1999]
    );
    assert_eq!(redis.ask(&["hlen", "n:hot:replicas"]), "1500");
    assert_eq!(
        redis.ask(&["hget", "n:hot:replicas", groups[1499].as_str()]),
        "4294967295"
    );
}
