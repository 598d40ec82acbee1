//! An Open vSwitch on this machine: rules by `ovs-ofctl`, in bundles; mirrors and ports by `ovs-vsctl`, which waits
//! until the switch has applied them. Frequent queries use the daemons' sockets.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use capture::TapInterface;

use mirror::exporter::ExporterSlot;
use mirror::model::{FloodSetting, PortVlans};
use mirror::openflow::action::LOCAL;
use mirror::openflow::{flow, read_dump};
use mirror::ovsdb::{self, NewPort, PortKind, PortMirror};
use mirror::{ModelPacket, RuleOperation};
use serde_json::Value;

use crate::backend::{
    CopyPortRecord, ObservedMirror, ObservedSwitch, Out, SwitchBackend, SwitchCapabilities,
    SwitchError,
};
use crate::cleanup_process::CleanupProcess;
use crate::program::ProgramInput;
use crate::{interface, program, rpc, trace};

/// Timeout of a command.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Timeout of probing a tunnel's other end.
const REACH: Duration = Duration::from_secs(3);
/// Polling interval.
const ASK: Duration = Duration::from_millis(20);
/// Removes a mirror by the arguments of `ovs-vsctl`, and then the datapath's flows by the control socket `$0`: without
/// that, flows that are in use are copied for as long as they last.
const REMOVE_MIRROR: &str = "ovs-vsctl \"$@\"; exec ovs-appctl -t \"$0\" revalidator/purge";
/// A frame that no host accepts: an experimental EtherType, between unused addresses.
const NOBODYS_FRAME: &str = "020000000001020000000002\
    88b500000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000";

/// See the module documentation.
#[derive(Debug)]
pub struct OpenVSwitch {
    pub(crate) run: PathBuf,
    pub(crate) bridge: String,
    /// Objects removed at the end of this process, by name.
    kept: BTreeMap<String, (CleanupProcess, Option<TapInterface>)>,
    /// Datapath numbers of the switch's ports, as last listed.
    datapath: Vec<trace::DatapathPort>,
}

impl OpenVSwitch {
    /// A bridge of the Open vSwitch with sockets in this directory, by default `/run/openvswitch`.
    #[must_use]
    pub fn new(run: &Path, bridge: &str) -> OpenVSwitch {
        OpenVSwitch {
            run: run.to_owned(),
            bridge: bridge.to_owned(),
            kept: BTreeMap::new(),
            datapath: Vec::new(),
        }
    }

    pub(crate) fn ofctl(
        &self,
        version: &str,
        words: &[&str],
        more: &[&str],
        input: &str,
    ) -> Result<String, SwitchError> {
        let arguments = self.ofctl_arguments(version, words, more);
        program::run(
            "ovs-ofctl",
            &arguments,
            ("OVS_RUNDIR", &self.run),
            ProgramInput::Text(input),
            PATIENCE,
        )
    }

    fn ofctl_arguments(&self, version: &str, words: &[&str], more: &[&str]) -> Vec<String> {
        let bridge = format!("unix:{}/{}.mgmt", self.run.display(), self.bridge);
        let before = ["-O", version].into_iter().chain(words.iter().copied());
        let after = more.iter();
        let words = before.map(str::to_owned).chain([bridge]);
        words.chain(after.map(|word| (*word).to_owned())).collect()
    }

    pub(crate) fn vsctl(&self, words: Vec<String>) -> Result<String, SwitchError> {
        self.vsctl_with(words, ProgramInput::Text(""))
    }

    fn vsctl_with(
        &self,
        words: Vec<String>,
        input: ProgramInput<'_>,
    ) -> Result<String, SwitchError> {
        program::run(
            "ovs-vsctl",
            &self.vsctl_arguments(words),
            ("OVS_RUNDIR", &self.run),
            input,
            PATIENCE,
        )
    }

    /// Creates an object that is removed when this process ends, registered by that name.
    pub(crate) fn make(&self, name: &str, words: Vec<String>) -> Result<String, SwitchError> {
        self.vsctl_with(words, self.kept[name].0.lock()?)
    }

    fn vsctl_arguments(&self, words: Vec<String>) -> Vec<String> {
        let database = format!("--db=unix:{}/db.sock", self.run.display());
        [database, "--timeout=10".to_owned()]
            .into_iter()
            .chain(words)
            .collect()
    }

