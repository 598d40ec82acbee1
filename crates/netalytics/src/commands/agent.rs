//! `netalytics agent`: connects this host to a server, until a signal ends it.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use agent::credentials::{AgentCredentials, system};
use agent::dial::ServerEndpoint;
use agent::orders::DemoCapture;
use agent::policy::HostPolicy;
use agent::run::{AgentConfig, run, usual_folder};
use anyhow::{Context, anyhow};
use capture::live::StopSignal;
use capture::packet_relay::PacketRelay;
use identity::TrustedServers;
use link::SpoolLimits;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::flags::agent::{AgentFlags, AgentVerb};
use crate::process::failure::{CommandOutcome, wrong_flags};
use crate::process::machine_name::machine_name;
use crate::process::output;
use crate::process::signals::{self, SignalHandlers};

/// Default path of the policy.
const POLICY: &str = "/etc/netalytics/agent.toml";

/// Runs the agent.
pub fn agent(flags: &AgentFlags) -> anyhow::Result<CommandOutcome> {
    if let Some(AgentVerb::Enroll {
        server,
        token_file,
        ca,
        folder,
    }) = &flags.what
    {
        return enroll(
            server,
            token_file.as_ref(),
            ca.as_ref(),
            &own_folder(folder.as_ref()),
        );
    }
    let policy = policy(flags.policy.as_deref())?;
    let folder = own_folder(flags.folder.as_ref());
    let credentials = match flags.token_file {
        Some(_) => None,
        None => AgentCredentials::read(&folder).context("cannot use this agent's certificate")?,
    };
    // The token in the environment may be that of a user.
    let token = match credentials {
        Some(_) => None,
        None => token(flags.token_file.as_ref())?,
    };
    let name = name(flags, &policy, credentials.as_ref())?;
    let exports = exports(&policy, &folder)?;
    let config = AgentConfig {
        exports,
        server: server(flags, token, credentials.as_ref())?,
        name,
        policy,
        folder,
        credentials,
        program: std::env::current_exe().context("this program cannot be found")?,
        version: env!("CARGO_PKG_VERSION").into(),
        spool: SpoolLimits {
            bytes_max: flags.spool_max as u64,
            ..SpoolLimits::default()
        },
        demo: flags.demo.clone().map(|capture| DemoCapture {
            capture,
            pause: Duration::from_nanos(flags.demo_pause.unsigned_abs()),
            in_step: flags.demo_in_step,
        }),
    };
    let folder = config.folder.clone();
    let url = config.server.url();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime
        .context("cannot start the event loop")?
        .block_on(async {
            let heeds_hangup = !signals::is_hangup_ignored();
            // The event loop handles the first signal; this one handles a later SIGINT, which abandons the unsent data of
            // monitors.
            SignalHandlers::end(&StopSignal::default())?;
            let mut interrupt = signal(SignalKind::interrupt())?;
            let mut terminate = signal(SignalKind::terminate())?;
            let mut hangup = signal(SignalKind::hangup())?;
            output::complain(&format!("agent {} of {url}; Ctrl-C ends it", config.name));
            let stop = async {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    _ = hangup.recv(), if heeds_hangup => {}
                    () = let_go(), if flags.while_held => {}
                }
            };
            run(config, stop)
                .await
                .with_context(|| format!("cannot use {}", folder.display()))
        })?;
    Ok(CommandOutcome::Done)
}

/// Waits for the end of standard input, on a thread that does not delay the end of this process.
async fn let_go() {
    let (tell, told) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        // Input is ignored; an error counts as the end.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        let _ = tell.send(());
    });
    let _ = told.await;
}

