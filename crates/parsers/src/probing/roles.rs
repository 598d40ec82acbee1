//! Determines the client of a connection whose SYN was not seen. A protocol that recognizes its messages
//! determines their sender, but the bytes may be the inside of something else. So a claim that contradicts
//! the usual port needs a second one, and every claim is reviewed by later messages.

use wire::{FlowSide, IpProtocol, Timestamp};

use super::{ProbeBuffer, ProbeFlow, ProbeInput, ProtocolClaim, RecognizedProtocol, RoleDoubt};
use crate::ProtocolDefinition;

impl ProbeFlow {
    /// The client by port, if no SYN was seen and exactly one end has a usual port of the protocol.
    pub(super) fn client_by_port(&self, ports: &[u16]) -> Option<FlowSide> {
        if self.client.is_some() || self.transport != IpProtocol::TCP {
            return None;
        }
        match [FlowSide::A, FlowSide::B].map(|side| ports.contains(&self.ports[side.index()])) {
            [true, false] => Some(FlowSide::B),
            [false, true] => Some(FlowSide::A),
            _ => None,
        }
    }
}

impl ProbeBuffer {
    /// Decides whether to accept a claim. `is_new`: it is based on bytes that no other claim is based on.
    pub(super) fn settle(
        &mut self,
        claim: Result<ProtocolClaim, bool>,
        (is_new, ts): (bool, Timestamp),
    ) -> Result<RecognizedProtocol, bool> {
        let claim = claim?;
        match self.claim {
            // Repeated for the same bytes.
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

    /// Whether bytes of `side` are held for an unconfirmed claim.
    pub(super) fn has_claimed(&self, side: FlowSide) -> bool {
        self.claim.is_some_and(|claim| claim.side == side)
    }

    /// The unconfirmed claim. It is used at the end of the flow.
    #[must_use]
    pub fn claimed(&self) -> Option<RecognizedProtocol> {
        self.claim.map(|claim| claim.found)
    }
}

/// Messages reviewed before the roles are certain.
const REVIEWED_MAX: u8 = 64;
/// Lead in messages that decides a review.
const LEAD: u8 = 2;

/// Result of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleReview {
    /// No change.
    Same,
    /// The assumed server is the client.
    Exchanged,
}

impl RoleDoubt {
    /// Opens the review of roles determined by one message.
    #[must_use]
    pub fn open() -> RoleDoubt {
        RoleDoubt {
            left: REVIEWED_MAX,
            confirmed: 1,
            contradicted: 0,
        }
    }

    /// Whether more messages may change the roles.
    #[inline]
    #[must_use]
    pub fn is_open(self) -> bool {
        self.left > 0
    }

    /// Reviews the next bytes of `side`.
    pub fn review(
        &mut self,
        protocol: &'static ProtocolDefinition,
        asker: FlowSide,
        (side, bytes): (FlowSide, &[u8]),
        flow: ProbeFlow,
    ) -> RoleReview {
        self.left -= 1;
        let flow = ProbeFlow {
            client: None,
            ..flow
        };
        let asked = ProbeInput {
            side,
            flow,
            protocols: &[protocol],
            other: &[],
        };
        let Ok(claim) = asked.probe(bytes, true) else {
            return RoleReview::Same;
        };
        if claim.found.asker == asker {
            self.confirmed += 1;
        } else {
            self.contradicted += 1;
        }
        if self.contradicted >= self.confirmed + LEAD {
            *self = RoleDoubt::default();
            return RoleReview::Exchanged;
        }
        if self.confirmed > self.contradicted + LEAD {
            self.left = 0;
        }
        RoleReview::Same
    }
}
