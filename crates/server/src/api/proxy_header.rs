//! The header of the PROXY protocol, versions 1 and 2, on connections from trusted proxies: it is required there, taken off before TLS,
//! and names the client. Connections from other addresses are left as they are.
//!
//! It reads no byte after the header. `parsers` knows the form.

use std::io::{Error, ErrorKind, Result};
use std::net::SocketAddr;

use parsers::proxy_header::{CHECKED_BYTES_MAX, ProxyHeader, ProxyHeaderProbe, is_sound, read};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Reads a header. Returns the client's address; `None` if the header names none, because the proxy itself is the
/// client.
///
/// # Errors
/// The stream's; [`ErrorKind::InvalidData`] if it does not begin with a valid header.
pub async fn client(stream: &mut (impl AsyncRead + Unpin)) -> Result<Option<SocketAddr>> {
    let mut held = Vec::new();
    loop {
        let missing = match read(&held) {
            ProxyHeaderProbe::Other => {
                return Err(invalid("no PROXY protocol header was received"));
            }
            ProxyHeaderProbe::Open => 1,
            ProxyHeaderProbe::Header(ProxyHeader { len, .. }) if len > CHECKED_BYTES_MAX => {
                return Err(invalid("a PROXY protocol header is too long"));
            }
            ProxyHeaderProbe::Header(ProxyHeader { len, .. }) if len > held.len() => {
                len - held.len()
            }
            ProxyHeaderProbe::Header(_) if !is_sound(&held) => {
                return Err(invalid("a PROXY protocol header has a wrong checksum"));
            }
            ProxyHeaderProbe::Header(ProxyHeader { proxied, .. }) => {
                return Ok(
                    proxied.map(|ends| SocketAddr::new(ends.client.addr.to_ip(), ends.client.port))
                );
            }
        };
        let begin = held.len();
        held.resize(begin + missing, 0);
        stream.read_exact(&mut held[begin..]).await?;
    }
}

fn invalid(why: &str) -> Error {
    Error::new(ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> (std::result::Result<Option<String>, ErrorKind>, usize) {
        let mut from = bytes;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        let found = runtime.block_on(client(&mut from));
        (
            found
                .map(|address| address.map(|of| of.to_string()))
                .map_err(|error| error.kind()),
            from.len(),
        )
    }

    fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let len = (rest.len() as u16).to_be_bytes();
        [
            b"\r\n\r\n\0\r\nQUIT\n".as_slice(),
            &[command, family],
            &len,
            rest,
            b"GET ",
        ]
        .concat()
    }

    #[test]
    fn exactly_the_header_is_removed() {
        let named = |text: &str| Ok(Some(text.to_owned()));
        let four = [198, 51, 100, 7, 10, 0, 0, 2, 4, 210, 1, 187];
        let elements = [four.as_slice(), &[4, 0, 2, 7, 7]].concat();
        let wrong_sum = [four.as_slice(), &[3, 0, 4, 1, 2, 3, 4]].concat();
        let long = [four.as_slice(), &[0; 5000]].concat();
        let line = |text: &str| format!("{text}\r\nGET ").into_bytes();
        for (bytes, expected, left) in [
            (
                line("PROXY TCP4 198.51.100.7 10.0.0.2 1234 443"),
                named("198.51.100.7:1234"),
                Some(4),
            ),
            (
                line("PROXY TCP6 2001:db8::7 ::1 1234 443"),
                named("[2001:db8::7]:1234"),
                Some(4),
            ),
            (line("PROXY UNKNOWN"), Ok(None), Some(4)),
            (v2(0x21, 0x11, &four), named("198.51.100.7:1234"), Some(4)),
            (
                v2(0x21, 0x11, &elements),
                named("198.51.100.7:1234"),
                Some(4),
            ),
            // A connection of the proxy itself: a health check.
            (v2(0x20, 0, &[]), Ok(None), Some(4)),
            (
                v2(0x21, 0x11, &wrong_sum),
                Err(ErrorKind::InvalidData),
                Some(4),
            ),
            (v2(0x21, 0x11, &long), Err(ErrorKind::InvalidData), None),
            (line("GET / HTTP/1.1"), Err(ErrorKind::InvalidData), None),
            (
                line("PROXY TCP4 198.51.100.7 10.0.0.2 1234"),
                Err(ErrorKind::InvalidData),
                Some(4),
            ),
            (vec![22, 3, 1, 2, 0], Err(ErrorKind::InvalidData), Some(4)),
            (
                b"PROXY TCP4 198.51".to_vec(),
                Err(ErrorKind::UnexpectedEof),
                Some(0),
            ),
        ] {
            let (found, rest) = of(&bytes);
            assert_eq!(found, expected, "{}", bytes.escape_ascii());
            assert!(
                left.is_none_or(|left| left == rest),
                "{rest} bytes left of {}",
                bytes.escape_ascii()
            );
        }
    }
}
