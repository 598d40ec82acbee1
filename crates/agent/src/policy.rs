//! Policy of the host's owner, which applies to every request of a server: a TOML file writable only by its owner.
//! Missing keys have defaults; unknown keys are errors, so that a typo permits nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use capture::mirror_source::MirrorListenAddress;
use control::pattern::matches;
use plan::{AddressMatch, Plan, ResourceUsage};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use crate::host::AgentHost;

/// See the module documentation.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostPolicy {
    /// Name of the host; default: its host name.
    pub name: Option<String>,
    /// Labels, by which queries select hosts.
    pub labels: BTreeMap<String, String>,
    /// Permitted capture interfaces; `*` matches any characters.
    pub interfaces: Vec<String>,
    /// Networks to which every query must be restricted by FROM or TO. Empty: no restriction.
    pub networks: Vec<PolicyNetwork>,
    /// Data that may leave the host.
    pub leaves: ExportLevel,
    /// Maximum concurrent jobs.
    pub jobs_max: u32,
    /// Maximum workers (cores) per job.
    pub workers_max: u32,
    /// Maximum memory per job, in bytes.
    pub memory_max: u64,
    /// Maximum estimated cores of all jobs; default: all cores of the host.
    pub all_cores_max: Option<f64>,
    /// Maximum estimated memory of all jobs, in bytes; default: half of the host's memory.
    pub all_memory_max: Option<u64>,
    /// Kafka to which jobs may publish; none: publishing is forbidden.
    pub kafka: Option<PolicyKafka>,
    /// Export messages of switches and routers for jobs; none: such jobs are refused.
    pub exports: Option<PolicyExports>,
    /// Packets kept on this host, which leave it only if `leaves` is `raw`; none: none are kept.
    pub packets: Option<PolicyPackets>,
}

/// Disk space for packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyPackets {
    /// Bytes for the newest packets; older ones are deleted.
    #[serde(deserialize_with = "packets_bytes")]
    pub bytes_max: u64,
    /// Additional bytes for packets preserved when alerts fire; default: as many.
    alerts_bytes_max: Option<u64>,
}

/// Minimum of [`PolicyPackets::bytes_max`].
const PACKETS_BYTES_MIN: u64 = 16 << 20;

fn packets_bytes<'de, D: Deserializer<'de>>(value: D) -> Result<u64, D::Error> {
    let bytes = u64::deserialize(value)?;
    if bytes < PACKETS_BYTES_MIN {
        let why = format!("{bytes} bytes are too few for packets: at least {PACKETS_BYTES_MIN}");
        return Err(D::Error::custom(why));
    }
    Ok(bytes)
}

impl PolicyPackets {
    /// Bytes for preserved packets.
    #[must_use]
    pub fn alerts_bytes_max(&self) -> u64 {
        self.alerts_bytes_max.unwrap_or(self.bytes_max)
    }
}

/// Listeners for export messages (sFlow, NetFlow, IPFIX).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyExports {
    /// Addresses, as `sflow://0.0.0.0`, `ipfix://ADDRESS:PORT`, `netflow://ADDRESS:PORT`.
    pub listen: Vec<ExportAddress>,
    /// Socket buffer of each address, in bytes.
    #[serde(default = "export_buffer")]
    pub buffer_size: usize,
    /// File with the names of information elements, as of `query --elements`.
    pub elements: Option<PathBuf>,
}

fn export_buffer() -> usize {
    32 << 20
}

/// Address that receives export messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct ExportAddress(pub MirrorListenAddress);

impl TryFrom<String> for ExportAddress {
    type Error = String;

    fn try_from(text: String) -> Result<ExportAddress, String> {
        let address: MirrorListenAddress = text.parse()?;
        if address.is_export() {
            Ok(ExportAddress(address))
        } else {
            Err(format!(
                "{text:?} receives mirrored packets; export messages arrive at sflow://, ipfix://, or netflow://ADDRESS"
            ))
        }
    }
}

/// Kafka connection of this host.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyKafka {
    /// Bootstrap brokers, separated by commas.
    pub brokers: String,
    /// File with librdkafka properties, one NAME=VALUE per line.
    pub properties_file: Option<PathBuf>,
}

/// Data that may leave the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExportLevel {
    /// Results of processors, with redacted texts.
    Results,
    /// Also tuples, with redacted texts.
    #[default]
    Tuples,
    /// All data, unredacted.
    Raw,
}

/// A network, as `10.0.0.0/8` or `fd00::/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct PolicyNetwork(IpAddr, u8);

