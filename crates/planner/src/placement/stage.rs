//! State of the placement of a layer of engines: streams, senders, and assigned engines.

use super::demand::ProcessDemand;
use super::result::{AssignedIndex, EngineLayer, EngineStream, PlacedEngine};
use crate::topology::{HostId, NetworkLoad};

/// A stream to assign to an engine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct StreamSource {
    /// Index of the sender.
    pub(super) from: u32,
    /// Host of the sender.
    pub(super) host: HostId,
    pub(super) mbps: f64,
}

/// Rates are sums, with rounding errors that depend on the order of addition.
const ROUNDING: f64 = 1e-9;

/// The streams of senders; output that exceeds the capacity of an engine is divided into the smallest number of equal
/// shares.
pub(super) fn shares(from: &[(HostId, f64)], most_mbps: f64) -> Vec<StreamSource> {
    let of = |(index, (host, mbps)): (usize, &(HostId, f64))| {
        let count = (mbps / most_mbps * (1.0 - ROUNDING)).ceil().max(1.0);
        let share = StreamSource {
            from: index as u32,
            host: *host,
            mbps: mbps / count,
        };
        std::iter::repeat_n(share, count as usize)
    };
    from.iter().enumerate().flat_map(of).collect()
}

/// State of the placement of a layer.
pub(super) struct EngineStage<'s> {
    pub(super) sources: &'s [StreamSource],
    pub(super) process: ProcessDemand,
    engines: Vec<PlacedEngine>,
    to: Vec<AssignedIndex>,
}

impl<'s> EngineStage<'s> {
    pub(super) fn new(sources: &'s [StreamSource], process: ProcessDemand) -> EngineStage<'s> {
        EngineStage {
            sources,
            process,
            engines: Vec::new(),
            to: vec![None; sources.len()],
        }
    }

    pub(super) fn engines(&self) -> &[PlacedEngine] {
        &self.engines
    }

    /// Whether a new engine on this host could process a source: cores, memory, and links between.
    pub(super) fn could_open(
        &self,
        host: HostId,
        source: &StreamSource,
        load: &NetworkLoad<'_>,
    ) -> bool {
        load.bears(host, &self.process.need()) && load.carries(source.host, host, source.mbps)
    }

    /// Places an engine and returns its index.
    pub(super) fn open(&mut self, host: HostId, load: &mut NetworkLoad<'_>) -> u32 {
        load.place(host, &self.process.need());
        self.engines.push(PlacedEngine { host, mbps: 0.0 });
        self.engines.len() as u32 - 1
    }

    /// Whether an engine and the links to it have capacity for a source.
    pub(super) fn fits(&self, source: usize, engine: u32, load: &NetworkLoad<'_>) -> bool {
        let source = &self.sources[source];
        let engine = &self.engines[engine as usize];
        engine.mbps + source.mbps <= self.process.mbps * (1.0 + ROUNDING)
            && load.carries(source.host, engine.host, source.mbps)
    }

    /// Assigns a source to an engine.
    pub(super) fn give(&mut self, source: usize, engine: u32, load: &mut NetworkLoad<'_>) {
        let from = &self.sources[source];
        let to = &mut self.engines[engine as usize];
        load.carry(from.host, to.host, from.mbps);
        to.mbps += from.mbps;
        self.to[source] = Some(engine);
    }

    /// Assigns a source to an engine if it fits; returns whether it did.
    pub(super) fn try_give(
        &mut self,
        source: usize,
        engine: u32,
        load: &mut NetworkLoad<'_>,
    ) -> bool {
        let fits = self.fits(source, engine, load);
        if fits {
            self.give(source, engine, load);
        }
        fits
    }

    /// The resulting layer.
    pub(super) fn into_layer(self) -> EngineLayer {
        let stream = |(source, to): (&StreamSource, AssignedIndex)| EngineStream {
            from: source.from,
            to,
            mbps: source.mbps,
        };
        let streams = self.sources.iter().zip(self.to).map(stream).collect();
        EngineLayer {
            engines: self.engines,
            streams,
        }
    }
}
