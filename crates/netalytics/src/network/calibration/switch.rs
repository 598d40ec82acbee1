//! Cost of copying and of exporting a packet in a switch: packets are sent through an Open vSwitch with a userspace
//! datapath, with and without each kind of copy or export, and its CPU time is compared. The minimum of several rounds
//! counts, since other load only increases it.

use std::collections::BTreeMap;
use std::thread;
use std::time::Instant;

use anyhow::{Context, bail};

use super::namespace_lab::{
    FOLDER, LOOK, LabProcess, NamespaceLab, PATIENCE, processor_ns, processor_ns_between,
};
use super::sender::{TestTraffic, send};

/// Database schema of Open vSwitch.
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
/// Packets per round.
const PACKETS: u32 = 20_000;
/// Payload bytes, so that packets have the assumed average size.
const PAYLOAD: u32 = 558;
/// Packets sent before the measurement, for learning.
const AHEAD: u32 = 200;
/// Destination address of packets sent through the switch.
const BEYOND: &str = "10.98.0.2";

/// Destination of exported samples and records, on a cable of its own.
const COLLECTOR: &str = "10.96.0.2";

/// Share of the cost of forwarding below which a difference cannot be distinguished from noise.
const UNSURE: f64 = 0.03;

/// Nanoseconds per packet; `None`: below `unsure`, and not measurable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SwitchCopyCost {
    /// Full copy to a port.
    pub copy: Option<f64>,
    /// Port mirror.
    pub mirror: Option<f64>,
    /// Copy into a tunnel.
    pub tunnel: Option<f64>,
    /// Copy truncated to the first bytes.
    pub cut: Option<f64>,
    /// sFlow sample.
    pub sflow: Option<f64>,
    /// IPFIX records of a packet without a cache: one at its entry, one at its exit.
    pub ipfix: Option<f64>,
    /// Smallest measurable cost.
    pub unsure: f64,
}

/// Port numbers on the switch.
const FORWARDED_TO: u16 = 2;
const COPIED_TO: u16 = 3;

/// Modes of the switch: name, actions, configuration of the bridge, and the port that each packet is copied to.
const WAYS: [(&str, &str, &str, Option<u16>); 7] = [
    ("forwards", "output:2", "", None),
    ("copy", "output:3,output:2", "", Some(COPIED_TO)),
    (
        "cut",
        "output(port=3,max_len=128),output:2",
        "",
        Some(COPIED_TO),
    ),
    // The encapsulated copy leaves by the port for copies, whose counters are current.
    ("tunnel", "output:4,output:2", "", Some(COPIED_TO)),
    ("mirror", "output:2", MIRROR, Some(COPIED_TO)),
    ("sflow", "output:2", SFLOW, None),
    ("ipfix", "output:2", IPFIX, None),
];
const MIRROR: &str = "--id=@in get port a1 -- --id=@out get port m1 -- --id=@m create mirror name=m select-src-port=@in output-port=@out -- set bridge br0 mirrors=@m";
/// Each packet is sampled; headers have the usual length.
const SFLOW: &str = "--id=@s create sflow agent=c0 targets=\"10.96.0.2:6343\" header=128 sampling=1 polling=30 -- set bridge br0 sflow=@s";
const IPFIX: &str = "--id=@i create ipfix targets=\"10.96.0.2:4739\" sampling=1 cache_active_timeout=0 cache_max_flows=0 -- set bridge br0 ipfix=@i";

/// Builds the switch and measures.
pub fn measure(lab: &NamespaceLab, rounds: u8) -> anyhow::Result<SwitchCopyCost> {
    let switch = LabSwitch::build(lab)?;
    let mut least: BTreeMap<&str, f64> = BTreeMap::new();
    for _ in 0..rounds {
        for (name, actions, configuration, copies) in WAYS {
            let ns = switch
                .way(actions, configuration, copies)
                .with_context(|| format!("mode {name}"))?;
            let known = least.entry(name).or_insert(ns);
            *known = known.min(ns);
        }
    }
    let unsure = UNSURE * least["forwards"];
    let more = |name: &str| Some(least[name] - least["forwards"]).filter(|more| *more > unsure);
    let [copy, mirror, tunnel, cut] = ["copy", "mirror", "tunnel", "cut"].map(more);
    let [sflow, ipfix] = ["sflow", "ipfix"].map(more);
    Ok(SwitchCopyCost {
        copy,
        mirror,
        tunnel,
        cut,
        sflow,
        ipfix,
        unsure,
    })
}

struct LabSwitch<'l> {
    lab: &'l NamespaceLab,
    daemon: LabProcess,
    _database: LabProcess,
}

