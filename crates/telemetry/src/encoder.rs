//! Flow records to messages of IPFIX (RFC 7011) or NetFlow v9 (RFC 3954).

use std::net::IpAddr;

use wire::Timestamp;

use crate::ExportProtocol;
use crate::exported_flow::{ExportedFlow, FlowDirection};

/// Enterprise number of reversed elements (RFC 5103).
const REVERSE: u32 = 29305;
/// First identifier of a template.
const FIRST_TEMPLATE: u16 = 256;
/// Templates in use; a flow with another combination of fields is sent without its rarest ones.
const MAX_TEMPLATES: usize = 256;

/// Settings of a [`FlowEncoder`].
#[derive(Clone, Copy, Debug)]
pub struct FlowEncoderConfig {
    /// IPFIX or NetFlow v9.
    pub protocol: ExportProtocol,
    /// Observation domain (IPFIX) or source (NetFlow v9).
    pub domain: u32,
    /// Maximum bytes of a message.
    pub max_len: usize,
    /// Interval at which templates are repeated, in nanoseconds; datagrams can be lost.
    pub template_interval_ns: i64,
    /// Time of the exporter's start, from which NetFlow v9 counts.
    pub started: Timestamp,
}

/// Encodes flow records as messages. Fields that a record lacks are left out of its template, so that a collector does
/// not take them for zero.
#[derive(Debug)]
pub struct FlowEncoder {
    config: FlowEncoderConfig,
    templates: Vec<SentTemplate>,
    message: Vec<u8>,
    /// Start and template of the open data set.
    open_set: Option<(usize, usize)>,
    /// Records and templates in the message.
    records: u32,
    flows: u32,
    /// Number of the next record (IPFIX) or message (NetFlow v9).
    sequence: u32,
}

#[derive(Debug)]
struct SentTemplate {
    fields: Vec<OutgoingField>,
    sent: Option<Timestamp>,
}

/// A field of a template that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OutgoingField {
    enterprise: u32,
    id: u16,
    len: u16,
}

/// The value of a field, in the lower bytes.
type FieldValue = (OutgoingField, u128);

impl FlowEncoder {
    /// An encoder without records.
    ///
    /// # Panics
    /// With another protocol than IPFIX and NetFlow v9, or less than 512 bytes per message.
    #[must_use]
    pub fn new(config: FlowEncoderConfig) -> FlowEncoder {
        let is_templated = matches!(
            config.protocol,
            ExportProtocol::Ipfix | ExportProtocol::Netflow9
        );
        assert!(
            is_templated && (512..=65_535).contains(&config.max_len),
            "{config:?}"
        );
        FlowEncoder {
            config,
            templates: Vec::new(),
            message: Vec::new(),
            open_set: None,
            records: 0,
            flows: 0,
            sequence: 0,
        }
    }

    /// Adds a record; `send` gets the message that it does not fit into. NetFlow v9 has a record for each direction.
    pub fn push(&mut self, flow: &ExportedFlow<'_>, now: Timestamp, send: &mut impl FnMut(&[u8])) {
        if self.is_ipfix() {
            self.push_record(&self.fields(flow), now, send);
            return;
        }
        self.push_record(&self.fields(flow), now, send);
        if flow.reverse_packets.is_some() || flow.reverse_bytes.is_some() {
            self.push_record(&self.fields(&reversed(flow)), now, send);
        }
    }

