//! TCP sequence numbers: wrapping arithmetic, and the numbers consumed by SYN and FIN (RFC 9293 §3.4).

/// A sequence number modulo 2^32. Comparisons are valid within 2^31 of each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TcpSeq(pub u32);

impl TcpSeq {
    /// `self` moved forward by `n` bytes.
    #[must_use]
    pub fn plus(self, n: u32) -> TcpSeq {
        TcpSeq(self.0.wrapping_add(n))
    }

    /// Signed distance from `from` to `self`: positive when `self` is later.
    #[must_use]
    pub fn distance(self, from: TcpSeq) -> i32 {
        self.0.wrapping_sub(from.0) as i32
    }

    /// Whether `self` lies before `other`.
    #[must_use]
    pub fn before(self, other: TcpSeq) -> bool {
        self.distance(other) < 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps() {
        let last = TcpSeq(u32::MAX);
        let first = TcpSeq(0);
        assert_eq!(last.plus(1), first);
        assert!(last.before(first) && !first.before(last) && !first.before(first));
        assert_eq!((first.distance(last), last.distance(first)), (1, -1));
        assert_eq!(TcpSeq(5).plus(u32::MAX), TcpSeq(4));
    }
}
