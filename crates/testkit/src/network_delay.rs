//! Converts a capture near the servers to one near their clients: the same packets shifted by the network delay and
//! the clock difference.

/// The path between the two capture points.
#[derive(Clone, Copy, Debug)]
pub struct NetworkDelay {
    /// The server's IPv4 address.
    pub server: [u8; 4],
    /// Delay toward the server, in microseconds.
    pub to_us: i64,
    /// Delay from the server, in microseconds.
    pub back_us: i64,
    /// Lead of the clients' clock, in microseconds.
    pub ahead_us: i64,
}

/// Converts a little-endian pcap file with Ethernet, IPv4, and microsecond timestamps to the view at the other end.
/// `rewrite` may change the bytes of each packet.
///
/// # Panics
/// If the file has another format.
#[must_use]
pub fn at_the_clients(whole: &[u8], way: NetworkDelay, rewrite: impl Fn(&mut [u8])) -> Vec<u8> {
    let word = |at: usize| u32::from_le_bytes(whole[at..at + 4].try_into().expect("four bytes"));
    assert_eq!(
        word(0),
        0xa1b2_c3d4,
        "a little-endian file with microseconds"
    );
    let mut packets = Vec::new();
    let mut at = 24;
    while at < whole.len() {
        let length = word(at + 8) as usize;
        let mut bytes = whole[at + 16..at + 16 + length].to_vec();
        let delay = if bytes.get(30..34) == Some(&way.server) {
            -way.to_us
        } else {
            way.back_us
        };
        let time = i64::from(word(at)) * 1_000_000 + i64::from(word(at + 4)) + delay + way.ahead_us;
        rewrite(&mut bytes);
        packets.push((time, word(at + 12), bytes));
        at += 16 + length;
    }
    packets.sort_by_key(|(time, ..)| *time);
    let mut out = whole[..24].to_vec();
    for (time, original, bytes) in packets {
        for word in [
            (time / 1_000_000) as u32,
            (time % 1_000_000) as u32,
            bytes.len() as u32,
            original,
        ] {
            out.extend(word.to_le_bytes());
        }
        out.extend(bytes);
    }
    out
}
