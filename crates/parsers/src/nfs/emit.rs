//! Writes calls with their outcomes as tuples.

use tuple::{FieldId, TupleWriter};

use super::attributes::NfsAttributes;
use super::body::{NfsArguments, NfsExtraFields, NfsResults};
use super::byte_stream::RpcMessage;
use super::handle_names::FileHandleNames;
use super::pending_calls::RpcPendingCall;
use super::rpc::{self, RpcCredentials, RpcTarget};
use super::{field, mount, programs, v3, v4};
use crate::output::ColumnSet;
use crate::{MessageSpan, ParserOutput, TupleQuality};

/// Maximum bytes of a reply, without file data, that are parsed.
pub const REPLY_BYTES_MAX: usize = 64 * 1024;
/// Columns that need the names in directories.
pub const LISTING: ColumnSet = ColumnSet::of(&[field::ENTRIES, field::PATH, field::EOF]);

/// A reply.
#[derive(Clone, Copy)]
pub struct NfsReply<'a> {
    /// Header and results, without file data.
    pub head: &'a [u8],
    /// Metadata of the message.
    pub message: RpcMessage,
    /// Whether its last byte was captured.
    pub ended: bool,
    /// Checksums of its data.
    pub checksums: &'a [u64],
}

impl NfsReply<'_> {
    fn xid(&self) -> Option<u32> {
        word(self.head)
    }

    /// Time from the end of `call` to its start, in ns.
    fn came_after(&self, call: &RpcPendingCall) -> i64 {
        self.span().first.since(call.span.last)
    }

    fn span(&self) -> MessageSpan {
        self.message
            .span
            .unwrap_or(MessageSpan::at(wire::Timestamp::MIN))
    }
}

/// All facts about one call.
struct NfsTupleSource<'a> {
    call: Option<&'a RpcPendingCall>,
    reply: Option<&'a NfsReply<'a>>,
    credentials: Option<RpcCredentials<'a>>,
    args: NfsArguments<'a>,
    rpc_status: Option<rpc::RpcStatus>,
    results: NfsResults<'a>,
    /// Results are incomplete: the reply was parsed before its call was known.
    cut: bool,
    /// Arguments or results for `details` are missing.
    lacks_details: bool,
    path: &'a [u8],
}

/// Columns with paths, and what they require.
const PATH: ColumnSet = ColumnSet::of(&[field::PATH]);

/// Writes a call, with its reply if any.
pub fn tuple(
    call: &RpcPendingCall,
    reply: Option<&NfsReply<'_>>,
    wanted: ColumnSet,
    names: &mut FileHandleNames,
    out: &mut ParserOutput<'_>,
) {
    let mut tuple = NfsTupleSource {
        call: Some(call),
        reply,
        credentials: None,
        args: NfsArguments::default(),
        rpc_status: None,
        results: NfsResults::default(),
        cut: false,
        lacks_details: false,
        path: &[],
    };
    let mut broken = false;
    if let Some(header) = rpc::call(&call.head) {
        tuple.credentials = Some(header.credentials);
        let read = tuple.args.read(&call.target, &mut { header.args });
        broken |= read.is_none() && !call.gap;
        if read.is_none() && call.gap {
            tuple.args.forget_unsettled();
        }
        tuple.lacks_details = read.is_none();
    } else {
        broken |= !call.gap;
    }
    if let Some((reply, header)) = reply.and_then(|reply| Some((reply, rpc::reply(reply.head)?))) {
        tuple.rpc_status = Some(header.status);
        out.counters.protected_messages += u64::from(call.target.protected);
        if header.status.is_success() {
            let listing = wanted.has_any(LISTING);
            let read = tuple
                .results
                .read(&call.target, listing, &mut { header.results });
            let long = reply.head.len() >= REPLY_BYTES_MAX;
            out.counters.oversized_heads += u64::from(long);
            tuple.cut = read.is_none() && reply.message.early;
            tuple.lacks_details |= read.is_none() && call.target.program == programs::PORTMAP;
            broken |= read.is_none() && !(reply.message.gap || reply.message.early || long);
        }
    }
    out.counters.malformed_messages += u64::from(broken);
    let mut path = Vec::new();
    if wanted.has_any(PATH) {
        learn(&call.target, &tuple.args, &tuple.results, names);
        out.counters.evicted_names += std::mem::take(&mut names.evicted);
        find_path(&call.target, &tuple.args, names, &mut path);
        tuple.path = &path;
    }
    let quality = reply.map_or(TupleQuality::Half, |reply| quality(call, reply, tuple.cut));
    let nfs = call.target.program == programs::NFS;
    let times = (
        call.span.first,
        reply.map(|reply| call.span.last.max(reply.span().last)),
    );
    out.emit(
        times,
        quality,
        |variant| variant != super::NFS_ONLY || nfs,
        |w| tuple.write(w),
    );
}

