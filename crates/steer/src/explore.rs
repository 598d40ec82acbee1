//! Discovers the neighbors of Open vSwitches: a frame sent from a port and received at another switch shows a link; a
//! reply to an ARP probe shows a host behind a port. Frames have no sender address in use; those for links are never
//! forwarded by bridges, and probes have no sender address, so receivers cache nothing. During the exploration, each
//! switch has two rules that match only these frames and record receptions as rules of a table that packets never
//! reach; all of them are removed at the end or with their lease. Jobs recognize these rules by their cookie and ignore
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::thread;
use std::time::Duration;

use mirror::openflow::RuleCookie;
use mirror::openflow::action::LOCAL;
use serde_json::Value;

use crate::backend::SwitchError;
use crate::install::JobStartError;
use crate::ovs::OpenVSwitch;

/// Lease of the rules, in seconds.
const LEASE: u16 = 30;
/// Table of notes: receptions are recorded as rules that match only our own frames.
const NOTES: u8 = 253;
/// A link-local destination address, which bridges do not forward, and an experimental EtherType.
const CABLE_FRAME: (&str, &str) = ("0180c200000e", "88b5");
/// Addresses probed in parallel.
const AT_ONCE: usize = 256;
/// Attempts per address.
const ROUNDS: usize = 2;
/// Time limit for replies.
const ANSWERS: Duration = Duration::from_millis(250);
/// Minimum length of a frame.
const FRAME_BYTES: usize = 60;
/// Maximum port number; frames contain port numbers of 16 bits.
const PORTS_MAX: usize = 0xff00;
/// Interface types that are not cables.
const TUNNELS: [&str; 8] = [
    "vxlan",
    "gre",
    "geneve",
    "erspan",
    "ip6gre",
    "ip6erspan",
    "stt",
    "gtpu",
];

/// Index of a switch, and one of its ports.
pub type At = (usize, u32);

/// Addresses behind ports, with MAC addresses.
pub type Answers = BTreeMap<At, BTreeMap<Ipv4Addr, String>>;

/// Keys and values in the text form of a rule.
type Note = BTreeMap<String, String>;

/// Properties of a switch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SwitchDescription {
    /// Datapath id, 16 hexadecimal digits.
    pub datapath: String,
    /// Process id of the switch.
    pub process: Option<u32>,
    /// Addresses of its host.
    pub addresses: Vec<IpAddr>,
    /// Ports by number, without the local port and tunnels.
    pub ports: BTreeMap<u32, PortDescription>,
}

/// A port.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PortDescription {
    /// Name.
    pub name: String,
    /// Capacity in Mb/s, if known.
    pub mbps: Option<f64>,
    /// Whether it has a link.
    pub is_up: bool,
    /// MAC addresses that the switch has learned there.
    pub learned: BTreeSet<String>,
}

/// Result of an exploration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiscoveredLinks {
    /// Pairs of ports connected by a cable, confirmed in both directions.
    pub cables: Vec<[At; 2]>,
    /// Ports with receptions that do not match exactly one other port.
    pub unclear: BTreeSet<At>,
    /// Hosts behind ports: addresses with MAC addresses.
    pub answers: Answers,
}

impl OpenVSwitch {
    /// Reads its properties.
    ///
    /// # Errors
    /// See [`SwitchError`].
    pub fn describe(&self) -> Result<SwitchDescription, SwitchError> {
        let datapath = ["get", "bridge", &self.bridge, "datapath_id"].map(str::to_owned);
        let datapath = self
            .vsctl(datapath.to_vec())?
            .trim()
            .trim_matches('"')
            .to_owned();
        let mut ports = self.cables()?;
        for (number, mac) in learned(&self.appctl(&["fdb/show", &self.bridge])?) {
            ports.entry(number).and_modify(|port| {
                port.learned.insert(mac);
            });
        }
        Ok(SwitchDescription {
            datapath,
            process: self.process(),
            addresses: own_addresses(&self.appctl(&["ovs/route/show"])?),
            ports,
        })
    }

    /// Ports that may have a cable.
    fn cables(&self) -> Result<BTreeMap<u32, PortDescription>, SwitchError> {
        let rows = self.rows("Interface", &["name", "type", "link_state", "link_speed"])?;
        let mut ports = BTreeMap::new();
        for (number, name, _) in crate::ovs::ports(&self.ofctl("OpenFlow10", &["show"], &[], "")?) {
            let row = rows
                .iter()
                .find(|row| row.first().and_then(Value::as_str) == Some(&name));
            let text = |at: usize| {
                row.and_then(|row| row.get(at)?.as_str())
                    .unwrap_or_default()
            };
            if number == LOCAL || TUNNELS.contains(&text(1)) {
                continue;
            }
            let speed = row
                .and_then(|row| row.get(3)?.as_f64())
                .filter(|speed| *speed > 0.0);
            let mbps = speed.map(|bits| bits / 1e6);
            let is_up = text(2) != "down";
            ports.insert(
                number,
                PortDescription {
                    name,
                    mbps,
                    is_up,
                    learned: BTreeSet::new(),
                },
            );
        }
        Ok(ports)
    }

