//! Sampling goals in the summary: rate, error, bound, and cost.

use serde_json::{Value, json};
use stream::rate_control::{BoundVerdict, RateReport};

use super::line::Line;
use crate::rate_regulator::RegulatedRate;

/// The lines of the text.
pub(super) fn lines(regulated: &RegulatedRate) -> Vec<Line> {
    let RegulatedRate {
        report,
        is_set,
        problem,
    } = regulated;
    let place = if *is_set { "" } else { " at the exporters" };
    let rate = if *is_set {
        Some(report.rate)
    } else {
        report.sampled_at
    };
    let rate = rate.map_or("unknown".to_owned(), rate_text);
    let mut lines = vec![(
        "sampling rate",
        None,
        format!("{rate}{place}, {}", error_text(report)),
    )];
    if let Some(bound) = report.goal.error {
        let mut causes = Vec::new();
        for (n, cause) in [
            (report.exceeded, "wider"),
            (report.open, "unknown"),
            (report.lost, "wider because of losses"),
        ] {
            if n > 0 {
                causes.push(format!("{cause} {n}"));
            }
        }
        let held = format!("of {} windows within ± {}", report.windows, percent(bound));
        let held = [vec![held], causes].concat().join(", ");
        lines.push(("  held", Some(report.held), held));
        if let Some(sufficient) = report.sufficient.filter(|_| !is_set) {
            lines.push(("  sufficient", None, rate_text(sufficient)));
        }
        if report.budget_short > 0 {
            let sufficient = report
                .sufficient
                .map_or("a higher rate".to_owned(), rate_text);
            let note = format!("windows: the budget does not allow {sufficient}");
            lines.push(("  budget too small", Some(report.budget_short), note));
        }
    }
    if let Some(cpu) = report.cpu {
        let of = if *is_set {
            "of the CPU time"
        } else {
            "of a core of the exporters"
        };
        let budget = report.goal.cpu.map(|budget| {
            let over = report.over_budget;
            format!(", budget {}, exceeded in {over} windows", percent(budget))
        });
        let cost = format!("{} {of}{}", percent(cpu), budget.unwrap_or_default());
        lines.push(("  cost", None, cost));
    }
    if let Some(problem) = problem {
        lines.push(("  not set", None, problem.clone()));
    }
    lines
}

/// The value in JSON.
pub(super) fn json(regulated: &RegulatedRate) -> Value {
    let RegulatedRate {
        report,
        is_set,
        problem,
    } = regulated;
    json!({
        "error_max": report.goal.error,
        "cpu_max": report.goal.cpu,
        "rate": if *is_set { Some(report.rate) } else { report.sampled_at },
        "is_set": is_set,
        "sufficient": report.sufficient,
        "rate_lowest": report.rates.0,
        "rate_highest": report.rates.1,
        "changes": report.changes,
        "windows": report.windows,
        "empty": report.empty,
        "held": report.held,
        "exceeded": report.exceeded,
        "unknown": report.open,
        "lost": report.lost,
        "budget_short": report.budget_short,
        "over_budget": report.over_budget,
        "error": report.error,
        "verdict": report.verdict.name(),
        "cpu": report.cpu,
        "problem": problem,
    })
}

fn error_text(report: &RateReport) -> String {
    match (report.error, report.verdict) {
        (Some(error), _) => format!("error ± {} in the last window", percent(error)),
        (None, BoundVerdict::NoSamples) => "no samples in the last window".to_owned(),
        (None, _) => {
            "error unknown in the last window: too few samples, or a few large flows".to_owned()
        }
    }
}

/// 1/64, or a percentage above a tenth.
fn rate_text(rate: f64) -> String {
    let parts = (1.0 / rate).round();
    if rate >= 1.0 {
        "1".to_owned()
    } else if rate < 0.1 || (parts * rate - 1.0).abs() < 1e-6 {
        format!("1/{parts}")
    } else {
        percent(rate)
    }
}

fn percent(share: f64) -> String {
    format!("{} %", (share * 1e4).round() / 1e2)
}

#[cfg(test)]
mod tests {
    use plan::RateGoal;

    use super::*;

    fn report() -> RateReport {
        RateReport {
            goal: RateGoal::default(),
            rate: 0.5,
            sampled_at: None,
            rates: (0.5, 1.0),
            changes: 1,
            windows: 9,
            empty: 0,
            held: 0,
            exceeded: 0,
            open: 0,
            lost: 0,
            error: None,
            cpu: None,
            over_budget: 0,
            sufficient: None,
            budget_short: 0,
            verdict: BoundVerdict::NoSamples,
        }
    }

    fn text(report: RateReport, is_set: bool, problem: Option<&str>) -> Vec<String> {
        let regulated = RegulatedRate {
            report,
            is_set,
            problem: problem.map(str::to_owned),
        };
        let line = |(label, n, note): Line| match n {
            Some(n) => format!("{}: {n} {note}", label.trim()),
            None => format!("{}: {note}", label.trim()),
        };
        lines(&regulated).into_iter().map(line).collect()
    }

    #[test]
    fn rates_are_fractions_of_one_or_percentages() {
        for (rate, expected) in [
            (1.0, "1"),
            (1.5, "1"),
            (0.5, "1/2"),
            (1.0 / 3.0, "1/3"),
            (0.75, "75 %"),
            (0.15, "15 %"),
            (0.099, "1/10"),
            (1.0 / 1024.0, "1/1024"),
            (1.0 / 1_048_576.0, "1/1048576"),
        ] {
            assert_eq!(rate_text(rate), expected);
        }
    }

    #[test]
    fn a_rate_of_exporters_is_unknown_without_samples() {
        let exported = text(report(), false, None);
        assert_eq!(
            exported,
            ["sampling rate: unknown at the exporters, no samples in the last window"]
        );
        let known = RateReport {
            sampled_at: Some(0.25),
            error: Some(0.031),
            verdict: BoundVerdict::Held,
            ..report()
        };
        assert_eq!(
            text(known, false, None),
            ["sampling rate: 1/4 at the exporters, error ± 3.1 % in the last window"]
        );
        assert_eq!(
            text(known, true, Some("no route")),
            [
                "sampling rate: 1/2, error ± 3.1 % in the last window",
                "not set: no route"
            ]
        );
    }

    #[test]
    fn windows_beyond_the_bound_are_counted_by_cause() {
        let bound = RateReport {
            goal: RateGoal {
                error: Some(0.05),
                cpu: Some(0.01),
            },
            held: 4,
            exceeded: 3,
            lost: 2,
            cpu: Some(0.0123),
            over_budget: 7,
            budget_short: 6,
            sufficient: Some(0.01),
            verdict: BoundVerdict::Exceeded,
            ..report()
        };
        let expected = [
            "held: 4 of 9 windows within ± 5 %, wider 3, wider because of losses 2",
            "budget too small: 6 windows: the budget does not allow 1/100",
            "cost: 1.23 % of the CPU time, budget 1 %, exceeded in 7 windows",
        ];
        assert_eq!(text(bound, true, None)[1..], expected);
        // Exporters that are not configured: the rate that would suffice.
        let exported = text(bound, false, None);
        assert_eq!(exported[2], "sufficient: 1/100");
        assert_eq!(
            exported[4],
            "cost: 1.23 % of a core of the exporters, budget 1 %, exceeded in 7 windows"
        );
    }
}
