//! MOUNT (RFC 1813 appendix I; RFC 1094 appendix A), the source of file handles.

use super::body::{HANDLE_BYTES_MAX, NAME_BYTES_MAX, NfsArguments, NfsResults};
use super::rpc::RpcTarget;
use super::xdr::XdrReader;

/// The procedure that returns a directory's handle.
pub const MNT: u32 = 1;
const UMNT: u32 = 3;

/// Parses the arguments of a procedure.
pub fn args<'a>(procedure: u32, x: &mut XdrReader<'a>, args: &mut NfsArguments<'a>) -> Option<()> {
    if matches!(procedure, MNT | UMNT) {
        args.name = Some(x.opaque(NAME_BYTES_MAX)?);
    }
    Some(())
}

/// Parses the results of a procedure.
pub fn results<'a>(
    target: &RpcTarget,
    x: &mut XdrReader<'a>,
    r: &mut NfsResults<'a>,
) -> Option<()> {
    if target.procedure == MNT {
        let status = x.u32()?;
        r.status = Some(status);
        if status == 0 {
            r.object = Some(if target.version == 3 {
                x.opaque(HANDLE_BYTES_MAX)?
            } else {
                x.fixed(32)?
            });
        }
    }
    Some(())
}
