//! Controller of a sampling rate: finds and holds the lowest rate at which the interval of a result stays within a
//! bound, or the highest rate within a budget of CPU time.
//!
//! Input: for each closed window the number of samples, the relative half width of the 95 % interval, and the rate
//! ([`WindowPrecision`]). Output: the rate for the next windows ([`RateDecision`]). The controller has no clock and does
//! no I/O; the caller sets the rate at the monitor or at the exporters.
//!
//! The variance of a total from `n` samples of rate `p` is `V (1 − p) / n`, relative to its square. `V` describes the
//! traffic: 1 for independent packets, more for flows of several packets and for values of different sizes. It changes
//! slowly, so it is averaged over windows. The number of tuples in a window, `n / p`, changes at once, so the smallest
//! of the last `TRAFFIC_WINDOWS` windows counts: half the traffic raises the rate after one window, twice the traffic
//! lowers it after `TRAFFIC_WINDOWS`. Both do not depend on the rate that was in force. The next rate is therefore
//! computed, not searched, and delays between a decision and its effect cause no oscillation.
//!
//! ```
//! use stream::rate_control::{PermittedRates, RateController, RateGoal, WindowPrecision};
//!
//! let goal = RateGoal { error: Some(0.05), cpu: None };
//! let mut controller = RateController::new(goal, PermittedRates::PowersOfTwo { max: 1 << 16 }, 1.0 / 65_536.0);
//! // 5 million packets in each window, sampled at random: the half width is 1.96 / √samples.
//! for _ in 0..10 {
//!     let rate = controller.rate();
//!     let samples = (5e6 * rate) as u64;
//!     let half_width = Some(((1.96 / (samples as f64).sqrt()) * (1.0 - rate).sqrt()).exp_m1());
//!     controller.observe(&WindowPrecision { samples, half_width, rate, ..WindowPrecision::default() });
//! }
//! assert_eq!(controller.rate(), 1.0 / 1024.0);
//! assert!(controller.report().error.is_some_and(|error| error < 0.05));
//! ```

mod permitted;
mod report;

use std::collections::VecDeque;

pub use permitted::PermittedRates;
pub use plan::RateGoal;
pub use report::{BoundVerdict, RateReport};

/// Share of the bound for which a rate is chosen. A half width from 32 replicates has a standard deviation of 13 %.
const AIM: f64 = 0.8;
/// Share of the bound above which the expected half width raises the rate.
const RAISE: f64 = 0.9;
/// Lowest ratio of the rate in force to the chosen rate at which the rate is lowered.
const LOWER_FACTOR: f64 = 1.25;
/// Consecutive windows that must suggest a lower rate.
const LOWER_WINDOWS: u32 = 2;
/// Maximum change of the rate per window, as a factor.
const PACE: f64 = 4.0;
/// Number of windows whose smallest traffic counts.
const TRAFFIC_WINDOWS: usize = 3;
/// Weight of a window in the average of the variance.
const VARIANCE_WEIGHT: f64 = 0.2;
/// Number of samples below which a window does not determine the variance.
const SAMPLES_MIN: u64 = 30;
/// Variance before the first measurement: the square of Student's t quantile, for tuples that are pairwise correlated.
const VARIANCE_FIRST: f64 = 8.4;
/// Consecutive windows without samples after which the rate is raised.
const EMPTY_WINDOWS: u32 = 2;
/// Minimum and maximum number of windows for which a rate without intervals is avoided.
const AVOIDED_WINDOWS: (u32, u32) = (4, 64);
/// Share of the budget for which a rate is chosen.
const BUDGET_AIM: f64 = 0.9;
/// Lowest ratio of the permitted rate to the one in force at which a budget raises the rate.
const BUDGET_RAISE: f64 = 1.15;

/// Precision of a closed window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowPrecision {
    /// Number of samples of the value with the widest interval.
    pub samples: u64,
    /// Half width of its 95 % interval divided by the value; `None`: an end of the interval is open.
    pub half_width: Option<f64>,
    /// Sampling rate of these samples. If they have several rates: the number of samples divided by the estimated
    /// number of tuples.
    pub rate: f64,
    /// Share of the traffic that was lost before the estimate; it widens the interval at any rate.
    pub lost: f64,
    /// CPU time divided by the length of the window; `None` if unknown.
    pub cpu: Option<f64>,
}

impl Default for WindowPrecision {
    /// A window without samples.
    fn default() -> WindowPrecision {
        WindowPrecision {
            samples: 0,
            half_width: None,
            rate: 1.0,
            lost: 0.0,
            cpu: None,
        }
    }
}

