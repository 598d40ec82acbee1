//! What `ofproto/trace` says of a packet: by which ports it leaves.

use mirror::openflow::action::LOCAL;

use crate::backend::Out;

/// OpenFlow's numbers of ports by those of the datapath, of what `dpif/show` prints: `v1 1/2: (system)`.
pub fn ports(shown: &str) -> Vec<(u32, u32)> {
    let port = |line: &str| {
        let (_, numbers) = line.trim().rsplit_once(": (").and_then(|(head, _)| head.rsplit_once(' '))?;
        let (openflow, datapath) = numbers.split_once('/')?;
        let openflow = openflow.parse().ok()?;
        Some((datapath.parse().ok()?, if openflow == 65534 { LOCAL } else { openflow }))
    };
    shown.lines().filter_map(port).collect()
}

/// The outputs, sorted; `None`: it does something whose end is not known, such as another round through the tables.
pub fn outputs(traced: &str, ports: &[(u32, u32)]) -> Option<Vec<Out>> {
    let line = traced.lines().find_map(|line| line.strip_prefix("Datapath actions: "))?;
    let number =
        |datapath: u32| ports.iter().find(|(known, _)| *known == datapath).map(|(_, openflow)| *openflow);
    let (mut found, mut max_len) = (Vec::new(), None);
    for action in split(line.trim()) {
        let within = |start: &str| {
            let rest = &action[action.find(start)? + start.len()..];
            rest[..rest.find(')')?].parse::<u32>().ok()
        };
        let name = action.split('(').next().unwrap_or_default();
        match name {
            "drop" | "push_vlan" | "pop_vlan" | "set" | "userspace" => {}
            "trunc" => max_len = Some(within("trunc(")?),
            // Open vSwitch wraps the packet itself.
            "tnl_push" | "clone" => found.push((number(within("tnl_port(")?)?, max_len.take())),
            number_of_port => found.push((number(number_of_port.parse().ok()?)?, max_len.take())),
        }
    }
    found.sort_unstable();
    Some(found)
}

/// What stands between commas outside of parentheses.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0i64;
    let is_border = |c: char| {
        depth += i64::from(c == '(') - i64::from(c == ')');
        depth <= 0 && c == ','
    };
    text.split(is_border).filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOWN: &str = "netdev@ovs-netdev: hit:0 missed:0\n  br0:\n    br0 65534/1: (tap)\n    v1 1/2: (system)\n    \
                         vx0 10/6: (vxlan: key=42, remote_ip=10.8.0.2)\n    v9 9/5: (system)\n";

    #[test]
    fn ports_are_read() {
        assert_eq!(ports(SHOWN), [(1, LOCAL), (2, 1), (6, 10), (5, 9)]);
    }

    #[test]
    fn outputs_are_read() {
        for (actions, expected) in [
            ("drop", Some(vec![])),
            ("trunc(96),5,1,2", Some(vec![(1, None), (9, Some(96)), (LOCAL, None)])),
            ("push_vlan(vid=5,pcp=0),2,pop_vlan,set(ipv4(dst=10.0.0.1)),5", Some(vec![(1, None), (9, None)])),
            (
                "trunc(64),clone(tnl_push(tnl_port(6),header(size=50,type=4),out_port(7)),8),5",
                Some(vec![(9, None), (10, Some(64))]),
            ),
            ("ct(commit),recirc(0x1)", None),
            ("77", None),
        ] {
            let traced =
                format!("Flow: tcp\n\nFinal flow: unchanged\nMegaflow: eth\nDatapath actions: {actions}\n");
            assert_eq!(outputs(&traced, &ports(SHOWN)), expected, "{actions}");
        }
        assert_eq!(outputs("", &[]), None);
    }
}
