//! A Redis server under load: the result contains every command it counts, once, and nothing else.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::capture::{Capture, text};
use crate::net::{Net, SERVER, shell, within};

/// The server, ended on drop.
struct Redis {
    folder: TempDir,
    child: Child,
}

impl Redis {
    /// `None` if a program is missing and `ALLOW_MISSING` names it.
    fn start(ns: &str) -> Option<Redis> {
        testkit::require!("redis-server", "redis-cli", "redis-benchmark");
        let folder = tempfile::tempdir().expect("a folder for the server");
        let socket = folder.path().join("redis.sock");
        let child = within(ns, "redis-server")
            .args([
                "--bind",
                SERVER,
                "--port",
                "6379",
                "--protected-mode",
                "no",
                "--save",
                "",
            ])
            .args(["--appendonly", "no", "--dir"])
            .arg(folder.path())
            .arg("--unixsocket")
            .arg(&socket)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("a server");
        let redis = Redis { folder, child };
        for _ in 0..600 {
            if redis.ask(&["ping"]).trim() == "PONG" {
                return Some(redis);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the server does not answer");
    }

    /// Output of a command over its local socket.
    fn ask(&self, words: &[&str]) -> String {
        let output = Command::new("redis-cli")
            .arg("-s")
            .arg(self.folder.path().join("redis.sock"))
            .args(words)
            .output();
        String::from_utf8(output.expect("a client").stdout).expect("UTF-8")
    }

    /// Number of calls per command, by its own counters.
    fn counted(&self) -> BTreeMap<String, u64> {
        let mut counted = BTreeMap::new();
        for line in self
            .ask(&["info", "commandstats"])
            .lines()
            .filter_map(|l| l.strip_prefix("cmdstat_"))
        {
            let (name, numbers) = line.split_once(":calls=").expect("a name and numbers");
            let n: u64 = numbers
                .split(',')
                .next()
                .and_then(|n| n.parse().ok())
                .expect("a number");
            // `config|resetstat` counts itself.
            let own = u64::from(name == "config|resetstat");
            *counted
                .entry(name.split('|').next().unwrap_or_default().to_uppercase())
                .or_default() += n - own;
        }
        counted
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn redis_commands_agree_with_the_servers_own_statistics() {
    let Some(net) = Net::new() else { return };
    let Some(redis) = Redis::start(&net.server) else {
        return;
    };
    redis.ask(&["config", "resetstat"]);
    let capture = Capture::start(&net.server, "PARSE redis", &["-i", "eth0", "tcp port 6379"]);
    // Pipelined by eights, with values over several segments; then one by one.
    shell(
        &net.client,
        &format!(
            "redis-benchmark -h {SERVER} -n 2000 -c 4 -P 8 -t set,get,lpush,lrange_100 -q >/dev/null
             redis-benchmark -h {SERVER} -n 200 -c 2 -d 5000 -t set,get,mset -q >/dev/null
             for i in $(seq 100); do echo \"incr n:$i\"; echo \"get n:$i\"; echo \"hget n:$i f\"; done | redis-cli -h {SERVER} >/dev/null"
        ),
    );
    let counted = redis.counted();
    let captured = capture.interrupt();
    assert_eq!(captured.code, Some(0), "{}", captured.err);
    let mut seen = BTreeMap::<String, u64>::new();
    captured
        .rows
        .iter()
        .for_each(|row| *seen.entry(text(&row["command"])).or_default() += 1);
    if captured.count("/source/lost_before_us") > 0 {
        testkit::print_uncaptured(
            "live: packets were lost and counted; statistics were compared for `less` only",
        );
        return assert!(
            seen.values().sum::<u64>() <= counted.values().sum::<u64>(),
            "{}",
            captured.err
        );
    }
    assert!(counted.values().sum::<u64>() > 6000, "too few to be a load");
    assert_eq!(seen, counted, "{}", captured.err);
    let half = captured
        .rows
        .iter()
        .filter(|row| row["quality"] != "exact")
        .count();
    assert_eq!(half, 0, "{}", captured.err);
    let failed = captured
        .rows
        .iter()
        .filter(|row| !row["error"].is_null())
        .count();
    assert_eq!(failed, 100, "HGET of a number: {}", captured.err);
}
