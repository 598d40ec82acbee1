//! Keeps the sampling rate of a run at its goal: SAMPLE auto ERROR, and BUDGET cpu. After each window, the controller
//! ([`stream::rate_control`]) chooses the rate, and a [`RateActuator`] sets it at the monitor's workers or at exporters.
//! Without an actuator, the rate is reported only.

use std::time::{Duration, Instant};

use monitor::sampling_control::{RATE_MIN, RateCeiling};
use plan::RateGoal;
use rustix::time::{ClockId, clock_gettime};
use stream::rate_control::{PermittedRates, RateController, RateReport, WindowPrecision};
use stream::{PrecisionLog, SampledWindow};

/// Sets a sampling rate.
pub trait RateActuator {
    /// The rates that can be set.
    fn permitted(&self) -> PermittedRates;

    /// Sets the rate, 0 < rate ≤ 1.
    ///
    /// # Errors
    /// The reason that the rate is unchanged.
    fn set_rate(&mut self, rate: f64) -> Result<(), String>;
}

impl RateActuator for RateCeiling {
    fn permitted(&self) -> PermittedRates {
        PermittedRates::Any { min: RATE_MIN }
    }

    fn set_rate(&mut self, rate: f64) -> Result<(), String> {
        self.set(rate);
        Ok(())
    }
}

/// Cost of a sampling rate.
#[derive(Clone, Copy, Debug)]
pub enum SamplingCost {
    /// CPU time of this process, divided by the time of all cores.
    Process,
    /// CPU time of exporters for the samples, in nanoseconds per sample, divided by the time of one core.
    Samples(f64),
}

/// Regulator of the sampling rate of a run.
pub struct RateRegulator {
    log: PrecisionLog,
    controller: RateController,
    actuator: Option<Box<dyn RateActuator>>,
    cost: SamplingCost,
    clock: CpuClock,
    problem: Option<String>,
}

/// Outcome of a regulator.
#[derive(Clone, Debug, PartialEq)]
pub struct RegulatedRate {
    /// All windows.
    pub report: RateReport,
    /// Whether the rate was set; otherwise it is that of exporters that are not configured by the run.
    pub is_set: bool,
    /// The latest error while setting it.
    pub problem: Option<String>,
}

/// Largest number of packets per sample that is recommended for exporters.
const ONE_IN_MAX: u32 = 1 << 20;

impl RateRegulator {
    /// Creates a regulator. `log` is that of the run's engine. The rate in force is 1, or at exporters, that of the
    /// samples.
    #[must_use]
    pub fn new(
        goal: RateGoal,
        log: PrecisionLog,
        actuator: Option<Box<dyn RateActuator>>,
        cost: SamplingCost,
    ) -> RateRegulator {
        let permitted = actuator
            .as_ref()
            .map_or(PermittedRates::OneIn { max: ONE_IN_MAX }, |actuator| {
                actuator.permitted()
            });
        RateRegulator {
            log,
            controller: RateController::new(goal, permitted, 1.0),
            actuator,
            cost,
            clock: CpuClock::start(),
            problem: None,
        }
    }

    /// Evaluates the windows emitted since the last call, and sets the rate.
    pub fn follow(&mut self) {
        let windows = self.log.take();
        if !windows.is_empty() {
            self.regulate(windows);
        }
    }

    fn regulate(&mut self, windows: Vec<SampledWindow>) {
        let process = self.clock.share();
        let is_exported = matches!(self.cost, SamplingCost::Samples(_));
        let mut in_force = self.controller.rate();
        for window in windows {
            // Exporters start with a rate of their own, and apply another one later.
            if is_exported && window.precision.samples > 0 {
                in_force = window.precision.rate;
                self.controller.set_rate(in_force);
            }
            let cpu = self.cpu(&window, process);
            self.controller.observe(&WindowPrecision {
                cpu,
                ..window.precision
            });
        }
        let rate = self.controller.rate();
        if let Some(actuator) = self.actuator.as_mut().filter(|_| rate != in_force)
            && let Err(problem) = actuator.set_rate(rate)
        {
            self.controller.set_rate(in_force);
            self.problem = Some(problem);
        }
    }

    /// The outcome so far.
    #[must_use]
    pub fn outcome(&self) -> RegulatedRate {
        RegulatedRate {
            report: *self.controller.report(),
            is_set: self.actuator.is_some(),
            problem: self.problem.clone(),
        }
    }

    fn cpu(&self, window: &SampledWindow, process: Option<f64>) -> Option<f64> {
        match self.cost {
            SamplingCost::Process => process,
            SamplingCost::Samples(ns) => Some(window.tuples as f64 * ns / 1e9 / window.seconds)
                .filter(|share| share.is_finite()),
        }
    }
}

/// CPU time of this process since the last reading.
struct CpuClock {
    read: Instant,
    cpu: Duration,
    cores: f64,
}

impl CpuClock {
    fn start() -> CpuClock {
        CpuClock {
            read: Instant::now(),
            cpu: process_time(),
            cores: std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64),
        }
    }

    /// Share of the time of all cores; `None` within a tenth of a second after the last reading.
    fn share(&mut self) -> Option<f64> {
        let elapsed = self.read.elapsed();
        if elapsed < Duration::from_millis(100) {
            return None;
        }
        let cpu = process_time();
        let used = cpu.saturating_sub(self.cpu);
        self.read = Instant::now();
        self.cpu = cpu;
        Some(used.as_secs_f64() / elapsed.as_secs_f64() / self.cores)
    }
}

