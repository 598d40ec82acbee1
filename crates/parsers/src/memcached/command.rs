//! Memcached vocabulary: commands of the text, meta, and binary protocols, their possible responses, and
//! common statuses.
//!
//! Sources: memcached's doc/protocol.txt and protocol_binary.h.

/// Command of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemcachedCommand {
    /// The request was not seen.
    #[default]
    Unseen,
    /// A text command that is not in [`WORDS`]; its word is stored with the request.
    Other,
    /// A text command: index in [`WORDS`].
    Text(u8),
    /// A binary opcode.
    Binary(u8),
}

/// Possible replies of a command, and their end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemcachedCommandClass {
    /// `VALUE` lines up to `END`.
    Retrieval,
    /// `STORED`, `NOT_STORED`, `EXISTS`, `NOT_FOUND`.
    Storage,
    /// `DELETED`, `NOT_FOUND`.
    Deletion,
    /// `TOUCHED`, `NOT_FOUND`.
    Touch,
    /// A number, `NOT_FOUND`.
    Arithmetic,
    /// `VA`, `HD`, `EN`.
    MetaGet,
    /// `HD`, `NS`, `EX`, `NF`.
    MetaSet,
    /// `HD`, `NF`, `EX`.
    MetaDelete,
    /// `HD`, `VA`, `NF`, `NS`, `EX`.
    MetaArithmetic,
    /// `MN`.
    MetaNoop,
    /// `ME`, `EN`.
    MetaDebug,
    /// Lines of any kind up to `END`, or one line.
    Lines,
    /// `VERSION`.
    Version,
    /// One line, mostly `OK`.
    Admin,
    /// `OK`, then log lines without end.
    Watch,
    /// No reply: the connection is closed.
    Farewell,
    /// One line of any kind.
    #[default]
    Any,
    /// A binary response with the same opcode and opaque.
    Binary,
}

/// A text command.
pub struct MemcachedTextCommand {
    /// Name as sent.
    pub name: &'static [u8],
    /// Possible replies.
    pub class: MemcachedCommandClass,
    /// Words between the command and its (first) key; `None`: it has no key.
    pub key_after: Option<u8>,
}

const fn word(
    name: &'static str,
    class: MemcachedCommandClass,
    key_after: Option<u8>,
) -> MemcachedTextCommand {
    MemcachedTextCommand {
        name: name.as_bytes(),
        class,
        key_after,
    }
}

/// All text commands, the most frequent ones first.
pub const WORDS: &[MemcachedTextCommand] = &[
    word("get", MemcachedCommandClass::Retrieval, Some(0)),
    word("set", MemcachedCommandClass::Storage, Some(0)),
    word("mg", MemcachedCommandClass::MetaGet, Some(0)),
    word("ms", MemcachedCommandClass::MetaSet, Some(0)),
    word("gets", MemcachedCommandClass::Retrieval, Some(0)),
    word("delete", MemcachedCommandClass::Deletion, Some(0)),
    word("incr", MemcachedCommandClass::Arithmetic, Some(0)),
    word("touch", MemcachedCommandClass::Touch, Some(0)),
    word("add", MemcachedCommandClass::Storage, Some(0)),
    word("cas", MemcachedCommandClass::Storage, Some(0)),
    word("gat", MemcachedCommandClass::Retrieval, Some(1)),
    word("gats", MemcachedCommandClass::Retrieval, Some(1)),
    word("decr", MemcachedCommandClass::Arithmetic, Some(0)),
    word("replace", MemcachedCommandClass::Storage, Some(0)),
    word("append", MemcachedCommandClass::Storage, Some(0)),
    word("prepend", MemcachedCommandClass::Storage, Some(0)),
    word("md", MemcachedCommandClass::MetaDelete, Some(0)),
    word("ma", MemcachedCommandClass::MetaArithmetic, Some(0)),
    word("mn", MemcachedCommandClass::MetaNoop, None),
    word("me", MemcachedCommandClass::MetaDebug, Some(0)),
    word("bget", MemcachedCommandClass::Retrieval, Some(0)),
    word("version", MemcachedCommandClass::Version, None),
    word("stats", MemcachedCommandClass::Lines, None),
    word("quit", MemcachedCommandClass::Farewell, None),
    word("flush_all", MemcachedCommandClass::Admin, None),
    word("verbosity", MemcachedCommandClass::Admin, None),
    word("cache_memlimit", MemcachedCommandClass::Admin, None),
    word("slabs", MemcachedCommandClass::Admin, None),
    word("lru", MemcachedCommandClass::Admin, None),
    word("lru_crawler", MemcachedCommandClass::Admin, None),
    word("watch", MemcachedCommandClass::Watch, None),
    word("shutdown", MemcachedCommandClass::Admin, None),
    word("refresh_certs", MemcachedCommandClass::Admin, None),
    word("extstore", MemcachedCommandClass::Admin, None),
    word("misbehave", MemcachedCommandClass::Admin, None),
    word("debugtime", MemcachedCommandClass::Admin, None),
];

