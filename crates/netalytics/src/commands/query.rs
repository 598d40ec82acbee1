//! `netalytics query 'QUERY' -r FILE…` or `-i IFACE`: prints the answer.

use std::collections::HashMap;
use std::net::IpAddr;

use capture::seccomp::Files;
use plan::Plan;
use sinks::{Csv, Jsonl, Parquet, Sink, Style, Table};
use tuple::Secret;

use crate::commands::work::{Opened, Target, Telling, work};
use crate::commands::{compare, query_past, query_served};
use crate::delivering;
use crate::dns_names;
use crate::failure::{Ended, wrong_flags};
use crate::flags::{AskFlags, Format, QueryFlags, RedactFlags, ShownNames};
use crate::live::Owner;
use crate::output::{self, Destination};
use crate::query_text;
use crate::redaction::secret;
use runner::Writing;

const DNS_READS_TWICE: &str = "--names dns reads the input twice: use files (-r FILE)";

/// Answers the query locally or by a server's agents.
pub fn query(flags: &mut AskFlags, quiet: bool, verbose: bool) -> anyhow::Result<Ended> {
    let telling = Telling::of(quiet, verbose);
    let in_network = flags.query.work.network.network.is_some();
    if in_network && flags.remote.kept.server.is_some() {
        return Err(wrong_flags(
            "--network and --server cannot be combined; --by-network runs the query in the network of the server",
        ));
    }
    if let Some(server) = &flags.remote.kept.server {
        let text = query_text::read(&flags.query.work.text)?;
        if query_past::is_asked(&text) {
            let live = &flags.query.work.live;
            if !live.interfaces.is_empty() || !live.filter.is_empty() || flags.remote.by_network {
                return Err(wrong_flags(
                    "SINCE reads stored data: interfaces and filters were set when its job was started",
                ));
            }
            let answer = query_past::ask(server, &flags.remote.kept, &text, compare::CONFIDENCE)?;
            return answer.print(&flags.query, &text, telling);
        }
        flags.query.work.text.query = Some(text);
        return query_served::query(server, flags, telling);
    }
    let flags = &mut flags.query;
    let text = query_text::read(&flags.work.text)?;
    let has_baseline = query::parse(&text).0.baseline.is_some();
    flags.work.text.query = Some(text);
    if has_baseline {
        return compare::with_baseline(flags, telling);
    }
    work(&flags.work, flags, telling)
}

impl Target for QueryFlags {
    /// Destination of the result, and outlets.
    type Ready = (Destination, Option<(delivering::Ready, Option<Secret>)>);

    fn path(&self) -> Option<&std::path::Path> {
        self.output.as_deref()
    }

    fn files(&self) -> Files {
        Files::ReadOnly
    }

    fn writing(&self) -> Writing {
        match self.format {
            Some(Format::Parquet) => Writing::InRowGroups,
            _ => Writing::AtOnce,
        }
    }

    fn fit(&self, plan: &mut Plan) -> anyhow::Result<()> {
        let read = &self.work.read;
        let is_once = read.is_empty() || read.iter().any(|path| path.as_path() == std::path::Path::new("-"));
        if self.names == ShownNames::Dns && self.format == Some(Format::Table) && !self.no_resolve && is_once
        {
            return Err(wrong_flags(DNS_READS_TWICE));
        }
        delivering::fit(&self.outlets, plan)
    }

    fn prepare(&self) -> anyhow::Result<Self::Ready> {
        let destination = Destination::open(self.output.as_deref(), Owner::of(&self.work.live))?;
        if self.format == Some(Format::Parquet) && destination.terminal {
            return Err(wrong_flags("Parquet cannot be written to a terminal: use -o FILE"));
        }
        let Some(outlets) = delivering::Ready::prepare(&self.outlets, self.work.text.query.as_deref())?
        else {
            return Ok((destination, None));
        };
        let RedactFlags { no_redact, redact_key } = &self.redact;
        let secret = if *no_redact { None } else { Some(secret(redact_key.as_deref())?) };
        Ok((destination, Some((outlets, secret))))
    }

    fn start(&self, (_, outlets): &mut Self::Ready) -> anyhow::Result<()> {
        outlets.as_mut().map_or(Ok(()), |(outlets, _)| outlets.start(&self.work.live))
    }

    fn name(&self, (destination, _): &Self::Ready) -> (String, bool) {
        (destination.name.clone(), destination.terminal)
    }

    fn is_watched(&self, (destination, _): &Self::Ready) -> bool {
        destination.terminal && matches!(self.format, None | Some(Format::Table))
    }

    fn open(&self, (destination, outlets): Self::Ready, opened: Opened) -> anyhow::Result<Box<dyn Sink>> {
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
    pub fn format_for(&self, destination: &Destination) -> Format {
        match (self.format, destination.terminal) {
            (Some(format), _) => format,
            (None, true) if !self.json => Format::Table,
            (None, _) => Format::Jsonl,
        }
    }

    fn printer(&self, destination: Destination, opened: Opened) -> anyhow::Result<Box<dyn Sink>> {
        let format = self.format_for(&destination);
        let (out, file) = (destination.writer, destination.file);
        Ok(match format {
            Format::Jsonl => Box::new(Jsonl::new(out, &opened.heads)),
            Format::Csv if destination.terminal => Box::new(Csv::for_eyes(out, &opened.heads)),
            Format::Csv => Box::new(Csv::new(out, &opened.heads)),
            Format::Table => {
                let size = destination.terminal.then(output::terminal_size).flatten();
                let (width, height) = size.unzip();
                let mut names: Option<HashMap<_, _>> = (!self.no_resolve).then_some(opened.names.names);
                if let (ShownNames::Dns, Some(names)) = (self.names, &mut names) {
                    self.add_dns_names(names)?;
                }
                Box::new(Table::new(
                    out,
                    &opened.heads,
                    Style { width, height, names, zone: self.time_zone.clone(), pace: opened.pace },
                ))
            }
            Format::Parquet => {
                let mut tables = opened.tables;
                let Some(table) = tables.pop().filter(|_| tables.is_empty()) else {
                    return Err(wrong_flags(
                        "a Parquet file holds one result, and the query has several: use netalytics record … -o DIR",
                    ));
                };
                let parquet =
                    Parquet::new(out, table.head, table.schema, table.columns, opened.row_group_bytes)?;
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
            n => {
                output::complain(&format!("note: {n} addresses have no name: too many names in DNS answers"))
            }
        }
        Ok(())
    }
}
