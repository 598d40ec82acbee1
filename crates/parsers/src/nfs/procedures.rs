//! Parses the arguments and results of a procedure by its program and version.

use super::attributes::NfsAttributes;
use super::body::{HANDLE_BYTES_MAX, NfsArguments, NfsResults};
use super::rpc::RpcTarget;
use super::xdr::XdrReader;
use super::{mount, portmap, programs, v2, v3, v4};

impl<'a> NfsArguments<'a> {
    /// Parses arguments; `None`: incomplete. Leaves the rest after the relevant part in `x`.
    pub fn read(&mut self, target: &RpcTarget, x: &mut XdrReader<'a>) -> Option<()> {
        match (target.program, target.version) {
            _ if target.protected => Some(()),
            (programs::NFS, 3) => v3::args(target.procedure, x, self),
            (programs::NFS, 4) if target.procedure == 1 => v4::args(x, self),
            (programs::NFS, 2) => v2::args(target.procedure, x, self),
            (programs::MOUNT, 1..=3) => mount::args(target.procedure, x, self),
            (programs::NFSACL, 3) if target.procedure != 0 => {
                self.handle = Some(x.opaque(HANDLE_BYTES_MAX)?);
                Some(())
            }
            (programs::PORTMAP, 2) => portmap::args(target.procedure, x, self),
            _ => Some(()),
        }
    }
}

impl<'a> NfsResults<'a> {
    /// Parses results; `None`: incomplete. `listing`: also the names of a directory.
    pub fn read(&mut self, target: &RpcTarget, listing: bool, x: &mut XdrReader<'a>) -> Option<()> {
        match (target.program, target.version) {
            _ if target.protected => Some(()),
            (programs::NFS, 3) => v3::results(target.procedure, listing, x, self),
            (programs::NFS, 4) if target.procedure == 1 => v4::results(x, self),
            (programs::NFS, 2) => v2::results(target.procedure, x, self),
            (programs::MOUNT, 1..=3) => mount::results(target, x, self),
            (programs::NFSACL, 3) if target.procedure != 0 => {
                self.status = Some(x.u32()?);
                self.attributes = NfsAttributes::read_optional(x)?;
                Some(())
            }
            (programs::PORTMAP, 2..=4) => portmap::results(target, x, self),
            _ => Some(()),
        }
    }
}
