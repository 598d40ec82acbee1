//! Output ports of a packet in the output of `ofproto/trace`.

use mirror::openflow::action::LOCAL;

use crate::backend::Out;

/// A port of the datapath. All tunnels of a kind are one port there, distinguished by key and remote address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatapathPort {
    datapath: u32,
    openflow: u32,
    /// Key and remote address as in `dpif/show`.
    tunnel: Option<(u32, String)>,
}

/// Ports in the output of `dpif/show`: `v1 1/2: (system)`.
pub fn ports(shown: &str) -> Vec<DatapathPort> {
    let port = |line: &str| {
        let (head, kind) = line
            .trim()
            .rsplit_once(": (")
            .or_else(|| line.trim().split_once(": ("))?;
        let (openflow, datapath) = head.rsplit_once(' ')?.1.split_once('/')?;
        let openflow = openflow.parse().ok()?;
        let option = |name: &str| {
            let rest = &kind[kind.find(name)? + name.len()..];
            Some(rest.split([',', ')']).next()?.trim().to_owned())
        };
        let tunnel =
            option("key=").and_then(|key| Some((key.parse().ok()?, option("remote_ip=")?)));
        let openflow = if openflow == 65534 { LOCAL } else { openflow };
        Some(DatapathPort {
            datapath: datapath.parse().ok()?,
            openflow,
            tunnel,
        })
    };
    shown.lines().filter_map(port).collect()
}

/// OpenFlow number of the datapath port used by an action; `None`: unknown.
fn number(ports: &[DatapathPort], datapath: u32, action: &str) -> Option<u32> {
    let mut all = ports.iter().filter(|port| port.datapath == datapath);
    let fits = |port: &&DatapathPort| {
        port.tunnel.as_ref().is_none_or(|(key, remote)| {
            let has_key = ["vni", "key"]
                .iter()
                .any(|name| action.contains(&format!("{name}={key:#x})")));
            has_key && action.contains(&format!("dst={remote},proto"))
        })
    };
    match (all.clone().count(), all.next()) {
        (1, Some(only)) => Some(only.openflow),
        _ => ports
            .iter()
            .filter(|port| port.datapath == datapath)
            .find(fits)
            .map(|port| port.openflow),
    }
}

/// Outputs, sorted; `None`: an action with unknown result, such as another pass through the tables.
pub fn outputs(traced: &str, ports: &[DatapathPort]) -> Option<Vec<Out>> {
    let line = traced
        .lines()
        .find_map(|line| line.strip_prefix("Datapath actions: "))?;
    let mut found = Vec::new();
    let mut max_len = None;
    for action in split(line.trim()) {
        let within = |start: &str| {
            let rest = &action[action.find(start)? + start.len()..];
            rest[..rest.find(')')?].parse::<u32>().ok()
        };
        let name = action.split('(').next().unwrap_or_default();
        match name {
            "drop" | "push_vlan" | "pop_vlan" | "set" | "userspace" => {}
            "trunc" => max_len = Some(within("trunc(")?),
            // Open vSwitch encapsulates the packet itself.
            "tnl_push" | "clone" => {
                found.push((number(ports, within("tnl_port(")?, action)?, max_len.take()))
            }
            number_of_port => found.push((
                number(ports, number_of_port.parse().ok()?, action)?,
                max_len.take(),
            )),
        }
    }
    found.sort_unstable();
    Some(found)
}

/// Splits at commas outside of parentheses.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0i64;
    let is_border = |c: char| {
        depth += i64::from(c == '(') - i64::from(c == ')');
        depth <= 0 && c == ','
    };
    text.split(is_border)
        .filter(|part| !part.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOWN: &str = "netdev@ovs-netdev: hit:0 missed:0\n  br0:\n    br0 65534/1: (tap)\n    v1 1/2: (system)\n    \
                         vx0 10/6: (vxlan: key=42, remote_ip=10.8.0.2)\n    v9 9/5: (system)\n";

    #[test]
    fn ports_are_read() {
        let found: Vec<(u32, u32)> = ports(SHOWN)
            .iter()
            .map(|port| (port.datapath, port.openflow))
            .collect();
        assert_eq!(found, [(1, LOCAL), (2, 1), (6, 10), (5, 9)]);
    }

    /// Formats of Open vSwitch 3.1.
    #[test]
    fn tunnels_of_one_kind_are_distinguished() {
        let shown = "    a 4/6: (vxlan: key=413696, remote_ip=10.8.0.2)\n    b 5/6: (vxlan: key=417792, remote_ip=10.8.0.2)\n    \
                     c 7/8: (gre: key=1, remote_ip=10.8.0.2)\n    d 3/8: (gre: key=2, remote_ip=10.8.0.2)\n";
        let push = |port: u32, end: &str| {
            format!(
                "clone(tnl_push(tnl_port({port}),header(size=50,type=4,eth(dst=02:00),ipv4(src=10.8.0.1,dst=10.8.0.2,proto=17,tos=0),{end}),out_port(1)),2)"
            )
        };
        let vxlan = |vni: &str| {
            push(
                6,
                &format!("udp(src=0,dst=4789,csum=0x0),vxlan(flags=0x8000000,vni={vni})"),
            )
        };
        let gre = |key: &str| push(8, &format!("gre((flags=0x2000,proto=0x6558),key={key})"));
        for (action, expected) in [
            (vxlan("0x65000"), Some(4)),
            (vxlan("0x66000"), Some(5)),
            (vxlan("0x1"), None),
            (gre("0x1"), Some(7)),
            (gre("0x2"), Some(3)),
        ] {
            let traced = format!("Datapath actions: {action}\n");
            assert_eq!(
                outputs(&traced, &ports(shown)),
                expected.map(|port| vec![(port, None)]),
                "{action}"
            );
        }
    }

    #[test]
    fn outputs_are_read() {
        for (actions, expected) in [
            ("drop", Some(vec![])),
            (
                "trunc(96),5,1,2",
                Some(vec![(1, None), (9, Some(96)), (LOCAL, None)]),
            ),
            (
                "push_vlan(vid=5,pcp=0),2,pop_vlan,set(ipv4(dst=10.0.0.1)),5",
                Some(vec![(1, None), (9, None)]),
            ),
            (
                "trunc(64),clone(tnl_push(tnl_port(6),header(size=50,type=4),out_port(7)),8),5",
                Some(vec![(9, None), (10, Some(64))]),
            ),
            ("ct(commit),recirc(0x1)", None),
            ("77", None),
        ] {
            let traced = format!(
                "Flow: tcp\n\nFinal flow: unchanged\nMegaflow: eth\nDatapath actions: {actions}\n"
            );
            assert_eq!(outputs(&traced, &ports(SHOWN)), expected, "{actions}");
        }
        assert_eq!(outputs("", &[]), None);
    }
}
