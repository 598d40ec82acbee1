//! Flags of `simulate`: network, workload, processes, strategies.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::builder::ValueHint;
use clap::{Args, Subcommand, ValueEnum};
use planner::placement::{NearbyScope, PlacementStrategy, ProcessDemand, STRATEGIES};
use planner::simulate::{
    FlowSizeDistribution, HostRanges, PlacementStudy, SIZES, SimulatedWorkload, TrafficLocality,
};
use planner::topology::LinkWeights;

use super::{OutputFormat, ProgressMode};
use crate::process::failure::wrong_flags;

/// Flags of `simulate`.
#[derive(Args, Debug)]
#[command(arg_required_else_help = false)]
pub struct SimulateFlags {
    #[command(subcommand)]
    pub what: SimulateCommand,
}

/// Subcommands of `simulate`.
#[derive(Debug, Subcommand)]
pub enum SimulateCommand {
    /// Compare strategies that place monitors and engines in a fat tree: extra bandwidth, processes
    #[command(after_help = super::help::PLACEMENT_EXAMPLES)]
    Placement(Box<PlacementFlags>),
}

/// Maximum number of flows in a workload.
const FLOWS_MAX: u32 = 100_000_000;
/// Maximum number of seeds.
const SEEDS_MAX: u64 = 10_000;

/// Flags of `simulate placement`.
#[derive(Args, Debug)]
pub struct PlacementFlags {
    /// Ports per switch of the fat tree: k pods, k³/4 hosts
    #[arg(long, value_name = "K", default_value = "16", help_heading = "Network")]
    k: usize,

    /// Capacity of each link and direction
    #[arg(long, value_name = "RATE", default_value = "10Gbps", value_parser = rate, help_heading = "Network")]
    link: f64,

    /// Memory of a host in GB, uniformly distributed
    #[arg(long, value_name = "FROM..TO", default_value = "32..128", value_parser = range, help_heading = "Network")]
    memory: RangeInclusive<f64>,

    /// Cores of a host, uniformly distributed
    #[arg(long, value_name = "FROM..TO", default_value = "12..24", value_parser = range, help_heading = "Network")]
    cores: RangeInclusive<f64>,

    /// Share of cores and memory in use by others
    #[arg(long, value_name = "FROM..TO", default_value = "40%..80%", value_parser = range, help_heading = "Network")]
    used: RangeInclusive<f64>,

    /// Number of flows in the network
    #[arg(long, value_name = "N", default_value = "1M", value_parser = count, help_heading = "Workload")]
    flows: u32,

    /// Total rate of the flows
    #[arg(long, value_name = "RATE", default_value = "1.2Tbps", value_parser = rate, help_heading = "Workload")]
    traffic: f64,

    /// Distribution of flow sizes
    #[arg(long, value_name = "HOW", default_value = "datacenter", value_parser = sizes, help_heading = "Workload")]
    sizes: FlowSizeDistribution,

    /// Shares of flows within a rack, within a pod, and across the core
    #[arg(long, value_name = "RACK,POD,CORE", default_value = "0.5,0.3,0.2", value_parser = three, help_heading = "Workload")]
    locality: [f64; 3],

    /// Relative number of flows per host, uniformly distributed
    #[arg(long, value_name = "FROM..TO", default_value = "2K..20K", value_parser = range, help_heading = "Workload")]
    flows_per_host: RangeInclusive<f64>,

    /// Numbers of monitored flows, separated by commas [default: tenths of all flows, or of a million]
    #[arg(long, value_name = "N", value_parser = count, value_delimiter = ',', help_heading = "Monitoring")]
    monitored: Vec<u32>,

    /// Capacity of a monitor: rate of packets, cores, GB of memory
    #[arg(long, value_name = "RATE,CORES,GB", default_value = "10Gbps,1,4", value_parser = process, help_heading = "Monitoring")]
    monitor: ProcessDemand,

    /// Capacity of an aggregator: rate of tuples, cores, GB of memory
    #[arg(long, value_name = "RATE,CORES,GB", default_value = "1Gbps,1,8", value_parser = process, help_heading = "Monitoring")]
    aggregator: ProcessDemand,

    /// Capacity of a processor: rate of tuples, cores, GB of memory
    #[arg(long, value_name = "RATE,CORES,GB", default_value = "500Mbps,1,4", value_parser = process, help_heading = "Monitoring")]
    processor: ProcessDemand,

