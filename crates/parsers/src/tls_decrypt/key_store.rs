//! TLS secrets from NSS key logs (RFC 9850), by the random value of the ClientHello.
//!
//! Secrets are in chunks of memory that the owner of the store may lock, and are overwritten when they are evicted or
//! the store is dropped. Nothing formats, serializes, or returns them, except to the key schedule.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use zeroize::{Zeroize, Zeroizing};

/// Maximum connections whose secrets are stored; the oldest are evicted.
pub const SESSIONS_MAX: usize = 1 << 17;
/// Maximum length of a secret: that of SHA-384, or of a master secret.
pub const SECRET_BYTES_MAX: usize = 48;
/// Secrets per chunk of memory.
const CHUNK_SECRETS: usize = 1365;
/// Maximum length of a key log's line; longer lines are no keys.
pub const LINE_BYTES_MAX: usize = 512;

/// Meaning of a secret: the label of its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsSecretLabel {
    /// `CLIENT_RANDOM`: the master secret up to TLS 1.2.
    Master,
    /// `CLIENT_EARLY_TRAFFIC_SECRET`.
    ClientEarly,
    /// `CLIENT_HANDSHAKE_TRAFFIC_SECRET`.
    ClientHandshake,
    /// `SERVER_HANDSHAKE_TRAFFIC_SECRET`.
    ServerHandshake,
    /// `CLIENT_TRAFFIC_SECRET_0`.
    ClientTraffic,
    /// `SERVER_TRAFFIC_SECRET_0`.
    ServerTraffic,
}

impl TlsSecretLabel {
    fn of_name(name: &[u8]) -> Option<TlsSecretLabel> {
        Some(match name {
            b"CLIENT_RANDOM" => Self::Master,
            b"CLIENT_EARLY_TRAFFIC_SECRET" => Self::ClientEarly,
            b"CLIENT_HANDSHAKE_TRAFFIC_SECRET" => Self::ClientHandshake,
            b"SERVER_HANDSHAKE_TRAFFIC_SECRET" => Self::ServerHandshake,
            b"CLIENT_TRAFFIC_SECRET_0" => Self::ClientTraffic,
            b"SERVER_TRAFFIC_SECRET_0" => Self::ServerTraffic,
            _ => return None,
        })
    }
}

/// Counters of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TlsKeyCounters {
    /// Lines with a secret.
    pub secrets: u64,
    /// Other lines that are neither empty nor comments: unknown labels, malformed values.
    pub unknown_lines: u64,
    /// Connections whose secrets were evicted.
    pub evicted: u64,
}

/// A store that several threads share: one adds lines, others look up secrets.
pub struct TlsKeyStore {
    sessions: RwLock<SessionSecrets>,
    /// Incremented when secrets are added.
    generation: AtomicU64,
    /// How long connections wait for their keys, in nanoseconds of packet time; 0 if all keys are stored before the
    /// first packet.
    wait_ns: AtomicU64,
    /// Locks memory, if possible.
    lock: fn(&[u8]),
}

impl std::fmt::Debug for TlsKeyStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsKeyStore")
    }
}

impl TlsKeyStore {
    /// An empty store; `lock` keeps memory from being swapped.
    #[must_use]
    pub fn new(lock: fn(&[u8])) -> TlsKeyStore {
        TlsKeyStore {
            sessions: RwLock::default(),
            generation: AtomicU64::new(0),
            wait_ns: AtomicU64::new(0),
            lock,
        }
    }

    /// Sets how long connections wait for keys that arrive after their handshake.
    pub fn set_wait(&self, ns: u64) {
        self.wait_ns.store(ns, Ordering::Relaxed);
    }

    /// How long connections wait for their keys, in nanoseconds; 0: not at all.
    #[must_use]
    pub fn wait_ns(&self) -> u64 {
        self.wait_ns.load(Ordering::Relaxed)
    }

