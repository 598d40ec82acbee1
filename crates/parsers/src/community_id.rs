//! Community ID v1: the flow identifier that Zeek, Suricata and others print, so that tuples can be joined with theirs
//! (<https://github.com/corelight/community-id-spec>). Seed 0.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};
use wire::{Addr, Endpoint, IpProtocol};

use crate::FlowContext;

/// The flow's Community ID.
#[must_use]
pub fn community_id(flow: &FlowContext) -> String {
    let (mut first, mut second) = (flow.client, flow.server);
    // The specification orders by address, then port; a v4 address compares like its mapped form.
    if (second.addr, second.port) < (first.addr, first.port) {
        std::mem::swap(&mut first, &mut second);
    }
    let mut sha = Sha1::new();
    sha.update([0, 0]);
    update_addr(&mut sha, first.addr);
    update_addr(&mut sha, second.addr);
    sha.update([flow.protocol.0, 0]);
    if has_ports(flow.protocol) {
        update_port(&mut sha, first);
        update_port(&mut sha, second);
    }
    format!("1:{}", STANDARD.encode(sha.finalize()))
}

fn update_addr(sha: &mut Sha1, addr: Addr) {
    match addr.to_ip() {
        std::net::IpAddr::V4(a) => sha.update(a.octets()),
        std::net::IpAddr::V6(a) => sha.update(a.octets()),
    }
}

fn update_port(sha: &mut Sha1, end: Endpoint) {
    sha.update(end.port.to_be_bytes());
}

/// ICMP's pseudo ports (type and counterpart type) are not kept in a flow, so ICMP is hashed without, as the
/// specification does for protocols without ports.
fn has_ports(protocol: IpProtocol) -> bool {
    matches!(protocol, IpProtocol::TCP | IpProtocol::UDP | IpProtocol(132))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(protocol: IpProtocol, client: (&str, u16), server: (&str, u16), expected: &str) {
        let end = |(addr, port): (&str, u16)| Endpoint {
            addr: addr.parse::<std::net::IpAddr>().expect("an address").into(),
            port,
        };
        let flow = FlowContext {
            id: 0,
            client: end(client),
            server: end(server),
            protocol,
            client_guessed: false,
            midstream: false,
            sample_rate: 1.0,
            tunnel: wire::Tunnel::default(),
            vlan: None,
        };
        assert_eq!(community_id(&flow), expected);
        let turned = FlowContext { client: flow.server, server: flow.client, ..flow };
        assert_eq!(community_id(&turned), expected);
    }

    /// The values of the specification's own baseline files.
    #[test]
    fn baseline() {
        check(
            IpProtocol::TCP,
            ("128.232.110.120", 34855),
            ("66.35.250.204", 80),
            "1:LQU9qZlK+B5F3KDmev6m5PMibrg=",
        );
        check(IpProtocol::UDP, ("192.168.1.52", 54585), ("8.8.8.8", 53), "1:d/FP5EW3wiY1vCndhwleRRKHowQ=");
    }
}
