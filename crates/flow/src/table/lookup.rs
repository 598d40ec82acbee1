//! Lookup of a packet's flow: hash of the key, prefetch of the flow's probable memory, and search.

use std::ptr;

use wire::{FiveTuple, FlowKey, FlowSide, IpProtocol, Packet, V4Key};

use super::FlowTable;
use crate::expiry::NONE;
use crate::fast_path::FastPathSegment;
use crate::flow_layout::flag;

/// A packet's flow key in the table's form, and its hash: so that a batch can be hashed and prefetched before it is
/// processed.
#[derive(Clone, Copy, Debug)]
pub struct HashedKey {
    /// Hash of the key with the table's seed.
    pub hash: u64,
    /// IPv4: addresses and ports; wide key: the hash and 0.
    pub(super) addrs: u64,
    pub(super) ports: u32,
    /// The sender.
    pub side: FlowSide,
    /// Probable place of the flow, see [`FlowTable::prefetch_flow`].
    pub(super) place: u32,
    /// Flags that its record must have.
    pub(super) kind: u64,
    /// As [`wire::FlowKey::network`].
    pub(super) network: u8,
}

impl HashedKey {
    /// Flow key of a packet with its hash; `network`: see [`wire::FlowKey::network`], `seed`: that of the table.
    #[inline(always)]
    #[must_use]
    pub fn of(packet: &Packet<'_>, network: u8, seed: u64) -> HashedKey {
        let tuple = &packet.five_tuple;
        let transport = match tuple.protocol {
            IpProtocol::TCP => flag::TCP,
            IpProtocol::UDP => flag::UDP,
            _ => 0,
        };
        let (hash, addrs, ports, side, width) = match V4Key::of_ends(tuple.src, tuple.dst) {
            Some((key @ V4Key { addrs, ports }, side)) if (transport != 0) & (network == 0) => {
                (key.hash(tuple.protocol, seed), addrs, ports, side, 0)
            }
            _ => {
                let (hash, side) = HashedKey::hash_wide(*tuple, network, seed);
                (hash, hash, 0, side, flag::WIDE)
            }
        };
        HashedKey {
            hash,
            addrs,
            ports,
            side,
            place: NONE,
            kind: flag::LIVE | transport | width,
            network,
        }
    }

    // Passed by value in registers, so that it need not be stored in memory on every call.
    #[inline(never)]
    fn hash_wide(tuple: FiveTuple, network: u8, seed: u64) -> (u64, FlowSide) {
        let (key, side) = tuple.flow_key();
        (FlowKey { network, ..key }.hash(seed), side)
    }
}

impl<S: Default> FlowTable<S> {
    /// Flow key of a packet with its hash.
    #[inline(always)]
    #[must_use]
    pub fn hash(&self, packet: &Packet<'_>) -> HashedKey {
        self.hash_in(packet, 0)
    }

    /// Same for one of several networks, see [`wire::FlowKey::network`].
    #[inline(always)]
    #[must_use]
    pub fn hash_in(&self, packet: &Packet<'_>, network: u8) -> HashedKey {
        HashedKey::of(packet, network, self.config.seed)
    }

    /// Prefetches the memory that [`FlowTable::prefetch_flow`] reads; `fetch` requests a cache line without waiting. For
    /// a batch: this for all packets, then that for all, then [`FlowTable::prefetch_rest`], then the packets.
    #[inline]
    pub fn prefetch_index(&self, at: &HashedKey, fetch: impl Fn(*const u8)) {
        fetch(self.index.first_entry(at.hash).cast());
    }

    /// Prefetches the memory that [`FlowTable::process_hashed`] reads first, and records its place.
    #[inline]
    pub fn prefetch_flow(&self, at: &mut HashedKey, fetch: impl Fn(*const u8)) {
        if let Some(place) = self.index.guess(at.hash) {
            at.place = place;
            fetch(ptr::from_ref(self.store.hot(place)).cast());
        }
    }

    /// Prefetches the other memory of a packet that does not take the fast path.
    #[inline]
    pub fn prefetch_rest(
        &self,
        at: &HashedKey,
        segment: &FastPathSegment,
        fetch: impl Fn(*const u8),
    ) {
        if at.place != NONE
            && !(segment.fits_fast_path() && self.store.hot(at.place).has(flag::FAST))
        {
            fetch(ptr::from_ref(self.store.cold(at.place)).cast());
            fetch(self.wheel.link_of(at.place));
        }
    }

    /// The caller's state at the probable place of a packet's flow, for prefetching. It may belong to another flow.
    #[inline]
    pub fn state_of(&self, at: &HashedKey) -> Option<&S> {
        (at.place != NONE).then(|| self.states.at(at.place))
    }

    /// The packet's flow. There is only one live record with its key, so a correct guess avoids the search.
    #[inline(always)]
    pub(super) fn find(&self, at: &HashedKey, tuple: &FiveTuple) -> Option<u32> {
        if at.place != NONE && self.is_flow_of(at.place, at, tuple) {
            return Some(at.place);
        }
        self.look_up(at, *tuple)
    }

    #[inline(never)]
    fn look_up(&self, at: &HashedKey, tuple: FiveTuple) -> Option<u32> {
        self.index
            .find(at.hash, |place| self.is_flow_of(place, at, &tuple))
    }

    #[inline(never)]
    fn has_wide(&self, place: u32, tuple: FiveTuple, network: u8) -> bool {
        self.store.has_wide(
            place,
            &FlowKey {
                network,
                ..tuple.flow_key().0
            },
        )
    }

    #[inline(always)]
    fn is_flow_of(&self, place: u32, at: &HashedKey, tuple: &FiveTuple) -> bool {
        self.looks_like(place, at)
            && (at.kind & flag::WIDE == 0 || self.has_wide(place, *tuple, at.network))
    }

    /// Whether the flow at `place` has this key, if the hot record holds the whole key.
    #[inline(always)]
    pub(super) fn is_v4_flow_of(&self, place: u32, at: &HashedKey) -> bool {
        self.looks_like(place, at) && at.kind & flag::WIDE == 0
    }

    #[inline(always)]
    fn looks_like(&self, place: u32, at: &HashedKey) -> bool {
        let hot = self.store.hot(place);
        (hot.addrs == at.addrs)
            & (hot.ports == at.ports)
            & (hot.word & (flag::KIND | flag::LIVE) == at.kind)
    }
}
