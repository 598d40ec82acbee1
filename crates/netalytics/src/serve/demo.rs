//! The demonstration of `serve --demo`: an agent that replays a capture of a small shop in a loop, and standing jobs on
//! it.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use server::{BoundAddresses, RetainedRows, Service};

use crate::process::file_owner::FileOwner;
use crate::process::output;

/// A web shop with its database and cache: `captures/shop`.
pub const CAPTURE: &[u8] = include_bytes!("../../../../captures/shop/in.pcap");
/// Name of the agent.
const AGENT: &str = "demo";
/// Maximum wait for the agent.
const PATIENCE: Duration = Duration::from_secs(30);
/// Standing jobs: results, and the tuples of each protocol, so that the page can show details of every number.
const JOBS: [(&str, &str, RetainedRows); 6] = [
    (
        "web",
        "PARSE http PROCESS (diff-group: group=url_template, w=10s)",
        RetainedRows::Results,
    ),
    (
        "database",
        "PARSE mysql_query PROCESS (diff-group: group=fingerprint, w=10s)",
        RetainedRows::Results,
    ),
    (
        "cache",
        "PARSE memcached PROCESS (group-count-success: group=command, w=10s)",
        RetainedRows::Results,
    ),
    ("requests", "PARSE http", RetainedRows::Tuples),
    ("statements", "PARSE mysql_query", RetainedRows::Tuples),
    ("cache commands", "PARSE memcached", RetainedRows::Tuples),
];

/// Process of the demo agent; killed on drop.
pub struct DemoAgent(Child);

impl DemoAgent {
    /// Starts the demonstration in the server's data directory. `capture`: replaces the built-in capture.
    pub fn begin(
        service: &Arc<Service>,
        (scheme, bound): (&str, BoundAddresses),
        folder: &Path,
        capture: Option<&Path>,
    ) -> anyhow::Result<DemoAgent> {
        // A server that listens on all addresses also listens on the loopback address.
        let address = if bound.address.ip().is_unspecified() {
            SocketAddr::from((Ipv4Addr::LOCALHOST, bound.address.port()))
        } else {
            bound.address
        };
        let url = format!("{scheme}://{address}");
        let agents_url = bound
            .beside
            .map_or_else(|| url.clone(), |address| format!("http://{address}"));
        let ca = agents_url
            .starts_with("https://")
            .then(|| folder.join("ca.pem"));
        if let Some(path) = &ca {
            let pem = server::authority_pem(folder).map_err(anyhow::Error::msg)?;
            output::create(path, FileOwner::Us)?
                .write_all(pem.as_bytes())
                .context("cannot write the authority")?;
        }
        let ca: Vec<_> = ca
            .iter()
            .flat_map(|path| ["--ca".into(), path.display().to_string()])
            .collect();
        let token = service
            .renew_agent_token(AGENT)
            .context("no token for the demonstration's agent")?;
        let [own, secret] = ["demo.pcap", "demo.token"].map(|name| folder.join(name));
        let mut policy = Vec::new();
        let capture = match capture {
            Some(capture) => {
                // Tests of the page need unredacted texts.
                let path = folder.join("demo.toml");
                output::create(&path, FileOwner::Us)?
                    .write_all(b"leaves = \"raw\"\njobs_max = 32\n")
                    .context("cannot write the policy")?;
                policy = vec!["--policy".into(), path.display().to_string()];
                capture
            }
            None => {
                output::create(&own, FileOwner::Us)?
                    .write_all(CAPTURE)
                    .context("cannot write the capture")?;
                &own
            }
        };
        output::create(&secret, FileOwner::Us)?
            .write_all(token.as_bytes())
            .context("cannot write the token")?;
        let program = std::env::current_exe().context("this program cannot be found")?;
        let agent = Command::new(program)
            .args(["agent", "--name", AGENT, "--server", &agents_url])
            .args(&ca)
            .args(&policy)
            .arg("--token-file")
            .arg(&secret)
            .arg("--folder")
            .arg(folder.join("demo"))
            .arg("--demo")
            .arg(capture)
            // All jobs receive the same packets, as on one interface, so that their numbers are consistent.
            .arg("--demo-in-step")
            // The agent ends with this process, even if this process is killed.
            .arg("--while-held")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("the demonstration's agent cannot be started")?;
        let demonstrating = service.clone();
        std::thread::spawn(move || {
            if let Err(error) = demonstrating.demonstrate(&JOBS, PATIENCE) {
                output::complain(&format!("cannot start the demonstration's jobs: {error}"));
            }
        });
        // Browsers do not send the part after `#`.
        let entry = service
            .renew_page_token("demo-page")
            .context("no token for a browser")?;
        output::complain(&format!(
            "monitoring a shop of three servers; the page: {url}/#token={entry}"
        ));
        let admin = folder.join(server::ADMIN_TOKEN);
        output::complain(&format!(
            "in a terminal, in ten seconds: netalytics jobs results 1 --server {url} --token-file {}{}",
            admin.display(),
            ca.iter().map(|word| format!(" {word}")).collect::<String>()
        ));
        Ok(DemoAgent(agent))
    }
}

impl Drop for DemoAgent {
    fn drop(&mut self) {
        // If the child has ended, this only reaps it.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
