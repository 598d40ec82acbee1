//! `netalytics agent`: serves a server on this host, until a signal ends it.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use agent::dial::Server;
use agent::orders::Demo;
use agent::policy::Policy;
use agent::run::{Config, run, usual_folder};
use anyhow::{Context, anyhow};
use link::SpoolLimits;
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::{Ended, wrong_flags};
use crate::flags::agent::AgentFlags;
use crate::output;

/// The owner's file, unless another is named.
const POLICY: &str = "/etc/netalytics/agent.toml";

/// Serves.
pub fn agent(flags: &AgentFlags) -> anyhow::Result<Ended> {
    let policy = policy(flags.policy.as_deref())?;
    let name = flags.name.clone().or(policy.name.clone()).or_else(machine_name);
    let name =
        name.ok_or_else(|| wrong_flags("this machine has no name: --name NAME gives the agent one"))?;
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let is_root = home.as_deref() == Some(Path::new("/root"));
    let config = Config {
        server: server(flags)?,
        name,
        policy,
        folder: flags.folder.clone().unwrap_or_else(|| usual_folder(is_root, home.as_deref())),
        program: std::env::current_exe().context("this program cannot be found")?,
        version: env!("CARGO_PKG_VERSION").into(),
        spool: SpoolLimits { bytes_max: flags.spool_max as u64, ..SpoolLimits::default() },
        demo: flags
            .demo
            .clone()
            .map(|capture| Demo { capture, pause: Duration::from_nanos(flags.demo_pause.unsigned_abs()) }),
    };
    let (folder, url) = (config.folder.clone(), config.server.url());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("the system gives no event loop")?.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        output::complain(&format!("agent {} of {url}; Ctrl-C ends it", config.name));
        let stop = async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                () = let_go(), if flags.while_held => {}
            }
        };
        run(config, stop).await.with_context(|| format!("cannot use {}", folder.display()))
    })?;
    Ok(Ended::Done)
}

/// Until standard input ends. A thread reads it: one that waits there does not hold up the end of this process.
async fn let_go() {
    let (tell, told) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        // What is said there does not matter, and an error is an end, too.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        let _ = tell.send(());
    });
    let _ = told.await;
}

fn policy(named: Option<&Path>) -> anyhow::Result<Policy> {
    let path = named.unwrap_or(Path::new(POLICY));
    match fs::read_to_string(path) {
        Ok(text) => Policy::parse(&text).map_err(|why| wrong_flags(format!("{}: {why}", path.display()))),
        Err(error) if named.is_none() && error.kind() == io::ErrorKind::NotFound => Ok(Policy::default()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn server(flags: &AgentFlags) -> anyhow::Result<Server> {
    let read =
        |path: &PathBuf| fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
    let token = match &flags.token_file {
        Some(path) => Some(read(path)?),
        None => std::env::var("NETALYTICS_TOKEN").ok(),
    };
    let tls = flags.ca.as_ref().map(read).transpose()?;
    let tls = tls.map(|pem| identity::client_config(&pem, None)).transpose();
    let tls = tls.map_err(|why| anyhow!("{why}"))?;
    Server::new(&flags.server, tls, token.map(|token| token.trim().to_owned()))
        .map_err(|why| wrong_flags(why.to_string()))
}

fn machine_name() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}
