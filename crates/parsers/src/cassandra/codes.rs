//! Names of operations, consistency levels, results, and errors ("CQL BINARY PROTOCOL v3, v4, v5" in Cassandra's sources).

pub const ERROR: u8 = 0x00;
pub const STARTUP: u8 = 0x01;
pub const READY: u8 = 0x02;
pub const AUTHENTICATE: u8 = 0x03;
pub const OPTIONS: u8 = 0x05;
pub const SUPPORTED: u8 = 0x06;
pub const QUERY: u8 = 0x07;
pub const RESULT: u8 = 0x08;
pub const PREPARE: u8 = 0x09;
pub const EXECUTE: u8 = 0x0a;
pub const REGISTER: u8 = 0x0b;
pub const EVENT: u8 = 0x0c;
pub const BATCH: u8 = 0x0d;
pub const AUTH_CHALLENGE: u8 = 0x0e;
pub const AUTH_RESPONSE: u8 = 0x0f;
pub const AUTH_SUCCESS: u8 = 0x10;

pub const ROWS: u32 = 2;
pub const SET_KEYSPACE: u32 = 3;
pub const PREPARED: u32 = 4;
pub const SCHEMA_CHANGE: u32 = 5;

pub const UNAVAILABLE: u32 = 0x1000;
pub const WRITE_TIMEOUT: u32 = 0x1100;
pub const READ_TIMEOUT: u32 = 0x1200;
pub const READ_FAILURE: u32 = 0x1300;
pub const WRITE_FAILURE: u32 = 0x1500;
pub const CAS_WRITE_UNKNOWN: u32 = 0x1700;
pub const ALREADY_EXISTS: u32 = 0x2400;
pub const UNPREPARED: u32 = 0x2500;

/// Types of events, which are also names in REGISTER.
pub const EVENTS: [&str; 3] = ["TOPOLOGY_CHANGE", "STATUS_CHANGE", "SCHEMA_CHANGE"];

/// Name of a request, or of an event.
pub fn command(opcode: u8) -> Option<&'static str> {
    Some(match opcode {
        STARTUP => "startup",
        OPTIONS => "options",
        QUERY => "query",
        PREPARE => "prepare",
        EXECUTE => "execute",
        REGISTER => "register",
        EVENT => "event",
        BATCH => "batch",
        AUTH_RESPONSE => "auth_response",
        _ => return None,
    })
}

/// Name of a response; `kind` is that of a RESULT.
pub fn result(opcode: u8, kind: Option<u32>) -> Option<&'static str> {
    Some(match opcode {
        ERROR => "error",
        READY => "ready",
        AUTHENTICATE => "authenticate",
        SUPPORTED => "supported",
        AUTH_CHALLENGE => "auth_challenge",
        AUTH_SUCCESS => "auth_success",
        RESULT => match kind? {
            1 => "void",
            ROWS => "rows",
            SET_KEYSPACE => "set_keyspace",
            PREPARED => "prepared",
            SCHEMA_CHANGE => "schema_change",
            _ => return None,
        },
        _ => return None,
    })
}

/// Whether a RESULT has this kind.
pub fn is_result(kind: u32) -> bool {
    (1..=SCHEMA_CHANGE).contains(&kind)
}

/// Name of a consistency level.
pub fn consistency(level: u16) -> Option<&'static str> {
    const LEVELS: [&str; 12] = [
        "ANY",
        "ONE",
        "TWO",
        "THREE",
        "QUORUM",
        "ALL",
        "LOCAL_QUORUM",
        "EACH_QUORUM",
        "SERIAL",
        "LOCAL_SERIAL",
        "LOCAL_ONE",
        "NODE_LOCAL",
    ];
    LEVELS.get(usize::from(level)).copied()
}

/// Name of a kind of batch.
pub fn batch(kind: u8) -> Option<&'static str> {
    ["logged", "unlogged", "counter"]
        .get(usize::from(kind))
        .copied()
}

/// Name of an error.
pub fn error(code: u32) -> Option<&'static str> {
    Some(match code {
        0x0000 => "server_error",
        0x000a => "protocol_error",
        0x0100 => "bad_credentials",
        UNAVAILABLE => "unavailable",
        0x1001 => "overloaded",
        0x1002 => "is_bootstrapping",
        0x1003 => "truncate_error",
        WRITE_TIMEOUT => "write_timeout",
        READ_TIMEOUT => "read_timeout",
        READ_FAILURE => "read_failure",
        0x1400 => "function_failure",
        WRITE_FAILURE => "write_failure",
        0x1600 => "cdc_write_failure",
        CAS_WRITE_UNKNOWN => "cas_write_unknown",
        0x2000 => "syntax_error",
        0x2100 => "unauthorized",
        0x2200 => "invalid",
        0x2300 => "config_error",
        ALREADY_EXISTS => "already_exists",
        UNPREPARED => "unprepared",
        _ => return None,
    })
}
