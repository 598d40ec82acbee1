//! JSON lines: one object per row, in the order of the schema, with exact values and stable names. Written directly
//! into a buffer, since serialization dominates the cost of queries that print tuples.

use std::io::{self, Write};

use tuple::Batch;

use crate::cells::ColumnCells;
use crate::table::acts;
use crate::{ResultHead, Sink};

/// Size at which the buffer is flushed.
const BUFFER_BYTES: usize = 64 << 10;

/// Writes JSON lines. An object of a processor's result starts with `"processor"`; absent columns are omitted, nulls
/// are `null`, ids are strings of 16 hexadecimal digits, times and durations are integers of nanoseconds.
pub struct JsonlSink<W: Write> {
    out: W,
    buffer: Vec<u8>,
    /// Start of an object, per result.
    openings: Vec<Vec<u8>>,
}

/// A column, and the bytes before its values.
struct JsonlMember<'a> {
    before: Vec<u8>,
    cells: ColumnCells<'a>,
    quoted: bool,
}

impl<W: Write> JsonlSink<W> {
    /// A writer of the results announced by `heads`.
    pub fn new(out: W, heads: &[ResultHead]) -> Self {
        let openings = heads
            .iter()
            .map(|h| opening(h.processor.as_deref()))
            .collect();
        JsonlSink {
            out,
            buffer: Vec::with_capacity(BUFFER_BYTES + 4096),
            openings,
        }
    }

    fn hand_on(&mut self) -> io::Result<()> {
        let result = self.out.write_all(&self.buffer);
        self.buffer.clear();
        result
    }
}

impl<W: Write> Sink for JsonlSink<W> {
    fn write(&mut self, result: usize, batch: &Batch) -> io::Result<()> {
        let members = members(batch, self.openings[result].len() > 1);
        for row in 0..batch.rows() {
            self.buffer.extend_from_slice(&self.openings[result]);
            for member in &members {
                member.push(row, &mut self.buffer);
            }
            self.buffer.extend_from_slice(b"}\n");
            if self.buffer.len() >= BUFFER_BYTES {
                self.hand_on()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.hand_on()?;
        self.out.flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.flush()
    }
}

impl JsonlMember<'_> {
    #[inline]
    fn push(&self, row: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.before);
        if self.cells.is_null(row) {
            out.extend_from_slice(b"null");
        } else if let crate::cells::CellValues::Text(texts) = self.cells.values {
            push_string(out, texts.value(row));
        } else if let crate::cells::CellValues::Json(texts) = self.cells.values {
            push_json(out, texts.value(row));
        } else if self.quoted {
            out.push(b'"');
            self.cells.push(row, out);
            out.push(b'"');
        } else {
            self.cells.push(row, out);
        }
    }
}

fn opening(processor: Option<&str>) -> Vec<u8> {
    let mut bytes = b"{".to_vec();
    if let Some(name) = processor {
        bytes.extend_from_slice(b"\"processor\":");
        push_string(&mut bytes, name);
    }
    bytes
}

fn members(batch: &Batch, mut comma: bool) -> Vec<JsonlMember<'_>> {
    let member = |id| {
        let cells = ColumnCells::of(batch, id)?;
        let mut before = if comma { vec![b','] } else { Vec::new() };
        comma = true;
        push_string(&mut before, &batch.schema().field(id).name);
        before.push(b':');
        Some(JsonlMember {
            before,
            cells,
            quoted: cells.is_quoted(),
        })
    };
    batch.present().filter_map(member).collect()
}

/// Appends `text` as a JSON string (RFC 8259 section 7). Characters with an effect on a terminal are also escaped,
/// because the line may be printed on one, and the text comes from the network.
fn push_string(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    out.push(b'"');
    let mut start = 0;
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        if !NEEDS_CARE[usize::from(byte)] {
            at += 1;
            continue;
        }
        let (c, len) = match byte {
            0..0x80 => (char::from(byte), 1),
            // A character of several bytes starts here; only these need a check.
            _ => text[at..]
                .chars()
                .next()
                .map_or(('\0', 1), |c| (c, c.len_utf8())),
        };
        if len == 1 || acts(c) {
            out.extend_from_slice(&bytes[start..at]);
            c.encode_utf16(&mut [0; 2])
                .iter()
                .for_each(|unit| push_escape(out, *unit));
            start = at + len;
        }
        at += len;
    }
    out.extend_from_slice(&bytes[start..]);
    out.push(b'"');
}

/// Appends JSON. Characters with an effect on a terminal can only be in its strings, where they are escaped.
fn push_json(out: &mut Vec<u8>, json: &str) {
    if json.is_ascii() {
        return out.extend_from_slice(json.as_bytes());
    }
    for c in json.chars() {
        if acts(c) {
            c.encode_utf16(&mut [0; 2])
                .iter()
                .for_each(|unit| push_escape(out, *unit))
        } else {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes())
        }
    }
}

