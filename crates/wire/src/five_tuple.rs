//! Endpoints of a packet or flow: a [`FiveTuple`] with the direction of one packet, and the order-free [`FlowKey`] of
//! both directions.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// An IP address in 16 bytes, network order; IPv4 in IPv4-mapped form (RFC 4291 §2.5.5.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Addr(pub [u8; 16]);

impl Addr {
    /// From the four bytes of an IPv4 header.
    #[inline]
    #[must_use]
    pub fn v4(b: [u8; 4]) -> Addr {
        Addr((0xffff_0000_0000 | u128::from(u32::from_be_bytes(b))).to_be_bytes())
    }

    /// Both halves in memory order, for hashing and moving; they do not sort like addresses.
    #[inline]
    fn words(self) -> [u64; 2] {
        let (halves, _) = self.0.as_chunks::<8>();
        [u64::from_le_bytes(halves[0]), u64::from_le_bytes(halves[1])]
    }

    /// From [`Addr::words`].
    #[inline]
    fn of_words(words: [u64; 2]) -> Addr {
        Addr((u128::from(words[0]) | u128::from(words[1]) << 64).to_le_bytes())
    }

    /// Converts to the standard library's type; IPv4-mapped addresses become IPv4.
    #[must_use]
    pub fn to_ip(self) -> IpAddr {
        Ipv6Addr::from(self.0).to_canonical()
    }
}

impl From<IpAddr> for Addr {
    fn from(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(a) => Addr::v4(a.octets()),
            IpAddr::V6(a) => Addr(a.octets()),
        }
    }
}

impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_ip().fmt(f)
    }
}

impl fmt::Debug for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_ip().fmt(f)
    }
}

/// An address and a port; port 0 for protocols without ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Endpoint {
    /// The address.
    pub addr: Addr,
    /// The TCP or UDP port.
    pub port: u16,
}

impl Endpoint {
    /// Whether it sorts before `other`, as the derived order, without a branch. Reads the pieces that decoding has
    /// just written: a load across two of them would wait for the store buffer. The port is widened because compilers
    /// merge a plain load of it with the bytes after it.
    #[inline]
    fn sorts_before(&self, other: &Endpoint) -> bool {
        let [a_high, a_low] = self.addr.words().map(u64::swap_bytes);
        let [b_high, b_low] = other.addr.words().map(u64::swap_bytes);
        let tail = |low: u64, port: u16| u128::from(low) << 16 | u128::from(port);
        (a_high < b_high)
            | ((a_high == b_high) & (tail(a_low, self.port) < tail(b_low, other.port)))
    }
}

/// The protocol field of IPv4, or the last next-header of IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct IpProtocol(pub u8);

impl IpProtocol {
    /// ICMP for IPv4.
    pub const ICMP: IpProtocol = IpProtocol(1);
    /// IPv4 in IP.
    pub const IPV4: IpProtocol = IpProtocol(4);
    /// TCP.
    pub const TCP: IpProtocol = IpProtocol(6);
    /// UDP.
    pub const UDP: IpProtocol = IpProtocol(17);
    /// IPv6 in IP.
    pub const IPV6: IpProtocol = IpProtocol(41);
    /// GRE.
    pub const GRE: IpProtocol = IpProtocol(47);
    /// IPsec's authentication header.
    pub const AH: IpProtocol = IpProtocol(51);
    /// ICMP for IPv6.
    pub const ICMPV6: IpProtocol = IpProtocol(58);
    /// L2TP, version 3.
    pub const L2TP: IpProtocol = IpProtocol(115);
}

/// Source, destination, and protocol as seen in one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct FiveTuple {
    /// Sender of the packet.
    pub src: Endpoint,
    /// Receiver of the packet.
    pub dst: Endpoint,
    /// Transport protocol.
    pub protocol: IpProtocol,
}

/// End of a [`FlowKey`]; `A` is the smaller endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlowSide {
    /// The endpoint that sorts first.
    A,
    /// The other one.
    B,
}

impl FlowSide {
    /// The opposite end.
    #[inline]
    #[must_use]
    pub fn other(self) -> FlowSide {
        match self {
            FlowSide::A => FlowSide::B,
            FlowSide::B => FlowSide::A,
        }
    }

    /// 0 for A, 1 for B, for indexing pairs.
    #[inline]
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }
}

