//! `netalytics simulate placement`: the placement study, printed and drawn.

use std::io::{IsTerminal, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use planner::simulate::{PlacementStudy, StudyPoint, StudyRun, summarize};

use super::listing;
use crate::cli::flags::simulate::{PlacementFlags, SimulateCommand, SimulateFlags};
use crate::cli::flags::{OutputFormat, ProgressMode};
use crate::network::study_output::{self, FIGURES, decimals};
use crate::process::failure::{CommandOutcome, wrong_flags};
use crate::process::output;

/// Runs the study.
pub fn simulate(flags: &SimulateFlags, quiet: bool) -> anyhow::Result<CommandOutcome> {
    match &flags.what {
        SimulateCommand::Placement(flags) => placement(flags, quiet),
    }
}

fn placement(flags: &PlacementFlags, quiet: bool) -> anyhow::Result<CommandOutcome> {
    let study = flags.study()?;
    if flags.format == OutputFormat::Parquet {
        return Err(wrong_flags("the formats are table, jsonl and csv"));
    }
    let runs = runs(flags, &study)?;
    let points = summarize(&study, &runs);
    if let Some(folder) = &flags.output {
        study_output::write(folder, &study, &runs, &points)?;
    }
    if !quiet {
        points
            .iter()
            .filter(|point| point.left_out.mean > 0.0)
            .for_each(|point| output::complain(&left_out(point)));
    }
    let rows: Vec<Vec<String>> = points.iter().map(row).collect();
    match flags.format {
        OutputFormat::Table => output::print(listing::table(&columns(), &rows).as_bytes()),
        format => listing::print_rows(&columns(), &rows, format),
    }
}

fn runs(flags: &PlacementFlags, study: &PlacementStudy) -> anyhow::Result<Vec<StudyRun>> {
    let each = study.monitored.len() * study.strategies.len();
    let shown = SimulationProgress::new(flags.progress, flags.seeds * each as u64);
    let mut runs = Vec::new();
    for seed in (0..flags.seeds).map(|nth| flags.seed.wrapping_add(nth)) {
        study
            .run(seed, |run| {
                runs.push(run.clone());
                shown.tell(runs.len(), each);
            })
            .map_err(|unfit| wrong_flags(format!("--k: {unfit}")))?;
    }
    Ok(runs)
}

/// Progress on standard error.
enum SimulationProgress {
    Nothing,
    Bar(ProgressBar),
    Lines(u64),
}

impl SimulationProgress {
    fn new(when: ProgressMode, all: u64) -> SimulationProgress {
        match (when, stderr().is_terminal()) {
            (ProgressMode::Never, _) | (ProgressMode::Auto, false) => SimulationProgress::Nothing,
            (ProgressMode::Always, false) => SimulationProgress::Lines(all),
            (_, true) => {
                let style =
                    ProgressStyle::with_template("{bar:30} {pos} of {len} placements  {eta} left");
                let bar = ProgressBar::new(all)
                    .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
                bar.enable_steady_tick(Duration::from_millis(500));
                SimulationProgress::Bar(bar)
            }
        }
    }

    /// Reports that `done` placements are complete, `each` per seed.
    fn tell(&self, done: usize, each: usize) {
        match self {
            SimulationProgress::Nothing => {}
            SimulationProgress::Bar(bar) => bar.set_position(done as u64),
            SimulationProgress::Lines(all) if done.is_multiple_of(each) => {
                output::complain(&format!("{done} of {all} placements"));
            }
            SimulationProgress::Lines(_) => {}
        }
    }
}

/// Columns on a terminal; includes the deviation for processes.
fn columns() -> Vec<&'static str> {
    let shown = FIGURES
        .iter()
        .filter(|figure| figure.shown.is_some())
        .map(|figure| figure.name);
    ["strategy", "flows"]
        .into_iter()
        .chain(shown)
        .chain(["processes_deviation"])
        .collect()
}

fn row(point: &StudyPoint) -> Vec<String> {
    let shown = FIGURES
        .iter()
        .filter_map(|figure| Some(decimals((figure.of)(point).mean, figure.shown?)));
    [
        point.strategy.name().to_owned(),
        point.monitored.to_string(),
    ]
    .into_iter()
    .chain(shown)
    .chain([decimals(point.processes.deviation, 1)])
    .collect()
}

fn left_out(point: &StudyPoint) -> String {
    format!(
        "note: {} with {} flows omits {:.1} flows or streams: too large for a process, or no host has capacity",
        point.strategy.name(),
        point.monitored,
        point.left_out.mean
    )
}