/// Appends the escape of one UTF-16 code unit.
fn push_escape(out: &mut Vec<u8>, unit: u16) {
    let short = match unit {
        0x22 => b'"',
        0x5c => b'\\',
        0x0a => b'n',
        0x0d => b'r',
        0x09 => b't',
        0x08 => b'b',
        0x0c => b'f',
        _ => {
            let digit = |shift: u16| b"0123456789abcdef"[usize::from(unit >> shift & 15)];
            out.extend([b'\\', b'u', digit(12), digit(8), digit(4), digit(0)]);
            return;
        }
    };
    out.extend([b'\\', short]);
}

/// Bytes to be escaped, or that start characters of which some are.
static NEEDS_CARE: [bool; 256] = {
    let mut table = [false; 256];
    let mut i = 0;
    while i < 0x20 {
        table[i] = true;
        i += 1;
    }
    table[b'"' as usize] = true;
    table[b'\\' as usize] = true;
    table[0x7f] = true;
    let mut i = 0;
    while i < ACTING_BEGIN.len() {
        table[ACTING_BEGIN[i] as usize] = true;
        i += 1;
    }
    table
};

/// First bytes of the non-ASCII characters for which [`acts`] holds.
const ACTING_BEGIN: [u8; 5] = [0xc2, 0xd8, 0xe2, 0xef, 0xf3];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::samples::{self, SampleRow};

    fn print(processor: Option<&str>, rows: &[SampleRow]) -> String {
        let batch = samples::batch(rows);
        let mut out = Vec::new();
        let mut sink = JsonlSink::new(&mut out, &[samples::head(processor, &batch)]);
        sink.write(0, &batch)
            .and_then(|()| sink.finish())
            .expect("writing to memory cannot fail");
        drop(sink);
        String::from_utf8(out).expect("JSON lines are UTF-8")
    }

    fn check(processor: Option<&str>, rows: &[SampleRow], expected: &[&str]) {
        assert_eq!(print(processor, rows).lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn every_type() {
        check(
            None,
            &[SampleRow::sample(), SampleRow::default()],
            &[
                r#"{"id":"00000000000000ff","ts":1795291157229334000,"client_ip":"10.0.0.1","url":"/a?\"b\"","hit":true,"status":200,"response_time_ns":-5,"avg_ns":1.5,"hist":[[1.5,2]]}"#,
                r#"{"id":null,"ts":null,"client_ip":null,"url":null,"hit":null,"status":null,"response_time_ns":null,"avg_ns":null,"hist":null}"#,
            ],
        );
    }

    #[test]
    fn results_name_their_processor() {
        let lines = print(Some("top-k"), &[SampleRow::sample()]);
        assert!(
            lines.starts_with(r#"{"processor":"top-k","id":"00000000000000ff","ts":"#),
            "{lines}"
        );
    }

    #[test]
    fn a_float_that_is_no_number_is_null() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let line = print(
                None,
                &[SampleRow {
                    avg: Some(value),
                    ..SampleRow::default()
                }],
            );
            assert!(line.contains(r#""avg_ns":null"#), "{line}");
        }
    }

    /// For all characters: those with an effect on a terminal are escaped, and read back.
    #[test]
    fn no_character_that_acts_passes() {
        let all: String = (0..=0x0010_ffff).filter_map(char::from_u32).collect();
        let line = print(
            None,
            &[SampleRow {
                url: Some(all.clone()),
                ..SampleRow::default()
            }],
        );
        assert!(!line.trim_end_matches('\n').chars().any(acts));
        let value: Value = serde_json::from_str(&line).expect("a JSON object");
        assert_eq!(value["url"], Value::from(all));
    }

    #[test]
    fn json_within_is_made_harmless() {
        for (json, expected) in [
            (r#"{"a":"b"}"#, r#"{"a":"b"}"#),
            ("{\"\u{202e}é\":\"\u{9b}\"}", r#"{"\u202eé":"\u009b"}"#),
        ] {
            let mut out = Vec::new();
            push_json(&mut out, json);
            assert_eq!(String::from_utf8(out).as_deref(), Ok(expected));
        }
    }

    proptest! {
        #[test]
        fn reads_back_to_the_same(rows in proptest::collection::vec(samples::any_row(), 0..20)) {
            let text = print(Some("a \"p\""), &rows);
            let lines: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).expect("a JSON object")).collect();
            prop_assert_eq!(lines.len(), rows.len());
            for (line, row) in text.lines().zip(&rows) {
                // serde_json may be off by one unit in the last place of a float; the standard library is not.
                let avg = line.rsplit("\"avg_ns\":").next().and_then(|rest| rest.split(',').next());
                let avg: Option<f64> = avg.expect("the column is there").parse().ok();
                prop_assert_eq!(avg, row.avg.filter(|f| f.is_finite()));
            }
            for (line, row) in lines.iter().zip(&rows) {
                prop_assert_eq!(&line["url"], &Value::from(row.url.clone()));
                prop_assert_eq!(line["status"].as_u64(), row.status);
                prop_assert_eq!(line["response_time_ns"].as_i64(), row.response_time);
                prop_assert_eq!(&line["client_ip"], &Value::from(row.client_ip.map(|ip| ip.to_string())));
                prop_assert_eq!(&line["id"], &Value::from(row.id.map(|id| format!("{id:016x}"))));
                prop_assert_eq!(&line["processor"], "a \"p\"");
            }
        }
    }
}
