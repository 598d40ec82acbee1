//! What a placement study leaves in a folder: each run and their means as CSV, and the paper's figures.

mod figures;
mod plot;

use std::fs;
use std::path::Path;

use anyhow::Context;
use planner::simulate::{Figure, Point, Run, Study};

/// Writes everything into a folder, which is made when there is none.
pub fn write(folder: &Path, study: &Study, runs: &[Run], points: &[Point]) -> anyhow::Result<()> {
    let named = || format!("cannot write to {}", folder.display());
    fs::create_dir_all(folder).with_context(named)?;
    let mut files = vec![("runs.csv", runs_csv(runs)), ("placement.csv", points_csv(points))];
    for (name, figure) in figures::all(study, points) {
        files.push((name, plot::draw(&figure)?));
    }
    for (name, text) in files {
        fs::write(folder.join(name), text).with_context(named)?;
    }
    Ok(())
}

/// So many decimals, and no more than there are.
pub fn decimals(number: f64, most: usize) -> String {
    let text = format!("{number:.most$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn points_csv(points: &[Point]) -> String {
    let mut text = String::from("strategy,flows,runs");
    const FIGURES: [&str; 9] = [
        "extra_percent",
        "weighted_percent",
        "all_extra_percent",
        "all_weighted_percent",
        "monitors",
        "aggregators",
        "processors",
        "processes",
        "left_out",
    ];
    FIGURES.iter().for_each(|name| text += &format!(",{name},{name}_deviation"));
    text.push('\n');
    for p in points {
        text += &format!("{},{},{}", p.strategy.name(), p.monitored, p.runs);
        let figures = [
            p.extra,
            p.weighted,
            p.extra_all,
            p.weighted_all,
            p.monitors,
            p.aggregators,
            p.processors,
            p.processes,
            p.left_out,
        ];
        for Figure { mean, deviation } in figures {
            text += &format!(",{},{}", decimals(mean, 4), decimals(deviation, 4));
        }
        text.push('\n');
    }
    text
}

/// Mb/s on each class of links, each leg of the way.
fn runs_csv(runs: &[Run]) -> String {
    let mut text =
        String::from("seed,strategy,flows,monitors,aggregators,processors,too_big,no_room,unprocessed");
    for leg in ["mirrored", "extracted", "analysed"] {
        text += &format!(",{leg}_access_mbps,{leg}_aggregation_mbps,{leg}_core_mbps");
    }
    text.push('\n');
    for run in runs {
        let (cost, name) = (&run.cost, run.strategy.name());
        let counts =
            [cost.monitors, cost.aggregators, cost.processors].map(|count| count.to_string()).join(",");
        let left = format!("{},{},{}", run.uncovered.too_big, run.uncovered.no_room, run.unprocessed);
        text += &format!("{},{name},{},{counts},{left}", run.seed, run.monitored);
        for mbps in [cost.mirrored, cost.extracted, cost.analysed].iter().flat_map(|leg| leg.0) {
            text += &format!(",{}", decimals(mbps, 1));
        }
        text.push('\n');
    }
    text
}
