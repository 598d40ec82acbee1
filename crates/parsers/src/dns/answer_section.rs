//! Text of answer records: their data, separated by commas. Character strings are quoted, so commas in them
//! are unambiguous.

use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::codes::{kind, with_type_name};
use super::message::{DnsHeader, DnsRecord, DnsRecords};
use super::name;

/// Maximum text of one response in bytes.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// Contents of the answer section.
#[derive(Debug, Default)]
pub struct DnsAnswerSection {
    /// Records of the section, separated by commas; `None`: not needed, or too long.
    pub text: Option<Vec<u8>>,
    /// Minimum time to live.
    pub ttl_min: Option<u32>,
}

/// Parses the answer section of a message with a complete header; `with_text`: also as text. `None`: the
/// section is incomplete or invalid.
pub fn read(message: &[u8], header: DnsHeader, with_text: bool) -> Option<DnsAnswerSection> {
    let mut records = DnsRecords::behind_questions(message, header);
    let mut answers = DnsAnswerSection {
        text: with_text.then(Vec::new),
        ttl_min: None,
    };
    for i in 0..header.counts[1] {
        let record = records.read()?;
        answers.ttl_min = Some(
            answers
                .ttl_min
                .map_or(record.ttl, |ttl| ttl.min(record.ttl)),
        );
        if let Some(text) = &mut answers.text {
            if i > 0 {
                text.push(b',');
            }
            write(message, record, text)?;
        }
        answers.text = answers.text.filter(|text| text.len() <= TEXT_BYTES_MAX);
    }
    records.at().map(|_| answers)
}

/// Upper bits of the response code, from the OPT record (RFC 6891 section 6.1.3).
pub fn upper_code(message: &[u8], header: DnsHeader) -> u16 {
    let mut records = DnsRecords::behind_questions(message, header);
    for _ in 0..header.counts[1..].iter().map(|n| u32::from(*n)).sum() {
        match records.read() {
            Some(record) if record.kind == kind::OPT => return (record.ttl >> 24 << 4) as u16,
            Some(_) => {}
            None => break,
        }
    }
    0
}

/// Writes the data of one record. `None`: the data does not match its type.
fn write(message: &[u8], record: DnsRecord, out: &mut Vec<u8>) -> Option<()> {
    let (start, end) = record.data;
    let data = &message[start..end];
    match record.kind {
        // In an UPDATE, records without data state existence conditions.
        _ if data.is_empty() => with_type_name(record.kind, |name| out.extend_from_slice(name)),
        kind::A => write!(out, "{}", Ipv4Addr::from(*data.as_array::<4>()?)).ok()?,
        kind::AAAA => write!(out, "{}", Ipv6Addr::from(*data.as_array::<16>()?)).ok()?,
        kind::NS | kind::CNAME | kind::PTR | kind::DNAME => name::write(message, start, out)?,
        kind::MX => {
            write!(out, "{} ", word(data, 0)?).ok()?;
            name::write(message, start + 2, out)?;
        }
        kind::TXT | kind::SPF => write_texts(data, out)?,
        kind::SOA => write_soa(message, start, out)?,
        kind::SRV => {
            write!(
                out,
                "{} {} {} ",
                word(data, 0)?,
                word(data, 2)?,
                word(data, 4)?
            )
            .ok()?;
            name::write(message, start + 6, out)?;
        }
        kind::DS => {
            write!(out, "{} {} {} ", word(data, 0)?, data.get(2)?, data.get(3)?).ok()?;
            data[4..]
                .iter()
                .try_for_each(|byte| write!(out, "{byte:02x}"))
                .ok()?;
        }
        kind::CAA => {
            let (head, tail) = data.split_first_chunk::<2>()?;
            let (tag, value) = tail.split_at_checked(usize::from(head[1]))?;
            write!(out, "{} ", head[0]).ok()?;
            out.extend(tag.iter().filter(|b| b.is_ascii_alphanumeric()));
            out.push(b' ');
            write_quoted(value, out);
        }
        kind::SVCB | kind::HTTPS => write_service(message, record.data, out)?,
        other => with_type_name(other, |name| out.extend_from_slice(name)),
    }
    Some(())
}

