//! Measures accuracy: captures are damaged in many ways, and every tuple is compared with those of the undamaged
//! capture.
//!
//! ```text
//! cargo run --release -p accuracy -- [--captures DIR] [--capture NAME] [--damage NAME] [--packets N] [--gbps N]
//!                                    [--seeds N] [--show N] [--json FILE] [--write DIR] [--verify-checksums true]
//! ```
//!
//! `--captures`: folder of the large captures in [`LARGE`]; those of the corpus next to the checkout and the models of
//! [`MODELS`] are always included, except with `--gbps`. `--capture`: only captures whose names contain this; or a file with its parser:
//! `mysql_query:my.pcap`. `--damage`: only damages whose names contain this, or another one such as
//! `loss-to-server=0.3%`. `--gbps`: the captures of [`SINGLE`], at a pace at which the connection has this many
//! gigabits per second. `--seeds`: minimum per cell; small captures have more. `--show`: number of faults shown per
//! cell. `--write`: also writes the damaged files. `--verify-checksums`: as the flag of `query`. Without it, cells with damaged bytes are
//! measured twice, the second time with right checksums in the undamaged packets, and verified. Exit code 1 if a value was wrong.

mod matrix;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use accuracy::model::{MODELS, Model};
use accuracy::{FaultKind, GroundTruth, Impairment, OutcomeCounts, PacketRecording};
use anyhow::{Context, Result, bail};
use serde_json::json;

use matrix::{LARGE, MATRIX, MIXED, REPOSITORY, SINGLE, SMALL};

/// Parsers with a judge.
const PARSERS: &[&str] = &[
    "http",
    "mysql_query",
    "postgresql",
    "memcached",
    "mongodb",
    "cassandra",
    "kafka",
    "redis",
    "nfs",
];
/// Maximum number of seeds for a small capture; fewer if [`SMALL_PACKETS`] packets have been read.
const SMALL_SEEDS: u64 = 20;
const SMALL_PACKETS: u64 = 40_000;

struct AccuracyFlags {
    captures: Option<PathBuf>,
    capture: Option<String>,
    damage: Option<String>,
    packets: usize,
    gbps: Option<f64>,
    seeds: u64,
    show: usize,
    json: Option<PathBuf>,
    write: Option<PathBuf>,
    verify_checksums: bool,
}

