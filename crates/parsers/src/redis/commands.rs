//! Redis commands: reads and writes, and the position of the first key.

use std::borrow::Cow;

use super::resp;

/// Declares a list of names, and a query language condition that matches them.
macro_rules! commands {
    ($(#[$doc:meta])* $names:ident, $condition:ident: $first:literal $($name:literal)*) => {
        $(#[$doc])*
        const $names: &[&str] = &[$first, $($name),*];
        /// The list as a condition.
        pub const $condition: &str = concat!("command in ('", $first, "'", $(", '", $name, "'",)* ")");
    };
}

commands! {
    /// Commands that read data.
    READS, IS_READ: "GET" "MGET" "GETRANGE" "SUBSTR" "STRLEN" "LCS" "EXISTS" "TTL" "PTTL" "EXPIRETIME" "PEXPIRETIME" "TYPE" "DUMP"
    "TOUCH" "GETBIT" "BITCOUNT" "BITPOS" "BITFIELD_RO" "HGET" "HMGET" "HGETALL" "HKEYS" "HVALS" "HLEN" "HEXISTS" "HSTRLEN" "HSCAN"
    "HRANDFIELD" "LRANGE" "LLEN" "LINDEX" "LPOS" "SMEMBERS" "SCARD" "SISMEMBER" "SMISMEMBER" "SRANDMEMBER" "SSCAN" "SDIFF"
    "SINTER" "SINTERCARD" "SUNION" "ZRANGE" "ZREVRANGE" "ZRANGEBYSCORE" "ZREVRANGEBYSCORE" "ZRANGEBYLEX" "ZREVRANGEBYLEX"
    "ZSCORE" "ZMSCORE" "ZCARD" "ZCOUNT" "ZLEXCOUNT" "ZRANK" "ZREVRANK" "ZRANDMEMBER" "ZSCAN" "ZDIFF" "ZINTER" "ZINTERCARD" "ZUNION"
    "GEODIST" "GEOHASH" "GEOPOS" "GEOSEARCH" "GEORADIUS_RO" "GEORADIUSBYMEMBER_RO" "PFCOUNT" "XRANGE" "XREVRANGE" "XLEN"
    "XPENDING" "XREAD" "SORT_RO" "EVAL_RO" "EVALSHA_RO" "FCALL_RO" "KEYS" "SCAN" "RANDOMKEY" "DBSIZE"
}

commands! {
    /// Commands that change data.
    WRITES, IS_WRITE: "SET" "SETEX" "PSETEX" "SETNX" "MSET" "MSETNX" "GETSET" "GETDEL" "GETEX" "APPEND" "SETRANGE" "SETBIT" "BITOP"
    "BITFIELD" "INCR" "INCRBY" "INCRBYFLOAT" "DECR" "DECRBY" "DEL" "UNLINK" "EXPIRE" "EXPIREAT" "PEXPIRE" "PEXPIREAT" "PERSIST"
    "RENAME" "RENAMENX" "COPY" "MOVE" "RESTORE" "SORT" "HSET" "HMSET" "HSETNX" "HDEL" "HINCRBY" "HINCRBYFLOAT" "LPUSH" "LPUSHX"
    "RPUSH" "RPUSHX" "LPOP" "RPOP" "LSET" "LINSERT" "LREM" "LTRIM" "LMOVE" "LMPOP" "RPOPLPUSH" "BLPOP" "BRPOP" "BLMOVE" "BLMPOP"
    "BRPOPLPUSH" "SADD" "SREM" "SPOP" "SMOVE" "SDIFFSTORE" "SINTERSTORE" "SUNIONSTORE" "ZADD" "ZREM" "ZINCRBY" "ZPOPMIN"
    "ZPOPMAX" "ZMPOP" "BZPOPMIN" "BZPOPMAX" "BZMPOP" "ZRANGESTORE" "ZDIFFSTORE" "ZINTERSTORE" "ZUNIONSTORE" "ZREMRANGEBYLEX"
    "ZREMRANGEBYRANK" "ZREMRANGEBYSCORE" "GEOADD" "GEORADIUS" "GEORADIUSBYMEMBER" "GEOSEARCHSTORE" "PFADD" "PFMERGE" "XADD"
    "XDEL" "XTRIM" "XACK" "XCLAIM" "XAUTOCLAIM" "XREADGROUP" "XSETID" "XGROUP" "MIGRATE" "FLUSHALL" "FLUSHDB" "SWAPDB"
}

/// Commands that neither read nor write, or whose name does not determine it; without a key.
const KEYLESS: &[&str] = &[
    "ACL",
    "ASKING",
    "AUTH",
    "BGREWRITEAOF",
    "BGSAVE",
    "CLIENT",
    "CLUSTER",
    "COMMAND",
    "CONFIG",
    "DBSIZE",
    "DEBUG",
    "DISCARD",
    "ECHO",
    "EXEC",
    "FAILOVER",
    "FLUSHALL",
    "FLUSHDB",
    "FUNCTION",
    "HELLO",
    "INFO",
    "KEYS",
    "LASTSAVE",
    "LATENCY",
    "LOLWUT",
    "MODULE",
    "MONITOR",
    "MULTI",
    "PING",
    "PSYNC",
    "PUBSUB",
    "QUIT",
    "RANDOMKEY",
    "READONLY",
    "READWRITE",
    "REPLCONF",
    "REPLICAOF",
    "RESET",
    "ROLE",
    "SAVE",
    "SCAN",
    "SCRIPT",
    "SELECT",
    "SHUTDOWN",
    "SLAVEOF",
    "SLOWLOG",
    "SWAPDB",
    "SYNC",
    "TIME",
    "UNWATCH",
    "WAIT",
    "WAITAOF",
];

/// Other commands.
const OTHERS: &[&str] = &[
    "EVAL",
    "EVALSHA",
    "FCALL",
    "MEMORY",
    "OBJECT",
    "PSUBSCRIBE",
    "PUBLISH",
    "PUNSUBSCRIBE",
    "SPUBLISH",
    "SSUBSCRIBE",
    "SUBSCRIBE",
    "SUNSUBSCRIBE",
    "UNSUBSCRIBE",
    "WATCH",
    "XINFO",
];

/// Unsolicited messages of a server, by kind.
const PUSHES: &[&str] = &["MESSAGE", "PMESSAGE", "SMESSAGE", "INVALIDATE"];

/// Whether Redis has a command or push of this name, in upper case.
pub fn is_known(name: &[u8]) -> bool {
    let mut all = [READS, WRITES, KEYLESS, OTHERS, PUSHES]
        .into_iter()
        .flatten();
    all.any(|known| known.as_bytes() == name)
}

/// Whether the command `name` returns null for a missing value.
pub fn may_miss(name: &[u8]) -> bool {
    matches!(
        name,
        b"GET" | b"HGET" | b"GETEX" | b"GETDEL" | b"GETSET" | b"LINDEX" | b"ZSCORE"
    )
}

/// First key of the command `name`, in upper case.
pub fn key<'a>(name: &[u8], head: &'a [u8]) -> Option<Cow<'a, [u8]>> {
    let word = |i| resp::words(head).nth(i).flatten();
    // If the number of keys is given, the first key follows it.
    let counted = |i| word(i).filter(|n| **n != *b"0").and_then(|_| word(i + 1));
    match name {
        b"EVAL" | b"EVALSHA" | b"FCALL" | b"EVAL_RO" | b"EVALSHA_RO" | b"FCALL_RO" | b"BLMPOP"
        | b"BZMPOP" => counted(2),
        b"SINTERCARD" | b"ZDIFF" | b"ZINTER" | b"ZINTERCARD" | b"ZUNION" | b"LMPOP" | b"ZMPOP" => {
            counted(1)
        }
        b"BITOP" | b"MEMORY" | b"OBJECT" | b"XGROUP" | b"XINFO" => word(2),
        b"MIGRATE" => word(3),
        b"XREAD" | b"XREADGROUP" => {
            let mut words = resp::words(head);
            words.find(|word| {
                word.as_ref()
                    .is_some_and(|word| word.eq_ignore_ascii_case(b"STREAMS"))
            })?;
            words.next()?
        }
        _ if KEYLESS.iter().any(|keyless| keyless.as_bytes() == name) => None,
        _ => word(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_keys() {
        let check = |line: &str, expected: Option<&str>| {
            let name = line.split(' ').next().unwrap_or_default();
            let found = key(name.as_bytes(), line.as_bytes());
            assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{line}");
        };
        check("GET a", Some("a"));
        check("PING", None);
        check("AUTH secret", None);
        check("EVAL script 2 a b x", Some("a"));
        check("EVALSHA hash 0 x", None);
        check("BITOP AND to a b", Some("to"));
        check("OBJECT ENCODING a", Some("a"));
        check("XREAD COUNT 2 BLOCK 100 streams s t 0 0", Some("s"));
        check("XREADGROUP GROUP g c STREAMS s >", Some("s"));
        check("BZMPOP 0 2 a b MIN", Some("a"));
        check("ZUNION 2 a b", Some("a"));
        check("JSON.GET doc $", Some("doc"));
        check("UNSUBSCRIBE", None);
    }

    #[test]
    fn commands_are_listed_once() {
        let mut both: Vec<_> = READS.iter().chain(WRITES).chain(OTHERS).collect();
        let all = both.len();
        both.sort_unstable();
        both.dedup();
        assert_eq!(both.len(), all);
        assert!(
            is_known(b"GET") && is_known(b"HELLO") && is_known(b"MESSAGE") && !is_known(b"get")
        );
    }
}
