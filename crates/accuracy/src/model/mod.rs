//! Input models: conversations generated from seeds, whose clients wait, send batches, or always have requests outstanding.
//! The tests of this crate damage single conversations; the command damages the captures of [`MODELS`].

pub mod embedded;
pub mod http;
pub mod memcached;
pub mod mysql;
pub mod redis;
pub mod talk;
pub mod timed;

use testkit::{SeededRng, SentPacket};

use self::talk::Conversation;
use self::timed::Pace;
use crate::PacketRecording;

/// Connections of a model's capture, and the nanoseconds within which they start.
const CONNECTIONS: u16 = 40;
const STARTS: u64 = 2_000_000_000;
/// Headers of the PROXY protocol: version 1, and version 2 with IPv4 addresses.
const PROXY_1: &[u8] = b"PROXY TCP4 192.0.2.7 198.51.100.9 50123 8443\r\n";
const PROXY_2: &[u8] =
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x07\xc6\x33\x64\x09\xc3\xcb\x20\xfb";

/// A kind of traffic that recorded captures lack.
pub struct Model {
    /// Name in tables.
    pub name: &'static str,
    /// Parser for the model's protocol.
    pub parser: &'static str,
    connection: fn(&mut SeededRng) -> Vec<SentPacket>,
}

/// Clients that always have requests outstanding; batches of clients that wait; messages inside bodies; PROXY headers.
pub const MODELS: &[Model] = &[
    model("http_async", "http", |rng| {
        asynchronous(http::conversation, rng)
    }),
    model("redis_async", "redis", |rng| {
        asynchronous(redis::conversation, rng)
    }),
    model("mc_text_async", "memcached", |rng| {
        asynchronous(memcached::text, rng)
    }),
    model("mc_binary_async", "memcached", |rng| {
        asynchronous(memcached::binary, rng)
    }),
    model("http_batches", "http", |rng| {
        batches(http::conversation, rng)
    }),
    model("redis_batches", "redis", |rng| {
        batches(redis::conversation, rng)
    }),
    model("mc_text_batches", "memcached", |rng| {
        batches(memcached::text, rng)
    }),
    model("mc_binary_batches", "memcached", |rng| {
        batches(memcached::binary, rng)
    }),
    model("http_quoted", "http", |rng| {
        embedded::http::conversation(rng).conversation.spoken(rng).0
    }),
    model("redis_quoted", "redis", |rng| {
        embedded::redis::conversation(rng)
            .conversation
            .spoken(rng)
            .0
    }),
    model("mc_quoted", "memcached", |rng| {
        embedded::memcached::conversation(rng)
            .conversation
            .spoken(rng)
            .0
    }),
    model("nfs_in_files", "nfs", |rng| {
        embedded::nfs::conversation(rng).conversation.spoken(rng).0
    }),
    model("http_proxied", "http", |rng| {
        proxied(http::conversation, rng)
    }),
    model("redis_proxied", "redis", |rng| {
        proxied(redis::conversation, rng)
    }),
    model("mysql_proxied", "mysql_query", |rng| {
        proxied(mysql::conversation, rng)
    }),
    model("mc_proxied", "memcached", |rng| {
        proxied(memcached::text, rng)
    }),
];

const fn model(
    name: &'static str,
    parser: &'static str,
    connection: fn(&mut SeededRng) -> Vec<SentPacket>,
) -> Model {
    Model {
        name,
        parser,
        connection,
    }
}

impl Model {
    /// A capture of concurrent connections; the same each time.
    #[must_use]
    pub fn recording(&self) -> PacketRecording {
        let mut rng = SeededRng::new(0x30de1);
        let mut sent = Vec::new();
        for nth in 0..CONNECTIONS {
            let start = rng.below(STARTS) as i64;
            for mut packet in (self.connection)(&mut rng) {
                let client = if packet.src.port() == talk::CLIENT_PORT {
                    &mut packet.src
                } else {
                    &mut packet.dst
                };
                client.set_port(talk::CLIENT_PORT + nth);
                packet.ts = packet.ts.plus(start);
                sent.push(packet);
            }
        }
        sent.sort_by_key(|packet| packet.ts);
        PacketRecording::of(&sent)
    }
}

fn asynchronous(
    make: impl Fn(&mut SeededRng) -> Conversation,
    rng: &mut SeededRng,
) -> Vec<SentPacket> {
    let pace = Pace::with_requests_outstanding(rng);
    let Conversation {
        port, exchanges, ..
    } = make(rng);
    timed::spoken(port, &exchanges, &[(0, pace)], rng)
}

fn batches(make: impl Fn(&mut SeededRng) -> Conversation, rng: &mut SeededRng) -> Vec<SentPacket> {
    let pace = Pace::Batches(2 + rng.below(7) as usize);
    let Conversation {
        port, exchanges, ..
    } = make(rng);
    timed::spoken(port, &exchanges, &[(0, pace)], rng)
}

fn proxied(make: impl Fn(&mut SeededRng) -> Conversation, rng: &mut SeededRng) -> Vec<SentPacket> {
    let opening = if rng.chance(0.5) { PROXY_1 } else { PROXY_2 }.to_vec();
    Conversation {
        opening,
        ..make(rng)
    }
    .spoken(rng)
    .0
}
