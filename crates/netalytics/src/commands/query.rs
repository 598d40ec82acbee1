//! `netalytics query 'QUERY' -r FILE…` or `-i IFACE`: prints the answer.

use std::collections::HashMap;
use std::net::IpAddr;

use capture::seccomp::FileAccess;
use planner::PlanOptions;
use query::CheckedQuery;
use sinks::{CsvSink, JsonlSink, ParquetSink, Sink, TableSink, TableStyle};
use tuple::RedactionSecret;

use crate::cli::flags::{HostNameSource, OutputFormat, QueryCommandFlags, QueryFlags, RedactFlags};
use crate::cli::query_text::CommandQuery;
use crate::cli::verbosity::Verbosity;
use crate::commands::{compare, query_remote, query_stored};
use crate::process::failure::{CommandOutcome, wrong_flags};
use crate::process::output::{self, OutputDestination};
use crate::run::open_outlets;
use crate::run::redaction::secret;
use crate::run::result_target::{ResultTarget, SinkContext};
use crate::run::run_query::work;
use crate::source::dns_names;
use runner::RowWriting;

const DNS_READS_TWICE: &str = "--names dns reads the input twice: use files (-r FILE)";

/// Answers the query locally or by a server's agents.
pub fn query(
    flags: &QueryCommandFlags,
    quiet: bool,
    verbose: bool,
) -> anyhow::Result<CommandOutcome> {
    let telling = Verbosity::of(quiet, verbose);
    let in_network = flags.query.work.network.network.is_some();
    if in_network && flags.remote.kept.server.is_some() {
        return Err(wrong_flags(
            "--network and --server cannot be combined; --by-network runs the query in the network of the server",
        ));
    }
    let query = CommandQuery::read(&flags.query.work.text)?;
    if let Some(server) = &flags.remote.kept.server {
        if query.has_since() || query.has_baseline() {
            let live = &flags.query.work.live;
            if !live.interfaces.is_empty() || !live.filter.is_empty() || flags.remote.by_network {
                return Err(wrong_flags(
                    "SINCE reads stored data: interfaces and filters were set when its job was started",
                ));
            }
            let answer =
                query_stored::ask(server, &flags.remote.kept, &query, compare::CONFIDENCE)?;
            return answer.print(&flags.query, telling);
        }
        return query_remote::query(server, flags, &query, telling);
    }
    let flags = &flags.query;
    if query.has_baseline() {
        return compare::with_baseline(flags, &query, telling);
    }
    work(&flags.work, &query, flags, telling)
}

impl ResultTarget for QueryFlags {
    /// Destination of the result, and outlets.
    type Ready = (
        OutputDestination,
        Option<(open_outlets::OpenOutlets, Option<RedactionSecret>)>,
    );

    fn path(&self) -> Option<&std::path::Path> {
        self.output.as_deref()
    }

    fn files(&self) -> FileAccess {
        FileAccess::ReadOnly
    }

    fn writing(&self) -> RowWriting {
        match self.format {
            Some(OutputFormat::Parquet) => RowWriting::InRowGroups,
            _ => RowWriting::AtOnce,
        }
    }

    fn options(&self, query: &CheckedQuery, options: PlanOptions) -> anyhow::Result<PlanOptions> {
        let read = &self.work.read;
        let is_once = read.is_empty()
            || read
                .iter()
                .any(|path| path.as_path() == std::path::Path::new("-"));
        if self.names == HostNameSource::Dns
            && self.format == Some(OutputFormat::Table)
            && !self.no_resolve
            && is_once
        {
            return Err(wrong_flags(DNS_READS_TWICE));
        }
        open_outlets::check(&self.outlets, query)?;
        Ok(options)
    }

