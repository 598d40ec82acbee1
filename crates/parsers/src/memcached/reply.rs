//! One reply line of the text protocol: its kind, the commands it can answer, and their status.

use super::command::{MemcachedCommand, MemcachedCommandClass, MemcachedStatus};
use super::words::{MemcachedWords, number};

/// Kind of a reply by its first word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemcachedReplyKind {
    /// `VALUE key flags bytes [cas]`, followed by a value.
    Value,
    /// `VA bytes flags…`, followed by a value.
    Va,
    /// `END`.
    End,
    /// `STAT`, `ITEM`, `PREFIX`: one line of several.
    Item,
    /// `STORED`.
    Stored,
    /// `NOT_STORED`.
    NotStored,
    /// `EXISTS`.
    Exists,
    /// `NOT_FOUND`.
    NotFound,
    /// `DELETED`.
    Deleted,
    /// `TOUCHED`.
    Touched,
    /// `OK` or `RESET`.
    Ok,
    /// `VERSION …`.
    Version,
    /// Digits.
    Number,
    /// Meta: success.
    Hd,
    /// Meta: miss.
    En,
    /// Meta: not found.
    Nf,
    /// Meta: not stored.
    Ns,
    /// Meta: exists.
    Ex,
    /// Meta: no-op.
    Mn,
    /// Meta: debug line.
    Me,
    /// `ERROR`.
    Error,
    /// `CLIENT_ERROR …`.
    ClientError,
    /// `SERVER_ERROR …`.
    ServerError,
    /// `BUSY …`.
    Busy,
    /// Anything else.
    #[default]
    Other,
}

/// One line.
#[derive(Clone, Copy, Debug)]
pub struct MemcachedReply<'a> {
    /// Kind of the line.
    pub kind: MemcachedReplyKind,
    /// `VALUE`: the key.
    pub key: &'a [u8],
    /// `VALUE` and `VA`: the length of the value that follows.
    pub bytes: u64,
    /// Meta replies: the flags.
    pub flags: MemcachedWords<'a>,
}