impl LabSwitch<'_> {
    fn build(lab: &NamespaceLab) -> anyhow::Result<LabSwitch<'_>> {
        for (here, port) in [("a0", "a1"), ("b0", "b1"), ("m0", "m1"), ("c0", "c1")] {
            lab.run(&[
                "ip", "link", "add", here, "type", "veth", "peer", "name", port,
            ])?;
            lab.run(&["ip", "link", "set", here, "up", "arp", "off"])?;
            lab.run(&["ip", "link", "set", port, "up", "arp", "off"])?;
        }
        let database = format!("{FOLDER}/conf.db");
        let socket = format!("{FOLDER}/db.sock");
        lab.run(&["ovsdb-tool", "create", &database, SCHEMA])?;
        let remote = format!("--remote=punix:{socket}");
        let control = |name: &str| format!("--unixctl={FOLDER}/{name}.ctl");
        let files = [control("database"), control("switch")];
        let serves = lab.start(&[
            "ovsdb-server",
            &database,
            &remote,
            &files[0],
            "-vconsole:off",
        ])?;
        let begun = Instant::now();
        while let Err(why) = vsctl(lab, "--no-wait init") {
            if begun.elapsed() > PATIENCE {
                return Err(why);
            }
            thread::sleep(LOOK);
        }
        let daemon = lab.start(&[
            "ovs-vswitchd",
            &format!("unix:{socket}"),
            &files[1],
            "-vconsole:off",
        ])?;
        vsctl(
            lab,
            "add-br br0 -- set bridge br0 datapath_type=netdev fail_mode=secure",
        )?;
        for (port, number) in [("a1", 1), ("b1", 2), ("m1", 3)] {
            vsctl(
                lab,
                &format!("add-port br0 {port} -- set interface {port} ofport_request={number}"),
            )?;
        }
        vsctl(
            lab,
            "add-port br0 t -- set interface t ofport_request=4 type=vxlan options:remote_ip=10.99.0.2",
        )?;
        // The tunnel leaves by the bridge's own port; its remote end need not exist.
        lab.run(&["ip", "addr", "add", "10.99.0.1/24", "dev", "br0"])?;
        lab.run(&["ip", "link", "set", "br0", "up"])?;
        let switch = LabSwitch {
            lab,
            daemon,
            _database: serves,
        };
        switch.appctl(&["tnl/neigh/set", "br0", "10.99.0.2", "02:00:00:00:00:09"])?;
        reachable(lab, "a0", "10.98.0.1/24", BEYOND)?;
        reachable(lab, "c0", "10.96.0.1/24", COLLECTOR)?;
        Ok(switch)
    }

    fn appctl(&self, words: &[&str]) -> anyhow::Result<String> {
        let target = format!("{FOLDER}/switch.ctl");
        self.lab
            .run(&[&["ovs-appctl", "-t", &target], words].concat())
    }

    fn ofctl(&self, words: &[&str]) -> anyhow::Result<String> {
        let bridge = format!("unix:{FOLDER}/br0.mgmt");
        let (verb, more) = words.split_first().context("a verb")?;
        self.lab
            .run(&[&["ovs-ofctl", "-O", "OpenFlow13", verb, &bridge], more].concat())
    }

    /// CPU time of the switch per packet in one mode, in nanoseconds.
    fn way(&self, actions: &str, configuration: &str, copies: Option<u16>) -> anyhow::Result<f64> {
        self.ofctl(&["del-flows"])?;
        self.ofctl(&["add-flow", "in_port=LOCAL,actions=output:3"])?;
        self.ofctl(&["add-flow", &format!("in_port=1,actions={actions}")])?;
        for column in ["mirrors", "sflow", "ipfix"] {
            vsctl(self.lab, &format!("clear bridge br0 {column}"))?;
        }
        if !configuration.is_empty() {
            vsctl(self.lab, &format!("-- {configuration}"))?;
        }
        // A new mirror does not change cached flows of the datapath.
        self.appctl(&["revalidator/purge"])?;
        send(
            self.lab,
            TestTraffic {
                packets: AHEAD,
                payload: PAYLOAD,
                to: BEYOND,
            },
        )?;
        let packets = self.settled(FORWARDED_TO)?;
        let copied = copies.map(|port| self.settled(port)).transpose()?;
        let taken = processor_ns(self.daemon.pid)?;
        send(
            self.lab,
            TestTraffic {
                packets: PACKETS,
                payload: PAYLOAD,
                to: BEYOND,
            },
        )?;
        let more = self.settled(FORWARDED_TO)? - packets;
        let after = processor_ns(self.daemon.pid)?;
        if more < u64::from(PACKETS / 100) {
            bail!("{more} of {PACKETS} packets passed the switch");
        }
        if let (Some(port), Some(before)) = (copies, copied) {
            let copied = self.settled(port)? - before;
            if copied < more / 2 {
                bail!("{copied} of {more} packets were copied");
            }
        }
        Ok(processor_ns_between(taken, after)? as f64 / more as f64)
    }

    /// Packets sent to a port, once the count is stable.
    fn settled(&self, port: u16) -> anyhow::Result<u64> {
        let begun = Instant::now();
        let mut before = None;
        while begun.elapsed() < PATIENCE {
            let shown = self.ofctl(&["dump-ports", &port.to_string()])?;
            let count = shown
                .split("tx pkts=")
                .nth(1)
                .and_then(|rest| rest.split(',').next()?.parse().ok());
            let count: u64 = count.context("unexpected counters from ovs-ofctl")?;
            if before == Some(count) {
                return Ok(count);
            }
            before = Some(count);
            thread::sleep(LOOK);
        }
        bail!("the switch does not become idle")
    }
}

fn vsctl(lab: &NamespaceLab, words: &str) -> anyhow::Result<String> {
    let database = format!("--db=unix:{FOLDER}/db.sock");
    let mut all = vec!["ovs-vsctl", &database, "--timeout=10"];
    all.extend(words.split(' '));
    lab.run(&all)
}

/// Gives an interface an address, and adds a neighbor entry for an unused one.
pub fn reachable(
    lab: &NamespaceLab,
    interface: &str,
    own: &str,
    other: &str,
) -> anyhow::Result<()> {
    lab.run(&["ip", "addr", "add", own, "dev", interface])?;
    lab.run(&[
        "ip",
        "neigh",
        "add",
        other,
        "lladdr",
        "02:00:00:00:00:02",
        "dev",
        interface,
    ])?;
    Ok(())
}
