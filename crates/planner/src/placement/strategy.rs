//! The strategies, by name.

/// Placement strategy of monitors and engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlacementStrategy {
    /// NetAlytics: random switches; an existing engine in the pod, otherwise a new one on a random host.
    LocalRandom,
    /// NetAlytics: random switches; engines filled one after the other. Few engines, at any location.
    NetalyticsNode,
    /// NetAlytics: the switch with the most flows; engines in the pod with the most monitors.
    NetalyticsNetwork(NearbyScope),
    /// Not from the paper: packed monitors, engines merged as long as that saves an engine.
    PackedNode,
    /// Not from the paper: packed monitors, engines merged only within a pod.
    PackedNetwork,
}

/// Interpretations of "host under sw* with enough capacity" in Algorithm 2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NearbyScope {
    /// According to the text, "nearby the monitor": in the rack of the first monitor if possible, otherwise in the
    /// pod.
    #[default]
    Rack,
    /// According to the printed algorithm: the least used host of the pod.
    Pod,
}

/// All strategies.
pub const STRATEGIES: [PlacementStrategy; 5] = [
    PlacementStrategy::LocalRandom,
    PlacementStrategy::NetalyticsNode,
    PlacementStrategy::NetalyticsNetwork(NearbyScope::Rack),
    PlacementStrategy::PackedNode,
    PlacementStrategy::PackedNetwork,
];

impl PlacementStrategy {
    /// Name of the strategy.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            PlacementStrategy::LocalRandom => "local-random",
            PlacementStrategy::NetalyticsNode => "netalytics-node",
            PlacementStrategy::NetalyticsNetwork(_) => "netalytics-network",
            PlacementStrategy::PackedNode => "packed-node",
            PlacementStrategy::PackedNetwork => "packed-network",
        }
    }
}