    /// Registers a removal from the database for the end of this process.
    pub(crate) fn keep(
        &mut self,
        name: &str,
        tap: Option<TapInterface>,
        words: Vec<String>,
    ) -> Result<(), SwitchError> {
        self.keep_program(name, tap, "ovs-vsctl", &self.vsctl_arguments(words))
    }

    /// Registers the removal of a mirror, also from the datapath's flows.
    fn keep_mirror(&mut self, name: &str) -> Result<(), SwitchError> {
        let control = rpc::control(&self.run, "ovs-vswitchd", PATIENCE)?;
        let script = ["-c", REMOVE_MIRROR].map(str::to_owned);
        let mut words = script.to_vec();
        words.push(control.display().to_string());
        words.extend(self.vsctl_arguments(ovsdb::remove(&self.bridge, name)));
        self.keep_program(name, None, "sh", &words)
    }

    fn keep_program(
        &mut self,
        name: &str,
        tap: Option<TapInterface>,
        program: &str,
        arguments: &[String],
    ) -> Result<(), SwitchError> {
        let keeper = CleanupProcess::new(program, arguments, ("OVS_RUNDIR", &self.run), "")?;
        self.kept.insert(name.to_owned(), (keeper, tap));
        Ok(())
    }

    /// Cancels a registered removal that has been done.
    pub(crate) fn forgo(&mut self, name: &str) {
        if let Some((keeper, _tap)) = self.kept.remove(name) {
            keeper.cancel();
        }
    }

    pub(crate) fn appctl(&self, words: &[&str]) -> Result<String, SwitchError> {
        rpc::command(&self.run, words, PATIENCE)
    }

    /// Waits until packets are treated by the current rules: the datapath's cache of flows is older.
    fn settle(&self) -> Result<(), SwitchError> {
        self.appctl(&["revalidator/wait"]).map(drop)
    }

    /// Removes all flows of the datapath, so that they are created again by the present mirrors: a change of mirrors
    /// alone has no effect on flows that are in use.
    fn forget(&self) -> Result<(), SwitchError> {
        self.appctl(&["revalidator/purge"]).map(drop)
    }

    /// Rows of a table with these columns.
    pub(crate) fn rows(
        &self,
        table: &str,
        columns: &[&str],
    ) -> Result<Vec<Vec<Value>>, SwitchError> {
        Ok(rpc::select(&self.run, &[(table, columns, None)], PATIENCE)?
            .pop()
            .unwrap_or_default())
    }
}

impl SwitchBackend for OpenVSwitch {
    fn capabilities(&self) -> SwitchCapabilities {
        SwitchCapabilities {
            leases: true,
            truncates: true,
            mirrors: true,
        }
    }

    fn list(&mut self) -> Result<ObservedSwitch, SwitchError> {
        let dump = self.ofctl("OpenFlow13", &["--no-names", "dump-flows"], &[], "")?;
        let rules = read_dump(&dump).map_err(|e| SwitchError::NotUnderstood(e.to_string()))?;
        // Only OpenFlow 1.0 reports and changes `no-flood`.
        self.datapath.clear();
        let numbers = ports(&self.ofctl("OpenFlow10", &["show"], &[], "")?);
        let selects: [rpc::Select<'_>; 4] = [
            (
                "Port",
                &["_uuid", "name", "tag", "trunks", "vlan_mode", "interfaces"],
                None,
            ),
            ("Bridge", &["mirrors"], Some(&self.bridge)),
            ("Mirror", &MIRROR, None),
            ("Interface", &["name", "external_ids", "_uuid"], None),
        ];
        let mut tables = rpc::select(&self.run, &selects, PATIENCE)?.into_iter();
        let [vlans, bridges, mirrors, interfaces] =
            std::array::from_fn(|_| tables.next().unwrap_or_default());
        let members = |row: &Vec<Value>| -> Vec<String> {
            let members = row.get(5).map(references).unwrap_or_default();
            let is_member = |id: &Vec<Value>| {
                id.get(2)
                    .map(references)
                    .is_some_and(|id| members.contains(&id[0]))
            };
            let name = |row: &Vec<Value>| row.first().and_then(Value::as_str).map(str::to_owned);
            interfaces
                .iter()
                .filter(|row| is_member(row))
                .filter_map(name)
                .collect()
        };
        let of = |name: &str| {
            let is_it = |row: &&Vec<Value>| {
                row.get(1).and_then(Value::as_str) == Some(name)
                    || members(row).iter().any(|member| member == name)
            };
            vlans.iter().find(is_it)
        };
        let ports = numbers.into_iter().map(|(number, name, flooded)| {
            let carried = of(&name).map_or(PortVlans::All, |row| carried(row));
            (number, name, flooded, carried)
        });
        let ports: Vec<_> = ports.collect();
        let mut records: Vec<CopyPortRecord> =
            interfaces.iter().filter_map(|row| record(row)).collect();
        // Interfaces of other bridges are in the same table.
        records.retain(|record| ports.iter().any(|(_, name, ..)| *name == record.port));
        records.sort_by(|one, other| one.port.cmp(&other.port));
        let is_here =
            |bond: &Vec<String>| bond.len() > 1 && ports.iter().any(|port| bond.contains(&port.1));
        let mut bonds: Vec<Vec<String>> = vlans.iter().map(members).filter(is_here).collect();
        bonds.iter_mut().for_each(|bond| bond.sort());
        bonds.sort();
        let mirrors = self::mirrors(&bridges, &mirrors, &vlans);
        Ok(ObservedSwitch {
            rules,
            ports,
            mirrors,
            bonds,
            records,
        })
    }