    /// A number that changes when secrets are added.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> TlsKeyCounters {
        self.sessions
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .counters
    }

    /// Adds the lines of a key log; the last one may lack its line end.
    pub fn add_lines(&self, text: &[u8]) {
        let mut sessions = self
            .sessions
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        for line in text.split(|byte| *byte == b'\n') {
            sessions.add_line(line.trim_ascii(), self.lock);
        }
        drop(sessions);
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// The secret of the connection with this client random.
    #[must_use]
    pub fn secret(&self, random: &[u8; 32], label: TlsSecretLabel) -> Option<Zeroizing<Vec<u8>>> {
        let sessions = self.sessions.read().unwrap_or_else(PoisonError::into_inner);
        let of_label = sessions.by_random.get(random)?;
        let secret = of_label.iter().find(|secret| secret.label == label)?;
        Some(Zeroizing::new(sessions.bytes(secret).to_vec()))
    }

    /// Whether any secret of the connection is stored.
    #[must_use]
    pub fn has(&self, random: &[u8; 32]) -> bool {
        let sessions = self.sessions.read().unwrap_or_else(PoisonError::into_inner);
        sessions.by_random.contains_key(random)
    }
}

/// Location of a secret.
struct StoredSecret {
    label: TlsSecretLabel,
    len: u8,
    slot: u32,
}

/// Memory of [`CHUNK_SECRETS`] secrets, overwritten when dropped.
struct SecretChunk(Box<[[u8; SECRET_BYTES_MAX]]>);

impl Drop for SecretChunk {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(Zeroize::zeroize);
    }
}

#[derive(Default)]
struct SessionSecrets {
    by_random: HashMap<[u8; 32], Vec<StoredSecret>>,
    /// Keys of `by_random`, the oldest first.
    order: VecDeque<[u8; 32]>,
    chunks: Vec<SecretChunk>,
    /// Slots of evicted secrets.
    free: Vec<u32>,
    /// Slots used so far.
    used: u32,
    counters: TlsKeyCounters,
}

impl SessionSecrets {
    fn bytes(&self, secret: &StoredSecret) -> &[u8] {
        let slot = secret.slot as usize;
        &self.chunks[slot / CHUNK_SECRETS].0[slot % CHUNK_SECRETS][..usize::from(secret.len)]
    }

    fn add_line(&mut self, line: &[u8], lock: fn(&[u8])) {
        if line.is_empty() || line[0] == b'#' {
            return;
        }
        match parse(line) {
            Some((label, random, secret, len)) => {
                self.counters.secrets += 1;
                self.add(label, random, &secret[..len], lock);
            }
            None if is_of_other_use(line) => {}
            None => self.counters.unknown_lines += 1,
        }
    }

    /// Stores a secret; a later one with the same label replaces it.
    fn add(&mut self, label: TlsSecretLabel, random: [u8; 32], secret: &[u8], lock: fn(&[u8])) {
        if !self.by_random.contains_key(&random) {
            self.make_room();
            self.order.push_back(random);
            self.by_random.insert(random, Vec::new());
        }
        let secrets = self.by_random.get_mut(&random).expect("just inserted");
        let known = secrets.iter().position(|known| known.label == label);
        let slot = match known {
            Some(at) => secrets.swap_remove(at).slot,
            None => self.free.pop().unwrap_or_else(|| {
                self.used += 1;
                self.used - 1
            }),
        };
        secrets.push(StoredSecret {
            label,
            len: secret.len() as u8,
            slot,
        });
        let at = slot as usize;
        if at / CHUNK_SECRETS == self.chunks.len() {
            let chunk = vec![[0; SECRET_BYTES_MAX]; CHUNK_SECRETS].into_boxed_slice();
            lock(chunk.as_flattened());
            self.chunks.push(SecretChunk(chunk));
        }
        self.chunks[at / CHUNK_SECRETS].0[at % CHUNK_SECRETS][..secret.len()]
            .copy_from_slice(secret);
    }

    /// Evicts the oldest connection of a full store.
    fn make_room(&mut self) {
        if self.order.len() < SESSIONS_MAX {
            return;
        }
        let Some(oldest) = self.order.pop_front() else {
            return;
        };
        self.counters.evicted += 1;
        for StoredSecret { slot, .. } in self.by_random.remove(&oldest).unwrap_or_default() {
            let at = slot as usize;
            self.chunks[at / CHUNK_SECRETS].0[at % CHUNK_SECRETS].zeroize();
            self.free.push(slot);
        }
    }
}

/// Labels of key logs that decryption does not need; QUIC's begin with `QUIC_`.
const OTHER_LABELS: &[&[u8]] = &[
    b"EXPORTER_SECRET",
    b"EARLY_EXPORTER_MASTER_SECRET",
    b"EARLY_EXPORTER_SECRET",
    b"ECH_SECRET",
    b"ECH_CONFIG",
];

fn is_of_other_use(line: &[u8]) -> bool {
    let label = line.split(u8::is_ascii_whitespace).next();
    label.is_some_and(|label| OTHER_LABELS.contains(&label) || label.starts_with(b"QUIC_"))
}

