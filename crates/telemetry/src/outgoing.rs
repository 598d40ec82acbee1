//! Flow records to be sent, as lists of information elements.

use std::net::IpAddr;

use wire::Timestamp;

use crate::element_id::ElementId;
use crate::exported_flow::{ExportedFlow, FlowDirection};

/// Enterprise number of reversed elements (RFC 5103 section 6.1).
const REVERSE: u32 = 29305;

/// A flow record to be sent. The encoder selects the elements of its times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutgoingRecord {
    /// First packet.
    pub start: Option<Timestamp>,
    /// Last packet.
    pub end: Option<Timestamp>,
    /// Elements with a value, in the order of the template.
    pub fields: Vec<OutgoingField>,
}

/// An information element with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingField {
    /// The element.
    pub element: ElementId,
    /// The value.
    pub value: OutgoingValue,
}

/// Value of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutgoingValue {
    /// The lower `len` bytes of a number or address, 1 to 16.
    Fixed {
        /// The number.
        value: u128,
        /// Length of the field in a record, in bytes.
        len: u8,
    },
    /// A string of variable length (RFC 7011 section 7), which NetFlow v9 lacks.
    Text(Box<[u8]>),
}

impl OutgoingRecord {
    /// Appends a registered element of `len` bytes, if it has a value.
    pub fn put(&mut self, id: u16, len: u8, value: Option<impl Into<u128>>) {
        self.put_of(0, id, len, value);
    }

    /// Appends a reversed element (RFC 5103) of `len` bytes, if it has a value.
    pub fn put_reverse(&mut self, id: u16, len: u8, value: Option<impl Into<u128>>) {
        self.put_of(REVERSE, id, len, value);
    }

    /// Appends an element of an enterprise of `len` bytes, if it has a value.
    pub fn put_of(&mut self, enterprise: u32, id: u16, len: u8, value: Option<impl Into<u128>>) {
        if let Some(value) = value {
            self.fields.push(OutgoingField {
                element: ElementId { enterprise, id },
                value: OutgoingValue::Fixed {
                    value: value.into(),
                    len,
                },
            });
        }
    }

    /// Appends a string of an enterprise (0: registered).
    pub fn put_text(&mut self, enterprise: u32, id: u16, text: &[u8]) {
        self.fields.push(OutgoingField {
            element: ElementId { enterprise, id },
            value: OutgoingValue::Text(text.into()),
        });
    }

    /// Appends an address as the element of its family, if it has a value.
    pub fn put_address(&mut self, v4: u16, v6: u16, address: Option<IpAddr>) {
        match address {
            Some(IpAddr::V4(address)) => self.put(v4, 4, Some(address.to_bits())),
            Some(IpAddr::V6(address)) => self.put(v6, 16, Some(address.to_bits())),
            None => {}
        }
    }

    /// The fields of a record. `flag_bytes`: length of TCP flags; reversed elements are for IPFIX only.
    pub(crate) fn of(flow: &ExportedFlow<'_>, flag_bytes: u8, is_ipfix: bool) -> OutgoingRecord {
        let mut record = OutgoingRecord {
            start: flow.start,
            end: flow.end,
            fields: Vec::with_capacity(24),
        };
        if is_ipfix {
            record.put_reverse(1, 8, flow.reverse_bytes);
            record.put_reverse(2, 8, flow.reverse_packets);
            record.put(136, 1, flow.end_reason);
        }
        record.put_address(8, 27, flow.source);
        record.put_address(12, 28, flow.destination);
        record.put_address(15, 62, flow.next_hop);
        record.put(7, 2, flow.source_port);
        record.put(11, 2, flow.destination_port);
        record.put(4, 1, flow.protocol);
        let is_v6 = matches!(flow.source, Some(IpAddr::V6(_)));
        record.put(if is_v6 { 139 } else { 32 }, 2, flow.icmp);
        record.put(6, flag_bytes, flow.tcp_flags);
        record.put(5, 1, flow.traffic_class);
        record.put(1, 8, flow.bytes);
        record.put(2, 8, flow.packets);
        record.put(10, 4, flow.input);
        record.put(14, 4, flow.output);
        let is_egress = |direction| u8::from(direction == FlowDirection::Egress);
        record.put(61, 1, flow.direction.map(is_egress));
        record.put(58, 2, flow.vlan);
        record.put(16, 4, flow.source_as);
        record.put(17, 4, flow.destination_as);
        record
    }
}

/// The other direction of a flow, as a record of its own.
pub(crate) fn reversed<'a>(flow: &ExportedFlow<'a>) -> ExportedFlow<'a> {
    ExportedFlow {
        source: flow.destination,
        destination: flow.source,
        source_port: flow.destination_port,
        destination_port: flow.source_port,
        packets: flow.reverse_packets,
        bytes: flow.reverse_bytes,
        input: flow.output,
        output: flow.input,
        source_as: flow.destination_as,
        destination_as: flow.source_as,
        source_mac: flow.destination_mac,
        destination_mac: flow.source_mac,
        next_hop: None,
        tcp_flags: None,
        ..*flow
    }
}