    /// Ends the message, if it has a record.
    pub fn flush(&mut self, now: Timestamp, send: &mut impl FnMut(&[u8])) {
        if self.message.is_empty() {
            return;
        }
        self.close_set();
        let seconds = (now.0.div_euclid(1_000_000_000) as u32).to_be_bytes();
        let len = self.message.len() as u16;
        let mut header = Vec::with_capacity(20);
        if self.is_ipfix() {
            header.extend(10u16.to_be_bytes());
            header.extend(len.to_be_bytes());
            header.extend(seconds);
            header.extend(self.sequence.to_be_bytes());
            self.sequence = self.sequence.wrapping_add(self.flows);
        } else {
            header.extend(9u16.to_be_bytes());
            header.extend((self.records as u16).to_be_bytes());
            header.extend(
                self.uptime(Timestamp(now.0.div_euclid(1_000_000_000) * 1_000_000_000))
                    .to_be_bytes(),
            );
            header.extend(seconds);
            header.extend(self.sequence.to_be_bytes());
            self.sequence = self.sequence.wrapping_add(1);
        }
        header.extend(self.config.domain.to_be_bytes());
        self.message[..header.len()].copy_from_slice(&header);
        send(&self.message);
        self.message.clear();
        self.records = 0;
        self.flows = 0;
    }

    fn is_ipfix(&self) -> bool {
        self.config.protocol == ExportProtocol::Ipfix
    }

    fn uptime(&self, time: Timestamp) -> u32 {
        time.since(self.config.started).div_euclid(1_000_000) as u32
    }

    fn header_len(&self) -> usize {
        if self.is_ipfix() { 16 } else { 20 }
    }

    fn push_record(&mut self, values: &[FieldValue], now: Timestamp, send: &mut impl FnMut(&[u8])) {
        let template = self.template_for(values);
        let record_len: usize = self.templates[template]
            .fields
            .iter()
            .map(|field| usize::from(field.len))
            .sum();
        let template_len = 8 + 8 * self.templates[template].fields.len();
        // A set's header and its padding.
        if self.message.len() + template_len + record_len + 8 > self.config.max_len {
            self.flush(now, send);
        }
        if self.message.is_empty() {
            self.message.resize(self.header_len(), 0);
        }
        let interval = self.config.template_interval_ns;
        if self.templates[template]
            .sent
            .is_none_or(|sent| now.since(sent) >= interval)
        {
            self.write_template(template);
            self.templates[template].sent = Some(now);
        }
        if self.open_set.is_none_or(|(_, open)| open != template) {
            self.close_set();
            self.open_set = Some((self.message.len(), template));
            self.message
                .extend((FIRST_TEMPLATE + template as u16).to_be_bytes());
            self.message.extend([0; 2]);
        }
        for field in &self.templates[template].fields {
            let value = values
                .iter()
                .find(|(of, _)| of == field)
                .map_or(0, |(_, value)| *value);
            self.message
                .extend(&value.to_be_bytes()[16 - usize::from(field.len)..]);
        }
        self.records += 1;
        self.flows += 1;
    }

    /// The template with exactly these fields, or, if there are too many, the one that leaves out the fewest.
    fn template_for(&mut self, values: &[FieldValue]) -> usize {
        let is_same = |template: &SentTemplate| {
            template.fields.len() == values.len()
                && template.fields.iter().zip(values).all(|(a, (b, _))| a == b)
        };
        if let Some(known) = self.templates.iter().position(is_same) {
            return known;
        }
        if self.templates.len() < MAX_TEMPLATES {
            let fields = values.iter().map(|(field, _)| *field).collect();
            self.templates.push(SentTemplate { fields, sent: None });
            return self.templates.len() - 1;
        }
        let has = |field: &OutgoingField| values.iter().any(|(of, _)| of == field);
        let subsets = self
            .templates
            .iter()
            .enumerate()
            .filter(|(_, template)| template.fields.iter().all(has));
        subsets
            .max_by_key(|(_, template)| template.fields.len())
            .map_or(0, |(place, _)| place)
    }

