//! `netalytics map -r FILE…` or `-i IFACE`: clients and services with their request rates and response times.

use std::collections::HashMap;

use crate::cli::flags::{HostNameSource, MapFlags, MapFormat};
use crate::cli::verbosity::Verbosity;
use crate::diagnose::service_map::edges::MapQueries;
use crate::diagnose::service_map::{dot, json, screen};
use crate::process::failure::{CommandOutcome, wrong_flags};
use crate::process::output;
use crate::render::hosts;
use crate::run::multi_query::{self, look};
use crate::source::dns_names;

/// Reads the input and prints the edges.
pub fn map(flags: &MapFlags, quiet: bool, verbose: bool) -> anyhow::Result<CommandOutcome> {
    let by_dns = flags.names == HostNameSource::Dns;
    if by_dns && !dns_names::can_be_read_twice(&flags.look.read) {
        return Err(wrong_flags(
            "--names dns reads the input twice: use files (-r FILE)",
        ));
    }
    let mut names = hosts::read(flags.hosts.as_deref())?;
    let asked = MapQueries::new();
    let (rows, summary) = look(&flags.look, &asked.texts, Verbosity::of(quiet, verbose))?;
    let edges = asked.edges(&rows);
    hosts::add_those_of_captures(&flags.look.read, &mut names);
    let mut names = names.names;
    if by_dns {
        dns_names::add(&flags.look.read, &mut names)?;
    }
    if flags.no_resolve {
        names = HashMap::new();
    }
    let inputs = multi_query::names(&flags.look);
    let text = match flags.format {
        MapFormat::Text => screen::text(&edges, &inputs.join(", "), &names, multi_query::width()),
        MapFormat::Json => format!(
            "{:#}\n",
            json::document(&edges, &asked.texts, &inputs, &names)
        ),
        MapFormat::Dot => dot::text(&edges, &names),
    };
    let ended = output::print(output::visible_lines(&text).as_bytes())?;
    Ok(multi_query::told(&summary, ended, verbose))
}
