//! BUDGET: the maximum resources of a planned query.

/// Maximum resources; `None` is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NetworkBudget {
    /// Maximum share of a host's cores per monitor, above 0 and at most 1.
    pub cpu: Option<f64>,
    /// Maximum traffic of copies and results over all links, in Mb/s.
    pub bandwidth_mbps: Option<f64>,
}

impl NetworkBudget {
    /// Whether nothing is limited.
    #[must_use]
    pub fn is_open(&self) -> bool {
        *self == NetworkBudget::default()
    }
}
