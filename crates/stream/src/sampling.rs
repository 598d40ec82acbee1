//! Confidence intervals for results from a sample of flows.
//!
//! Each flow is sampled independently with probability p, with all its tuples. Tuples of one flow are correlated, so
//! that counting them as independent would give intervals that are far too narrow. Instead, the sampled flows are
//! assigned by their hash to [`REPLICATES`] groups (random groups, Wolter 2007, chapter 2; each flow entirely in
//! one), and the variance between the replicates is measured, which is valid for any correlation within flows.
//! Intervals use Student's t with one degree of freedom less than the number of replicates with tuples, and the
//! finite population correction 1 − p. An end for which the sample has too little information is open (`None`). This
//! module does not depend on accumulators.
//!
//! If a few flows contain most tuples, as with Pareto-distributed flow lengths, the largest flows are probably
//! missing from the sample, and the variance between replicates is too small. Such samples are recognized by the
//! skewness of the replicates, and the ends determined by the largest flows are left open.
//!
//! For flows with different sampling rates, p is the smallest rate, and parts and numbers of tuples are multiplied by
//! p divided by their own rate. Estimates are then Horvitz–Thompson estimates, and intervals are conservative (1 − p
//! is that of the smallest rate).

use crate::column::mix;
use crate::seed::RESULT_SEED;

/// Number of replicates for sampled flows.
pub const REPLICATES: usize = 32;

/// Minimum effective number of replicates in the deviations. Below it, a few large flows dominate, and similar flows
/// may be missing from the sample: the end on their side is open. (For 32 normally distributed replicates, the number
/// is almost always above 16.)
const CARRIERS_MIN: f64 = 12.0;
/// Minimum effective number of flows beyond an end; below it, the end is open.
const FLOWS_MIN: f64 = 15.0;
/// Minimum effective number of flows for the lower end of a mean.
const MEAN_FLOWS_MIN: f64 = 8.0;
/// Minimum effective number of replicates for standard deviations, which depend even more on the largest values.
const DEVIATION_CARRIERS_MIN: f64 = 16.0;
/// Minimum effective number of flows for standard deviations.
const DEVIATION_FLOWS_MIN: f64 = 100.0;

/// Maximum skewness between replicates, measured by L-moments, of a sample not dominated by a few flows. For normal
/// distributions it is 0. With flows of exponential length, 12 per replicate, it is below 0.2 in 92 % of samples;
/// with Pareto-distributed lengths with exponent 1.3, it is above 0.2 in 90 %.
const SKEW_MAX: f64 = 0.2;
/// Additional skewness allowed times the proportion of replicates without tuples: small numbers of flows are always
/// skewed.
const SKEW_OF_EMPTY: f64 = 0.3;

/// Minimum replicates with tuples on either side of a proportion.
const SIGHTED_MIN: usize = 8;

/// A 95 % confidence interval; `None` is an open end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ConfidenceInterval {
    /// Lower end.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

impl ConfidenceInterval {
    /// The interval of a value that is not an estimate.
    fn exact(value: f64) -> ConfidenceInterval {
        ConfidenceInterval {
            low: Some(value),
            high: Some(value),
        }
    }
}

fn quotient(parts: &[f64], n: &[f64]) -> f64 {
    parts.iter().sum::<f64>() / n.iter().sum::<f64>()
}

/// Whether the sample has all tuples. Without a tuple the rate is unknown.
fn is_complete(n: &[f64], p: f64) -> bool {
    p >= 1.0 && n.iter().any(|n| *n > 0.0)
}

/// The replicate of a flow, given its ID and the seed of the sample. It is independent of the selection of the sample
/// and differs between samples. A common assignment for all samples of a capture would make all intervals too narrow
/// or all too wide.
#[inline]
#[must_use]
pub fn replicate(id: u64, sample_seed: u64) -> u8 {
    (mix(mix(id) ^ mix(sample_seed) ^ RESULT_SEED) % REPLICATES as u64) as u8
}

