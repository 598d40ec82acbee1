//! Batches return the written values: compared with plain lists; texts with a slow decoding of their bytes.

use std::sync::Arc;

use arrow_array::Array;
use tuple::writer::{BATCH_ROWS, BATCH_TEXT_BYTES};
use tuple::{Batch, DataType, Field, FieldId, Schema, TupleWriter, Unit, common, hashes};

/// A seeded random generator (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let h = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let h = (h ^ (h >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        h ^ (h >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// Bytes that contain fragments of UTF-8.
    fn bytes(&mut self) -> Vec<u8> {
        const PIECES: [&[u8]; 8] = [
            b"a",
            b"\xc3\xaf",
            b"\xe2\x82\xac",
            b"\xf0\x9f\x90\x9d",
            b"\xe2\x82",
            b"\xff",
            b"\0",
            b"\x80",
        ];
        (0..self.below(6))
            .flat_map(|_| PIECES[self.below(8) as usize].to_vec())
            .collect()
    }
}

const TYPES: [DataType; 7] = [
    DataType::Bool,
    DataType::U64,
    DataType::I64,
    DataType::F64,
    DataType::Ip,
    DataType::Text,
    DataType::Hashes,
];

/// A field of each type, named by its index.
fn schema() -> Arc<Schema> {
    const NAMES: [&str; 7] = ["0", "1", "2", "3", "4", "5", "6"];
    let own: Vec<Field> = NAMES
        .iter()
        .zip(TYPES)
        .map(|(name, kind)| Field::new(name, kind, Unit::None, ""))
        .collect();
    Arc::new(Schema::of_parser("t", 1, "", &own, None, None))
}

fn own(place: usize) -> FieldId {
    FieldId((common::FIELDS.len() + place) as u16)
}

/// A value of every type, or null.
#[derive(Clone, Debug, Default, PartialEq)]
struct Row {
    bool: Option<bool>,
    u64: Option<u64>,
    i64: Option<i64>,
    f64: Option<f64>,
    ip: Option<[u8; 16]>,
    text: Option<Vec<u8>>,
    hashes: Option<Vec<u64>>,
}

fn rows(n: usize, random: &mut Random) -> Vec<Row> {
    let row = |random: &mut Random| {
        let mut is_set = [false; 7];
        is_set.iter_mut().for_each(|set| *set = random.below(3) > 0);
        Row {
            bool: is_set[0].then(|| random.below(2) == 0),
            u64: is_set[1].then(|| random.next()),
            i64: is_set[2].then(|| random.next() as i64),
            f64: is_set[3].then(|| random.next() as f64 / 7.0),
            ip: is_set[4].then(|| std::array::from_fn(|_| random.next() as u8)),
            text: is_set[5].then(|| random.bytes()),
            hashes: is_set[6].then(|| (0..random.below(4)).map(|_| random.next()).collect()),
        }
    };
    (0..n).map(|_| row(random)).collect()
}

fn write(writer: &mut TupleWriter, rows: &[Row]) {
    for row in rows {
        row.bool.iter().for_each(|v| writer.bool(own(0), *v));
        row.u64.iter().for_each(|v| writer.u64(own(1), *v));
        row.i64.iter().for_each(|v| writer.i64(own(2), *v));
        row.f64.iter().for_each(|v| writer.f64(own(3), *v));
        row.ip.iter().for_each(|v| writer.ip(own(4), v));
        row.text.iter().for_each(|v| writer.text(own(5), v));
        row.hashes.iter().for_each(|v| writer.hashes(own(6), v));
        writer.end_row();
    }
}

/// Decodes one character at a time; an invalid byte becomes `\xNN`.
fn slowly(bytes: &[u8]) -> String {
    let mut text = String::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let character = (1..=rest.len().min(4)).find_map(|n| std::str::from_utf8(&rest[..n]).ok());
        match character {
            Some(c) => text.push_str(c),
            None => text.push_str(&format!("\\x{:02x}", rest[0])),
        }
        rest = &rest[character.map_or(1, str::len)..];
    }
    text
}

fn check(batch: &Batch, rows: &[Row]) {
    assert_eq!(batch.rows(), rows.len());
    let list = |of: &dyn Fn(&Row) -> Option<Vec<u8>>| rows.iter().map(of).collect::<Vec<_>>();
    assert_eq!(
        batch.bool(own(0)).iter().collect::<Vec<_>>(),
        rows.iter().map(|r| r.bool).collect::<Vec<_>>()
    );
    assert_eq!(
        batch.u64(own(1)).iter().collect::<Vec<_>>(),
        rows.iter().map(|r| r.u64).collect::<Vec<_>>()
    );
    assert_eq!(
        batch.i64(own(2)).iter().collect::<Vec<_>>(),
        rows.iter().map(|r| r.i64).collect::<Vec<_>>()
    );
    assert_eq!(
        batch.f64(own(3)).iter().collect::<Vec<_>>(),
        rows.iter().map(|r| r.f64).collect::<Vec<_>>()
    );
    let ips = batch
        .ip(own(4))
        .iter()
        .map(|ip| ip.map(<[u8]>::to_vec))
        .collect::<Vec<_>>();
    assert_eq!(ips, list(&|row| row.ip.map(|ip| ip.to_vec())));
    let texts = batch
        .text(own(5))
        .iter()
        .map(|text| text.map(|t| t.as_bytes().to_vec()))
        .collect::<Vec<_>>();
    assert_eq!(
        texts,
        list(&|row| row.text.as_ref().map(|text| slowly(text).into_bytes()))
    );
    let words = batch
        .hashes(own(6))
        .iter()
        .map(|words| words.map(<[u8]>::to_vec))
        .collect::<Vec<_>>();
    assert_eq!(
        words,
        list(&|row| Some(
            row.hashes
                .as_ref()?
                .iter()
                .flat_map(|h| h.to_le_bytes())
                .collect()
        ))
    );
}

