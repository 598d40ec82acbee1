//! Distributions of flow sizes, by their inverse and with known mean, so that the total rate of a workload is known
//! before any flow is drawn.

use crate::random::SeededRandom;

/// A distribution of flow sizes, equivalent to rates, since all flows have the same duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowSizeDistribution {
    /// Measured in data centers (Benson, Akella, Maltz 2010): four of five flows are below 10 kB, and nearly all
    /// bytes are in the largest tenth. 100 B to 100 MB, mean 97 kB.
    Datacenter,
    /// Bounded Pareto, shape 1.2: a tail up to a million times the smallest.
    Pareto,
    /// Exponential: a light tail.
    Exponential,
    /// Constant.
    Equal,
}

/// All distributions with their names.
pub const SIZES: [(&str, FlowSizeDistribution); 4] = [
    ("datacenter", FlowSizeDistribution::Datacenter),
    ("pareto", FlowSizeDistribution::Pareto),
    ("exponential", FlowSizeDistribution::Exponential),
    ("equal", FlowSizeDistribution::Equal),
];

/// Bytes and cumulative share of flows, with logarithmic interpolation.
const DATACENTER: [(f64, f64); 7] = [
    (1e2, 0.0),
    (1e3, 0.45),
    (1e4, 0.8),
    (1e5, 0.95),
    (1e6, 0.99),
    (1e7, 0.999),
    (1e8, 1.0),
];
const PARETO_SHAPE: f64 = 1.2;
const PARETO_LARGEST: f64 = 1e6;

impl FlowSizeDistribution {
    /// Draws a flow size, scaled to mean 1.
    pub fn draw(self, random: &mut SeededRandom) -> f64 {
        self.at(random.unit()) / self.mean()
    }

    /// The mean of [`FlowSizeDistribution::at`].
    fn mean(self) -> f64 {
        match self {
            FlowSizeDistribution::Datacenter => DATACENTER
                .windows(2)
                .map(|of| (of[1].1 - of[0].1) * (of[1].0 - of[0].0) / (of[1].0 / of[0].0).ln())
                .sum(),
            FlowSizeDistribution::Pareto => {
                let shape = PARETO_SHAPE;
                let rest = PARETO_LARGEST.powf(-PARETO_SHAPE);
                shape / (shape - 1.0) * (1.0 - PARETO_LARGEST.powf(1.0 - shape)) / (1.0 - rest)
            }
            FlowSizeDistribution::Exponential | FlowSizeDistribution::Equal => 1.0,
        }
    }

    /// The quantile for a share.
    fn at(self, share: f64) -> f64 {
        match self {
            FlowSizeDistribution::Datacenter => {
                let above = DATACENTER
                    .iter()
                    .position(|(_, upto)| share < *upto)
                    .unwrap_or(DATACENTER.len() - 1);
                let low = DATACENTER[above - 1];
                let high = DATACENTER[above];
                low.0 * (high.0 / low.0).powf((share - low.1) / (high.1 - low.1))
            }
            FlowSizeDistribution::Pareto => {
                let rest = PARETO_LARGEST.powf(-PARETO_SHAPE);
                (1.0 - share * (1.0 - rest)).powf(-1.0 / PARETO_SHAPE)
            }
            FlowSizeDistribution::Exponential => -(1.0 - share).ln(),
            FlowSizeDistribution::Equal => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_equal_those_of_samples() {
        for (name, sizes) in SIZES {
            // Evenly spaced shares instead of random ones; the last steps cover the tail.
            let steps = 4_000_000;
            let sum: f64 = (0..steps)
                .map(|i| sizes.at((f64::from(i) + 0.5) / f64::from(steps)))
                .sum();
            let found = sum / f64::from(steps);
            let ratio = found / sizes.mean();
            assert!(
                (0.97..1.01).contains(&ratio),
                "{name}: {found} for {}",
                sizes.mean()
            );
        }
    }

    #[test]
    fn data_centers_are_as_measured() {
        let mut sizes: Vec<f64> = (0..100_000)
            .map(|i| FlowSizeDistribution::Datacenter.at(f64::from(i) / 1e5))
            .collect();
        sizes.sort_by(f64::total_cmp);
        assert!(
            (sizes[80_000] - 10_000.0).abs() < 50.0,
            "four of five are below 10 kB: {}",
            sizes[80_000]
        );
        let tenth: f64 = sizes[90_000..].iter().sum();
        assert!(tenth / sizes.iter().sum::<f64>() > 0.95, "{tenth}");
    }
}
