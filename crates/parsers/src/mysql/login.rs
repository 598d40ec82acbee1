//! The connection phase: greeting, login in both forms, TLS request, and the negotiated capabilities.
//! ("Connection phase" in the MySQL source documentation.)

use super::fields::MysqlFieldReader;

/// Capability flags; MariaDB's own are in the upper half.
pub mod capability {
    /// MySQL: long passwords. MariaDB servers clear it to identify themselves.
    pub const MYSQL: u64 = 1;
    /// The login contains a database.
    pub const CONNECT_WITH_DB: u64 = 1 << 3;
    /// zlib after the login.
    pub const COMPRESS: u64 = 1 << 5;
    /// Protocol of MySQL 4.1.
    pub const PROTOCOL_41: u64 = 1 << 9;
    /// TLS from here on.
    pub const SSL: u64 = 1 << 11;
    /// Authentication of 4.1.
    pub const SECURE_CONNECTION: u64 = 1 << 15;
    /// The authentication data has a length-encoded length.
    pub const PLUGIN_AUTH_LENENC: u64 = 1 << 21;
    /// OK packets contain state changes.
    pub const SESSION_TRACK: u64 = 1 << 23;
    /// OK instead of EOF.
    pub const DEPRECATE_EOF: u64 = 1 << 24;
    /// Column definitions may be omitted.
    pub const OPTIONAL_METADATA: u64 = 1 << 25;
    /// zstd after the login.
    pub const ZSTD: u64 = 1 << 26;
    /// Queries carry attributes.
    pub const QUERY_ATTRIBUTES: u64 = 1 << 27;
    /// MariaDB: column definitions may be omitted.
    pub const MARIADB_CACHE_METADATA: u64 = 1 << 36;
}

/// A login, borrowed from its packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MysqlLogin<'a> {
    /// Client capabilities, including MariaDB's, if captured.
    pub capabilities: Option<u64>,
    /// User name, if captured.
    pub user: Option<&'a [u8]>,
    /// Database, if its complete name was captured.
    pub database: Option<&'a [u8]>,
}

/// Capabilities offered by a greeting, all if it is truncated; `None`: not a greeting.
pub fn greeting(payload: &[u8]) -> Option<u64> {
    let mut f = MysqlFieldReader(payload);
    let version = f.int(1)?;
    Some(f.nul_str_or_rest()).filter(|v| is_version(v))?;
    match version {
        // v9: thread id, scramble.
        9 => Some(0),
        10 => Some(offered(f).unwrap_or(u64::MAX)),
        _ => None,
    }
}

/// Whether the first client packet is a TLS request.
pub fn is_tls_request(payload: &[u8], len: u32) -> bool {
    match len {
        32 => MysqlFieldReader(payload)
            .int(4)
            .is_some_and(|c| c & capability::SSL != 0),
        5 => MysqlFieldReader(payload)
            .int(2)
            .is_some_and(|c| c & capability::SSL != 0 && c & capability::PROTOCOL_41 == 0),
        _ => false,
    }
}

/// Parses the client's login; `payload` is complete if `is_whole`, otherwise its first bytes.
pub fn login(payload: &[u8], is_whole: bool) -> MysqlLogin<'_> {
    let mut login = MysqlLogin::default();
    let Some(first) = MysqlFieldReader(payload).int(2) else {
        return login;
    };
    // Missing fields stay empty.
    let _ = if first & capability::PROTOCOL_41 == 0 {
        login.capabilities = Some(first);
        login_320(payload, is_whole, &mut login)
    } else {
        login_41(payload, is_whole, &mut login)
    };
    login
}

/// Parses `COM_CHANGE_USER` after the command byte.
pub fn change_user(payload: &[u8], capabilities: Option<u64>) -> MysqlLogin<'_> {
    let mut f = MysqlFieldReader(payload);
    let agreed = capabilities.unwrap_or(capability::SECURE_CONNECTION);
    let user = f.nul_str();
    let secure = agreed & (capability::SECURE_CONNECTION | capability::PLUGIN_AUTH_LENENC) != 0;
    let auth = if secure {
        f.int(1).and_then(|n| f.take(n as usize))
    } else {
        f.nul_str()
    };
    let database = auth.and_then(|_| f.nul_str()).filter(|d| !d.is_empty());
    MysqlLogin {
        capabilities,
        user,
        database,
    }
}

/// Whether this is a plausible server version: printable and 1 to 128 bytes.
pub fn is_version(v: &[u8]) -> bool {
    !v.is_empty() && v.len() <= 128 && v.iter().all(|b| (b' '..0x7f).contains(b))
}

/// Stores user and database in their request's text.
pub fn write_account(text: &mut Vec<u8>, login: MysqlLogin<'_>) {
    if let Some(user) = login.user {
        text.extend_from_slice(user);
        text.push(0);
        text.extend_from_slice(login.database.unwrap_or_default());
    }
}

/// Reads the output of [`write_account`].
pub fn read_account(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(0, text)?;
    Some((&text[..end], &text[end + 1..]))
}