    /// Sends frames, all in one message.
    fn send(&self, frames: &[(String, Vec<u32>)]) -> Result<(), SwitchError> {
        let line = |(frame, ports): &(String, Vec<u32>)| {
            let out: Vec<String> = ports.iter().map(|port| format!("output:{port}")).collect();
            format!(
                "packet-out in_port=controller,packet={frame},actions={}\n",
                out.join(",")
            )
        };
        let lines: String = frames.iter().map(line).collect();
        self.ofctl("OpenFlow13", &["bundle"], &["-"], &lines)
            .map(drop)
    }
}

/// Discovers the links between these switches, and which of these addresses are behind their ports. `server` is a
/// number that no other process uses for rules.
///
/// # Errors
/// If a switch fails. Nothing is left on the others.
pub fn explore(
    switches: &[(&str, &OpenVSwitch, &SwitchDescription)],
    server: u16,
    addresses: &[Ipv4Addr],
) -> Result<DiscoveredLinks, JobStartError> {
    let exploration = LinkExploration {
        switches,
        cookie: RuleCookie::of_exploration(server),
        mark: format!("026e{:04x}", std::process::id() as u16),
    };
    let found = exploration.cables().and_then(|(cables, unclear)| {
        let answers = exploration.answers(&cables, addresses)?;
        Ok(DiscoveredLinks {
            cables,
            unclear,
            answers,
        })
    });
    let swept = exploration.sweep();
    found.and_then(|found| swept.map(|()| found))
}

struct LinkExploration<'a> {
    switches: &'a [(&'a str, &'a OpenVSwitch, &'a SwitchDescription)],
    cookie: RuleCookie,
    /// Prefix of our MAC addresses, in hexadecimal digits; two bytes follow.
    mark: String,
}

