//! Sampling rates that a monitor or an exporter can apply.

/// The rates that can be set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PermittedRates {
    /// Any rate from this one to 1.
    Any {
        /// Lowest rate.
        min: f64,
    },
    /// One of a whole number.
    OneIn {
        /// Largest number.
        max: u32,
    },
    /// One of a power of two.
    PowersOfTwo {
        /// Largest number; rounded down to a power of two.
        max: u32,
    },
}

impl PermittedRates {
    /// The lowest rate.
    #[must_use]
    pub fn lowest(self) -> f64 {
        match self {
            PermittedRates::Any { min } => min.clamp(f64::MIN_POSITIVE, 1.0),
            PermittedRates::OneIn { max } => 1.0 / f64::from(max.max(1)),
            PermittedRates::PowersOfTwo { max } => 1.0 / f64::from(1u32 << max.max(1).ilog2()),
        }
    }

    /// The lowest permitted rate that is at least `rate`.
    #[must_use]
    pub fn at_least(self, rate: f64) -> f64 {
        let rate = self.bounded(rate);
        match self {
            PermittedRates::Any { .. } => rate,
            // The tolerance keeps a permitted rate as it is.
            PermittedRates::OneIn { .. } => 1.0 / (1.0 / rate * (1.0 + 1e-12)).floor(),
            PermittedRates::PowersOfTwo { .. } => rate.log2().ceil().exp2(),
        }
    }

    /// The highest permitted rate that is at most `rate`; the lowest permitted rate if there is none.
    #[must_use]
    pub fn at_most(self, rate: f64) -> f64 {
        let rate = self.bounded(rate);
        match self {
            PermittedRates::Any { .. } => rate,
            PermittedRates::OneIn { .. } => 1.0 / (1.0 / rate * (1.0 - 1e-12)).ceil(),
            PermittedRates::PowersOfTwo { .. } => rate.log2().floor().exp2(),
        }
    }

    fn bounded(self, rate: f64) -> f64 {
        if rate.is_nan() {
            1.0
        } else {
            rate.clamp(self.lowest(), 1.0)
        }
    }
}
