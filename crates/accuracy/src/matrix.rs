//! The captures measured by the command, and the damage applied to each.

use accuracy::Impairment::{self, *};
use accuracy::impairment::{
    HeaderFieldKind, LossPattern, LossTarget, PacketDirection, StraySegment,
};

/// Recordings of real servers under load, created by the generator next to the checkout: name, file, parser.
pub const LARGE: &[(&str, &str, &str)] = &[
    ("http_web", "http_web.pcap", "http"),
    ("http_api", "http_api.pcap", "http"),
    ("mysql_text", "mysql_text.pcap", "mysql_query"),
    ("mysql_prep", "mysql_prep.pcap", "mysql_query"),
    ("mc_ascii", "mc_ascii.pcap", "memcached"),
    ("mc_bin", "mc_bin.pcap", "memcached"),
];
/// The same servers, each with a single connection, for other rates.
pub const SINGLE: &[(&str, &str, &str)] = &[
    ("http_web_one", "http_web_one.pcap", "http"),
    ("http_api_one", "http_api_one.pcap", "http"),
    ("mysql_text_one", "mysql_text_one.pcap", "mysql_query"),
    ("mysql_prep_one", "mysql_prep_one.pcap", "mysql_query"),
    ("mc_ascii_one", "mc_ascii_one.pcap", "memcached"),
    ("mc_bin_one", "mc_bin_one.pcap", "memcached"),
];
/// Small captures of the corpus.
pub const SMALL: &[(&str, &str, &str)] = &[
    ("http_keepalive", "http_keepalive.pcap.gz", "http"),
    ("http_pipelined", "http_pipelined.pcap", "http"),
    ("http_mix", "http_mix.pcap", "http"),
    ("http_short", "http_short.pcap", "http"),
    ("mysql_mix", "mysql_mix.pcap", "mysql_query"),
    ("mysql_sysbench_ps", "mysql_sysbench_ps.pcap", "mysql_query"),
    (
        "mysql_sysbench_text",
        "mysql_sysbench_text.pcap",
        "mysql_query",
    ),
    ("pgsql_mix", "pgsql_mix.pcap", "postgresql"),
    ("pgsql_bench", "pgsql_bench.pcap", "postgresql"),
    ("mc_text", "mc_text.pcap", "memcached"),
    ("mc_binary", "mc_binary.pcap", "memcached"),
    ("mc_load", "mc_load.pcap", "memcached"),
    ("redis_bench", "redis_bench.pcap", "redis"),
    ("redis_mix", "redis_mix.pcap", "redis"),
    ("nfs", "nfs.pcap.gz", "nfs"),
];
/// Many protocols at once, in the corpus.
pub const MIXED: &[(&str, &str, &str)] = &[
    ("mixed_http", "mixed_live.pcap.gz", "http"),
    ("mixed_mysql", "mixed_live.pcap.gz", "mysql_query"),
    ("mixed_pgsql", "mixed_live.pcap.gz", "postgresql"),
    ("mixed_memcached", "mixed_live.pcap.gz", "memcached"),
    ("mixed_redis", "mixed_live.pcap.gz", "redis"),
    ("mixed_nfs", "mixed_live.pcap.gz", "nfs"),
];
/// Captures of the repository: the recorded shop, and the commands of protocols.
pub const REPOSITORY: &[(&str, &str, &str)] = &[
    ("shop_http", "shop/in.pcap", "http"),
    ("shop_mysql", "shop/in.pcap", "mysql_query"),
    ("shop_memcached", "shop/in.pcap", "memcached"),
    ("commands_pgsql", "postgresql/in.pcap", "postgresql"),
    ("commands_mongodb", "mongodb/in.pcap", "mongodb"),
    ("requests_cassandra", "cassandra/in.pcap", "cassandra"),
    ("requests_kafka", "kafka/in.pcap", "kafka"),
    ("commands_redis", "redis/in.pcap", "redis"),
    ("commands_nfs", "nfs/in.pcap", "nfs"),
];

