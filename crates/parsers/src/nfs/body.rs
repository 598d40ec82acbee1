//! Arguments and results of all parsed procedures in one form (read in `procedures`); fields that a procedure does not have are
//! `None`. Borrowed from the message. Parsed as far as the bytes go, so that the available part of a cut
//! message is known.

use super::attributes::{NfsAttributes, NfsSetAttributes, WccAttributes};
use super::xdr::XdrReader;

/// Maximum length of a file handle (RFC 7530; NFSv3 allows 64).
pub const HANDLE_BYTES_MAX: usize = 128;
/// Maximum length of a name or path.
pub const NAME_BYTES_MAX: usize = 4096;

/// File data in a message.
#[derive(Clone, Copy, Debug)]
pub struct NfsFileData {
    /// Offset in the file; `u64::MAX`: unknown.
    pub offset: u64,
    /// Length in bytes.
    pub len: u32,
}

/// Arguments of a call.
#[derive(Clone, Copy, Debug, Default)]
pub struct NfsArguments<'a> {
    /// The file or directory operated on.
    pub handle: Option<&'a [u8]>,
    /// The name in the directory; the path of a MNT.
    pub name: Option<&'a [u8]>,
    /// The other directory of RENAME and LINK.
    pub to_handle: Option<&'a [u8]>,
    /// The other name of RENAME and LINK; target of a symbolic link.
    pub to_name: Option<&'a [u8]>,
    /// First byte of READ, WRITE, COMMIT; cookie of READDIR and READDIRPLUS.
    pub offset: Option<u64>,
    /// Bytes requested or sent.
    pub count: Option<u64>,
    /// Requested stability of a WRITE: `stable_how`.
    pub stable: Option<u32>,
    /// Access rights requested.
    pub access: Option<u32>,
    /// Attributes to set.
    pub settings: NfsSetAttributes,
    /// Other arguments.
    pub more: NfsExtraFields<'a>,
    /// Length of the file data at the end of the parsed part.
    pub data: Option<u32>,
}

/// Results of a reply.
#[derive(Clone, Copy, Debug, Default)]
pub struct NfsResults<'a> {
    /// NFS status.
    pub status: Option<u32>,
    /// Attributes of the object found or created, otherwise of the one operated on.
    pub attributes: Option<NfsAttributes>,
    /// Attributes of a changed file before the change.
    pub before: Option<WccAttributes>,
    /// Handle of the object found or created.
    pub object: Option<&'a [u8]>,
    /// Target of a symbolic link.
    pub target: Option<&'a [u8]>,
    /// Bytes read or written.
    pub count: Option<u64>,
    /// Whether the end of the file or directory is reached.
    pub eof: Option<bool>,
    /// Stability of a WRITE.
    pub stable: Option<u32>,
    /// Access rights granted.
    pub access: Option<u32>,
    /// Number of names in a part of a directory.
    pub entries: Option<u64>,
    /// Position of these names.
    pub list: Option<XdrReader<'a>>,
    /// Other results.
    pub more: NfsExtraFields<'a>,
    /// Length of the file data at the end of the parsed part.
    pub data: Option<u32>,
}

/// Rare fields, printed as `name=value` and separated by blanks.
#[derive(Clone, Copy, Debug, Default)]
pub enum NfsExtraFields<'a> {
    /// Nothing.
    #[default]
    Nothing,
    /// Named numbers.
    Numbers(&'static [&'static str], [u64; 9]),
    /// A named text.
    Text(&'static str, &'a [u8]),
    /// The operations of an NFSv4 COMPOUND.
    Compound(XdrReader<'a>),
}

impl NfsArguments<'_> {
    /// Clears fields that missing operations of a truncated COMPOUND could have changed.
    pub fn forget_unsettled(&mut self) {
        if let NfsExtraFields::Compound(_) = self.more {
            *self = NfsArguments {
                handle: self.handle,
                ..NfsArguments::default()
            };
        }
    }
}

impl NfsExtraFields<'_> {
    /// Appends the fields as text.
    pub fn push(&self, parts: &mut Vec<Vec<u8>>) {
        match self {
            NfsExtraFields::Nothing | NfsExtraFields::Compound(_) => {}
            NfsExtraFields::Text(name, value) => {
                parts.push([name.as_bytes(), b"=", value].concat())
            }
            NfsExtraFields::Numbers(names, values) => {
                parts.extend(
                    names
                        .iter()
                        .zip(values)
                        .map(|(name, value)| format!("{name}={value}").into_bytes()),
                );
            }
        }
    }
}