    fn apply(&mut self, operations: &[RuleOperation]) -> Result<(), SwitchError> {
        if operations.is_empty() {
            return Ok(());
        }
        let lines: String = operations
            .iter()
            .map(|operation| format!("{operation}\n"))
            .collect();
        self.ofctl("OpenFlow13", &["--bundle", "add-flows"], &["-"], &lines)?;
        let only_renews = operations
            .iter()
            .all(|operation| matches!(operation, RuleOperation::Renew(..)));
        if only_renews { Ok(()) } else { self.settle() }
    }

    fn trace(&mut self, packet: &ModelPacket) -> Result<Option<Vec<Out>>, SwitchError> {
        let traced = self.appctl(&["ofproto/trace", &self.bridge, &flow(packet)])?;
        if self.datapath.is_empty() {
            self.datapath = trace::ports(&self.appctl(&["dpif/show"])?);
        }
        Ok(trace::outputs(&traced, &self.datapath))
    }

    fn keep_floods_from(&mut self, port: u32) -> Result<(), SwitchError> {
        self.ofctl(
            "OpenFlow10",
            &["mod-port"],
            &[&port.to_string(), "no-flood"],
            "",
        )
        .map(drop)
    }

    fn hold_port(&mut self, _: u32, name: &str, server: u16) -> Result<(), SwitchError> {
        let mod_port = |word| self.ofctl_arguments("OpenFlow10", &["mod-port"], &[name, word]);
        let flood = mod_port("flood");
        let no_flood = mod_port("no-flood");
        let keeper = CleanupProcess::new("ovs-ofctl", &flood, ("OVS_RUNDIR", &self.run), "")?;
        let lock = keeper.lock()?;
        let [floods, record] = held(name);
        self.kept.insert(floods, (keeper, None));
        self.keep(&record, None, ovsdb::clear_record(name))?;
        // The record before the flag: repairing a recorded port with flooding is harmless.
        let recorded = self.make(
            &record,
            ovsdb::set_record(name, &ovsdb::record(server, now())),
        );
        let held = recorded.and_then(|_| {
            program::run(
                "ovs-ofctl",
                &no_flood,
                ("OVS_RUNDIR", &self.run),
                lock,
                PATIENCE,
            )
            .map(drop)
        });
        // A failed tool may have done its work.
        held.inspect_err(|_| drop(self.release_port(name)))
    }

    fn release_port(&mut self, name: &str) -> Result<(), SwitchError> {
        self.ofctl("OpenFlow10", &["mod-port"], &[name, "flood"], "")?;
        self.vsctl(ovsdb::clear_record(name))?;
        held(name).iter().for_each(|kept| self.forgo(kept));
        Ok(())
    }

    fn add_mirror(&mut self, mirror: &PortMirror) -> Result<(), SwitchError> {
        let name = mirror.name();
        self.keep_mirror(&name)?;
        let made = self
            .make(&name, mirror.create(&self.bridge))
            .and_then(|_| self.forget());
        made.inspect_err(|_| drop(self.remove_mirror(&name)))
    }

