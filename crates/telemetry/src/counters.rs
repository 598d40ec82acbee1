//! Counters of a decoder: received and discarded messages and records.

/// Counters since the start of an [`ExportDecoder`](crate::ExportDecoder).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportCounters {
    /// Messages; an IPFIX stream or datagram can have several.
    pub messages: u64,
    /// Messages of an unknown version, or shorter than their header.
    pub not_export: u64,
    /// Messages with a length or a count that their bytes contradict; records before the fault are decoded.
    pub malformed: u64,
    /// Flow records decoded.
    pub flows: u64,
    /// Packet samples decoded (sFlow).
    pub samples: u64,
    /// Discarded packets reported (sFlow).
    pub discarded: u64,
    /// Sets of interface counters decoded (sFlow).
    pub interface_counters: u64,
    /// Samples and records of a format that is not read (sFlow), skipped by their length.
    pub skipped_formats: u64,
    /// Options records decoded.
    pub options: u64,
    /// Templates accepted, repetitions included.
    pub templates: u64,
    /// Templates rejected: too many fields, or a record without bytes.
    pub templates_rejected: u64,
    /// Templates discarded because a domain has too many.
    pub templates_evicted: u64,
    /// Templates withdrawn by their exporter (IPFIX).
    pub templates_withdrawn: u64,
    /// Data sets that arrived before their template.
    pub sets_held: u64,
    /// Held data sets that were decoded when their template arrived.
    pub sets_decoded_late: u64,
    /// Held data sets that were discarded: their template did not arrive in time, or too many bytes were held.
    pub sets_discarded: u64,
    /// Domains discarded because there were too many.
    pub domains_evicted: u64,
    /// Timestamps that contradict the time of the export; null in their records.
    pub times_rejected: u64,
    /// Records with total counters whose flow was unknown; packets and bytes are null.
    pub totals_without_base: u64,
}

impl ExportCounters {
    /// Adds the counters of another decoder.
    pub fn add(&mut self, other: &ExportCounters) {
        for (mine, theirs) in [
            (&mut self.messages, other.messages),
            (&mut self.not_export, other.not_export),
            (&mut self.malformed, other.malformed),
            (&mut self.flows, other.flows),
            (&mut self.samples, other.samples),
            (&mut self.discarded, other.discarded),
            (&mut self.interface_counters, other.interface_counters),
            (&mut self.skipped_formats, other.skipped_formats),
            (&mut self.options, other.options),
            (&mut self.templates, other.templates),
            (&mut self.templates_rejected, other.templates_rejected),
            (&mut self.templates_evicted, other.templates_evicted),
            (&mut self.templates_withdrawn, other.templates_withdrawn),
            (&mut self.sets_held, other.sets_held),
            (&mut self.sets_decoded_late, other.sets_decoded_late),
            (&mut self.sets_discarded, other.sets_discarded),
            (&mut self.domains_evicted, other.domains_evicted),
            (&mut self.times_rejected, other.times_rejected),
            (&mut self.totals_without_base, other.totals_without_base),
        ] {
            *mine += theirs;
        }
    }
}
