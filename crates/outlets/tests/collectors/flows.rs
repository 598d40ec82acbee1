//! Rows of flows, and the records that a collector must have of them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use testkit::SeededRng;
use tuple::{Batch, FieldId, Schema, TupleWriter};

const MS: i64 = 1_000_000;
/// 2023.
const BASE: i64 = 1_700_000_000_000 * MS;

/// A flow, or a record of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowLine {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub ports: [u16; 2],
    pub protocol: u8,
    /// In milliseconds since 1970; 0 if unknown.
    pub times_ms: [i64; 2],
    pub packets: [u64; 2],
    pub bytes: [u64; 2],
    pub vlan: Option<u16>,
    pub application: Option<&'static str>,
    pub id: u64,
    /// Column, and `flowEndReason`.
    pub reason: (&'static str, u8),
    pub is_guessed: bool,
    pub handshake_ns: Option<i64>,
}

impl FlowLine {
    /// The records of a row, with the values that nfdump has.
    pub fn records(&self, is_biflow: bool) -> Vec<FlowLine> {
        let shown = FlowLine {
            // nfdump has no times before 1970 either.
            times_ms: self.times_ms.map(|ms| ms.max(0)),
            vlan: None,
            application: None,
            id: 0,
            reason: ("", 0),
            is_guessed: false,
            handshake_ns: None,
            ..*self
        };
        if is_biflow {
            return vec![shown];
        }
        let of = |from: usize| FlowLine {
            source: [self.source, self.destination][from],
            destination: [self.destination, self.source][from],
            ports: [self.ports[from], self.ports[1 - from]],
            packets: [self.packets[from], 0],
            bytes: [self.bytes[from], 0],
            ..shown
        };
        let sides = [0, 1].into_iter().filter(|side| self.packets[*side] > 0);
        sides.map(of).collect()
    }

    /// A line of nfdump; `None` for other lines.
    pub fn of_nfdump(line: &str) -> Option<FlowLine> {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [
            source,
            destination,
            source_port,
            destination_port,
            protocol,
            rest @ ..,
        ] = &cells[..]
        else {
            return None;
        };
        let number = |cell: &&str| cell.parse::<u64>().expect("a number");
        // nfdump prints wrong fractions of raw end times.
        let ms = |raw: &str, text: &str| {
            let seconds = raw.split('.').next().expect("seconds");
            let ms = text.split('.').nth(1).expect("a fraction");
            format!("{seconds}{ms}").parse::<i64>().expect("a time")
        };
        let port = |cell: &str| cell.split('.').next()?.parse().ok();
        Some(FlowLine {
            source: source.parse().ok()?,
            destination: destination.parse().expect("an address"),
            ports: [port(source_port)?, port(destination_port)?],
            protocol: protocol.parse().expect("a number"),
            times_ms: [ms(rest[0], rest[1]), ms(rest[2], rest[3])],
            packets: [number(&rest[4]), number(&rest[6])],
            bytes: [number(&rest[5]), number(&rest[7])],
            vlan: None,
            application: None,
            id: 0,
            reason: ("", 0),
            is_guessed: false,
            handshake_ns: None,
        })
    }
}

