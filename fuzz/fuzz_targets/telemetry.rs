//! Arbitrary export datagrams of a few exporters.
#![no_main]

use std::net::SocketAddr;

use libfuzzer_sys::fuzz_target;
use telemetry::{ExportDecoder, ExportEvent, ExportLimits};
use wire::Timestamp;

fuzz_target!(|datagrams: Vec<(u8, &[u8])>| {
    let limits = ExportLimits {
        domains: 4,
        templates_per_domain: 8,
        template_bytes: 4096,
        pending_bytes: 4096,
        totals: 8,
        ..ExportLimits::default()
    };
    let mut decoder = ExportDecoder::new(limits);
    let bytes: usize = datagrams.iter().map(|(_, datagram)| datagram.len()).sum();
    let mut events = 0;
    for (exporter, datagram) in &datagrams {
        let exporter = SocketAddr::from(([10, 0, 0, exporter & 7], 1));
        decoder.decode(
            exporter,
            Timestamp(i64::from(exporter.port())),
            datagram,
            |event| {
                events += 1;
                if let ExportEvent::Flow(_, Some(record)) = event {
                    assert!(record.fields().all(|field| field.value.len() <= bytes));
                }
            },
        );
    }
    // A record has at least a byte.
    assert!(events <= bytes);
    let saved = decoder.save();
    ExportDecoder::new(limits)
        .restore(&saved)
        .expect("a saved state");
});
