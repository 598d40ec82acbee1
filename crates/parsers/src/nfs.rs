//! ONC-RPC over TCP and UDP, and the NFS programs: NFSv3 (RFC 1813) with all arguments and results including
//! attributes, NFSv2 and NFSv4 in outline, MOUNT, portmap; other programs by name or number.
//!
//! One tuple per call with its reply, matched by xid. File data is skipped by length without copying, and
//! checksummed if requested. Names of handles are learned from replies on the same connection. See
//! `docs/nfs.md` for the fields, the clocks, and the limits. Not parsed: bodies that RPCSEC_GSS wraps or
//! encrypts, RDMA, and RPC inside TLS.

use tuple::{PartContent, Schema, SchemaFacts, TablePart, WorkloadFacts, common};
use wire::Timestamp;

use crate::{
    Direction, ParserOutput, ProtocolDefinition, StreamEnd, StreamGap, StreamParser, StreamSegment,
};

mod attributes;
mod block_checksums;
mod body;
mod byte_stream;
mod calls;
mod connection;
mod early_replies;
mod emit;
mod handle_names;
mod mount;
mod pending_calls;
mod portmap;
mod procedures;
mod programs;
mod rpc;
mod scan;
mod search;
mod suspected_calls;
mod v2;
mod v3;
mod v4;
mod xdr;

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use self::scan::RpcRecordLocator;

/// Variant: calls of every program.
pub const ALL: u8 = 0;
/// Variant: calls of NFS.
pub const NFS_ONLY: u8 = 1;

/// The protocol.
pub static PROTOCOL: ProtocolDefinition = ProtocolDefinition {
    name: "rpc",
    ports: &[2049, 111, 20048],
    tcp: true,
    udp: true,
    probe: scan::probe,
    start: || Box::new(NfsParser::default()),
};

/// Fields specific to the parsers.
pub mod field {
    use tuple::redact::{HASH, PATH as NAMES};

    tuple::fields! {
        XID: U64, None, "xid", "transaction id: the reply repeats the call's";
        PROCEDURE: Text, None, "procedure", "procedure: GETATTR, READ, COMPOUND, ...; a number if unknown";
        STATUS: Text, None, "status", "NFS or MOUNT status: ok, noent, stale, ... (NFS3ERR_NOENT without its prefix), or its number; null for procedures without a status";
        FILE_HANDLE: Text, None, "file_handle", "file or directory operated on, in hexadecimal";
        NAME: Text, None, "name", "name in that directory, or the path of a MNT" => NAMES;
        OFFSET: U64, Bytes, "offset", "first byte of READ, WRITE, COMMIT; cookie of READDIR and READDIRPLUS";
        COUNT: U64, Bytes, "count", "bytes requested or sent";
        EOF: Bool, None, "eof", "whether the end of the file or directory was reached";
        STABLE: Text, None, "stable", "stability requested by a WRITE: unstable, data_sync, file_sync";
        UID: U64, None, "uid", "user id of the caller (AUTH_SYS)";
        RESPONSE_TIME: I64, Nanoseconds, "response_time_ns", "from the last byte of the call to the first byte of the reply";
        BLOCK_CHECKSUMS: Hashes, Id, "block_checksums", "XXH3-64 of every complete block of 512 bytes at a multiple of 512 in the file, read or written; as text, 16 hexadecimal digits each, separated by blanks; - for a block that was not captured completely";
        ALIGNED: Bool, None, "aligned", "whether offset and count of a READ or WRITE are multiples of 512";
        PROGRAM: Text, None, "program", "program: nfs, mount, portmap, nlm, nfsacl, status, rquota, nfs_cb, or its number";
        VERSION: U64, None, "version", "version of the program";
        OPERATIONS: Text, None, "operations", "operations of an NFSv4 COMPOUND, separated by blanks; ... if the rest is unknown";
        RPC_STATUS: Text, None, "rpc_status", "RPC status: success, prog_unavail, prog_mismatch, proc_unavail, garbage_args, system_err, rpc_mismatch, auth_error";
        PATH: Text, None, "path", "path of the file or directory entry, as far as known from this connection" => NAMES;
        TO_FILE_HANDLE: Text, None, "to_file_handle", "other directory of RENAME and LINK";
        TO_NAME: Text, None, "to_name", "other name of RENAME and LINK; target of a symbolic link" => NAMES;
        OBJECT_HANDLE: Text, None, "object_handle", "handle returned by LOOKUP, CREATE, MKDIR, SYMLINK, MKNOD, or MNT";
        RESULT_COUNT: U64, Bytes, "result_count", "bytes read or written, as reported by the server";
        COMMITTED: Text, None, "committed", "stability of a completed WRITE: unstable, data_sync, file_sync";
        GID: U64, None, "gid", "first group of the user (AUTH_SYS)";
        MACHINE: Text, None, "machine", "machine name given by the client (AUTH_SYS)" => HASH;
        AUTH: Text, None, "auth", "credentials: none, sys, short, dh, tls, gss, gss_integrity, gss_privacy, gss_context, other";
        REQUEST_BYTES: U64, Bytes, "request_bytes", "length of the call, without record marks";
        RESPONSE_BYTES: U64, Bytes, "response_bytes", "length of the reply, without record marks";
        CALL_TIME: I64, Nanoseconds, "call_time_ns", "from the first to the last byte of the call";
        TRANSFER_TIME: I64, Nanoseconds, "transfer_time_ns", "from the first to the last byte of the reply";
        TOTAL_TIME: I64, Nanoseconds, "total_time_ns", "from the last byte of the call to the last byte of the reply";
        RETRANSMITTED: U64, None, "retransmitted", "retransmissions of the call before its reply; times are those of the first transmission";
        ACCESS: U64, None, "access", "rights requested by an ACCESS, as bits";
        ACCESS_GRANTED: U64, None, "access_granted", "rights granted";
        FILE_TYPE: Text, None, "file_type", "file, directory, link, block_device, character_device, socket, fifo: type of the object found or created, otherwise of file_handle, after the call";
        FILE_MODE: U64, None, "file_mode", "its protection bits";
        FILE_LINKS: U64, None, "file_links", "its hard links";
        FILE_UID: U64, None, "file_uid", "its owner";
        FILE_GID: U64, None, "file_gid", "its group";
        FILE_SIZE: U64, Bytes, "file_size", "its length";
        FILE_USED: U64, Bytes, "file_used", "its bytes on the disk";
        FSID: U64, None, "fsid", "its file system";
        FILEID: U64, None, "fileid", "file id in the file system (inode number)";
        ATIME: I64, EpochNanoseconds, "atime", "its last access";
        MTIME: I64, EpochNanoseconds, "mtime", "its last change of data";
        CTIME: I64, EpochNanoseconds, "ctime", "its last change of attributes";
        SIZE_BEFORE: U64, Bytes, "size_before", "length of a changed file or directory before the call";
        MTIME_BEFORE: I64, EpochNanoseconds, "mtime_before", "its last change of data before the call";
        SET_MODE: U64, None, "set_mode", "protection bits to be set";
        SET_SIZE: U64, Bytes, "set_size", "length to be set";
        ENTRIES: U64, None, "entries", "names returned by READDIR or READDIRPLUS";
        DETAILS: Text, None, "details", "other values of FSSTAT, FSINFO, PATHCONF, MKNOD, SETATTR (owner), and portmap as name=value";
    }
}