    /// Size of tuples relative to the packets
    #[arg(long, value_name = "SHARE", default_value = "10%", value_parser = number, help_heading = "Monitoring")]
    extracted: f64,

    /// Strategies to compare, separated by commas [default: all]
    #[arg(long, value_name = "NAME", value_parser = strategy, value_delimiter = ',', help_heading = "Monitoring")]
    strategies: Vec<PlacementStrategy>,

    /// Search range of Algorithm 2 for a host
    #[arg(long, value_enum, default_value_t = NearbyFlag::Rack, value_name = "WHERE", help_heading = "Monitoring")]
    nearby: NearbyFlag,

    /// Weights of a Mb/s on links of hosts, of racks and of the core
    #[arg(long, value_name = "A,B,C", default_value = "1,2,4", value_parser = three, help_heading = "Monitoring")]
    weights: [f64; 3],

    /// Number of random repetitions
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=SEEDS_MAX))]
    pub seeds: u64,

    /// Random seed of the first repetition; the others use the following numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Write placement.csv, runs.csv and the paper's figures 7 and 8 (SVG) to this folder
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "Output")]
    pub output: Option<PathBuf>,

    /// Output format
    #[arg(long, value_enum, default_value_t = OutputFormat::Table, help_heading = "Output")]
    pub format: OutputFormat,

    /// Progress on standard error
    #[arg(long, value_enum, default_value_t = ProgressMode::Auto, value_name = "WHEN", help_heading = "Messages")]
    pub progress: ProgressMode,
}

/// See [`NearbyScope`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum NearbyFlag {
    /// The rack of the first monitor, then its pod (the paper's text)
    Rack,
    /// The pod (the printed algorithm)
    Pod,
}

impl PlacementFlags {
    /// The study of these flags.
    pub fn study(&self) -> anyhow::Result<PlacementStudy> {
        let [rack, pod, core] = self.locality;
        if rack + pod + core <= 0.0 {
            return Err(wrong_flags(
                "--locality: at least one share must be above 0",
            ));
        }
        if *self.used.end() > 1.0 {
            return Err(wrong_flags("--used: shares are from 0% to 100%"));
        }
        let is_whole = |cores: &f64| cores.fract() == 0.0 && *cores <= 4096.0;
        if !is_whole(self.cores.start()) || !is_whole(self.cores.end()) {
            return Err(wrong_flags("--cores: whole numbers up to 4096"));
        }
        let monitored = self.monitored();
        if let Some(most) = monitored.iter().find(|monitored| **monitored > self.flows) {
            return Err(wrong_flags(format!(
                "--monitored {most} exceeds --flows {}",
                self.flows
            )));
        }
        Ok(PlacementStudy {
            k: self.k,
            link_mbps: self.link,
            hosts: HostRanges {
                memory_gb: self.memory.clone(),
                cores: *self.cores.start() as u32..=*self.cores.end() as u32,
                used: self.used.clone(),
            },
            workload: SimulatedWorkload {
                flows: self.flows,
                mbps: self.traffic,
                flows_of_host: self.flows_per_host.clone(),
                locality: TrafficLocality { rack, pod, core },
                sizes: self.sizes,
            },
            monitored,
            monitor: self.monitor,
            aggregator: self.aggregator,
            processor: self.processor,
            extracted: self.extracted,
            weights: LinkWeights(self.weights),
            strategies: self.strategies(),
        })
    }

    fn monitored(&self) -> Vec<u32> {
        let most = self.flows.min(1_000_000);
        let tenths = (1..=10).map(|tenth| (u64::from(most) * tenth / 10) as u32);
        let mut monitored = if self.monitored.is_empty() {
            tenths.collect()
        } else {
            self.monitored.clone()
        };
        monitored.sort_unstable();
        monitored.dedup();
        monitored
    }

    fn strategies(&self) -> Vec<PlacementStrategy> {
        let chosen = if self.strategies.is_empty() {
            &STRATEGIES[..]
        } else {
            &self.strategies
        };
        let nearby = if self.nearby == NearbyFlag::Pod {
            NearbyScope::Pod
        } else {
            NearbyScope::Rack
        };
        let near = |strategy: &PlacementStrategy| match strategy {
            PlacementStrategy::NetalyticsNetwork(_) => PlacementStrategy::NetalyticsNetwork(nearby),
            other => *other,
        };
        chosen.iter().map(near).collect()
    }
}

