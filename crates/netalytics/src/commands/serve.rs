//! `netalytics serve`: the service as this process.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use capture::live::StopSignal;
use server::{
    ActionLimits, AlertLimits, AlertReceiver, BoundAddresses, DataDirectory, Gateway,
    GatewayBackends, GatewaySettings, ListenOptions, MergeBackend, NamedOutlets, NetworkBackend,
    PastLimits, RecordingLimits, RowRetention, ScrapeAccess, SecondAddress, ServerCertificate,
    ServerTls, ServiceLimits, TrustedProxies,
};

use crate::cli::flags::service::{ServeFlags, ServeVerb};
use crate::kafka::job_bus::JobBus;
use crate::network;
use crate::network::jobs::JobNetwork;
use crate::process::failure::{CommandOutcome, wrong_flags};
use crate::process::output;
use crate::process::signals::SignalHandlers;
use crate::serve::demo::DemoAgent;
use crate::serve::stored_reader::StoredRecordingReader;
use crate::serve::{page, temp_dir};

/// Runs the server until a signal ends it, or runs a backup or restore.
pub fn serve(flags: &ServeFlags) -> anyhow::Result<CommandOutcome> {
    match &flags.what {
        None => {}
        Some(ServeVerb::Backup { folder, data }) => {
            return backup(&data_folder(data.as_deref())?, folder);
        }
        Some(ServeVerb::Restore { folder, data }) => {
            return restore(folder, &data_folder(data.as_deref())?);
        }
        Some(ServeVerb::Ca { data }) => {
            let pem = server::authority_pem(&data_folder(data.as_deref())?)
                .map_err(|why| anyhow!(why))?;
            return output::print(pem.as_bytes());
        }
    }
    let shown = shown(flags)?;
    let page = flags
        .page
        .as_deref()
        .map_or_else(|| Ok(page::built_in()), page::of)?;
    if page.is_empty() {
        output::complain(
            "note: this binary was built without the web page, and serves a plain one: run web/build.sh before cargo build",
        );
    }
    let passing = (flags.demo && flags.data.is_none())
        .then(temp_dir::folder)
        .transpose();
    let passing = passing.context("cannot create a folder for the demonstration")?;
    let folder = match &passing {
        Some(passing) => passing.path().to_owned(),
        None => data_folder(flags.data.as_deref())?,
    };
    // Checked first, so that a failing start with an unavailable address creates no data directory.
    drop(
        TcpListener::bind(flags.listen)
            .with_context(|| format!("cannot serve on {}", flags.listen))?,
    );
    let receivers = receivers(&flags.receivers)?;
    let bus =
        match &flags.kafka {
            Some(brokers) => Some(Arc::new(JobBus::new(brokers, &flags.client, &flags.flink)?)
                as Arc<dyn MergeBackend>),
            None => None,
        };
    let network = match &flags.network {
        Some(path) => {
            let costs = network::plan::costs(flags.costs.as_deref())?;
            let network = JobNetwork::new(network::plan::site(path)?, costs, &folder);
            Some(Arc::new(network) as Arc<dyn NetworkBackend>)
        }
        None => None,
    };
    let named =
        NamedOutlets::new(&flags.outlets).map_err(|why| wrong_flags(format!("--outlet {why}")))?;
    let mut opened =
        DataDirectory::open(&folder, limits(flags)?).map_err(|error| anyhow!(error))?;
    opened.outlets = named;
    if let Some(file) = &opened.admin_token {
        output::complain(&format!(
            "the first token (role admin) is in {}",
            file.display()
        ));
    }
    opened.set_receivers(receivers);
    let limits = RecordingLimits {
        file_bytes: u64::from(flags.upload_mib) << 20,
        bytes: u64::from(flags.uploads_mib) << 20,
        time: Duration::from_secs(u64::from(flags.uploads_hours) * 3600),
    };
    opened
        .set_recordings(
            Arc::new(StoredRecordingReader),
            flags.recordings.clone(),
            limits,
        )
        .map_err(|why| wrong_flags(format!("--recordings: {why}")))?;
    let settings = GatewaySettings {
        agents_max: flags.agents_max,
        join_patience: Duration::from_secs(flags.join_patience.into()),
        join_bytes_max: (flags.join_mib as usize) << 20,
        ..GatewaySettings::default()
    };
    let tls = shown
        .as_ref()
        .map(|shown| tls(flags, &folder, shown))
        .transpose()?;
    let gateway = Gateway::open_with(&opened, settings, GatewayBackends { bus, network })
        .context("cannot read the data directory")?;
    let service = opened
        .serve(gateway)
        .context("cannot read the data directory")?;
    let mut demo = None;
    let watched = service.clone();
    let ready = |bound: BoundAddresses| {
        let scheme = if shown.is_some() { "https" } else { "http" };
        output::complain(&format!(
            "serving on {scheme}://{}; Ctrl-C ends it",
            bound.address
        ));
        if flags.demo {
            demo = DemoAgent::begin(
                &watched,
                (scheme, bound),
                &folder,
                flags.demo_capture.as_deref(),
            )
            .inspect_err(|error| {
                output::complain(&format!("cannot start the demonstration: {error:#}"))
            })
            .ok();
        }
    };
    // The demo agent does not know the authority and host name of the operator's certificate.
    let beside = match shown {
        Some(ServerCertificate::Files { .. }) if flags.demo => SecondAddress::Loopback,
        _ => SecondAddress::Nothing,
    };
    let listen = ListenOptions {
        address: flags.listen,
        names: &flags.hosts,
        tls,
        page,
        beside,
    };
    // The event loop handles the first signal; this one handles a later SIGINT. SIGHUP reloads the certificate.
    SignalHandlers::end_but_for_hangup(&StopSignal::default()).context("cannot handle signals")?;
    server::serve(service, listen, ready)
        .with_context(|| format!("cannot serve on {}", flags.listen))?;
    drop(demo);
    Ok(CommandOutcome::Done)
}

