//! A slice: a share of 2⁻ⁿ of all flows, selected by bits of the packets, so that a switch can copy only these.
//! Slices with the same drawn bits are nested: the smaller one is part of the larger one. Both directions of a flow
//! belong to the same slices.
//!
//! Each bit is the exclusive or of the bits of both endpoints, so that the client need not be known. If a rule
//! specifies the server's port, it is a bit of the client's port. Bit 0 of ports is not used, because systems use
//! even ports for connections.

use std::fmt;
use std::str::FromStr;

/// The source of the bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SliceSource {
    /// Ports.
    #[default]
    Ports,
    /// Addresses, used if all flows have the same ports.
    Addresses,
}

/// A slice of flows. The default is all flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowSlice {
    /// The source of the bits.
    pub coin: SliceSource,
    /// Number of bits; the share is two to the power of minus this.
    pub level: u8,
    /// The values of the bits, least significant first.
    pub drawn: u16,
}

impl FlowSlice {
    /// Maximum level.
    pub const LEVEL_MAX: u8 = 10;

    /// The slice with the same drawn bits at another level.
    #[must_use]
    pub fn at(self, level: u8) -> FlowSlice {
        FlowSlice {
            level: level.min(FlowSlice::LEVEL_MAX),
            ..self
        }
    }

    /// Share of all flows.
    #[must_use]
    pub fn share(self) -> f64 {
        share(self.level)
    }

    /// Mask of the selecting bits in the low sixteen bits of a port or address.
    #[must_use]
    pub fn mask(self) -> u16 {
        ((1 << self.level) - 1) << self.shift()
    }

    /// Required value of the masked bits: the exclusive or of both endpoints.
    #[must_use]
    pub fn bits(self) -> u16 {
        (self.drawn << self.shift()) & self.mask()
    }

    fn shift(self) -> u32 {
        u32::from(self.coin == SliceSource::Ports)
    }

    /// Whether the slice contains a flow with these ports, or these low sixteen bits of addresses.
    #[inline]
    #[must_use]
    pub fn admits(self, ends: [u16; 2]) -> bool {
        (ends[0] ^ ends[1]) & self.mask() == self.bits()
    }
}

/// The share of all flows at a level.
#[must_use]
pub fn share(level: u8) -> f64 {
    0.5f64.powi(level.into())
}

/// As sent to monitors: `ports 3 437`.
impl fmt::Display for FlowSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let coin = match self.coin {
            SliceSource::Ports => "ports",
            SliceSource::Addresses => "addresses",
        };
        write!(f, "{coin} {} {}", self.level, self.drawn)
    }
}

impl FromStr for FlowSlice {
    type Err = ();

    fn from_str(text: &str) -> Result<FlowSlice, ()> {
        let mut words = text.split(' ');
        let coin = match words.next() {
            Some("ports") => SliceSource::Ports,
            Some("addresses") => SliceSource::Addresses,
            _ => return Err(()),
        };
        let mut number = || words.next().and_then(|word| word.parse::<u16>().ok());
        let level = number().ok_or(())?;
        let drawn = number().ok_or(())?;
        let level = u8::try_from(level)
            .ok()
            .filter(|level| *level <= FlowSlice::LEVEL_MAX)
            .ok_or(())?;
        if words.next().is_some() {
            Err(())
        } else {
            Ok(FlowSlice { coin, level, drawn })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_nested_and_have_their_share() {
        for coin in [SliceSource::Ports, SliceSource::Addresses] {
            let all = FlowSlice {
                coin,
                level: 0,
                drawn: 0x2b5,
            };
            for level in 0..=FlowSlice::LEVEL_MAX {
                let slice = all.at(level);
                let larger = all.at(level.saturating_sub(1));
                let inside = |port: &u16| slice.admits([*port, 443]);
                assert!(
                    (0..=u16::MAX)
                        .filter(inside)
                        .all(|port| larger.admits([443, port]))
                );
                assert_eq!(
                    (0..=u16::MAX).filter(inside).count() as f64,
                    65_536.0 * slice.share()
                );
                // Even ports, as used by one system.
                if coin == SliceSource::Ports {
                    let even = (0..=u16::MAX).step_by(2).filter(inside).count();
                    assert_eq!(even as f64, 32_768.0 * slice.share());
                }
            }
        }
    }

    #[test]
    fn slices_round_trip_as_text() {
        for slice in [
            FlowSlice::default(),
            FlowSlice {
                coin: SliceSource::Addresses,
                level: 10,
                drawn: u16::MAX,
            },
        ] {
            assert_eq!(slice.to_string().parse(), Ok(slice));
        }
        for text in [
            "",
            "ports",
            "ports 1",
            "ports 11 3",
            "ports 1 2 3",
            "bits 1 2",
            "ports 1 65536",
        ] {
            assert_eq!(text.parse::<FlowSlice>(), Err(()), "{text}");
        }
    }
}
