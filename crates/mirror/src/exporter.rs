//! sFlow and IPFIX exporters of a bridge in OVSDB: their settings, the exporters that a bridge already has, and
//! operations as arguments of `ovs-vsctl`, one transaction each. A bridge has one place for each protocol; an exporter of
//! another owner is never replaced, changed, or removed.

use std::fmt;
use std::net::SocketAddr;

/// Key in an exporter's `external_ids` with the [`ExporterMark`] of its owner.
pub const MARK: &str = "netalytics";
/// Key in an exporter's `external_ids` with the time of the last renewal, in seconds since 1970.
pub const RENEWED: &str = "netalytics-renewed";
/// Age of a renewal, in seconds, after which the owner no longer runs.
pub const STALE_SECONDS: u64 = 120;
/// Time limit of a removal in seconds: a database that restarts in this time loses no removal.
const REMOVAL_SECONDS: u32 = 20;

/// Place of an exporter: a column of the bridge and its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExporterSlot {
    /// Packet samples.
    Sflow,
    /// Flow records.
    Ipfix,
    /// NetFlow v5. Read only: no exporter is created here.
    Netflow,
}

impl ExporterSlot {
    /// All places of a bridge.
    pub const ALL: [ExporterSlot; 3] = [
        ExporterSlot::Sflow,
        ExporterSlot::Ipfix,
        ExporterSlot::Netflow,
    ];

    /// Column of table `Bridge`, also the name of the table for `ovs-vsctl`.
    #[must_use]
    pub fn column(self) -> &'static str {
        match self {
            ExporterSlot::Sflow => "sflow",
            ExporterSlot::Ipfix => "ipfix",
            ExporterSlot::Netflow => "netflow",
        }
    }

    /// Name of the table.
    #[must_use]
    pub fn table(self) -> &'static str {
        match self {
            ExporterSlot::Sflow => "sFlow",
            ExporterSlot::Ipfix => "IPFIX",
            ExporterSlot::Netflow => "NetFlow",
        }
    }
}

impl fmt::Display for ExporterSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.table())
    }
}

/// Random number that identifies an exporter's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExporterMark(pub u64);

impl ExporterMark {
    /// The mark in a value of [`MARK`]; `None`: another program's value.
    #[must_use]
    pub fn parse(value: &str) -> Option<ExporterMark> {
        let is_mark = value.len() == 16 && !value.starts_with('+');
        is_mark
            .then(|| u64::from_str_radix(value, 16).ok())?
            .map(ExporterMark)
    }
}

impl fmt::Display for ExporterMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Settings of an exporter to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExporterSettings {
    /// An sFlow agent.
    Sflow(SflowSettings),
    /// An IPFIX exporter of the whole bridge.
    Ipfix(IpfixSettings),
}

/// Settings of an sFlow agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SflowSettings {
    /// Collector.
    pub target: SocketAddr,
    /// Interface of the switch's host whose address identifies the agent.
    pub agent: String,
    /// One of this many packets is sampled; at least 1.
    pub sampling: u32,
    /// Bytes of a sampled packet.
    pub header: u16,
    /// Seconds between interface counters; 0: none.
    pub polling: u16,
}

/// Settings of an IPFIX exporter. It meters packets where they enter the bridge only: otherwise it would report each
/// twice, and the samples of both would be independent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpfixSettings {
    /// Collector.
    pub target: SocketAddr,
    /// One of this many packets is metered; at least 1.
    pub sampling: u32,
    /// Seconds after which the record of an active flow is sent, at most 4,200; 0: a record for each metered packet.
    pub cache_active_timeout: u16,
    /// Maximum number of flows in the cache; 0: a record for each metered packet.
    pub cache_max_flows: u32,
    /// Observation domain.
    pub domain: u32,
    /// Observation point.
    pub point: u32,
    /// Seconds between templates, so that a collector that starts later can decode records.
    pub template_interval: u16,
}

impl ExporterSettings {
    /// Column of the bridge that refers to the exporter.
    #[must_use]
    pub fn slot(&self) -> ExporterSlot {
        match self {
            ExporterSettings::Sflow(_) => ExporterSlot::Sflow,
            ExporterSettings::Ipfix(_) => ExporterSlot::Ipfix,
        }
    }

    /// One of this many packets is sampled.
    #[must_use]
    pub fn sampling(&self) -> u32 {
        match self {
            ExporterSettings::Sflow(settings) => settings.sampling,
            ExporterSettings::Ipfix(settings) => settings.sampling,
        }
    }