/// Writes a reply without a call; `nfs`: it may be an NFS reply.
pub fn unasked(reply: &NfsReply<'_>, nfs: bool, out: &mut ParserOutput<'_>) {
    let tuple = NfsTupleSource {
        call: None,
        reply: Some(reply),
        credentials: None,
        args: NfsArguments::default(),
        rpc_status: rpc::reply(reply.head).map(|header| header.status),
        results: NfsResults::default(),
        cut: false,
        lacks_details: false,
        path: &[],
    };
    out.emit(
        (reply.span().first, None),
        TupleQuality::Half,
        |variant| variant != super::NFS_ONLY || nfs,
        |w| tuple.write(w),
    );
}

fn quality(call: &RpcPendingCall, reply: &NfsReply<'_>, cut: bool) -> TupleQuality {
    let gap = if call.gap || reply.message.gap || cut {
        TupleQuality::GapBody
    } else {
        TupleQuality::Exact
    };
    // The clocks of the packets differ, or a clock was set: the duration is unknown.
    let gap = if reply.came_after(call) < 0 {
        gap.max(TupleQuality::Untimed)
    } else {
        gap
    };
    [call.found, reply.message.found]
        .into_iter()
        .flatten()
        .fold(gap, TupleQuality::max)
}

/// Learns names from a call and its reply.
fn learn(
    target: &RpcTarget,
    args: &NfsArguments<'_>,
    results: &NfsResults<'_>,
    names: &mut FileHandleNames,
) {
    match (target.program, target.procedure) {
        (programs::MOUNT, mount::MNT) => {
            if let (Some(path), Some(object)) = (args.name, results.object) {
                names.learn(None, path, object);
            }
        }
        (programs::NFS, _) => {
            if let (Some(parent), Some(name), Some(object)) =
                (args.handle, args.name, results.object)
            {
                names.learn(Some(parent), name, object);
            }
            if let (Some(parent), Some(mut list)) = (args.handle, results.list) {
                while list.bool() == Some(true)
                    && let Some((name, handle)) = v3::entry(true, &mut list)
                {
                    if let Some(handle) = handle {
                        names.learn(Some(parent), name, handle);
                    }
                }
            }
            let rename = (target.version, target.procedure) == (3, 14) && results.status == Some(0);
            if let (true, Some(from), Some(name), Some(to), Some(to_name)) =
                (rename, args.handle, args.name, args.to_handle, args.to_name)
            {
                names.rename((from, name), (to, to_name));
            }
        }
        _ => {}
    }
}

/// Appends the path of the object operated on.
fn find_path(
    target: &RpcTarget,
    args: &NfsArguments<'_>,
    names: &mut FileHandleNames,
    path: &mut Vec<u8>,
) {
    match target.program {
        programs::MOUNT => path.extend_from_slice(args.name.unwrap_or_default()),
        // A COMPOUND has names and handles of several operations.
        programs::NFS if target.version < 4 => names.path(args.handle, args.name, path),
        _ => {}
    }
}