const MS: i64 = 1_000_000;
const SERVER: LossTarget = LossTarget::Of(PacketDirection::ToServer);
const CLIENT: LossTarget = LossTarget::Of(PacketDirection::ToClient);

/// The damage applied to each capture.
pub const MATRIX: &[Impairment] = &[
    None,
    Loss(LossTarget::Any, LossPattern::Single, 0.0001),
    Loss(LossTarget::Any, LossPattern::Single, 0.001),
    Loss(LossTarget::Any, LossPattern::Single, 0.005),
    Loss(LossTarget::Any, LossPattern::Single, 0.01),
    Loss(LossTarget::Any, LossPattern::Single, 0.02),
    Loss(LossTarget::Any, LossPattern::Single, 0.05),
    Loss(LossTarget::Any, LossPattern::Single, 0.1),
    Loss(LossTarget::Any, LossPattern::Bursts, 0.001),
    Loss(LossTarget::Any, LossPattern::Bursts, 0.01),
    Loss(LossTarget::Any, LossPattern::Bursts, 0.05),
    Loss(LossTarget::Any, LossPattern::Bursts, 0.1),
    Loss(SERVER, LossPattern::Single, 0.001),
    Loss(SERVER, LossPattern::Single, 0.01),
    Loss(SERVER, LossPattern::Single, 0.05),
    Loss(SERVER, LossPattern::Bursts, 0.01),
    Loss(SERVER, LossPattern::Bursts, 0.05),
    Loss(CLIENT, LossPattern::Single, 0.001),
    Loss(CLIENT, LossPattern::Single, 0.01),
    Loss(CLIENT, LossPattern::Single, 0.05),
    Loss(CLIENT, LossPattern::Bursts, 0.01),
    Loss(CLIENT, LossPattern::Bursts, 0.05),
    Loss(LossTarget::Small, LossPattern::Single, 0.01),
    Loss(LossTarget::Small, LossPattern::Single, 0.05),
    Loss(LossTarget::Large, LossPattern::Single, 0.01),
    Loss(LossTarget::Large, LossPattern::Single, 0.05),
    Duplicates(0.01),
    Duplicates(0.1),
    Reorder(0.01),
    Reorder(0.1),
    All(0.01),
    All(0.05),
    Joined(0.3),
    OneSide(PacketDirection::ToServer),
    OneSide(PacketDirection::ToClient),
    Delay(0.002, MS),
    Delay(0.002, 2 * MS),
    Delay(0.01, 2 * MS),
    Delay(0.002, 5 * MS),
    Delay(0.01, 5 * MS),
    Delay(0.1, 5 * MS),
    Skew(PacketDirection::ToServer, MS / 2),
    Skew(PacketDirection::ToServer, 2 * MS),
    Skew(PacketDirection::ToServer, 5 * MS),
    Skew(PacketDirection::ToClient, MS / 2),
    Skew(PacketDirection::ToClient, 2 * MS),
    Skew(PacketDirection::ToClient, 5 * MS),
    Shuffle(MS / 2),
    Shuffle(2 * MS),
    Shuffle(5 * MS),
    ClockStep(30 * MS),
    ClockStep(-30 * MS),
    ClockStep(-3_600_000 * MS),
    LossyClockStep(-200 * MS),
    LossyClockStep(-5_000 * MS),
    Pauses(0.002, 310_000 * MS),
    Pauses(0.002, 36_000_000 * MS),
    Snaplen(64),
    Snaplen(96),
    Snaplen(128),
    Snaplen(256),
    Stray(StraySegment::Syn, 0.01),
    Stray(StraySegment::Reset, 0.01),
    Stray(StraySegment::Data, 0.01),
    Stray(StraySegment::Forged, 0.01),
    Header(HeaderFieldKind::Acknowledgment, 0.005),
    Header(HeaderFieldKind::Length, 0.005),
    MessageLength(0.005),
    DamagedBit(0.005),
    Mirrored(MS / 100),
    Mirrored(MS),
    FastOpen,
];
