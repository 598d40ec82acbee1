//! Encapsulations removed from a packet: [`Tunnel`]. Each is a [`TunnelLayer`]; at most [`LAYERS_MAX`] are removed.

use std::fmt;

use crate::{Addr, DecodeError};

/// Maximum encapsulations of one packet: overlays in mirrors in provider networks nest three or four.
pub const LAYERS_MAX: usize = 8;

/// One encapsulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TunnelLayer {
    /// PPP over Ethernet (RFC 2516).
    Pppoe = 1,
    /// A stack of MPLS labels (RFC 3032).
    Mpls,
    /// GRE (RFC 2784, RFC 2890), with a packet or an Ethernet frame inside.
    Gre,
    /// ERSPAN of any type, including its GRE header.
    Erspan,
    /// IPv4 in IPv4 (RFC 2003).
    Ipip,
    /// IPv4 in IPv6 (RFC 2473).
    FourInSix,
    /// IPv6 in IPv4 (RFC 4213).
    SixInFour,
    /// IPv6 in IPv6 (RFC 2473).
    SixInSix,
    /// VXLAN (RFC 7348) and VXLAN-GPE.
    Vxlan,
    /// Geneve (RFC 8926).
    Geneve,
    /// GTP-U (3GPP TS 29.281).
    Gtp,
    /// L2TP (RFC 2661, RFC 3931).
    L2tp,
    /// Provider backbone bridging (IEEE 802.1ah).
    Pbb,
    /// Network service header (RFC 8300).
    Nsh,
}

impl TunnelLayer {
    const ALL: [TunnelLayer; 14] = [
        Self::Pppoe,
        Self::Mpls,
        Self::Gre,
        Self::Erspan,
        Self::Ipip,
        Self::FourInSix,
        Self::SixInFour,
        Self::SixInSix,
        Self::Vxlan,
        Self::Geneve,
        Self::Gtp,
        Self::L2tp,
        Self::Pbb,
        Self::Nsh,
    ];

    /// Value of the `tunnel` column.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pppoe => "pppoe",
            Self::Mpls => "mpls",
            Self::Gre => "gre",
            Self::Erspan => "erspan",
            Self::Ipip => "ipip",
            Self::FourInSix => "4in6",
            Self::SixInFour => "6in4",
            Self::SixInSix => "6in6",
            Self::Vxlan => "vxlan",
            Self::Geneve => "geneve",
            Self::Gtp => "gtp",
            Self::L2tp => "l2tp",
            Self::Pbb => "pbb",
            Self::Nsh => "nsh",
        }
    }
}

/// The encapsulations of a packet, and fields of the innermost. [`fmt::Display`] lists them from the outermost to the
/// innermost: `gre/mpls`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tunnel {
    /// [`TunnelLayer`]s as numbers, the outermost in the lowest byte.
    layers: u64,
    /// Number of the innermost layer that has one: network id, GRE key, ERSPAN session, GTP TEID, last MPLS label,
    /// PPPoE or L2TP session, backbone service, service path.
    pub id: Option<u32>,
    /// Sender and receiver of the innermost IP header around the packet; `None` if only link layers are around it.
    pub ends: Option<(Addr, Addr)>,
}

impl Tunnel {
    /// Whether there is no encapsulation.
    #[inline]
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.layers == 0
    }

    /// Equal for packets in the same kinds of layers.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.layers
    }

    /// Layers from the outermost to the innermost.
    pub fn layers(&self) -> impl Iterator<Item = TunnelLayer> {
        let numbers = self
            .layers
            .to_le_bytes()
            .into_iter()
            .take_while(|n| *n != 0);
        numbers.map(|n| TunnelLayer::ALL[usize::from(n) - 1])
    }

    /// Number of the packet's virtual network, if the innermost layer is an overlay: equal addresses in networks of
    /// different numbers may belong to different machines.
    #[must_use]
    pub fn network(&self) -> Option<u32> {
        let is_overlay = matches!(
            self.layers().last(),
            Some(TunnelLayer::Vxlan | TunnelLayer::Geneve)
        );
        self.id.filter(|_| is_overlay)
    }

    /// Adds an inner layer.
    ///
    /// # Errors
    /// [`DecodeError::TooDeep`] if there are already [`LAYERS_MAX`].
    pub(crate) fn enter(&mut self, layer: TunnelLayer, id: Option<u32>) -> Result<(), DecodeError> {
        let depth = 8 - self.layers.leading_zeros() / 8;
        if depth as usize >= LAYERS_MAX {
            return Err(DecodeError::TooDeep);
        }
        self.layers |= u64::from(layer as u8) << (8 * depth);
        self.id = id.or(self.id);
        Ok(())
    }
}

impl fmt::Display for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, layer) in self.layers().enumerate() {
            write!(f, "{}{}", if i > 0 { "/" } else { "" }, layer.name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_up_to_the_bound() {
        let mut tunnel = Tunnel::default();
        assert!(tunnel.is_none());
        for layer in TunnelLayer::ALL
            .into_iter()
            .skip(TunnelLayer::ALL.len() - LAYERS_MAX)
        {
            tunnel
                .enter(layer, (layer == TunnelLayer::Gtp).then_some(7))
                .expect("within the bound");
        }
        assert_eq!(
            tunnel.to_string(),
            "6in4/6in6/vxlan/geneve/gtp/l2tp/pbb/nsh"
        );
        assert_eq!(
            (tunnel.id, tunnel.enter(TunnelLayer::Gre, None)),
            (Some(7), Err(DecodeError::TooDeep))
        );
    }

    #[test]
    fn numbers_are_places() {
        assert!(
            TunnelLayer::ALL
                .iter()
                .enumerate()
                .all(|(i, layer)| *layer as usize == i + 1)
        );
    }

    #[test]
    fn only_overlays_number_networks() {
        for (layers, network) in [
            (&[TunnelLayer::Gre][..], None),
            (&[TunnelLayer::Erspan, TunnelLayer::Vxlan], Some(2)),
            (&[TunnelLayer::Vxlan, TunnelLayer::Ipip], None),
        ] {
            let mut tunnel = Tunnel::default();
            layers
                .iter()
                .zip(1..)
                .for_each(|(layer, id)| tunnel.enter(*layer, Some(id)).expect("few"));
            assert_eq!(tunnel.network(), network, "{tunnel}");
        }
    }
}
