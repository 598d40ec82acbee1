//! Simulated traffic, sampled at the controller's rate. The judge does not use intervals: it samples a window several
//! hundred times, and compares the estimates with the number of tuples.

use super::*;
use crate::sampling::{self, ConfidenceInterval, REPLICATES};

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        crate::column::mix(self.0)
    }

    /// Uniform in (0, 1].
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    fn exponential(&mut self) -> f64 {
        -self.unit().ln()
    }

    /// Positions below `n`, each with probability `p`; the time is that of the selected ones.
    fn each_of(&mut self, n: usize, p: f64, mut then: impl FnMut(&mut Random, usize)) {
        if p >= 1.0 {
            (0..n).for_each(|i| then(self, i));
            return;
        }
        let mut at = (self.unit().ln() / (1.0 - p).ln()).floor();
        while at < n as f64 {
            then(self, at as usize);
            at += 1.0 + (self.unit().ln() / (1.0 - p).ln()).floor();
        }
    }
}

/// Sizes of the flows in a window, in tuples. Flows are sampled as a whole.
#[derive(Clone, Copy, Debug)]
enum Traffic {
    /// Independent packets.
    Poisson,
    /// Flows with geometrically distributed lengths.
    Flows,
    /// Flows that arrive in bursts: the number per window varies by a factor of 3.
    Bursts,
    /// Flows with Pareto-distributed lengths, exponent 1.2.
    HeavyTails,
}

impl Traffic {
    fn window(self, tuples: f64, random: &mut Random) -> Vec<u64> {
        let flows = match self {
            Traffic::Poisson => tuples,
            Traffic::Flows => tuples / 5.0,
            Traffic::Bursts => tuples / 5.0 * (0.5 + random.unit()),
            Traffic::HeavyTails => tuples / 6.0,
        };
        let size = |random: &mut Random| match self {
            Traffic::Poisson => 1,
            Traffic::Flows | Traffic::Bursts => 1 + (4.0 * random.exponential()) as u64,
            Traffic::HeavyTails => random.unit().powf(-1.0 / 1.2).min(1e6) as u64,
        };
        (0..flows as usize).map(|_| size(random)).collect()
    }
}

/// A sample of a window, with the interval of the number of tuples.
struct SampledWindow {
    precision: WindowPrecision,
    truth: f64,
    interval: ConfidenceInterval,
}

fn sampled(flows: &[u64], rate: f64, random: &mut Random) -> SampledWindow {
    let mut parts = vec![0.0; REPLICATES];
    random.each_of(flows.len(), rate, |random, flow| {
        parts[random.next() as usize % REPLICATES] += flows[flow] as f64;
    });
    let interval = sampling::total(&parts, &parts, rate, true);
    let samples: f64 = parts.iter().sum();
    let half_width = interval
        .high
        .filter(|_| samples > 0.0)
        .map(|high| high / (samples / rate) - 1.0);
    SampledWindow {
        precision: WindowPrecision {
            samples: samples as u64,
            half_width,
            rate,
            ..WindowPrecision::default()
        },
        truth: flows.iter().sum::<u64>() as f64,
        interval,
    }
}

/// The error that 95 % of samples do not exceed.
fn judged_error(flows: &[u64], rate: f64, random: &mut Random) -> f64 {
    let truth = flows.iter().sum::<u64>() as f64;
    let mut errors: Vec<f64> = (0..400)
        .map(|_| {
            let mut sum = 0;
            random.each_of(flows.len(), rate, |_, flow| sum += flows[flow]);
            (sum as f64 / rate / truth - 1.0).abs()
        })
        .collect();
    errors.sort_unstable_by(f64::total_cmp);
    errors[errors.len() * 95 / 100]
}

/// Runs `windows` windows; returns their samples, with the rate decided after each.
fn run(
    controller: &mut RateController,
    windows: usize,
    random: &mut Random,
    mut flows: impl FnMut(usize, &mut Random) -> Vec<u64>,
) -> Vec<(SampledWindow, RateDecision)> {
    (0..windows)
        .map(|window| {
            let flows = flows(window, random);
            let sampled = sampled(&flows, controller.rate(), random);
            let decision = controller.observe(&sampled.precision);
            (sampled, decision)
        })
        .collect()
}

fn bounded(error: f64, permitted: PermittedRates, rate: f64) -> RateController {
    let goal = RateGoal {
        error: Some(error),
        cpu: None,
    };
    RateController::new(goal, permitted, rate)
}

