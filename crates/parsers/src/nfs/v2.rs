//! NFSv2 (RFC 1094 section 2.2): handles, names, and status.

use super::attributes::NfsAttributes;
use super::body::{NAME_BYTES_MAX, NfsArguments, NfsResults};
use super::xdr::XdrReader;

/// Length of every handle.
const HANDLE_BYTES: usize = 32;

/// Parses the arguments of a procedure.
pub fn args<'a>(procedure: u32, x: &mut XdrReader<'a>, args: &mut NfsArguments<'a>) -> Option<()> {
    if !matches!(procedure, 1 | 2 | 4..=6 | 8..=17) {
        return Some(());
    }
    args.handle = Some(x.fixed(HANDLE_BYTES)?);
    match procedure {
        4 | 9 | 10 | 13..=15 => {
            args.name = Some(x.opaque(NAME_BYTES_MAX)?);
            if procedure == 13 {
                args.to_name = Some(x.opaque(NAME_BYTES_MAX)?);
            }
        }
        6 => {
            args.offset = Some(x.u32()?.into());
            args.count = Some(x.u32()?.into());
        }
        8 => {
            let _begin = x.u32()?;
            let offset = x.u32()?;
            let _total = x.u32()?;
            let len = x.u32()?;
            (args.offset, args.count, args.data) =
                (Some(offset.into()), Some(len.into()), Some(len));
        }
        11 => {
            args.name = Some(x.opaque(NAME_BYTES_MAX)?);
            args.to_handle = Some(x.fixed(HANDLE_BYTES)?);
            args.to_name = Some(x.opaque(NAME_BYTES_MAX)?);
        }
        12 => {
            args.to_handle = Some(x.fixed(HANDLE_BYTES)?);
            args.to_name = Some(x.opaque(NAME_BYTES_MAX)?);
        }
        16 => {
            args.offset = Some(x.u32()?.into());
            args.count = Some(x.u32()?.into());
        }
        _ => {}
    }
    Some(())
}

/// Parses the results of a procedure.
pub fn results<'a>(procedure: u32, x: &mut XdrReader<'a>, r: &mut NfsResults<'a>) -> Option<()> {
    if !matches!(procedure, 1 | 2 | 4..=6 | 8..=17) {
        return Some(());
    }
    let status = x.u32()?;
    r.status = Some(status);
    if status != 0 {
        return Some(());
    }
    match procedure {
        4 | 9 | 14 => {
            r.object = Some(x.fixed(HANDLE_BYTES)?);
            r.attributes = Some(NfsAttributes::read_v2(x)?);
        }
        1 | 2 | 8 => r.attributes = Some(NfsAttributes::read_v2(x)?),
        5 => r.target = Some(x.opaque(NAME_BYTES_MAX)?),
        6 => {
            r.attributes = Some(NfsAttributes::read_v2(x)?);
            let len = x.u32()?;
            r.count = Some(len.into());
            r.data = Some(len);
        }
        _ => {}
    }
    Some(())
}