/// The schema of all programs' calls.
#[must_use]
pub fn schema_rpc() -> Schema {
    schema_of("rpc", "ONC-RPC calls of every program with their replies")
}

/// The schema of NFS calls.
#[must_use]
pub fn schema() -> Schema {
    schema_of(
        "nfs",
        "NFS calls with their replies; version 3 in full, 2 and 4 in outline",
    )
}

/// Semantic facts for the query language.
const FACTS: SchemaFacts = SchemaFacts {
    // The call was accepted, and its procedure succeeded if it returns a status.
    success: Some("rpc_status = 'success' and (status is null or status = 'ok')"),
    workload: Some(WorkloadFacts {
        operation: "procedure",
        reads: "procedure = 'READ'",
        writes: "procedure = 'WRITE'",
        status: "status",
        bytes: ["result_count", "result_count"],
    }),
    first: &[
        "ts",
        "client_ip",
        "procedure",
        "name",
        "status",
        "response_time_ns",
        "total_time_ns",
    ],
    added: &["total_time_ns"],
    ..SchemaFacts::NONE
};

fn schema_of(name: &'static str, doc: &'static str) -> Schema {
    let measure = Some(field::RESPONSE_TIME);
    let key = Some(field::FILE_HANDLE);
    Schema {
        parts: PARTS,
        facts: &FACTS,
        ..Schema::of_parser(name, 1, doc, field::FIELDS, measure, key)
    }
}

/// The linked tables of a recording, as in the traces of the Chronicle paper.
const PARTS: &[TablePart] = {
    use field::*;
    &[
        TablePart {
            name: "network",
            holds: PartContent::Fields(&common::IDS),
        },
        TablePart {
            name: "rpc",
            holds: PartContent::Fields(&[
                XID,
                PROGRAM,
                VERSION,
                PROCEDURE,
                RPC_STATUS,
                AUTH,
                UID,
                GID,
                MACHINE,
                REQUEST_BYTES,
                RESPONSE_BYTES,
                CALL_TIME,
                RESPONSE_TIME,
                TRANSFER_TIME,
                TOTAL_TIME,
                RETRANSMITTED,
            ]),
        },
        TablePart {
            name: "nfs",
            holds: PartContent::Rest,
        },
        TablePart {
            name: "block_checksums",
            holds: PartContent::Blocks {
                list: BLOCK_CHECKSUMS,
                start: OFFSET,
                block_bytes: block_checksums::BLOCK,
            },
        },
    ]
};

#[derive(Default)]
struct NfsParser {
    connection: connection::NfsConnection,
}

impl StreamParser for NfsParser {
    fn on_bytes(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) {
        self.connection.on_bytes(direction, segment, out);
    }

    fn on_gap(&mut self, direction: Direction, gap: StreamGap, out: &mut ParserOutput<'_>) {
        self.connection.on_gap(direction, gap, out);
    }

    fn on_end(&mut self, _: Direction, _: StreamEnd, _: &mut ParserOutput<'_>) {}

    fn on_close(&mut self, out: &mut ParserOutput<'_>) {
        self.connection.close(out);
    }

    fn on_idle(&mut self, out: &mut ParserOutput<'_>) -> bool {
        let is_between = self.connection.is_between();
        self.connection.close(out);
        is_between
    }

    fn on_datagram(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        cut: u32,
        ts: Timestamp,
        out: &mut ParserOutput<'_>,
    ) {
        self.connection.on_datagram(direction, bytes, cut, ts, out);
    }
}
