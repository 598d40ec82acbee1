//! Panes on their way to another machine: see `partial` for the form.

use super::{Running, Share};
use crate::pane::{Expected, Pane};
use crate::partial::bytes::{Malformed, Reader, put_len, put_signed};

/// A list of panes: of each the number and the pane.
pub fn encode(share: &[(i64, Pane)], out: &mut Vec<u8>) {
    put_len(out, share.len());
    for (at, pane) in share {
        put_signed(out, *at);
        pane.encode(out);
    }
}

impl Running {
    /// What was encoded of a pipeline that runs the same.
    pub fn decode(&self, from: &mut Reader<'_>) -> Result<Share, Malformed> {
        let n = from.len()?;
        from.allow(self.room.bytes_max);
        let expected = Expected {
            layout: &self.layout,
            types: &self.key_types,
            seed: self.seed,
            groups_max: self.room.groups_max,
        };
        let mut share = Share::new();
        for _ in 0..n {
            let at = from.signed()?;
            let is_pane = match &self.windows {
                Some(windows) => windows.has_pane(at),
                None => at == 0,
            };
            if !is_pane {
                return Err(Malformed::Invalid("a time"));
            }
            share.push((at, Pane::decode(from, &expected)?));
        }
        Ok(share)
    }
}