/// Decision after a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateDecision {
    /// Rate for the next windows.
    pub rate: f64,
    /// Whether the rate differs from the one before.
    pub is_changed: bool,
    /// Lowest permitted rate at which the interval is expected to stay within the bound; `None` if not known.
    pub sufficient: Option<f64>,
    /// Whether this window's interval is within the bound.
    pub verdict: BoundVerdict,
    /// Whether the budget keeps the rate below a sufficient one.
    pub is_budget_short: bool,
}

/// Controller of one sampling rate.
#[derive(Clone, Debug)]
pub struct RateController {
    goal: RateGoal,
    permitted: PermittedRates,
    rate: f64,
    /// Relative variance of one sample times the square of the interval's t quantile; `None`: not measured.
    variance: Option<f64>,
    /// Number of windows in the average.
    measured: u32,
    /// Tuples in the latest windows with samples.
    traffic: VecDeque<f64>,
    /// Consecutive windows without samples.
    empty: u32,
    /// Consecutive windows that suggest a lower rate.
    lower: u32,
    open: OpenIntervals,
    /// Highest rate within the budget.
    affordable: f64,
    report: RateReport,
}

/// Intervals without an end: too few samples, or a few flows dominate.
#[derive(Clone, Copy, Debug, Default)]
struct OpenIntervals {
    /// The latest 32 windows, newest in the lowest bit: whether the interval was open.
    recent: u32,
    /// Lower rates are avoided for this number of windows.
    avoided: f64,
    left: u32,
    /// Next number of windows.
    pause: u32,
}

impl RateController {
    /// Creates a controller; `rate` is the rate in force.
    #[must_use]
    pub fn new(goal: RateGoal, permitted: PermittedRates, rate: f64) -> RateController {
        let rate = permitted.at_least(rate);
        RateController {
            goal,
            permitted,
            rate,
            variance: None,
            measured: 0,
            traffic: VecDeque::new(),
            empty: 0,
            lower: 0,
            open: OpenIntervals::default(),
            affordable: 1.0,
            report: RateReport::new(goal, rate),
        }
    }

    /// The rate in force.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Sets the rate in force, if it was not set as decided.
    pub fn set_rate(&mut self, rate: f64) {
        self.rate = self.permitted.at_least(rate);
    }

    /// Summary of all windows.
    #[must_use]
    pub fn report(&self) -> &RateReport {
        &self.report
    }

    /// Evaluates a window and chooses the rate of the next ones.
    pub fn observe(&mut self, window: &WindowPrecision) -> RateDecision {
        self.learn(window);
        self.afford(window);
        let verdict = self.verdict(window);
        let wanted = match self.goal.error {
            Some(error) => self.wanted(error, verdict, window),
            None => self.affordable,
        };
        let before = self.rate;
        let paced = wanted.clamp(before / PACE, (before * PACE).min(1.0));
        let paced = match self.goal.error {
            Some(_) => self.permitted.at_least(paced),
            None => self.permitted.at_most(paced),
        };
        self.rate = paced.min(self.permitted.at_most(self.affordable));
        let sufficient = self.goal.error.and_then(|error| self.sufficient(error));
        let decision = RateDecision {
            rate: self.rate,
            is_changed: self.rate != before,
            sufficient,
            verdict,
            is_budget_short: sufficient
                .is_some_and(|rate| rate > self.permitted.at_most(self.affordable)),
        };
        self.report.add(window, &decision);
        decision
    }

    /// Updates variance and traffic.
    fn learn(&mut self, window: &WindowPrecision) {
        if window.samples == 0 {
            self.empty = self.empty.saturating_add(1);
            if self.empty >= EMPTY_WINDOWS {
                self.traffic.clear();
            }
            return;
        }
        self.empty = 0;
        let rate = window.rate.clamp(f64::MIN_POSITIVE, 1.0);
        if self.traffic.len() == TRAFFIC_WINDOWS {
            self.traffic.pop_front();
        }
        self.traffic.push_back(window.samples as f64 / rate);
        let Some(width) = sampling_width(window) else {
            return;
        };
        if window.samples < SAMPLES_MIN || rate > 0.99 {
            return;
        }
        let variance = width.powi(2) * window.samples as f64 / (1.0 - rate);
        if !variance.is_finite() {
            return;
        }
        self.measured = self.measured.saturating_add(1);
        let weight = VARIANCE_WEIGHT.max(1.0 / f64::from(self.measured));
        let average = self.variance.unwrap_or(variance);
        self.variance = Some(average + weight * (variance - average));
    }