/// A binary command.
struct MemcachedOpcode {
    name: &'static str,
    quiet: bool,
    read: bool,
    success: MemcachedStatus,
}

const fn opcode(name: &'static str, success: MemcachedStatus) -> MemcachedOpcode {
    MemcachedOpcode {
        name,
        quiet: false,
        read: false,
        success,
    }
}

const fn quiet(name: &'static str, success: MemcachedStatus) -> MemcachedOpcode {
    MemcachedOpcode {
        name,
        quiet: true,
        read: false,
        success,
    }
}

const fn read(name: &'static str, quiet: bool) -> MemcachedOpcode {
    MemcachedOpcode {
        name,
        quiet,
        read: true,
        success: MemcachedStatus::Hit,
    }
}

/// Opcodes 0x00 to 0x24; 0x1f is not assigned.
const OPCODES: [MemcachedOpcode; 0x25] = [
    read("get", false),
    opcode("set", MemcachedStatus::Stored),
    opcode("add", MemcachedStatus::Stored),
    opcode("replace", MemcachedStatus::Stored),
    opcode("delete", MemcachedStatus::Deleted),
    opcode("increment", MemcachedStatus::Ok),
    opcode("decrement", MemcachedStatus::Ok),
    opcode("quit", MemcachedStatus::Ok),
    opcode("flush", MemcachedStatus::Ok),
    read("getq", true),
    opcode("noop", MemcachedStatus::Ok),
    opcode("version", MemcachedStatus::Ok),
    read("getk", false),
    read("getkq", true),
    opcode("append", MemcachedStatus::Stored),
    opcode("prepend", MemcachedStatus::Stored),
    opcode("stat", MemcachedStatus::Ok),
    quiet("setq", MemcachedStatus::Stored),
    quiet("addq", MemcachedStatus::Stored),
    quiet("replaceq", MemcachedStatus::Stored),
    quiet("deleteq", MemcachedStatus::Deleted),
    quiet("incrementq", MemcachedStatus::Ok),
    quiet("decrementq", MemcachedStatus::Ok),
    quiet("quitq", MemcachedStatus::Ok),
    quiet("flushq", MemcachedStatus::Ok),
    quiet("appendq", MemcachedStatus::Stored),
    quiet("prependq", MemcachedStatus::Stored),
    opcode("verbosity", MemcachedStatus::Ok),
    opcode("touch", MemcachedStatus::Touched),
    read("gat", false),
    read("gatq", true),
    opcode("", MemcachedStatus::Ok),
    opcode("sasl_list", MemcachedStatus::Ok),
    opcode("sasl_auth", MemcachedStatus::Ok),
    opcode("sasl_step", MemcachedStatus::Ok),
    read("gatk", false),
    read("gatkq", true),
];

/// Opcodes 0x30 to 0x3c: range operations, named in protocol_binary.h, rarely implemented.
const RANGE_OPCODES: [MemcachedOpcode; 13] = [
    opcode("rget", MemcachedStatus::Ok),
    opcode("rset", MemcachedStatus::Ok),
    quiet("rsetq", MemcachedStatus::Ok),
    opcode("rappend", MemcachedStatus::Ok),
    quiet("rappendq", MemcachedStatus::Ok),
    opcode("rprepend", MemcachedStatus::Ok),
    quiet("rprependq", MemcachedStatus::Ok),
    opcode("rdelete", MemcachedStatus::Ok),
    quiet("rdeleteq", MemcachedStatus::Ok),
    opcode("rincr", MemcachedStatus::Ok),
    quiet("rincrq", MemcachedStatus::Ok),
    opcode("rdecr", MemcachedStatus::Ok),
    quiet("rdecrq", MemcachedStatus::Ok),
];

