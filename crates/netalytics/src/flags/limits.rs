//! Flags that bound memory and waiting. Each has the default of the part that it belongs to.

use clap::Args;
use plan::Plan;
use runner::memory::{DEFAULT, LEAST};

/// Limits of a run.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Limits")]
pub struct Limits {
    /// Memory that all parts together may take; the limits below are shares of it, unless they are given [default: 1G]
    #[arg(long, value_name = "BYTES", value_parser = memory)]
    pub memory_max: Option<usize>,

    /// Most flows at once; beyond, the least useful one is given up [default: 262144 at 1G, 524288 where
    /// no messages are read]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub flows_max: Option<usize>,

    /// Most bytes of TCP segments that wait for missing ones, over all flows [default: 64M at 1G]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub held_bytes_max: Option<usize>,

    /// Most bytes of rows and closed windows between the workers and the output; beyond, workers wait, and rows of one
    /// epoch may come out of order [default: 384M at 1G for tuples, else 128M]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub results_bytes_max: Option<usize>,

    /// Maximum bytes of open windows with their groups and sketches; beyond that, groups are pooled, sketches
    /// coarsened, and the oldest windows printed early [default: 512M at 1G, less with a join or recording]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub window_bytes_max: Option<usize>,

    /// Most bytes of tuples that wait for their partners in a join of several parsers [default: 128M at 1G]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub join_bytes_max: Option<usize>,

    /// Most bytes of IP fragments that wait for others [default: 4M at 1G]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub fragment_bytes_max: Option<usize>,

    /// Most bytes of ONC-RPC calls of a connection that wait for their replies; beyond, new ones do not wait [default: 4M]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub rpc_bytes_max: Option<usize>,

    /// Most bytes of a MySQL connection's prepared statements; beyond, those not used for longest lose their text [default: 8M]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub statement_bytes_max: Option<usize>,

    /// Idle timeout of a TCP flow; the connection continues with its next packet while there is room to remember it
    /// (--flows-max) [default: 300s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub tcp_idle: Option<i64>,

    /// Idle timeout of any other flow [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub udp_idle: Option<i64>,

    /// Report flows that go on at least this often (parser flow) [default: at their end only]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub active_timeout: Option<i64>,

    /// Most groups of each processor that are counted exactly; it lowers groups_max= [default: 100000]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub groups_max: Option<usize>,

    /// Most flows whose packets -w keeps for a query with WHERE [default: 1048576]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub kept_flows_max: Option<usize>,

    /// Maximum bytes of packets that wait with -w and WHERE in live capture [default: 32M at 1G]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub look_back_bytes_max: Option<usize>,

    /// Most tuples that wait for their partners in a join of several parsers [default: 1048576]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub join_tuples_max: Option<usize>,

    /// Most windows without a tuple, one after the other, that have rows of their own; processors without groups only
    /// [default: 1000]
    #[arg(long, value_name = "N")]
    pub empty_windows_max: Option<u64>,
}

impl Limits {
    /// The same for a run.
    pub fn of_run(&self) -> runner::Limits {
        runner::Limits {
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

    /// The monitor's timeouts; its share of the memory is not in it.
    pub fn monitor(&self) -> monitor::Config {
        let monitor::Config { flow, fragment_bytes_max, parsers, outstanding, taps, slice, origin } =
            monitor::Config::default();
        monitor::Config {
            parsers: parsers::Limits {
                rpc_bytes_max: self.rpc_bytes_max.unwrap_or(parsers.rpc_bytes_max),
                statement_bytes_max: self.statement_bytes_max.unwrap_or(parsers.statement_bytes_max),
                ..parsers
            },
            fragment_bytes_max,
            outstanding,
            taps,
            slice,
            origin,
            flow: flow::Config {
                tcp_idle_ns: self.tcp_idle.unwrap_or(flow.tcp_idle_ns),
                udp_idle_ns: self.udp_idle.unwrap_or(flow.udp_idle_ns),
                active_timeout_ns: self.active_timeout.or(flow.active_timeout_ns),
                seed: secret(),
                ..flow
            },
        }
    }

    /// The engine's limits; its share of the memory is not in it.
    pub fn stream(&self) -> stream::Config {
        let config = stream::Config::default();
        stream::Config {
            join_rows_max: self.join_tuples_max.unwrap_or(config.join_rows_max),
            empty_windows_max: self.empty_windows_max.unwrap_or(config.empty_windows_max),
            seed: secret(),
            ..config
        }
    }

    /// Memory for packets that are looked back upon: a 32nd.
    pub fn look_back_bytes(&self) -> usize {
        self.look_back_bytes_max.unwrap_or(self.memory_max.unwrap_or(DEFAULT) / 32)
    }

    /// Lowers what the query itself bounds.
    pub fn bound(&self, plan: &mut Plan) {
        if let Some(max) = self.groups_max {
            plan.dataflow.pipelines.iter_mut().for_each(|p| p.groups_max = p.groups_max.min(max));
        }
    }
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
    let scale = match unit.to_ascii_lowercase().trim_end_matches("ib").trim_end_matches('b') {
        "" => Some(1),
        "k" => Some(1 << 10),
        "m" => Some(1 << 20),
        "g" => Some(1 << 30),
        _ => None,
    };
    let value = digits.parse::<usize>().ok().zip(scale).and_then(|(n, scale)| n.checked_mul(scale));
    value.filter(|n| *n > 0).ok_or_else(|| "bytes as in 512k, 64M or 2G".into())
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
    let value = digits.parse::<i64>().ok().zip(scale).and_then(|(n, scale): (i64, i64)| n.checked_mul(scale));
    value.filter(|n| *n > 0).ok_or_else(|| "a time as in 250ms, 90s, 2m or 1h".into())
}

fn split_unit(text: &str) -> (&str, &str) {
    let at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
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
        let command = Limits::augment_args(clap::Command::new("query"));
        let flags: Vec<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
        for limit in &runner::limits::LIMITS {
            let flag = limit.flag.map(|flag| flag.trim_start_matches("--"));
            assert!(flag.is_none_or(|flag| flags.contains(&flag)), "{limit:?}");
        }
    }

    #[test]
    fn the_defaults_in_the_help_are_the_defaults() {
        let none = Limits {
            memory_max: None,
            flows_max: None,
            held_bytes_max: None,
            results_bytes_max: None,
            window_bytes_max: None,
            join_bytes_max: None,
            fragment_bytes_max: None,
            rpc_bytes_max: None,
            statement_bytes_max: None,
            tcp_idle: None,
            udp_idle: None,
            active_timeout: None,
            groups_max: None,
            join_tuples_max: None,
            kept_flows_max: None,
            look_back_bytes_max: None,
            empty_windows_max: None,
        };
        let monitor::Config { flow, parsers, .. } = none.monitor();
        assert_eq!(parsers.rpc_bytes_max, bytes("4M").expect("a size"));
        assert_eq!(parsers.statement_bytes_max, bytes("8M").expect("a size"));
        assert_eq!(flow.tcp_idle_ns, duration("300s").expect("a time"));
        assert_eq!(flow.udp_idle_ns, duration("60s").expect("a time"));
        assert_eq!(flow.active_timeout_ns, None);
        assert_eq!(none.stream().join_rows_max, 1_048_576);
        assert_eq!(none.stream().empty_windows_max, 1000);
    }
}