/// Interval of a total, with `parts` per replicate from `n` tuples each: the Horvitz–Thompson estimate is Σ parts / p.
/// A nonnegative total is at least the observed value, and its interval is symmetric in the logarithm because totals
/// are skewed.
#[must_use]
pub fn total(parts: &[f64], n: &[f64], p: f64, is_nonnegative: bool) -> ConfidenceInterval {
    let seen: f64 = parts.iter().sum();
    if is_complete(n, p) {
        return ConfidenceInterval::exact(seen);
    }
    let floor = is_nonnegative.then_some(seen);
    let Some(StudentFactor { t, carriers, .. }) = student(n, parts) else {
        return ConfidenceInterval {
            low: floor,
            high: None,
        };
    };
    let half = t * ((1.0 - p) * spread(parts)).sqrt() / p;
    let whole = seen / p;
    let ConfidenceInterval { low, high } = around(whole, half, is_nonnegative);
    let is_known = carriers >= CARRIERS_MIN && !is_dominated(parts, p);
    let low = low.filter(|_| is_nonnegative || is_known);
    ConfidenceInterval {
        low: low.map(|low| low.max(floor.unwrap_or(low))),
        high: high.filter(|_| is_known),
    }
}

/// Interval of a mean Σ parts / Σ n, on a logarithmic scale for nonnegative values. Since a few flows with large
/// values may be missing from the sample, the upper end requires more flows than the lower one.
#[must_use]
pub fn mean(parts: &[f64], n: &[f64], p: f64, is_nonnegative: bool) -> ConfidenceInterval {
    if is_complete(n, p) {
        return ConfidenceInterval::exact(quotient(parts, n));
    }
    let Some(RatioEstimate {
        ratio,
        variance,
        student,
    }) = RatioEstimate::new(parts, n, p)
    else {
        return ConfidenceInterval::default();
    };
    let interval = around(ratio, student.t * variance.sqrt(), is_nonnegative);
    let carrying = if is_nonnegative {
        flows(n).min(flows(parts))
    } else {
        flows(n)
    };
    let is_even = !is_dominated(n, p);
    let is_known = student.carriers >= CARRIERS_MIN && carrying >= FLOWS_MIN && is_even;
    ConfidenceInterval {
        low: interval
            .low
            .filter(|_| flows(n) >= MEAN_FLOWS_MIN && is_even),
        high: interval.high.filter(|_| is_known),
    }
}

/// Interval of a proportion Σ yes / Σ n: Wilson's interval with the effective number of independent tuples, derived
/// from the variance between replicates. Both ends are open if a few flows dominate.
#[must_use]
pub fn share(yes: &[f64], n: &[f64], p: f64) -> ConfidenceInterval {
    if is_complete(n, p) {
        return ConfidenceInterval::exact(quotient(yes, n));
    }
    let Some(RatioEstimate {
        ratio: share,
        variance,
        student,
    }) = RatioEstimate::new(yes, n, p)
    else {
        return ConfidenceInterval::default();
    };
    if is_dominated(n, p) {
        return ConfidenceInterval::default();
    }
    let t = student.t;
    let n = independent(share, variance, yes, n, p);
    let t2 = t * t;
    let center = (share + t2 / (2.0 * n)) / (1.0 + t2 / n);
    let half = t / (1.0 + t2 / n) * (share * (1.0 - share) / n + t2 / (4.0 * n * n)).sqrt();
    ConfidenceInterval {
        low: Some((center - half).max(0.0)),
        high: Some((center + half).min(1.0)),
    }
}

/// The range of proportions whose sample quantiles enclose the quantile `q` of all values, given the number of values
/// per replicate up to the sample's own quantile (Woodruff 1952).
///
/// An end is open if the values beyond it come from few flows or are dominated by a few large ones, because similar
/// flows may be missing from the sample. Both ends are open if a few flows dominate all values.
#[must_use]
pub fn shares_around_quantile(q: f64, up_to: &[f64], n: &[f64], p: f64) -> ConfidenceInterval {
    let Some(RatioEstimate {
        variance, student, ..
    }) = RatioEstimate::new(up_to, n, p)
    else {
        return ConfidenceInterval::default();
    };
    let clusters = (1.0 - p) * q * (1.0 - q) / flows(n);
    let variance = if is_blind(up_to, n) {
        variance.max(clusters)
    } else {
        variance
    };
    let off = student.t * variance.sqrt();
    let beyond: Vec<f64> = n.iter().zip(up_to).map(|(n, up_to)| n - up_to).collect();
    // Large flows with large values reduce the proportion up to the quantile.
    let is_lopsided = student.carriers < CARRIERS_MIN;
    let is_even = !is_dominated(n, p);
    let is_low_known =
        is_even && flows(up_to) >= FLOWS_MIN && !(is_lopsided && student.skew >= 0.0);
    let is_high_known =
        is_even && flows(&beyond) >= FLOWS_MIN && !(is_lopsided && student.skew < 0.0);
    ConfidenceInterval {
        low: Some(q - off).filter(|low| is_low_known && *low > 0.0),
        high: Some(q + off).filter(|high| is_high_known && *high < 1.0),
    }
}

