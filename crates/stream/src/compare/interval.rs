//! The distributions used to judge differences: quantiles of the normal distribution and Student's t-distribution,
//! and the Wilson and Newcombe intervals for proportions.

/// The quantile of the normal distribution (Acklam's approximation; the relative error is below 1.2e-9).
pub fn normal_quantile(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 5] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 4] = [
        7.784_695_709_041_462e-3,
        3.224_671_290_700_398e-1,
        2.445_134_137_142_996,
        3.754_408_661_907_416,
    ];
    const LOW: f64 = 0.02425;
    let polynomial = |c: &[f64], x: f64| c.iter().fold(0.0, |sum, c| sum * x + c);
    if p > 1.0 - LOW {
        return -normal_quantile(1.0 - p);
    }
    if p < LOW {
        let q = (-2.0 * p.ln()).sqrt();
        return polynomial(&C, q) / (polynomial(&D, q) * q + 1.0);
    }
    let q = p - 0.5;
    let r = (p - 0.5) * (p - 0.5);
    polynomial(&A, r) * q / (polynomial(&B, r) * r + 1.0)
}

/// Half-width of the two-sided interval of `confidence` in standard errors, with `freedom` degrees of freedom
/// (Cornish–Fisher expansion; within 1 % from 4 degrees on).
pub fn student(confidence: f64, freedom: f64) -> f64 {
    let z = normal_quantile(0.5 + confidence / 2.0);
    let z3 = z.powi(3);
    let z5 = z.powi(5);
    let z7 = z.powi(7);
    let f = freedom.max(1.0);
    z + (z3 + z) / (4.0 * f)
        + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * f * f)
        + (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * z) / (384.0 * f * f * f)
}

/// Wilson's interval for a proportion `p` of `n` observations.
fn wilson(p: f64, n: f64, z: f64) -> (f64, f64) {
    let z2 = z * z;
    let middle = p + z2 / (2.0 * n);
    let reach = z * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
    (
        (middle - reach) / (1.0 + z2 / n),
        (middle + reach) / (1.0 + z2 / n),
    )
}

/// Whether two proportions differ: Newcombe's interval for their difference (method 10) excludes zero.
pub fn shares_differ((p, n): (f64, f64), (q, m): (f64, f64), z: f64) -> bool {
    let (p_low, p_high) = wilson(p, n, z);
    let (q_low, q_high) = wilson(q, m, z);
    let reach = |a: f64, b: f64| (a * a + b * b).sqrt();
    let low = p - q - reach(p - p_low, q_high - q);
    let high = p - q + reach(p_high - p, q - q_low);
    low > 0.0 || high < 0.0
}

/// Degrees of freedom for the difference of two means with these variances (Welch and Satterthwaite).
pub fn welch((a, a_freedom): (f64, f64), (b, b_freedom): (f64, f64)) -> f64 {
    if a + b <= 0.0 {
        return a_freedom + b_freedom;
    }
    (a + b) * (a + b) / (a * a / a_freedom + b * b / b_freedom)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference values from scipy 1.14: `norm.ppf`, `t.ppf`, and `confint_proportions_2indep(method="newcomb")` of
    /// statsmodels.
    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (p, z) in [
            (0.975, 1.959_963_985),
            (0.5, 0.0),
            (0.01, -2.326_347_874),
            (0.9995, 3.290_526_731),
        ] {
            assert!((normal_quantile(p) - z).abs() < 1e-6, "{p}");
        }
        for (freedom, t) in [
            (4.0, 2.776_445),
            (19.0, 2.093_024),
            (38.0, 2.024_394),
            (1000.0, 1.962_339),
        ] {
            assert!(
                (student(0.95, freedom) - t).abs() < 0.01 * t,
                "{freedom}: {}",
                student(0.95, freedom)
            );
        }
    }

    #[test]
    fn shares_differ_beyond_newcombes_interval() {
        // Newcombe (1998), table II: 56/70 and 48/80, 0.0524 to 0.3339; 9/10 and 3/10, 0.1705 to 0.8090; 6/7 and 2/7,
        // 0.0582 to 0.8062; 5/56 and 0/29, -0.0381 to 0.1926.
        for ((x, n), (y, m), differs) in [
            ((56.0, 70.0), (48.0, 80.0), true),
            ((9.0, 10.0), (3.0, 10.0), true),
            ((6.0, 7.0), (2.0, 7.0), true),
            ((5.0, 56.0), (0.0, 29.0), false),
            ((0.0, 10.0), (0.0, 20.0), false),
            ((10.0, 10.0), (10.0, 10.0), false),
        ] {
            assert_eq!(
                shares_differ((x / n, n), (y / m, m), 1.96),
                differs,
                "{x}/{n} {y}/{m}"
            );
        }
    }
}
