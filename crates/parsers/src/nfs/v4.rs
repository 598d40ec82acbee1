//! NFSv4 COMPOUND (RFC 7530, RFC 8881): the listed operations, as far as their arguments are known, and the
//! overall status. File data in it is skipped.

use super::body::{HANDLE_BYTES_MAX, NAME_BYTES_MAX, NfsArguments, NfsExtraFields, NfsResults};
use super::xdr::XdrReader;

/// Maximum number of operations listed.
const OPERATIONS_MAX: u32 = 64;
/// Maximum length of opaques in arguments: owners, attributes.
const OPAQUE_MAX: usize = 4096;
const STATEID: usize = 16;

#[rustfmt::skip]
const NAMES: [&str; 60] = [
    "", "", "", "ACCESS", "CLOSE", "COMMIT", "CREATE", "DELEGPURGE", "DELEGRETURN", "GETATTR", "GETFH", "LINK",
    "LOCK", "LOCKT", "LOCKU", "LOOKUP", "LOOKUPP", "NVERIFY", "OPEN", "OPENATTR", "OPEN_CONFIRM",
    "OPEN_DOWNGRADE", "PUTFH", "PUTPUBFH", "PUTROOTFH", "READ", "READDIR", "READLINK", "REMOVE", "RENAME",
    "RENEW", "RESTOREFH", "SAVEFH", "SECINFO", "SETATTR", "SETCLIENTID", "SETCLIENTID_CONFIRM", "VERIFY",
    "WRITE", "RELEASE_LOCKOWNER", "BACKCHANNEL_CTL", "BIND_CONN_TO_SESSION", "EXCHANGE_ID", "CREATE_SESSION",
    "DESTROY_SESSION", "FREE_STATEID", "GET_DIR_DELEGATION", "GETDEVICEINFO", "GETDEVICELIST", "LAYOUTCOMMIT",
    "LAYOUTGET", "LAYOUTRETURN", "SECINFO_NO_NAME", "SEQUENCE", "SET_SSV", "TEST_STATEID", "WANT_DELEGATION",
    "DESTROY_CLIENTID", "RECLAIM_COMPLETE", "ALLOCATE",
];

/// Parses the arguments of a COMPOUND as far as they are known.
pub fn args<'a>(x: &mut XdrReader<'a>, args: &mut NfsArguments<'a>) -> Option<()> {
    args.more = NfsExtraFields::Compound(*x);
    each(x, args, |_| {})
}

/// Parses the status of a COMPOUND.
pub fn results(x: &mut XdrReader<'_>, r: &mut NfsResults<'_>) -> Option<()> {
    r.status = Some(x.u32()?);
    Some(())
}

/// Operations of a COMPOUND, separated by blanks; `...` if the rest is unknown.
pub fn names(mut x: XdrReader<'_>) -> String {
    let mut list = Vec::new();
    // For truncated arguments, the operations before are known.
    let _ = each(&mut x, &mut NfsArguments::default(), |name| list.push(name));
    list.join(" ")
}

fn each<'a>(
    x: &mut XdrReader<'a>,
    args: &mut NfsArguments<'a>,
    mut seen: impl FnMut(&'static str),
) -> Option<()> {
    let _tag = x.opaque(OPAQUE_MAX)?;
    let _minor = x.u32()?;
    let operations = x.u32()?;
    for _ in 0..operations.min(OPERATIONS_MAX) {
        let number = x.u32()?;
        let name = NAMES.get(number as usize).copied().unwrap_or_default();
        seen(if name.is_empty() { "ILLEGAL" } else { name });
        if !operation(number, x, args)? {
            seen("...");
            break;
        }
    }
    Some(())
}

/// Parses offset and count, which are set together.
fn range(x: &mut XdrReader<'_>, args: &mut NfsArguments<'_>) -> Option<()> {
    let offset = x.u64()?;
    args.count = Some(x.u32()?.into());
    args.offset = Some(offset);
    Some(())
}

/// Parses the arguments of an operation; `false`: unknown format.
fn operation<'a>(number: u32, x: &mut XdrReader<'a>, args: &mut NfsArguments<'a>) -> Option<bool> {
    match number {
        10 | 16 | 23 | 24 | 27 | 31 | 32 => {}
        3 => args.access = Some(x.u32()?),
        4 => _ = x.fixed(4 + STATEID)?,
        5 => range(x, args)?,
        6 => {
            match x.u32()? {
                3 | 4 => _ = x.u64()?,
                5 => args.to_name = Some(x.opaque(NAME_BYTES_MAX)?),
                _ => {}
            }
            args.name = Some(x.opaque(NAME_BYTES_MAX)?);
            attributes(x)?;
        }
        8 | 44 | 45 => _ = x.fixed(STATEID)?,
        9 => x.skip_words(16)?,
        11 | 15 | 28 | 33 => args.name = Some(x.opaque(NAME_BYTES_MAX)?),
        17 | 37 => attributes(x)?,
        18 => open(x, args)?,
        20 => _ = x.fixed(STATEID + 4)?,
        21 => _ = x.fixed(STATEID + 12)?,
        22 => _ = args.handle.get_or_insert(x.opaque(HANDLE_BYTES_MAX)?),
        25 => {
            let _stateid = x.fixed(STATEID)?;
            range(x, args)?;
        }
        26 => {
            let _cookie_and_counts = x.fixed(8 + 8 + 4 + 4)?;
            x.skip_words(16)?;
        }
        29 => {
            args.name = Some(x.opaque(NAME_BYTES_MAX)?);
            args.to_name = Some(x.opaque(NAME_BYTES_MAX)?);
        }
        30 | 57 => _ = x.u64()?,
        34 => {
            let _stateid = x.fixed(STATEID)?;
            attributes(x)?;
        }
        36 => _ = x.fixed(16)?,
        38 => {
            let _stateid = x.fixed(STATEID)?;
            args.offset = Some(x.u64()?);
            let stable = x.u32()?;
            args.count = Some(x.u32()?.into());
            args.stable = Some(stable);
            // Data follows.
            return Some(false);
        }
        52 | 58 => _ = x.u32()?,
        53 => _ = x.fixed(16 + 4 * 4)?,
        _ => return Some(false),
    }
    Some(true)
}

/// `fattr4`.
fn attributes(x: &mut XdrReader<'_>) -> Option<()> {
    x.skip_words(16)?;
    x.opaque(OPAQUE_MAX)?;
    Some(())
}

fn open<'a>(x: &mut XdrReader<'a>, args: &mut NfsArguments<'a>) -> Option<()> {
    let _seqid_access_deny_clientid = x.fixed(4 + 4 + 4 + 8)?;
    let _owner = x.opaque(OPAQUE_MAX)?;
    if x.u32()? == 1 {
        let how = x.u32()?;
        if how >= 2 {
            let _verifier = x.u64()?;
        }
        if how != 2 {
            attributes(x)?;
        }
    }
    match x.u32()? {
        0 | 3 => args.name = Some(x.opaque(NAME_BYTES_MAX)?),
        1 => _ = x.u32()?,
        2 => {
            let _stateid = x.fixed(STATEID)?;
            args.name = Some(x.opaque(NAME_BYTES_MAX)?);
        }
        5 => _ = x.fixed(STATEID)?,
        _ => {}
    }
    Some(())
}
