//! `netalytics serve`: the service as this process.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow};
use server::{Gateway, GatewaySettings, Limits, Opened, PastLimits, Retention};

use crate::demo::Demo;
use crate::failure::{Ended, wrong_flags};
use crate::flags::service::{ServeFlags, ServeVerb};
use crate::output;

/// Serves, until a signal ends it, or copies what it was asked.
pub fn serve(flags: &ServeFlags) -> anyhow::Result<Ended> {
    if let Some(ServeVerb::Backup { file, data }) = &flags.what {
        return backup(&data_folder(data.as_deref())?, file);
    }
    // A demonstration leaves nothing behind.
    let passing = (flags.demo && flags.data.is_none()).then(tempfile::tempdir).transpose();
    let passing = passing.context("cannot make a folder for the demonstration")?;
    let folder = match &passing {
        Some(passing) => passing.path().to_owned(),
        None => data_folder(flags.data.as_deref())?,
    };
    let opened = Opened::open(&folder, limits(flags)).map_err(|error| anyhow!(error))?;
    if let Some(file) = &opened.admin_token {
        output::complain(&format!("the first token, an admin's, is in {}", file.display()));
    }
    let settings = GatewaySettings { agents_max: flags.agents_max, ..GatewaySettings::default() };
    let gateway = Gateway::open(&opened, settings).context("cannot read the data directory")?;
    let service = opened.serve(gateway).context("cannot read the data directory")?;
    let (mut demo, watched) = (None, service.clone());
    let ready = |address| {
        output::complain(&format!("serving on http://{address}; Ctrl-C ends it"));
        if flags.demo {
            demo = Demo::begin(&watched, address, &folder)
                .inspect_err(|error| output::complain(&format!("there is no demonstration: {error:#}")))
                .ok();
        }
    };
    server::serve(service, flags.listen, &flags.hosts, ready)
        .with_context(|| format!("cannot serve on {}", flags.listen))?;
    drop(demo);
    Ok(Ended::Done)
}

fn limits(flags: &ServeFlags) -> Limits {
    const DAY_NS: i64 = 86_400_000_000_000;
    Limits {
        jobs_max: flags.jobs_max,
        requests_per_second: flags.requests_per_second,
        connections_max: flags.connections_max,
        streams_max: flags.streams_max,
        retention: Retention {
            age_ns: i64::from(flags.history_days) * DAY_NS,
            bytes: u64::from(flags.history_mib) << 20,
        },
        tuples_retention: Retention {
            age_ns: i64::from(flags.tuples_days) * DAY_NS,
            bytes: u64::from(flags.tuples_mib) << 20,
        },
        past: PastLimits {
            at_once: usize::from(flags.past_at_once),
            time: Duration::from_secs(flags.past_seconds.into()),
            bytes: (flags.past_mib as usize) << 20,
        },
        ..Limits::default()
    }
}

/// Where the data are, unless said.
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
        (_, None) => Err(wrong_flags("there is no home directory: --data DIR says where to keep the data")),
    }
}

fn backup(folder: &Path, file: &Path) -> anyhow::Result<Ended> {
    let store = Opened::store_file(folder);
    if !store.is_file() {
        return Err(wrong_flags(format!("{} is no data directory of netalytics serve", folder.display())));
    }
    // Its owner's only, as what it is a copy of.
    if file.exists() {
        return Err(wrong_flags(format!("{} exists; a copy goes into a new file", file.display())));
    }
    output::create(file, crate::live::Owner::Us)?;
    server::backup(&store, file).with_context(|| format!("cannot copy the store to {}", file.display()))?;
    Ok(Ended::Done)
}
