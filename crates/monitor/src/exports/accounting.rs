//! Counts of received export messages and their records by outcome, and the state of every exporter.

use std::net::IpAddr;

use flow::CaptureLoss;
use telemetry::{ExportCounters, ExportDomain, ExportProtocol, SequenceLosses};

use super::exporters::{CLOCK_OFFSET_MAX_NS, ExporterClocks};

/// Exporters listed one by one: those with the largest losses.
const EXPORTERS_LISTED: usize = 64;

/// Counts since the start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExportAccounting {
    /// Counts of the decoder.
    pub decoded: ExportCounters,
    /// Packets that are neither UDP nor TCP, and segments of connections that carry no messages.
    pub not_export: u64,
    /// Segments after missing ones, or without a message header where one is expected, on connections with messages.
    pub stream_gaps: u64,
    /// Samples that became tuples.
    pub samples_read: u64,
    /// Flow records that became tuples.
    pub flows_read: u64,
    /// Reports of interfaces that became tuples.
    pub interfaces_read: u64,
    /// Samples whose packet cannot be decoded: not IP, fragments, cut headers.
    pub undecodable: u64,
    /// Records and samples that the query does not read: flow records if it reads packets, or the reverse.
    pub unread: u64,
    /// Records and samples that FROM and TO exclude.
    pub filtered: u64,
    /// Records and samples of a flow that the exporter also reports at another point.
    pub repeated: u64,
    /// Records and samples without a reported sampling rate, taken as unsampled.
    pub assumed_rates: u64,
    /// Flow records without packets and bytes.
    pub without_counters: u64,
    /// The file with the templates of the last run could not be read or written.
    pub template_file_errors: u64,
    /// Records and samples received and lost.
    pub loss: CaptureLoss,
    /// Number of domains of exporters.
    pub domains: u64,
    /// Domains with the largest losses.
    pub exporters: Vec<ExporterState>,
}

/// State of one domain of an exporter.
#[derive(Clone, Debug, PartialEq)]
pub struct ExporterState {
    /// Address of the exporter.
    pub exporter: IpAddr,
    /// Protocol of its messages.
    pub protocol: ExportProtocol,
    /// Observation domain, source, or sub-agent.
    pub domain: u32,
    /// Units of its sequence numbers: datagrams (sFlow, NetFlow v9) or records.
    pub losses: SequenceLosses,
    /// Clock of the exporter minus that of the receiver, in nanoseconds; `None` without a clock (sFlow).
    pub clock_offset_ns: Option<i64>,
}

impl ExporterState {
    /// Whether the clocks differ so much that times were corrected.
    #[must_use]
    pub fn is_clock_off(&self) -> bool {
        self.clock_offset_ns
            .is_some_and(|ns| ns.saturating_abs() > CLOCK_OFFSET_MAX_NS)
    }
}

impl ExportAccounting {
    /// Adds the counts of another worker.
    pub fn add(&mut self, other: &ExportAccounting) {
        self.decoded.add(&other.decoded);
        for (mine, theirs) in [
            (&mut self.not_export, other.not_export),
            (&mut self.stream_gaps, other.stream_gaps),
            (&mut self.samples_read, other.samples_read),
            (&mut self.flows_read, other.flows_read),
            (&mut self.interfaces_read, other.interfaces_read),
            (&mut self.undecodable, other.undecodable),
            (&mut self.unread, other.unread),
            (&mut self.filtered, other.filtered),
            (&mut self.repeated, other.repeated),
            (&mut self.assumed_rates, other.assumed_rates),
            (&mut self.without_counters, other.without_counters),
            (&mut self.template_file_errors, other.template_file_errors),
            (&mut self.loss.seen, other.loss.seen),
            (&mut self.loss.unseen, other.loss.unseen),
            (&mut self.domains, other.domains),
        ] {
            *mine += theirs;
        }
        self.exporters.extend(other.exporters.iter().cloned());
        self.list();
    }

    /// Whether any packet was read as an export message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == ExportAccounting::default()
    }

    /// Adds the states of the decoder's domains.
    pub(super) fn add_exporters(
        &mut self,
        domains: impl Iterator<Item = (ExportDomain, SequenceLosses)>,
        clocks: &ExporterClocks,
    ) {
        let mut shares = 0.0;
        let mut received = 0;
        for (domain, losses) in domains {
            self.domains += 1;
            received += losses.received;
            shares += losses.lost as f64;
            self.exporters.push(ExporterState {
                exporter: domain.exporter,
                protocol: domain.protocol,
                domain: domain.id,
                losses,
                clock_offset_ns: clocks.offset_ns(&domain),
            });
        }
        // A lost datagram is taken to contain as many records as a received one.
        let seen = self.decoded.flows + self.decoded.samples;
        let unseen = shares / (received.max(1) as f64) * seen as f64;
        self.loss = CaptureLoss {
            seen,
            unseen: unseen.round() as u64,
        };
        self.list();
    }

    /// Keeps the exporters with the largest losses, in a fixed order.
    fn list(&mut self) {
        self.exporters.sort_unstable_by(|a, b| {
            let key = |of: &ExporterState| (of.exporter, of.protocol, of.domain);
            b.losses
                .lost
                .cmp(&a.losses.lost)
                .then(key(a).cmp(&key(b)))
                .then(b.losses.received.cmp(&a.losses.received))
        });
        self.exporters.truncate(EXPORTERS_LISTED);
    }
}