fn known(opcode: u8) -> Option<&'static MemcachedOpcode> {
    match opcode {
        0x1f => None,
        0x00..=0x24 => OPCODES.get(usize::from(opcode)),
        0x30..=0x3c => RANGE_OPCODES.get(usize::from(opcode - 0x30)),
        _ => None,
    }
}

/// `STAT`, the only binary command with several responses.
pub const OPCODE_STAT: u8 = 0x10;
/// `QUITQ`, the only binary command that is never answered.
pub const OPCODE_QUITQ: u8 = 0x17;

impl MemcachedCommand {
    /// The text command with this name.
    #[inline]
    pub fn of_word(word: &[u8]) -> Option<MemcachedCommand> {
        WORDS
            .iter()
            .position(|w| w.name == word)
            .map(|i| MemcachedCommand::Text(i as u8))
    }

    /// The table entry of a text command.
    pub fn word(self) -> Option<&'static MemcachedTextCommand> {
        match self {
            MemcachedCommand::Text(i) => WORDS.get(usize::from(i)),
            _ => None,
        }
    }

    /// Command name; `None` if only the request contains it.
    pub fn name(self) -> Option<&'static [u8]> {
        match self {
            MemcachedCommand::Text(i) => WORDS.get(usize::from(i)).map(|w| w.name),
            MemcachedCommand::Binary(op) => known(op).map(|o| o.name.as_bytes()),
            MemcachedCommand::Unseen | MemcachedCommand::Other => None,
        }
    }

    /// Whether it reads values; selects the tuples of `memcached_get`.
    #[inline]
    pub fn is_read(self) -> bool {
        match self {
            MemcachedCommand::Text(i) => WORDS.get(usize::from(i)).is_some_and(|w| {
                matches!(
                    w.class,
                    MemcachedCommandClass::Retrieval | MemcachedCommandClass::MetaGet
                )
            }),
            MemcachedCommand::Binary(op) => known(op).is_some_and(|o| o.read),
            MemcachedCommand::Unseen | MemcachedCommand::Other => false,
        }
    }

    /// Whether a binary opcode is defined.
    pub fn is_known_opcode(opcode: u8) -> bool {
        known(opcode).is_some()
    }

    /// Whether a binary opcode is answered only in exceptional cases.
    pub fn is_quiet_opcode(opcode: u8) -> bool {
        known(opcode).is_some_and(|o| o.quiet)
    }

    /// Status implied by a missing response to a quiet command.
    pub fn silence(self) -> MemcachedStatus {
        match self {
            MemcachedCommand::Binary(op) => match known(op) {
                Some(o) if o.read => MemcachedStatus::Miss,
                Some(o) => o.success,
                None => MemcachedStatus::Unknown,
            },
            _ => match self.word().map(|w| w.class) {
                Some(MemcachedCommandClass::MetaGet) => MemcachedStatus::Miss,
                Some(MemcachedCommandClass::MetaSet) => MemcachedStatus::Stored,
                Some(MemcachedCommandClass::MetaDelete) => MemcachedStatus::Deleted,
                Some(MemcachedCommandClass::MetaArithmetic) => MemcachedStatus::Ok,
                _ => MemcachedStatus::Unknown,
            },
        }
    }
}

/// Result of a command, in one vocabulary for the three protocols.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemcachedStatus {
    /// Not seen; null in the tuple.
    #[default]
    Unknown,
    /// A read found its key.
    Hit,
    /// A read did not find its key.
    Miss,
    /// `STORED`, `HD` of a set, success of a binary store.
    Stored,
    /// `NOT_STORED`, `NS`, binary 5.
    NotStored,
    /// `EXISTS`, `EX`, binary 2.
    Exists,
    /// `NOT_FOUND`, `NF`, binary 1 except for reads.
    NotFound,
    /// `DELETED`, `HD` of a delete.
    Deleted,
    /// `TOUCHED`.
    Touched,
    /// Any other success.
    Ok,
    /// `ERROR`: unknown command.
    Error,
    /// `CLIENT_ERROR …`.
    ClientError,
    /// `SERVER_ERROR …`.
    ServerError,
    /// `BUSY …`, binary 0x85.
    Busy,
    /// Any other refusal.
    Refused,
    /// A binary status other than the above.
    Binary(u16),
}

