//! Memcached vocabulary: commands of the text, meta, and binary protocols, their possible responses, and
//! common statuses.
//!
//! Sources: memcached's doc/protocol.txt and protocol_binary.h.

/// Command of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Command {
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
pub enum Class {
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
pub struct Word {
    /// Name as sent.
    pub name: &'static [u8],
    /// Possible replies.
    pub class: Class,
    /// Words between the command and its (first) key; `None`: it has no key.
    pub key_after: Option<u8>,
}

const fn word(name: &'static str, class: Class, key_after: Option<u8>) -> Word {
    Word { name: name.as_bytes(), class, key_after }
}

/// All text commands, the most frequent ones first.
pub const WORDS: &[Word] = &[
    word("get", Class::Retrieval, Some(0)),
    word("set", Class::Storage, Some(0)),
    word("mg", Class::MetaGet, Some(0)),
    word("ms", Class::MetaSet, Some(0)),
    word("gets", Class::Retrieval, Some(0)),
    word("delete", Class::Deletion, Some(0)),
    word("incr", Class::Arithmetic, Some(0)),
    word("touch", Class::Touch, Some(0)),
    word("add", Class::Storage, Some(0)),
    word("cas", Class::Storage, Some(0)),
    word("gat", Class::Retrieval, Some(1)),
    word("gats", Class::Retrieval, Some(1)),
    word("decr", Class::Arithmetic, Some(0)),
    word("replace", Class::Storage, Some(0)),
    word("append", Class::Storage, Some(0)),
    word("prepend", Class::Storage, Some(0)),
    word("md", Class::MetaDelete, Some(0)),
    word("ma", Class::MetaArithmetic, Some(0)),
    word("mn", Class::MetaNoop, None),
    word("me", Class::MetaDebug, Some(0)),
    word("bget", Class::Retrieval, Some(0)),
    word("version", Class::Version, None),
    word("stats", Class::Lines, None),
    word("quit", Class::Farewell, None),
    word("flush_all", Class::Admin, None),
    word("verbosity", Class::Admin, None),
    word("cache_memlimit", Class::Admin, None),
    word("slabs", Class::Admin, None),
    word("lru", Class::Admin, None),
    word("lru_crawler", Class::Admin, None),
    word("watch", Class::Watch, None),
    word("shutdown", Class::Admin, None),
    word("refresh_certs", Class::Admin, None),
    word("extstore", Class::Admin, None),
    word("misbehave", Class::Admin, None),
    word("debugtime", Class::Admin, None),
];

/// A binary command.
struct Opcode {
    name: &'static str,
    quiet: bool,
    read: bool,
    success: Status,
}

const fn opcode(name: &'static str, success: Status) -> Opcode {
    Opcode { name, quiet: false, read: false, success }
}

const fn quiet(name: &'static str, success: Status) -> Opcode {
    Opcode { name, quiet: true, read: false, success }
}

const fn read(name: &'static str, quiet: bool) -> Opcode {
    Opcode { name, quiet, read: true, success: Status::Hit }
}

/// Opcodes 0x00 to 0x24; 0x1f is not assigned.
const OPCODES: [Opcode; 0x25] = [
    read("get", false),
    opcode("set", Status::Stored),
    opcode("add", Status::Stored),
    opcode("replace", Status::Stored),
    opcode("delete", Status::Deleted),
    opcode("increment", Status::Ok),
    opcode("decrement", Status::Ok),
    opcode("quit", Status::Ok),
    opcode("flush", Status::Ok),
    read("getq", true),
    opcode("noop", Status::Ok),
    opcode("version", Status::Ok),
    read("getk", false),
    read("getkq", true),
    opcode("append", Status::Stored),
    opcode("prepend", Status::Stored),
    opcode("stat", Status::Ok),
    quiet("setq", Status::Stored),
    quiet("addq", Status::Stored),
    quiet("replaceq", Status::Stored),
    quiet("deleteq", Status::Deleted),
    quiet("incrementq", Status::Ok),
    quiet("decrementq", Status::Ok),
    quiet("quitq", Status::Ok),
    quiet("flushq", Status::Ok),
    quiet("appendq", Status::Stored),
    quiet("prependq", Status::Stored),
    opcode("verbosity", Status::Ok),
    opcode("touch", Status::Touched),
    read("gat", false),
    read("gatq", true),
    opcode("", Status::Ok),
    opcode("sasl_list", Status::Ok),
    opcode("sasl_auth", Status::Ok),
    opcode("sasl_step", Status::Ok),
    read("gatk", false),
    read("gatkq", true),
];

/// Opcodes 0x30 to 0x3c: range operations, named in protocol_binary.h, rarely implemented.
const RANGE_OPCODES: [Opcode; 13] = [
    opcode("rget", Status::Ok),
    opcode("rset", Status::Ok),
    quiet("rsetq", Status::Ok),
    opcode("rappend", Status::Ok),
    quiet("rappendq", Status::Ok),
    opcode("rprepend", Status::Ok),
    quiet("rprependq", Status::Ok),
    opcode("rdelete", Status::Ok),
    quiet("rdeleteq", Status::Ok),
    opcode("rincr", Status::Ok),
    quiet("rincrq", Status::Ok),
    opcode("rdecr", Status::Ok),
    quiet("rdecrq", Status::Ok),
];

fn known(opcode: u8) -> Option<&'static Opcode> {
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

impl Command {
    /// The text command with this name.
    #[inline]
    pub fn of_word(word: &[u8]) -> Option<Command> {
        WORDS.iter().position(|w| w.name == word).map(|i| Command::Text(i as u8))
    }

