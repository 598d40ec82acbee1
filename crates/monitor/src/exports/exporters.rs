//! Differences between the clocks of exporters and receiver.

use telemetry::{ClockMap, ExportDomain};
use wire::Timestamp;

/// Largest difference between the clocks of exporter and receiver, including the time of transport, that times are not
/// corrected for.
pub(super) const CLOCK_OFFSET_MAX_NS: i64 = 2_000_000_000;
/// Domains with a known offset; the least recently used ones are forgotten.
const DOMAINS_MAX: usize = 16_384;

/// The latest offset of each domain.
#[derive(Debug)]
pub(super) struct ExporterClocks {
    offsets: ClockMap<ExportDomain, i64>,
    /// Domain and offset of the latest record: messages have several.
    latest: Option<(ExportDomain, i64)>,
}

impl Default for ExporterClocks {
    fn default() -> ExporterClocks {
        ExporterClocks {
            offsets: ClockMap::new(DOMAINS_MAX),
            latest: None,
        }
    }
}

impl ExporterClocks {
    /// Takes the exporter's time of a message; returns the correction for times of its records, in nanoseconds.
    pub fn correction_ns(
        &mut self,
        domain: ExportDomain,
        exported: Timestamp,
        received: Timestamp,
    ) -> i64 {
        let offset_ns = exported.0.saturating_sub(received.0);
        if self.latest != Some((domain, offset_ns)) {
            self.offsets.insert(domain, offset_ns);
            self.latest = Some((domain, offset_ns));
        }
        if offset_ns.saturating_abs() > CLOCK_OFFSET_MAX_NS {
            offset_ns.saturating_neg()
        } else {
            0
        }
    }

    /// The exporter's clock minus the receiver's.
    pub fn offset_ns(&self, domain: &ExportDomain) -> Option<i64> {
        self.offsets.get(domain).copied()
    }
}