    /// Updates the highest rate within the budget.
    fn afford(&mut self, window: &WindowPrecision) {
        let (Some(budget), Some(cpu)) = (self.goal.cpu, window.cpu) else {
            return;
        };
        let most = if cpu > 0.0 {
            (window.rate * BUDGET_AIM * budget / cpu).min(1.0)
        } else {
            1.0
        };
        let is_over = cpu > budget && most < self.affordable;
        // A rate that is lower for another reason does not confirm the highest affordable rate.
        let is_below = window.rate * BUDGET_RAISE < self.affordable && most < self.affordable;
        if is_over || is_below || most > self.affordable * BUDGET_RAISE || most == 1.0 {
            let paced = most.clamp(self.affordable / PACE, self.affordable * PACE);
            self.affordable = paced.clamp(self.permitted.lowest(), 1.0);
        }
    }

    fn verdict(&mut self, window: &WindowPrecision) -> BoundVerdict {
        if window.samples == 0 {
            return BoundVerdict::NoSamples;
        }
        self.open.recent = self.open.recent << 1 | u32::from(window.half_width.is_none());
        let Some(error) = self.goal.error else {
            return BoundVerdict::Unbounded;
        };
        match window.half_width {
            None => BoundVerdict::Open,
            Some(width) if width <= error => BoundVerdict::Held,
            Some(_) if loss_width(window) >= error.ln_1p() => BoundVerdict::Lost,
            Some(_) => BoundVerdict::Exceeded,
        }
    }

    /// The rate for a bound, before pace and permitted values.
    fn wanted(&mut self, error: f64, verdict: BoundVerdict, window: &WindowPrecision) -> f64 {
        match verdict {
            BoundVerdict::NoSamples if self.empty >= EMPTY_WINDOWS => return self.rate * 2.0,
            BoundVerdict::NoSamples => return self.rate,
            BoundVerdict::Open => self.open.on_open(window.rate.max(self.rate)),
            _ => self.open.on_closed(),
        }
        let enough = self.rate_for(error * RAISE);
        let chosen = self.rate_for(error * AIM).max(self.open.avoided);
        if self.rate < enough.max(self.open.avoided) {
            self.lower = 0;
            return chosen;
        }
        if chosen * LOWER_FACTOR > self.rate || self.permitted.at_least(chosen) >= self.rate {
            self.lower = 0;
            return self.rate;
        }
        self.lower += 1;
        if self.lower < LOWER_WINDOWS {
            return self.rate;
        }
        chosen
    }

    /// The rate at which the half width is `error`: `V (1 − p) / (N p) = ln(1 + error)²`.
    fn rate_for(&self, error: f64) -> f64 {
        let Some(traffic) = self.traffic.iter().copied().reduce(f64::min) else {
            return self.rate;
        };
        let variance = self.variance.unwrap_or(VARIANCE_FIRST);
        variance / (variance + traffic * error.ln_1p().powi(2))
    }

    fn sufficient(&self, error: f64) -> Option<f64> {
        self.variance?;
        if self.traffic.is_empty() {
            return None;
        }
        let rate = self.rate_for(error * AIM).max(self.open.avoided);
        Some(self.permitted.at_least(rate))
    }
}

impl OpenIntervals {
    /// The interval at `rate` is open. With two of the last four, rates up to this one are avoided.
    fn on_open(&mut self, rate: f64) {
        if (self.recent & 0b1111).count_ones() >= 2 {
            self.pause = (self.pause * 2).clamp(AVOIDED_WINDOWS.0, AVOIDED_WINDOWS.1);
            self.avoided = (rate * 2.0).min(1.0);
            self.left = self.pause;
            self.recent = 1;
        }
    }

    /// The interval has both ends.
    fn on_closed(&mut self) {
        if self.left > 0 {
            self.left -= 1;
        } else if self.avoided > 0.0 {
            self.avoided = 0.0;
            // The pause is forgotten after 16 windows at lower rates.
            self.recent = 1 << 16;
        } else if self.recent == 0 {
            self.pause = 0;
        }
    }
}

/// Half width of the interval on a logarithmic scale, without losses.
fn sampling_width(window: &WindowPrecision) -> Option<f64> {
    let width = window.half_width?.ln_1p() - loss_width(window);
    Some(width.max(0.0)).filter(|width| width.is_finite())
}

/// Part of the half width that is due to losses, on a logarithmic scale; as in the intervals of totals.
fn loss_width(window: &WindowPrecision) -> f64 {
    -(-(2.0 * window.lost).clamp(0.0, 1.0)).ln_1p()
}

#[cfg(test)]
mod tests;