impl LinkExploration<'_> {
    fn each(
        &self,
        act: impl Fn(usize, &OpenVSwitch) -> Result<(), SwitchError>,
    ) -> Result<(), JobStartError> {
        let mut done = Ok(());
        for (index, (name, switch, _)) in self.switches.iter().enumerate() {
            let acted = act(index, switch);
            done = done.and(acted.map_err(|why| JobStartError {
                switch: (*name).to_owned(),
                why: why.into(),
            }));
        }
        done
    }

    /// A MAC address of ours with these two bytes, in the format of rules.
    fn mac(&self, low: u16) -> String {
        let digits = format!("{}{low:04x}", self.mark);
        let bytes: Vec<&str> = (0..6)
            .filter_map(|i| digits.get(2 * i..2 * i + 2))
            .collect();
        bytes.join(":")
    }

    /// Has each switch intercept a kind of frame and record some of its fields.
    fn note(&self, matched: &str, kept: &str) -> Result<(), JobStartError> {
        let LinkExploration { cookie, .. } = self;
        let actions = match kept {
            "" => "drop".to_owned(),
            kept => format!(
                "learn(table={NOTES},hard_timeout={LEASE},priority=1,cookie={cookie},{kept})"
            ),
        };
        let rule = format!(
            "cookie={cookie},table=0,priority=65535,hard_timeout={LEASE},{matched},actions={actions}\n"
        );
        self.each(|_, switch| {
            switch
                .ofctl("OpenFlow13", &["add-flows"], &["-"], &rule)
                .map(drop)
        })
    }

    /// Recorded receptions: switch, and fields of each.
    fn notes(&self) -> Result<Vec<(usize, Note)>, JobStartError> {
        let mut notes = Vec::new();
        for (index, (name, switch, _)) in self.switches.iter().enumerate() {
            let meant = format!("cookie={}/-1,table={NOTES}", self.cookie);
            let dump = switch.ofctl("OpenFlow13", &["--no-names", "dump-flows"], &[&meant], "");
            let dump = dump.map_err(|why| JobStartError {
                switch: (*name).to_owned(),
                why: SwitchError::into(why),
            })?;
            let lines = dump.lines().filter(|line| line.contains("in_port="));
            notes.extend(lines.map(|line| (index, words(line))));
        }
        Ok(notes)
    }

    fn sweep(&self) -> Result<(), JobStartError> {
        let ours = format!("cookie={}/-1", self.cookie);
        self.each(|_, switch| {
            switch
                .ofctl("OpenFlow13", &["del-flows"], &[&ours], "")
                .map(drop)
        })
    }

    /// Connected ports, and ports with ambiguous receptions.
    fn cables(&self) -> Result<(Vec<[At; 2]>, BTreeSet<At>), JobStartError> {
        let ports: Vec<At> = (0..self.switches.len())
            .flat_map(|index| {
                self.switches[index]
                    .2
                    .ports
                    .keys()
                    .map(move |port| (index, *port))
            })
            .take(PORTS_MAX)
            .collect();
        let (to, kind) = CABLE_FRAME;
        let heard = format!("dl_type=0x{kind},dl_src={}/ff:ff:ff:ff:00:00", self.mac(0));
        self.note(
            &heard,
            "NXM_OF_IN_PORT[],NXM_OF_ETH_TYPE[],NXM_OF_ETH_SRC[]",
        )?;
        self.each(|index, switch| {
            let own = ports.iter().enumerate().filter(|(_, at)| at.0 == index);
            let frame = |(low, at): (usize, &At)| {
                (
                    padded(&format!("{to}{}{low:04x}{kind}", self.mark)),
                    vec![at.1],
                )
            };
            let frames: Vec<_> = own.map(frame).collect();
            if frames.is_empty() {
                Ok(())
            } else {
                switch.send(&frames)
            }
        })?;
        thread::sleep(ANSWERS);
        let mut hears: BTreeMap<At, BTreeSet<At>> = BTreeMap::new();
        for (index, note) in self.notes()? {
            let from = note.get("dl_src").and_then(|mac| {
                let low: Vec<&str> = mac.rsplit(':').take(2).collect();
                let low =
                    u16::from_str_radix(&format!("{}{}", low.get(1)?, low.first()?), 16).ok()?;
                ports.get(usize::from(low)).copied()
            });
            let at = note.get("in_port").and_then(|port| port.parse().ok());
            if let (Some(from), Some(port)) = (from, at) {
                hears.entry((index, port)).or_default().insert(from);
            }
        }
        Ok(joined(&hears))
    }

    /// Hosts behind ports without a cable to another switch.
    fn answers(
        &self,
        cables: &[[At; 2]],
        addresses: &[Ipv4Addr],
    ) -> Result<Answers, JobStartError> {
        let own = format!("{}ffff", self.mark);
        let ends: BTreeSet<At> = cables.iter().flatten().copied().collect();
        let mut answers: Answers = BTreeMap::new();
        let mut missing: Vec<Ipv4Addr> = addresses.to_vec();
        for _ in 0..ROUNDS {
            for asked in missing.chunks(AT_ONCE) {
                // Frames that return through unnamed switches are dropped.
                self.note(&format!("arp,dl_src={}", self.mac(0xffff)), "")?;
                let kept = "NXM_OF_IN_PORT[],eth_type=0x806,NXM_OF_ETH_SRC[],NXM_OF_ARP_SPA[]";
                self.note(&format!("arp,dl_dst={}", self.mac(0xffff)), kept)?;
                self.each(|index, switch| {
                    let free = |port: &&u32| !ends.contains(&(index, **port));
                    let ports: Vec<u32> = self.switches[index]
                        .2
                        .ports
                        .keys()
                        .filter(free)
                        .copied()
                        .collect();
                    let probe = |address: &Ipv4Addr| {
                        let target = u32::from(*address);
                        let head = "ffffffffffff";
                        let body = "08060001080006040001";
                        padded(&format!(
                            "{head}{own}{body}{own}00000000000000000000{target:08x}"
                        ))
                    };
                    let frames: Vec<_> =
                        asked.iter().map(|to| (probe(to), ports.clone())).collect();
                    if ports.is_empty() {
                        Ok(())
                    } else {
                        switch.send(&frames)
                    }
                })?;
            }
            if missing.is_empty() {
                break;
            }
            thread::sleep(ANSWERS);
            for (index, note) in self.notes()? {
                let [port, mac, address] =
                    ["in_port", "dl_src", "arp_spa"].map(|name| note.get(name));
                let port = port.and_then(|port| port.parse().ok());
                let address = address.and_then(|address| address.parse().ok());
                if let (Some(port), Some(address), Some(mac)) = (port, address, mac) {
                    answers
                        .entry((index, port))
                        .or_default()
                        .insert(address, mac.clone());
                }
            }
            missing.retain(|address| !answers.values().any(|known| known.contains_key(address)));
        }
        Ok(answers)
    }
}