    /// Arguments that create it on a bridge whose place is empty. The transaction fails if it is not: `add` to a
    /// column with a value exceeds the column's maximum of one.
    #[must_use]
    pub fn create(&self, bridge: &str, mark: ExporterMark, now: u64) -> Vec<String> {
        let slot = self.slot().column();
        let columns = match self {
            ExporterSettings::Sflow(SflowSettings {
                target,
                agent,
                sampling,
                header,
                polling,
            }) => format!(
                "targets=\"{target}\" agent={agent} sampling={sampling} header={header} polling={polling}"
            ),
            ExporterSettings::Ipfix(IpfixSettings {
                target,
                sampling,
                cache_active_timeout,
                cache_max_flows,
                domain,
                point,
                template_interval,
            }) => format!(
                "targets=\"{target}\" sampling={sampling} cache_active_timeout={cache_active_timeout} cache_max_flows={cache_max_flows} obs_domain_id={domain} obs_point_id={point} other_config:template-interval={template_interval} other_config:enable-output-sampling=false"
            ),
        };
        words(&format!(
            "-- --id=@e create {slot} {columns} external_ids:{MARK}=\"{mark}\" external_ids:{RENEWED}=\"{now}\" -- add bridge {bridge} {slot} @e"
        ))
    }
}

/// Arguments that remove the exporter with this mark from a bridge, and no other: they wait for the mark in the place, in
/// vain if the exporter is gone, and change nothing if another process changes the place at the same time.
#[must_use]
pub fn remove(slot: ExporterSlot, bridge: &str, mark: ExporterMark) -> Vec<String> {
    let slot = slot.column();
    words(&format!(
        "--retry --timeout={REMOVAL_SECONDS} -- wait-until {slot} {bridge} external_ids:{MARK}=\"{mark}\" -- --id=@e get {slot} {bridge} external_ids -- remove bridge {bridge} {slot} @e"
    ))
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// Exporters of a bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BridgeExporters {
    /// Exporters in the places of the bridge.
    pub exporters: Vec<ObservedExporter>,
    /// Identifiers of collector sets, to which rules export flows. They occupy no place.
    pub collector_sets: Vec<u32>,
}

/// An existing exporter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedExporter {
    /// Column of the bridge that refers to the exporter.
    pub slot: ExporterSlot,
    /// Collectors, as in the database.
    pub targets: Vec<String>,
    /// One of this many packets is sampled; `None`: the switch's default.
    pub sampling: Option<u32>,
    /// Owner; `None`: not ours.
    pub mark: Option<ExporterMark>,
    /// Time of the last renewal in seconds since 1970; 0: unknown.
    pub renewed: u64,
}

impl ObservedExporter {
    /// Whether its process no longer runs, at a time in seconds since 1970. An exporter without a mark is never stale.
    #[must_use]
    pub fn is_stale(&self, now: u64) -> bool {
        self.mark.is_some() && now.abs_diff(self.renewed) > STALE_SECONDS
    }
}

impl fmt::Display for ObservedExporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owner = match self.mark {
            Some(_) => "another netalytics process",
            None => "the operator of the switch",
        };
        write!(
            f,
            "{} is configured by {owner}, to {}",
            self.slot,
            self.targets.join(", ")
        )
    }
}

impl BridgeExporters {
    /// The exporter in a place.
    #[must_use]
    pub fn at(&self, slot: ExporterSlot) -> Option<&ObservedExporter> {
        self.exporters.iter().find(|exporter| exporter.slot == slot)
    }

    /// Exporters of processes that no longer run.
    pub fn stale(&self, now: u64) -> impl Iterator<Item = (ExporterSlot, ExporterMark)> {
        self.exporters
            .iter()
            .filter(move |exporter| exporter.is_stale(now))
            .filter_map(|exporter| Some((exporter.slot, exporter.mark?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_marks_are_read() {
        let mark = ExporterMark(0x0123_4567_89ab_cdef);
        assert_eq!(ExporterMark::parse(&mark.to_string()), Some(mark));
        assert_eq!(ExporterMark::parse("+123456789abcdef"), None);
        for other in ["", "1", "collector", "0123456789abcdefg", "0123456789abcde"] {
            assert_eq!(ExporterMark::parse(other), None, "{other}");
        }
    }

    #[test]
    fn exporters_without_a_mark_are_never_stale() {
        let exporter = |mark, renewed| ObservedExporter {
            slot: ExporterSlot::Sflow,
            targets: vec!["10.0.0.1:6343".to_owned()],
            sampling: None,
            mark,
            renewed,
        };
        let now = 1_000_000;
        let mark = Some(ExporterMark(7));
        for (mark, age, is_stale) in [
            (None, STALE_SECONDS + 1, false),
            (None, now, false),
            (mark, STALE_SECONDS, false),
            (mark, STALE_SECONDS + 1, true),
            (mark, now, true),
        ] {
            let seen = BridgeExporters {
                exporters: vec![exporter(mark, now - age)],
                collector_sets: vec![1],
            };
            assert_eq!(seen.stale(now).count() == 1, is_stale, "{mark:?} {age}");
        }
        let told = exporter(None, 0).to_string();
        assert_eq!(
            told,
            "sFlow is configured by the operator of the switch, to 10.0.0.1:6343"
        );
    }
}
