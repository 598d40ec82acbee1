//! Output of a placement study in a folder: all runs and their means as CSV, and the paper's figures.

mod figures;
mod line_plot;

use std::fs;
use std::path::Path;

use anyhow::Context;
use planner::simulate::{MeanDeviation, PlacementStudy, StudyPoint, StudyRun};

/// Writes all files to a folder, which is created if missing.
pub fn write(
    folder: &Path,
    study: &PlacementStudy,
    runs: &[StudyRun],
    points: &[StudyPoint],
) -> anyhow::Result<()> {
    let named = || format!("cannot write to {}", folder.display());
    fs::create_dir_all(folder).with_context(named)?;
    let mut files = vec![
        ("runs.csv", runs_csv(runs)),
        ("placement.csv", points_csv(points)),
    ];
    for (name, figure) in figures::all(study, points) {
        files.push((name, line_plot::draw(&figure)?));
    }
    for (name, text) in files {
        fs::write(folder.join(name), text).with_context(named)?;
    }
    Ok(())
}

/// A quantity of a study per strategy and number of flows.
pub struct StudyMeasure {
    /// Name of its column.
    pub name: &'static str,
    /// Accessor.
    pub of: fn(&StudyPoint) -> MeanDeviation,
    /// Decimals of its mean on a terminal; `None`: files only.
    pub shown: Option<usize>,
}

/// All quantities, in the order of columns.
pub const FIGURES: &[StudyMeasure] = &[
    StudyMeasure {
        name: "extra_percent",
        of: |p| p.extra,
        shown: Some(2),
    },
    StudyMeasure {
        name: "weighted_percent",
        of: |p| p.weighted,
        shown: Some(2),
    },
    StudyMeasure {
        name: "all_extra_percent",
        of: |p| p.extra_all,
        shown: Some(2),
    },
    StudyMeasure {
        name: "all_weighted_percent",
        of: |p| p.weighted_all,
        shown: Some(2),
    },
    StudyMeasure {
        name: "monitors",
        of: |p| p.monitors,
        shown: Some(1),
    },
    StudyMeasure {
        name: "aggregators",
        of: |p| p.aggregators,
        shown: Some(1),
    },
    StudyMeasure {
        name: "processors",
        of: |p| p.processors,
        shown: Some(1),
    },
    StudyMeasure {
        name: "processes",
        of: |p| p.processes,
        shown: Some(1),
    },
    StudyMeasure {
        name: "left_out",
        of: |p| p.left_out,
        shown: None,
    },
];

/// Formats with at most `most` decimals, without trailing zeros.
pub fn decimals(number: f64, most: usize) -> String {
    let text = format!("{number:.most$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

fn points_csv(points: &[StudyPoint]) -> String {
    let mut text = String::from("strategy,flows,runs");
    FIGURES
        .iter()
        .for_each(|figure| text += &format!(",{0},{0}_deviation", figure.name));
    text.push('\n');
    for p in points {
        text += &format!("{},{},{}", p.strategy.name(), p.monitored, p.runs);
        for MeanDeviation { mean, deviation } in FIGURES.iter().map(|figure| (figure.of)(p)) {
            text += &format!(",{},{}", decimals(mean, 4), decimals(deviation, 4));
        }
        text.push('\n');
    }
    text
}

/// CSV of the load in Mb/s by class of links and section of the path.
fn runs_csv(runs: &[StudyRun]) -> String {
    let mut text = String::from(
        "seed,strategy,flows,monitors,aggregators,processors,too_big,no_room,unprocessed",
    );
    for leg in ["mirrored", "extracted", "analysed"] {
        text += &format!(",{leg}_access_mbps,{leg}_aggregation_mbps,{leg}_core_mbps");
    }
    text.push('\n');
    for run in runs {
        let cost = &run.cost;
        let name = run.strategy.name();
        let counts = [cost.monitors, cost.aggregators, cost.processors]
            .map(|count| count.to_string())
            .join(",");
        let left = format!(
            "{},{},{}",
            run.uncovered.too_big, run.uncovered.no_room, run.unprocessed
        );
        text += &format!("{},{name},{},{counts},{left}", run.seed, run.monitored);
        for mbps in [cost.mirrored, cost.extracted, cost.analyzed]
            .iter()
            .flat_map(|leg| leg.0)
        {
            text += &format!(",{}", decimals(mbps, 1));
        }
        text.push('\n');
    }
    text
}
