//! The path between two hosts, computed arithmetically: the number of links per class, and their cost.

use std::ops::AddAssign;

/// The link classes of a tree network, from the bottom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkClass {
    /// Between a host and its edge switch.
    Access,
    /// Between an edge and an aggregation switch.
    Aggregation,
    /// Between an aggregation and a core switch.
    Core,
}

/// All classes, in the order of [`LinkTraffic`]'s numbers.
pub const LINK_CLASSES: [LinkClass; 3] =
    [LinkClass::Access, LinkClass::Aggregation, LinkClass::Core];

/// The distance between two hosts: up to their lowest common switch and down again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostDistance {
    /// No links.
    SameHost,
    /// Two access links.
    SameRack,
    /// Two access links, and two between edge and aggregation.
    SamePod,
    /// In addition two links to and from the core.
    OtherPod,
}

impl HostDistance {
    /// Number of links.
    #[must_use]
    pub fn hops(self) -> u32 {
        2 * self as u32
    }

    /// Number of links of a class.
    #[must_use]
    pub fn crossed(self, class: LinkClass) -> u32 {
        if self as u32 > class as u32 { 2 } else { 0 }
    }
}

/// Weight of a Mb/s per link class: access, aggregation, core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkWeights(pub [f64; 3]);

impl LinkWeights {
    /// Equal weights: the number of hops.
    pub const HOPS: LinkWeights = LinkWeights([1.0, 1.0, 1.0]);
    /// NetAlytics (section 6.2): higher links are fewer and shared by more hosts.
    pub const PAPER: LinkWeights = LinkWeights([1.0, 2.0, 4.0]);
}

/// Total Mb/s per link class: access, aggregation, core. A stream over two links counts on both.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkTraffic(pub [f64; 3]);

impl LinkTraffic {
    /// A stream between two hosts.
    #[must_use]
    pub fn over(distance: HostDistance, mbps: f64) -> LinkTraffic {
        LinkTraffic(LINK_CLASSES.map(|class| mbps * f64::from(distance.crossed(class))))
    }

    /// A stream over one access link: copies from a switch to a host connected to it.
    #[must_use]
    pub fn to_host(mbps: f64) -> LinkTraffic {
        LinkTraffic([mbps, 0.0, 0.0])
    }

    /// The weighted sum over all classes.
    #[must_use]
    pub fn weighed(self, weights: LinkWeights) -> f64 {
        self.0
            .iter()
            .zip(weights.0)
            .map(|(mbps, weight)| mbps * weight)
            .sum()
    }
}

impl AddAssign for LinkTraffic {
    fn add_assign(&mut self, other: LinkTraffic) {
        for (mine, others) in self.0.iter_mut().zip(other.0) {
            *mine += others;
        }
    }
}
