//! Flow records to messages of IPFIX (RFC 7011) or NetFlow v9 (RFC 3954).

use std::collections::BTreeMap;
use std::fmt;

use wire::Timestamp;

use crate::ExportProtocol;
use crate::element_id::ElementId;
use crate::exported_flow::ExportedFlow;
use crate::outgoing::{OutgoingRecord, OutgoingValue, reversed};

/// First identifier of a template.
const FIRST_TEMPLATE: u16 = 256;
/// Maximum number of templates, one per combination of fields.
const MAX_TEMPLATES: usize = 1024;
/// Length of a field of variable length in a template (RFC 7011 section 7).
const VARIABLE: u16 = 65_535;
/// `flowStartMilliseconds` and `flowEndMilliseconds`.
const MILLISECONDS: (u16, u16) = (152, 153);
/// `flowStartSysUpTime` and `flowEndSysUpTime`.
const UPTIME: (u16, u16) = (22, 21);

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
    /// Number of messages after which templates are repeated.
    pub template_messages: u64,
    /// Time of the exporter's start, from which NetFlow v9 counts.
    pub started: Timestamp,
}

/// Reason why a record cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordRefusal {
    /// The record has no field.
    Empty,
    /// The record with its template is longer than a message.
    TooLong,
    /// The record needs a template, and the maximum number of templates is in use.
    TooManyTemplates,
    /// The record has a string, which NetFlow v9 does not support.
    VariableLength,
}

impl fmt::Display for RecordRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RecordRefusal::Empty => "a record has no field",
            RecordRefusal::TooLong => "a record is longer than a message",
            RecordRefusal::TooManyTemplates => "records need more than 1024 templates",
            RecordRefusal::VariableLength => "NetFlow v9 has no strings of variable length",
        })
    }
}

/// Encodes flow records as messages. Fields that a record lacks are left out of its template, so that a collector does
/// not take them for zero.
#[derive(Debug)]
pub struct FlowEncoder {
    config: FlowEncoderConfig,
    templates: Vec<SentTemplate>,
    /// Templates by their fields.
    known: BTreeMap<Vec<TemplateEntry>, usize>,
    message: Vec<u8>,
    /// Start and template of the open data set.
    open_set: Option<(usize, usize)>,
    /// Records and templates in the message.
    records: u32,
    flows: u32,
    /// Number of the next record (IPFIX) or message (NetFlow v9).
    sequence: u32,
    /// Number of messages so far.
    messages: u64,
    times_omitted: u64,
    /// Scratch: the fields of the record.
    entries: Vec<TemplateEntry>,
}

#[derive(Debug)]
struct SentTemplate {
    fields: Vec<TemplateEntry>,
    /// Time and number of the last message with it.
    sent: Option<(Timestamp, u64)>,
}

/// A field of a template that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TemplateEntry {
    element: ElementId,
    len: u16,
}

