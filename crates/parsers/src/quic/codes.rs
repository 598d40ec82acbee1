//! Names of transport errors (RFC 9000 section 20.1, RFC 9368).

use crate::tls::codes;

/// Names of the codes from 0.
const NAMES: &[&str] = &[
    "NO_ERROR",
    "INTERNAL_ERROR",
    "CONNECTION_REFUSED",
    "FLOW_CONTROL_ERROR",
    "STREAM_LIMIT_ERROR",
    "STREAM_STATE_ERROR",
    "FINAL_SIZE_ERROR",
    "FRAME_ENCODING_ERROR",
    "TRANSPORT_PARAMETER_ERROR",
    "CONNECTION_ID_LIMIT_ERROR",
    "PROTOCOL_VIOLATION",
    "INVALID_TOKEN",
    "APPLICATION_ERROR",
    "CRYPTO_BUFFER_EXCEEDED",
    "KEY_UPDATE_ERROR",
    "AEAD_LIMIT_REACHED",
    "NO_VIABLE_PATH",
    "VERSION_NEGOTIATION_ERROR",
];

/// Name of an error code, or its number in hexadecimal.
pub fn error(code: u64) -> String {
    let name = usize::try_from(code).ok().and_then(|code| NAMES.get(code));
    match (name, code) {
        (Some(name), _) => (*name).to_owned(),
        (None, 0x100..=0x1ff) => {
            let alert = code as u8;
            let alert = codes::alert(alert).map_or_else(|| alert.to_string(), str::to_owned);
            format!("CRYPTO_ERROR {alert}")
        }
        (None, _) => format!("0x{code:x}"),
    }
}
