//! NetFlow version 5: fixed records of 48 bytes.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use wire::Timestamp;

use crate::cursor::Cursor;
use crate::exported_flow::ExportedFlow;
use crate::{ExportDomain, ExportProtocol, RateSource, SamplingRate};

/// The header of a datagram, after its version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Netflow5Header {
    pub count: u16,
    pub uptime_ms: u32,
    pub exported: Timestamp,
    /// Number of the first record.
    pub sequence: u32,
    /// Engine type in the upper byte, engine in the lower one.
    pub engine: u16,
    /// Lower 14 bits of the sampling field; 0 is unknown.
    pub sampling_interval: u16,
}

impl Netflow5Header {
    pub fn read(cursor: &mut Cursor<'_>) -> Option<Netflow5Header> {
        let count = cursor.u16()?;
        let uptime_ms = cursor.u32()?;
        let seconds = i64::from(cursor.u32()?);
        let nanos = i64::from(cursor.u32()?);
        Some(Netflow5Header {
            count,
            uptime_ms,
            exported: Timestamp(seconds * 1_000_000_000 + nanos),
            sequence: cursor.u32()?,
            engine: cursor.u16()?,
            sampling_interval: cursor.u16()? & 0x3fff,
        })
    }

    pub fn domain(&self, exporter: SocketAddr) -> ExportDomain {
        ExportDomain {
            exporter: exporter.ip(),
            port: exporter.port(),
            protocol: ExportProtocol::Netflow5,
            id: u32::from(self.engine),
        }
    }

    /// Reads a record; `None` at the end of the datagram.
    pub fn record(
        &self,
        exporter: SocketAddr,
        cursor: &mut Cursor<'_>,
    ) -> Option<ExportedFlow<'static>> {
        let bytes: [u8; 48] = cursor.array()?;
        let mut fields = Cursor::new(&bytes);
        let mut record = ExportedFlow::new(self.domain(exporter), self.exported);
        let mut address = || Some(IpAddr::V4(Ipv4Addr::from(fields.array::<4>()?)));
        record.source = address();
        record.destination = address();
        record.next_hop = address();
        record.input = fields.u16().map(u32::from);
        record.output = fields.u16().map(u32::from);
        record.packets = fields.u32().map(u64::from);
        record.bytes = fields.u32().map(u64::from);
        let first = fields.u32()?;
        let last = fields.u32()?;
        let end = self.time(last);
        record.start = Some(self.time(first)).filter(|start| *start <= end);
        record.end = Some(end);
        record.source_port = fields.u16();
        record.destination_port = fields.u16();
        fields.u8();
        record.tcp_flags = fields.u8().map(u16::from);
        record.protocol = fields.u8();
        record.traffic_class = fields.u8();
        record.source_as = fields.u16().map(u32::from);
        record.destination_as = fields.u16().map(u32::from);
        if matches!(record.protocol, Some(1 | 58)) {
            record.icmp = record.destination_port;
            record.source_port = None;
            record.destination_port = None;
        }
        record.rate = (self.sampling_interval > 0).then(|| SamplingRate {
            packets: f64::from(self.sampling_interval),
            source: RateSource::Options,
        });
        Some(record)
    }

    fn time(&self, uptime_ms: u32) -> Timestamp {
        self.exported
            .plus(-1_000_000 * i64::from(self.uptime_ms.wrapping_sub(uptime_ms) as i32))
    }
}
