//! Aggregators: if a pod has several monitors, a process in the pod merges their results and forwards one partial
//! result per window, which reduces the load on links above the pod. The paper's Algorithm 2 places them on spare
//! hosts, like monitors.
//!
//! The size of a merged result is unknown in advance. Monitors are assumed to find the same groups, so the estimate
//! is the maximum saving.

use plan::SampleMode;

use super::physical_plan::{AggregatorPart, MonitorPart, MonitorPlace, PhysicalPlan};
use super::request::{AggregatorMode, PlanningProblem};
use crate::placement::{NearbyScope, ProcessDemand, aggregators};
use crate::topology::{HostId, HostLauncher, PodId, ProcessNeed};

/// Cores of an aggregator, which merges a few groups per second.
const CORES: f64 = 0.05;

/// A monitor eligible for an aggregator.
struct AggregatorCandidate {
    /// Index of the monitor in the plan.
    at: usize,
    pod: PodId,
    /// Host of the monitor, or for a monitor on a switch, the first host at that switch.
    host: HostId,
    /// Resources of the monitor on that host.
    need: ProcessNeed,
    mbps: f64,
}

impl PlanningProblem<'_> {
    /// The plan's aggregators, and the reason if none could be placed.
    pub(super) fn aggregators(&self, plan: &PhysicalPlan) -> (Vec<AggregatorPart>, Option<String>) {
        let when = self.ask.aggregate;
        let mut candidates = self.candidates(plan);
        let is_above =
            |pod: PodId| when == AggregatorMode::Always || self.network.pod_up(pod) > 0.0;
        let of_pod: Vec<PodId> = candidates.iter().map(|candidate| candidate.pod).collect();
        let has_others = |pod: PodId| of_pod.iter().filter(|other| **other == pod).count() > 1;
        candidates.retain(|candidate| is_above(candidate.pod) && has_others(candidate.pod));
        let none = |why: &str| (Vec::new(), Some(why.to_owned()));
        match when {
            AggregatorMode::Never => return (Vec::new(), None),
            AggregatorMode::Auto if candidates.is_empty() => return (Vec::new(), None),
            AggregatorMode::Always if candidates.is_empty() => {
                return none("no pod has two monitors that are started from elsewhere");
            }
            AggregatorMode::Auto | AggregatorMode::Always => {}
        }
        if plan.dataflow.pipelines.is_empty() {
            return none("the result is tuples, which cannot be merged");
        }
        if self.ask.plan.monitor.sample == SampleMode::Auto {
            return none("with SAMPLE auto, each monitor controls the copies of its switches");
        }
        let monitors: Vec<(HostId, ProcessNeed, f64)> = candidates
            .iter()
            .map(|candidate| (candidate.host, candidate.need, candidate.mbps))
            .collect();
        // The output of a monitor goes to a single aggregator.
        let process = ProcessDemand {
            mbps: f64::MAX,
            cores: CORES,
            memory_gb: self.ask.costs.monitor.memory_gb,
        };
        // An aggregator must fit into BUDGET together with the monitors of its host, otherwise there is none.
        let most = self.ask.budget.cpu.unwrap_or(1.0);
        let network = self.free_on(|host| host.spare && is_elsewhere(&host.starts), most);
        let layer = aggregators(&network, &monitors, &process, NearbyScope::default());
        let mut parts = Vec::new();
        for (engine, at) in layer.engines.iter().zip(0..) {
            let streams = layer.streams.iter().filter(|stream| stream.to == Some(at));
            let of: Vec<&AggregatorCandidate> = streams
                .map(|stream| &candidates[stream.from as usize])
                .collect();
            // An aggregator in another pod, or for a single monitor, saves nothing.
            let is_in = |candidate: &&AggregatorCandidate| {
                candidate.pod == network.pod_of(network.rack_of(engine.host))
            };
            if of.len() < 2 || !of.iter().all(is_in) {
                continue;
            }
            parts.push(AggregatorPart {
                host: engine.host,
                name: self.ask.site.hosts[engine.host as usize].name.clone(),
                monitors: of.iter().map(|candidate| candidate.at).collect(),
                in_mbps: of.iter().map(|candidate| candidate.mbps).sum(),
                out_mbps: of
                    .iter()
                    .map(|candidate| candidate.mbps)
                    .fold(0.0, f64::max),
                cores: process.cores,
                memory_gb: process.memory_gb,
            });
        }
        if parts.is_empty() {
            none("no spare host of the pod that can start programs has capacity for one")
        } else {
            (parts, None)
        }
    }

    /// Monitors started on other machines. Results of monitors on this machine cross no link.
    fn candidates(&self, plan: &PhysicalPlan) -> Vec<AggregatorCandidate> {
        let candidate = |(at, part): (usize, &MonitorPart)| {
            let (host, need) = match part.place {
                MonitorPlace::Host(host) => {
                    let cores = part.cores;
                    let memory_gb = part.memory_gb;
                    let mirrored_mbps = part.mbps;
                    (
                        host,
                        ProcessNeed {
                            cores,
                            memory_gb,
                            mirrored_mbps,
                        },
                    )
                }
                MonitorPlace::Switch(switch) => {
                    let host = self.network.hosts_of(self.rack(switch)).next()?;
                    (
                        host,
                        ProcessNeed {
                            cores: 0.0,
                            memory_gb: 0.0,
                            mirrored_mbps: 0.0,
                        },
                    )
                }
            };
            part.starts(self.ask.site)
                .filter(|starts| is_elsewhere(starts))?;
            let pod = self.network.pod_of(self.network.rack_of(host));
            let mbps = self.results(&self.at.get(&part.switch)?.1);
            Some(AggregatorCandidate {
                at,
                pod,
                host,
                need,
                mbps,
            })
        };
        plan.monitors
            .iter()
            .enumerate()
            .filter_map(candidate)
            .collect()
    }
}

/// Whether programs are started there by a command prefix, and not on this machine.
fn is_elsewhere(starts: &HostLauncher) -> bool {
    starts.via.as_ref().is_some_and(|via| !via.is_empty())
}