/// A five-tuple without direction: equal for packets of both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct FlowKey {
    /// The smaller endpoint (address, then port).
    pub a: Endpoint,
    /// The larger one.
    pub b: Endpoint,
    /// As in the five-tuple.
    pub protocol: IpProtocol,
    /// Number of the virtual network among those with equal addresses; 0 if only one is known. Not derived from the
    /// five-tuple.
    pub network: u8,
}

impl FlowKey {
    /// The endpoint at `side`.
    #[must_use]
    pub fn end(&self, side: FlowSide) -> Endpoint {
        match side {
            FlowSide::A => self.a,
            FlowSide::B => self.b,
        }
    }

    /// A well-mixed 64-bit hash: products of 128 bits folded to 64, two for IPv4, four for IPv6 (like wyhash and
    /// foldhash). The secret `seed` prevents senders from choosing colliding flows: every operand of a multiplication
    /// contains a secret, so none can be made zero from outside. Not secure against an attacker who can observe the
    /// hashes.
    #[inline]
    #[must_use]
    pub fn hash(&self, seed: u64) -> u64 {
        match V4Key::of_ends(self.a, self.b) {
            Some((v4, _)) if self.network == 0 => v4.hash(self.protocol, seed),
            _ => self.hash_wide(seed),
        }
    }

    fn hash_wide(&self, seed: u64) -> u64 {
        let secret = secret(seed);
        let ports =
            u64::from(self.a.port) << 32 | u64::from(self.b.port) << 8 | u64::from(self.protocol.0);
        let ports = ports | u64::from(self.network) << 56;
        let [a_high, a_low] = self.a.addr.words();
        let [b_high, b_low] = self.b.addr.words();
        let low = fold(a_low ^ seed ^ 0x1319_8a2e_0370_7344, b_low ^ secret);
        let high = fold(
            a_high ^ secret ^ 0xa409_3822_299f_31d0,
            b_high ^ seed ^ 0x082e_fa98_ec4e_6c89,
        );
        fold(
            low ^ high.rotate_left(32) ^ secret,
            ports ^ secret.rotate_left(24) ^ 0x4528_21e6_38d0_1377,
        )
    }
}

/// The endpoints of an IPv4 [`FlowKey`] in twelve bytes, as stored and compared by a flow table. Equivalent to the
/// key together with the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct V4Key {
    /// Addresses; the smaller endpoint's in the low half.
    pub addrs: u64,
    /// Ports; the smaller endpoint's in the low half.
    pub ports: u32,
}

impl V4Key {
    /// Key of two endpoints in any order, and the side of the first; `None` if one is not IPv4.
    #[inline]
    #[must_use]
    pub fn of_ends(src: Endpoint, dst: Endpoint) -> Option<(V4Key, FlowSide)> {
        let [src_high, src_low] = src.addr.words();
        let [dst_high, dst_low] = dst.addr.words();
        let not_v4 = src_high
            | dst_high
            | u64::from(src_low as u32 ^ V4_PREFIX | dst_low as u32 ^ V4_PREFIX);
        if not_v4 != 0 {
            return None;
        }
        // Address and port as one number, so that one branch-free comparison sorts the endpoints.
        let number = |low: u64, port: u16| {
            u64::from(((low >> 32) as u32).swap_bytes()) << 16 | u64::from(port)
        };
        let src = number(src_low, src.port);
        let dst = number(dst_low, dst.port);
        let a = src.min(dst);
        let b = src.max(dst);
        let ports = u32::from(a as u16) | u32::from(b as u16) << 16;
        let side = if dst < src { FlowSide::B } else { FlowSide::A };
        Some((
            V4Key {
                addrs: a >> 16 | (b >> 16) << 32,
                ports,
            },
            side,
        ))
    }

    /// Same value as [`FlowKey::hash`] of [`V4Key::flow_key`].
    #[inline]
    #[must_use]
    pub fn hash(self, protocol: IpProtocol, seed: u64) -> u64 {
        let secret = secret(seed);
        let rest = u64::from(self.ports) | u64::from(protocol.0) << 32;
        let mixed = fold(self.addrs ^ seed ^ 0x1319_8a2e_0370_7344, rest ^ secret);
        fold(
            mixed ^ secret.rotate_left(24),
            secret ^ 0x4528_21e6_38d0_1377,
        )
    }