impl NfsTupleSource<'_> {
    #[inline]
    fn write(&self, w: &mut TupleWriter) {
        let xid = self.call.map_or_else(
            || self.reply.and_then(NfsReply::xid),
            |call| word(&call.head),
        );
        number(w, field::XID, xid);
        if let Some(call) = self.call {
            write_target(w, &call.target);
            self.write_args(w);
            number(w, field::REQUEST_BYTES, call.bytes);
            number(w, field::RETRANSMITTED, Some(call.repeats));
            if call.ended {
                w.i64(field::CALL_TIME, call.span.last.since(call.span.first));
            }
        }
        if let Some(reply) = self.reply {
            if let Some(status) = self.rpc_status {
                w.text(field::RPC_STATUS, status.name().as_bytes());
            }
            self.write_results(w);
            number(w, field::RESPONSE_BYTES, reply.message.len());
            if let Some(call) = self.call.filter(|call| call.ended) {
                let time = reply.came_after(call);
                if time >= 0 {
                    w.i64(field::RESPONSE_TIME, time);
                }
            }
            if reply.ended {
                w.i64(
                    field::TRANSFER_TIME,
                    reply.span().last.since(reply.span().first),
                );
                let asked = self.call.filter(|call| call.ended);
                let total = asked.map(|call| reply.span().last.since(call.span.last));
                if let Some(time) = total.filter(|time| *time >= 0) {
                    w.i64(field::TOTAL_TIME, time);
                }
            }
        }
        if w.wants(field::BLOCK_CHECKSUMS) && self.has_data() && !self.lacks_checksums() {
            let call = self.call.map(|c| &c.checksums[..]);
            let reply = self.reply.map(|r| r.checksums);
            let list = [call, reply]
                .into_iter()
                .flatten()
                .find(|list| !list.is_empty());
            w.hashes(field::BLOCK_CHECKSUMS, list.unwrap_or_default());
        }
        if w.wants(field::DETAILS) && !self.lacks_details {
            self.write_details(w);
        }
    }

    #[cold]
    fn write_details(&self, w: &mut TupleWriter) {
        let mut parts = Vec::new();
        self.args.more.push(&mut parts);
        for (name, value) in [
            ("set_uid", self.args.settings.uid),
            ("set_gid", self.args.settings.gid),
        ] {
            parts.extend(value.map(|value| format!("{name}={value}").into_bytes()));
        }
        self.results.more.push(&mut parts);
        if !parts.is_empty() {
            w.text(field::DETAILS, &parts.join(&b' '));
        }
    }

    /// Whether a call was confirmed only after its file data had been skipped.
    fn lacks_checksums(&self) -> bool {
        self.call
            .is_some_and(|call| (call.found.is_some() || call.gap) && call.checksums.is_empty())
            && self.args.data.is_some()
    }

    /// Whether the call or reply contained file data, parsed at the correct block offset.
    fn has_data(&self) -> bool {
        let Some(offset) = self.args.offset else {
            return false;
        };
        let sound = self.reply.is_none_or(|r| {
            !r.message.early || offset.is_multiple_of(super::block_checksums::BLOCK)
        });
        self.call.is_some() && (self.args.data.is_some() || self.results.data.is_some() && sound)
    }

    #[inline]
    fn write_args(&self, w: &mut TupleWriter) {
        if let Some(credentials) = &self.credentials {
            w.text(field::AUTH, credentials.name().as_bytes());
            if let RpcCredentials::Sys { machine, uid, gid } = *credentials {
                w.u64(field::UID, uid.into());
                w.u64(field::GID, gid.into());
                w.text(field::MACHINE, machine);
            }
        }
        let args = &self.args;
        handle(w, field::FILE_HANDLE, args.handle);
        text(w, field::NAME, args.name);
        if !self.path.is_empty() {
            w.text(field::PATH, self.path);
        }
        handle(w, field::TO_FILE_HANDLE, args.to_handle);
        text(w, field::TO_NAME, args.to_name.or(self.results.target));
        number(w, field::OFFSET, args.offset);
        number(w, field::COUNT, args.count);
        if let Some(stable) = args.stable {
            w.text(field::STABLE, stable_how(stable));
        }
        number(w, field::ACCESS, args.access);
        number(w, field::SET_MODE, args.settings.mode);
        number(w, field::SET_SIZE, args.settings.size);
        if let (true, Some(offset), Some(count)) = (self.moves_data(), args.offset, args.count) {
            w.bool(
                field::ALIGNED,
                (offset | count).is_multiple_of(super::block_checksums::BLOCK),
            );
        }
        if let NfsExtraFields::Compound(operations) = args.more
            && w.wants(field::OPERATIONS)
        {
            w.text(field::OPERATIONS, v4::names(operations).as_bytes());
        }
    }

    /// Whether it is a READ or WRITE of versions 2 and 3.
    fn moves_data(&self) -> bool {
        self.call.is_some_and(|call| {
            let RpcTarget {
                program,
                version,
                procedure,
                ..
            } = call.target;
            program == programs::NFS && matches!((version, procedure), (3, 6 | 7) | (2, 6 | 8))
        })
    }

    #[inline]
    fn write_results(&self, w: &mut TupleWriter) {
        let results = &self.results;
        if let Some(status) = results.status {
            match programs::status(status) {
                Some(name) => w.text(field::STATUS, name.as_bytes()),
                None => w.text(field::STATUS, status.to_string().as_bytes()),
            }
        }
        handle(w, field::OBJECT_HANDLE, results.object);
        number(w, field::RESULT_COUNT, results.count);
        if let Some(eof) = results.eof {
            w.bool(field::EOF, eof);
        }
        if let Some(stable) = results.stable {
            w.text(field::COMMITTED, stable_how(stable));
        }
        number(w, field::ACCESS_GRANTED, results.access);
        number(w, field::ENTRIES, results.entries);
        if let Some(before) = results.before {
            w.u64(field::SIZE_BEFORE, before.size);
            w.i64(field::MTIME_BEFORE, before.mtime);
        }
        if let Some(attributes) = &results.attributes {
            write_attributes(w, attributes);
        }
    }
}

