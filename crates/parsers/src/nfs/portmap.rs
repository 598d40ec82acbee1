//! Portmap and rpcbind (RFC 1833): ports of programs.

use super::body::{NfsArguments, NfsExtraFields, NfsResults};
use super::rpc::RpcTarget;
use super::xdr::XdrReader;

/// GETPORT of version 2, GETADDR of versions 3 and 4.
const GETPORT: u32 = 3;

/// Parses the arguments of version 2.
pub fn args<'a>(procedure: u32, x: &mut XdrReader<'a>, args: &mut NfsArguments<'a>) -> Option<()> {
    const NAMES: &[&str] = &["program", "version", "transport"];
    if procedure == GETPORT {
        let mut values = [0; 9];
        for value in &mut values[..3] {
            *value = x.u32()?.into();
        }
        args.more = NfsExtraFields::Numbers(NAMES, values);
    }
    Some(())
}

/// Parses the results of a procedure.
pub fn results<'a>(
    target: &RpcTarget,
    x: &mut XdrReader<'a>,
    r: &mut NfsResults<'a>,
) -> Option<()> {
    const ADDRESS_BYTES_MAX: usize = 256;
    if target.procedure == GETPORT {
        r.more = if target.version == 2 {
            NfsExtraFields::Numbers(&["port"], [x.u32()?.into(), 0, 0, 0, 0, 0, 0, 0, 0])
        } else {
            NfsExtraFields::Text("address", x.opaque(ADDRESS_BYTES_MAX)?)
        };
    }
    Some(())
}
