//! `netalytics map -r FILE…` or `-i IFACE`: clients and services with their request rates and response times.

use std::collections::HashMap;

use crate::commands::work::Telling;
use crate::failure::{Ended, wrong_flags};
use crate::flags::{MapFlags, MapFormat, ShownNames};
use crate::looking::{self, look};
use crate::mapping::edges::Asked;
use crate::mapping::{dot, json, screen};
use crate::{dns_names, hosts, output};

/// Reads the input and prints the edges.
pub fn map(flags: &MapFlags, quiet: bool, verbose: bool) -> anyhow::Result<Ended> {
    let by_dns = flags.names == ShownNames::Dns;
    if by_dns && !dns_names::can_be_read_twice(&flags.look.read) {
        return Err(wrong_flags("--names dns reads the input twice: use files (-r FILE)"));
    }
    let mut names = hosts::read(flags.hosts.as_deref())?;
    let asked = Asked::new();
    let (rows, summary) = look(&flags.look, &asked.texts, Telling::of(quiet, verbose))?;
    let edges = asked.edges(&rows);
    hosts::add_those_of_captures(&flags.look.read, &mut names);
    let mut names = names.names;
    if by_dns {
        dns_names::add(&flags.look.read, &mut names)?;
    }
    if flags.no_resolve {
        names = HashMap::new();
    }
    let inputs = looking::names(&flags.look);
    let text = match flags.format {
        MapFormat::Text => screen::text(&edges, &inputs.join(", "), &names, looking::width()),
        MapFormat::Json => format!("{:#}\n", json::document(&edges, &asked.texts, &inputs, &names)),
        MapFormat::Dot => dot::text(&edges, &names),
    };
    let ended = output::print(output::visible_lines(&text).as_bytes())?;
    Ok(looking::told(&summary, ended, verbose))
}