/// A request to the host.
pub struct PolicyRequest<'a> {
    /// The query.
    pub plan: &'a Plan,
    /// Data that would leave the host.
    pub leaves: ExportLevel,
    /// Whether results are published to Kafka.
    pub publishes: bool,
    /// Number of running jobs.
    pub jobs: u32,
    /// Requested workers.
    pub workers: u32,
    /// Requested memory, in bytes.
    pub memory_max: u64,
    /// Estimated cost.
    pub takes: ResourceUsage,
    /// Estimated cost of the running jobs.
    pub borne: ResourceUsage,
    /// Limit of all jobs: [`HostPolicy::ceiling`].
    pub ceiling: ResourceUsage,
}

impl Default for HostPolicy {
    fn default() -> HostPolicy {
        HostPolicy {
            name: None,
            labels: BTreeMap::new(),
            interfaces: vec!["*".into()],
            networks: Vec::new(),
            leaves: ExportLevel::default(),
            jobs_max: 16,
            workers_max: u32::MAX,
            memory_max: 1 << 30,
            all_cores_max: None,
            all_memory_max: None,
            kafka: None,
            exports: None,
            packets: None,
        }
    }
}

impl HostPolicy {
    /// Parses a file.
    ///
    /// # Errors
    /// A message with the position.
    pub fn parse(text: &str) -> Result<HostPolicy, String> {
        toml::from_str(text).map_err(|e| {
            let before = e
                .span()
                .and_then(|span| text.get(..span.start))
                .unwrap_or_default();
            format!("line {}: {}", before.matches('\n').count() + 1, e.message())
        })
    }

    /// Reason why packets do not leave the host; `None`: they may.
    #[must_use]
    pub fn packets_refusal(&self) -> Option<String> {
        (self.leaves < ExportLevel::Raw).then(|| {
            format!(
                "this host releases only {}, not {}",
                self.leaves.words(),
                ExportLevel::Raw.words()
            )
        })
    }

    /// Capture filter for packets of the permitted networks; `None`: all.
    #[must_use]
    pub fn networks_filter(&self) -> Option<String> {
        let all = self.networks.iter().map(|network| format!("net {network}"));
        let all: Vec<String> = all.collect();
        (!all.is_empty()).then(|| all.join(" or "))
    }

    /// Condition of a query for flows of the permitted networks; `None`: all. Other than the capture filter, it is about
    /// the innermost addresses.
    #[must_use]
    pub fn networks_condition(&self) -> Option<String> {
        let all: Vec<String> = self.networks.iter().map(ToString::to_string).collect();
        let all = all.join(", ");
        (!all.is_empty()).then(|| format!("(client_ip in ({all}) or server_ip in ({all}))"))
    }

    /// Whether capturing from this interface is permitted.
    #[must_use]
    pub fn allows_interface(&self, name: &str) -> bool {
        self.interfaces.iter().any(|pattern| matches(pattern, name))
    }

    /// All violations of the policy, one sentence each.
    #[must_use]
    pub fn refusals(&self, ask: &PolicyRequest<'_>) -> Vec<String> {
        let mut refusals = Vec::new();
        let spec = &ask.plan.monitor;
        if !self.networks.is_empty() && !self.holds(&spec.clients) && !self.holds(&spec.servers) {
            let networks: Vec<String> = self
                .networks
                .iter()
                .map(|PolicyNetwork(ip, bits)| format!("{ip}/{bits}"))
                .collect();
            refusals.push(format!(
                "this host allows queries whose FROM or TO stays inside {}",
                networks.join(", ")
            ));
        }
        if ask.leaves > self.leaves {
            refusals.push(format!(
                "this host releases only {}, not {}",
                self.leaves.words(),
                ask.leaves.words()
            ));
        }
        if ask.publishes && self.kafka.is_none() {
            refusals.push(
                "this host does not publish to Kafka: its policy file has no brokers ([kafka] brokers = \"HOST:PORT\")".into(),
            );
        }
        for (what, asked, allowed) in [
            (
                "workers for a job",
                u64::from(ask.workers),
                u64::from(self.workers_max),
            ),
            ("bytes of memory for a job", ask.memory_max, self.memory_max),
        ] {
            if asked > allowed {
                refusals.push(format!("this host allows {allowed} {what}, not {asked}"));
            }
        }
        refusals
    }

    /// Limits that the job would exceed together with running ones, one sentence each.
    #[must_use]
    pub fn crowding(&self, ask: &PolicyRequest<'_>) -> Vec<String> {
        let asked = u64::from(ask.jobs) + 1;
        let allowed = u64::from(self.jobs_max);
        let jobs = (asked > allowed)
            .then(|| format!("this host allows {allowed} jobs at once, not {asked}"));
        jobs.into_iter()
            .chain(ask.takes.excess(ask.borne, ask.ceiling))
            .collect()
    }

