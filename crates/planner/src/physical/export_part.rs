//! The export of a query's switches in a plan: sampling rate, expected error, and cost. Only values.

use std::fmt;

use mirror::exporter::ExporterSlot;

/// Standard deviations of a 95 % interval.
pub(super) const DEVIATIONS: f64 = 1.96;

/// A switch that exports. Its flows are those of the plan's `covered`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportSwitch {
    /// Index in the site.
    pub index: usize,
    /// Name.
    pub name: String,
}

/// The export of all covered switches, at one sampling rate.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportPart {
    /// sFlow or IPFIX.
    pub slot: ExporterSlot,
    /// The switches.
    pub switches: Vec<ExportSwitch>,
    /// One of this many packets is sampled.
    pub sampling: u32,
    /// Expected packets of the query within `period`.
    pub packets: f64,
    /// Window of the query, or the assumed period, in seconds.
    pub period: f64,
    /// Exported Mb/s.
    pub mbps: f64,
    /// Cores of the switches.
    pub switch_cores: f64,
    /// Cores of the process that receives.
    pub receiver_cores: f64,
}

impl ExportPart {
    /// Names of the switches, with commas.
    #[must_use]
    pub fn names(&self) -> String {
        let names = self.switches.iter().map(|switch| switch.name.as_str());
        names.collect::<Vec<_>>().join(", ")
    }

    /// Expected relative error of a count with this share of the query's packets: half the 95 % interval.
    #[must_use]
    pub fn error(&self, share: f64) -> f64 {
        let unsampled = f64::from(self.sampling) - 1.0;
        DEVIATIONS * (unsampled / (self.packets * share).max(1.0)).sqrt()
    }

    /// The accuracy of results as text.
    #[must_use]
    pub fn accuracy(&self) -> String {
        if self.sampling == 1 {
            return "every packet is exported; lost datagrams are missing".to_owned();
        }
        format!(
            "counts and sums are estimates from 1 of {} packets; 95 % error in {} s: about ±{:.1} % of the total, ±{:.1} % of a group with a tenth of the traffic",
            self.sampling,
            self.period,
            self.error(1.0) * 100.0,
            self.error(0.1) * 100.0
        )
    }

    /// The estimated cost as text.
    #[must_use]
    pub fn cost(&self) -> String {
        format!(
            "{:.4} cores and {:.2} Mb/s of exports",
            self.switch_cores + self.receiver_cores,
            self.mbps
        )
    }
}

impl fmt::Display for ExportPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.slot {
            ExporterSlot::Ipfix => write!(f, "IPFIX records")?,
            _ => write!(f, "sFlow samples")?,
        }
        write!(f, " of 1 in {} packets", self.sampling)
    }
}
