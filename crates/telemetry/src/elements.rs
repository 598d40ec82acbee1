//! Information elements: fields of templates in the terms of a [`ExportedFlow`]. Numbers are those of IANA's registry
//! "IPFIX Information Elements"; 1 to 127 are those of NetFlow v9.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::Timestamp;

use crate::cursor::unsigned;
use crate::exported_flow::{ExportedFlow, FlowDirection, PacketSection, SectionStart};
use crate::sampling::SamplingFields;
use crate::template::{TemplateField, TemplateRecord};
use crate::templated::MessageHeader;

/// Enterprise number of reversed elements (RFC 5103 section 6.1).
const REVERSE: u32 = 29305;

/// A time in one of the forms that exporters use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimeForm {
    /// Milliseconds since the exporter's start, modulo 2^32.
    Uptime(u32),
    /// Nanoseconds since 1970.
    Absolute(i64),
    /// Nanoseconds before the export.
    BeforeExport(i64),
}

/// Times as sent; resolved when the record is complete, because their order is free.
#[derive(Clone, Copy, Debug, Default)]
struct TimeFields {
    start: Option<TimeForm>,
    end: Option<TimeForm>,
    duration_ns: Option<i64>,
    /// Start of the exporter (element 160), milliseconds since 1970.
    exporter_start_ms: Option<u64>,
}

/// Reads the fields of one record.
#[derive(Debug)]
pub(crate) struct RecordFields<'a> {
    pub record: ExportedFlow<'a>,
    /// `None` if the record has no sampling fields.
    pub sampling: Option<SamplingFields>,
    times: TimeFields,
}

impl<'a> RecordFields<'a> {
    #[inline]
    pub fn new(record: ExportedFlow<'a>) -> RecordFields<'a> {
        RecordFields {
            record,
            sampling: None,
            times: TimeFields::default(),
        }
    }

    /// Takes the fields of a record.
    #[inline]
    pub fn take_all(&mut self, record: &TemplateRecord<'a>) {
        for field in record.fields() {
            self.take(field);
        }
    }

    /// Start of the exporter, if the record has it (element 160).
    pub fn exporter_start_ms(&self) -> Option<u64> {
        self.times.exporter_start_ms
    }

    /// Takes a field; unknown elements and values of an impossible length are ignored.
    #[inline]
    pub fn take(&mut self, field: TemplateField<'a>) {
        match field.element.enterprise {
            0 => self.take_registered(field.element.id, field.value),
            REVERSE => match field.element.id {
                1 => self.record.reverse_bytes = unsigned(field.value),
                2 => self.record.reverse_packets = unsigned(field.value),
                _ => {}
            },
            _ => {}
        }
    }

    #[inline]
    fn take_registered(&mut self, id: u16, value: &'a [u8]) {
        let record = &mut self.record;
        match id {
            1 | 231 => record.bytes = unsigned(value),
            2 | 298 => record.packets = unsigned(value),
            // Counted after the exporter changed or dropped packets: only where nothing else is sent.
            23 => record.bytes = record.bytes.or(unsigned(value)),
            24 => record.packets = record.packets.or(unsigned(value)),
            232 => record.reverse_bytes = unsigned(value),
            299 => record.reverse_packets = unsigned(value),
            85 => record.totals.get_or_insert_default().bytes = unsigned(value),
            86 => record.totals.get_or_insert_default().packets = unsigned(value),
            312 | 352 => record.layer2_bytes = unsigned(value),
            4 => record.protocol = narrow(value),
            5 => record.traffic_class = narrow(value),
            6 => record.tcp_flags = narrow(value),
            7 | 180 | 182 => record.source_port = narrow(value),
            11 | 181 | 183 => record.destination_port = narrow(value),
            32 | 139 => record.icmp = narrow(value),
            176 | 178 => record.icmp = with_upper(record.icmp, value),
            177 | 179 => record.icmp = with_lower(record.icmp, value),
            8 => take_address(&mut record.source, ipv4(value)),
            12 => take_address(&mut record.destination, ipv4(value)),
            27 => take_address(&mut record.source, ipv6(value)),
            28 => take_address(&mut record.destination, ipv6(value)),
            15 => take_address(&mut record.next_hop, ipv4(value)),
            62 => take_address(&mut record.next_hop, ipv6(value)),
            10 | 252 => record.input = record.input.or(narrow(value)),
            14 | 253 => record.output = record.output.or(narrow(value)),
            16 => record.source_as = narrow(value),
            17 => record.destination_as = narrow(value),
            56 => record.source_mac = value.try_into().ok(),
            80 => record.destination_mac = value.try_into().ok(),
            58 | 243 => record.vlan = narrow(value),
            61 => record.direction = direction(value),
            136 => record.end_reason = narrow(value),
            104 | 315 => {
                record.section = Some(PacketSection {
                    start: SectionStart::DataLink,
                    bytes: value,
                })
            }
            313 => {
                record.section = Some(PacketSection {
                    start: SectionStart::Network,
                    bytes: value,
                })
            }
            530 => record.path_delay_mean_ns = micros(value),
            531 => record.path_delay_min_ns = micros(value),
            532 => record.path_delay_max_ns = micros(value),
            34 | 48 | 50 | 302 | 305 | 306 | 309..=311 => {
                self.sampling.get_or_insert_default().take(id, value);
            }
            _ => self.times.take(id, value),
        }
    }

    /// Completes the record: resolves its times. `exporter_start_ms`: from the exporter's options. Returns how many
    /// times were rejected.
    pub fn finish(&mut self, header: &MessageHeader, exporter_start_ms: Option<u64>) -> u64 {
        let rejected = self
            .times
            .resolve(&mut self.record, header, exporter_start_ms);
        if self.record.section.is_some() && self.record.totals.is_none() {
            self.record.packets = self.record.packets.or(Some(1));
        }
        rejected
    }
}

impl TimeFields {
    #[inline]
    fn take(&mut self, id: u16, value: &[u8]) {
        let form = match id {
            22 | 21 => narrow(value).map(TimeForm::Uptime),
            150 | 151 | 322 => absolute(value, 1_000_000_000),
            152 | 153 | 323 => absolute(value, 1_000_000),
            154..=157 | 324 | 325 => ntp(value).map(TimeForm::Absolute),
            158 | 159 => {
                narrow::<u32>(value).map(|us| TimeForm::BeforeExport(i64::from(us) * 1000))
            }
            160 => {
                self.exporter_start_ms = unsigned(value);
                return;
            }
            161 => {
                self.duration_ns = narrow::<u32>(value).map(|ms| i64::from(ms) * 1_000_000);
                return;
            }
            162 => {
                self.duration_ns = narrow::<u32>(value).map(|us| i64::from(us) * 1000);
                return;
            }
            _ => return,
        };
        let is_start = matches!(id, 22 | 150 | 152 | 154 | 156 | 158 | 322..=325);
        let is_end = matches!(id, 21 | 151 | 153 | 155 | 157 | 159 | 322..=325);
        for (slot, is_of) in [(&mut self.start, is_start), (&mut self.end, is_end)] {
            if is_of
                && form.is_some()
                && (slot.is_none() || !matches!(form, Some(TimeForm::Uptime(_))))
            {
                *slot = form;
            }
        }
    }