fn process_time() -> Duration {
    let at = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(at.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(at.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Exporters that apply a rate from the next window on; the rates that were set.
    #[derive(Clone, Default)]
    struct Exporters(Arc<Mutex<Vec<f64>>>);

    impl Exporters {
        fn set(&self) -> Vec<f64> {
            self.0.lock().expect("rates").clone()
        }
    }

    impl RateActuator for Exporters {
        fn permitted(&self) -> PermittedRates {
            PermittedRates::OneIn { max: 65_536 }
        }

        fn set_rate(&mut self, rate: f64) -> Result<(), String> {
            self.0.lock().expect("rates").push(rate);
            Ok(())
        }
    }

    /// A window of one second of a hundred independent packets.
    fn window(n: i64, rate: f64) -> SampledWindow {
        const PACKETS: f64 = 100.0;
        let samples = (PACKETS * rate).round() as u64;
        let width = 1.96 / (samples as f64).sqrt() * (1.0 - rate).sqrt();
        SampledWindow {
            end_ns: n * 1_000_000_000,
            seconds: 1.0,
            tuples: samples,
            precision: WindowPrecision {
                samples,
                // Two samples have no interval.
                half_width: (samples > 2).then(|| width.exp_m1()),
                rate,
                ..WindowPrecision::default()
            },
        }
    }

    /// The controller starts with rate 1, which the goal needs and the exporters do not have.
    #[test]
    fn exporters_that_sample_get_rate_one_if_the_goal_needs_it() {
        let exporters = Exporters::default();
        let goal = RateGoal {
            error: Some(0.05),
            cpu: None,
        };
        let mut regulator = RateRegulator::new(
            goal,
            PrecisionLog::new(goal.error),
            Some(Box::new(exporters.clone())),
            SamplingCost::Samples(1500.0),
        );
        let mut in_force = 1.0 / 64.0;
        for n in 1..=40 {
            regulator.regulate(vec![window(n, in_force)]);
            in_force = exporters.set().last().copied().unwrap_or(in_force);
        }
        let set = exporters.set();
        assert_eq!(set.last(), Some(&1.0), "{set:?}");
        assert!(set.len() <= 8 && set.is_sorted(), "{set:?}");
        assert!(regulator.outcome().is_set);
    }

    /// Exporters that refuse a number of rates.
    struct RefusingExporters(u32, Exporters);

    impl RateActuator for RefusingExporters {
        fn permitted(&self) -> PermittedRates {
            self.1.permitted()
        }

        fn set_rate(&mut self, rate: f64) -> Result<(), String> {
            match self.0.checked_sub(1) {
                Some(left) => {
                    self.0 = left;
                    Err(format!("refused, {left} left"))
                }
                None => self.1.set_rate(rate),
            }
        }
    }

    /// A rate that is not set is not that of the samples; it is set after a later window.
    #[test]
    fn a_refused_rate_is_reported_and_tried_again() {
        let exporters = Exporters::default();
        let goal = RateGoal {
            error: Some(0.05),
            cpu: None,
        };
        let mut regulator = RateRegulator::new(
            goal,
            PrecisionLog::new(goal.error),
            Some(Box::new(RefusingExporters(2, exporters.clone()))),
            SamplingCost::Samples(1500.0),
        );
        for n in 1..=40 {
            regulator.regulate(vec![window(n, 1.0 / 64.0)]);
            let outcome = regulator.outcome();
            if exporters.set().is_empty() && outcome.problem.is_some() {
                assert_eq!(outcome.report.sampled_at, Some(1.0 / 64.0));
            }
        }
        assert!(!exporters.set().is_empty());
        assert_eq!(
            regulator.outcome().problem.as_deref(),
            Some("refused, 0 left")
        );
    }

    /// The rate is that of exporters that the run does not configure.
    #[test]
    fn without_an_actuator_the_rate_is_only_reported() {
        let goal = RateGoal {
            error: Some(0.05),
            cpu: None,
        };
        let log = PrecisionLog::new(goal.error);
        let mut regulator = RateRegulator::new(goal, log, None, SamplingCost::Samples(0.0));
        regulator.follow();
        assert_eq!(regulator.outcome().report.windows, 0);
        (1..=20).for_each(|n| regulator.regulate(vec![window(n, 1.0 / 8.0)]));
        let RegulatedRate {
            report,
            is_set,
            problem,
        } = regulator.outcome();
        assert!(!is_set && problem.is_none());
        assert_eq!((report.windows, report.sampled_at), (20, Some(1.0 / 8.0)));
    }

    #[test]
    fn the_cost_of_samples_is_a_share_of_a_core() {
        let regulator = |ns| {
            let log = PrecisionLog::new(None);
            RateRegulator::new(RateGoal::default(), log, None, SamplingCost::Samples(ns))
        };
        let window = |tuples, seconds| SampledWindow {
            tuples,
            seconds,
            ..window(1, 1.0)
        };
        let cost = |ns, tuples, seconds| regulator(ns).cpu(&window(tuples, seconds), Some(0.9));
        assert_eq!(cost(1000.0, 500_000, 1.0), Some(0.5));
        assert_eq!(cost(1000.0, 500_000, 10.0), Some(0.05));
        assert_eq!(cost(1000.0, 0, 1.0), Some(0.0));
        // A window without a length has no cost.
        assert_eq!((cost(1000.0, 5, 0.0), cost(1000.0, 0, 0.0)), (None, None));
    }
}