    fn write_template(&mut self, template: usize) {
        self.close_set();
        let start = self.message.len();
        let set: u16 = if self.is_ipfix() { 2 } else { 0 };
        self.message.extend(set.to_be_bytes());
        self.message.extend([0; 2]);
        let fields = &self.templates[template].fields;
        self.message
            .extend((FIRST_TEMPLATE + template as u16).to_be_bytes());
        self.message.extend((fields.len() as u16).to_be_bytes());
        for field in fields {
            let enterprise_bit = if field.enterprise == 0 { 0 } else { 0x8000 };
            self.message
                .extend((field.id | enterprise_bit).to_be_bytes());
            self.message.extend(field.len.to_be_bytes());
            if field.enterprise != 0 {
                self.message.extend(field.enterprise.to_be_bytes());
            }
        }
        self.records += 1;
        self.end_set(start);
    }

    fn close_set(&mut self) {
        if let Some((start, _)) = self.open_set.take() {
            self.end_set(start);
        }
    }

    /// Pads a set to four bytes, and writes its length.
    fn end_set(&mut self, start: usize) {
        let padded = (self.message.len() - start).next_multiple_of(4);
        self.message.resize(start + padded, 0);
        self.message[start + 2..start + 4].copy_from_slice(&(padded as u16).to_be_bytes());
    }

    /// The fields that a record has.
    fn fields(&self, flow: &ExportedFlow<'_>) -> Vec<FieldValue> {
        let mut fields = Vec::with_capacity(24);
        let mut put = |enterprise, id, len, value: Option<u128>| {
            fields.extend(value.map(|value| {
                (
                    OutgoingField {
                        enterprise,
                        id,
                        len,
                    },
                    value,
                )
            }));
        };
        if self.is_ipfix() {
            let millis = |time: Option<Timestamp>| {
                time.map(|time| time.0.div_euclid(1_000_000) as u64 as u128)
            };
            put(0, 152, 8, millis(flow.start));
            put(0, 153, 8, millis(flow.end));
            put(REVERSE, 1, 8, flow.reverse_bytes.map(u128::from));
            put(REVERSE, 2, 8, flow.reverse_packets.map(u128::from));
            put(0, 136, 1, flow.end_reason.map(u128::from));
        } else {
            let uptime = |time: Option<Timestamp>| time.map(|time| u128::from(self.uptime(time)));
            put(0, 22, 4, uptime(flow.start));
            put(0, 21, 4, uptime(flow.end));
        }
        for (address, v4, v6) in [
            (flow.source, 8, 27),
            (flow.destination, 12, 28),
            (flow.next_hop, 15, 62),
        ] {
            match address {
                Some(IpAddr::V4(address)) => put(0, v4, 4, Some(u128::from(address.to_bits()))),
                Some(IpAddr::V6(address)) => put(0, v6, 16, Some(address.to_bits())),
                None => {}
            }
        }
        put(0, 7, 2, flow.source_port.map(u128::from));
        put(0, 11, 2, flow.destination_port.map(u128::from));
        put(0, 4, 1, flow.protocol.map(u128::from));
        let icmp = if matches!(flow.source, Some(IpAddr::V6(_))) {
            139
        } else {
            32
        };
        put(0, icmp, 2, flow.icmp.map(u128::from));
        // NetFlow v9 has one byte of flags.
        let flag_bytes = if self.is_ipfix() { 2 } else { 1 };
        put(0, 6, flag_bytes, flow.tcp_flags.map(u128::from));
        put(0, 5, 1, flow.traffic_class.map(u128::from));
        put(0, 1, 8, flow.bytes.map(u128::from));
        put(0, 2, 8, flow.packets.map(u128::from));
        put(0, 10, 4, flow.input.map(u128::from));
        put(0, 14, 4, flow.output.map(u128::from));
        put(
            0,
            61,
            1,
            flow.direction
                .map(|direction| u128::from(direction == FlowDirection::Egress)),
        );
        put(0, 58, 2, flow.vlan.map(u128::from));
        put(0, 16, 4, flow.source_as.map(u128::from));
        put(0, 17, 4, flow.destination_as.map(u128::from));
        fields
    }
}

/// The other direction of a flow, as a record of its own.
fn reversed<'a>(flow: &ExportedFlow<'a>) -> ExportedFlow<'a> {
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
