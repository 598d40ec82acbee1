//! ClientHello and ServerHello (RFC 8446 section 4.1). If bytes are missing, the available part is parsed; an
//! extension is used only if complete.

use super::codes::{TLS12, is_grease, is_tls13};
use super::reader::TlsReader;

/// Random value of a HelloRetryRequest: SHA-256 of `HelloRetryRequest`.
const RETRY: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];
/// Extensions that are parsed.
const SERVER_NAME: u16 = 0;
const ALPN: u16 = 16;
const ENCRYPT_THEN_MAC: u16 = 22;
const PRE_SHARED_KEY: u16 = 41;
const EARLY_DATA: u16 = 42;
const SUPPORTED_VERSIONS: u16 = 43;
/// Maximum length of a host name.
const HOST_BYTES_MAX: usize = 255;

/// Parameters offered by a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientHello {
    /// Host name, in lower case.
    pub sni: Option<Vec<u8>>,
    /// Application protocols, separated by commas.
    pub alpn: Option<Vec<u8>>,
    /// The highest version.
    pub version: Option<u16>,
    /// Whether early data follows.
    pub early_data: bool,
}

/// Parameters chosen by a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerHello {
    pub version: Option<u16>,
    pub cipher: Option<u16>,
    pub alpn: Option<Vec<u8>>,
    /// A pre-shared key is used.
    pub pre_shared_key: bool,
    /// CBC suites encrypt before they authenticate (RFC 7366).
    pub encrypt_then_mac: bool,
    /// HelloRetryRequest: the client must offer other parameters.
    pub retry: bool,
}

/// Parses the body of a ClientHello; `whole`: no bytes are missing.
pub fn client(body: &[u8], whole: bool) -> Option<ClientHello> {
    let mut r = TlsReader(body);
    let legacy = r.u16()?;
    let mut hello = ClientHello::default();
    let mut versions = None;
    let complete = extensions(&mut r, skip_offers, |kind, data| match kind {
        SERVER_NAME => hello.sni = host(data),
        ALPN => hello.alpn = protocols(data),
        EARLY_DATA => hello.early_data = true,
        SUPPORTED_VERSIONS => versions = data.clone().vector8().map(highest),
        _ => {}
    });
    hello.version = versions.flatten().or((whole || complete).then_some(legacy));
    Some(hello)
}

/// Parses the body of a ServerHello; `whole`: no bytes are missing.
pub fn server(body: &[u8], whole: bool) -> Option<ServerHello> {
    let mut r = TlsReader(body);
    let legacy = r.u16()?;
    let mut hello = ServerHello {
        retry: body.get(2..34) == Some(&RETRY),
        ..ServerHello::default()
    };
    let mut version = None;
    let mut cipher = None;
    let skip = |r: &mut TlsReader<'_>| {
        r.take(32)?;
        r.vector8()?;
        cipher = Some(r.u16()?);
        r.u8().map(drop)
    };
    let complete = extensions(&mut r, skip, |kind, data| match kind {
        ALPN => hello.alpn = protocols(data),
        ENCRYPT_THEN_MAC => hello.encrypt_then_mac = true,
        PRE_SHARED_KEY => hello.pre_shared_key = true,
        SUPPORTED_VERSIONS => version = data.clone().u16(),
        _ => {}
    });
    hello.cipher = cipher;
    // Without the extension, the suite decides: TLS 1.3 has its own.
    let not_13 =
        whole || complete || legacy < TLS12 || cipher.is_some_and(|cipher| cipher >> 8 != 0x13);
    hello.version = version.or(not_13.then_some(legacy));
    Some(hello)
}

/// Parameters that a server chooses in EncryptedExtensions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncryptedExtensions {
    pub alpn: Option<Vec<u8>>,
    /// Early data are accepted.
    pub early_data: bool,
}

/// Parses the body of EncryptedExtensions.
pub fn encrypted_extensions(body: &[u8]) -> EncryptedExtensions {
    let mut found = EncryptedExtensions::default();
    extensions(
        &mut TlsReader(body),
        |_| Some(()),
        |kind, data| match kind {
            ALPN => found.alpn = protocols(data),
            EARLY_DATA => found.early_data = true,
            _ => {}
        },
    );
    found
}

/// Skips the part before a ClientHello's extensions: random value, session, suites, compression.
fn skip_offers(r: &mut TlsReader<'_>) -> Option<()> {
    r.take(32)?;
    r.vector8()?;
    r.vector16()?;
    r.vector8().map(drop)
}

/// Passes each complete extension to `read`; returns whether there are no others.
fn extensions<'a>(
    r: &mut TlsReader<'a>,
    skip: impl FnOnce(&mut TlsReader<'a>) -> Option<()>,
    mut read: impl FnMut(u16, &mut TlsReader<'a>),
) -> bool {
    if skip(r).is_none() {
        return false;
    }
    // SSL 3.0 and similar have no extensions.
    let Some(length) = r.u16() else {
        return r.is_empty();
    };
    let complete = r.0.len() >= length.into();
    let mut list = TlsReader(&r.0[..r.0.len().min(length.into())]);
    while let (Some(kind), Some(mut data)) = (list.u16(), list.vector16()) {
        read(kind, &mut data);
    }
    complete
}

/// The host name in a server name list (RFC 6066 section 3).
fn host(data: &mut TlsReader<'_>) -> Option<Vec<u8>> {
    let mut names = data.vector16()?;
    while let (Some(kind), Some(name)) = (names.u8(), names.vector16()) {
        if kind == 0 {
            return (name.0.len() <= HOST_BYTES_MAX).then(|| name.0.to_ascii_lowercase());
        }
    }
    None
}

/// Protocol names, separated by commas (RFC 7301).
fn protocols(data: &mut TlsReader<'_>) -> Option<Vec<u8>> {
    const BYTES_MAX: usize = 1024;
    let mut names = data.vector16()?;
    let mut text = Vec::new();
    while let Some(name) = names.vector8() {
        let is_grease =
            <[u8; 2]>::try_from(name.0).is_ok_and(|code| is_grease(u16::from_be_bytes(code)));
        if is_grease {
            continue;
        }
        if !text.is_empty() {
            text.push(b',');
        }
        text.extend_from_slice(name.0);
    }
    (text.len() <= BYTES_MAX).then_some(text)
}

/// The highest of some versions.
fn highest(mut versions: TlsReader<'_>) -> Option<u16> {
    let mut highest = None;
    while let Some(version) = versions.u16() {
        // Drafts have their own high numbers.
        if !is_grease(version) && (version <= 0x0304 || is_tls13(version)) {
            highest = highest.max(Some(version));
        }
    }
    highest
}
