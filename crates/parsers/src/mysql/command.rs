//! Commands: names, arguments, and forms of response. ("Command phase" in the MySQL source documentation;
//! MariaDB's commands from its knowledge base.)

/// `COM_QUIT`.
pub const QUIT: u8 = 0x01;
/// `COM_INIT_DB`.
pub const INIT_DB: u8 = 0x02;
/// `COM_QUERY`.
pub const QUERY: u8 = 0x03;
/// `COM_CHANGE_USER`.
pub const CHANGE_USER: u8 = 0x11;
/// `COM_STMT_PREPARE`.
pub const STMT_PREPARE: u8 = 0x16;
/// `COM_STMT_EXECUTE`.
pub const STMT_EXECUTE: u8 = 0x17;
/// `COM_STMT_CLOSE`.
pub const STMT_CLOSE: u8 = 0x19;
/// `COM_RESET_CONNECTION`.
pub const RESET_CONNECTION: u8 = 0x1f;
const STMT_SEND_LONG_DATA: u8 = 0x18;
const STMT_RESET: u8 = 0x1a;
const STMT_FETCH: u8 = 0x1c;
const STMT_BULK_EXECUTE: u8 = 0xfa;

/// Kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MysqlRequestKind {
    /// The client's first packet: login.
    Login,
    /// Request for TLS: nothing after it can be parsed.
    TlsRequest,
    /// The server rejected the connection before the login.
    Connect,
    /// A command by its first byte.
    Command(u8),
    /// Not seen: only its response was.
    Unseen,
}

/// Form of a command's response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MysqlResponseForm {
    /// No response.
    Nothing,
    /// OK, ERR, EOF, result sets, or file requests.
    Result,
    /// Description of a prepared statement.
    Statement,
    /// Rows of a cursor.
    Rows,
    /// Column definitions up to EOF.
    Columns,
    /// One packet of text.
    Text,
    /// Rounds of authentication up to OK or ERR.
    Auth,
    /// Packets without end: replication.
    Stream,
}

/// Effect of a command on the connection's default database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DefaultDatabase {
    /// Unchanged.
    #[default]
    Unchanged,
    /// Changed to this one.
    Is(Vec<u8>),
    /// Unknown: the evidence was not seen or not understood.
    Unread,
}

impl DefaultDatabase {
    /// Applies it to `database`.
    pub fn apply(&self, database: &mut Option<Vec<u8>>) {
        match self {
            DefaultDatabase::Unchanged => {}
            DefaultDatabase::Is(name) => *database = Some(name.clone()),
            DefaultDatabase::Unread => *database = None,
        }
    }
}

impl MysqlRequestKind {
    /// Value of the `command` column.
    pub fn name(self) -> Option<&'static str> {
        match self {
            MysqlRequestKind::Login => Some("login"),
            MysqlRequestKind::TlsRequest => Some("ssl_request"),
            MysqlRequestKind::Connect => Some("connect"),
            MysqlRequestKind::Command(code) => Some(name_of(code)),
            MysqlRequestKind::Unseen => None,
        }
    }

    /// Form of the server's response.
    pub fn awaited(self) -> MysqlResponseForm {
        match self {
            MysqlRequestKind::Login | MysqlRequestKind::Command(CHANGE_USER) => {
                MysqlResponseForm::Auth
            }
            MysqlRequestKind::TlsRequest
            | MysqlRequestKind::Command(QUIT | STMT_CLOSE | STMT_SEND_LONG_DATA) => {
                MysqlResponseForm::Nothing
            }
            MysqlRequestKind::Command(STMT_PREPARE) => MysqlResponseForm::Statement,
            MysqlRequestKind::Command(STMT_FETCH) => MysqlResponseForm::Rows,
            MysqlRequestKind::Command(0x04) => MysqlResponseForm::Columns,
            MysqlRequestKind::Command(0x09) => MysqlResponseForm::Text,
            MysqlRequestKind::Command(0x12 | 0x13 | 0x1e | 0x20 | 0x21) => {
                MysqlResponseForm::Stream
            }
            MysqlRequestKind::Connect | MysqlRequestKind::Command(_) | MysqlRequestKind::Unseen => {
                MysqlResponseForm::Result
            }
        }
    }

    /// Whether the payload is text to show: SQL or a database name.
    pub fn has_text(self) -> bool {
        matches!(
            self,
            MysqlRequestKind::Command(QUERY | STMT_PREPARE | INIT_DB)
        )
    }

    /// Whether it refers to a prepared statement, whose id follows the command byte.
    pub fn has_statement(self) -> bool {
        let of_statement = |c| {
            matches!(
                c,
                STMT_EXECUTE..=STMT_RESET | STMT_FETCH | STMT_BULK_EXECUTE
            )
        };
        matches!(self, MysqlRequestKind::Command(c) if of_statement(c))
    }

    /// Whether its response may request a file from the client.
    pub fn may_upload(self) -> bool {
        matches!(
            self,
            MysqlRequestKind::Command(QUERY | STMT_EXECUTE | STMT_BULK_EXECUTE)
        )
    }
}