const ANY: PermittedRates = PermittedRates::Any {
    min: 1.0 / 65_536.0,
};
const ONE_IN: PermittedRates = PermittedRates::OneIn { max: 65_536 };
const POWERS: PermittedRates = PermittedRates::PowersOfTwo { max: 65_536 };

#[test]
fn converges_from_both_sides_to_a_cheap_rate_within_the_bound() {
    let error = 0.05;
    for traffic in [Traffic::Poisson, Traffic::Flows, Traffic::Bursts] {
        for (permitted, most) in [(ANY, 2.8), (ONE_IN, 3.2), (POWERS, 4.5f64)] {
            for start in [1.0f64, 1.0 / 4096.0] {
                let mut random = Random(start.to_bits() ^ most.to_bits());
                let mut controller = bounded(error, permitted, start);
                let flows = |_: usize, random: &mut Random| traffic.window(60_000.0, random);
                run(&mut controller, 12, &mut random, flows);
                let settled = run(&mut controller, 60, &mut random, flows);
                let what = format!(
                    "{traffic:?} {permitted:?} from {start}: {:?}",
                    controller.report()
                );
                let held = settled
                    .iter()
                    .filter(|(_, d)| d.verdict == BoundVerdict::Held);
                assert!(held.count() >= 52, "{what}");
                let covered = settled.iter().filter(|(window, _)| {
                    let ConfidenceInterval { low, high } = window.interval;
                    low.is_none_or(|low| low <= window.truth)
                        && high.is_none_or(|high| window.truth <= high)
                });
                assert!(covered.count() >= 50, "{what}");
                let changes = settled.iter().filter(|(_, decision)| decision.is_changed);
                assert!(changes.count() <= 24, "{what}");
                let mut rates: Vec<f64> = settled.iter().map(|(_, d)| d.rate).collect();
                rates.sort_unstable_by(f64::total_cmp);
                let median = rates[rates.len() / 2];
                // Bursts: the windows with little traffic determine the rate.
                let judged: Vec<Vec<u64>> = (0..8).map(|_| flows(0, &mut random)).collect();
                let smallest = judged
                    .iter()
                    .min_by_key(|flows| flows.len())
                    .expect("a window");
                let at = judged_error(smallest, median, &mut random);
                assert!(at < error, "{at} at {median}: {what}");
                let cheaper = judged_error(smallest, median / most, &mut random);
                assert!(cheaper > error, "{cheaper} at {median} / {most}: {what}");
            }
        }
    }
}

#[test]
fn follows_when_traffic_doubles_or_halves() {
    for traffic in [Traffic::Poisson, Traffic::Flows] {
        let mut random = Random(7);
        let mut controller = bounded(0.04, ANY, 1.0);
        let mut settle = |tuples: f64, windows| {
            let flows = |_: usize, random: &mut Random| traffic.window(tuples, random);
            let all = run(&mut controller, windows, &mut random, flows);
            let held = all
                .iter()
                .filter(|(_, d)| d.verdict == BoundVerdict::Held)
                .count();
            (all.last().expect("windows").1.rate, held)
        };
        let (before, _) = settle(200_000.0, 20);
        let (doubled, held) = settle(400_000.0, 8);
        assert!(
            (0.35..0.75).contains(&(doubled / before)),
            "{traffic:?}: {doubled} after {before}"
        );
        assert!(held >= 6, "{traffic:?}: {held}");
        // The first window after the change still has the old rate.
        let (halved, held) = settle(200_000.0, 8);
        assert!(
            (1.4..2.9).contains(&(halved / doubled)),
            "{traffic:?}: {halved} after {doubled}"
        );
        assert!(held >= 6, "{traffic:?}: {held}");
        // A change in small steps.
        let mut tuples = 200_000.0;
        let mut held = 0;
        for _ in 0..40 {
            tuples *= 1.03;
            held += settle(tuples, 1).1;
        }
        for _ in 0..40 {
            tuples /= 1.03;
            held += settle(tuples, 1).1;
        }
        assert!(held >= 68, "{traffic:?}: {held}");
    }
}

