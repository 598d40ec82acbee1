//! Names of programs, procedures, and statuses, as in their RFCs and tshark.

use super::rpc::RpcTarget;

/// portmap, later rpcbind (RFC 1833).
pub const PORTMAP: u32 = 100_000;
/// NFS (RFC 1094, 1813, 7530, 8881).
pub const NFS: u32 = 100_003;
/// MOUNT (RFC 1813, appendix I).
pub const MOUNT: u32 = 100_005;

/// Access control lists for NFSv3, as in Solaris and Linux.
pub const NFSACL: u32 = 100_227;

/// A program version with known procedures.
struct RpcProgramVersion {
    program: u32,
    version: u32,
    procedures: &'static [&'static str],
}

const fn known(
    program: u32,
    version: u32,
    procedures: &'static [&'static str],
) -> RpcProgramVersion {
    RpcProgramVersion {
        program,
        version,
        procedures,
    }
}

const PORTMAP_2: &[&str] = &["NULL", "SET", "UNSET", "GETPORT", "DUMP", "CALLIT"];
#[rustfmt::skip]
const RPCBIND: &[&str] = &[
    "NULL", "SET", "UNSET", "GETADDR", "DUMP", "BCAST", "GETTIME", "UADDR2TADDR", "TADDR2UADDR",
    "GETVERSADDR", "INDIRECT", "GETADDRLIST", "GETSTAT",
];
#[rustfmt::skip]
const NFS_2: &[&str] = &[
    "NULL", "GETATTR", "SETATTR", "ROOT", "LOOKUP", "READLINK", "READ", "WRITECACHE", "WRITE", "CREATE",
    "REMOVE", "RENAME", "LINK", "SYMLINK", "MKDIR", "RMDIR", "READDIR", "STATFS",
];
#[rustfmt::skip]
const NFS_3: &[&str] = &[
    "NULL", "GETATTR", "SETATTR", "LOOKUP", "ACCESS", "READLINK", "READ", "WRITE", "CREATE", "MKDIR",
    "SYMLINK", "MKNOD", "REMOVE", "RMDIR", "RENAME", "LINK", "READDIR", "READDIRPLUS", "FSSTAT", "FSINFO",
    "PATHCONF", "COMMIT",
];
const MOUNT_ANY: &[&str] = &[
    "NULL",
    "MNT",
    "DUMP",
    "UMNT",
    "UMNTALL",
    "EXPORT",
    "EXPORTALL",
    "PATHCONF",
];
#[rustfmt::skip]
const NLM: &[&str] = &[
    "NULL", "TEST", "LOCK", "CANCEL", "UNLOCK", "GRANTED", "TEST_MSG", "LOCK_MSG", "CANCEL_MSG",
    "UNLOCK_MSG", "GRANTED_MSG", "TEST_RES", "LOCK_RES", "CANCEL_RES", "UNLOCK_RES", "GRANTED_RES",
    "PROC_16", "PROC_17", "PROC_18", "PROC_19", "SHARE", "UNSHARE", "NM_LOCK", "FREE_ALL",
];

const KNOWN: &[RpcProgramVersion] = &[
    known(NFS, 3, NFS_3),
    known(NFS, 4, &["NULL", "COMPOUND"]),
    known(NFS, 2, NFS_2),
    known(MOUNT, 3, MOUNT_ANY),
    known(MOUNT, 1, MOUNT_ANY),
    known(MOUNT, 2, MOUNT_ANY),
    known(PORTMAP, 2, PORTMAP_2),
    known(PORTMAP, 3, RPCBIND),
    known(PORTMAP, 4, RPCBIND),
    known(
        100_011,
        1,
        &[
            "NULL",
            "GETQUOTA",
            "GETACTIVEQUOTA",
            "SETQUOTA",
            "SETACTIVEQUOTA",
        ],
    ),
    known(
        100_011,
        2,
        &[
            "NULL",
            "GETQUOTA",
            "GETACTIVEQUOTA",
            "SETQUOTA",
            "SETACTIVEQUOTA",
        ],
    ),
    known(100_021, 4, NLM),
    known(100_021, 3, NLM),
    known(100_021, 1, NLM),
    known(
        100_024,
        1,
        &[
            "NULL",
            "STAT",
            "MON",
            "UNMON",
            "UNMON_ALL",
            "SIMU_CRASH",
            "NOTIFY",
        ],
    ),
    known(
        NFSACL,
        2,
        &["NULL", "GETACL", "SETACL", "GETATTR", "ACCESS"],
    ),
    known(NFSACL, 3, &["NULL", "GETACL", "SETACL"]),
    known(0x4000_0000, 1, &["CB_NULL", "CB_COMPOUND"]),
];

/// A program's name.
pub fn program(number: u32) -> Option<&'static str> {
    Some(match number {
        PORTMAP => "portmap",
        NFS => "nfs",
        MOUNT => "mount",
        100_011 => "rquota",
        100_021 => "nlm",
        100_024 => "status",
        NFSACL => "nfsacl",
        0x4000_0000 => "nfs_cb",
        _ => return None,
    })
}

/// A procedure's name.
pub fn procedure(target: &RpcTarget) -> Option<&'static str> {
    let known = KNOWN
        .iter()
        .find(|k| k.program == target.program && k.version == target.version)?;
    known.procedures.get(target.procedure as usize).copied()
}

/// Name of an NFS status (the same numbers in all versions and in MOUNT), in lower case without its prefix.
pub fn status(number: u32) -> Option<&'static str> {
    Some(match number {
        0 => "ok",
        1 => "perm",
        2 => "noent",
        5 => "io",
        6 => "nxio",
        13 => "access",
        17 => "exist",
        18 => "xdev",
        19 => "nodev",
        20 => "notdir",
        21 => "isdir",
        22 => "inval",
        27 => "fbig",
        28 => "nospc",
        30 => "rofs",
        31 => "mlink",
        63 => "nametoolong",
        66 => "notempty",
        69 => "dquot",
        70 => "stale",
        71 => "remote",
        10_001 => "badhandle",
        10_002 => "not_sync",
        10_003 => "bad_cookie",
        10_004 => "notsupp",
        10_005 => "toosmall",
        10_006 => "serverfault",
        10_007 => "badtype",
        10_008 => "jukebox",
        10_009 => "same",
        10_010 => "denied",
        10_011 => "expired",
        10_012 => "locked",
        10_013 => "grace",
        10_014 => "fhexpired",
        10_015 => "share_denied",
        10_016 => "wrongsec",
        10_018 => "resource",
        10_020 => "nofilehandle",
        10_021 => "minor_vers_mismatch",
        10_022 => "stale_clientid",
        10_023 => "stale_stateid",
        10_024 => "old_stateid",
        10_025 => "bad_stateid",
        10_026 => "bad_seqid",
        10_032 => "attrnotsupp",
        10_036 => "badxdr",
        10_044 => "op_illegal",
        10_052 => "badsession",
        10_053 => "badslot",
        _ => return None,
    })
}