fn main() -> Result<ExitCode> {
    let flags = flags()?;
    let impairments = impairments(&flags)?;
    let mut cells = Vec::new();
    let mut wrong = 0;
    println!("{HEAD}");
    for (name, input, parser) in captures(&flags)? {
        let mut recording = match input {
            Input::File(path) => PacketRecording::load(&path, flags.packets)?,
            Input::Model(model) => model.recording(),
        };
        if let Some(rate) = flags.gbps {
            recording = recording.at_rate(rate * 1e9);
        }
        recording.verify_checksums = flags.verify_checksums;
        let verified = recording.verified();
        let input = MeasuredInput::of(&name, &recording, parser);
        let verified = MeasuredInput::of(&name, &verified, parser);
        let (transactions, unknown) = input.truth.size();
        eprintln!(
            "{name}: {} packets, {transactions} transactions, {unknown} responses not placed",
            recording.len()
        );
        for impairment in &impairments {
            let is_verified_too = impairment.is_in_bytes() && !flags.verify_checksums;
            for input in [Some(&input), Some(&verified).filter(|_| is_verified_too)] {
                let Some(input) = input else { continue };
                let began = Instant::now();
                let count = input.measure(*impairment, input.seeds(&flags));
                println!(
                    "{} {:.1} |",
                    row(input, *impairment, &count),
                    began.elapsed().as_secs_f64()
                );
                show(&count, flags.show);
                wrong += count.faults.len();
                cells.push(cell(input, *impairment, &count));
            }
            if let Some(folder) = &flags.write {
                input.write(*impairment, input.seeds(&flags), folder)?;
            }
        }
    }
    if let Some(path) = &flags.json {
        let result = json!({ "packets": flags.packets, "seeds": flags.seeds, "gbps": flags.gbps, "cells": cells });
        std::fs::write(path, serde_json::to_string_pretty(&result)? + "\n")
            .with_context(|| path.display().to_string())?;
    }
    Ok(if wrong == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// A capture or model, and its transactions.
struct MeasuredInput<'a> {
    name: &'a str,
    parser: &'a str,
    recording: &'a PacketRecording,
    truth: GroundTruth<'a>,
}

impl MeasuredInput<'_> {
    fn of<'a>(name: &'a str, recording: &'a PacketRecording, parser: &'a str) -> MeasuredInput<'a> {
        MeasuredInput {
            name,
            parser,
            recording,
            truth: GroundTruth::of(recording, parser),
        }
    }

    fn seeds(&self, flags: &AccuracyFlags) -> u64 {
        flags
            .seeds
            .max(SMALL_SEEDS.min(SMALL_PACKETS / self.recording.len().max(1) as u64))
    }

    fn measure(&self, impairment: Impairment, seeds: u64) -> OutcomeCounts {
        let mut count = OutcomeCounts::default();
        for seed in 0..if impairment.is_by_chance() { seeds } else { 1 } {
            let seen = impairment.apply(self.recording, &self.truth.servers(), seed);
            count.add(self.truth.judge(
                &self.recording.play(&seen, self.parser),
                &seen,
                impairment.tolerance(),
            ));
        }
        count
    }

    /// Writes the damaged files.
    fn write(&self, impairment: Impairment, seeds: u64, folder: &Path) -> Result<()> {
        (0..seeds).try_for_each(|seed| {
            let seen = impairment.apply(self.recording, &self.truth.servers(), seed);
            let name = format!("{}.{impairment}.{seed}.pcap", self.name);
            self.recording.write(&seen, &folder.join(name))
        })
    }
}

/// Prints some faults of each kind.
fn show(count: &OutcomeCounts, n: usize) {
    for kind in [
        FaultKind::Pair,
        FaultKind::Value,
        FaultKind::ExactWithHole,
        FaultKind::Half,
    ] {
        count
            .faults
            .iter()
            .filter(|f| f.kind == kind)
            .take(n)
            .for_each(|f| println!("    {f}"));
    }
}

fn impairments(flags: &AccuracyFlags) -> Result<Vec<Impairment>> {
    let Some(wanted) = &flags.damage else {
        return Ok(MATRIX.to_vec());
    };
    if wanted.contains('=') {
        return Ok(vec![wanted.parse()?]);
    }
    let found: Vec<Impairment> = MATRIX
        .iter()
        .copied()
        .filter(|i| i.to_string().contains(wanted.as_str()))
        .collect();
    if found.is_empty() {
        bail!("unknown damage {wanted}")
    } else {
        Ok(found)
    }
}

/// Origin of a capture.
#[derive(Clone)]
enum Input {
    File(PathBuf),
    Model(&'static Model),
}

fn captures(flags: &AccuracyFlags) -> Result<Vec<(String, Input, &'static str)>> {
    if let Some((parser, path)) = flags.capture.as_ref().and_then(|c| c.split_once(':')) {
        let parser = PARSERS
            .iter()
            .find(|name| **name == parser)
            .with_context(|| format!("{parser}: not one of {}", PARSERS.join(", ")))?;
        let name = Path::new(path)
            .file_stem()
            .map_or_else(String::new, |s| s.display().to_string());
        return Ok(vec![(name, Input::File(path.into()), *parser)]);
    }
    let corpus = |folder| testkit::corpus().map(|root| root.join(folder));
    let repository = Some(PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../captures"
    )));
    let of = |folder: &Option<PathBuf>, list: &[(&'static str, &'static str, &'static str)]| {
        let Some(folder) = folder else {
            return Vec::new();
        };
        let found = list
            .iter()
            .map(|(name, file, parser)| (*name, folder.join(file), *parser));
        let found = found.filter(|(_, path, _)| path.exists());
        found
            .map(|(name, path, parser)| (name, Input::File(path), parser))
            .collect::<Vec<_>>()
    };
    let models = MODELS
        .iter()
        .map(|model| (model.name, Input::Model(model), model.parser))
        .collect();
    let all = match flags.gbps {
        Some(_) => of(&flags.captures, SINGLE),
        None => [
            of(&flags.captures, LARGE),
            of(&corpus("live-captures"), SMALL),
            of(&corpus("bench"), MIXED),
            of(&repository, REPOSITORY),
            models,
        ]
        .concat(),
    };
    Ok(all
        .into_iter()
        .map(|(name, input, parser)| (name.to_owned(), input, parser))
        .filter(|(name, ..)| {
            flags
                .capture
                .as_ref()
                .is_none_or(|only| name.contains(only))
        })
        .collect())
}

