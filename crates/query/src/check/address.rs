//! FROM and TO: addresses, networks, and host names, with or without a port.

use std::net::IpAddr;

use plan::AddressMatch;

use crate::ast::Atom;
use crate::error::quoted;
use crate::literal;
use crate::nearest::{did_you_mean, one_of};
use crate::{Diagnostic, HostResolver};

/// Syntax of addresses.
const FORMS: &str =
    "ip:port, subnet:port, host:port, [v6]:port, *:port, or one of them without a port, or *";

/// The endpoints of a list; empty if it matches every endpoint.
pub(super) fn list(
    atoms: &[Atom],
    hosts: &dyn HostResolver,
    errors: &mut Vec<Diagnostic>,
) -> Vec<AddressMatch> {
    let mut addresses: Vec<AddressMatch> = Vec::new();
    let mut any = false;
    for atom in atoms {
        match ends(&atom.text, hosts) {
            Ok((nets, port)) => {
                any |= nets.is_empty() && port.is_none();
                let nets = if nets.is_empty() {
                    vec![None]
                } else {
                    nets.into_iter().map(Some).collect()
                };
                let new = nets.into_iter().map(|net| AddressMatch { net, port });
                addresses.extend(new);
            }
            Err((message, hint)) => {
                let error = Diagnostic::new(atom.span, message);
                errors.push(if hint.is_some() {
                    error.maybe_hint(hint)
                } else {
                    error.expected(FORMS)
                });
            }
        }
    }
    let mut seen = std::collections::HashSet::new();
    addresses.retain(|a| seen.insert((a.net, a.port)));
    if any { Vec::new() } else { addresses }
}

/// A message and a hint.
type AddressError = (String, Option<String>);
/// A network and its prefix length.
type NetworkPrefix = (IpAddr, u8);

/// Networks (if empty, every address) and port (`None` for every port).
fn ends(
    text: &str,
    hosts: &dyn HostResolver,
) -> Result<(Vec<NetworkPrefix>, Option<u16>), AddressError> {
    let (host, port) = split_port(text)?;
    let port = match port {
        None | Some("*") => None,
        Some(port) => Some(port_number(text, host, port)?),
    };
    Ok((nets(host, hosts)?, port))
}

/// Splits off the port without its colon. A bare IPv6 address has none.
fn split_port(text: &str) -> Result<(&str, Option<&str>), AddressError> {
    if let Some(bracketed) = text.strip_prefix('[') {
        let Some((host, rest)) = bracketed.split_once(']') else {
            return Err((
                format!("{} has no closing `]`", quoted(text)),
                Some(format!("write {}", example_v6(bracketed))),
            ));
        };
        return match rest.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if rest.is_empty() => Ok((host, None)),
            None => Err((
                format!("{} is not an address", quoted(text)),
                Some("write [2001:db8::/32]:80".to_owned()),
            )),
        };
    }
    let (address, prefix) = match text.split_once('/') {
        // After a prefix length, a colon can only start the port.
        Some((_, rest)) => match rest.split_once(':') {
            Some((_, port)) => return Ok((&text[..text.len() - port.len() - 1], Some(port))),
            None => (text, true),
        },
        None => (text, false),
    };
    match address.matches(':').count() {
        0 => Ok((address, None)),
        1 if !prefix => Ok(address
            .split_once(':')
            .map_or((address, None), |(host, port)| (host, Some(port)))),
        _ => Ok((address, None)),
    }
}

fn example_v6(text: &str) -> String {
    let host: String = text
        .chars()
        .filter(|c| c.is_ascii_hexdigit() || *c == ':')
        .collect();
    quoted(&format!("[{host}]:80"))
}

fn port_number(text: &str, host: &str, port: &str) -> Result<u16, AddressError> {
    let digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    match port.parse() {
        Ok(number @ 1..) if digits => Ok(number),
        _ if port.contains('-') => Err((
            format!("{} is not a port", quoted(port)),
            Some("list each port: h1:80, h1:81".to_owned()),
        )),
        _ if port.is_empty() => Err((
            format!("{} has no port after `:`", quoted(text)),
            Some(format!(
                "write {} or {}",
                quoted(host),
                quoted(&format!("{host}:80"))
            )),
        )),
        _ => Err((
            format!("{} is not a port", quoted(port)),
            Some("a port is a number from 1 to 65535, or *".to_owned()),
        )),
    }
}

/// The networks of a host part; if empty, every address.
fn nets(host: &str, hosts: &dyn HostResolver) -> Result<Vec<NetworkPrefix>, AddressError> {
    if host == "*" {
        return Ok(Vec::new());
    }
    if let Some(net) = literal::net(host) {
        return Ok(vec![net]);
    }
    let digits_and_dots = host.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let hint = match host {
        "" => Some("write * for any address".to_owned()),
        port if digits_and_dots && !port.contains('.') => {
            Some(format!("write *:{port} for a port of any host"))
        }
        _ if host.contains('%') => Some("omit the zone: fe80::1".to_owned()),
        v6 if v6.matches(':').count() > 1 => {
            Some("write an IPv6 address with a port as [2001:db8::1]:80".to_owned())
        }
        _ => None,
    };
    let address_like =
        host.is_empty() || digits_and_dots || host.contains(['/', ':', '%', '*', '[', ']']);
    if address_like {
        return Err((format!("{} is not an address", quoted(host)), hint));
    }
    named(host, hosts)
}

