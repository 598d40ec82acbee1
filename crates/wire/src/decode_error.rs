//! The common error type of all views: why a packet could not be decoded.

/// Reason why a packet could not be decoded; each is a counter in the summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DecodeError {
    /// A fragment of an IP datagram; see [`crate::IpFragment`].
    Fragment,
    /// Contradictory length fields, or a packet that ends on the wire before its headers do.
    Malformed,
    /// Not IP: ARP, LLDP, …
    NotIp,
    /// More encapsulations than [`crate::tunnel::LAYERS_MAX`].
    TooDeep,
    /// The capture ends inside a header.
    Truncated,
    /// A link type that is not decoded.
    UnknownLinkType,
    /// A tunnel that is not decoded: PPTP, GRE with source routes, unknown versions.
    UnknownTunnel,
}

impl DecodeError {
    /// All of them, in the order of their counters.
    pub const ALL: [DecodeError; 7] = [
        Self::Fragment,
        Self::Malformed,
        Self::NotIp,
        Self::TooDeep,
        Self::Truncated,
        Self::UnknownLinkType,
        Self::UnknownTunnel,
    ];

    /// The counter's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fragment => "fragment",
            Self::Malformed => "malformed",
            Self::NotIp => "not_ip",
            Self::TooDeep => "too_deep",
            Self::Truncated => "truncated",
            Self::UnknownLinkType => "unknown_link_type",
            Self::UnknownTunnel => "unknown_tunnel",
        }
    }
}
