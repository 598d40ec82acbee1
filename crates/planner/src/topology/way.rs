//! The way between two hosts by arithmetic: how many links of each class it crosses, and what traffic costs there.

use std::ops::AddAssign;

/// The classes of links of a tree network, from the bottom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkClass {
    /// Between a host and its edge switch.
    Access,
    /// Between an edge and an aggregation switch.
    Aggregation,
    /// Between an aggregation and a core switch.
    Core,
}

/// All classes, in the order of [`Traffic`]'s numbers.
pub const LINK_CLASSES: [LinkClass; 3] = [LinkClass::Access, LinkClass::Aggregation, LinkClass::Core];

/// How far two hosts are from each other: up to the lowest switch that both are under, and down again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    /// No link is crossed.
    SameHost,
    /// Two access links.
    SameRack,
    /// Those, and two between edge and aggregation.
    SamePod,
    /// Those, and two to and from the core.
    OtherPod,
}

impl Distance {
    /// How many links are crossed.
    #[must_use]
    pub fn hops(self) -> u32 {
        2 * self as u32
    }

    /// How many links of a class are crossed.
    #[must_use]
    pub fn crossed(self, class: LinkClass) -> u32 {
        if self as u32 > class as u32 { 2 } else { 0 }
    }
}

/// What a Mb/s on a link of each class counts for: access, aggregation, core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights(pub [f64; 3]);

impl Weights {
    /// Every link the same: the number of hops.
    pub const HOPS: Weights = Weights([1.0, 1.0, 1.0]);
    /// NetAlytics' (section 6.2): links higher up are fewer and shared by more.
    pub const PAPER: Weights = Weights([1.0, 2.0, 4.0]);
}

/// Mb/s on all links of each class together: access, aggregation, core. A stream that crosses two links counts on both.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic(pub [f64; 3]);

impl Traffic {
    /// A stream between two hosts.
    #[must_use]
    pub fn over(distance: Distance, mbps: f64) -> Traffic {
        Traffic(LINK_CLASSES.map(|class| mbps * f64::from(distance.crossed(class))))
    }

    /// A stream over one access link: what a switch copies to a host of its own.
    #[must_use]
    pub fn to_host(mbps: f64) -> Traffic {
        Traffic([mbps, 0.0, 0.0])
    }

    /// All of it, each class by its weight.
    #[must_use]
    pub fn weighed(self, weights: Weights) -> f64 {
        self.0.iter().zip(weights.0).map(|(mbps, weight)| mbps * weight).sum()
    }
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Traffic) {
        for (mine, others) in self.0.iter_mut().zip(other.0) {
            *mine += others;
        }
    }
}