fn write_target(w: &mut TupleWriter, target: &RpcTarget) {
    if w.wants(field::PROGRAM) {
        match programs::program(target.program) {
            Some(name) => w.text(field::PROGRAM, name.as_bytes()),
            None => w.text(field::PROGRAM, target.program.to_string().as_bytes()),
        }
    }
    w.u64(field::VERSION, target.version.into());
    if w.wants(field::PROCEDURE) {
        match programs::procedure(target) {
            Some(name) => w.text(field::PROCEDURE, name.as_bytes()),
            None => w.text(field::PROCEDURE, target.procedure.to_string().as_bytes()),
        }
    }
}

fn write_attributes(w: &mut TupleWriter, a: &NfsAttributes) {
    w.text(field::FILE_TYPE, a.kind_name().as_bytes());
    w.u64(field::FILE_MODE, a.mode.into());
    w.u64(field::FILE_LINKS, a.links.into());
    w.u64(field::FILE_UID, a.uid.into());
    w.u64(field::FILE_GID, a.gid.into());
    w.u64(field::FILE_SIZE, a.size);
    w.u64(field::FILE_USED, a.used);
    w.u64(field::FSID, a.fsid);
    w.u64(field::FILEID, a.fileid);
    w.i64(field::ATIME, a.times[0]);
    w.i64(field::MTIME, a.times[1]);
    w.i64(field::CTIME, a.times[2]);
}

fn word(message: &[u8]) -> Option<u32> {
    message.first_chunk().map(|word| u32::from_be_bytes(*word))
}

#[inline]
fn number(w: &mut TupleWriter, id: FieldId, value: Option<impl Into<u64>>) {
    if let Some(value) = value {
        w.u64(id, value.into());
    }
}

#[inline]
fn text(w: &mut TupleWriter, id: FieldId, value: Option<&[u8]>) {
    if let Some(value) = value {
        w.text(id, value);
    }
}

#[inline]
fn handle(w: &mut TupleWriter, id: FieldId, handle: Option<&[u8]>) {
    let Some(handle) = handle.filter(|_| w.wants(id)) else {
        return;
    };
    let mut digits = [0; 2 * super::body::HANDLE_BYTES_MAX];
    let (pairs, _) = digits.as_chunks_mut::<2>();
    for (pair, byte) in pairs.iter_mut().zip(handle) {
        *pair = [byte >> 4, byte & 15].map(|digit| b"0123456789abcdef"[usize::from(digit)]);
    }
    w.text(id, &digits[..2 * handle.len()]);
}

fn stable_how(stable: u32) -> &'static [u8] {
    match stable {
        0 => b"unstable",
        1 => b"data_sync",
        2 => b"file_sync",
        _ => b"other",
    }
}
