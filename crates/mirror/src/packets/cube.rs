//! A box of packets: some bits of every field are fixed and the others are free. Boxes are closed under intersection;
//! the difference of two boxes is a set of disjoint boxes, and so is a range of ports.

use std::ops::RangeInclusive;

use super::field::{ARP, FIELDS, IPV4, MatchField};

/// Fixed bits of a number: no bit of `value` lies outside of `mask`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MaskedBits {
    /// Values of the bits.
    pub value: u128,
    /// Fixed bits.
    pub mask: u128,
}

impl MaskedBits {
    /// The bits of `value` in `mask`.
    #[must_use]
    pub fn new(value: u128, mask: u128) -> MaskedBits {
        MaskedBits {
            value: value & mask,
            mask,
        }
    }

    /// Whether a number matches.
    #[must_use]
    pub fn admits(self, number: u128) -> bool {
        number & self.mask == self.value
    }

    /// Intersection; `None`: empty.
    #[must_use]
    pub fn and(self, other: MaskedBits) -> Option<MaskedBits> {
        let agree = (self.value ^ other.value) & self.mask & other.mask == 0;
        agree.then_some(MaskedBits {
            value: self.value | other.value,
            mask: self.mask | other.mask,
        })
    }
}

/// See the module documentation. The default contains every packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketCube([MaskedBits; FIELDS.len()]);

impl PacketCube {
    /// Every packet.
    pub const ALL: PacketCube = PacketCube([MaskedBits { value: 0, mask: 0 }; FIELDS.len()]);

    /// Fixed bits of a field.
    #[must_use]
    pub fn get(&self, field: MatchField) -> MaskedBits {
        self.0[field as usize]
    }

    /// The subset with this value of a field; an earlier value of the field is replaced.
    #[must_use]
    pub fn with(self, field: MatchField, value: u128) -> PacketCube {
        self.with_bits(field, MaskedBits::new(value, field.full()))
    }

    /// The subset with some bits of a field fixed.
    #[must_use]
    pub fn with_bits(mut self, field: MatchField, bits: MaskedBits) -> PacketCube {
        self.0[field as usize] = MaskedBits::new(bits.value, bits.mask & field.full());
        self
    }

    /// The subset with the first `length` of the last `of` bits of a field fixed.
    #[must_use]
    pub fn with_prefix(
        self,
        field: MatchField,
        value: u128,
        (length, of): (u32, u32),
    ) -> PacketCube {
        let length = length.min(of);
        let of = of.min(field.width());
        let low = u128::MAX.checked_shr(128 - (of - length)).unwrap_or(0);
        // Only the last `of` bits are significant; the others are 0.
        self.with_bits(field, MaskedBits::new(value, field.full() & !low))
    }

    /// Intersection, unless empty.
    #[must_use]
    pub fn and(&self, other: &PacketCube) -> Option<PacketCube> {
        let mut both = PacketCube::ALL;
        for ((out, a), b) in both.0.iter_mut().zip(&self.0).zip(&other.0) {
            *out = a.and(*b)?;
        }
        Some(both)
    }

    /// Whether the box contains all of `other`.
    #[must_use]
    pub fn contains(&self, other: &PacketCube) -> bool {
        self.0
            .iter()
            .zip(&other.0)
            .all(|(a, b)| a.mask & !b.mask == 0 && b.value & a.mask == a.value)
    }

    /// Difference, as disjoint boxes.
    #[must_use]
    pub fn without(&self, other: &PacketCube) -> Vec<PacketCube> {
        if self.and(other).is_none() {
            return vec![*self];
        }
        let mut rest = *self;
        let mut pieces = Vec::new();
        for (i, theirs) in other.0.iter().enumerate() {
            let mut open = theirs.mask & !rest.0[i].mask;
            while open != 0 {
                let bit = 1u128 << (127 - open.leading_zeros());
                open &= !bit;
                let mut piece = rest;
                piece.0[i].mask |= bit;
                piece.0[i].value |= !theirs.value & bit;
                pieces.push(piece);
                rest.0[i].mask |= bit;
                rest.0[i].value |= theirs.value & bit;
            }
        }
        pieces
    }

    /// The same packets in canonical form: an IPv4 address has zeros before its 32 bits.
    #[must_use]
    pub fn canonical(self) -> PacketCube {
        let kind = self.get(MatchField::EthType);
        if kind.mask != MatchField::EthType.full() || ![IPV4, ARP].contains(&kind.value) {
            return self;
        }
        let high = u128::MAX << 32;
        [MatchField::Source, MatchField::Destination]
            .iter()
            .fold(self, |cube, field| {
                let bits = cube.get(*field);
                cube.with_bits(
                    *field,
                    MaskedBits::new(bits.value & !high, bits.mask | high),
                )
            })
    }

    /// Number of fixed bits.
    #[must_use]
    pub fn given(&self) -> u32 {
        self.0.iter().map(|bits| bits.mask.count_ones()).sum()
    }
}

/// Packets of `from` that are in none of `others`.
#[must_use]
pub fn without_all<'a>(
    from: Vec<PacketCube>,
    others: impl IntoIterator<Item = &'a PacketCube>,
) -> Vec<PacketCube> {
    let take_away =
        |rest: Vec<PacketCube>, other| rest.iter().flat_map(|cube| cube.without(other)).collect();
    others.into_iter().fold(from, take_away)
}

/// The smallest set of disjoint prefixes that covers a range of numbers.
#[must_use]
pub fn prefixes(range: RangeInclusive<u16>) -> Vec<MaskedBits> {
    let mut at = u32::from(*range.start());
    let end = u32::from(*range.end());
    let mut found = Vec::new();
    while at <= end {
        // The largest block that starts here and does not exceed the end.
        let aligned = if at == 0 { 16 } else { at.trailing_zeros() };
        let size = (end - at + 1).ilog2().min(aligned);
        let mask = (0xffff << size) & 0xffff;
        found.push(MaskedBits::new(u128::from(at), u128::from(mask as u32)));
        at += 1 << size;
    }
    found
}