/// Begins to receive export messages, if the policy has addresses for them.
fn exports(policy: &HostPolicy, folder: &Path) -> anyhow::Result<Option<PacketRelay>> {
    let Some(exports) = &policy.exports else {
        return Ok(None);
    };
    fs::create_dir_all(folder).with_context(|| format!("cannot use {}", folder.display()))?;
    let addresses: Vec<_> = exports.listen.iter().map(|address| address.0).collect();
    let relay = PacketRelay::start(
        &addresses,
        exports.buffer_size,
        &folder.join("exports.sock"),
    );
    Ok(Some(relay.map_err(|why| wrong_flags(why.to_string()))?))
}

fn policy(named: Option<&Path>) -> anyhow::Result<HostPolicy> {
    let path = named.unwrap_or(Path::new(POLICY));
    match fs::read_to_string(path) {
        Ok(text) => HostPolicy::parse(&text)
            .map_err(|why| wrong_flags(format!("{}: {why}", path.display()))),
        Err(error) if named.is_none() && error.kind() == io::ErrorKind::NotFound => {
            Ok(HostPolicy::default())
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Enrolls this host.
fn enroll(
    url: &str,
    token_file: Option<&PathBuf>,
    ca: Option<&PathBuf>,
    folder: &Path,
) -> anyhow::Result<CommandOutcome> {
    let token = token(token_file)?.ok_or_else(|| {
        wrong_flags(
            "no one-time token: use --token-file FILE, or NETALYTICS_TOKEN in the environment",
        )
    })?;
    let ca = ca.map(read).transpose()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.context("cannot start the event loop")?;
    let enrolled = runtime.block_on(agent::enroll::enroll(url, &token, ca, folder));
    let peer = enrolled
        .map_err(|why| anyhow!("this host has not enrolled: {why}"))?
        .peer;
    output::complain(&format!(
        "this host is agent {}; its certificate is valid until {}, and is renewed while the agent runs",
        peer.name,
        identity::time_in_words(peer.lifetime.to)
    ));
    Ok(CommandOutcome::Done)
}

/// The name in a certificate is the agent's name.
fn name(
    flags: &AgentFlags,
    policy: &HostPolicy,
    credentials: Option<&AgentCredentials>,
) -> anyhow::Result<String> {
    let said = flags.name.clone().or(policy.name.clone());
    match (credentials, said) {
        (Some(own), Some(said)) if said != own.peer.name => Err(wrong_flags(format!(
            "this host is enrolled as {}, but its name here is {said} (--name or the policy)",
            own.peer.name
        ))),
        (Some(own), _) => Ok(own.peer.name.clone()),
        (None, said) => said.or_else(machine_name).ok_or_else(|| {
            wrong_flags("this machine has no host name: set the name of the agent with --name")
        }),
    }
}

fn own_folder(said: Option<&PathBuf>) -> PathBuf {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let is_root = home.as_deref() == Some(Path::new("/root"));
    said.cloned()
        .unwrap_or_else(|| usual_folder(is_root, home.as_deref()))
}

fn read(path: &PathBuf) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn token(file: Option<&PathBuf>) -> anyhow::Result<Option<String>> {
    let token = match file {
        Some(path) => Some(read(path)?),
        None => std::env::var("NETALYTICS_TOKEN").ok(),
    };
    Ok(token.map(|token| token.trim().to_owned()))
}

fn server(
    flags: &AgentFlags,
    token: Option<String>,
    credentials: Option<&AgentCredentials>,
) -> anyhow::Result<ServerEndpoint> {
    let url = flags.server.as_deref().unwrap_or_default();
    let tls = match (credentials, &flags.ca) {
        _ if !url.starts_with("https://") => None,
        (Some(own), _) => Some(own.tls()?),
        (None, Some(path)) => Some(identity::client_config(
            TrustedServers::Of(&read(path)?),
            None,
        )?),
        (None, None) => Some(identity::client_config(system(), None)?),
    };
    if tls.is_some() && token.is_none() && credentials.is_none() {
        return Err(wrong_flags(
            "this host has not enrolled: use netalytics agent enroll, or --token-file FILE with a token of the role agent",
        ));
    }
    ServerEndpoint::new(url, tls, token).map_err(|why| wrong_flags(why.to_string()))
}
