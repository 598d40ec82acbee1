//! What a query may take of a network, where that is planned: BUDGET.

/// At most so much; none: as much as it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Budget {
    /// The share of its cores that a host gives to a monitor, above 0 and at most 1.
    pub cpu: Option<f64>,
    /// What copies and results together add to all links, in Mb/s.
    pub bandwidth_mbps: Option<f64>,
}

impl Budget {
    /// Whether nothing is bounded.
    #[must_use]
    pub fn is_open(&self) -> bool {
        *self == Budget::default()
    }
}