    /// The table entry of a text command.
    pub fn word(self) -> Option<&'static Word> {
        match self {
            Command::Text(i) => WORDS.get(usize::from(i)),
            _ => None,
        }
    }

    /// Command name; `None` if only the request contains it.
    pub fn name(self) -> Option<&'static [u8]> {
        match self {
            Command::Text(i) => WORDS.get(usize::from(i)).map(|w| w.name),
            Command::Binary(op) => known(op).map(|o| o.name.as_bytes()),
            Command::Unseen | Command::Other => None,
        }
    }

    /// Whether it reads values; selects the tuples of `memcached_get`.
    #[inline]
    pub fn is_read(self) -> bool {
        match self {
            Command::Text(i) => WORDS
                .get(usize::from(i))
                .is_some_and(|w| matches!(w.class, Class::Retrieval | Class::MetaGet)),
            Command::Binary(op) => known(op).is_some_and(|o| o.read),
            Command::Unseen | Command::Other => false,
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
    pub fn silence(self) -> Status {
        match self {
            Command::Binary(op) => match known(op) {
                Some(o) if o.read => Status::Miss,
                Some(o) => o.success,
                None => Status::Unknown,
            },
            _ => match self.word().map(|w| w.class) {
                Some(Class::MetaGet) => Status::Miss,
                Some(Class::MetaSet) => Status::Stored,
                Some(Class::MetaDelete) => Status::Deleted,
                Some(Class::MetaArithmetic) => Status::Ok,
                _ => Status::Unknown,
            },
        }
    }
}

/// Result of a command, in one vocabulary for the three protocols.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Status {
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

impl Status {
    /// Status of a binary response to `opcode` (protocol_binary.h, section 3.2).
    pub fn of_binary(opcode: u8, status: u16) -> Status {
        match status {
            0 => known(opcode).map_or(Status::Ok, |o| o.success),
            1 if known(opcode).is_some_and(|o| o.read) => Status::Miss,
            1 => Status::NotFound,
            2 => Status::Exists,
            5 => Status::NotStored,
            0x85 => Status::Busy,
            other => Status::Binary(other),
        }
    }

    /// Value of the `status` column; empty for an unnamed binary status.
    pub fn name(self) -> &'static str {
        match self {
            Status::Unknown => "",
            Status::Hit => "hit",
            Status::Miss => "miss",
            Status::Stored => "stored",
            Status::NotStored => "not_stored",
            Status::Exists => "exists",
            Status::NotFound => "not_found",
            Status::Deleted => "deleted",
            Status::Touched => "touched",
            Status::Ok => "ok",
            Status::Error => "error",
            Status::ClientError => "client_error",
            Status::ServerError => "server_error",
            Status::Busy => "busy",
            Status::Refused => "refused",
            Status::Binary(code) => binary_status_name(code),
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
    let is_opcode = |opcode| Command::Binary(opcode).name() == Some(name);
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
            assert_eq!(Command::Binary(op).name(), Some(name.as_bytes()));
        }
        assert!(Command::Binary(0x1f).name().is_none() && Command::Binary(0x42).name().is_none());
    }

    #[test]
    fn reads_are_reads_in_every_protocol() {
        let text = |w: &str| Command::of_word(w.as_bytes()).expect("a word of the table");
        for w in ["get", "gets", "gat", "gats", "mg"] {
            assert!(text(w).is_read(), "{w}");
        }
        assert!(!text("set").is_read() && !text("me").is_read() && !Command::Binary(1).is_read());
        assert!([0, 9, 0x0c, 0x0d, 0x1d, 0x1e, 0x23, 0x24].iter().all(|op| Command::Binary(*op).is_read()));
    }
}