#[test]
fn values_of_every_type_round_trip() {
    let mut random = Random(1);
    let mut writer = TupleWriter::new(schema(), &[0, 1, 2, 3, 4, 5, 6].map(own));
    // One writer for all batches: a batch does not depend on the previous one.
    for n in [0, 1, 2, 63, 64, 65, 500] {
        let rows = rows(n, &mut random);
        write(&mut writer, &rows);
        check(&writer.finish(), &rows);
    }
}

#[test]
fn a_slice_is_those_rows() {
    let rows = rows(200, &mut Random(2));
    let mut writer = TupleWriter::new(schema(), &[0, 1, 2, 3, 4, 5, 6].map(own));
    write(&mut writer, &rows);
    let batch = writer.finish();
    for (start, n) in [(0, 200), (0, 0), (200, 0), (1, 63), (64, 100), (199, 1)] {
        check(&batch.slice(start, n), &rows[start..start + n]);
    }
}

#[test]
fn unwanted_columns_take_values_and_are_not_there() {
    let rows = rows(100, &mut Random(3));
    for wanted in 0..7 {
        let mut writer = TupleWriter::new(schema(), &[own(wanted)]);
        assert!((0..7).all(|place| writer.wants(own(place)) == (place == wanted)));
        write(&mut writer, &rows);
        let batch = writer.finish();
        assert_eq!(
            (batch.rows(), batch.present().collect::<Vec<_>>()),
            (100, vec![own(wanted)])
        );
    }
}

#[test]
fn a_column_without_a_value_is_all_null() {
    let mut writer = TupleWriter::new(schema(), &[0, 1, 2, 3, 4, 5, 6].map(own));
    let rows = vec![Row::default(); 70];
    write(&mut writer, &rows);
    let batch = writer.finish();
    check(&batch, &rows);
    assert!(batch.present().all(|id| {
        batch
            .column(id)
            .is_some_and(|column| column.null_count() == 70)
    }));
}

#[test]
fn a_writer_is_full_by_rows_or_by_text() {
    let mut writer = TupleWriter::new(schema(), &[1, 5].map(own));
    writer.end_rows(BATCH_ROWS - 1);
    assert!(!writer.is_full());
    writer.end_row();
    assert!(writer.is_full() && writer.rows() == BATCH_ROWS);
    assert_eq!(writer.finish().rows(), BATCH_ROWS);
    assert!(!writer.is_full() && writer.rows() == 0);
    writer.text(own(5), &vec![b'x'; BATCH_TEXT_BYTES]);
    writer.end_row();
    assert!(writer.is_full());
    let _ = writer.finish();
    // Columns that are not needed take no memory.
    let mut writer = TupleWriter::new(schema(), &[own(1)]);
    writer.text(own(5), &vec![b'x'; BATCH_TEXT_BYTES]);
    writer.end_row();
    assert!(!writer.is_full());
}

#[test]
fn a_text_in_parts_is_the_whole_text() {
    let mut random = Random(4);
    let mut writer = TupleWriter::new(schema(), &[own(5)]);
    let texts: Vec<Vec<Vec<u8>>> = (0..200)
        .map(|_| (0..random.below(4)).map(|_| random.bytes()).collect())
        .collect();
    for parts in &texts {
        writer.text_parts(own(5), &parts.iter().map(Vec::as_slice).collect::<Vec<_>>());
        writer.end_row();
    }
    let batch = writer.finish();
    for (row, parts) in texts.iter().enumerate() {
        assert_eq!(batch.text(own(5)).value(row), slowly(&parts.concat()));
    }
}

#[test]
fn a_parsers_fields_stand_behind_the_common_ones() {
    let schema = schema();
    for (id, field) in schema.ids().zip(&schema.fields) {
        assert_eq!(schema.find(&field.name), Some(id));
        assert_eq!(schema.field(id), field);
    }
    assert_eq!(schema.find("0"), Some(own(0)));
    assert_eq!(schema.find("nothing"), None);
    assert_eq!(schema.ids().count(), common::FIELDS.len() + 7);
}

#[test]
fn hashes_as_text_equal_format() {
    let mut random = Random(5);
    for n in 0..50 {
        let list: Vec<u64> = (0..n)
            .map(|_| {
                if random.below(4) == 0 {
                    0
                } else {
                    random.next() >> random.below(64)
                }
            })
            .collect();
        let row: Vec<u8> = list.iter().flat_map(|hash| hash.to_le_bytes()).collect();
        let words: Vec<String> = list
            .iter()
            .map(|hash| {
                if *hash == 0 {
                    "-".to_owned()
                } else {
                    format!("{hash:016x}")
                }
            })
            .collect();
        assert_eq!(hashes::to_text(&row), words.join(" "));
    }
}
