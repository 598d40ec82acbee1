//! Flags that bound memory and waiting. Each has the default of the part that it belongs to; `netalytics config` prints them.

use std::collections::BTreeMap;

use clap::Args;
use runner::RowWriting;
use runner::memory::{DEFAULT, LEAST, MemoryDivision};

/// Default maximum of flows whose packets are written.
pub const KEPT_FLOWS_MAX: usize = 1 << 20;

/// Limits of a run.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Limits")]
pub struct LimitFlags {
    /// Memory for all parts of a run, at least 64M; limits in bytes are shares of it [default: 1G]
    #[arg(long, value_name = "BYTES", value_parser = memory)]
    #[arg(help_heading = "Resources")]
    pub memory_max: Option<usize>,

    /// Maximum number of flows; beyond it, the least useful flow is evicted [default: 1048576 at 1G, about 262144
    /// with a parser]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub flows_max: Option<usize>,

    /// Maximum bytes of TCP segments that wait for missing ones; beyond it, the gap is accepted [default: 64M at 1G]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub held_bytes_max: Option<usize>,

    /// Maximum bytes of rows and closed windows between workers and output; beyond it, workers wait [default: 128M at
    /// 1G, 256M without PROCESS]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub results_bytes_max: Option<usize>,

    /// Maximum bytes of open windows; beyond it, sketches are coarsened, groups pooled, windows printed early
    /// [default: 384M at 1G, less with a join or Parquet]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub window_bytes_max: Option<usize>,

    /// Maximum bytes of tuples that wait for partners in a join; beyond it, the flow idle for longest is dropped
    /// [default: 128M at 1G]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub join_bytes_max: Option<usize>,

    /// Maximum bytes of incomplete IP datagrams; beyond it, the oldest is evicted [default: 4M at 1G]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub fragment_bytes_max: Option<usize>,

    /// Maximum bytes of outstanding ONC-RPC calls per connection; beyond it, new calls are not paired [default: 4M]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub rpc_bytes_max: Option<usize>,

    /// Maximum bytes of prepared statements per MySQL connection; beyond it, the least recently used are evicted
    /// [default: 8M]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub statement_bytes_max: Option<usize>,

    /// Idle timeout of a TCP flow [default: 300s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub tcp_idle: Option<i64>,

    /// Idle timeout of any other flow [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub udp_idle: Option<i64>,

    /// Interval at which a flow in progress is reported (parser flow) [default: only at its end]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub active_timeout: Option<i64>,

    /// Verify the checksums of all TCP segments and UDP datagrams, and discard packets with a wrong one [default: only
    /// of contradictory segments]
    #[arg(long, help_heading = "Input")]
    pub verify_checksums: bool,

    /// Maximum number of groups per processor that are counted exactly; an upper bound of groups_max= [default:
    /// 100000]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub groups_max: Option<usize>,

    /// Maximum number of flows for which -w with WHERE buffers packets [default: 1048576]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub kept_flows_max: Option<usize>,

    /// Maximum bytes of packets buffered for -w with WHERE in live capture [default: 32M at 1G]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub look_back_bytes_max: Option<usize>,

    /// Maximum number of tuples that wait for partners in a join [default: 1048576]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub join_tuples_max: Option<usize>,

    /// Maximum number of consecutive windows without a tuple that are printed; without groups only [default: 1000]
    #[arg(long, value_name = "N")]
    pub empty_windows_max: Option<u64>,
}

impl LimitFlags {
    /// The limits in the form that a run needs.
    pub fn of_run(&self) -> runner::MemoryLimits {
        runner::MemoryLimits {
            max: self.memory_max,
            flows_max: self.flows_max,
            held_bytes: self.held_bytes_max,
            fragment_bytes: self.fragment_bytes_max,
            results_bytes: self.results_bytes_max,
            window_bytes: self.window_bytes_max,
            join_bytes: self.join_bytes_max,
            monitor: self.monitor(),
            stream: self.stream(),
        }
    }

