//! Query attributes of MySQL 8, between COM_QUERY's first byte and the SQL. ("COM_QUERY" and "Binary protocol
//! value" in the MySQL source documentation.)

use super::command::is_sql;
use super::fields::MysqlFieldReader;
use super::login::capability;

const ATTRIBUTES_MAX: u64 = 4096;

/// The SQL in `body`, after attributes if both ends agreed on them; if unknown (`None`), they are detected.
/// Invalid attributes are returned as part of the SQL.
pub fn behind(body: &[u8], capabilities: Option<u64>) -> &[u8] {
    match capabilities {
        Some(c) if c & capability::QUERY_ATTRIBUTES != 0 => read(body).unwrap_or(body),
        Some(_) => body,
        None => match body {
            [n, 1, ..] if *n < 0x20 => read(body).filter(|sql| is_sql(sql)).unwrap_or(body),
            _ => body,
        },
    }
}

fn read(body: &[u8]) -> Option<&[u8]> {
    let mut f = MysqlFieldReader(body);
    let count = f.lenenc().filter(|n| *n <= ATTRIBUTES_MAX)? as usize;
    f.lenenc()?;
    if count == 0 {
        return Some(f.0);
    }
    let nulls = f.take(count.div_ceil(8))?;
    f.int(1).filter(|new| *new == 1)?;
    let mut types = f;
    for _ in 0..count {
        f.take(2)?;
        f.lenenc_str()?;
    }
    for i in 0..count {
        let kind = types.int(2)? & 0xff;
        types.lenenc_str()?;
        if nulls[i / 8] & 1 << (i % 8) == 0 {
            skip_value(&mut f, kind)?;
        }
    }
    Some(f.0)
}

/// Skips a binary value of a type.
fn skip_value(f: &mut MysqlFieldReader<'_>, kind: u64) -> Option<()> {
    match kind {
        0x01 => f.take(1),
        0x02 | 0x0d => f.take(2),
        0x03 | 0x04 | 0x09 => f.take(4),
        0x05 | 0x08 => f.take(8),
        0x06 => f.take(0),
        // DATE, DATETIME, TIMESTAMP, TIME: a length, then that many bytes; the rest are strings.
        _ => f.lenenc_str(),
    }
    .map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &[u8], capabilities: Option<u64>, sql: &[u8]) {
        assert_eq!(behind(body, capabilities), sql);
    }

    #[test]
    fn attributes_are_stepped_over() {
        let on = Some(capability::QUERY_ATTRIBUTES);
        check(b"\0\x01select 1", on, b"select 1");
        check(b"\0\x01select 1", None, b"select 1");
        check(b"\0\x01select 1", Some(0), b"\0\x01select 1");
        check(b"select 1", None, b"select 1");
        let two = b"\x02\x01\x02\x01\x03\0\x01a\xfe\0\x01b\x01\0\0\0select 1";
        check(two, on, b"select 1");
        check(two, None, b"select 1");
        let all = b"\x03\x01\0\x01\xfd\0\x01a\x08\0\x01b\x0c\0\x01c\x02hi12345678\x04\xe8\x07\x01\x02do 1";
        check(all, on, b"do 1");
        check(b"\x09\x01", on, b"\x09\x01");
    }
}