    fn prepare(&self, query: &str) -> anyhow::Result<Self::Ready> {
        let destination =
            OutputDestination::open(self.output.as_deref(), self.work.live.file_owner())?;
        if self.format == Some(OutputFormat::Parquet) && destination.terminal {
            return Err(wrong_flags(
                "Parquet cannot be written to a terminal: use -o FILE",
            ));
        }
        let Some(outlets) = open_outlets::OpenOutlets::prepare(&self.outlets, query)? else {
            return Ok((destination, None));
        };
        let RedactFlags {
            no_redact,
            redact_key,
        } = &self.redact;
        let secret = if *no_redact {
            None
        } else {
            Some(secret(redact_key.as_deref())?)
        };
        Ok((destination, Some((outlets, secret))))
    }

    fn start(&self, (_, outlets): &mut Self::Ready) -> anyhow::Result<()> {
        outlets
            .as_mut()
            .map_or(Ok(()), |(outlets, _)| outlets.start(&self.work.live))
    }

    fn name(&self, (destination, _): &Self::Ready) -> (String, bool) {
        (destination.name.clone(), destination.terminal)
    }

    fn is_watched(&self, (destination, _): &Self::Ready) -> bool {
        destination.terminal && matches!(self.format, None | Some(OutputFormat::Table))
    }

    fn open(
        &self,
        (destination, outlets): Self::Ready,
        opened: SinkContext,
    ) -> anyhow::Result<Box<dyn Sink>> {
        let heads = opened.heads.clone();
        let sink = self.printer(destination, opened)?;
        Ok(match outlets {
            Some((outlets, secret)) => outlets.beside(sink, &heads, secret),
            None => sink,
        })
    }
}

impl QueryFlags {
    /// Output format.
    pub fn format_for(&self, destination: &OutputDestination) -> OutputFormat {
        match (self.format, destination.terminal) {
            (Some(format), _) => format,
            (None, true) if !self.json => OutputFormat::Table,
            (None, _) => OutputFormat::Jsonl,
        }
    }

    fn printer(
        &self,
        destination: OutputDestination,
        opened: SinkContext,
    ) -> anyhow::Result<Box<dyn Sink>> {
        let format = self.format_for(&destination);
        let out = destination.writer;
        let file = destination.file;
        Ok(match format {
            OutputFormat::Jsonl => Box::new(JsonlSink::new(out, &opened.heads)),
            OutputFormat::Csv if destination.terminal => {
                Box::new(CsvSink::for_eyes(out, &opened.heads))
            }
            OutputFormat::Csv => Box::new(CsvSink::new(out, &opened.heads)),
            OutputFormat::Table => {
                let size = destination.terminal.then(output::terminal_size).flatten();
                let (width, height) = size.unzip();
                let mut names: Option<HashMap<_, _>> =
                    (!self.no_resolve).then_some(opened.names.names);
                if let (HostNameSource::Dns, Some(names)) = (self.names, &mut names) {
                    self.add_dns_names(names)?;
                }
                Box::new(TableSink::new(
                    out,
                    &opened.heads,
                    TableStyle {
                        width,
                        height,
                        names,
                        zone: self.time_zone.clone(),
                        pace: opened.pace,
                    },
                ))
            }
            OutputFormat::Parquet => {
                let mut tables = opened.tables;
                let Some(table) = tables.pop().filter(|_| tables.is_empty()) else {
                    return Err(wrong_flags(
                        "a Parquet file holds one result, and the query has several: use netalytics record … -o DIR",
                    ));
                };
                let parquet = ParquetSink::new(
                    out,
                    table.head,
                    table.schema,
                    table.columns,
                    opened.row_group_bytes,
                )?;
                Box::new(parquet.whole_after_each_group(file))
            }
        })
    }

    /// Adds names from DNS responses in the captures.
    fn add_dns_names(&self, names: &mut HashMap<IpAddr, String>) -> anyhow::Result<()> {
        let captures = &self.work.read;
        if !dns_names::can_be_read_twice(captures) {
            return Err(wrong_flags(DNS_READS_TWICE));
        }
        match dns_names::add(captures, names)? {
            0 => {}
            n => output::complain(&format!(
                "note: {n} addresses have no name: too many names in DNS answers"
            )),
        }
        Ok(())
    }
}