type ParsedLine = (
    TlsSecretLabel,
    [u8; 32],
    Zeroizing<[u8; SECRET_BYTES_MAX]>,
    usize,
);

/// Label, client random, and secret, in hexadecimal digits of either case.
fn parse(line: &[u8]) -> Option<ParsedLine> {
    if line.len() > LINE_BYTES_MAX {
        return None;
    }
    let mut words = line
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    let label = TlsSecretLabel::of_name(words.next()?)?;
    let mut random = [0; 32];
    (hex(words.next()?, &mut random)? == 32).then_some(())?;
    let mut secret = Zeroizing::new([0; SECRET_BYTES_MAX]);
    let len = hex(words.next()?, &mut *secret)?;
    let is_sound = match label {
        TlsSecretLabel::Master => len == 48,
        _ => len == 32 || len == 48,
    };
    (is_sound && words.next().is_none()).then_some((label, random, secret, len))
}

/// Decodes hexadecimal digits into `into`; returns the number of bytes.
fn hex(digits: &[u8], into: &mut [u8]) -> Option<usize> {
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() || pairs.len() > into.len() {
        return None;
    }
    let digit = |byte: u8| (byte as char).to_digit(16);
    for (byte, [high, low]) in into.iter_mut().zip(pairs) {
        *byte = (digit(*high)? << 4 | digit(*low)?) as u8;
    }
    Some(pairs.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(label: &str, random: u32, secret: &[u8]) -> Vec<u8> {
        let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{label} {random:064x} {hex}\n").into_bytes()
    }

    fn random(number: u32) -> [u8; 32] {
        let mut random = [0; 32];
        random[28..].copy_from_slice(&number.to_be_bytes());
        random
    }

    #[test]
    fn lines_are_keys_comments_or_counted() {
        let store = TlsKeyStore::new(|_| {});
        let before = store.generation();
        store.add_lines(&line("CLIENT_RANDOM", 1, &[7; 48]));
        store.add_lines(&line("SERVER_TRAFFIC_SECRET_0", 2, &[8; 32]).to_ascii_uppercase());
        assert_ne!(store.generation(), before);
        let master = store.secret(&random(1), TlsSecretLabel::Master);
        assert_eq!(master.as_deref(), Some(&vec![7; 48]));
        let traffic = store.secret(&random(2), TlsSecretLabel::ServerTraffic);
        assert_eq!(traffic.as_deref(), Some(&vec![8; 32]));
        assert!(store.secret(&random(2), TlsSecretLabel::Master).is_none());
        store.add_lines(b"# comment\r\n\r\n");
        store.add_lines(&line("EXPORTER_SECRET", 1, &[1; 32]));
        store.add_lines(&line("QUIC_CLIENT_TRAFFIC_SECRET_0", 1, &[1; 32]));
        assert_eq!(store.counters().unknown_lines, 0);
        for malformed in [
            line("EXPORTER", 1, &[1; 32]),
            line("CLIENT_RANDOM", 1, &[1; 32]),
            line("CLIENT_TRAFFIC_SECRET_0", 1, &[1; 49]),
            b"CLIENT_RANDOM 00 00".to_vec(),
            b"CLIENT_RANDOM".to_vec(),
            b"CLIENT_RANDOM \xff\xff".to_vec(),
            vec![b'x'; 100_000],
        ] {
            let counted = store.counters().unknown_lines;
            store.add_lines(&malformed);
            assert_eq!(store.counters().unknown_lines, counted + 1);
        }
        assert_eq!(store.counters().secrets, 2);
    }

    #[test]
    fn a_later_secret_replaces_an_earlier_one_and_the_oldest_are_evicted() {
        let store = TlsKeyStore::new(|_| {});
        store.add_lines(&line("CLIENT_RANDOM", 1, &[1; 48]));
        store.add_lines(&line("CLIENT_RANDOM", 1, &[2; 48]));
        let master = store.secret(&random(1), TlsSecretLabel::Master);
        assert_eq!(master.as_deref(), Some(&vec![2; 48]));
        for number in 2..=SESSIONS_MAX as u32 + 1 {
            store.add_lines(&line("CLIENT_RANDOM", number, &[3; 48]));
        }
        assert_eq!(store.counters().evicted, 1);
        assert!(!store.has(&random(1)));
        assert!(store.has(&random(2)));
    }
}
