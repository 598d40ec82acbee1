//! Expected traffic as stated in the network file or by a flag: endpoints and rate. Only parses texts.

use std::net::IpAddr;

use plan::AddressMatch;

/// Traffic between two endpoints, both directions together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpectedTraffic {
    /// Client endpoint.
    pub clients: AddressMatch,
    /// Server endpoint.
    pub servers: AddressMatch,
    /// Rate in Mb/s.
    pub mbps: f64,
    /// New connections per second, if known.
    pub connections: Option<f64>,
}

impl ExpectedTraffic {
    /// Parses `10.0.1.2:80=20Mbps`: the expected traffic to a server.
    ///
    /// # Errors
    /// A description of the error.
    pub fn parse(text: &str) -> Result<ExpectedTraffic, String> {
        let (to, rate) = text
            .rsplit_once('=')
            .ok_or_else(|| format!("{text:?}: expected WHERE=RATE"))?;
        let servers = end(to).ok_or_else(|| {
            format!("{to:?} is not an end such as 10.0.1.2:80, 10.0.1.0/24 or *:80")
        })?;
        let mbps = mbps(rate).ok_or_else(|| format!("{rate:?} is not a rate such as 20Mbps"))?;
        Ok(ExpectedTraffic {
            clients: AddressMatch {
                net: None,
                port: None,
            },
            servers,
            mbps,
            connections: None,
        })
    }
}

/// Parses `20Mbps`, `1.5Gbps`, or `300kbps` to Mb/s.
#[must_use]
pub fn mbps(text: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 4] = [("kbps", 1e-3), ("Mbps", 1.0), ("Gbps", 1e3), ("bps", 1e-6)];
    let (number, unit) = UNITS
        .iter()
        .find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))?;
    let number: f64 = number.trim().parse().ok()?;
    (number.is_finite() && number > 0.0).then_some(number * unit)
}

/// Parses `10.0.1.2:80`, `10.0.0.0/8`, `[fd00::2]:80`, `*:80`, or `*`.
#[must_use]
pub fn end(text: &str) -> Option<AddressMatch> {
    let text = text.trim();
    let (address, port) = match (text.strip_prefix('['), text.matches(':').count()) {
        (Some(rest), _) => {
            let (address, rest) = rest.split_once(']')?;
            let port = if rest.is_empty() {
                None
            } else {
                Some(rest.strip_prefix(':')?)
            };
            (address, port)
        }
        (None, 1) => text
            .split_once(':')
            .map(|(address, port)| (address, Some(port)))?,
        (None, _) => (text, None),
    };
    let port = match port {
        None | Some("*") => None,
        Some(port) => Some(port.parse().ok()?),
    };
    if address == "*" {
        return Some(AddressMatch { net: None, port });
    }
    let (ip, length) = address
        .split_once('/')
        .map_or((address, None), |(ip, length)| (ip, Some(length)));
    let ip: IpAddr = ip.parse().ok()?;
    let most = if ip.is_ipv4() { 32 } else { 128 };
    let length = length
        .map_or(Some(most), |length| length.parse().ok())
        .filter(|length| *length <= most)?;
    Some(AddressMatch {
        net: Some((ip, length)),
        port,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_and_rates_are_read() {
        let of = |net: Option<(&str, u8)>, port| {
            Some(AddressMatch {
                net: net.map(|(ip, length)| (ip.parse().expect("an address"), length)),
                port,
            })
        };
        for (text, expected) in [
            ("10.0.1.2:80", of(Some(("10.0.1.2", 32)), Some(80))),
            ("10.0.1.0/24", of(Some(("10.0.1.0", 24)), None)),
            ("10.0.1.0/24:80", of(Some(("10.0.1.0", 24)), Some(80))),
            ("*:80", of(None, Some(80))),
            ("*", of(None, None)),
            ("[fd00::2]:80", of(Some(("fd00::2", 128)), Some(80))),
            ("fd00::/8", of(Some(("fd00::", 8)), None)),
            ("10.0.1.2:x", None),
            ("10.0.1.2/33", None),
            ("web", None),
            ("", None),
        ] {
            assert_eq!(end(text), expected, "{text}");
        }
        for (text, expected) in [
            ("20Mbps", Some(20.0)),
            ("1.5Gbps", Some(1500.0)),
            ("9bps", Some(9e-6)),
            ("-1Mbps", None),
        ] {
            assert_eq!(mbps(text), expected, "{text}");
        }
        let expected = ExpectedTraffic::parse("10.0.1.2:80=20Mbps").expect("traffic");
        assert_eq!((expected.servers.port, expected.mbps), (Some(80), 20.0));
        assert!(
            ExpectedTraffic::parse("10.0.1.2:80").is_err()
                && ExpectedTraffic::parse("x=1Mbps").is_err()
        );
    }
}