/// Flows in which many columns can be null, with counters of more than 32 bits, and times before 1970 and in the future.
pub fn lines(count: u64) -> Vec<FlowLine> {
    let mut rng = SeededRng::new(29);
    let reasons = [
        ("fin", 3),
        ("rst", 3),
        ("idle", 1),
        ("active_timeout", 2),
        ("evicted", 5),
        ("end_of_input", 4),
    ];
    let line = |n: u64| {
        let is_v6 = rng.chance(0.3);
        let mut address = || {
            if is_v6 {
                IpAddr::V6(Ipv6Addr::from_bits(
                    0x2001_0db8 << 96 | u128::from(rng.next_u64()),
                ))
            } else {
                IpAddr::V4(Ipv4Addr::from_bits(rng.next_u64() as u32 | 0x0100_0001))
            }
        };
        let source = address();
        let destination = address();
        let start = match n % 20 {
            // nfdump drops the sign of times before 1970: the row has none.
            0 => -5000,
            1 => BASE / MS + 20 * 365 * 86_400_000,
            _ => BASE / MS + rng.below(100_000_000) as i64,
        };
        let mut count = |is_large: bool| {
            if is_large {
                rng.next_u64() >> 8
            } else {
                1 + rng.below(9000)
            }
        };
        let packets = [
            count(n.is_multiple_of(7)),
            if n.is_multiple_of(5) {
                0
            } else {
                count(n.is_multiple_of(11))
            },
        ];
        let bytes = packets.map(|packets| packets.saturating_mul(60));
        FlowLine {
            source,
            destination,
            ports: [n as u16 + 1024, 443],
            protocol: if n.is_multiple_of(3) { 17 } else { 6 },
            times_ms: [start, if start < 0 { -1 } else { start + 1 + n as i64 }],
            packets,
            bytes,
            vlan: n.is_multiple_of(4).then_some(n as u16 % 4095),
            application: n.is_multiple_of(2).then_some(if n.is_multiple_of(8) {
                "http"
            } else {
                "mysql"
            }),
            id: n << 40 | n,
            reason: reasons[n as usize % reasons.len()],
            is_guessed: n.is_multiple_of(6),
            handshake_ns: n.is_multiple_of(9).then_some(n as i64 * 1000 - 5),
        }
    };
    (0..count).map(line).collect()
}

fn schema() -> Arc<Schema> {
    parsers::registry::schema("flow").expect("the parser")
}

fn mapped(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// The rows as tuples of the parser.
pub fn batch(lines: &[FlowLine]) -> Batch {
    let schema = schema();
    let id = |name: &str| schema.find(name).expect("a column");
    let mut w = TupleWriter::new(schema.clone(), &schema.ids().collect::<Vec<FieldId>>());
    for line in lines {
        w.u64(id("id"), line.id);
        w.i64(id("ts"), line.times_ms[0] * MS);
        w.i64(
            id("duration_ns"),
            (line.times_ms[1] - line.times_ms[0]) * MS,
        );
        w.ip(id("client_ip"), &mapped(line.source));
        w.ip(id("server_ip"), &mapped(line.destination));
        w.u64(id("client_port"), line.ports[0].into());
        w.u64(id("server_port"), line.ports[1].into());
        w.text(
            id("transport"),
            if line.protocol == 6 { b"tcp" } else { b"udp" },
        );
        w.text(id("quality"), b"exact");
        w.bool(id("client_guessed"), line.is_guessed);
        w.u64(id("client_packets"), line.packets[0]);
        w.u64(id("server_packets"), line.packets[1]);
        w.u64(id("client_bytes"), line.bytes[0]);
        w.u64(id("server_bytes"), line.bytes[1]);
        w.text(id("reason"), line.reason.0.as_bytes());
        if let Some(vlan) = line.vlan {
            w.u64(id("vlan_id"), vlan.into());
        }
        if let Some(application) = line.application {
            w.text(id("application"), application.as_bytes());
        }
        if let Some(handshake_ns) = line.handshake_ns {
            w.i64(id("handshake_ns"), handshake_ns);
        }
        w.end_row();
    }
    w.finish()
}

/// Rows with the numbers from `first` as packets.
pub fn million_batch(first: u64, rows: u64) -> Batch {
    let schema = schema();
    let id = |name: &str| schema.find(name).expect("a column");
    let ids = ["ts", "client_ip", "client_packets"].map(id);
    let mut w = TupleWriter::new(schema.clone(), &ids);
    for n in first..first + rows {
        w.i64(ids[0], BASE + n as i64);
        w.ip(ids[1], &mapped(IpAddr::V4(Ipv4Addr::from_bits(n as u32))));
        w.u64(ids[2], n);
        w.end_row();
    }
    w.finish()
}
