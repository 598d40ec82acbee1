//! A capture at the servers as one that was made at their clients: the same packets, each so much earlier or later as its way takes,
//! by another clock.

/// What lies between the two.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// The server's IPv4 address.
    pub server: [u8; 4],
    /// How long packets take to it, in microseconds.
    pub to_us: i64,
    /// And back.
    pub back_us: i64,
    /// How far the clients' clock is ahead.
    pub ahead_us: i64,
}

/// A little-endian pcap file of Ethernet and IPv4, in microseconds, as it was seen at the other end. `rewrite` is given each packet's
/// bytes.
///
/// # Panics
/// When it is no such file.
#[must_use]
pub fn at_the_clients(whole: &[u8], way: Way, rewrite: impl Fn(&mut [u8])) -> Vec<u8> {
    let word = |at: usize| u32::from_le_bytes(whole[at..at + 4].try_into().expect("four bytes"));
    assert_eq!(word(0), 0xa1b2_c3d4, "a little-endian file with microseconds");
    let (mut packets, mut at) = (Vec::new(), 24);
    while at < whole.len() {
        let length = word(at + 8) as usize;
        let mut bytes = whole[at + 16..at + 16 + length].to_vec();
        let delay = if bytes.get(30..34) == Some(&way.server) { -way.to_us } else { way.back_us };
        let time = i64::from(word(at)) * 1_000_000 + i64::from(word(at + 4)) + delay + way.ahead_us;
        rewrite(&mut bytes);
        packets.push((time, word(at + 12), bytes));
        at += 16 + length;
    }
    packets.sort_by_key(|(time, ..)| *time);
    let mut out = whole[..24].to_vec();
    for (time, original, bytes) in packets {
        for word in [(time / 1_000_000) as u32, (time % 1_000_000) as u32, bytes.len() as u32, original] {
            out.extend(word.to_le_bytes());
        }
        out.extend(bytes);
    }
    out
}
