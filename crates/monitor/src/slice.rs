//! The slice of flows that switches copy to a monitor, shared by all workers of a job. It is set before the switches
//! copy less; each worker applies it at the end of its epoch and reports it in its vitals.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plan::{FlowSlice, SliceSource};
use wire::{Addr, Endpoint};

/// Current slice; initially all flows.
#[derive(Clone, Debug, Default)]
pub struct SharedSlice(Arc<AtomicU64>);

impl SharedSlice {
    /// Sets the slice.
    pub fn set(&self, slice: FlowSlice) {
        let coin = u64::from(slice.coin == SliceSource::Addresses);
        let word = u64::from(slice.drawn) | u64::from(slice.level) << 16 | coin << 24;
        self.0.store(word, Ordering::Relaxed);
    }

    /// Current slice.
    #[must_use]
    pub fn get(&self) -> FlowSlice {
        let word = self.0.load(Ordering::Relaxed);
        let coin = if word >> 24 == 0 {
            SliceSource::Ports
        } else {
            SliceSource::Addresses
        };
        FlowSlice {
            coin,
            level: (word >> 16) as u8,
            drawn: word as u16,
        }
    }
}

/// Whether a flow between these endpoints is in a slice.
#[inline]
#[must_use]
pub fn is_in(slice: FlowSlice, ends: &[Endpoint; 2]) -> bool {
    let low = |addr: Addr| u16::from_be_bytes([addr.0[14], addr.0[15]]);
    slice.admits(match slice.coin {
        SliceSource::Ports => ends.map(|end| end.port),
        SliceSource::Addresses => ends.map(|end| low(end.addr)),
    })
}
