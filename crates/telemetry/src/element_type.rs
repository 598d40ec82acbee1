//! Abstract data types of information elements (RFC 7011 section 6.1), and values as text.

use std::net::{Ipv4Addr, Ipv6Addr};

use wire::Timestamp;

use crate::cursor::unsigned;
use crate::elements::ntp;

/// Data type of an element, as far as its text differs from that of other types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementType {
    /// `unsigned8` to `unsigned64`, `dateTimeSeconds`, `dateTimeMilliseconds`: a number.
    Unsigned,
    /// `signed8` to `signed64`: a number.
    Signed,
    /// `float32`, `float64`: a number.
    Float,
    /// `boolean`: `true` or `false`.
    Boolean,
    /// `macAddress`: hexadecimal with colons.
    MacAddress,
    /// `string`: UTF-8.
    String,
    /// `ipv4Address`.
    Ipv4Address,
    /// `ipv6Address`.
    Ipv6Address,
    /// `dateTimeMicroseconds`, `dateTimeNanoseconds`: seconds since 1970, with a fraction.
    NtpTime,
    /// `octetArray` and structured data: hexadecimal.
    Octets,
}

impl ElementType {
    /// The type with a name of RFC 7012 section 3.1.
    pub(crate) fn from_name(name: &str) -> Option<ElementType> {
        Some(match name {
            "unsigned8"
            | "unsigned16"
            | "unsigned32"
            | "unsigned64"
            | "dateTimeSeconds"
            | "dateTimeMilliseconds" => ElementType::Unsigned,
            "signed8" | "signed16" | "signed32" | "signed64" => ElementType::Signed,
            "float32" | "float64" => ElementType::Float,
            "boolean" => ElementType::Boolean,
            "macAddress" => ElementType::MacAddress,
            "string" => ElementType::String,
            "ipv4Address" => ElementType::Ipv4Address,
            "ipv6Address" => ElementType::Ipv6Address,
            "dateTimeMicroseconds" | "dateTimeNanoseconds" => ElementType::NtpTime,
            "octetArray" | "basicList" | "subTemplateList" | "subTemplateMultiList" => {
                ElementType::Octets
            }
            _ => return None,
        })
    }

    /// A value as text; hexadecimal if its length is impossible for the type.
    #[must_use]
    pub fn text(self, value: &[u8]) -> String {
        self.known_text(value).unwrap_or_else(|| hexadecimal(value))
    }

    fn known_text(self, value: &[u8]) -> Option<String> {
        Some(match self {
            ElementType::Unsigned => unsigned(value)?.to_string(),
            ElementType::Signed => signed(value)?.to_string(),
            ElementType::Float => match *value {
                [a, b, c, d] => f32::from_be_bytes([a, b, c, d]).to_string(),
                _ => f64::from_be_bytes(value.try_into().ok()?).to_string(),
            },
            ElementType::Boolean => match value {
                [1] => "true".to_owned(),
                [2] => "false".to_owned(),
                _ => return None,
            },
            ElementType::MacAddress => {
                let [a, b, c, d, e, f] = *<&[u8; 6]>::try_from(value).ok()?;
                format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
            }
            ElementType::String => {
                let text = String::from_utf8_lossy(value);
                // NetFlow v9 pads strings with zeros.
                text.trim_end_matches('\0').to_owned()
            }
            ElementType::Ipv4Address => {
                Ipv4Addr::from(<[u8; 4]>::try_from(value).ok()?).to_string()
            }
            ElementType::Ipv6Address => {
                Ipv6Addr::from(<[u8; 16]>::try_from(value).ok()?).to_string()
            }
            ElementType::NtpTime => Timestamp(ntp(value)?).to_string(),
            ElementType::Octets => return None,
        })
    }
}

/// A signed integer of one to eight bytes in reduced-size encoding (RFC 7011 section 6.2).
fn signed(value: &[u8]) -> Option<i64> {
    let bits = unsigned(value)?;
    let unused = 64 - 8 * value.len();
    Some((bits << unused) as i64 >> unused)
}

fn hexadecimal(value: &[u8]) -> String {
    value.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_text_of_their_type() {
        for (name, value, text) in [
            ("unsigned32", &[0, 0, 1, 2][..], "258"),
            ("unsigned64", &[7], "7"),
            ("signed32", &[0xff, 0xfe], "-2"),
            (
                "signed64",
                &[0x80, 0, 0, 0, 0, 0, 0, 0],
                "-9223372036854775808",
            ),
            ("float32", &[0x3f, 0, 0, 0], "0.5"),
            ("float64", &[0xc0, 0, 0, 0, 0, 0, 0, 0], "-2"),
            ("boolean", &[2], "false"),
            ("macAddress", &[2, 0, 0, 0, 0, 0xaf], "02:00:00:00:00:af"),
            ("string", b"eth0\0\0\0", "eth0"),
            ("string", "größe".as_bytes(), "größe"),
            ("ipv4Address", &[10, 0, 0, 1], "10.0.0.1"),
            ("ipv6Address", &[0; 16], "::"),
            ("dateTimeMilliseconds", &[0, 0, 1, 0], "256"),
            (
                "dateTimeNanoseconds",
                &[0x83, 0xaa, 0x7e, 0x81, 0x80, 0, 0, 0],
                "1.500000000",
            ),
            ("octetArray", &[1, 0xff], "01ff"),
        ] {
            let data_type = ElementType::from_name(name).expect("a type");
            assert_eq!(data_type.text(value), text, "{name}");
        }
    }

    #[test]
    fn values_of_impossible_length_are_hexadecimal() {
        for name in [
            "unsigned32",
            "signed32",
            "float64",
            "boolean",
            "macAddress",
            "ipv4Address",
            "ipv6Address",
            "dateTimeNanoseconds",
        ] {
            let data_type = ElementType::from_name(name).expect("a type");
            assert_eq!(data_type.text(&[]), "", "{name}");
            assert_eq!(data_type.text(&[1; 9]), "01".repeat(9), "{name}");
        }
    }
}