    /// The monitor's timeouts, without its share of the memory.
    pub fn monitor(&self) -> monitor::MonitorConfig {
        let monitor::MonitorConfig {
            flow,
            fragment_bytes_max,
            parsers,
            outstanding,
            taps,
            slice,
            exports,
            keys,
            origin,
        } = monitor::MonitorConfig::default();
        monitor::MonitorConfig {
            parsers: parsers::ParserLimits {
                rpc_bytes_max: self.rpc_bytes_max.unwrap_or(parsers.rpc_bytes_max),
                statement_bytes_max: self
                    .statement_bytes_max
                    .unwrap_or(parsers.statement_bytes_max),
                ..parsers
            },
            fragment_bytes_max,
            outstanding,
            taps,
            slice,
            exports,
            keys,
            origin,
            flow: flow::FlowTableConfig {
                tcp_idle_ns: self.tcp_idle.unwrap_or(flow.tcp_idle_ns),
                udp_idle_ns: self.udp_idle.unwrap_or(flow.udp_idle_ns),
                active_timeout_ns: self.active_timeout.or(flow.active_timeout_ns),
                verify_checksums: self.verify_checksums,
                seed: secret(),
                ..flow
            },
        }
    }

    /// The engine's limits, without its share of the memory.
    pub fn stream(&self) -> stream::EngineConfig {
        let config = stream::EngineConfig::default();
        stream::EngineConfig {
            join_rows_max: self.join_tuples_max.unwrap_or(config.join_rows_max),
            empty_windows_max: self.empty_windows_max.unwrap_or(config.empty_windows_max),
            seed: secret(),
            ..config
        }
    }

    /// Memory for packets buffered for look-back: 1/32 of the total.
    pub fn look_back_bytes(&self) -> usize {
        self.look_back_bytes_max
            .unwrap_or(self.memory_max.unwrap_or(DEFAULT) / 32)
    }
}

/// Defaults of the settings that have none in clap, by name; those of sizes are shares of `memory_max`.
pub fn defaults(memory_max: Option<usize>) -> BTreeMap<&'static str, String> {
    let limits = runner::MemoryLimits {
        max: memory_max,
        ..runner::MemoryLimits::default()
    };
    let plan = |text: &str| {
        let query = query::check(text, &parsers::registry::schemas(), &()).expect("a valid query");
        planner::lower(&query)
    };
    let groups = plan("PARSE http PROCESS (diff-group: group=url)");
    let join = plan("PARSE tcp_conn_time, http PROCESS (count)");
    let memory = MemoryDivision::divide(&limits, &groups, RowWriting::AtOnce);
    let joined = MemoryDivision::divide(&limits, &join, RowWriting::AtOnce);
    let groups_max = groups
        .dataflow
        .pipelines
        .first()
        .map_or(0, |pipeline| pipeline.groups_max);
    let parsers = parsers::ParserLimits::default();
    let flow = flow::FlowTableConfig::default();
    let stream = stream::EngineConfig::default();
    let seconds = |ns: i64| format!("{}s", ns / 1_000_000_000);
    BTreeMap::from([
        ("memory-max", size(DEFAULT)),
        ("flows-max", memory.flows_max.to_string()),
        ("held-bytes-max", size(memory.held_bytes)),
        ("fragment-bytes-max", size(memory.fragment_bytes)),
        ("results-bytes-max", size(memory.results_bytes)),
        ("window-bytes-max", size(memory.window_bytes)),
        ("join-bytes-max", size(joined.join_bytes)),
        ("look-back-bytes-max", size(memory.max / 32)),
        ("rpc-bytes-max", size(parsers.rpc_bytes_max)),
        ("statement-bytes-max", size(parsers.statement_bytes_max)),
        ("tcp-idle", seconds(flow.tcp_idle_ns)),
        ("udp-idle", seconds(flow.udp_idle_ns)),
        ("groups-max", groups_max.to_string()),
        ("kept-flows-max", KEPT_FLOWS_MAX.to_string()),
        ("join-tuples-max", stream.join_rows_max.to_string()),
        ("empty-windows-max", stream.empty_windows_max.to_string()),
    ])
}

/// `64M`, as `bytes` reads it.
fn size(bytes: usize) -> String {
    let units = [(30, "G"), (20, "M"), (10, "k")];
    let unit = units
        .iter()
        .find(|(shift, _)| bytes > 0 && bytes.is_multiple_of(1 << shift));
    unit.map_or_else(
        || bytes.to_string(),
        |(shift, unit)| format!("{}{unit}", bytes >> shift),
    )
}

/// A secret number that selects hash buckets of flows and groups; results do not depend on it.
fn secret() -> u64 {
    use std::hash::BuildHasher;
    std::hash::RandomState::new().hash_one(0)
}