/// Pairs of ports that receive only each other's frame, each pair once; and all other ports that receive or are
/// received.
fn joined(hears: &BTreeMap<At, BTreeSet<At>>) -> (Vec<[At; 2]>, BTreeSet<At>) {
    let only = |at: &At| {
        hears
            .get(at)
            .filter(|from| from.len() == 1)
            .and_then(|from| from.first().copied())
    };
    let all = hears
        .iter()
        .flat_map(|(at, from)| from.iter().copied().chain([*at]));
    let mut cables = Vec::new();
    let mut unclear = BTreeSet::new();
    for at in all.collect::<BTreeSet<At>>() {
        match only(&at).filter(|other| only(other) == Some(at) && other.0 != at.0) {
            Some(other) if at < other => cables.push([at, other]),
            Some(_) => {}
            None => {
                unclear.insert(at);
            }
        }
    }
    (cables, unclear)
}

/// Pads a frame in hexadecimal digits to the minimum length.
fn padded(frame: &str) -> String {
    format!("{frame:0<width$}", width = 2 * FRAME_BYTES)
}

/// Keys and values in the text form of a rule.
fn words(line: &str) -> Note {
    let pairs = line
        .split([',', ' '])
        .filter_map(|word| word.split_once('='));
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Ports and MAC addresses in the output of `fdb/show`.
fn learned(shown: &str) -> Vec<(u32, String)> {
    let row = |line: &str| {
        let mut cells = line.split_whitespace();
        let port = cells.next()?.parse().ok()?;
        let mac = cells.nth(1).filter(|mac| mac.matches(':').count() == 5)?;
        Some((port, mac.to_owned()))
    };
    shown.lines().filter_map(row).collect()
}

/// Addresses of a host in the output of `ovs/route/show`, without those that every host has.
fn own_addresses(shown: &str) -> Vec<IpAddr> {
    let own = shown
        .lines()
        .filter(|line| line.trim_end().ends_with(" local"));
    let address = |line: &str| {
        line.split_whitespace()
            .nth(1)?
            .split('/')
            .next()?
            .parse()
            .ok()
    };
    let tells = |address: &IpAddr| match address {
        IpAddr::V4(v4) => !v4.is_loopback() && !v4.is_link_local() && !v4.is_unspecified(),
        IpAddr::V6(v6) => !v6.is_loopback() && !v6.is_unicast_link_local() && !v6.is_multicast(),
    };
    let addresses: BTreeSet<IpAddr> = own.filter_map(address).filter(tells).collect();
    addresses.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_that_hear_each_other_alone_are_joined() {
        let hears = [
            ((0, 1), vec![(1, 1)]),
            ((1, 1), vec![(0, 1)]),
            // A device in between forwards link-local frames.
            ((0, 2), vec![(1, 2), (2, 2)]),
            ((1, 2), vec![(0, 2), (2, 2)]),
            ((2, 2), vec![(0, 2), (1, 2)]),
            // In one direction only, and a cable from a switch to itself.
            ((2, 3), vec![(0, 3)]),
            ((2, 5), vec![(2, 6)]),
            ((2, 6), vec![(2, 5)]),
        ];
        let hears = hears
            .map(|(at, from)| (at, from.into_iter().collect()))
            .into();
        let (cables, unclear) = joined(&hears);
        assert_eq!(cables, [[(0, 1), (1, 1)]]);
        let expected = [(0, 2), (0, 3), (1, 2), (2, 2), (2, 3), (2, 5), (2, 6)];
        assert_eq!(unclear, expected.into());
    }

    #[test]
    fn output_of_switches_is_parsed() {
        let shown = " port  VLAN  MAC                Age\n    1     0  02:00:0a:3c:01:01    3\nLOCAL     0  02:00:0a:3c:01:c8    3\n";
        assert_eq!(learned(shown), [(1, "02:00:0a:3c:01:01".to_owned())]);
        let routes = "Route Table:\nCached: 10.60.1.200/32 dev br0 SRC 10.60.1.200 local\nCached: 127.0.0.1/32 dev lo SRC 127.0.0.1 local\n\
            Cached: 10.60.0.0/16 dev br0 SRC 10.60.1.200\nCached: fe80::1/128 dev br0 SRC fe80::1 local\n";
        assert_eq!(
            own_addresses(routes),
            ["10.60.1.200".parse::<IpAddr>().expect("an address")]
        );
        let line = " cookie=0x6e61, table=253, priority=1,arp,in_port=4,dl_src=02:00:0a:3c:01:04,arp_spa=10.60.1.4 actions=drop";
        assert_eq!(
            (
                words(line)["in_port"].as_str(),
                words(line)["arp_spa"].as_str()
            ),
            ("4", "10.60.1.4")
        );
        assert_eq!(padded("ff").len(), 120);
    }
}