    fn remove_mirror(&mut self, name: &str) -> Result<(), SwitchError> {
        if rpc::select(&self.run, &[("Mirror", &["name"], Some(name))], PATIENCE)?
            != [Vec::<Vec<Value>>::new()]
        {
            self.vsctl(ovsdb::remove(&self.bridge, name))?;
        }
        self.forgo(name);
        self.forget()
    }

    fn add_port(&mut self, port: &NewPort) -> Result<u32, SwitchError> {
        let name = &port.name;
        let made = match port.kind {
            PortKind::Interface => Some(interface::make(name)?),
            PortKind::Tunnel { .. } => None,
        };
        // Registered before the port is created, so that any end of this process removes it.
        self.keep(name, made, ovsdb::remove_port(&self.bridge, name))?;
        let server = ovsdb::port_server(name).unwrap_or_default();
        let mut words = port.create(&self.bridge);
        words.extend(ovsdb::set_record(name, &ovsdb::record(server, now())));
        let added = self
            .make(name, words)
            .and_then(|_| self.number(name))
            .and_then(|number| {
                self.keep_floods_from(number)?;
                if let PortKind::Tunnel { remote, .. } = port.kind {
                    self.reach(number, remote)?;
                }
                Ok(number)
            });
        if added.is_err() {
            // The original error is reported; a remaining port would appear in the next list.
            let _ = self.remove_port(name);
        }
        added
    }

    fn remove_port(&mut self, name: &str) -> Result<(), SwitchError> {
        self.vsctl(ovsdb::remove_port(&self.bridge, name))?;
        self.forgo(name);
        Ok(())
    }

    fn remove_stale_exporters(&mut self) -> Result<Vec<ExporterSlot>, SwitchError> {
        self.repair_exporters()
    }
}

impl OpenVSwitch {
    /// OpenFlow number of a new port.
    fn number(&self, name: &str) -> Result<u32, SwitchError> {
        let words = ["get", "interface", name, "ofport"].map(str::to_owned);
        let said = self.vsctl(words.to_vec())?;
        said.trim().parse().map_err(|_| {
            let why = ["get", "interface", name, "error"].map(str::to_owned);
            let why = self.vsctl(why.to_vec()).unwrap_or_default();
            SwitchError::Refused {
                program: "ovs-vswitchd".to_owned(),
                said: format!("port {name}: {}", why.trim()),
            }
        })
    }

    /// A userspace datapath resolves a tunnel's other end when it first sends there, and drops packets until then: so a
    /// meaningless frame is sent until it is resolved.
    fn reach(&self, port: u32, remote: IpAddr) -> Result<(), SwitchError> {
        let words = ["get", "bridge", &self.bridge, "datapath_type"].map(str::to_owned);
        if !self.vsctl(words.to_vec())?.contains("netdev") {
            return Ok(());
        }
        let route = self.appctl(&["ovs/route/lookup", &remote.to_string()])?;
        let gateway = route
            .lines()
            .find_map(|line| line.strip_prefix("gateway "))
            .unwrap_or_default()
            .trim();
        let next = gateway
            .parse()
            .ok()
            .filter(|hop: &IpAddr| !hop.is_unspecified())
            .unwrap_or(remote);
        let next = next.to_string();
        let begun = Instant::now();
        let out = format!("in_port=controller packet={NOBODYS_FRAME} actions=output:{port}");
        while begun.elapsed() < REACH {
            let known = self.appctl(&["tnl/neigh/show"])?;
            if known
                .lines()
                .any(|line| line.split_whitespace().next() == Some(&next))
            {
                return Ok(());
            }
            self.ofctl("OpenFlow13", &["packet-out"], &[&out], "")?;
            thread::sleep(ASK);
        }
        let said =
            format!("the tunnel's other end {remote} does not answer: no ARP entry for {next}");
        Err(SwitchError::Refused {
            program: "ovs-vswitchd".to_owned(),
            said,
        })
    }
}

/// Columns of a mirror that are read.
const MIRROR: [&str; 7] = [
    "_uuid",
    "name",
    "select_src_port",
    "select_dst_port",
    "select_all",
    "output_port",
    "snaplen",
];

