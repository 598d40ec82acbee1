//! Reasons for rejecting a message: all items that the reader lacks.

use std::fmt;

/// Maximum reasons reported.
pub const LACKS_MAX: usize = 50;

/// A message that this program cannot process as intended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct MessageRefusal {
    /// The distinct reasons; the first [`LACKS_MAX`].
    pub lacks: Vec<UnmetRequirement>,
}

/// An item that the reader lacks, or an error of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnmetRequirement {
    /// A newer format version.
    Form {
        /// The required minimum version.
        needed: u32,
        /// The version of this program.
        known: u32,
    },
    /// A feature added to the format, by name.
    Feature(String),
    /// A missing parser.
    Parser(String),
    /// A parser with a different schema version.
    Version {
        /// The parser.
        parser: String,
        /// Version of the sender.
        needed: u16,
        /// Version of this program.
        known: u16,
    },
    /// A missing column of a parser.
    Column {
        /// The parser.
        parser: String,
        /// The column.
        column: String,
    },
    /// An unknown word of a closed list: an operator, function, aggregate, type, or unit, for example.
    Word {
        /// Name of the list.
        list: &'static str,
        /// The word.
        word: String,
    },
    /// A maximum is exceeded.
    TooMany {
        /// The counted items.
        what: &'static str,
        /// The maximum.
        max: usize,
    },
    /// Invalid message, or impossible values.
    Malformed(String),
}

/// The reasons so far.
#[derive(Debug, Default)]
pub struct UnmetRequirements {
    lacks: Vec<UnmetRequirement>,
    /// Number of regular expressions decoded.
    pub patterns: usize,
}

impl UnmetRequirements {
    /// Adds a reason.
    pub fn add(&mut self, lack: UnmetRequirement) {
        if self.lacks.len() < LACKS_MAX && !self.lacks.contains(&lack) {
            self.lacks.push(lack);
        }
    }

    /// Checks the minimum format version and further requirements of a message. Returns `None` if its fields cannot
    /// be interpreted.
    pub fn head(
        &mut self,
        (version, needs): (u32, &[String]),
        (form, features): (u32, &[&str]),
    ) -> Option<()> {
        if version == 0 {
            return self.malformed("the message has no version");
        }
        for need in needs
            .iter()
            .filter(|need| !features.contains(&need.as_str()))
        {
            self.add(UnmetRequirement::Feature(shortened(need)));
        }
        if version > form {
            self.add(UnmetRequirement::Form {
                needed: version,
                known: form,
            });
            return None;
        }
        Some(())
    }

    /// Records an unknown word.
    pub fn word<T>(&mut self, list: &'static str, word: &str) -> Option<T> {
        self.add(UnmetRequirement::Word {
            list,
            word: shortened(word),
        });
        None
    }

    /// Records invalid content.
    pub fn malformed<T>(&mut self, what: impl Into<String>) -> Option<T> {
        self.add(UnmetRequirement::Malformed(what.into()));
        None
    }

    /// Returns a required item, or records that it is missing.
    pub fn required<'m, T>(&mut self, what: &'m Option<T>, name: &str) -> Option<&'m T> {
        if what.is_none() {
            self.malformed::<()>(format!("{name} is missing"));
        }
        what.as_ref()
    }

    /// Checks that there are at most `max`.
    pub fn at_most(&mut self, what: &'static str, n: usize, max: usize) -> Option<()> {
        if n > max {
            self.add(UnmetRequirement::TooMany { what, max });
            return None;
        }
        Some(())
    }

    /// Returns the decoded value if no reasons were recorded.
    pub fn or<T>(self, read: Option<T>) -> Result<T, MessageRefusal> {
        match read {
            Some(read) if self.lacks.is_empty() => Ok(read),
            None if self.lacks.is_empty() => Err(MessageRefusal::malformed("the message")),
            _ => Err(MessageRefusal { lacks: self.lacks }),
        }
    }
}

impl MessageRefusal {
    /// A rejection for invalid content.
    #[must_use]
    pub fn malformed(what: impl Into<String>) -> MessageRefusal {
        MessageRefusal {
            lacks: vec![UnmetRequirement::Malformed(what.into())],
        }
    }
}

/// An untrusted name, cut to a printable length.
pub fn shortened(name: &str) -> String {
    const CHARS_MAX: usize = 80;
    match name.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

impl fmt::Display for MessageRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, lack) in self.lacks.iter().enumerate() {
            write!(f, "{}{lack}", if i == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl fmt::Display for UnmetRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnmetRequirement::Form { needed, known } => {
                write!(
                    f,
                    "the message needs format version {needed}; this program supports {known}"
                )
            }
            UnmetRequirement::Feature(name) => write!(f, "unknown name {name:?}"),
            UnmetRequirement::Parser(name) => write!(f, "unknown parser {name:?}"),
            UnmetRequirement::Version {
                parser,
                needed,
                known,
            } => {
                write!(
                    f,
                    "parser {parser}: version {needed} required, version {known} available"
                )
            }
            UnmetRequirement::Column { parser, column } => {
                write!(f, "parser {parser} has no column {column:?}")
            }
            UnmetRequirement::Word { list, word } => write!(f, "unknown {list} {word:?}"),
            UnmetRequirement::TooMany { what, max } => write!(f, "more than {max} {what}"),
            UnmetRequirement::Malformed(what) => write!(f, "malformed: {what}"),
        }
    }
}
