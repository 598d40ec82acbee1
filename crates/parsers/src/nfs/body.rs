//! Arguments and results of all procedures that are read, in one shape: what a procedure does not have is `None`.
//! Borrowed from the message. Read as far as the bytes go, so that what a cut message still says is known.

use super::attributes::{Attributes, Settings, Weak};
use super::rpc::Target;
use super::xdr::Xdr;
use super::{mount, portmap, programs, v2, v3, v4};

/// Longest file handle (RFC 7530; NFSv3 says 64).
pub const HANDLE_BYTES_MAX: usize = 128;
/// Longest name or path.
pub const NAME_BYTES_MAX: usize = 4096;

/// A call's arguments.
#[derive(Clone, Copy, Debug, Default)]
pub struct Args<'a> {
    /// The file or directory operated on.
    pub handle: Option<&'a [u8]>,
    /// The name in it; the path of a MNT.
    pub name: Option<&'a [u8]>,
    /// The other directory of RENAME and LINK.
    pub to_handle: Option<&'a [u8]>,
    /// The other name of RENAME and LINK; what a symbolic link points to.
    pub to_name: Option<&'a [u8]>,
    /// First byte of READ, WRITE, COMMIT; cookie of READDIR and READDIRPLUS.
    pub offset: Option<u64>,
    /// Bytes asked for or sent.
    pub count: Option<u64>,
    /// How far a WRITE goes before it is answered: `stable_how`.
    pub stable: Option<u32>,
    /// Rights asked for.
    pub access: Option<u32>,
    /// Attributes to set.
    pub settings: Settings,
    /// What else there is to say.
    pub more: More<'a>,
    /// Length of the file data that begins where reading ended.
    pub data: Option<u32>,
}

/// A reply's results.
#[derive(Clone, Copy, Debug, Default)]
pub struct Results<'a> {
    /// NFS status.
    pub status: Option<u32>,
    /// Attributes of the object that was found or made, else of the one operated on.
    pub attributes: Option<Attributes>,
    /// What a changed file was before.
    pub before: Option<Weak>,
    /// The object that was found or made.
    pub object: Option<&'a [u8]>,
    /// Where a symbolic link points to.
    pub target: Option<&'a [u8]>,
    /// Bytes read or written.
    pub count: Option<u64>,
    /// The end of the file or directory is reached.
    pub eof: Option<bool>,
    /// How far a WRITE has gone.
    pub stable: Option<u32>,
    /// Rights granted.
    pub access: Option<u32>,
    /// Names in a part of a directory.
    pub entries: Option<u64>,
    /// Where these lie.
    pub list: Option<Xdr<'a>>,
    /// What else there is to say.
    pub more: More<'a>,
    /// Length of the file data that begins where reading ended.
    pub data: Option<u32>,
}

/// Rare things, printed as `name=value`, a blank between them.
#[derive(Clone, Copy, Debug, Default)]
pub enum More<'a> {
    /// Nothing.
    #[default]
    Nothing,
    /// Numbers with their names.
    Numbers(&'static [&'static str], [u64; 9]),
    /// A text with its name.
    Text(&'static str, &'a [u8]),
    /// The operations of an NFSv4 COMPOUND.
    Compound(Xdr<'a>),
}

impl<'a> Args<'a> {
    /// Reads arguments; `None`: they go on. What is behind the part of interest is left in `x`.
    pub fn read(&mut self, target: &Target, x: &mut Xdr<'a>) -> Option<()> {
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

impl Args<'_> {
    /// The message breaks off: of a COMPOUND's operations the later ones might have said something else.
    pub fn forget_unsettled(&mut self) {
        if let More::Compound(_) = self.more {
            *self = Args { handle: self.handle, ..Args::default() };
        }
    }
}

impl<'a> Results<'a> {
    /// Reads results; `None`: they go on. `listing`: the names of a directory are asked for.
    pub fn read(&mut self, target: &Target, listing: bool, x: &mut Xdr<'a>) -> Option<()> {
        match (target.program, target.version) {
            _ if target.protected => Some(()),
            (programs::NFS, 3) => v3::results(target.procedure, listing, x, self),
            (programs::NFS, 4) if target.procedure == 1 => v4::results(x, self),
            (programs::NFS, 2) => v2::results(target.procedure, x, self),
            (programs::MOUNT, 1..=3) => mount::results(target, x, self),
            (programs::NFSACL, 3) if target.procedure != 0 => {
                self.status = Some(x.u32()?);
                self.attributes = Attributes::read_optional(x)?;
                Some(())
            }
            (programs::PORTMAP, 2..=4) => portmap::results(target, x, self),
            _ => Some(()),
        }
    }
}

impl More<'_> {
    /// Appends the texts, if there are any.
    pub fn push(&self, parts: &mut Vec<Vec<u8>>) {
        match self {
            More::Nothing | More::Compound(_) => {}
            More::Text(name, value) => parts.push([name.as_bytes(), b"=", value].concat()),
            More::Numbers(names, values) => {
                parts.extend(
                    names.iter().zip(values).map(|(name, value)| format!("{name}={value}").into_bytes()),
                );
            }
        }
    }
}