fn offered(mut f: MysqlFieldReader<'_>) -> Option<u64> {
    f.take(4 + 8 + 1)?;
    let low = f.int(2)?;
    f.take(1 + 2);
    let high = f.int(2).unwrap_or(0);
    f.take(1 + 6);
    Some(low | high << 16 | mariadb_part(low, &mut f) << 32)
}

/// MariaDB's own capabilities, present if the MySQL bit is clear.
fn mariadb_part(low: u64, f: &mut MysqlFieldReader<'_>) -> u64 {
    let own = f.int(4).unwrap_or(0);
    if low & capability::MYSQL == 0 { own } else { 0 }
}

fn login_41<'a>(payload: &'a [u8], is_whole: bool, login: &mut MysqlLogin<'a>) -> Option<()> {
    let mut f = MysqlFieldReader(payload);
    let low = f.int(4)?;
    login.capabilities = Some(low);
    f.take(4 + 1 + 19)?;
    let capabilities = low | mariadb_part(low, &mut MysqlFieldReader(f.take(4)?)) << 32;
    login.capabilities = Some(capabilities);
    login.user = Some(f.nul_str()?);
    if capabilities & capability::PLUGIN_AUTH_LENENC != 0 {
        f.lenenc_str()?;
    } else if capabilities & capability::SECURE_CONNECTION != 0 {
        f.int(1).and_then(|n| f.take(n as usize))?;
    } else {
        f.nul_str()?;
    }
    if capabilities & capability::CONNECT_WITH_DB != 0 {
        login.database = last_str(f, is_whole);
    }
    Some(())
}

fn login_320<'a>(payload: &'a [u8], is_whole: bool, login: &mut MysqlLogin<'a>) -> Option<()> {
    let mut f = MysqlFieldReader(payload);
    f.take(2 + 3)?;
    login.user = Some(f.nul_str()?);
    f.nul_str()?;
    if login.capabilities? & capability::CONNECT_WITH_DB != 0 {
        login.database = last_str(f, is_whole);
    }
    Some(())
}

/// A string ended by NUL or by the end of the packet, if captured.
fn last_str(mut f: MysqlFieldReader<'_>, is_whole: bool) -> Option<&[u8]> {
    f.nul_str()
        .or(is_whole.then_some(f.0))
        .filter(|s| !s.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings() {
        let v10 =
            b"\x0a5.5.5-10.11\0\x01\0\0\0abcdefgh\0\xfe\xf7\x2d\x02\0\xff\x81\x15\0\0\0\0\0\0\x1d\0\0\0rest";
        assert_eq!(greeting(v10), Some(0x1d_81ff_f7fe));
        assert_eq!(greeting(b"\x0a3.23.54\0\x02\0\0\x0070+&z"), Some(u64::MAX));
        assert_eq!(greeting(b"\x093.20\0\x02\0\0\0scramble\0"), Some(0));
        for other in [&b""[..], b"\x0a", b"\x0a\x01\0", b"\x0b5.5\0", b"\x0a\0"] {
            assert_eq!(greeting(other), None, "{other:?}");
        }
    }

    #[test]
    fn logins() {
        let mut bytes = vec![0x8d, 0xa6, 0x03, 0, 0, 0, 0, 1, 8];
        bytes.extend([0; 23]);
        bytes.extend(b"app\0\x02ppshop\0");
        let check = |payload: &[u8], is_whole: bool, user: Option<&str>, database: Option<&str>| {
            let got = login(payload, is_whole);
            assert_eq!(
                (got.user, got.database),
                (user.map(str::as_bytes), database.map(str::as_bytes)),
                "{payload:?}"
            );
        };
        let end = bytes.len();
        check(&bytes, true, Some("app"), Some("shop"));
        check(&bytes[..end - 1], true, Some("app"), Some("shop"));
        check(&bytes[..38], false, Some("app"), None);
        check(&bytes[..30], false, None, None);
        assert_eq!(login(&bytes[..32], false).capabilities, Some(0x3a68d));
        assert_eq!(login(&bytes[..3], false).capabilities, None);
        check(
            b"\x8d\x24\0\0\0danny\0JNK\0shop",
            true,
            Some("danny"),
            Some("shop"),
        );
        check(
            b"\x8d\x24\0\0\0danny\0JNK\0shop",
            false,
            Some("danny"),
            None,
        );
        check(b"\x85\x24\0\0\0danny\0JNK\0", true, Some("danny"), None);
        check(b"\x85", false, None, None);
        for cut in 0..end {
            let whole = login(&bytes, true);
            let part = login(&bytes[..cut], false);
            assert!(part.user.is_none_or(|u| Some(u) == whole.user), "{cut}");
            assert!(
                part.database.is_none_or(|d| Some(d) == whole.database),
                "{cut}"
            );
        }
        assert_eq!(
            change_user(b"bob\0\x03abcdb\0\x21\0", None).database,
            Some(&b"db"[..])
        );
    }
}
