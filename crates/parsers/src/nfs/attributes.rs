//! File attributes in NFSv3 (RFC 1813 section 2.3) and NFSv2 (RFC 1094 section 2.3.5).

use super::xdr::XdrReader;

/// `fattr3`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NfsAttributes {
    /// `ftype3`.
    pub kind: u32,
    /// Protection bits.
    pub mode: u32,
    /// Hard links.
    pub links: u32,
    /// Owner id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
    /// Bytes used on disk.
    pub used: u64,
    /// File system id.
    pub fsid: u64,
    /// File number within the file system.
    pub fileid: u64,
    /// Last access, data change, and attribute change: ns since the epoch.
    pub times: [i64; 3],
}

/// `wcc_attr`: attributes of a file before it was changed.
#[derive(Clone, Copy, Debug)]
pub struct WccAttributes {
    /// Size in bytes.
    pub size: u64,
    /// Last data change: ns since the epoch.
    pub mtime: i64,
}

/// `sattr3`: the attributes to set.
#[derive(Clone, Copy, Debug, Default)]
pub struct NfsSetAttributes {
    /// Protection bits.
    pub mode: Option<u32>,
    /// Owner id.
    pub uid: Option<u32>,
    /// Group id.
    pub gid: Option<u32>,
    /// Size in bytes.
    pub size: Option<u64>,
}

impl NfsAttributes {
    /// `fattr3`.
    pub fn read(x: &mut XdrReader<'_>) -> Option<NfsAttributes> {
        let [kind, mode, links, uid, gid] = words(x)?;
        let size = x.u64()?;
        let used = x.u64()?;
        let _rdev = x.u64()?;
        let fsid = x.u64()?;
        let fileid = x.u64()?;
        let times = [time(x, 1)?, time(x, 1)?, time(x, 1)?];
        Some(NfsAttributes {
            kind,
            mode,
            links,
            uid,
            gid,
            size,
            used,
            fsid,
            fileid,
            times,
        })
    }

    /// `post_op_attr`.
    pub fn read_optional(x: &mut XdrReader<'_>) -> Option<Option<NfsAttributes>> {
        Some(if x.bool()? {
            Some(Self::read(x)?)
        } else {
            None
        })
    }

    /// NFSv2's `fattr`.
    pub fn read_v2(x: &mut XdrReader<'_>) -> Option<NfsAttributes> {
        let [
            kind,
            mode,
            links,
            uid,
            gid,
            size,
            block_size,
            _rdev,
            blocks,
            fsid,
            fileid,
        ] = words(x)?;
        let times = [time(x, 1000)?, time(x, 1000)?, time(x, 1000)?];
        let used = u64::from(blocks) * u64::from(block_size.min(512));
        let size = size.into();
        let fsid = fsid.into();
        let fileid = fileid.into();
        Some(NfsAttributes {
            kind,
            mode,
            links,
            uid,
            gid,
            size,
            used,
            fsid,
            fileid,
            times,
        })
    }

    /// Name of the file type, as in find and stat.
    pub fn kind_name(&self) -> &'static str {
        match self.kind {
            1 => "file",
            2 => "directory",
            3 => "block_device",
            4 => "character_device",
            5 => "link",
            6 => "socket",
            7 => "fifo",
            _ => "other",
        }
    }
}

impl WccAttributes {
    /// `pre_op_attr`.
    pub fn read_optional(x: &mut XdrReader<'_>) -> Option<Option<WccAttributes>> {
        if !x.bool()? {
            return Some(None);
        }
        let weak = WccAttributes {
            size: x.u64()?,
            mtime: time(x, 1)?,
        };
        let _ctime = time(x, 1)?;
        Some(Some(weak))
    }
}

impl NfsSetAttributes {
    /// `sattr3`.
    pub fn read(x: &mut XdrReader<'_>) -> Option<NfsSetAttributes> {
        let word = |x: &mut XdrReader<'_>| Some(if x.bool()? { Some(x.u32()?) } else { None });
        let mode = word(x)?;
        let uid = word(x)?;
        let gid = word(x)?;
        let size = if x.bool()? { Some(x.u64()?) } else { None };
        for _ in 0..2 {
            // set_atime and set_mtime: no, to the server's time, or to the client's.
            if x.u32()? == 2 {
                x.u64()?;
            }
        }
        Some(NfsSetAttributes {
            mode,
            uid,
            gid,
            size,
        })
    }
}

fn words<const N: usize>(x: &mut XdrReader<'_>) -> Option<[u32; N]> {
    let mut words = [0; N];
    for word in &mut words {
        *word = x.u32()?;
    }
    Some(words)
}

/// Seconds, and fractions of a second in units of `scale` nanoseconds.
fn time(x: &mut XdrReader<'_>, scale: i64) -> Option<i64> {
    // Servers encode times before 1970, and after 2038, in 32 bits; current times are unambiguous.
    Some(i64::from(x.u32()?) * 1_000_000_000 + i64::from(x.u32()?) * scale)
}