/// Times of a record as fields of equal length.
struct TimeFields {
    values: [Option<(u16, u64)>; 2],
    len: u16,
}

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
            known: BTreeMap::new(),
            message: Vec::new(),
            open_set: None,
            records: 0,
            flows: 0,
            sequence: 0,
            messages: 0,
            times_omitted: 0,
            entries: Vec::new(),
        }
    }

    /// Adds a flow; `send` gets the message that it does not fit into. NetFlow v9 has a record for each direction.
    ///
    /// # Errors
    /// `RecordRefusal` when a record cannot be sent.
    pub fn push(
        &mut self,
        flow: &ExportedFlow<'_>,
        now: Timestamp,
        send: &mut impl FnMut(&[u8]),
    ) -> Result<(), RecordRefusal> {
        let is_ipfix = self.is_ipfix();
        // NetFlow v9 has one byte of flags.
        let flag_bytes = if is_ipfix { 2 } else { 1 };
        let record = |flow: &ExportedFlow<'_>| OutgoingRecord::of(flow, flag_bytes, is_ipfix);
        self.push_record(&record(flow), now, send)?;
        let has_reverse = flow.reverse_packets.is_some() || flow.reverse_bytes.is_some();
        if !is_ipfix && has_reverse {
            self.push_record(&record(&reversed(flow)), now, send)?;
        }
        Ok(())
    }

    /// Adds a record; `send` gets the message that it does not fit into.
    ///
    /// # Errors
    /// `RecordRefusal` when it cannot be sent.
    pub fn push_record(
        &mut self,
        record: &OutgoingRecord,
        now: Timestamp,
        send: &mut impl FnMut(&[u8]),
    ) -> Result<(), RecordRefusal> {
        let times = self.times(record, now);
        let record_len = self.list_entries(record, &times)?;
        let template_len = 8 + 8 * self.entries.len();
        // A set's header and its padding.
        let set_len = 8;
        if self.header_len() + template_len + record_len + set_len > self.config.max_len {
            return Err(RecordRefusal::TooLong);
        }
        let template = self.template()?;
        let needed = record_len
            + set_len
            + if self.is_due(template, now) {
                template_len
            } else {
                0
            };
        if self.message.len() + needed > self.config.max_len {
            self.flush(now, send);
        }
        if self.message.is_empty() {
            self.message.resize(self.header_len(), 0);
        }
        // In a new message, the template may be due where it was not before.
        if self.is_due(template, now) {
            self.write_template(template);
            self.templates[template].sent = Some((now, self.messages));
        }
        self.write_record(template, record, &times);
        self.times_omitted += [record.start, record.end]
            .into_iter()
            .zip(times.values)
            .filter(|(time, sent)| time.is_some() && sent.is_none())
            .count() as u64;
        Ok(())
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
        self.messages += 1;
        self.begin_message();
    }

    /// Number of the next record (IPFIX) or message (NetFlow v9).
    #[must_use]
    pub fn sequence(&self) -> u32 {
        self.sequence
    }

    /// Discards the records that were not sent, continues with this number, and sends every template again with its
    /// next record: for a new transport session, or after messages that did not arrive.
    pub fn resume(&mut self, sequence: u32) {
        self.begin_message();
        self.sequence = sequence;
        self.templates
            .iter_mut()
            .for_each(|template| template.sent = None);
    }

    /// Times that the protocol cannot represent: those before 1970.
    #[must_use]
    pub fn times_omitted(&self) -> u64 {
        self.times_omitted
    }

    fn begin_message(&mut self) {
        self.message.clear();
        self.open_set = None;
        self.records = 0;
        self.flows = 0;
    }

    fn is_ipfix(&self) -> bool {
        self.config.protocol == ExportProtocol::Ipfix
    }

    /// Milliseconds since the start of the exporter, modulo 2^32.
    fn uptime(&self, time: Timestamp) -> u32 {
        time.since(self.config.started).div_euclid(1_000_000) as u32
    }

    fn header_len(&self) -> usize {
        if self.is_ipfix() { 16 } else { 20 }
    }

    /// The times of a record: in NetFlow v9 relative to the start of the exporter, unless they were before it, are in
    /// the future, or the 32 bits of the milliseconds have wrapped since.
    fn times(&self, record: &OutgoingRecord, now: Timestamp) -> TimeFields {
        let times = [record.start, record.end];
        let now_ms = i64::from(self.uptime(now));
        let ago_ms = |time: Timestamp| now.since(time).div_euclid(1_000_000);
        let is_recent = |time: &Timestamp| (0..=now_ms).contains(&ago_ms(*time));
        let is_relative = !self.is_ipfix() && times.iter().flatten().all(is_recent);
        let (ids, len) = if is_relative {
            (UPTIME, 4)
        } else {
            (MILLISECONDS, 8)
        };
        let value = |time: Timestamp| {
            if is_relative {
                Some(u64::from(self.uptime(time)))
            } else {
                u64::try_from(time.0.div_euclid(1_000_000)).ok()
            }
        };
        let field = |id: u16, time: Option<Timestamp>| Some((id, value(time?)?));
        TimeFields {
            values: [field(ids.0, record.start), field(ids.1, record.end)],
            len,
        }
    }

    /// Lists the fields of a record; returns its length.
    fn list_entries(
        &mut self,
        record: &OutgoingRecord,
        times: &TimeFields,
    ) -> Result<usize, RecordRefusal> {
        self.entries.clear();
        let time = |(id, _): &(u16, u64)| TemplateEntry {
            element: ElementId {
                enterprise: 0,
                id: *id,
            },
            len: times.len,
        };
        self.entries.extend(times.values.iter().flatten().map(time));
        let mut record_len = self.entries.len() * usize::from(times.len);
        for field in &record.fields {
            let len = match &field.value {
                OutgoingValue::Fixed { len, .. } => {
                    record_len += usize::from(*len);
                    u16::from(*len)
                }
                OutgoingValue::Text(_) if !self.is_ipfix() => {
                    return Err(RecordRefusal::VariableLength);
                }
                OutgoingValue::Text(text) => {
                    record_len += text.len() + if text.len() < 255 { 1 } else { 3 };
                    VARIABLE
                }
            };
            self.entries.push(TemplateEntry {
                element: field.element,
                len,
            });
        }
        if self.entries.is_empty() {
            Err(RecordRefusal::Empty)
        } else {
            Ok(record_len)
        }
    }

    /// The template with exactly the listed fields.
    fn template(&mut self) -> Result<usize, RecordRefusal> {
        if let Some(known) = self.known.get(&self.entries) {
            return Ok(*known);
        }
        if self.templates.len() >= MAX_TEMPLATES {
            return Err(RecordRefusal::TooManyTemplates);
        }
        let fields = self.entries.clone();
        self.known.insert(fields.clone(), self.templates.len());
        self.templates.push(SentTemplate { fields, sent: None });
        Ok(self.templates.len() - 1)
    }

    fn is_due(&self, template: usize, now: Timestamp) -> bool {
        self.templates[template].sent.is_none_or(|(time, message)| {
            now.since(time) >= self.config.template_interval_ns
                || self.messages - message >= self.config.template_messages
        })
    }

    fn write_record(&mut self, template: usize, record: &OutgoingRecord, times: &TimeFields) {
        if self.open_set.is_none_or(|(_, open)| open != template) {
            self.close_set();
            self.open_set = Some((self.message.len(), template));
            self.message
                .extend((FIRST_TEMPLATE + template as u16).to_be_bytes());
            self.message.extend([0; 2]);
        }
        for (_, value) in times.values.into_iter().flatten() {
            self.message
                .extend(&value.to_be_bytes()[8 - usize::from(times.len)..]);
        }
        for field in &record.fields {
            match &field.value {
                OutgoingValue::Fixed { value, len } => self
                    .message
                    .extend(&value.to_be_bytes()[16 - usize::from(*len)..]),
                OutgoingValue::Text(text) => {
                    match u8::try_from(text.len()) {
                        Ok(len) if len < 255 => self.message.push(len),
                        _ => {
                            self.message.push(255);
                            self.message.extend((text.len() as u16).to_be_bytes());
                        }
                    }
                    self.message.extend(&text[..]);
                }
            }
        }
        self.records += 1;
        self.flows += 1;
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
        for TemplateEntry { element, len } in fields {
            let enterprise_bit = if element.enterprise == 0 { 0 } else { 0x8000 };
            self.message
                .extend((element.id | enterprise_bit).to_be_bytes());
            self.message.extend(len.to_be_bytes());
            if element.enterprise != 0 {
                self.message.extend(element.enterprise.to_be_bytes());
            }
        }
        self.records += 1;
        self.end_set(start, 4);
    }

    fn close_set(&mut self) {
        if let Some((start, template)) = self.open_set.take() {
            let shortest = |entry: &TemplateEntry| match entry.len {
                VARIABLE => 1,
                len => usize::from(len),
            };
            let fields = &self.templates[template].fields;
            self.end_set(start, fields.iter().map(shortest).sum());
        }
    }

    /// Pads a set to four bytes, unless a record may be as short as the padding, and writes its length.
    fn end_set(&mut self, start: usize, shortest: usize) {
        let len = self.message.len() - start;
        let padded = len.next_multiple_of(4);
        let len = if padded - len < shortest { padded } else { len };
        self.message.resize(start + len, 0);
        self.message[start + 2..start + 4].copy_from_slice(&(len as u16).to_be_bytes());
    }
}
