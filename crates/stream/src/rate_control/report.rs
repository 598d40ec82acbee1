//! Summary of a controller's windows.

use super::{RateDecision, RateGoal, WindowPrecision};

/// Whether the interval of a window is within the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundVerdict {
    /// The window has no samples; its error is unknown.
    NoSamples,
    /// The precision has no bound.
    Unbounded,
    /// Within the bound.
    Held,
    /// Wider than the bound.
    Exceeded,
    /// An end of the interval is open: too few samples, or a few flows dominate.
    Open,
    /// Losses alone are wider than the bound; no rate holds it.
    Lost,
}

impl BoundVerdict {
    /// The name in summaries.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            BoundVerdict::NoSamples => "no samples",
            BoundVerdict::Unbounded => "no bound",
            BoundVerdict::Held => "held",
            BoundVerdict::Exceeded => "exceeded",
            BoundVerdict::Open => "unknown",
            BoundVerdict::Lost => "lost packets",
        }
    }
}

/// Summary of all windows of a controller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateReport {
    /// The goal.
    pub goal: RateGoal,
    /// Rate for the next windows.
    pub rate: f64,
    /// Rate of the latest samples.
    pub sampled_at: Option<f64>,
    /// Lowest and highest rate so far.
    pub rates: (f64, f64),
    /// Number of changes of the rate.
    pub changes: u64,
    /// Windows with samples.
    pub windows: u64,
    /// Windows without samples.
    pub empty: u64,
    /// Windows whose interval was within the bound.
    pub held: u64,
    /// Windows whose interval was wider than the bound.
    pub exceeded: u64,
    /// Windows with an open interval.
    pub open: u64,
    /// Windows in which losses alone exceeded the bound.
    pub lost: u64,
    /// Relative half width of the latest window; `None` if an end is open.
    pub error: Option<f64>,
    /// Cost of the latest window.
    pub cpu: Option<f64>,
    /// Windows that cost more than the budget.
    pub over_budget: u64,
    /// The latest decision's sufficient rate.
    pub sufficient: Option<f64>,
    /// Windows after which the budget kept the rate below a sufficient one.
    pub budget_short: u64,
    /// The latest verdict.
    pub verdict: BoundVerdict,
}

impl RateReport {
    pub(super) fn new(goal: RateGoal, rate: f64) -> RateReport {
        RateReport {
            goal,
            rate,
            sampled_at: None,
            rates: (rate, rate),
            changes: 0,
            windows: 0,
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

    pub(super) fn add(&mut self, window: &WindowPrecision, decision: &RateDecision) {
        self.rate = decision.rate;
        let (lowest, highest) = self.rates;
        self.rates = (lowest.min(decision.rate), highest.max(decision.rate));
        self.changes += u64::from(decision.is_changed);
        self.sufficient = decision.sufficient;
        self.budget_short += u64::from(decision.is_budget_short);
        self.verdict = decision.verdict;
        self.cpu = window.cpu.or(self.cpu);
        let is_over = self
            .goal
            .cpu
            .zip(window.cpu)
            .is_some_and(|(most, cpu)| cpu > most);
        self.over_budget += u64::from(is_over);
        if window.samples == 0 {
            self.empty += 1;
            return;
        }
        self.windows += 1;
        self.error = window.half_width;
        self.sampled_at = Some(window.rate);
        match decision.verdict {
            BoundVerdict::Held => self.held += 1,
            BoundVerdict::Open => self.open += 1,
            BoundVerdict::Lost => self.lost += 1,
            BoundVerdict::Exceeded => self.exceeded += 1,
            BoundVerdict::NoSamples | BoundVerdict::Unbounded => {}
        }
    }
}