    /// Limit of all jobs on a host.
    #[must_use]
    pub fn ceiling(&self, host: &AgentHost) -> ResourceUsage {
        // Without a known memory size there is no memory limit.
        let half = Some(host.memory_bytes / 2)
            .filter(|half| *half > 0)
            .unwrap_or(u64::MAX);
        ResourceUsage {
            cpu_millis: self
                .all_cores_max
                .map_or(u64::from(host.cores) * 1000, |cores| {
                    (cores * 1000.0) as u64
                }),
            memory_bytes: self.all_memory_max.unwrap_or(half),
        }
    }

    /// Whether all these endpoints are inside the networks; an unrestricted list is not.
    fn holds(&self, ends: &[AddressMatch]) -> bool {
        let is_inside = |end: &AddressMatch| {
            end.net.is_some_and(|(ip, bits)| {
                self.networks.iter().any(|network| network.holds(ip, bits))
            })
        };
        !ends.is_empty() && ends.iter().all(is_inside)
    }
}

impl ExportLevel {
    fn words(self) -> &'static str {
        match self {
            ExportLevel::Results => "results with redacted texts",
            ExportLevel::Tuples => "tuples with redacted texts",
            ExportLevel::Raw => "unredacted data",
        }
    }
}

impl fmt::Display for PolicyNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.0, self.1)
    }
}

impl PolicyNetwork {
    fn holds(&self, ip: IpAddr, bits: u8) -> bool {
        let first = |ip: IpAddr, n: u8| match ip {
            IpAddr::V4(ip) => (32, u128::from(ip.to_bits()) >> (32 - u32::from(n).min(32))),
            IpAddr::V6(ip) => (
                128,
                ip.to_bits()
                    .checked_shr(128 - u32::from(n).min(128))
                    .unwrap_or(0),
            ),
        };
        bits >= self.1 && first(ip, self.1) == first(self.0, self.1)
    }
}

impl TryFrom<String> for PolicyNetwork {
    type Error = String;

    fn try_from(text: String) -> Result<PolicyNetwork, String> {
        let network = || {
            let (ip, bits) = text
                .split_once('/')
                .map_or((text.as_str(), None), |(ip, bits)| (ip, Some(bits)));
            let ip: IpAddr = ip.parse().ok()?;
            let most = if ip.is_ipv4() { 32 } else { 128 };
            let bits = bits.map_or(Some(most), |bits| bits.parse().ok())?;
            (bits <= most).then_some(PolicyNetwork(ip, bits))
        };
        network().ok_or_else(|| format!("{text:?} is not a network, such as 10.0.0.0/8"))
    }
}

#[cfg(test)]
mod tests {
    use plan::{Dataflow, MonitorSpec};

    use super::*;

    fn end(text: &str) -> AddressMatch {
        let PolicyNetwork(ip, bits) = PolicyNetwork::try_from(text.to_owned()).expect("a network");
        AddressMatch {
            net: Some((ip, bits)),
            port: None,
        }
    }

