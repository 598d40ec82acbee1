//! All counters of a run by name. The compiler reports a missing new counter here.

use std::collections::BTreeMap;

use flow::CloseReason;
use monitor::{ExportAccounting, PacketAccounting};
use wire::DecodeError;

/// Counts by name, in the order of printing.
pub type Counts = Vec<(&'static str, u64)>;

pub fn filtered(a: &PacketAccounting) -> Counts {
    let monitor::accounting::FilterCounts {
        address,
        direction,
        tap,
        early,
    } = a.filtered;
    vec![
        ("address", address),
        ("direction", direction),
        ("tap", tap),
        ("early", early),
    ]
}

pub fn tap_counts(taps: &stream::TapCounts) -> Counts {
    let stream::TapCounts {
        joined,
        client_only,
        server_only,
        unkept,
    } = *taps;
    vec![
        ("joined", joined),
        ("client_only", client_only),
        ("server_only", server_only),
        ("unkept", unkept),
    ]
}

pub fn fragments(a: &PacketAccounting) -> Counts {
    let monitor::fragments::FragmentCounters {
        reassembled,
        incomplete,
        evicted,
        overlaps,
        malformed,
    } = a.fragments;
    vec![
        ("reassembled", reassembled),
        ("incomplete", incomplete),
        ("evicted", evicted),
        ("overlaps", overlaps),
        ("malformed", malformed),
    ]
}

pub fn tls_counts(of: &monitor::accounting::TlsAccounting) -> Counts {
    let monitor::accounting::TlsAccounting {
        decrypted,
        keys_missing,
        unsupported: _,
        unreadable,
        resyncs,
        sealed_records,
        keys_evicted,
    } = *of;
    vec![
        ("decrypted", decrypted),
        ("keys_missing", keys_missing),
        ("unreadable", unreadable),
        ("resyncs", resyncs),
        ("sealed_records", sealed_records),
        ("keys_evicted", keys_evicted),
    ]
}

pub fn losses(source: &capture::SourceCounters) -> Counts {
    vec![("buffer_overflows", source.buffer_overflows)]
}

pub fn undecodable(a: &PacketAccounting) -> Counts {
    DecodeError::ALL
        .iter()
        .map(|cause| (cause.name(), a.undecodable[*cause as usize]))
        .collect()
}

/// Undecodable packets by the name of their protocol.
pub fn protocols(a: &PacketAccounting) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for (protocol, packets) in &a.undecodable_protocols {
        *counts.entry(protocol.to_string()).or_default() += packets;
    }
    counts
}

pub fn flow_counts(c: &flow::FlowTableCounters) -> Counts {
    let flow::FlowTableCounters {
        packets,
        opened,
        reopened,
        closed: _,
        terminated,
        gaps,
        gap_bytes,
        held_overflows,
        acks_disbelieved,
        held_bytes_peak,
        implausible,
        resyncs,
        resets_ignored,
        syns_ignored,
        acks_ignored,
        damaged,
        checksums_unverified,
        stragglers,
        duplicates,
        duplicates_ambiguous,
        stream_bytes,
        acked_unseen_bytes,
        unseen_direction_bytes,
        clock_rebases,
        connections_resumed,
        connections_forgotten,
    } = *c;
    vec![
        ("opened", opened),
        ("reopened", reopened),
        ("packets", packets),
        ("terminated", terminated),
        ("gaps", gaps),
        ("gap_bytes", gap_bytes),
        ("held_overflows", held_overflows),
        ("acks_disbelieved", acks_disbelieved),
        ("held_bytes_peak", held_bytes_peak),
        ("implausible", implausible),
        ("resyncs", resyncs),
        ("resets_ignored", resets_ignored),
        ("syns_ignored", syns_ignored),
        ("acks_ignored", acks_ignored),
        ("damaged", damaged),
        ("checksums_unverified", checksums_unverified),
        ("stragglers", stragglers),
        ("duplicates", duplicates),
        ("duplicates_ambiguous", duplicates_ambiguous),
        ("stream_bytes", stream_bytes),
        ("acked_unseen_bytes", acked_unseen_bytes),
        ("unseen_direction_bytes", unseen_direction_bytes),
        ("clock_rebases", clock_rebases),
        ("connections_resumed", connections_resumed),
        ("connections_forgotten", connections_forgotten),
    ]
}

/// Counters of the flow table that indicate missing data.
pub fn flow_trouble(c: &flow::FlowTableCounters) -> Counts {
    let mut counts = flow_counts(c);
    counts.retain(|(name, _)| {
        !matches!(
            *name,
            "opened"
                | "packets"
                | "terminated"
                | "held_bytes_peak"
                | "stragglers"
                | "stream_bytes"
                | "connections_resumed"
        )
    });
    counts.push(("evicted", c.closed_for(CloseReason::Evicted)));
    counts
}

pub fn closed(c: &flow::FlowTableCounters) -> Counts {
    use CloseReason::*;
    [EndOfInput, Evicted, Fin, Idle, PortReused, Rst]
        .map(|reason| (reason.name(), c.closed_for(reason)))
        .to_vec()
}