/// The certificate for TLS, if configured. Plain text beyond this machine requires an explicit flag.
fn shown(flags: &ServeFlags) -> anyhow::Result<Option<ServerCertificate>> {
    let asked = &flags.tls;
    match (&asked.tls_cert, &asked.tls_key) {
        (Some(chain), Some(key)) => Ok(Some(ServerCertificate::Files {
            chain: chain.clone(),
            key: key.clone(),
        })),
        _ if asked.tls => Ok(Some(ServerCertificate::Own)),
        _ if flags.listen.ip().is_loopback() || asked.insecure_http => Ok(None),
        _ => Err(wrong_flags(format!(
            "{} is reachable from other machines, and without TLS tokens and results can be read in \
             transit: --tls creates a certificate, --tls-cert and --tls-key name one, --insecure-http \
             permits plain HTTP",
            flags.listen.ip()
        ))),
    }
}

fn tls(flags: &ServeFlags, folder: &Path, shown: &ServerCertificate) -> anyhow::Result<ServerTls> {
    let own = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let listen = Some(flags.listen.ip()).filter(|ip| !ip.is_unspecified());
    let names: Vec<String> = own
        .into_iter()
        .chain(listen.map(|ip| ip.to_string()))
        .chain(flags.hosts.iter().cloned())
        .collect();
    let lasting = Duration::from_nanos(flags.tls.agent_certificates.unsigned_abs());
    ServerTls::open(folder, shown.clone(), &names, lasting).map_err(|why| anyhow!(why))
}

/// Parses the receivers of alerts and reads their secrets.
fn receivers(said: &[String]) -> anyhow::Result<Vec<AlertReceiver>> {
    let read = |text: &String| {
        AlertReceiver::read(text).map_err(|why| wrong_flags(format!("--receiver: {why}")))
    };
    let receivers: Vec<AlertReceiver> = said.iter().map(read).collect::<anyhow::Result<_>>()?;
    let twice = |(at, one): (usize, &AlertReceiver)| {
        receivers[..at].iter().any(|other| other.name == one.name)
    };
    if receivers.iter().enumerate().any(twice) {
        Err(wrong_flags("--receiver: two receivers have the same name"))
    } else {
        Ok(receivers)
    }
}

