//! The 22 procedures of NFSv3 (RFC 1813 section 3.3).

use super::attributes::{NfsAttributes, NfsSetAttributes, WccAttributes};
use super::body::{HANDLE_BYTES_MAX, NAME_BYTES_MAX, NfsArguments, NfsExtraFields, NfsResults};
use super::xdr::XdrReader;

/// Parses the arguments of a procedure.
pub fn args<'a>(procedure: u32, x: &mut XdrReader<'a>, args: &mut NfsArguments<'a>) -> Option<()> {
    if !matches!(procedure, 1..=21) {
        return Some(());
    }
    args.handle = Some(x.opaque(HANDLE_BYTES_MAX)?);
    match procedure {
        2 => {
            args.settings = NfsSetAttributes::read(x)?;
            if x.bool()? {
                let _guard = x.u64()?;
            }
        }
        4 => args.access = Some(x.u32()?),
        6 | 21 => {
            args.offset = Some(x.u64()?);
            args.count = Some(x.u32()?.into());
        }
        7 => {
            args.offset = Some(x.u64()?);
            args.count = Some(x.u32()?.into());
            args.stable = Some(x.u32()?);
            args.data = Some(x.u32()?);
        }
        3 | 12 | 13 => args.name = Some(x.opaque(NAME_BYTES_MAX)?),
        8 => {
            args.name = Some(x.opaque(NAME_BYTES_MAX)?);
            if x.u32()? < 2 {
                args.settings = NfsSetAttributes::read(x)?;
            } else {
                let _verifier = x.u64()?;
            }
        }
        9 => {
            args.name = Some(x.opaque(NAME_BYTES_MAX)?);
            args.settings = NfsSetAttributes::read(x)?;
        }
        10 => {
            args.name = Some(x.opaque(NAME_BYTES_MAX)?);
            args.settings = NfsSetAttributes::read(x)?;
            args.to_name = Some(x.opaque(NAME_BYTES_MAX)?);
        }
        11 => {
            args.name = Some(x.opaque(NAME_BYTES_MAX)?);
            let kind = x.u32()?;
            if matches!(kind, 3 | 4 | 6 | 7) {
                args.settings = NfsSetAttributes::read(x)?;
            }
            if matches!(kind, 3 | 4) {
                let major = x.u32()?.into();
                let minor = x.u32()?.into();
                args.more = numbers(&["major", "minor"], &[major, minor]);
            }
        }
        14 => {
            args.name = Some(x.opaque(NAME_BYTES_MAX)?);
            args.to_handle = Some(x.opaque(HANDLE_BYTES_MAX)?);
            args.to_name = Some(x.opaque(NAME_BYTES_MAX)?);
        }
        15 => {
            args.to_handle = Some(x.opaque(HANDLE_BYTES_MAX)?);
            args.to_name = Some(x.opaque(NAME_BYTES_MAX)?);
        }
        16 | 17 => {
            args.offset = Some(x.u64()?);
            let _verifier = x.u64()?;
            let count = x.u32()?;
            args.count = Some(if procedure == 17 { x.u32()? } else { count }.into());
        }
        _ => {}
    }
    Some(())
}

/// Parses the results of a procedure.
pub fn results<'a>(
    procedure: u32,
    listing: bool,
    x: &mut XdrReader<'a>,
    r: &mut NfsResults<'a>,
) -> Option<()> {
    if !matches!(procedure, 1..=21) {
        return Some(());
    }
    let status = x.u32()?;
    r.status = Some(status);
    let ok = status == 0;
    match procedure {
        1 if !ok => {}
        1 => r.attributes = Some(NfsAttributes::read(x)?),
        3 if ok => {
            r.object = Some(x.opaque(HANDLE_BYTES_MAX)?);
            r.attributes = NfsAttributes::read_optional(x)?;
        }
        8..=11 if ok => {
            r.object = if x.bool()? {
                Some(x.opaque(HANDLE_BYTES_MAX)?)
            } else {
                None
            };
            r.attributes = NfsAttributes::read_optional(x)?;
            // Attributes of the directory before and after.
            r.before = WccAttributes::read_optional(x)?;
        }
        2 | 7..=14 | 21 => {
            r.before = WccAttributes::read_optional(x)?;
            r.attributes = NfsAttributes::read_optional(x)?;
            if ok && procedure == 7 {
                r.count = Some(x.u32()?.into());
                r.stable = Some(x.u32()?);
            }
        }
        15 => {
            r.attributes = NfsAttributes::read_optional(x)?;
            r.before = WccAttributes::read_optional(x)?;
        }
        _ => {
            r.attributes = NfsAttributes::read_optional(x)?;
            if ok {
                of_success(procedure, listing, x, r)?;
            }
        }
    }
    Some(())
}

/// Parses the results after the attributes, for a successful procedure that changes nothing.
fn of_success<'a>(
    procedure: u32,
    listing: bool,
    x: &mut XdrReader<'a>,
    r: &mut NfsResults<'a>,
) -> Option<()> {
    match procedure {
        4 => r.access = Some(x.u32()?),
        5 => r.target = Some(x.opaque(NAME_BYTES_MAX)?),
        6 => {
            r.count = Some(x.u32()?.into());
            r.eof = Some(x.bool()?);
            r.data = Some(x.u32()?);
        }
        16 | 17 if listing => {
            let _verifier = x.u64()?;
            r.list = (procedure == 17).then_some(*x);
            let mut entries = 0;
            while x.bool()? {
                entry(procedure == 17, x)?;
                entries += 1;
            }
            r.entries = Some(entries);
            r.eof = Some(x.bool()?);
        }
        18 => {
            const NAMES: &[&str] = &[
                "total_bytes",
                "free_bytes",
                "avail_bytes",
                "total_files",
                "free_files",
                "avail_files",
            ];
            let values = [x.u64()?, x.u64()?, x.u64()?, x.u64()?, x.u64()?, x.u64()?];
            r.more = numbers(NAMES, &values);
        }
        19 => {
            const NAMES: &[&str] = &[
                "rtmax",
                "rtpref",
                "rtmult",
                "wtmax",
                "wtpref",
                "wtmult",
                "dtpref",
                "maxfilesize",
            ];
            let mut values = [0; 8];
            for value in &mut values[..7] {
                *value = x.u32()?.into();
            }
            values[7] = x.u64()?;
            r.more = numbers(NAMES, &values);
        }
        20 => {
            const NAMES: &[&str] = &[
                "linkmax",
                "name_max",
                "no_trunc",
                "chown_restricted",
                "case_insensitive",
                "case_preserving",
            ];
            let mut values = [0; 6];
            for value in &mut values {
                *value = x.u32()?.into();
            }
            r.more = numbers(NAMES, &values);
        }
        _ => {}
    }
    Some(())
}

/// A directory entry: its name, and its handle if present.
pub fn entry<'a>(plus: bool, x: &mut XdrReader<'a>) -> Option<(&'a [u8], Option<&'a [u8]>)> {
    let _fileid = x.u64()?;
    let name = x.opaque(NAME_BYTES_MAX)?;
    let _cookie = x.u64()?;
    let mut handle = None;
    if plus {
        let _attributes = NfsAttributes::read_optional(x)?;
        handle = if x.bool()? {
            Some(x.opaque(HANDLE_BYTES_MAX)?)
        } else {
            None
        };
    }
    Some((name, handle))
}

fn numbers(names: &'static [&'static str], values: &[u64]) -> NfsExtraFields<'static> {
    let mut all = [0; 9];
    all.iter_mut()
        .zip(values)
        .for_each(|(to, from)| *to = *from);
    NfsExtraFields::Numbers(names, all)
}