/// The addresses of a host.
pub(super) fn named(
    host: &str,
    hosts: &dyn HostResolver,
) -> Result<Vec<NetworkPrefix>, AddressError> {
    let addresses = hosts.addresses(host);
    if addresses.is_empty() {
        let known = || match one_of(hosts.names()).as_str() {
            "" => "no host names are known; write an address".to_owned(),
            names => format!("known hosts: {names}"),
        };
        let hint = did_you_mean(host, hosts.names()).unwrap_or_else(known);
        return Err((format!("unknown host {}", quoted(host)), Some(hint)));
    }
    let full = |ip: &IpAddr| if ip.is_ipv4() { 32 } else { 128 };
    Ok(addresses
        .iter()
        .map(|ip| ip.to_canonical())
        .map(|ip| (ip, full(&ip)))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_schemas::hosts;
    use crate::{HostTable, TextSpan};

    fn atom(text: &str) -> Atom {
        Atom {
            text: text.into(),
            span: TextSpan::new(0, text.len()),
            quoted: false,
        }
    }

    fn check(text: &str, expected: &[&str]) {
        let mut errors = Vec::new();
        let addresses = list(&[atom(text)], &hosts(), &mut errors);
        assert!(errors.is_empty(), "{text}: {errors:?}");
        let shown = addresses.iter().map(|a| {
            let net = a
                .net
                .map_or("*".to_owned(), |(ip, bits)| format!("{ip}/{bits}"));
            format!("{net} {}", a.port.map_or("*".to_owned(), |p| p.to_string()))
        });
        assert_eq!(shown.collect::<Vec<_>>(), expected, "{text}");
    }

    fn check_error(text: &str, expected: &str) {
        let mut errors = Vec::new();
        list(&[atom(text)], &hosts(), &mut errors);
        let shown: Vec<_> = errors
            .iter()
            .map(|e| format!("{}: {}", e.message, e.label()))
            .collect();
        assert!(
            shown.len() == 1 && shown[0].contains(expected),
            "{text}: {shown:?}"
        );
    }

    #[test]
    fn forms() {
        check("*", &[]);
        check("*:*", &[]);
        check("*:80", &["* 80"]);
        check("10.0.2.8:5555", &["10.0.2.8/32 5555"]);
        check("10.0.2.8", &["10.0.2.8/32 *"]);
        check("10.0.2.8:*", &["10.0.2.8/32 *"]);
        check("10.0.0.0/8", &["10.0.0.0/8 *"]);
        check("10.0.2.9/24:80", &["10.0.2.0/24 80"]);
        check("h1:80", &["10.0.0.1/32 80"]);
        check("H2", &["10.0.0.2/32 *", "2001:db8::2/128 *"]);
        check("web-1.example.com:443", &["10.0.0.9/32 443"]);
        check("[2001:db8::1]:80", &["2001:db8::1/128 80"]);
        check("[2001:db8::1]", &["2001:db8::1/128 *"]);
        check("2001:db8::1", &["2001:db8::1/128 *"]);
        check("::", &["::/128 *"]);
        check("2001:db8::/32", &["2001:db8::/32 *"]);
        check("2001:db8::/32:80", &["2001:db8::/32 80"]);
        check("[2001:db8::/32]:80", &["2001:db8::/32 80"]);
        check("[::ffff:10.0.0.1]:80", &["10.0.0.1/32 80"]);
    }

    #[test]
    fn errors() {
        check_error(
            "h3:80",
            "unknown host `h3`: known hosts: h1, h2 or web-1.example.com",
        );
        check_error("web1.example.com", "did you mean `web-1.example.com`?");
        check_error("10.0.0.256:80", "`10.0.0.256` is not an address");
        check_error("10.0.0.1:http", "a port is a number");
        check_error("10.0.0.1:0", "a port is a number");
        check_error("10.0.0.1:+80", "a port is a number");
        check_error("10.0.0.1:65536", "a port is a number");
        check_error("10.0.0.1:80-90", "list each port");
        check_error("10.0.0.1:", "has no port after");
        check_error("80", "*:80");
        check_error(":80", "write * for any address");
        check_error("10.0.0.0/33", "is not an address");
        check_error("h1/24:80", "is not an address");
        check_error("2001:db8:::1", "[2001:db8::1]:80");
        check_error("fe80::1%eth0", "omit the zone");
        check_error("[::1", "closing `]`");
        check_error("[::1]80", "is not an address");
        check_error("[h1:80", "closing");
    }

    #[test]
    fn star_matches_everything_and_duplicates_are_removed() {
        let mut errors = Vec::new();
        assert!(list(&[atom("h1:80"), atom("*")], &hosts(), &mut errors).is_empty());
        assert_eq!(
            list(&[atom("h1:80"), atom("10.0.0.1:80")], &hosts(), &mut errors).len(),
            1
        );
        assert!(list(&[], &HostTable::new(), &mut errors).is_empty() && errors.is_empty());
    }
}