fn limits(flags: &ServeFlags) -> anyhow::Result<ServiceLimits> {
    let time = |ns: i64| Duration::from_nanos(ns.unsigned_abs());
    const DAY_NS: i64 = 86_400_000_000_000;
    let trusted_proxies = TrustedProxies::of(flags.trusted_proxies.iter().map(String::as_str))
        .map_err(|why| wrong_flags(format!("--trusted-proxy: {why}")))?;
    Ok(ServiceLimits {
        jobs_max: flags.jobs_max,
        jobs_per_owner_max: flags.jobs_per_owner,
        requests_per_second: flags.requests_per_second,
        connections_max: flags.connections_max,
        trusted_proxies,
        proxy_protocol: flags.proxy_protocol,
        streams_max: flags.streams_max,
        streams_per_token_max: flags.streams_per_token,
        outlets_max: flags.outlets_max,
        outlet_rows_max: flags.outlet_rows_max,
        series_max: flags.series_max,
        scrapers: if flags.metrics_without_token {
            ScrapeAccess::Anybody
        } else {
            ScrapeAccess::WithToken
        },
        retention: RowRetention {
            age_ns: i64::from(flags.history_days) * DAY_NS,
            bytes: u64::from(flags.history_mib) << 20,
        },
        alerts: AlertLimits {
            rules_max: flags.alerts.rules_max,
            groups_max: flags.alerts.groups_max,
            silences_max: flags.alerts.silences_max,
            outbox_max: flags.alerts.outbox_max,
            retry_max: time(flags.alerts.retry_ns),
            resend: time(flags.alerts.resend_ns),
            ..AlertLimits::default()
        },
        actions: ActionLimits {
            actions_max: flags.actions.actions_max,
            groups_max: flags.actions.action_groups_max,
        },
        tuples_retention: RowRetention {
            age_ns: i64::from(flags.tuples_days) * DAY_NS,
            bytes: u64::from(flags.tuples_mib) << 20,
        },
        past: PastLimits {
            at_once: usize::from(flags.past_at_once),
            time: Duration::from_secs(flags.past_seconds.into()),
            bytes: (flags.past_mib as usize) << 20,
        },
        ..ServiceLimits::default()
    })
}

/// The data directory; `said`: from the flag.
fn data_folder(said: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(folder) = said {
        return Ok(folder.to_owned());
    }
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    match (state, home) {
        (_, Some(home)) if home == Path::new("/root") => Ok("/var/lib/netalytics".into()),
        (Some(state), _) if state.is_absolute() => Ok(state.join("netalytics")),
        (_, Some(home)) => Ok(home.join(".local/state/netalytics")),
        (_, None) => Err(wrong_flags("no home directory: use --data DIR")),
    }
}

fn backup(data: &Path, to: &Path) -> anyhow::Result<CommandOutcome> {
    let taken = server::backup(data, to).map_err(|why| anyhow!(why))?;
    output::complain(&format!(
        "{} files ({} bytes) are in {}",
        taken.files,
        taken.bytes,
        to.display()
    ));
    if taken.missing.is_empty() {
        Ok(CommandOutcome::Done)
    } else {
        Err(anyhow!(
            "files that the store names are missing from the data directory and the backup: {}",
            taken.missing.join(", ")
        ))
    }
}

fn restore(from: &Path, data: &Path) -> anyhow::Result<CommandOutcome> {
    let restored = server::restore(from, data).map_err(|why| anyhow!(why))?;
    let at = sinks::DisplayZone::default().time(restored.taken_ns);
    let files = restored.files;
    let bytes = restored.bytes;
    output::complain(&format!(
        "{files} files ({bytes} bytes) of {at} are in {}",
        data.display()
    ));
    if !restored.missing.is_empty() {
        output::complain(&format!(
            "note: the backup lacks {}",
            restored.missing.join(", ")
        ));
    }
    Ok(CommandOutcome::Done)
}
