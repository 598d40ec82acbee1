//! The mispair curve: every tuple of damaged captures compared with those of the whole ones.
//!
//!     cargo run --release -p accuracy -- [--captures DIR] [--packets N] [--seeds N] [--only NAME] [--json FILE]
//!                                        [--show N] [--write DIR]
//!
//! `--captures`: large captures with the names in [`LARGE`]; those of the corpus beside the checkout are always taken.
//! `--seeds`: at least so many for each cell; small captures have more. `--show`: so many wrong tuples of each cell. `--write`: also the damaged files that other programs are compared on.
//! Exit code 1 when anything was wrong.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use accuracy::{Count, Harm, Recording, Truth};
use anyhow::{Context, Result, bail};
use serde_json::json;

/// Recordings of real servers under load, made by the generator that lies beside the checkout.
const LARGE: &[(&str, &str)] = &[
    ("http_web", "http"),
    ("http_api", "http"),
    ("mysql_text", "mysql_query"),
    ("mysql_prep", "mysql_query"),
    ("mc_ascii", "memcached"),
    ("mc_bin", "memcached"),
];
/// Small ones of the corpus.
const SMALL: &[(&str, &str)] = &[
    ("http_keepalive.pcap.gz", "http"),
    ("http_pipelined.pcap", "http"),
    ("http_mix.pcap", "http"),
    ("mysql_mix.pcap", "mysql_query"),
    ("mysql_sysbench_ps.pcap", "mysql_query"),
    ("mc_text.pcap", "memcached"),
    ("mc_binary.pcap", "memcached"),
    ("mc_load.pcap", "memcached"),
];
const HARMS: &[Harm] = &[
    Harm::None,
    Harm::Loss(0.0001),
    Harm::Loss(0.001),
    Harm::Loss(0.005),
    Harm::Loss(0.01),
    Harm::Loss(0.02),
    Harm::Loss(0.05),
    Harm::Loss(0.1),
    Harm::Bursts(0.0001),
    Harm::Bursts(0.001),
    Harm::Bursts(0.005),
    Harm::Bursts(0.01),
    Harm::Bursts(0.02),
    Harm::Bursts(0.05),
    Harm::Bursts(0.1),
    Harm::Duplicates(0.01),
    Harm::Duplicates(0.1),
    Harm::Reorder(0.01),
    Harm::Reorder(0.1),
    Harm::All(0.01),
    Harm::All(0.05),
    Harm::Joined(0.3),
    Harm::Requests,
    Harm::Responses,
];
/// What other programs are compared on.
const WRITTEN: &[Harm] = &[Harm::None, Harm::Loss(0.01), Harm::Loss(0.05), Harm::Loss(0.1)];

/// Small captures are damaged from so many seeds, or until so many packets have been read, so that their figures mean something, too.
const SMALL_SEEDS: u64 = 20;
const SMALL_PACKETS: u64 = 40_000;

struct Flags {
    captures: Option<PathBuf>,
    packets: usize,
    seeds: u64,
    only: Option<String>,
    json: Option<PathBuf>,
    show: usize,
    write: Option<PathBuf>,
}