impl<'a> MemcachedReply<'a> {
    /// Parses a line without its line end.
    #[inline]
    pub fn read(line: &'a [u8]) -> MemcachedReply<'a> {
        let reply = |kind| MemcachedReply {
            kind,
            key: b"",
            bytes: 0,
            flags: MemcachedWords(b""),
        };
        match line {
            b"END" => reply(MemcachedReplyKind::End),
            b"STORED" => reply(MemcachedReplyKind::Stored),
            [b'V', b'A', b'L', b'U', b'E', b' ', words @ ..] => {
                MemcachedReply::value(MemcachedWords(words))
            }
            _ => MemcachedReply::other(line),
        }
    }

    /// Parses the words of a `VALUE` line.
    #[inline]
    fn value(mut words: MemcachedWords<'a>) -> MemcachedReply<'a> {
        let key = words.next();
        let _flags = words.next();
        let bytes = words.next().and_then(number);
        let (kind, key, bytes) = match (key, bytes) {
            (Some(key), Some(bytes)) => (MemcachedReplyKind::Value, key, bytes),
            _ => (MemcachedReplyKind::Other, &b""[..], 0),
        };
        MemcachedReply {
            kind,
            key,
            bytes,
            flags: MemcachedWords(b""),
        }
    }

    fn other(line: &'a [u8]) -> MemcachedReply<'a> {
        let mut words = MemcachedWords(line);
        let first = words.next().unwrap_or_default();
        let kind = kind_of(first);
        let mut reply = MemcachedReply {
            kind,
            key: b"",
            bytes: 0,
            flags: MemcachedWords(b""),
        };
        match kind {
            MemcachedReplyKind::Value => return MemcachedReply::value(words),
            MemcachedReplyKind::Va => match words.next().and_then(number) {
                Some(bytes) => {
                    reply.bytes = bytes;
                    reply.flags = words;
                }
                None => reply.kind = MemcachedReplyKind::Other,
            },
            MemcachedReplyKind::Hd
            | MemcachedReplyKind::En
            | MemcachedReplyKind::Nf
            | MemcachedReplyKind::Ns
            | MemcachedReplyKind::Ex => reply.flags = words,
            // incr of old servers pads the number with blanks; nothing else may follow it.
            MemcachedReplyKind::Number if words.next().is_some() => {
                reply.kind = MemcachedReplyKind::Other
            }
            _ => {}
        }
        reply
    }
}

impl MemcachedReplyKind {
    /// The command, if only one is answered like this.
    pub fn command(self) -> Option<MemcachedCommand> {
        match self {
            MemcachedReplyKind::Mn => MemcachedCommand::of_word(b"mn"),
            MemcachedReplyKind::Version => MemcachedCommand::of_word(b"version"),
            _ => None,
        }
    }

    /// Whether it can be the first line of a response to a command of this class.
    pub fn answers(self, class: MemcachedCommandClass) -> bool {
        use MemcachedReplyKind as K;
        if self.is_error() {
            return true;
        }
        match class {
            MemcachedCommandClass::Retrieval => matches!(self, K::Value | K::End),
            MemcachedCommandClass::Storage => {
                matches!(self, K::Stored | K::NotStored | K::Exists | K::NotFound)
            }
            MemcachedCommandClass::Deletion => matches!(self, K::Deleted | K::NotFound),
            MemcachedCommandClass::Touch => matches!(self, K::Touched | K::NotFound),
            MemcachedCommandClass::Arithmetic => matches!(self, K::Number | K::NotFound),
            // Versions 1.6.0 to 1.6.8 sent `OK` for `HD`.
            MemcachedCommandClass::MetaGet => matches!(self, K::Va | K::Hd | K::En | K::Ok),
            MemcachedCommandClass::MetaSet => matches!(self, K::Hd | K::Ns | K::Ex | K::Nf | K::Ok),
            MemcachedCommandClass::MetaDelete => matches!(self, K::Hd | K::Nf | K::Ex | K::Ok),
            MemcachedCommandClass::MetaArithmetic => {
                matches!(self, K::Hd | K::Va | K::Nf | K::Ns | K::Ex | K::Ok)
            }
            MemcachedCommandClass::MetaNoop => self == K::Mn,
            MemcachedCommandClass::MetaDebug => matches!(self, K::Me | K::En),
            MemcachedCommandClass::Version => self == K::Version,
            MemcachedCommandClass::Lines => {
                matches!(self, K::Item | K::End | K::En | K::Ok | K::Busy | K::Other)
            }
            MemcachedCommandClass::Admin | MemcachedCommandClass::Watch => {
                matches!(self, K::Ok | K::Busy | K::Other)
            }
            // For an unknown command: any reply that answers no known command.
            MemcachedCommandClass::Any => matches!(self, K::Ok | K::Busy | K::Other),
            MemcachedCommandClass::Farewell | MemcachedCommandClass::Binary => false,
        }
    }

    /// Whether it is one of the three errors that any command can get.
    #[inline]
    pub fn is_error(self) -> bool {
        matches!(
            self,
            MemcachedReplyKind::Error
                | MemcachedReplyKind::ClientError
                | MemcachedReplyKind::ServerError
        )
    }

    /// Whether a quiet meta command suppresses this reply.
    pub fn is_hushed(self, class: MemcachedCommandClass) -> bool {
        match class {
            MemcachedCommandClass::MetaGet => self == MemcachedReplyKind::En,
            MemcachedCommandClass::MetaSet | MemcachedCommandClass::MetaDelete => {
                self == MemcachedReplyKind::Hd
            }
            MemcachedCommandClass::MetaArithmetic => {
                matches!(self, MemcachedReplyKind::Hd | MemcachedReplyKind::Va)
            }
            _ => false,
        }
    }

    /// Whether more lines follow in a response to a command of this class.
    pub fn goes_on(self, class: MemcachedCommandClass) -> bool {
        match self {
            MemcachedReplyKind::Value => true,
            MemcachedReplyKind::Item => {
                matches!(
                    class,
                    MemcachedCommandClass::Lines | MemcachedCommandClass::Any
                )
            }
            MemcachedReplyKind::Other => class == MemcachedCommandClass::Lines,
            _ => false,
        }
    }

    /// Status for a command of this class; for a retrieval, of the keys that were not returned.
    pub fn status(self, class: MemcachedCommandClass) -> MemcachedStatus {
        match self {
            MemcachedReplyKind::Value => MemcachedStatus::Hit,
            // Without its request, their meaning is unknown.
            MemcachedReplyKind::End
            | MemcachedReplyKind::En
            | MemcachedReplyKind::Hd
            | MemcachedReplyKind::Va
                if class == MemcachedCommandClass::Any =>
            {
                MemcachedStatus::Unknown
            }
            MemcachedReplyKind::End | MemcachedReplyKind::En
                if class == MemcachedCommandClass::Lines =>
            {
                MemcachedStatus::Ok
            }
            MemcachedReplyKind::En if class == MemcachedCommandClass::MetaDebug => {
                MemcachedStatus::NotFound
            }
            MemcachedReplyKind::End | MemcachedReplyKind::En => MemcachedStatus::Miss,
            MemcachedReplyKind::Hd | MemcachedReplyKind::Va | MemcachedReplyKind::Ok => match class
            {
                MemcachedCommandClass::MetaGet => MemcachedStatus::Hit,
                MemcachedCommandClass::MetaSet => MemcachedStatus::Stored,
                MemcachedCommandClass::MetaDelete => MemcachedStatus::Deleted,
                _ => MemcachedStatus::Ok,
            },
            MemcachedReplyKind::Stored => MemcachedStatus::Stored,
            MemcachedReplyKind::NotStored | MemcachedReplyKind::Ns => MemcachedStatus::NotStored,
            MemcachedReplyKind::Exists | MemcachedReplyKind::Ex => MemcachedStatus::Exists,
            MemcachedReplyKind::NotFound | MemcachedReplyKind::Nf => MemcachedStatus::NotFound,
            MemcachedReplyKind::Deleted => MemcachedStatus::Deleted,
            MemcachedReplyKind::Touched => MemcachedStatus::Touched,
            MemcachedReplyKind::Error => MemcachedStatus::Error,
            MemcachedReplyKind::ClientError => MemcachedStatus::ClientError,
            MemcachedReplyKind::ServerError => MemcachedStatus::ServerError,
            MemcachedReplyKind::Busy => MemcachedStatus::Busy,
            MemcachedReplyKind::Other
                if matches!(
                    class,
                    MemcachedCommandClass::Admin | MemcachedCommandClass::Watch
                ) =>
            {
                MemcachedStatus::Refused
            }
            MemcachedReplyKind::Version
            | MemcachedReplyKind::Number
            | MemcachedReplyKind::Mn
            | MemcachedReplyKind::Me
            | MemcachedReplyKind::Item
            | MemcachedReplyKind::Other => MemcachedStatus::Ok,
        }
    }

    /// Whether a line like this can be distinguished from bytes of a value and is suitable for resynchronization.
    pub fn is_telling(self) -> bool {
        !matches!(self, MemcachedReplyKind::Number | MemcachedReplyKind::Other)
    }
}

#[inline]
fn kind_of(word: &[u8]) -> MemcachedReplyKind {
    match word {
        b"VALUE" => MemcachedReplyKind::Value,
        b"END" => MemcachedReplyKind::End,
        b"STORED" => MemcachedReplyKind::Stored,
        b"HD" => MemcachedReplyKind::Hd,
        b"VA" => MemcachedReplyKind::Va,
        b"EN" => MemcachedReplyKind::En,
        b"NOT_FOUND" => MemcachedReplyKind::NotFound,
        b"DELETED" => MemcachedReplyKind::Deleted,
        b"NOT_STORED" => MemcachedReplyKind::NotStored,
        b"EXISTS" => MemcachedReplyKind::Exists,
        b"TOUCHED" => MemcachedReplyKind::Touched,
        b"OK" | b"RESET" => MemcachedReplyKind::Ok,
        b"MN" => MemcachedReplyKind::Mn,
        b"NF" => MemcachedReplyKind::Nf,
        b"NS" => MemcachedReplyKind::Ns,
        b"EX" => MemcachedReplyKind::Ex,
        b"ME" => MemcachedReplyKind::Me,
        b"STAT" | b"ITEM" | b"PREFIX" => MemcachedReplyKind::Item,
        b"VERSION" => MemcachedReplyKind::Version,
        b"ERROR" => MemcachedReplyKind::Error,
        b"CLIENT_ERROR" => MemcachedReplyKind::ClientError,
        // "SERVER_ERROR: shutdown not enabled" has a colon in newer versions.
        b"SERVER_ERROR" | b"SERVER_ERROR:" | b"ERROR:" => MemcachedReplyKind::ServerError,
        b"BUSY" => MemcachedReplyKind::Busy,
        digits
            if !digits.is_empty()
                && digits.len() <= 20
                && digits.iter().all(u8::is_ascii_digit) =>
        {
            MemcachedReplyKind::Number
        }
        _ => MemcachedReplyKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_their_status() {
        for (line, kind, bytes) in [
            ("VALUE k 0 17", MemcachedReplyKind::Value, 17),
            ("VALUE k 0 17 99", MemcachedReplyKind::Value, 17),
            ("VALUE k 0 -1", MemcachedReplyKind::Other, 0),
            (
                "VALUE k 0 99999999999999999999",
                MemcachedReplyKind::Other,
                0,
            ),
            ("VA 4 kfoo O1", MemcachedReplyKind::Va, 4),
            ("VA", MemcachedReplyKind::Other, 0),
            ("12", MemcachedReplyKind::Number, 0),
            ("12  ", MemcachedReplyKind::Number, 0),
            ("12 13", MemcachedReplyKind::Other, 0),
            ("", MemcachedReplyKind::Other, 0),
            ("END", MemcachedReplyKind::End, 0),
            (
                "SERVER_ERROR out of memory",
                MemcachedReplyKind::ServerError,
                0,
            ),
        ] {
            let reply = MemcachedReply::read(line.as_bytes());
            assert_eq!((reply.kind, reply.bytes), (kind, bytes), "{line}");
        }
    }

    #[test]
    fn every_class_takes_errors_and_its_own_words() {
        for (class, line, yes) in [
            (MemcachedCommandClass::Retrieval, "END", true),
            (MemcachedCommandClass::Retrieval, "STORED", false),
            (MemcachedCommandClass::Storage, "STORED", true),
            (MemcachedCommandClass::Storage, "END", false),
            (MemcachedCommandClass::Arithmetic, "7", true),
            (MemcachedCommandClass::MetaNoop, "HD", false),
            (MemcachedCommandClass::Lines, "PREFIX a get 1", true),
            (MemcachedCommandClass::Admin, "ERROR", true),
        ] {
            assert_eq!(
                MemcachedReply::read(line.as_bytes()).kind.answers(class),
                yes,
                "{line} for {class:?}"
            );
        }
    }
}
