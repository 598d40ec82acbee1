//! Serialization of panes for another machine; see `partial` for the format.

use super::{PipelineShare, PipelineState};
use crate::pane::{Pane, PaneExpectation};
use crate::partial::bytes::{MalformedPartial, PartialReader, put_len, put_signed};

/// Encodes a list of panes with their numbers.
pub fn encode(share: &[(i64, Pane)], out: &mut Vec<u8>) {
    put_len(out, share.len());
    for (at, pane) in share {
        put_signed(out, *at);
        pane.encode(out);
    }
}

impl PipelineState {
    /// Decodes panes of the same pipeline.
    pub fn decode(&self, from: &mut PartialReader<'_>) -> Result<PipelineShare, MalformedPartial> {
        let n = from.len()?;
        from.allow(self.room.bytes_max);
        let expected = PaneExpectation {
            layout: &self.layout,
            types: &self.key_types,
            seed: self.seed,
            groups_max: self.room.groups_max,
        };
        let mut share = PipelineShare::new();
        for _ in 0..n {
            let at = from.signed()?;
            let is_pane = match &self.windows {
                Some(windows) => windows.has_pane(at),
                None => at == 0,
            };
            if !is_pane {
                return Err(MalformedPartial::Invalid("a time"));
            }
            share.push((at, Pane::decode(from, &expected)?));
        }
        Ok(share)
    }
}