fn main() -> Result<ExitCode> {
    let flags = flags()?;
    let (mut cells, mut wrong) = (Vec::new(), 0);
    println!("{HEAD}");
    for (name, path, parser) in captures(&flags) {
        let recording = Recording::load(&path, flags.packets)?;
        let truth = Truth::of(&recording, parser);
        let (transactions, unknown) = truth.size();
        eprintln!(
            "{name}: {} packets, {transactions} transactions, {unknown} responses not placed",
            recording.len()
        );
        for harm in HARMS {
            let seeds = flags.seeds.max(SMALL_SEEDS.min(SMALL_PACKETS / recording.len().max(1) as u64));
            let count = measure(&recording, &truth, parser, *harm, seeds);
            println!("{}", row(&name, *harm, &count));
            count.wrong.iter().take(flags.show).for_each(|w| println!("    {w}"));
            wrong += count.wrong.len();
            cells.push(cell(&name, *harm, &count));
        }
        if let Some(folder) = &flags.write {
            for harm in WRITTEN {
                let seen = harm.apply(&recording, &truth.servers(), 0);
                let file = format!("{name}.{}.pcap", harm.loss().unwrap_or_default());
                recording.write(&seen, &folder.join(file))?;
            }
        }
    }
    if let Some(path) = &flags.json {
        let result = json!({ "packets": flags.packets, "seeds": flags.seeds, "cells": cells });
        std::fs::write(path, serde_json::to_string_pretty(&result)? + "\n")
            .with_context(|| path.display().to_string())?;
    }
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn measure(recording: &Recording, truth: &Truth, parser: &str, harm: Harm, seeds: u64) -> Count {
    let by_chance = !matches!(harm, Harm::None | Harm::Joined(_) | Harm::Requests | Harm::Responses);
    let mut count = Count::default();
    for seed in 0..if by_chance { seeds } else { 1 } {
        let seen = harm.apply(recording, &truth.servers(), seed);
        count.add(truth.judge(&recording.play(&seen, parser), &seen));
    }
    count
}

fn captures(flags: &Flags) -> Vec<(String, PathBuf, &'static str)> {
    let corpus = testkit::corpus().map(|root| root.join("live-captures"));
    let of = |folder: &Option<PathBuf>, list: &[(&'static str, &'static str)], end: &str| {
        let Some(folder) = folder else { return Vec::new() };
        let found = list.iter().map(|(name, parser)| (*name, folder.join(format!("{name}{end}")), *parser));
        found.filter(|(_, path, _)| path.exists()).collect::<Vec<_>>()
    };
    let all = of(&flags.captures, LARGE, ".pcap").into_iter().chain(of(&corpus, SMALL, ""));
    all.map(|(name, path, parser)| (name.split('.').next().unwrap_or(name).to_owned(), path, parser))
        .filter(|(name, ..)| flags.only.as_ref().is_none_or(|only| name.contains(only)))
        .collect()
}

const HEAD: &str = "| capture | harm | transactions | findable | exact | marked | half | missed | wrong | found of findable |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |";

fn row(name: &str, harm: Harm, c: &Count) -> String {
    let share = |n: usize| format!("{:.2} %", 100.0 * n as f64 / c.transactions.max(1) as f64);
    let found = match c.findable {
        0 => "–".to_owned(),
        n => format!("{:.1} %", 100.0 * (c.exact + c.marked) as f64 / n as f64),
    };
    let shares = [c.findable, c.exact, c.marked, c.half, c.missed].map(share).join(" | ");
    format!("| {name} | {harm} | {} | {shares} | {} | {found} |", c.transactions, c.wrong.len())
}

fn cell(name: &str, harm: Harm, c: &Count) -> serde_json::Value {
    let kind = harm.to_string();
    json!({
        "capture": name, "harm": kind, "loss": harm.loss(), "transactions": c.transactions, "findable": c.findable,
        "exact": c.exact, "marked": c.marked, "half": c.half, "missed": c.missed, "wrong": c.wrong.len(),
    })
}

fn flags() -> Result<Flags> {
    let mut flags =
        Flags { captures: None, packets: 100_000, seeds: 2, only: None, json: None, show: 0, write: None };
    let mut args = std::env::args().skip(1);
    while let Some(flag) = args.next() {
        let value = args.next().with_context(|| format!("{flag} needs a value"))?;
        let path = || Some(Path::new(&value).to_owned());
        match flag.as_str() {
            "--captures" => flags.captures = path(),
            "--packets" => flags.packets = value.parse()?,
            "--seeds" => flags.seeds = value.parse()?,
            "--only" => flags.only = Some(value),
            "--json" => flags.json = path(),
            "--show" => flags.show = value.parse()?,
            "--write" => flags.write = path(),
            _ => bail!("no flag {flag}: see the first lines of crates/accuracy/src/main.rs"),
        }
    }
    Ok(flags)
}
