//! Who asks, in a connection whose SYN was not seen. A protocol that recognizes its messages says who sent them, but what one side said may
//! be the inside of something else. So a claim that contradicts the usual port needs a second one, and every claim is reviewed by the
//! messages behind it.

use wire::{IpProtocol, Side, Timestamp};

use super::{Asked, ProbeFlow, Probing, Recognised};
use crate::Protocol;

/// What a protocol says of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    pub found: Recognised,
    /// Who sent the bytes.
    pub side: Side,
    /// By its port the other side would be the one that asks.
    pub against_port: bool,
}

impl ProbeFlow {
    /// The client, where no SYN tells and one end alone has a usual port of the protocol.
    pub(super) fn client_by_port(&self, ports: &[u16]) -> Option<Side> {
        if self.client.is_some() || self.transport != IpProtocol::TCP {
            return None;
        }
        match [Side::A, Side::B].map(|side| ports.contains(&self.ports[side.index()])) {
            [true, false] => Some(Side::B),
            [false, true] => Some(Side::A),
            _ => None,
        }
    }
}

impl Probing {
    /// What is to be believed of a claim. `is_new`: it is made of bytes that no other claim is made of.
    pub(super) fn settle(
        &mut self,
        claim: Result<Claim, bool>,
        (is_new, ts): (bool, Timestamp),
    ) -> Result<Recognised, bool> {
        let claim = claim?;
        match self.claim {
            // The same bytes say the same.
            Some(earlier) if earlier == claim && !is_new => Err(true),
            Some(earlier) if earlier.found != claim.found && !claim.against_port => {
                self.claim = None;
                self.forget(earlier.side, ts);
                Ok(claim.found)
            }
            None if claim.against_port => {
                self.claim = Some(claim);
                Err(true)
            }
            _ => Ok(claim.found),
        }
    }

    /// Whether bytes of `side` are held for a claim that needs another.
    pub(super) fn has_claimed(&self, side: Side) -> bool {
        self.claim.is_some_and(|claim| claim.side == side)
    }

    /// A claim that no second one has confirmed. At the end of the flow it is used.
    #[must_use]
    pub fn claimed(&self) -> Option<Recognised> {
        self.claim.map(|claim| claim.found)
    }
}

/// Messages that are looked at before the roles are taken for certain.
const REVIEWED_MAX: u8 = 64;
/// So many more messages on one side than on the other decide.
const LEAD: u8 = 2;

/// Whether the client of a connection may be its server, and what speaks for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doubt {
    /// Segments that are still looked at.
    left: u8,
    confirmed: u8,
    contradicted: u8,
}

/// Result of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Review {
    /// Nothing.
    Same,
    /// The side that was taken for the server is the client.
    Exchanged,
}

impl Doubt {
    /// The doubt about a connection whose roles were taken from one message.
    #[must_use]
    pub fn open() -> Doubt {
        Doubt { left: REVIEWED_MAX, confirmed: 1, contradicted: 0 }
    }

    /// Whether more messages may change the roles.
    #[inline]
    #[must_use]
    pub fn is_open(self) -> bool {
        self.left > 0
    }

    /// Looks at the next bytes of `side`.
    pub fn review(
        &mut self,
        protocol: &'static Protocol,
        asker: Side,
        (side, bytes): (Side, &[u8]),
        flow: ProbeFlow,
    ) -> Review {
        self.left -= 1;
        let flow = ProbeFlow { client: None, ..flow };
        let asked = Asked { side, flow, protocols: &[protocol], other: &[] };
        let Ok(claim) = asked.probe(bytes, true) else { return Review::Same };
        if claim.found.asker == asker {
            self.confirmed += 1;
        } else {
            self.contradicted += 1;
        }
        if self.contradicted >= self.confirmed + LEAD {
            *self = Doubt::default();
            return Review::Exchanged;
        }
        if self.confirmed > self.contradicted + LEAD {
            self.left = 0;
        }
        Review::Same
    }
}