#[test]
fn heavy_tails_are_not_held_by_chance() {
    let mut held = 0;
    let mut outside = 0;
    let mut open = 0;
    for seed in 0..6 {
        let mut random = Random(seed);
        let mut controller = bounded(0.05, ANY, 1.0 / 256.0);
        let flows = |_: usize, random: &mut Random| Traffic::HeavyTails.window(60_000.0, random);
        let windows = run(&mut controller, 60, &mut random, flows);
        for (window, decision) in &windows[10..] {
            held += usize::from(decision.verdict == BoundVerdict::Held);
            open += usize::from(decision.verdict == BoundVerdict::Open);
            let ConfidenceInterval { low, high } = window.interval;
            let is_inside = low.is_none_or(|low| low <= window.truth)
                && high.is_none_or(|high| window.truth <= high);
            outside += usize::from(decision.verdict == BoundVerdict::Held && !is_inside);
        }
    }
    assert!(
        held >= 150 && outside * 100 <= 7 * held,
        "{outside} of {held}, {open} open"
    );
}

#[test]
fn rates_are_permitted_and_paced_for_any_input() {
    for seed in 0..2_000 {
        let mut random = Random(seed);
        let permitted = [ANY, ONE_IN, POWERS][seed as usize % 3];
        let goal = RateGoal {
            error: Some(random.unit()).filter(|_| seed % 5 > 0),
            cpu: Some(random.unit()).filter(|_| seed % 2 > 0),
        };
        let mut controller = RateController::new(goal, permitted, random.unit().powi(4));
        for _ in 0..50 {
            let odd = [f64::NAN, f64::INFINITY, 0.0, -1.0, 1e300, f64::MIN_POSITIVE];
            let any = |random: &mut Random| match random.next() % 4 {
                0 => odd[random.next() as usize % odd.len()],
                _ => random.unit(),
            };
            let before = controller.rate();
            let window = WindowPrecision {
                samples: match random.next() % 4 {
                    0 => 0,
                    1 => u64::MAX,
                    _ => random.next() % 100_000,
                },
                half_width: Some(any(&mut random)).filter(|_| seed % 3 > 0),
                rate: any(&mut random),
                lost: any(&mut random),
                cpu: Some(any(&mut random)).filter(|_| seed % 7 > 0),
            };
            let decision = controller.observe(&window);
            let rate = decision.rate;
            assert!(
                (permitted.lowest()..=1.0).contains(&rate),
                "{seed}: {rate} {window:?}"
            );
            assert!(
                (permitted.at_least(rate) / rate - 1.0).abs() < 1e-9,
                "{seed}: {rate}"
            );
            // Rounding to a permitted rate may add a step of two; a budget may lower the rate at any pace.
            assert!(rate <= before * PACE * 2.0, "{seed}: {before} to {rate}");
            assert_eq!(decision.is_changed, rate != before);
        }
    }
}

#[test]
fn windows_without_samples_raise_the_rate_slowly() {
    let mut controller = bounded(0.05, POWERS, 1.0 / 1024.0);
    let empty = WindowPrecision::default();
    let rates: Vec<f64> = (0..4)
        .map(|_| 1.0 / controller.observe(&empty).rate)
        .collect();
    assert_eq!(rates, [1024.0, 512.0, 256.0, 128.0]);
    (0..20).for_each(|_| {
        controller.observe(&empty);
    });
    assert_eq!(controller.rate(), 1.0);
    assert_eq!(
        (controller.report().empty, controller.report().windows),
        (24, 0)
    );
    // Sums of zero have no error: the rate stays.
    let zero = WindowPrecision {
        samples: 10_000,
        half_width: Some(0.0),
        rate: 1.0,
        ..empty
    };
    assert_eq!(controller.observe(&zero).verdict, BoundVerdict::Held);
}

#[test]
fn losses_do_not_raise_the_rate() {
    let window = |rate: f64, lost: f64| {
        let samples = 1e6 * rate;
        let sampling = 1.96 * ((1.0 - rate) / samples).sqrt();
        WindowPrecision {
            samples: samples as u64,
            half_width: Some(sampling.exp() / (1.0 - 2.0 * lost) - 1.0),
            rate,
            lost,
            cpu: None,
        }
    };
    let mut controller = bounded(0.05, ANY, 1.0 / 16.0);
    for _ in 0..20 {
        controller.observe(&window(controller.rate(), 0.0));
    }
    let before = controller.rate();
    for _ in 0..20 {
        let decision = controller.observe(&window(controller.rate(), 0.2));
        assert_eq!(
            (decision.rate, decision.verdict),
            (before, BoundVerdict::Lost)
        );
    }
    assert_eq!(controller.report().lost, 20);
    // A small loss takes a part of the bound.
    let decision = controller.observe(&window(before, 0.01));
    assert_eq!(decision.rate, before);
}