    /// The complete flow key.
    #[must_use]
    pub fn flow_key(self, protocol: IpProtocol) -> FlowKey {
        let end = |addr: u32, port: u16| Endpoint {
            addr: Addr::v4(addr.to_be_bytes()),
            port,
        };
        FlowKey {
            a: end(self.addrs as u32, self.ports as u16),
            b: end((self.addrs >> 32) as u32, (self.ports >> 16) as u16),
            protocol,
            network: 0,
        }
    }
}

/// Start of the second half of an IPv4-mapped address, in memory order.
const V4_PREFIX: u32 = 0xffff_0000;

#[inline]
fn secret(seed: u64) -> u64 {
    fold(seed ^ 0x243f_6a88_85a3_08d3, 0x9e37_79b9_7f4a_7c15)
}

/// Multiplies to 128 bits and folds the halves: every input bit affects every output bit.
#[inline]
fn fold(x: u64, y: u64) -> u64 {
    let m = u128::from(x) * u128::from(y);
    (m as u64) ^ ((m >> 64) as u64)
}

impl FiveTuple {
    /// Hash of the flow key, see [`FlowKey::hash`], without building the key for IPv4.
    #[inline(always)]
    #[must_use]
    pub fn flow_hash(&self, seed: u64) -> u64 {
        match V4Key::of_ends(self.src, self.dst) {
            Some((key, _)) => key.hash(self.protocol, seed),
            None => FiveTuple::hash_wide(*self, seed),
        }
    }

    // By value: a borrowed value would have to be stored in memory on every call.
    #[inline(never)]
    fn hash_wide(self, seed: u64) -> u64 {
        self.flow_key().0.hash(seed)
    }

