//! Host names from DNS responses in the captures, for tables. The captures are read an additional time with the DNS
//! parser; names from a hosts file or a capture take precedence.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use monitor::{JobInput, MonitorJob, MonitorProgress, job};
use stream::{EngineOutput, OutputConsumer};

/// Query for addresses and names.
const QUERY: &str = "PARSE dns WHERE query_type in ('A', 'AAAA') and answer_count > 0";
/// Maximum addresses with names.
const NAMES_MAX: usize = 1 << 16;
/// Maximum wait for other operations.
const PATIENCE: Duration = Duration::from_secs(1);

/// Adds the names of DNS responses in `captures` to `names`: the first requested name per address. Returns the number
/// of addresses dropped because of the limit. Skips standard input, other unrepeatable input, and recordings.
pub fn add(captures: &[PathBuf], names: &mut HashMap<IpAddr, String>) -> anyhow::Result<u64> {
    let files: Vec<PathBuf> = captures
        .iter()
        .filter(|path| path.is_file())
        .cloned()
        .collect();
    let query = query::check(
        QUERY,
        &parsers::registry::schemas(),
        &query::HostTable::default(),
    );
    let query = query.map_err(|errors| anyhow::anyhow!(query::render(&errors, QUERY)))?;
    let plan = planner::lower(&query);
    let input = JobInput::Shared(capture::open(&files), 1);
    let mut job = MonitorJob::start(&plan, &job::JobConfig::default(), input)
        .context("cannot start a worker")?;
    let mut learned = LearnedDnsNames {
        names,
        room: NAMES_MAX,
        too_many: 0,
    };
    while job.next(PATIENCE, &mut learned) != MonitorProgress::Done {}
    let too_many = learned.too_many;
    // The main run reports unreadable input.
    let _ = job.end();
    Ok(too_many)
}

/// Whether `captures` are files, so that they can be read twice.
pub fn can_be_read_twice(captures: &[PathBuf]) -> bool {
    !captures.is_empty()
        && captures
            .iter()
            .all(|path| path.as_path() != Path::new("-") && path.exists())
}

struct LearnedDnsNames<'a> {
    names: &'a mut HashMap<IpAddr, String>,
    room: usize,
    too_many: u64,
}

impl OutputConsumer for LearnedDnsNames<'_> {
    fn take(&mut self, EngineOutput { batch, .. }: EngineOutput) {
        let column = |name: &str| {
            batch
                .schema()
                .find(name)
                .filter(|id| batch.column(*id).is_some())
        };
        let (Some(name), Some(answers)) = (column("query_name"), column("answers")) else {
            return;
        };
        let rows = batch.text(name).iter().zip(batch.text(answers).iter());
        for (name, answers) in rows.filter_map(|(name, answers)| name.zip(answers)) {
            answers
                .split(',')
                .filter_map(|answer| answer.parse().ok())
                .for_each(|ip| self.learn(ip, name));
        }
    }
}

impl LearnedDnsNames<'_> {
    fn learn(&mut self, ip: IpAddr, name: &str) {
        if self.names.contains_key(&ip) {
            return;
        }
        if self.room == 0 {
            self.too_many += 1;
            return;
        }
        self.room -= 1;
        self.names.insert(ip, name.to_owned());
    }
}