    fn resolve(
        &self,
        record: &mut ExportedFlow<'_>,
        header: &MessageHeader,
        exporter_start_ms: Option<u64>,
    ) -> u64 {
        let exporter_start_ms = self.exporter_start_ms.or(exporter_start_ms);
        let mut rejected = 0;
        let mut resolve = |form: Option<TimeForm>| {
            let time = form?.resolve(header, exporter_start_ms)?;
            let is_plausible = is_plausible(time, header.exported);
            rejected += u64::from(!is_plausible);
            is_plausible.then_some(Timestamp(time))
        };
        let mut start = resolve(self.start);
        let mut end = resolve(self.end);
        if let Some(duration) = self.duration_ns {
            end = end.or(start.map(|start| start.plus(duration)));
            start = start.or(end.map(|end| end.plus(-duration)));
        }
        if start > end && end.is_some() {
            rejected += 1;
            start = None;
        }
        record.start = start;
        record.end = end;
        rejected
    }
}

impl TimeForm {
    fn resolve(self, header: &MessageHeader, exporter_start_ms: Option<u64>) -> Option<i64> {
        match self {
            TimeForm::Absolute(time) => Some(time),
            TimeForm::BeforeExport(ns) => Some(header.exported.0.saturating_sub(ns)),
            TimeForm::Uptime(ms) => match (header.uptime_ms, exporter_start_ms) {
                // The difference of two uptimes, so that neither wraps.
                (Some(uptime), _) => {
                    let before_ms = i64::from(uptime.wrapping_sub(ms) as i32);
                    Some(header.exported.0.saturating_sub(before_ms * 1_000_000))
                }
                (None, Some(start)) => {
                    let start_ns = i64::try_from(start).ok()?.checked_mul(1_000_000)?;
                    let exported_ms =
                        (header.exported.0.saturating_sub(start_ns)).div_euclid(1_000_000);
                    let before_ms = i64::from((exported_ms as u32).wrapping_sub(ms) as i32);
                    Some(header.exported.0.saturating_sub(before_ms * 1_000_000))
                }
                (None, None) => None,
            },
        }
    }
}

/// Times later than this after the export contradict it. Export times have a resolution of one second.
const AFTER_EXPORT_NS: i64 = 60 * 1_000_000_000;
/// Times earlier than this before the export contradict it, such as 1970.
const BEFORE_EXPORT_NS: i64 = 366 * 24 * 3600 * 1_000_000_000;

fn is_plausible(time: i64, exported: Timestamp) -> bool {
    (-BEFORE_EXPORT_NS..=AFTER_EXPORT_NS).contains(&time.saturating_sub(exported.0))
}

/// An unsigned value that fits into `T`.
#[inline]
fn narrow<T: TryFrom<u64>>(value: &[u8]) -> Option<T> {
    unsigned(value).and_then(|value| T::try_from(value).ok())
}

fn micros(value: &[u8]) -> Option<u64> {
    unsigned(value).and_then(|us| us.checked_mul(1000))
}

fn absolute(value: &[u8], unit_ns: i64) -> Option<TimeForm> {
    let units: i64 = narrow(value)?;
    units.checked_mul(unit_ns).map(TimeForm::Absolute)
}

/// Seconds between 1900 and 1970.
const NTP_TO_UNIX: i64 = 2_208_988_800;

/// NTP's format of 64 bits (RFC 7011 sections 6.1.9 and 6.1.10), in the era that began in 1900, or 2036 for small values.
pub(crate) fn ntp(value: &[u8]) -> Option<i64> {
    let value = unsigned(<&[u8; 8]>::try_from(value).ok()?)?;
    let seconds = (value >> 32) as i64 - NTP_TO_UNIX;
    let seconds = if seconds < 0 {
        seconds + (1 << 32)
    } else {
        seconds
    };
    let nanos = ((value & 0xffff_ffff) * 1_000_000_000) >> 32;
    seconds
        .checked_mul(1_000_000_000)?
        .checked_add(nanos as i64)
}

fn direction(value: &[u8]) -> Option<FlowDirection> {
    match unsigned(value)? {
        0 => Some(FlowDirection::Ingress),
        1 => Some(FlowDirection::Egress),
        _ => None,
    }
}

fn with_upper(both: Option<u16>, value: &[u8]) -> Option<u16> {
    narrow::<u8>(value).map(|upper| u16::from(upper) << 8 | both.unwrap_or(0) & 0xff)
}

fn with_lower(both: Option<u16>, value: &[u8]) -> Option<u16> {
    narrow::<u8>(value).map(|lower| both.unwrap_or(0) & 0xff00 | u16::from(lower))
}

#[inline]
fn ipv4(value: &[u8]) -> Option<IpAddr> {
    <[u8; 4]>::try_from(value)
        .ok()
        .map(|bytes| IpAddr::V4(Ipv4Addr::from(bytes)))
}

fn ipv6(value: &[u8]) -> Option<IpAddr> {
    <[u8; 16]>::try_from(value)
        .ok()
        .map(|bytes| IpAddr::V6(Ipv6Addr::from(bytes)))
}

/// Some exporters send fields of both IP versions and set the unused one to zero.
#[inline]
fn take_address(slot: &mut Option<IpAddr>, address: Option<IpAddr>) {
    let is_unused = |address: &IpAddr| address.is_unspecified();
    if slot.as_ref().is_none_or(is_unused) && address.is_some() {
        *slot = address;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element_id::ElementId;
    use crate::{ExportDomain, ExportProtocol};

    const EXPORTED: i64 = 1_700_000_000 * 1_000_000_000;

    fn record(
        fields: &[(u16, &[u8])],
        uptime_ms: Option<u32>,
        start_ms: Option<u64>,
    ) -> (ExportedFlow<'static>, u64) {
        let exported = Timestamp(EXPORTED);
        let domain = ExportDomain {
            exporter: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 1,
            protocol: ExportProtocol::Ipfix,
            id: 0,
        };
        let mut taken = RecordFields::new(ExportedFlow::new(domain, exported));
        for (id, value) in fields {
            let value = Box::leak(value.to_vec().into_boxed_slice());
            taken.take(TemplateField {
                element: ElementId {
                    enterprise: 0,
                    id: *id,
                },
                value,
                is_scope: false,
            });
        }
        let header = MessageHeader {
            exported,
            uptime_ms,
        };
        let rejected = taken.finish(&header, start_ms);
        (taken.record, rejected)
    }

    /// Start and end relative to the export, and the times rejected.
    fn times(
        fields: &[(u16, &[u8])],
        uptime_ms: Option<u32>,
        start_ms: Option<u64>,
    ) -> (Option<i64>, Option<i64>, u64) {
        let (record, rejected) = record(fields, uptime_ms, start_ms);
        let relative = |time: Option<Timestamp>| time.map(|time| time.0 - EXPORTED);
        (relative(record.start), relative(record.end), rejected)
    }

    #[test]
    fn six_forms_of_time() {
        const SECOND: i64 = 1_000_000_000;
        let two_seconds = (Some(-2 * SECOND), Some(-SECOND), 0);
        let ms = |ms: u64| (1_700_000_000_000 - ms).to_be_bytes();
        let ntp =
            |s: u32| ((u64::from(1_700_000_000 - s) + NTP_TO_UNIX as u64) << 32).to_be_bytes();
        let s = |s: u32| (1_700_000_000 - s).to_be_bytes();
        let before = |us: u32| us.to_be_bytes();
        assert_eq!(
            times(&[(150, &s(2)), (151, &s(1))], None, None),
            two_seconds
        );
        assert_eq!(
            times(&[(152, &ms(2000)), (153, &ms(1000))], None, None),
            two_seconds
        );
        assert_eq!(
            times(&[(154, &ntp(2)), (155, &ntp(1))], None, None),
            two_seconds
        );
        assert_eq!(
            times(&[(156, &ntp(2)), (157, &ntp(1))], None, None),
            two_seconds
        );
        assert_eq!(
            times(
                &[(158, &before(2_000_000)), (159, &before(1_000_000))],
                None,
                None
            ),
            two_seconds
        );
        assert_eq!(
            times(&[(22, &before(500)), (21, &before(1500))], Some(2500), None),
            two_seconds
        );
        assert_eq!(
            times(&[(152, &ms(2000)), (161, &before(1000))], None, None),
            two_seconds
        );
        assert_eq!(
            times(&[(22, &before(500)), (21, &before(1500))], None, None),
            (None, None, 0)
        );
    }

    #[test]
    fn uptime_wraps() {
        let field = |ms: u32| ms.to_be_bytes();
        let fields = [field(u32::MAX - 999), field(u32::MAX)];
        let fields: [(u16, &[u8]); 2] = [(22, &fields[0]), (21, &fields[1])];
        let expected = (Some(-2_000_000_000), Some(-1_001_000_000), 0);
        assert_eq!(times(&fields, Some(1000), None), expected);
        let started = 1_700_000_000_000 - (1u64 << 32) - 1000;
        assert_eq!(times(&fields, None, Some(started)), expected);
    }

    #[test]
    fn times_that_contradict_the_export_are_null() {
        assert_eq!(
            times(&[(150, &[0; 4]), (151, &[0xff; 4])], None, None),
            (None, None, 2)
        );
        let ms = |ms: u64| (1_700_000_000_000 - ms).to_be_bytes();
        assert_eq!(
            times(&[(152, &ms(1000)), (153, &ms(2000))], None, None),
            (None, Some(-2_000_000_000), 1)
        );
    }

    #[test]
    fn the_used_ip_version_counts() {
        let address = [0x20; 16];
        let (record, _) = record(
            &[
                (8, &[0; 4]),
                (27, &address),
                (28, &[0; 16]),
                (12, &[10, 0, 0, 1]),
            ],
            None,
            None,
        );
        assert_eq!(record.source, ipv6(&address));
        assert_eq!(record.destination, ipv4(&[10, 0, 0, 1]));
    }

    #[test]
    fn values_of_impossible_length_are_null() {
        let (record, _) = record(
            &[
                (8, &[1, 2]),
                (7, &[1, 0, 0]),
                (1, &[0; 9]),
                (56, &[1]),
                (4, &[]),
            ],
            None,
            None,
        );
        assert_eq!(
            (record.source, record.source_port, record.bytes),
            (None, None, None)
        );
        assert_eq!((record.source_mac, record.protocol), (None, None));
    }

    #[test]
    fn icmp_from_two_elements() {
        assert_eq!(
            record(&[(177, &[3]), (176, &[11])], None, None).0.icmp,
            Some(0x0b03)
        );
        assert_eq!(record(&[(32, &[8, 0])], None, None).0.icmp, Some(0x0800));
    }
}
