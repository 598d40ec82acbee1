//! One reply line of the text protocol: its kind, the commands it can answer, and their status.

use super::command::{Class, Command, Status};
use super::words::{Words, number};

/// Kind of a reply by its first word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
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
pub struct Reply<'a> {
    /// Kind of the line.
    pub kind: Kind,
    /// `VALUE`: the key.
    pub key: &'a [u8],
    /// `VALUE` and `VA`: the length of the value that follows.
    pub bytes: u64,
    /// Meta replies: the flags.
    pub flags: Words<'a>,
}

impl<'a> Reply<'a> {
    /// Parses a line without its line end.
    #[inline]
    pub fn read(line: &'a [u8]) -> Reply<'a> {
        let reply = |kind| Reply { kind, key: b"", bytes: 0, flags: Words(b"") };
        match line {
            b"END" => reply(Kind::End),
            b"STORED" => reply(Kind::Stored),
            [b'V', b'A', b'L', b'U', b'E', b' ', words @ ..] => Reply::value(Words(words)),
            _ => Reply::other(line),
        }
    }

    /// Parses the words of a `VALUE` line.
    #[inline]
    fn value(mut words: Words<'a>) -> Reply<'a> {
        let (key, _flags, bytes) = (words.next(), words.next(), words.next().and_then(number));
        let (kind, key, bytes) = match (key, bytes) {
            (Some(key), Some(bytes)) => (Kind::Value, key, bytes),
            _ => (Kind::Other, &b""[..], 0),
        };
        Reply { kind, key, bytes, flags: Words(b"") }
    }

    fn other(line: &'a [u8]) -> Reply<'a> {
        let mut words = Words(line);
        let first = words.next().unwrap_or_default();
        let kind = kind_of(first);
        let mut reply = Reply { kind, key: b"", bytes: 0, flags: Words(b"") };
        match kind {
            Kind::Value => return Reply::value(words),
            Kind::Va => match words.next().and_then(number) {
                Some(bytes) => (reply.bytes, reply.flags) = (bytes, words),
                None => reply.kind = Kind::Other,
            },
            Kind::Hd | Kind::En | Kind::Nf | Kind::Ns | Kind::Ex => reply.flags = words,
            // incr of old servers pads the number with blanks; nothing else may follow it.
            Kind::Number if words.next().is_some() => reply.kind = Kind::Other,
            _ => {}
        }
        reply
    }
}

impl Kind {
    /// The command, if only one is answered like this.
    pub fn command(self) -> Option<Command> {
        match self {
            Kind::Mn => Command::of_word(b"mn"),
            Kind::Version => Command::of_word(b"version"),
            _ => None,
        }
    }

    /// Whether it can be the first line of a response to a command of this class.
    pub fn answers(self, class: Class) -> bool {
        use Kind as K;
        if self.is_error() {
            return true;
        }
        match class {
            Class::Retrieval => matches!(self, K::Value | K::End),
            Class::Storage => matches!(self, K::Stored | K::NotStored | K::Exists | K::NotFound),
            Class::Deletion => matches!(self, K::Deleted | K::NotFound),
            Class::Touch => matches!(self, K::Touched | K::NotFound),
            Class::Arithmetic => matches!(self, K::Number | K::NotFound),
            // Versions 1.6.0 to 1.6.8 sent `OK` for `HD`.
            Class::MetaGet => matches!(self, K::Va | K::Hd | K::En | K::Ok),
            Class::MetaSet => matches!(self, K::Hd | K::Ns | K::Ex | K::Nf | K::Ok),
            Class::MetaDelete => matches!(self, K::Hd | K::Nf | K::Ex | K::Ok),
            Class::MetaArithmetic => matches!(self, K::Hd | K::Va | K::Nf | K::Ns | K::Ex | K::Ok),
            Class::MetaNoop => self == K::Mn,
            Class::MetaDebug => matches!(self, K::Me | K::En),
            Class::Version => self == K::Version,
            Class::Lines => matches!(self, K::Item | K::End | K::En | K::Ok | K::Busy | K::Other),
            Class::Admin | Class::Watch => matches!(self, K::Ok | K::Busy | K::Other),
            // For an unknown command: any reply that answers no known command.
            Class::Any => matches!(self, K::Ok | K::Busy | K::Other),
            Class::Farewell | Class::Binary => false,
        }
    }

    /// Whether it is one of the three errors that any command can get.
    #[inline]
    pub fn is_error(self) -> bool {
        matches!(self, Kind::Error | Kind::ClientError | Kind::ServerError)
    }

    /// Whether a quiet meta command suppresses this reply.
    pub fn is_hushed(self, class: Class) -> bool {
        match class {
            Class::MetaGet => self == Kind::En,
            Class::MetaSet | Class::MetaDelete => self == Kind::Hd,
            Class::MetaArithmetic => matches!(self, Kind::Hd | Kind::Va),
            _ => false,
        }
    }

    /// Whether more lines follow in a response to a command of this class.
    pub fn goes_on(self, class: Class) -> bool {
        match self {
            Kind::Value => true,
            Kind::Item => matches!(class, Class::Lines | Class::Any),
            Kind::Other => class == Class::Lines,
            _ => false,
        }
    }

    /// Status for a command of this class; for a retrieval, of the keys that were not returned.
    pub fn status(self, class: Class) -> Status {
        match self {
            Kind::Value => Status::Hit,
            // Without its request, their meaning is unknown.
            Kind::End | Kind::En | Kind::Hd | Kind::Va if class == Class::Any => Status::Unknown,
            Kind::End | Kind::En if class == Class::Lines => Status::Ok,
            Kind::En if class == Class::MetaDebug => Status::NotFound,
            Kind::End | Kind::En => Status::Miss,
            Kind::Hd | Kind::Va | Kind::Ok => match class {
                Class::MetaGet => Status::Hit,
                Class::MetaSet => Status::Stored,
                Class::MetaDelete => Status::Deleted,
                _ => Status::Ok,
            },
            Kind::Stored => Status::Stored,
            Kind::NotStored | Kind::Ns => Status::NotStored,
            Kind::Exists | Kind::Ex => Status::Exists,
            Kind::NotFound | Kind::Nf => Status::NotFound,
            Kind::Deleted => Status::Deleted,
            Kind::Touched => Status::Touched,
            Kind::Error => Status::Error,
            Kind::ClientError => Status::ClientError,
            Kind::ServerError => Status::ServerError,
            Kind::Busy => Status::Busy,
            Kind::Other if matches!(class, Class::Admin | Class::Watch) => Status::Refused,
            Kind::Version | Kind::Number | Kind::Mn | Kind::Me | Kind::Item | Kind::Other => Status::Ok,
        }
    }

    /// Whether a line like this can be distinguished from bytes of a value and is suitable for resynchronization.
    pub fn is_telling(self) -> bool {
        !matches!(self, Kind::Number | Kind::Other)
    }
}

#[inline]
fn kind_of(word: &[u8]) -> Kind {
    match word {
        b"VALUE" => Kind::Value,
        b"END" => Kind::End,
        b"STORED" => Kind::Stored,
        b"HD" => Kind::Hd,
        b"VA" => Kind::Va,
        b"EN" => Kind::En,
        b"NOT_FOUND" => Kind::NotFound,
        b"DELETED" => Kind::Deleted,
        b"NOT_STORED" => Kind::NotStored,
        b"EXISTS" => Kind::Exists,
        b"TOUCHED" => Kind::Touched,
        b"OK" | b"RESET" => Kind::Ok,
        b"MN" => Kind::Mn,
        b"NF" => Kind::Nf,
        b"NS" => Kind::Ns,
        b"EX" => Kind::Ex,
        b"ME" => Kind::Me,
        b"STAT" | b"ITEM" | b"PREFIX" => Kind::Item,
        b"VERSION" => Kind::Version,
        b"ERROR" => Kind::Error,
        b"CLIENT_ERROR" => Kind::ClientError,
        // "SERVER_ERROR: shutdown not enabled" has a colon in newer versions.
        b"SERVER_ERROR" | b"SERVER_ERROR:" | b"ERROR:" => Kind::ServerError,
        b"BUSY" => Kind::Busy,
        digits if !digits.is_empty() && digits.len() <= 20 && digits.iter().all(u8::is_ascii_digit) => {
            Kind::Number
        }
        _ => Kind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_what_they_say() {
        for (line, kind, bytes) in [
            ("VALUE k 0 17", Kind::Value, 17),
            ("VALUE k 0 17 99", Kind::Value, 17),
            ("VALUE k 0 -1", Kind::Other, 0),
            ("VALUE k 0 99999999999999999999", Kind::Other, 0),
            ("VA 4 kfoo O1", Kind::Va, 4),
            ("VA", Kind::Other, 0),
            ("12", Kind::Number, 0),
            ("12  ", Kind::Number, 0),
            ("12 13", Kind::Other, 0),
            ("", Kind::Other, 0),
            ("END", Kind::End, 0),
            ("SERVER_ERROR out of memory", Kind::ServerError, 0),
        ] {
            let reply = Reply::read(line.as_bytes());
            assert_eq!((reply.kind, reply.bytes), (kind, bytes), "{line}");
        }
    }

    #[test]
    fn every_class_takes_errors_and_its_own_words() {
        for (class, line, yes) in [
            (Class::Retrieval, "END", true),
            (Class::Retrieval, "STORED", false),
            (Class::Storage, "STORED", true),
            (Class::Storage, "END", false),
            (Class::Arithmetic, "7", true),
            (Class::MetaNoop, "HD", false),
            (Class::Lines, "PREFIX a get 1", true),
            (Class::Admin, "ERROR", true),
        ] {
            assert_eq!(Reply::read(line.as_bytes()).kind.answers(class), yes, "{line} for {class:?}");
        }
    }
}