/// Whether clients may send the command `code`. The others are states of a server's threads.
pub fn is_of_clients(code: u8) -> bool {
    !matches!(code, 0x00 | 0x0b | 0x0f | 0x10 | 0x14)
}

/// Whether a payload of `len` bytes can be the command `code`; distinguishes a header from other bytes.
pub fn is_plausible(code: u8, len: u32) -> bool {
    match code {
        QUIT | 0x09 | 0x0a | 0x0d | 0x0e | 0x1d | RESET_CONNECTION | 0x20 => len == 1,
        QUERY | INIT_DB | STMT_PREPARE | 0x05 | 0x06 => len >= 2,
        0x04 => (2..1024).contains(&len),
        0x07 | 0x08 => len <= 2,
        0x0c | STMT_CLOSE | STMT_RESET => len == 5,
        CHANGE_USER => (4..4096).contains(&len),
        0x12 | 0x13 | 0x1e | 0x21 => (5..4096).contains(&len),
        0x15 => (18..1024).contains(&len),
        STMT_EXECUTE => len >= 10,
        STMT_SEND_LONG_DATA | STMT_BULK_EXECUTE => len >= 7,
        0x1b => len == 3,
        STMT_FETCH => len == 9,
        _ => false,
    }
}

/// Whether text begins with an SQL verb, after blanks, brackets, and comments.
pub fn is_sql(text: &[u8]) -> bool {
    const VERBS: &[&str] = &[
        "select",
        "insert",
        "update",
        "delete",
        "replace",
        "set",
        "show",
        "begin",
        "start",
        "commit",
        "rollback",
        "call",
        "create",
        "drop",
        "alter",
        "truncate",
        "use",
        "with",
        "explain",
        "describe",
        "desc",
        "lock",
        "unlock",
        "load",
        "prepare",
        "execute",
        "deallocate",
        "grant",
        "revoke",
        "flush",
        "analyze",
        "optimize",
        "check",
        "checksum",
        "repair",
        "kill",
        "do",
        "handler",
        "rename",
        "savepoint",
        "release",
        "xa",
        "values",
        "table",
        "help",
        "change",
        "reset",
        "purge",
        "stop",
        "install",
        "uninstall",
        "import",
        "cache",
        "binlog",
        "get",
        "signal",
        "resignal",
        "declare",
        "return",
        "kill",
        "shutdown",
        "restart",
        "clone",
        "backup",
        "batch",
    ];
    let mut text = text;
    loop {
        text = match text {
            [b' ' | b'\t' | b'\r' | b'\n' | b'(' | b';', rest @ ..] => rest,
            // Executable comment.
            [b'/', b'*', b'!', rest @ ..] | [b'/', b'*', b'M', b'!', rest @ ..] => {
                &rest[rest
                    .iter()
                    .take(6)
                    .take_while(|b| b.is_ascii_digit())
                    .count()..]
            }
            [b'/', b'*', rest @ ..] => {
                match memchr::memmem::find(&rest[..rest.len().min(512)], b"*/") {
                    Some(end) => &rest[end + 2..],
                    None => {
                        return rest.len() > 2
                            && rest.iter().take(32).all(|b| (b' '..0x7f).contains(b));
                    }
                }
            }
            [b'-', b'-', rest @ ..] | [b'#', rest @ ..] => {
                match memchr::memchr(b'\n', &rest[..rest.len().min(512)]) {
                    Some(end) => &rest[end + 1..],
                    None => return false,
                }
            }
            _ => break,
        }
    }
    let word = text.iter().take_while(|b| b.is_ascii_alphabetic()).count();
    let ends = text
        .get(word)
        .is_none_or(|b| b.is_ascii_whitespace() || b"(/;*`'\"@-#".contains(b));
    ends && word <= 12
        && VERBS
            .iter()
            .any(|v| v.as_bytes().eq_ignore_ascii_case(&text[..word]))
}

/// Effect of `sql` on the default database; `cut`: its end is missing.
pub fn database_after(sql: &[u8], cut: bool) -> DefaultDatabase {
    let sql = behind_comments(sql);
    let Some(name) = behind_use(sql) else {
        let may_be_use = cut
            && sql.len() <= USE.len()
            && USE[..sql.len().min(USE.len())].eq_ignore_ascii_case(sql);
        let later = memchr::memchr_iter(b';', sql)
            .any(|end| behind_use(sql[end + 1..].trim_ascii_start()).is_some());
        return if may_be_use || later {
            DefaultDatabase::Unread
        } else {
            DefaultDatabase::Unchanged
        };
    };
    let (name, rest) = match name.trim_ascii_start().strip_prefix(b"`") {
        Some(quoted) => match memchr::memchr(b'`', quoted) {
            Some(end) => (&quoted[..end], &quoted[end + 1..]),
            None => return DefaultDatabase::Unread,
        },
        None => {
            let name = name.trim_ascii_start();
            let end = name
                .iter()
                .position(|b| b.is_ascii_whitespace() || b";`/#-".contains(b));
            name.split_at(end.unwrap_or(name.len()))
        }
    };
    let ends_here = rest.iter().all(|b| b.is_ascii_whitespace() || *b == b';');
    if ends_here && !cut && (1..=256).contains(&name.len()) {
        DefaultDatabase::Is(name.to_vec())
    } else {
        DefaultDatabase::Unread
    }
}

