//! Headers of requests and responses, the layout of a message, and whether bytes may begin with one.

use super::tables::APIS;
use super::walk::{Api, Walk, tags};
use crate::Direction;

/// Minimum length of a message: a response without a body.
pub const MESSAGE_BYTES_MIN: u32 = 8;
/// Maximum length of a message, that of requests in the broker's defaults (`socket.request.max.bytes`).
const LENGTH_MAX: u32 = 100 << 20;
/// Bytes in front of what the length counts.
pub const LENGTH: usize = 4;
/// Length, key, version, and correlation id.
const REQUEST: usize = 12;
/// Maximum length of a client id where a request is searched for.
const CLIENT_BYTES_MAX: usize = 255;
/// Versions above the known ones whose name and client are read.
const NEWER_VERSIONS: i16 = 8;
const CONTROLLED_SHUTDOWN: i16 = 7;
const SASL_HANDSHAKE: i16 = 17;
pub const API_VERSIONS: i16 = 18;

static TAGS: &[super::walk::Field] = &[tags()];

/// A request header up to the client id.
#[derive(Clone, Copy, Debug)]
pub struct RequestHeader<'a> {
    pub length: u32,
    pub key: i16,
    pub version: i16,
    pub id: u32,
    pub client: Option<&'a [u8]>,
    /// Its length.
    pub size: usize,
}

/// Result of reading a header.
#[derive(Clone, Copy, Debug)]
pub enum HeaderRead<T> {
    NeedMore,
    Bad,
    Header(T),
}

impl<'a> RequestHeader<'a> {
    /// The header at the start of `bytes`.
    pub fn read(bytes: &'a [u8]) -> HeaderRead<RequestHeader<'a>> {
        let (Some(length), Some(word)) = (u32_at(bytes, 0), u32_at(bytes, 4)) else {
            return match u32_at(bytes, 0) {
                Some(length) if !(8..=LENGTH_MAX).contains(&length) => HeaderRead::Bad,
                _ => HeaderRead::NeedMore,
            };
        };
        let (key, version) = ((word >> 16) as i16, word as i16);
        if !(8..=LENGTH_MAX).contains(&length) || !is_known(key, version) {
            return HeaderRead::Bad;
        }
        let Some(id) = u32_at(bytes, 8) else {
            return HeaderRead::NeedMore;
        };
        let header = RequestHeader {
            length,
            key,
            version,
            id,
            client: None,
            size: REQUEST,
        };
        if (key, version) == (CONTROLLED_SHUTDOWN, 0) {
            return HeaderRead::Header(header);
        }
        let Some(name) = bytes.get(REQUEST..REQUEST + 2) else {
            return HeaderRead::NeedMore;
        };
        let name = i16::from_be_bytes([name[0], name[1]]);
        let size = REQUEST + 2 + usize::try_from(name).unwrap_or(0);
        if name < -1 || size > length as usize + LENGTH {
            return HeaderRead::Bad;
        }
        match bytes.get(REQUEST + 2..size) {
            None => HeaderRead::NeedMore,
            Some(client) => HeaderRead::Header(RequestHeader {
                client: (name >= 0).then_some(client),
                size,
                ..header
            }),
        }
    }

    /// Whether raw tokens follow the response (SaslHandshake before version 1).
    pub fn begins_tokens(&self) -> bool {
        (self.key, self.version) == (SASL_HANDSHAKE, 0)
    }

    /// The body, or the tagged fields in front of it.
    pub fn walk(&self) -> Walk {
        let left = (self.length as usize + LENGTH).saturating_sub(self.size);
        match api(self.key, self.version) {
            Some(api) => Walk::new(api.request, format(api, self.version), left)
                .behind(TAGS, self.version >= api.flexible_from),
            None => Walk::unknown(left),
        }
    }
}

/// The body of a response of `length` bytes to a request with this key and version, or the tagged fields in front of it.
pub fn response_walk(key: i16, version: i16, length: u32) -> Walk {
    let left = (length as usize).saturating_sub(4);
    match api(key, version) {
        Some(api) => Walk::new(api.response, format(api, version), left)
            .behind(TAGS, version >= api.flexible_from && key != API_VERSIONS),
        None => Walk::unknown(left),
    }
}

/// Length and correlation id of the response at the start of `bytes`.
pub fn response_header(bytes: &[u8]) -> Option<(u32, u32)> {
    Some((u32_at(bytes, 0)?, u32_at(bytes, 4)?))
}

/// Whether a response may have this length.
pub fn is_response_length(length: u32) -> bool {
    (4..1 << 31).contains(&length)
}

/// Whether `bytes` begin with a request, by everything that its first bytes must contain: header, a printable client id, and the
/// fields up to the end of `bytes`. `None`: not known yet.
pub fn begins_request(bytes: &[u8]) -> Option<bool> {
    let header = match RequestHeader::read(bytes) {
        HeaderRead::Header(header) => header,
        HeaderRead::Bad => return Some(false),
        HeaderRead::NeedMore => {
            let long = bytes
                .get(REQUEST)
                .is_some_and(|high| (1..0x80).contains(high));
            return if long { Some(false) } else { None };
        }
    };
    let client = header.client.unwrap_or_default();
    if client.len() > CLIENT_BYTES_MAX || !client.iter().all(|b| (0x20..0x7f).contains(b)) {
        return Some(false);
    }
    let whole = header.length as usize + LENGTH;
    let mut walk = header.walk();
    Some(walk.fits(&bytes[header.size..bytes.len().min(whole)]))
}

/// Whether an API has this version, or nearly.
fn is_known(key: i16, version: i16) -> bool {
    let last = of_key(key).iter().map(|api| api.versions.1).max();
    last.is_some_and(|last| (0..=last + NEWER_VERSIONS).contains(&version))
}

fn format(api: &Api, version: i16) -> (i16, bool) {
    (version, version >= api.flexible_from)
}

/// The layouts of a version.
fn api(key: i16, version: i16) -> Option<&'static Api> {
    of_key(key)
        .iter()
        .find(|api| (api.versions.0..=api.versions.1).contains(&version))
}

/// Name of an API.
pub fn name(key: i16) -> Option<&'static str> {
    Some(of_key(key).first()?.name)
}

fn of_key(key: i16) -> &'static [Api] {
    let place = usize::try_from(key).ok().and_then(|key| PLACES.get(key));
    let (first, count) = place.copied().unwrap_or_default();
    &APIS[usize::from(first)..usize::from(first + count)]
}

/// For each key, the first of its layouts in [`APIS`], which are sorted by key, and their number.
static PLACES: [(u16, u16); KEYS] = {
    let mut places = [(0, 0); KEYS];
    let mut at = 0;
    while at < APIS.len() {
        let (first, count) = places[APIS[at].key as usize];
        places[APIS[at].key as usize] = if count == 0 {
            (at as u16, 1)
        } else {
            (first, count + 1)
        };
        at += 1;
    }
    places
};
/// One more than the largest key.
const KEYS: usize = APIS[APIS.len() - 1].key as usize + 1;

/// Correlation id of a message.
pub fn id(direction: Direction, head: &[u8]) -> Option<u64> {
    let at = match direction {
        Direction::ClientToServer => 8,
        Direction::ServerToClient => 4,
    };
    Some(u32_at(head, at)?.into())
}

pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_be_bytes(*bytes))
}