/// `2K`, `1.2T`, `40%`.
fn number(text: &str) -> Result<f64, String> {
    const UNITS: [(char, f64); 5] = [('K', 1e3), ('M', 1e6), ('G', 1e9), ('T', 1e12), ('%', 0.01)];
    let unit = UNITS.iter().find(|(letter, _)| text.ends_with(*letter));
    let digits = unit.map_or(text, |(letter, _)| text.trim_end_matches(*letter));
    let value = digits
        .trim()
        .parse::<f64>()
        .ok()
        .map(|value| value * unit.map_or(1.0, |(_, unit)| *unit));
    value
        .filter(|value| value.is_finite() && *value >= 0.0)
        .ok_or_else(|| format!("{text:?} is not a number, such as 2K or 40%"))
}

/// A number of at least 1.
fn count(text: &str) -> Result<u32, String> {
    let value = number(text)?.round();
    let fits = (1.0..=f64::from(FLOWS_MAX)).contains(&value);
    fits.then_some(value as u32)
        .ok_or_else(|| format!("from 1 to {FLOWS_MAX}"))
}

/// `10Gbps` in Mb/s.
fn rate(text: &str) -> Result<f64, String> {
    let bits = text
        .strip_suffix("bps")
        .or(text.strip_suffix("b/s"))
        .ok_or("a rate as 10Gbps or 500Mbps")?;
    let mbps = number(bits)? / 1e6;
    if mbps > 0.0 {
        Ok(mbps)
    } else {
        Err("a rate above 0".into())
    }
}

/// `32..128`.
fn range(text: &str) -> Result<RangeInclusive<f64>, String> {
    let (low, high) = text.split_once("..").ok_or("a range as 32..128")?;
    let low = number(low)?;
    let high = number(high)?;
    if low <= high && high > 0.0 {
        Ok(low..=high)
    } else {
        Err("a range from low to high".into())
    }
}

fn three(text: &str) -> Result<[f64; 3], String> {
    let numbers = text
        .split(',')
        .map(number)
        .collect::<Result<Vec<f64>, String>>()?;
    numbers
        .try_into()
        .map_err(|_| "three numbers with commas".into())
}

fn process(text: &str) -> Result<ProcessDemand, String> {
    let parts: Vec<&str> = text.split(',').collect();
    let [mbps, cores, memory_gb] = parts[..] else {
        return Err("a rate, cores and GB, as 10Gbps,1,4".into());
    };
    Ok(ProcessDemand {
        mbps: rate(mbps)?,
        cores: number(cores)?,
        memory_gb: number(memory_gb)?,
    })
}

fn sizes(text: &str) -> Result<FlowSizeDistribution, String> {
    named(text, SIZES.iter().copied())
}

fn strategy(text: &str) -> Result<PlacementStrategy, String> {
    named(
        text,
        STRATEGIES
            .iter()
            .map(|strategy| (strategy.name(), *strategy)),
    )
}

fn named<T>(text: &str, all: impl Iterator<Item = (&'static str, T)> + Clone) -> Result<T, String> {
    let known = || {
        all.clone()
            .map(|(name, _)| name)
            .collect::<Vec<_>>()
            .join(", ")
    };
    all.clone()
        .find(|(name, _)| *name == text)
        .map(|(_, value)| value)
        .ok_or_else(|| format!("one of {}", known()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units() {
        for (text, expected) in [("2K", 2e3), ("1.2T", 1.2e12), ("40%", 0.4), ("7", 7.0)] {
            assert_eq!(number(text), Ok(expected), "{text}");
        }
        assert_eq!((rate("10Gbps"), rate("500Mb/s")), (Ok(10_000.0), Ok(500.0)));
        assert_eq!(range("40%..80%"), Ok(0.4..=0.8));
        for text in ["", "K", "-1", "1e999", "inf", "x"] {
            assert!(number(text).is_err(), "{text}");
        }
        assert!(
            rate("10G").is_err()
                && rate("0bps").is_err()
                && range("3..2").is_err()
                && range("3").is_err()
        );
        assert!(
            count("0").is_err()
                && count("101M").is_err()
                && three("1,2").is_err()
                && process("1Gbps,1").is_err()
        );
    }
}