/// Interval of the standard deviation, from its values with each replicate left out in turn (delete-a-group
/// jackknife).
#[must_use]
pub fn deviation(whole: f64, without: &[f64], n: &[f64], p: f64) -> ConfidenceInterval {
    let groups = without.len() as f64;
    let center = without.iter().sum::<f64>() / groups;
    let off: Vec<f64> = without.iter().map(|v| v - center).collect();
    let Some(StudentFactor { t, carriers, .. }) = student(n, &off) else {
        return ConfidenceInterval::default();
    };
    let squares: f64 = off.iter().map(|v| v * v).sum();
    let interval = around(
        whole,
        t * ((1.0 - p) * (groups - 1.0) / groups * squares).sqrt(),
        true,
    );
    let is_even = !is_dominated(n, p);
    let is_known = is_even && carriers >= DEVIATION_CARRIERS_MIN && flows(n) >= DEVIATION_FLOWS_MIN;
    ConfidenceInterval {
        low: interval.low.filter(|_| is_even),
        high: interval.high.filter(|_| is_known),
    }
}

/// A ratio Σ parts / Σ n, its linearized variance, and the t quantile.
struct RatioEstimate {
    ratio: f64,
    variance: f64,
    student: StudentFactor,
}

impl RatioEstimate {
    fn new(parts: &[f64], n: &[f64], p: f64) -> Option<RatioEstimate> {
        let total: f64 = n.iter().sum();
        let ratio = if total > 0.0 {
            parts.iter().sum::<f64>() / total
        } else {
            0.0
        };
        let residuals: Vec<f64> = parts
            .iter()
            .zip(n)
            .map(|(part, n)| part - ratio * n)
            .collect();
        let variance = (1.0 - p) * spread(&residuals) / total.powi(2);
        Some(RatioEstimate {
            ratio,
            variance,
            student: student(n, &residuals)?,
        })
    }
}

/// `center` ± `half`, or its equivalent on a logarithmic scale for skewed nonnegative values.
fn around(center: f64, half: f64, is_nonnegative: bool) -> ConfidenceInterval {
    if is_nonnegative && center > 0.0 {
        let factor = (half / center).exp();
        ConfidenceInterval {
            low: Some(center / factor),
            high: Some(center * factor).filter(|v| v.is_finite()),
        }
    } else {
        ConfidenceInterval {
            low: Some(center - half),
            high: Some(center + half),
        }
    }
}

/// R / (R − 1) · Σ (part − mean)²: an unbiased estimate of the sum of squares over flows.
fn spread(parts: &[f64]) -> f64 {
    let r = parts.len() as f64;
    let mean = parts.iter().sum::<f64>() / r;
    r / (r - 1.0) * parts.iter().map(|part| (part - mean).powi(2)).sum::<f64>()
}

/// Effective number of flows, approximately (Σ n)² / Σ (tuples of a flow)².
fn flows(n: &[f64]) -> f64 {
    let total: f64 = n.iter().sum();
    (total * total / spread(n).max(f64::MIN_POSITIVE)).clamp(1.0, total.max(1.0))
}

/// Whether a few flows dominate the replicates, so that similar flows may be missing from a sample of rate `p`.
fn is_dominated(parts: &[f64], p: f64) -> bool {
    let empty = parts.iter().filter(|part| **part == 0.0).count() as f64 / parts.len() as f64;
    p < 1.0 && skewness(parts).abs() > SKEW_MAX + SKEW_OF_EMPTY * empty
}

/// L-skewness: the third L-moment divided by the second (Hosking 1990), from −1 to 1. It varies less between samples
/// than the moment-based skewness.
fn skewness(parts: &[f64]) -> f64 {
    let mut sorted = parts.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let n = sorted.len() as f64;
    let mut mean = 0.0;
    let mut second = 0.0;
    let mut third = 0.0;
    for (rank, part) in sorted.iter().enumerate() {
        let rank = rank as f64;
        mean += part / n;
        second += part * rank / (n * (n - 1.0));
        third += part * rank * (rank - 1.0) / (n * (n - 1.0) * (n - 2.0));
    }
    let scale = 2.0 * second - mean;
    if scale > 0.0 {
        (6.0 * third - 6.0 * second + mean) / scale
    } else {
        0.0
    }
}

