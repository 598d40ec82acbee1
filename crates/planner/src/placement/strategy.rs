//! The strategies, by name.

/// How monitors and engines are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// NetAlytics': random switches; engines where one is in the pod already, else on a random host.
    LocalRandom,
    /// NetAlytics': random switches; engines filled one after the other. Few engines, wherever they are.
    NetalyticsNode,
    /// NetAlytics': the switch with most flows; engines in the pod with most monitors.
    NetalyticsNetwork(Nearby),
    /// Not from the paper: monitors packed, engines merged as long as that saves an engine.
    PackedNode,
    /// Ours: monitors packed, engines merged within a pod only.
    PackedNetwork,
}

/// What Algorithm 2's "host under sw* with enough capacity" is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nearby {
    /// As the text says it, "nearby the monitor": in the rack of the first monitor, if there is room, else in the pod.
    #[default]
    Rack,
    /// As the algorithm is printed: any host of the pod; the one that is used least.
    Pod,
}

/// All of them.
pub const STRATEGIES: [Strategy; 5] = [
    Strategy::LocalRandom,
    Strategy::NetalyticsNode,
    Strategy::NetalyticsNetwork(Nearby::Rack),
    Strategy::PackedNode,
    Strategy::PackedNetwork,
];

impl Strategy {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Strategy::LocalRandom => "local-random",
            Strategy::NetalyticsNode => "netalytics-node",
            Strategy::NetalyticsNetwork(_) => "netalytics-network",
            Strategy::PackedNode => "packed-node",
            Strategy::PackedNetwork => "packed-network",
        }
    }
}