impl MemcachedStatus {
    /// Status of a binary response to `opcode` (protocol_binary.h, section 3.2).
    pub fn of_binary(opcode: u8, status: u16) -> MemcachedStatus {
        match status {
            0 => known(opcode).map_or(MemcachedStatus::Ok, |o| o.success),
            1 if known(opcode).is_some_and(|o| o.read) => MemcachedStatus::Miss,
            1 => MemcachedStatus::NotFound,
            2 => MemcachedStatus::Exists,
            5 => MemcachedStatus::NotStored,
            0x85 => MemcachedStatus::Busy,
            other => MemcachedStatus::Binary(other),
        }
    }

    /// Value of the `status` column; empty for an unnamed binary status.
    pub fn name(self) -> &'static str {
        match self {
            MemcachedStatus::Unknown => "",
            MemcachedStatus::Hit => "hit",
            MemcachedStatus::Miss => "miss",
            MemcachedStatus::Stored => "stored",
            MemcachedStatus::NotStored => "not_stored",
            MemcachedStatus::Exists => "exists",
            MemcachedStatus::NotFound => "not_found",
            MemcachedStatus::Deleted => "deleted",
            MemcachedStatus::Touched => "touched",
            MemcachedStatus::Ok => "ok",
            MemcachedStatus::Error => "error",
            MemcachedStatus::ClientError => "client_error",
            MemcachedStatus::ServerError => "server_error",
            MemcachedStatus::Busy => "busy",
            MemcachedStatus::Refused => "refused",
            MemcachedStatus::Binary(code) => binary_status_name(code),
        }
    }
}

fn binary_status_name(code: u16) -> &'static str {
    match code {
        0x03 => "too_large",
        0x04 => "invalid_arguments",
        0x06 => "non_numeric",
        0x07 => "wrong_vbucket",
        0x08 | 0x20 => "auth_error",
        0x09 | 0x21 => "auth_continue",
        0x81 => "unknown_command",
        0x82 => "out_of_memory",
        0x83 => "not_supported",
        0x84 => "internal_error",
        0x86 => "temporary_failure",
        _ => "",
    }
}

/// Whether a command of the text or binary protocol has this name.
pub fn is_known_name(name: &[u8]) -> bool {
    let is_opcode = |opcode| MemcachedCommand::Binary(opcode).name() == Some(name);
    WORDS.iter().any(|word| word.name == name) || (0..=u8::MAX).any(is_opcode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcodes_are_at_their_numbers() {
        for (op, name) in [
            (0x00, "get"),
            (0x09, "getq"),
            (0x0a, "noop"),
            (0x0d, "getkq"),
            (0x10, "stat"),
            (0x11, "setq"),
            (0x17, "quitq"),
            (0x1a, "prependq"),
            (0x1c, "touch"),
            (0x1e, "gatq"),
            (0x20, "sasl_list"),
            (0x24, "gatkq"),
            (0x3c, "rdecrq"),
        ] {
            assert_eq!(MemcachedCommand::Binary(op).name(), Some(name.as_bytes()));
        }
        assert!(
            MemcachedCommand::Binary(0x1f).name().is_none()
                && MemcachedCommand::Binary(0x42).name().is_none()
        );
    }

    #[test]
    fn reads_are_reads_in_every_protocol() {
        let text = |w: &str| MemcachedCommand::of_word(w.as_bytes()).expect("a word of the table");
        for w in ["get", "gets", "gat", "gats", "mg"] {
            assert!(text(w).is_read(), "{w}");
        }
        assert!(
            !text("set").is_read()
                && !text("me").is_read()
                && !MemcachedCommand::Binary(1).is_read()
        );
        assert!(
            [0, 9, 0x0c, 0x0d, 0x1d, 0x1e, 0x23, 0x24]
                .iter()
                .all(|op| MemcachedCommand::Binary(*op).is_read())
        );
    }
}
