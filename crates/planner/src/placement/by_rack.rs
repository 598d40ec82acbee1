//! The flows of each rack in order: one array for all racks (compressed rows). A flow between two racks is listed in
//! both.

use std::ops::Range;

use super::demand::PlacementFlow;
use crate::topology::RackId;

/// The flows of each rack.
pub(super) struct FlowsByRack {
    starts: Vec<u32>,
    flows: Vec<u32>,
}

impl FlowsByRack {
    pub(super) fn new(racks: usize, flows: &[PlacementFlow]) -> FlowsByRack {
        let mut starts = vec![0u32; racks + 1];
        for rack in flows.iter().flat_map(PlacementFlow::distinct_racks) {
            starts[usize::from(rack) + 1] += 1;
        }
        for rack in 0..racks {
            starts[rack + 1] += starts[rack];
        }
        let mut next = starts.clone();
        let mut by_rack = vec![0u32; starts[racks] as usize];
        for (index, flow) in flows.iter().enumerate() {
            for rack in flow.distinct_racks() {
                let at = &mut next[usize::from(rack)];
                by_rack[*at as usize] = index as u32;
                *at += 1;
            }
        }
        FlowsByRack {
            starts,
            flows: by_rack,
        }
    }

    pub(super) fn racks(&self) -> usize {
        self.starts.len() - 1
    }

    /// The range of a rack's flows in the array.
    pub(super) fn range(&self, rack: RackId) -> Range<usize> {
        let rack = usize::from(rack);
        self.starts[rack] as usize..self.starts[rack + 1] as usize
    }

    /// The flow at an index of the array.
    pub(super) fn flow_at(&self, at: usize) -> usize {
        self.flows[at] as usize
    }

    /// The flows of a rack.
    pub(super) fn flows(&self, rack: RackId) -> &[u32] {
        &self.flows[self.range(rack)]
    }
}
