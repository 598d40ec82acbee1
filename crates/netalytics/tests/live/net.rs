//! Two network namespaces connected by a veth pair, removed on drop.

use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::turn::TestTurn;

/// Addresses of the server and the client.
pub const SERVER: &str = "10.9.0.1";
pub const CLIENT: &str = "10.9.0.2";

/// See the module documentation. Each end has an interface `eth0`, and `lo`.
pub struct Net {
    pub server: String,
    pub client: String,
    _turn: TestTurn,
}

impl Net {
    /// `None` if this machine does not support them and `ALLOW_MISSING` names `namespaces`.
    pub fn new() -> Option<Net> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = |side: &str| format!("nl{}{side}{number}", std::process::id());
        let net = Net {
            server: name("s"),
            client: name("c"),
            _turn: TestTurn::wait(),
        };
        testkit::require!("namespaces" => net.build());
        Some(net)
    }

    fn build(&self) -> Result<(), String> {
        let Net { server, client, .. } = self;
        ip(&format!("netns add {server}"))?;
        ip(&format!("netns add {client}"))?;
        ip(&format!(
            "-n {server} link add eth0 type veth peer name eth0 netns {client}"
        ))?;
        for (ns, address) in [(server, SERVER), (client, CLIENT)] {
            ip(&format!("-n {ns} link set lo up"))?;
            ip(&format!("-n {ns} link set eth0 up"))?;
            ip(&format!("-n {ns} addr add {address}/24 dev eth0"))?;
        }
        Ok(())
    }

    /// Sends `n` datagrams from the client to a closed port of the server.
    pub fn send(&self, n: u32, port: u16) {
        shell(
            &self.client,
            &format!("for i in $(seq {n}); do echo $i >/dev/udp/{SERVER}/{port}; done"),
        );
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for ns in [&self.server, &self.client] {
            let _ = ip(&format!("netns del {ns}"));
        }
    }
}

/// Runs `ip` with these arguments.
pub fn ip(words: &str) -> Result<(), String> {
    let output = Command::new("ip")
        .args(words.split_whitespace())
        .stdin(Stdio::null())
        .output();
    let output = output.map_err(|e| format!("ip: {e}"))?;
    let why = || {
        format!(
            "ip {words}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )
    };
    output.status.success().then_some(()).ok_or_else(why)
}

/// A command in a namespace: it is replaced by the program, so that their process ids are equal.
pub fn within(ns: &str, program: &str) -> Command {
    let mut command = Command::new("ip");
    command
        .args(["netns", "exec", ns, program])
        .stdin(Stdio::null());
    command
}

/// Output of a shell in a namespace, which must succeed.
pub fn shell(ns: &str, script: &str) -> Output {
    let output = within(ns, "bash")
        .args(["-c", script])
        .output()
        .expect("a shell");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}\n{err}");
    output
}