/// Whether too few replicates have tuples on one side of a proportion for a variance estimate. Each flow then counts
/// as one tuple.
fn is_blind(yes: &[f64], n: &[f64]) -> bool {
    let with =
        |any: &dyn Fn(f64, f64) -> bool| yes.iter().zip(n).filter(|(y, n)| any(**y, **n)).count();
    with(&|yes, _| yes > 0.0).min(with(&|yes, n| yes < n)) < SIGHTED_MIN
}

/// Number of independent tuples with which a proportion would have this variance.
fn independent(share: f64, variance: f64, yes: &[f64], n: &[f64], p: f64) -> f64 {
    let total: f64 = n.iter().sum();
    let flows = flows(n);
    let is_blind = is_blind(yes, n);
    let n = if is_blind {
        flows / (1.0 - p)
    } else {
        share * (1.0 - share) / variance.max(f64::MIN_POSITIVE)
    };
    n.clamp(1.0, (total / (1.0 - p)).max(1.0))
}

/// The t quantile and shape of the deviations.
#[derive(Clone, Copy)]
struct StudentFactor {
    t: f64,
    /// Effective number of replicates in the deviations.
    carriers: f64,
    /// Third moment of the deviations: negative if the largest are below the mean.
    skew: f64,
}

/// The 97.5 % quantile of Student's t; `None` with fewer than two replicates with tuples. Deviations concentrated in
/// a few replicates reduce the degrees of freedom (Satterthwaite: from the fourth powers of the deviations).
fn student(n: &[f64], deviations: &[f64]) -> Option<StudentFactor> {
    const T: [f64; 31] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042, 2.040,
    ];
    let freedom = n
        .iter()
        .filter(|n| **n > 0.0)
        .count()
        .checked_sub(1)
        .filter(|f| *f > 0)?;
    let mean = deviations.iter().sum::<f64>() / deviations.len() as f64;
    let moment = |power| {
        deviations
            .iter()
            .map(|d| (d - mean).powi(power))
            .sum::<f64>()
    };
    let fourth = moment(4);
    let carriers = if fourth > 0.0 {
        3.0 * moment(2).powi(2) / fourth
    } else {
        freedom as f64
    };
    let t = T[freedom.min((carriers as usize).max(1)).min(T.len()) - 1];
    Some(StudentFactor {
        t,
        carriers,
        skew: moment(3),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_replicates_leave_ends_open() {
        let one: Vec<f64> = (0..32).map(|r| if r == 3 { 5.0 } else { 0.0 }).collect();
        let parts = one.clone();
        assert_eq!(
            total(&parts, &one, 0.1, true),
            ConfidenceInterval {
                low: Some(5.0),
                high: None
            }
        );
        assert_eq!(mean(&parts, &one, 0.1, true), ConfidenceInterval::default());
        assert_eq!(share(&parts, &one, 0.1), ConfidenceInterval::default());
        assert_eq!(
            shares_around_quantile(0.5, &parts, &one, 0.1),
            ConfidenceInterval::default()
        );
        assert_eq!(total(&[], &[], 0.1, true).high, None);
    }

    #[test]
    fn a_complete_sample_is_exact_even_if_one_flow_dominates() {
        let one: Vec<f64> = (0..32).map(|r| if r == 3 { 5.0 } else { 0.0 }).collect();
        let twice: Vec<f64> = one.iter().map(|n| 2.0 * n).collect();
        assert_eq!(total(&one, &one, 1.0, true), ConfidenceInterval::exact(5.0));
        assert_eq!(
            mean(&twice, &one, 1.0, true),
            ConfidenceInterval::exact(2.0)
        );
        assert_eq!(share(&one, &twice, 1.0), ConfidenceInterval::exact(0.5));
    }

    #[test]
    fn even_replicates_give_short_intervals() {
        let n = vec![10.0; 32];
        let parts = vec![5.0; 32];
        let interval = total(&parts, &n, 0.5, true);
        assert_eq!(
            interval,
            ConfidenceInterval {
                low: Some(320.0),
                high: Some(320.0)
            }
        );
        assert_eq!(
            mean(&parts, &n, 0.5, true),
            ConfidenceInterval {
                low: Some(0.5),
                high: Some(0.5)
            }
        );
    }

    /// `n` tuples in each replicate, with `large(r)` large values in replicate `r`.
    fn counts(n: f64, large: impl Fn(usize) -> f64) -> (Vec<f64>, Vec<f64>) {
        let n = vec![n; REPLICATES];
        let up_to = n.iter().enumerate().map(|(r, n)| n - large(r)).collect();
        (up_to, n)
    }

    #[test]
    fn quantiles_have_ends_where_enough_flows_lie_beyond() {
        // About 40 of 1,280 values beyond, from as many flows.
        let spread = |r: usize| [0.0, 1.0, 2.0, 3.0, 1.0, 0.0, 2.0, 1.0][r % 8];
        let (up_to, n) = counts(40.0, spread);
        let interval = shares_around_quantile(0.97, &up_to, &n, 0.1);
        assert!(
            interval.low.is_some_and(|low| low > 0.94)
                && interval.high.is_some_and(|high| high < 1.0)
        );
        // The same number from two flows.
        let (up_to, n) = counts(40.0, |r| if r < 2 { 20.0 } else { 0.0 });
        assert_eq!(shares_around_quantile(0.97, &up_to, &n, 0.1).high, None);
        // The mirrored case: the lower end is open, the upper one known.
        let below: Vec<f64> = n.iter().zip(&up_to).map(|(n, up_to)| n - up_to).collect();
        assert_eq!(shares_around_quantile(0.03, &below, &n, 0.1).low, None);
    }

    #[test]
    fn totals_dominated_by_few_flows_have_no_upper_bound() {
        let (_, n) = counts(40.0, |_| 0.0);
        let even: Vec<f64> = (0..REPLICATES)
            .map(|r| 1000.0 + 10.0 * (r % 5) as f64)
            .collect();
        let interval = total(&even, &n, 0.5, true);
        assert!(interval.low.is_some() && interval.high.is_some());
        let mut one = even.clone();
        one[7] = 100_000.0;
        let ConfidenceInterval { low, high } = total(&one, &n, 0.5, true);
        assert!(
            high.is_none() && low >= Some(one.iter().sum()),
            "at least what was seen: {low:?}"
        );
        assert_eq!(mean(&one, &n, 0.5, true).high, None);
    }

    #[test]
    fn skewed_replicates_leave_ends_open() {
        let even: Vec<f64> = (0..REPLICATES).map(|r| 100.0 + (r % 7) as f64).collect();
        assert!(skewness(&even).abs() < 0.1 && !is_dominated(&even, 0.2));
        // A Pareto tail with exponent 1.3, from many small flows to a few large ones.
        let long: Vec<f64> = (1..=REPLICATES)
            .map(|r| 100.0 * (33.0 / r as f64).powf(1.0 / 1.3))
            .collect();
        assert!(is_dominated(&long, 0.2) && !is_dominated(&long, 1.0));
        let yes: Vec<f64> = long.iter().map(|n| n / 2.0).collect();
        assert_eq!(share(&yes, &long, 0.2), ConfidenceInterval::default());
        assert_eq!(
            shares_around_quantile(0.5, &yes, &long, 0.2),
            ConfidenceInterval::default()
        );
        assert_eq!(mean(&yes, &long, 0.2, true), ConfidenceInterval::default());
        assert_eq!(total(&long, &long, 0.2, true).high, None);
        // Equally skewed, but because of few flows.
        let few: Vec<f64> = (0..REPLICATES)
            .map(|r| [0.0, 1.0, 0.0, 2.0, 1.0, 0.0, 1.0, 0.0][r % 8])
            .collect();
        assert!(
            skewness(&few) > SKEW_MAX && !is_dominated(&few, 0.2),
            "{}",
            skewness(&few)
        );
    }

    #[test]
    fn all_flows_leave_nothing_unknown() {
        let (up_to, n) = counts(40.0, |r| (r % 4) as f64);
        let whole: f64 = up_to.iter().sum();
        assert_eq!(
            total(&up_to, &n, 1.0, true),
            ConfidenceInterval {
                low: Some(whole),
                high: Some(whole)
            }
        );
        let ratio = whole / n.iter().sum::<f64>();
        assert_eq!(
            mean(&up_to, &n, 1.0, true),
            ConfidenceInterval {
                low: Some(ratio),
                high: Some(ratio)
            }
        );
    }
}