const USE: &[u8] = b"use";

/// The part after `USE`, if `sql` begins with it.
fn behind_use(sql: &[u8]) -> Option<&[u8]> {
    let (verb, name) = sql.split_at_checked(USE.len())?;
    let ends = name
        .first()
        .is_some_and(|b| b.is_ascii_whitespace() || *b == b'`' || *b == b'/');
    (ends && verb.eq_ignore_ascii_case(USE)).then_some(name)
}

/// `sql` without leading blanks and comments.
fn behind_comments(sql: &[u8]) -> &[u8] {
    let mut sql = sql.trim_ascii_start();
    while let Some(comment) = sql.strip_prefix(b"/*") {
        let Some(end) = memchr::memmem::find(comment, b"*/") else {
            break;
        };
        sql = comment[end + 2..].trim_ascii_start();
    }
    sql
}

fn name_of(code: u8) -> &'static str {
    match code {
        QUIT => "quit",
        INIT_DB => "init_db",
        QUERY => "query",
        0x04 => "field_list",
        0x05 => "create_db",
        0x06 => "drop_db",
        0x07 => "refresh",
        0x08 => "shutdown",
        0x09 => "statistics",
        0x0a => "process_info",
        0x0c => "process_kill",
        0x0d => "debug",
        0x0e => "ping",
        CHANGE_USER => "change_user",
        0x12 => "binlog_dump",
        0x13 => "table_dump",
        0x15 => "register_slave",
        STMT_PREPARE => "stmt_prepare",
        STMT_EXECUTE => "stmt_execute",
        STMT_SEND_LONG_DATA => "stmt_send_long_data",
        STMT_CLOSE => "stmt_close",
        STMT_RESET => "stmt_reset",
        0x1b => "set_option",
        STMT_FETCH => "stmt_fetch",
        0x1d => "daemon",
        0x1e => "binlog_dump_gtid",
        RESET_CONNECTION => "reset_connection",
        0x20 => "clone",
        0x21 => "subscribe_group_replication_stream",
        STMT_BULK_EXECUTE => "stmt_bulk_execute",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sql_is_distinguished_from_other_bytes() {
        for sql in [
            "SELECT 1",
            "select",
            "\n (select 1)",
            "/* x */ UPDATE t",
            "-- note\nset a=1",
            "COMMIT",
            "SELECT/**/1",
            "/*!40101 SET NAMES utf8 */",
            "SELECT*FROM t",
            "call`two`()",
        ] {
            assert!(is_sql(sql.as_bytes()), "{sql}");
        }
        for other in [
            "",
            "selection",
            "hello world",
            "\0\0\0\0",
            "S",
            "12",
            "set\u{1}x",
            "/*\u{1}\u{2}\u{3}\u{4}",
        ] {
            assert!(!is_sql(other.as_bytes()), "{other:?}");
        }
    }

    #[test]
    fn expected_response_follows_from_the_command() {
        for (code, awaited, name) in [
            (QUIT, MysqlResponseForm::Nothing, "quit"),
            (STMT_CLOSE, MysqlResponseForm::Nothing, "stmt_close"),
            (QUERY, MysqlResponseForm::Result, "query"),
            (CHANGE_USER, MysqlResponseForm::Auth, "change_user"),
            (0x1c, MysqlResponseForm::Rows, "stmt_fetch"),
            (0xfa, MysqlResponseForm::Result, "stmt_bulk_execute"),
            (0x77, MysqlResponseForm::Result, "unknown"),
        ] {
            let kind = MysqlRequestKind::Command(code);
            assert_eq!((kind.awaited(), kind.name()), (awaited, Some(name)));
        }
    }

    #[test]
    fn use_names_a_database() {
        use DefaultDatabase::{Is, Unchanged, Unread};
        for (sql, expected) in [
            ("use shop", Is(b"shop".to_vec())),
            (" USE `my shop` ;", Is(b"my shop".to_vec())),
            ("/* app */ use\tshop;\n", Is(b"shop".to_vec())),
            ("use`x`", Is(b"x".to_vec())),
            ("use x; SELECT 1", Unread),
            ("use x -- y", Unread),
            ("use `x", Unread),
            ("SELECT 1; USE x", Unread),
            ("user x", Unchanged),
            ("use", Unchanged),
            ("", Unchanged),
            ("SELECT 1;", Unchanged),
        ] {
            assert_eq!(database_after(sql.as_bytes(), false), expected, "{sql}");
        }
        for (seen, expected) in [
            ("use sh", Unread),
            ("use shop", Unread),
            ("us", Unread),
            ("", Unread),
            ("SELECT", Unchanged),
            ("usual", Unchanged),
        ] {
            assert_eq!(
                database_after(seen.as_bytes(), true),
                expected,
                "{seen} and more"
            );
        }
    }
}
