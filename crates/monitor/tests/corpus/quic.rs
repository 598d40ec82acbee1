//! Handshakes of QUIC in captures of the corpus, with the values that tshark shows of the same packets.

use crate::support::{captures, run};

/// Capture, server name, offered protocols, whether the server answered.
const HANDSHAKES: &[(&str, &str, &str, bool)] = &[
    (
        "ja4-quic-with-secrets.pcapng",
        "cloudflare-quic.com",
        "h3",
        true,
    ),
    ("mercury-emix.pcap.gz", "ss-azure-svr", "smb", true),
];

#[test]
fn handshakes_are_those_of_tshark() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    let mut seen = 0;
    for capture in captures(&root, &["captures/tls-keys", "captures/mixed"]) {
        let name = capture.file_name().expect("a file").to_string_lossy();
        for row in run(&capture, "quic").rows {
            let (_, sni, protocols, is_answered) = HANDSHAKES
                .iter()
                .find(|(file, ..)| *file == name)
                .unwrap_or_else(|| panic!("{name}: {row:?}"));
            assert_eq!(row["sni"], *sni, "{name}");
            assert_eq!(row["alpn_offered"], *protocols, "{name}");
            assert_eq!(row.contains_key("cipher"), *is_answered, "{name}");
            seen += 1;
        }
    }
    assert_eq!(seen, HANDSHAKES.len());
}