pub fn parser_counts(c: &parsers::ParserCounters) -> Counts {
    let parsers::ParserCounters {
        malformed_messages,
        skipped_bytes,
        resyncs,
        oversized_heads,
        evicted_requests,
        encrypted_flows,
        compressed_flows,
        protected_messages,
        retransmitted_calls,
        repeated_replies,
        separated_halves,
        evicted_names,
        unrecognized_bytes,
        evicted_statements,
        unchecked_blocks,
        parsed_bytes,
        copied_bytes,
    } = *c;
    vec![
        ("malformed_messages", malformed_messages),
        ("skipped_bytes", skipped_bytes),
        ("resyncs", resyncs),
        ("oversized_heads", oversized_heads),
        ("evicted_requests", evicted_requests),
        ("encrypted_flows", encrypted_flows),
        ("compressed_flows", compressed_flows),
        ("protected_messages", protected_messages),
        ("retransmitted_calls", retransmitted_calls),
        ("repeated_replies", repeated_replies),
        ("separated_halves", separated_halves),
        ("evicted_names", evicted_names),
        ("unrecognized_bytes", unrecognized_bytes),
        ("evicted_statements", evicted_statements),
        ("unchecked_blocks", unchecked_blocks),
        ("parsed_bytes", parsed_bytes),
        ("copied_bytes", copied_bytes),
    ]
}

/// Counters of the parsers that indicate anomalies.
pub fn parser_trouble(c: &parsers::ParserCounters) -> Counts {
    let mut counts = parser_counts(c);
    counts.retain(|(name, _)| !matches!(*name, "parsed_bytes" | "copied_bytes"));
    counts
}

pub fn stream_counts(c: &stream::EngineCounters) -> Counts {
    let stream::EngineCounters {
        tuples_in,
        tuples_filtered,
        tuples_joined,
        tuples_null_value,
        tuples_late,
        groups_overflowed,
        windows_forced,
        empty_windows_skipped,
        sketches_coarsened,
        rates_merged,
        sums_saturated,
        rows_filtered,
        rows_beyond_limit,
        join_dropped,
        positions_forgotten,
        blocks_skipped,
        join_expired,
    } = *c;
    vec![
        ("tuples_in", tuples_in),
        ("tuples_filtered", tuples_filtered),
        ("tuples_joined", tuples_joined),
        ("tuples_null_value", tuples_null_value),
        ("tuples_late", tuples_late),
        ("groups_overflowed", groups_overflowed),
        ("windows_forced", windows_forced),
        ("empty_windows_skipped", empty_windows_skipped),
        ("sketches_coarsened", sketches_coarsened),
        ("rates_merged", rates_merged),
        ("sums_saturated", sums_saturated),
        ("rows_filtered", rows_filtered),
        ("rows_beyond_limit", rows_beyond_limit),
        ("join_dropped", join_dropped),
        ("positions_forgotten", positions_forgotten),
        ("blocks_skipped", blocks_skipped),
        ("join_expired", join_expired),
    ]
}

pub fn stream_trouble(c: &stream::EngineCounters) -> Counts {
    let mut counts = stream_counts(c);
    counts.retain(|(name, _)| !matches!(*name, "tuples_in" | "join_expired"));
    counts
}

/// Export messages and their records.
pub fn exports(e: &ExportAccounting) -> Counts {
    let d = &e.decoded;
    vec![
        ("messages", d.messages),
        ("samples", d.samples),
        ("flow_records", d.flows),
        ("discarded_packets", d.discarded),
        ("interface_counters", d.interface_counters),
        ("options", d.options),
        ("templates", d.templates),
        ("samples_read", e.samples_read),
        ("flow_records_read", e.flows_read),
        ("interface_counters_read", e.interfaces_read),
        ("exporters", e.domains),
    ]
}

/// Faults of export messages, and records that are not rows.
pub fn export_trouble(e: &ExportAccounting) -> Counts {
    let d = &e.decoded;
    vec![
        ("not_export", e.not_export + d.not_export),
        ("stream_gaps", e.stream_gaps),
        ("malformed", d.malformed),
        ("unread", e.unread),
        ("filtered", e.filtered),
        ("reported_twice", e.repeated),
        ("undecodable", e.undecodable),
        ("without_counters", e.without_counters),
        ("assumed_rates", e.assumed_rates),
        ("skipped_formats", d.skipped_formats),
        (
            "sets_without_template",
            d.sets_held.saturating_sub(d.sets_decoded_late),
        ),
        ("sets_decoded_late", d.sets_decoded_late),
        ("sets_discarded", d.sets_discarded),
        ("templates_rejected", d.templates_rejected),
        ("templates_evicted", d.templates_evicted),
        ("templates_withdrawn", d.templates_withdrawn),
        ("domains_evicted", d.domains_evicted),
        ("template_file_errors", e.template_file_errors),
        ("times_rejected", d.times_rejected),
        ("totals_without_base", d.totals_without_base),
    ]
}
