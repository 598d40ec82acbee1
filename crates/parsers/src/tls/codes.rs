//! Names of versions, cipher suites, and alerts (IANA registries of TLS parameters).

use memchr::memmem;

/// TLS 1.3.
pub const TLS13: u16 = 0x0304;
/// TLS 1.2, also the legacy version in TLS 1.3.
pub const TLS12: u16 = 0x0303;

/// One line per suite: number and name.
const CIPHERS: &str = include_str!("ciphers.txt");

/// Whether a version is TLS 1.3, or a draft of it.
pub fn is_tls13(version: u16) -> bool {
    version == TLS13 || matches!(version >> 8, 0x7f | 0xfb)
}

/// Whether a number is a GREASE value (RFC 8701).
pub fn is_grease(code: u16) -> bool {
    code & 0x0f0f == 0x0a0a && code >> 8 == code & 0xff
}

/// The name of a version.
pub fn version(version: u16) -> Option<&'static str> {
    Some(match version {
        0x0300 => "SSL 3.0",
        0x0301 => "TLS 1.0",
        0x0302 => "TLS 1.1",
        TLS12 => "TLS 1.2",
        _ if is_tls13(version) => "TLS 1.3",
        _ => return None,
    })
}

/// The name of a cipher suite.
pub fn cipher(code: u16) -> Option<&'static str> {
    let line = format!("{code:04x} ");
    let at = memmem::find_iter(CIPHERS.as_bytes(), &line)
        .find(|at| *at == 0 || CIPHERS.as_bytes()[at - 1] == b'\n')?;
    CIPHERS[at + line.len()..].lines().next()
}

/// The name of an alert.
pub fn alert(code: u8) -> Option<&'static str> {
    Some(match code {
        0 => "close_notify",
        10 => "unexpected_message",
        20 => "bad_record_mac",
        21 => "decryption_failed",
        22 => "record_overflow",
        30 => "decompression_failure",
        40 => "handshake_failure",
        41 => "no_certificate",
        42 => "bad_certificate",
        43 => "unsupported_certificate",
        44 => "certificate_revoked",
        45 => "certificate_expired",
        46 => "certificate_unknown",
        47 => "illegal_parameter",
        48 => "unknown_ca",
        49 => "access_denied",
        50 => "decode_error",
        51 => "decrypt_error",
        60 => "export_restriction",
        70 => "protocol_version",
        71 => "insufficient_security",
        80 => "internal_error",
        86 => "inappropriate_fallback",
        90 => "user_canceled",
        100 => "no_renegotiation",
        109 => "missing_extension",
        110 => "unsupported_extension",
        111 => "certificate_unobtainable",
        112 => "unrecognized_name",
        113 => "bad_certificate_status_response",
        114 => "bad_certificate_hash_value",
        115 => "unknown_psk_identity",
        116 => "certificate_required",
        120 => "no_application_protocol",
        121 => "ech_required",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_suite_is_found_by_its_number() {
        assert_eq!(cipher(0), Some("TLS_NULL_WITH_NULL_NULL"));
        assert_eq!(cipher(0x1301), Some("TLS_AES_128_GCM_SHA256"));
        assert_eq!(
            cipher(0xc030),
            Some("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384")
        );
        assert_eq!(cipher(0x0a0a), None);
        for line in CIPHERS.lines() {
            let (code, name) = line.split_once(' ').expect("a number and a name");
            assert_eq!(
                cipher(u16::from_str_radix(code, 16).expect("a number")),
                Some(name)
            );
        }
    }

    #[test]
    fn grease_is_known() {
        assert!([0x0a0a, 0x1a1a, 0xfafa].into_iter().all(is_grease));
        assert!(![0x0a1a, 0x1301, 0x0000].into_iter().any(is_grease));
    }
}
