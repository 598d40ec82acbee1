//! A TLS connection whose keys are known: both hellos, then records of the input. With `--cfg fuzzing`, a record is valid
//! if its last byte is its number, and its content is not encrypted.

use std::sync::Arc;

use flow::StreamPlace;
use parsers::tls_decrypt::{TlsInput, TlsKeyStore, TlsPlaintextSink, TlsSession};
use parsers::{Direction, StreamEnd, StreamGap, StreamSegment};
use wire::{TcpSeq, Timestamp};

use crate::script::{self, Fate, Hears, Script, What};

/// Cipher suites of every kind: AES-GCM, ChaCha20, CCM, CCM_8, CBC with each HMAC, and those of TLS 1.3.
const SUITES: [u16; 11] = [
    0xc02b, 0xcca9, 0xc0ac, 0xc0ae, 0xc023, 0xc024, 0xc009, 0x1301, 0x1302, 0x1303, 0x1305,
];

/// Plaintext positions, which must not go backward.
#[derive(Default)]
struct Plaintext {
    next: [Option<TcpSeq>; 2],
    bytes: u64,
}

impl Plaintext {
    fn pass(&mut self, direction: Direction, seq: TcpSeq, len: u64) {
        let next = &mut self.next[direction as usize];
        if let Some(next) = next {
            assert!(seq.distance(*next) >= 0, "{direction:?} goes backward");
        }
        *next = Some(seq.plus(len as u32));
    }
}

impl TlsPlaintextSink for Plaintext {
    fn bytes(&mut self, direction: Direction, segment: StreamSegment<'_>) {
        self.bytes += segment.bytes.len() as u64;
        self.pass(direction, segment.place.seq, segment.bytes.len() as u64);
    }

    fn gap(&mut self, direction: Direction, gap: StreamGap) {
        self.pass(direction, gap.seq, gap.len);
    }

    fn end(&mut self, _: Direction, _: StreamEnd) {}
}

/// Both ends of the connection.
struct Connection {
    session: TlsSession,
    plaintext: Plaintext,
    next: [TcpSeq; 2],
    now: Timestamp,
    bytes: u64,
}

impl Connection {
    fn say(&mut self, by: Direction, hears: Hears, bytes: &[u8]) {
        let place = StreamPlace {
            seq: self.next[by as usize],
            ack: match hears {
                Hears::Nothing => None,
                Hears::All | Hears::Half => Some(self.next[by.other() as usize]),
            },
        };
        let segment = StreamSegment {
            bytes,
            ts: self.now,
            place,
        };
        self.next[by as usize] = place.seq.plus(bytes.len() as u32);
        self.bytes += bytes.len() as u64;
        self.input(by, TlsInput::Bytes(segment));
    }

    fn skip(&mut self, by: Direction, len: u64) {
        let gap = StreamGap {
            seq: self.next[by as usize],
            len,
            ts: self.now,
        };
        self.next[by as usize] = gap.seq.plus(len as u32);
        self.input(by, TlsInput::Gap(gap));
    }

    fn input(&mut self, by: Direction, input: TlsInput<'_>) {
        self.session
            .on_input(by, input, self.now, &mut self.plaintext);
    }
}

/// Plays a script: the option `probed` sends the data as they are, otherwise as a record each; the byte behind the options
/// is the cipher suite.
pub fn decrypt(input: &[u8]) {
    let Some((script, rest)) = Script::of(input) else {
        return;
    };
    let Some((suite, mut steps)) = rest.split_first() else {
        return;
    };
    let suite = SUITES[usize::from(*suite) % SUITES.len()];
    let store = keys(suite);
    let first = if script.wraps { u32::MAX - 300 } else { 1 };
    let mut connection = Connection {
        session: TlsSession::new(store),
        plaintext: Plaintext::default(),
        next: [TcpSeq(first); 2],
        now: Timestamp(0),
        bytes: 0,
    };
    let [client, server] = [Direction::ClientToServer, Direction::ServerToClient];
    connection.say(client, Hears::All, &record(22, &client_hello()));
    connection.say(
        server,
        Hears::All,
        &record(22, &server_hello(suite, script.tight)),
    );
    if suite >> 8 != 0x13 && !script.midstream {
        for by in [client, server] {
            connection.say(by, Hears::All, &record(20, &[1]));
        }
    }
    while let Some(step) = script::next(&mut steps) {
        let by = step.by;
        match (step.what, step.fate) {
            (What::Say(bytes), fate) => {
                let sent = if script.probed {
                    bytes.to_vec()
                } else {
                    record(23, bytes)
                };
                match fate {
                    Fate::Lost => connection.skip(by, sent.len() as u64),
                    Fate::Pieces(size) => {
                        for piece in sent.chunks(size.max(1)) {
                            connection.say(by, step.hears, piece);
                        }
                    }
                    Fate::Cut(cut) => {
                        let held = sent.len().saturating_sub(cut);
                        connection.say(by, step.hears, &sent[..held]);
                        connection.skip(by, (sent.len() - held) as u64);
                    }
                    Fate::Captured | Fate::Twice | Fate::Late(_) => {
                        connection.say(by, step.hears, &sent);
                    }
                }
            }
            (What::Skip(len), _) => connection.skip(by, len),
            (What::Fin, _) => connection.input(by, TlsInput::End(StreamEnd::Fin)),
            (What::Rst, _) => connection.input(by, TlsInput::End(StreamEnd::Reset)),
            (What::Clock(ns), _) => connection.now.0 = connection.now.0.saturating_add(ns),
            (What::Again(_) | What::Listen, _) => {}
        }
    }
    connection.session.close(&mut connection.plaintext);
    assert!(connection.plaintext.bytes <= connection.bytes);
}

fn keys(suite: u16) -> Arc<TlsKeyStore> {
    let random = "07".repeat(32);
    let secret = "09".repeat(if suite == 0x1302 { 48 } else { 32 });
    let mut lines = format!("CLIENT_RANDOM {random} {}\n", "09".repeat(48));
    for label in [
        "CLIENT_EARLY_TRAFFIC_SECRET",
        "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
        "SERVER_HANDSHAKE_TRAFFIC_SECRET",
        "CLIENT_TRAFFIC_SECRET_0",
        "SERVER_TRAFFIC_SECRET_0",
    ] {
        lines += &format!("{label} {random} {secret}\n");
    }
    let store = TlsKeyStore::new(|_| {});
    store.add_lines(lines.as_bytes());
    Arc::new(store)
}

/// A record with as much of `content` as it may have.
fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let content = &content[..content.len().min(16384 + 256)];
    let len = (content.len() as u16).to_be_bytes();
    [&[kind, 3, 3], &len[..], content].concat()
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let len = (body.len() as u32).to_be_bytes();
    [&[kind], &len[1..], body].concat()
}

fn client_hello() -> Vec<u8> {
    let body = [&[3, 3][..], &[7; 32], &[0, 0, 2, 0x13, 0x01, 1, 0]].concat();
    message(1, &body)
}

/// `encrypt_then_mac`: with that extension.
fn server_hello(suite: u16, encrypt_then_mac: bool) -> Vec<u8> {
    let mut extensions = Vec::new();
    if suite >> 8 == 0x13 {
        extensions.extend([0, 43, 0, 2, 3, 4]);
    } else if encrypt_then_mac {
        extensions.extend([0, 22, 0, 0]);
    }
    let len = (extensions.len() as u16).to_be_bytes();
    let body = [
        &[3, 3][..],
        &[8; 32],
        &[0],
        &suite.to_be_bytes(),
        &[0],
        &len,
        &extensions,
    ];
    message(2, &body.concat())
}
