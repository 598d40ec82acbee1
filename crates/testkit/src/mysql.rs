//! Messages of the MySQL client and server used by several tests.

/// A packet: length, sequence number, and payload.
#[must_use]
pub fn packet(seq: u8, payload: impl AsRef<[u8]>) -> Vec<u8> {
    let payload = payload.as_ref();
    let mut bytes = (payload.len() as u32).to_le_bytes().to_vec();
    bytes[3] = seq;
    bytes.extend_from_slice(payload);
    bytes
}

/// A server greeting with these capabilities.
#[must_use]
pub fn greeting(capabilities: u32) -> Vec<u8> {
    let mut p = b"\x0a8.0.33\0\x01\0\0\0abcdefgh\0".to_vec();
    p.extend(&capabilities.to_le_bytes()[..2]);
    p.extend(b"\xff\x02\0");
    p.extend(&capabilities.to_le_bytes()[2..]);
    p.extend([0x15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    p.extend(b"ijklmnopqrst\0mysql_native_password\0");
    packet(0, p)
}