    /// Violations of a query with these endpoints.
    fn refused(
        policy: &HostPolicy,
        from: &[&str],
        to: &[&str],
        change: impl Fn(&mut PolicyRequest<'_>),
    ) -> String {
        let ends = |list: &[&str]| list.iter().map(|text| end(text)).collect();
        let monitor = MonitorSpec {
            clients: ends(from),
            servers: ends(to),
            ..MonitorSpec::default()
        };
        let plan = Plan {
            query: String::new(),
            monitor,
            dataflow: Dataflow::default(),
        };
        let mut ask = PolicyRequest {
            plan: &plan,
            leaves: ExportLevel::Results,
            publishes: false,
            jobs: 0,
            workers: 1,
            memory_max: 1,
            takes: ResourceUsage::default(),
            borne: ResourceUsage::default(),
            ceiling: ResourceUsage::default(),
        };
        change(&mut ask);
        [policy.refusals(&ask), policy.crowding(&ask)]
            .concat()
            .join("; ")
    }

    #[test]
    fn packets_are_kept_within_limits_and_networks() {
        let policy = HostPolicy::parse(
            "networks = ['10.0.0.0/8', 'fd00::/8']\n[packets]\nbytes_max = 16777216",
        )
        .expect("a policy");
        let packets = policy.packets.expect("packets are kept");
        assert_eq!(packets.alerts_bytes_max(), 16_777_216);
        assert_eq!(
            policy.networks_filter().as_deref(),
            Some("net 10.0.0.0/8 or net fd00::/8")
        );
        assert_eq!(
            policy.networks_condition().as_deref(),
            Some("(client_ip in (10.0.0.0/8, fd00::/8) or server_ip in (10.0.0.0/8, fd00::/8))")
        );
        assert!(policy.packets_refusal().is_some());
        let raw = HostPolicy::parse("leaves = 'raw'\n[packets]\nbytes_max = 16777216");
        let raw = raw.expect("a policy");
        assert_eq!((raw.networks_filter(), raw.packets_refusal()), (None, None));
        assert_eq!(
            HostPolicy::parse("[packets]\nbytes_max = 1000"),
            Err("line 2: 1000 bytes are too few for packets: at least 16777216".into())
        );
        for wrong in ["", "bytes_max = 16777216\nsize = 1"] {
            assert!(
                HostPolicy::parse(&format!("[packets]\n{wrong}")).is_err(),
                "{wrong}"
            );
        }
    }

    #[test]
    fn queries_stay_inside_the_networks() {
        let policy = HostPolicy::parse("networks = ['10.0.0.0/8', 'fd00::/8', '0.0.0.0/32']")
            .expect("a policy");
        let why = "this host allows queries whose FROM or TO stays inside 10.0.0.0/8, fd00::/8, 0.0.0.0/32";
        for (from, to, expected) in [
            (&["10.1.0.0/16"][..], &[][..], ""),
            (&[], &["10.2.3.4"], ""),
            (&["192.168.0.0/16"], &["10.2.3.4", "fd12::/16"], ""),
            (&["0.0.0.0/0"], &[], why),
            (&["10.0.0.0/7"], &[], why),
            (&["10.0.0.0/8", "11.0.0.0/8"], &[], why),
            (&["::/0"], &["a00::/8"], why),
            (&[], &[], why),
        ] {
            assert_eq!(
                refused(&policy, from, to, |_| {}),
                expected,
                "{from:?} {to:?}"
            );
            assert_eq!(refused(&HostPolicy::default(), from, to, |_| {}), "");
        }
        let everything = HostPolicy::parse("networks = ['0.0.0.0/0']").expect("a policy");
        assert_eq!(refused(&everything, &["0.0.0.0/0"], &[], |_| {}), "");
    }

    #[test]
    fn all_policy_violations_are_reported_at_once() {
        let policy = HostPolicy::parse(
            "leaves = 'results'\njobs_max = 2\nworkers_max = 1\nmemory_max = 1000",
        );
        let said = refused(&policy.expect("a policy"), &[], &[], |ask| {
            ask.publishes = true;
            ask.leaves = ExportLevel::Raw;
            ask.jobs = 2;
            ask.workers = 2;
            ask.memory_max = 1001;
        });
        let expected = "this host releases only results with redacted texts, not unredacted data; this host does \
                        not publish to Kafka: its policy file has no brokers ([kafka] brokers = \"HOST:PORT\"); this \
                        host allows 1 workers for a job, not 2; this host allows 1000 bytes of memory for a job, not \
                        1001; this host allows 2 jobs at once, not 3";
        assert_eq!(said, expected);
    }

    #[test]
    fn all_jobs_together_stay_below_the_ceiling() {
        let host = AgentHost {
            cores: 4,
            memory_bytes: 8 << 30,
            ..AgentHost::default()
        };
        let burden = |cpu_millis, gib: u64| ResourceUsage {
            cpu_millis,
            memory_bytes: gib << 30,
        };
        let limited = HostPolicy::parse("all_cores_max = 0.5\nall_memory_max = 1073741824")
            .expect("a policy");
        for (policy, host, expected) in [
            (&HostPolicy::default(), &host, burden(4000, 4)),
            (&limited, &host, burden(500, 1)),
            (
                &HostPolicy::default(),
                &AgentHost {
                    cores: 1,
                    ..AgentHost::default()
                },
                ResourceUsage {
                    cpu_millis: 1000,
                    memory_bytes: u64::MAX,
                },
            ),
        ] {
            assert_eq!(policy.ceiling(host), expected);
        }
        let said = refused(&limited, &[], &[], |ask| {
            (ask.takes, ask.borne, ask.ceiling) =
                (burden(400, 0), burden(200, 0), limited.ceiling(&host));
        });
        let expected = "estimated cost: 0.40 cores and 0 MiB; available: 0.30 cores and 1024 MiB of 0.50 cores and 1024 MiB";
        assert_eq!(said, expected);
    }

    #[test]
    fn a_slip_of_the_pen_allows_nothing() {
        for (text, why) in [
            ("network = ['10.0.0.0/8']", "unknown field"),
            ("networks = ['10.0.0.0/33']", "is not a network"),
            ("networks = ['ten']", "is not a network"),
            ("leaves = 'all'", "unknown variant"),
            ("jobs_max = -1", "invalid value"),
            (
                "exports = { listen = ['vxlan://0.0.0.0'] }",
                "mirrored packets",
            ),
            (
                "exports = { listen = ['sflow://switch'] }",
                "not an address",
            ),
        ] {
            let said = HostPolicy::parse(text).expect_err(text);
            assert!(said.contains(why) && said.contains("line 1"), "{said}");
        }
    }
}