#[test]
fn budgets_limit_the_rate_and_report_the_error() {
    let cost = |rate: f64| 0.01 + 0.4 * rate;
    let window = |rate: f64| {
        let samples = 1e5 * rate;
        WindowPrecision {
            samples: samples as u64,
            half_width: Some((2.04 * ((1.0 - rate) / samples).sqrt()).exp_m1()),
            rate,
            lost: 0.0,
            cpu: Some(cost(rate)),
        }
    };
    let settled = |goal, start| {
        let mut controller = RateController::new(goal, ANY, start);
        let mut last = None;
        for _ in 0..40 {
            last = Some(controller.observe(&window(controller.rate())));
        }
        (controller, last.expect("a decision"))
    };
    for start in [1.0, 1e-4] {
        let goal = RateGoal {
            error: None,
            cpu: Some(0.05),
        };
        let (controller, last) = settled(goal, start);
        let spent = cost(controller.rate());
        assert!((0.038..=0.05).contains(&spent), "{spent} from {start}");
        assert_eq!(last.verdict, BoundVerdict::Unbounded);
        let bought = controller.report().error.expect("an interval");
        assert!((0.015..0.035).contains(&bought), "{bought}");
        // 0.5 % needs two thirds of the packets; the budget has a tenth.
        let goal = RateGoal {
            error: Some(0.005),
            ..goal
        };
        let (controller, last) = settled(goal, start);
        assert!(last.is_budget_short && last.verdict == BoundVerdict::Exceeded);
        assert!(cost(controller.rate()) <= 0.05);
        assert!(last.sufficient.is_some_and(|rate| rate > 0.5), "{last:?}");
        assert!(controller.report().budget_short >= 20);
        // 5 % needs less than the budget.
        let goal = RateGoal {
            error: Some(0.05),
            ..goal
        };
        let (controller, last) = settled(goal, start);
        assert!(!last.is_budget_short && last.verdict == BoundVerdict::Held);
        assert!(cost(controller.rate()) < 0.03, "{controller:?}");
    }
    // The fixed cost exceeds the budget.
    let goal = RateGoal {
        error: None,
        cpu: Some(0.005),
    };
    let (controller, _) = settled(goal, 1.0);
    assert_eq!(controller.rate(), ANY.lowest());
    assert_eq!(controller.report().over_budget, 40);
}

#[test]
fn permitted_rates_round_in_both_directions() {
    for (permitted, at, least, most) in [
        (ONE_IN, 1.0 / 7.0, 1.0 / 7.0, 1.0 / 7.0),
        (ONE_IN, 0.3, 1.0 / 3.0, 0.25),
        (POWERS, 0.3, 0.5, 0.25),
        (POWERS, 0.25, 0.25, 0.25),
        (POWERS, 1e-9, 1.0 / 65_536.0, 1.0 / 65_536.0),
        (ANY, 0.3, 0.3, 0.3),
        (
            PermittedRates::PowersOfTwo { max: 1000 },
            0.0,
            1.0 / 512.0,
            1.0 / 512.0,
        ),
        (ONE_IN, f64::NAN, 1.0, 1.0),
    ] {
        assert_eq!(permitted.at_least(at), least, "{permitted:?} {at}");
        assert_eq!(permitted.at_most(at), most, "{permitted:?} {at}");
    }
    for n in 1..=65_536u32 {
        let rate = 1.0 / f64::from(n);
        assert_eq!(
            (ONE_IN.at_least(rate), ONE_IN.at_most(rate)),
            (rate, rate),
            "{n}"
        );
    }
}

#[test]
fn a_budget_is_short_even_if_the_rate_in_force_costs_less() {
    let goal = RateGoal {
        error: Some(0.01),
        cpu: Some(0.02),
    };
    let mut controller = RateController::new(goal, ONE_IN, 1.0);
    // An exporter with a rate of its own, which costs half the budget. 1 % would cost ten times the budget.
    let rate = 1.0 / 20.0;
    let window = WindowPrecision {
        samples: 1000,
        half_width: Some((2.04 * ((1.0 - rate) / 1000.0f64).sqrt()).exp_m1()),
        rate,
        lost: 0.0,
        cpu: Some(0.01),
    };
    for _ in 0..10 {
        controller.set_rate(rate);
        controller.observe(&window);
    }
    let report = controller.report();
    assert!(report.budget_short >= 8, "{report:?}");
    assert_eq!(report.over_budget, 0);
}