pub(super) fn positive(text: &str) -> Result<usize, String> {
    match text.replace('_', "").parse::<usize>() {
        Ok(0) => Err("at least 1".into()),
        Ok(n) => Ok(n),
        Err(_) => Err("a whole number, as in 500000".into()),
    }
}

/// Bytes of all parts together.
fn memory(text: &str) -> Result<usize, String> {
    match bytes(text)? {
        n if n < LEAST => Err(format!("at least {}M", LEAST >> 20)),
        n => Ok(n),
    }
}

/// Bytes in powers of 1024, as memory is counted: `512k`, `64M`, `2G`.
pub(super) fn bytes(text: &str) -> Result<usize, String> {
    let (digits, unit) = split_unit(text);
    let scale = match unit
        .to_ascii_lowercase()
        .trim_end_matches("ib")
        .trim_end_matches('b')
    {
        "" => Some(1),
        "k" => Some(1 << 10),
        "m" => Some(1 << 20),
        "g" => Some(1 << 30),
        _ => None,
    };
    let value = digits
        .parse::<usize>()
        .ok()
        .zip(scale)
        .and_then(|(n, scale)| n.checked_mul(scale));
    value
        .filter(|n| *n > 0)
        .ok_or_else(|| "bytes as in 512k, 64M or 2G".into())
}

/// Times as in the query language: `250ms`, `90s`, `2m`, `1h`.
pub fn duration(text: &str) -> Result<i64, String> {
    let (digits, unit) = split_unit(text);
    let scale = match unit {
        "ms" => Some(1_000_000),
        "s" => Some(1_000_000_000),
        "m" => Some(60_000_000_000),
        "h" => Some(3_600_000_000_000),
        _ => None,
    };
    let value = digits
        .parse::<i64>()
        .ok()
        .zip(scale)
        .and_then(|(n, scale): (i64, i64)| n.checked_mul(scale));
    value
        .filter(|n| *n > 0)
        .ok_or_else(|| "a time as in 250ms, 90s, 2m or 1h".into())
}

fn split_unit(text: &str) -> (&str, &str) {
    let at = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_units() {
        for (text, expected) in [
            ("1", Some(1)),
            ("64M", Some(64 << 20)),
            ("2GiB", Some(2 << 30)),
            ("3kb", Some(3 << 10)),
            ("0", None),
            ("x", None),
            ("99999999999G", None),
            ("-1", None),
        ] {
            assert_eq!(bytes(text).ok(), expected, "{text}");
        }
        for (text, expected) in [
            ("250ms", Some(250_000_000)),
            ("2m", Some(120_000_000_000)),
            ("5", None),
            ("0s", None),
            ("9999999999h", None),
        ] {
            assert_eq!(duration(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn every_limit_that_is_named_has_its_flag() {
        let command = LimitFlags::augment_args(clap::Command::new("query"));
        let flags: Vec<&str> = command
            .get_arguments()
            .filter_map(clap::Arg::get_long)
            .collect();
        for limit in &runner::limits::LIMITS {
            let flag = limit.flag.map(|flag| flag.trim_start_matches("--"));
            assert!(flag.is_none_or(|flag| flags.contains(&flag)), "{limit:?}");
        }
    }

    /// The help has the division of a run's memory, as the summary shows it, and the defaults of the parts.
    #[test]
    fn the_defaults_in_the_help_are_the_defaults() {
        let defaults = defaults(None);
        let command = LimitFlags::augment_args(clap::Command::new("query"));
        for arg in command.get_arguments() {
            let name = arg.get_long().expect("a flag");
            let help = arg.get_help().expect("a help").to_string();
            let Some((_, text)) = help.split_once("[default: ") else {
                panic!("{name}: {help}")
            };
            let default = defaults.get(name).map_or("only", String::as_str);
            assert_eq!(
                text.split([' ', ']', ',']).next(),
                Some(default),
                "{name}: {help}"
            );
        }
        let of_2g = super::defaults(Some(2 << 30));
        assert_eq!(
            (
                of_2g["held-bytes-max"].as_str(),
                of_2g["window-bytes-max"].as_str()
            ),
            ("128M", "768M")
        );
        assert_eq!(
            (size(1500), size(3 << 10), size(1 << 30)),
            ("1500".into(), "3k".into(), "1G".into())
        );
    }
}