/// Length-prefixed strings, quoted and separated by blanks.
fn write_texts(mut data: &[u8], out: &mut Vec<u8>) -> Option<()> {
    while let Some((length, rest)) = data.split_first() {
        let (text, rest) = rest.split_at_checked(usize::from(*length))?;
        write_quoted(text, out);
        data = rest;
        if !data.is_empty() {
            out.push(b' ');
        }
    }
    Some(())
}

fn write_quoted(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            0x20..=0x7e => out.push(*byte),
            _ => name::write_number(*byte, out),
        }
    }
    out.push(b'"');
}

/// Primary server, mailbox, serial number, and timers.
fn write_soa(message: &[u8], start: usize, out: &mut Vec<u8>) -> Option<()> {
    let mailbox = name::end(message, start)?;
    let numbers = name::end(message, mailbox)?;
    name::write(message, start, out)?;
    out.push(b' ');
    name::write(message, mailbox, out)?;
    let numbers = message.get(numbers..numbers + 20)?;
    let (numbers, _) = numbers.as_chunks::<4>();
    numbers
        .iter()
        .try_for_each(|number| write!(out, " {}", u32::from_be_bytes(*number)))
        .ok()
}

/// Priority, target and parameters (RFC 9460).
fn write_service(message: &[u8], (start, end): (usize, usize), out: &mut Vec<u8>) -> Option<()> {
    write!(out, "{} ", word(&message[start..end], 0)?).ok()?;
    name::write(message, start + 2, out)?;
    let mut parameters = message.get(name::end(message, start + 2)?..end)?;
    while !parameters.is_empty() {
        let key = word(parameters, 0)?;
        let length = word(parameters, 2)?;
        let (value, rest) = parameters[4..].split_at_checked(usize::from(length))?;
        out.push(b' ');
        write_parameter(key, value, out)?;
        parameters = rest;
    }
    Some(())
}

fn write_parameter(key: u16, value: &[u8], out: &mut Vec<u8>) -> Option<()> {
    const KEYS: [&str; 7] = [
        "mandatory",
        "alpn",
        "no-default-alpn",
        "port",
        "ipv4hint",
        "ech",
        "ipv6hint",
    ];
    match KEYS.get(usize::from(key)) {
        Some(name) => out.extend_from_slice(name.as_bytes()),
        None => write!(out, "key{key}").ok()?,
    }
    match key {
        1 => {
            out.extend_from_slice(b"=\"");
            let mut rest = value;
            while let Some((length, more)) = rest.split_first() {
                let (protocol, more) = more.split_at_checked(usize::from(*length))?;
                out.extend(
                    protocol
                        .iter()
                        .filter(|b| matches!(b, b'!' | b'#'..=b'~') && **b != b','),
                );
                rest = more;
                if !rest.is_empty() {
                    out.push(b',');
                }
            }
            out.push(b'"');
        }
        3 => write!(out, "={}", word(value, 0)?).ok()?,
        4 => write_list(
            value.as_chunks::<4>().0.iter().map(|a| Ipv4Addr::from(*a)),
            out,
        )?,
        6 => write_list(
            value.as_chunks::<16>().0.iter().map(|a| Ipv6Addr::from(*a)),
            out,
        )?,
        // Other parameters are binary.
        _ => {}
    }
    Some(())
}

fn write_list(
    addresses: impl Iterator<Item = impl std::fmt::Display>,
    out: &mut Vec<u8>,
) -> Option<()> {
    out.extend_from_slice(b"=\"");
    for (i, address) in addresses.enumerate() {
        write!(out, "{}{address}", if i > 0 { "," } else { "" }).ok()?;
    }
    out.push(b'"');
    Some(())
}

fn word(data: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*data.get(at)?, *data.get(at + 1)?]))
}