const HEAD: &str = "| capture | damage | checksums | transactions | pairs | wrong pairs | contradicted | exact with a hole | false halves \
| findable | found of findable | of those that wait | exact | marked | half | missed | s |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |";

fn row(input: &MeasuredInput<'_>, impairment: Impairment, c: &OutcomeCounts) -> String {
    let share = |n: usize| format!("{:.2}%", 100.0 * n as f64 / c.transactions.max(1) as f64);
    let found = |(of, n): (usize, usize)| match of {
        0 => "–".to_owned(),
        of => format!("{:.1}%", 100.0 * n as f64 / of as f64),
    };
    let faults = [
        FaultKind::Pair,
        FaultKind::Value,
        FaultKind::ExactWithHole,
        FaultKind::Half,
    ];
    let faults = faults.map(|kind| c.of(kind).to_string()).join(" | ");
    let shares = [c.exact, c.marked, c.half, c.missed].map(share).join(" | ");
    format!(
        "| {} | {impairment} | {} | {} | {} | {faults} | {} | {} | {} | {shares} |",
        input.name,
        if input.recording.verify_checksums {
            "verified"
        } else {
            "–"
        },
        c.transactions,
        c.pairs,
        share(c.findable),
        found((c.findable, c.found)),
        found(c.waiting)
    )
}

fn cell(input: &MeasuredInput<'_>, impairment: Impairment, c: &OutcomeCounts) -> serde_json::Value {
    json!({
        "capture": input.name, "impairment": impairment.to_string(),
        "verified": input.recording.verify_checksums, "loss": impairment.loss(), "transactions": c.transactions,
        "findable": c.findable, "found": c.found, "waiting_findable": c.waiting.0, "waiting_found": c.waiting.1,
        "exact": c.exact, "marked": c.marked, "half": c.half, "missed": c.missed, "pairs": c.pairs,
        "wrong_pairs": c.of(FaultKind::Pair), "contradicted": c.of(FaultKind::Value),
        "exact_with_hole": c.of(FaultKind::ExactWithHole), "false_halves": c.of(FaultKind::Half),
    })
}

fn flags() -> Result<AccuracyFlags> {
    let mut flags = AccuracyFlags {
        captures: None,
        capture: None,
        damage: None,
        packets: 100_000,
        gbps: None,
        seeds: 2,
        show: 2,
        json: None,
        write: None,
        verify_checksums: false,
    };
    let mut args = std::env::args().skip(1);
    while let Some(flag) = args.next() {
        let value = args
            .next()
            .with_context(|| format!("{flag} needs a value"))?;
        let path = || Some(Path::new(&value).to_owned());
        match flag.as_str() {
            "--captures" => flags.captures = path(),
            "--capture" => flags.capture = Some(value),
            "--damage" => flags.damage = Some(value),
            "--packets" => flags.packets = value.parse()?,
            "--gbps" => flags.gbps = Some(value.parse()?),
            "--seeds" => flags.seeds = value.parse()?,
            "--show" => flags.show = value.parse()?,
            "--json" => flags.json = path(),
            "--write" => flags.write = path(),
            "--verify-checksums" => flags.verify_checksums = value.parse()?,
            _ => bail!("no flag {flag}: see the first lines of crates/accuracy/src/main.rs"),
        }
    }
    Ok(flags)
}