    /// The order-free key, and the side that sent this packet.
    #[inline]
    #[must_use]
    pub fn flow_key(&self) -> (FlowKey, FlowSide) {
        // The order of the ends is unpredictable per packet: select words instead of branching.
        let swap = self.dst.sorts_before(&self.src);
        let src = self.src.addr.words();
        let dst = self.dst.addr.words();
        let select = |x: u64, y: u64| if swap { y } else { x };
        let end = |from: [u64; 2], to: [u64; 2], ports: (u16, u16)| Endpoint {
            addr: Addr::of_words([select(from[0], to[0]), select(from[1], to[1])]),
            port: select(ports.0.into(), ports.1.into()) as u16,
        };
        let a = end(src, dst, (self.src.port, self.dst.port));
        let b = end(dst, src, (self.dst.port, self.src.port));
        (
            FlowKey {
                a,
                b,
                protocol: self.protocol,
                network: 0,
            },
            if swap { FlowSide::B } else { FlowSide::A },
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn endpoint() -> impl Strategy<Value = Endpoint> {
        let v4 = any::<[u8; 4]>().prop_map(Addr::v4);
        let addr = prop_oneof![v4, any::<[u8; 16]>().prop_map(Addr), Just(Addr::default())];
        (addr, any::<u16>()).prop_map(|(addr, port)| Endpoint { addr, port })
    }

    fn five_tuple() -> impl Strategy<Value = FiveTuple> {
        (endpoint(), endpoint(), any::<u8>()).prop_map(|(src, dst, protocol)| FiveTuple {
            src,
            dst,
            protocol: IpProtocol(protocol),
        })
    }

    proptest! {
        #[test]
        fn both_directions_have_one_key(tuple in five_tuple(), seed: u64) {
            let (key, side) = tuple.flow_key();
            let back = FiveTuple { src: tuple.dst, dst: tuple.src, ..tuple };
            let (back_key, back_side) = back.flow_key();
            prop_assert_eq!(key, back_key);
            prop_assert_eq!(key.hash(seed), back_key.hash(seed));
            prop_assert_eq!(key.hash(seed), tuple.flow_hash(seed));
            prop_assert!(key.a <= key.b);
            prop_assert_eq!(key.end(side), tuple.src);
            prop_assert_eq!(key.end(side.other()), tuple.dst);
            prop_assert!(side != back_side || tuple.src == tuple.dst);
        }

        #[test]
        fn ipv4_keys_equal_general_keys(tuple in five_tuple(), seed: u64) {
            let (key, side) = tuple.flow_key();
            let is_v4 = |end: Endpoint| end.addr.0[..12] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
            let v4 = V4Key::of_ends(tuple.src, tuple.dst);
            prop_assert_eq!(v4.is_some(), is_v4(tuple.src) && is_v4(tuple.dst));
            if let Some((v4, v4_side)) = v4 {
                prop_assert_eq!((v4.flow_key(tuple.protocol), v4_side), (key, side));
                prop_assert_eq!(v4.hash(tuple.protocol, seed), key.hash(seed));
            }
        }

        #[test]
        fn sorted_as_the_derived_order(a in endpoint(), b in endpoint()) {
            prop_assert_eq!(a.sorts_before(&b), a < b);
            let neighbor = Endpoint { port: b.port, ..a };
            prop_assert_eq!(a.sorts_before(&neighbor), a < neighbor);
        }
    }

    /// 2^16 neighboring flows collide in the low 32 bits, and spread over 64 workers, as random numbers would.
    #[test]
    fn neighbors_are_spread() {
        let key = |i: u32| {
            let src = Endpoint {
                addr: Addr::v4([10, 0, 0, (i >> 12) as u8]),
                port: 32768 + (i & 0xfff) as u16,
            };
            let dst = Endpoint {
                addr: Addr::v4([10, 0, 1, 1]),
                port: 80,
            };
            FiveTuple {
                src,
                dst,
                protocol: IpProtocol::TCP,
            }
            .flow_key()
            .0
        };
        for seed in [0, 1, u64::MAX] {
            let hashes: Vec<u64> = (0..1 << 16).map(|i| key(i).hash(seed)).collect();
            for shift in [0, 58] {
                let mut workers = [0u32; 64];
                hashes
                    .iter()
                    .for_each(|h| workers[(h >> shift) as usize % 64] += 1);
                assert!(
                    workers.iter().all(|n| n.abs_diff(1024) < 192),
                    "{workers:?}"
                );
            }
            let mut low: Vec<u32> = hashes.iter().map(|&h| h as u32).collect();
            low.sort_unstable();
            assert!(
                low.windows(2).filter(|w| w[0] == w[1]).count() < 6,
                "chance gives half a collision"
            );
        }
    }

    /// One bit of the key or seed changes about half of the hash.
    #[test]
    fn every_bit_reaches_every_other() {
        let check = |tuple: FiveTuple, addr_bits: std::ops::Range<usize>| {
            let hash = tuple.flow_key().0.hash(7);
            let differs = |other: u64, what: &str, bit: usize| {
                let changed = (other ^ hash).count_ones();
                assert!((12..=52).contains(&changed), "{what} bit {bit}: {changed}");
            };
            for bit in addr_bits {
                let mut other = tuple;
                other.dst.addr.0[bit / 8] ^= 1 << (bit % 8);
                differs(other.flow_key().0.hash(7), "address", bit);
            }
            for bit in 0..16 {
                let mut other = tuple;
                other.dst.port ^= 1 << bit;
                differs(other.flow_key().0.hash(7), "port", bit);
            }
            for bit in 0..64 {
                differs(tuple.flow_key().0.hash(7 ^ 1 << bit), "seed", bit);
            }
        };
        let mut wide = FiveTuple {
            protocol: IpProtocol::TCP,
            ..FiveTuple::default()
        };
        wide.dst.addr.0[0] = 0x20;
        check(wide, 0..128);
        let end = |last, port| Endpoint {
            addr: Addr::v4([10, 0, 0, last]),
            port,
        };
        check(
            FiveTuple {
                src: end(1, 40_000),
                dst: end(2, 80),
                protocol: IpProtocol::TCP,
            },
            96..128,
        );
        check(
            FiveTuple {
                src: end(0, 0),
                dst: end(0, 0),
                protocol: IpProtocol::TCP,
            },
            96..128,
        );
    }

    #[test]
    fn endpoints_are_printed_in_usual_notation() {
        assert_eq!(Addr::v4([10, 0, 0, 1]).to_string(), "10.0.0.1");
        assert_eq!(
            Addr::from("2001:db8::1".parse::<IpAddr>().expect("an address")).to_string(),
            "2001:db8::1"
        );
        assert_eq!(
            Addr::from("10.0.0.1".parse::<IpAddr>().expect("an address")),
            Addr::v4([10, 0, 0, 1])
        );
    }
}