/// Mirrors of a bridge, from the rows of all.
fn mirrors(
    bridges: &[Vec<Value>],
    rows: &[Vec<Value>],
    ports: &[Vec<Value>],
) -> Vec<ObservedMirror> {
    let own = bridges
        .first()
        .and_then(|row| row.first())
        .map(references)
        .unwrap_or_default();
    let name = |id: &String| {
        let row = ports
            .iter()
            .find(|row| row.first().map(references).unwrap_or_default().contains(id))?;
        Some(row.get(1)?.as_str()?.to_owned())
    };
    let names = |value: Option<&Value>| -> Vec<String> {
        value
            .map(references)
            .unwrap_or_default()
            .iter()
            .filter_map(name)
            .collect()
    };
    let is_own = |row: &&Vec<Value>| {
        row.first()
            .map(references)
            .unwrap_or_default()
            .iter()
            .any(|id| own.contains(id))
    };
    let mirror = |row: &Vec<Value>| ObservedMirror {
        name: row
            .get(1)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        entering: names(row.get(2)),
        leaving: names(row.get(3)),
        selects_all: row.get(4).and_then(Value::as_bool).unwrap_or(false),
        output: names(row.get(5)).pop(),
        snaplen: row.get(6).and_then(Value::as_u64).unwrap_or(0) as u32,
    };
    rows.iter().filter(is_own).map(mirror).collect()
}

/// Numbers, names and flooding of ports in the output of `ovs-ofctl show`.
pub(crate) fn ports(shown: &str) -> Vec<(u32, String, FloodSetting)> {
    let mut found: Vec<(u32, String, FloodSetting)> = Vec::new();
    for line in shown.lines().map(str::trim) {
        if let Some(config) = line.strip_prefix("config:") {
            if let Some(port) = found.last_mut().filter(|_| config.contains("NO_FLOOD")) {
                port.2 = FloodSetting::No;
            }
        } else if let Some((number, rest)) = line.split_once('(')
            && let Some((name, _)) = rest.split_once("): addr:")
        {
            let number = if number == "LOCAL" {
                Some(LOCAL)
            } else {
                number.parse().ok()
            };
            found.extend(number.map(|number| (number, name.to_owned(), FloodSetting::Yes)));
        }
    }
    found
}

/// The record in an interface's row.
fn record(row: &[Value]) -> Option<CopyPortRecord> {
    let pairs = row
        .get(1)?
        .as_array()
        .filter(|map| map.first().and_then(Value::as_str) == Some("map"))?;
    let pairs = pairs.get(1)?.as_array()?.iter().filter_map(Value::as_array);
    let value = |pair: &Vec<Value>| {
        (pair.first()?.as_str()? == ovsdb::RECORD)
            .then(|| pair.get(1)?.as_str().map(str::to_owned))?
    };
    let (server, since) = ovsdb::read_record(&pairs.filter_map(value).next()?)?;
    Some(CopyPortRecord {
        port: row.first()?.as_str()?.to_owned(),
        server,
        since,
    })
}

/// Names of the registered removals for a port: flooding and record.
fn held(port: &str) -> [String; 2] {
    ["floods to", "record of"].map(|what| format!("{what} {port}"))
}

/// Current time in seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

/// The VLANs of a port's row.
fn carried(row: &[Value]) -> PortVlans {
    let tag = row
        .get(2)
        .and_then(Value::as_u64)
        .and_then(|tag| u16::try_from(tag).ok());
    let trunks: Vec<u16> = match row.get(3) {
        Some(Value::Number(one)) => one
            .as_u64()
            .and_then(|n| u16::try_from(n).ok())
            .into_iter()
            .collect(),
        Some(value) => members(value)
            .filter_map(|v| v.as_u64().and_then(|n| u16::try_from(n).ok()))
            .collect(),
        None => Vec::new(),
    };
    match tag {
        Some(tag) => PortVlans::Access(tag),
        None if trunks.is_empty() => PortVlans::All,
        None => PortVlans::Some(trunks),
    }
}

/// The members of `["set", [...]]`.
pub(crate) fn members(value: &Value) -> impl Iterator<Item = &Value> {
    let set = value
        .as_array()
        .filter(|pair| pair.first().and_then(Value::as_str) == Some("set"));
    set.and_then(|pair| pair.get(1)?.as_array())
        .into_iter()
        .flatten()
}

/// The identifiers in `["uuid", "…"]` or in a set of them.
pub(crate) fn references(value: &Value) -> Vec<String> {
    let one = |value: &Value| {
        let pair = value.as_array()?;
        (pair.first()?.as_str()? == "uuid").then(|| pair.get(1)?.as_str().map(str::to_owned))?
    };
    one(value)
        .into_iter()
        .chain(members(value).filter_map(one))
        .collect()
}
