//! To a monitor behind another network, through VXLAN and GRE.

use mirror::{Mode, Part};
use steer::{Wish, install, remove};
use testkit::programs::wait_for;

use crate::bed::{Bed, ip, namespace, run};
use crate::packets::{SERVER, SERVES, ask, copy, cut, serve};

/// The monitor's network, and what stands before each copy: outer Ethernet, IPv4, and UDP with VXLAN, or GRE.
const KINDS: [(&str, &str, usize); 2] =
    [("vxlan", "udp dst port 4789", 14 + 20 + 8 + 8), ("gre", "ip proto 47", 14 + 20 + 4)];
const TUNNEL: u32 = 10;
/// The host of the monitor; it is at no port of the bridge.
const FAR: u32 = 77;

#[test]
fn copies_go_through_tunnels() {
    let Some(bed) = Bed::new(&["priority=0,actions=NORMAL"]) else { return };
    let _server = serve(&bed);
    underlay(&bed);
    for (kind, filter, outer) in KINDS {
        let options = if kind == "vxlan" { "options:key=42" } else { "" };
        bed.vsctl(&format!(
            "add-port br0 t0 -- set interface t0 type={kind} options:remote_ip=10.8.0.2 {options} ofport_request={TUNNEL}"
        ));
        reach(&bed);
        let mut switch = bed.switch();
        let mode = Mode { part: Part::First(200), ..Mode::FLOW };
        let wish = Wish {
            monitors: vec![(TUNNEL, "far".to_owned())],
            ..crate::packets::wish(vec![copy(mode, Some(80), TUNNEL)], 60)
        };
        let installed = install(&mut switch, &wish).unwrap_or_else(|e| panic!("{kind}: {e}"));
        assert!(installed.proved.classes > 0);
        let (server, monitor) = (bed.capture(SERVES, ""), bed.capture(FAR, filter));
        ask(&bed, &format!("mark {kind}"), &server);
        let expected = cut(bed.capture_file(&server, "tcp port 80"), mode);
        let inner = |frame: Vec<u8>| frame[outer..].to_vec();
        let found: Vec<Vec<u8>> = monitor.wait(expected.len()).into_iter().map(inner).collect();
        assert!(cut(found, Mode::FLOW) == expected, "{kind}: other bytes");
        assert!(remove(&mut switch, SERVER).expect("it does") > 0);
        bed.vsctl("del-port br0 t0");
        server.end();
        monitor.end();
    }
}

/// A bridge with the switch's own address, and a host behind it.
fn underlay(bed: &Bed) {
    let (switch, far) = (bed.ns("s"), bed.ns(&FAR.to_string()));
    namespace(&far).expect("it does");
    for words in [
        format!("-n {switch} link add u0 mtu 2000 type veth peer name e0 netns {far}"),
        format!("-n {switch} link set u0 up"),
        format!("-n {far} link set e0 mtu 2000 up"),
        format!("-n {far} addr add 10.8.0.2/24 dev e0"),
    ] {
        ip(&words).expect("it does");
    }
    run(bed.within(FAR, "ethtool").args(["-K", "e0", "tx", "off"])).expect("it does");
    bed.vsctl("add-br br-phy -- set bridge br-phy datapath_type=netdev -- add-port br-phy u0");
    ip(&format!("-n {switch} addr add 10.8.0.1/24 dev br-phy")).expect("it does");
    ip(&format!("-n {switch} link set br-phy up")).expect("it does");
}

/// What goes into a tunnel before its end is known is lost. The switch learns it from answers that it sees.
fn reach(bed: &Bed) {
    let switch = bed.ns("s");
    wait_for("the tunnel's end", || {
        ip(&format!("-n {switch} neigh flush dev br-phy"))?;
        let mut ping = std::process::Command::new("ip");
        run(ping.args(["netns", "exec", &switch, "ping", "-c1", "-W1", "10.8.0.2"]))?;
        let mut show = std::process::Command::new("ovs-appctl");
        let known = run(show.args(["tnl/neigh/show"]).env("OVS_RUNDIR", &bed.folder))?;
        known.contains("10.8.0.2").then_some(()).ok_or(known)
    });
}
