//! SAMPLE auto in a network: switches mirror fewer flows to a monitor that cannot keep up, as decided by
//! [`control::shares`]. Connects these decisions with monitors, switches, and the clock; changes are reported and kept
//! for the summary.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use control::shares::{MonitorReport, SampleShares, ShareAction, ShareChange};
use mirror::PacketSelection;
use mirror::sliced::{coin, level_max};
use monitor::sampling_control;
use monitor::sampling_control::RateHistory;
use plan::slice::share;
use plan::{FlowSlice, Plan, SampleMode};
use planner::physical::PacketPath;
use wire::Timestamp;

use super::process_group::ProcessReport;
use super::processes::RemoteProcess;
use super::switches::PlanSwitches;
use crate::network::plan::NetworkPlan;

/// See the module documentation.
pub struct NetworkSampling {
    shares: SampleShares,
    /// Per monitor: its switch, and the slices that can be mirrored there.
    of: Vec<(String, FlowSlice)>,
    began: Instant,
    /// Last reports of monitors, and changes of rates.
    said: Vec<MonitorReport>,
    pub history: RateHistory,
    pub notes: Vec<String>,
}

impl NetworkSampling {
    /// For the monitors of a plan. If no switch can mirror slices, monitors sample independently.
    pub fn new(plan: &Plan, planned: &NetworkPlan) -> NetworkSampling {
        let drawn = RandomState::new().hash_one(std::process::id()) as u16;
        let has_slices = plan.monitor.sample == SampleMode::Auto
            && planned
                .plan
                .choice
                .mode
                .is_some_and(|mode| mode.which != PacketSelection::Port);
        let mut of = Vec::new();
        let mut levels_max = Vec::new();
        for monitor in &planned.plan.monitors {
            let part = planned.plan.switch(monitor.switch);
            let sliceable = part.filter(|part| {
                has_slices
                    && matches!(
                        part.way,
                        PacketPath::Rules { .. }
                            | PacketPath::Tunnel { .. }
                            | PacketPath::Interface
                    )
            });
            let of_ports = sliceable.and_then(|part| Some((part, coin(&part.asked)?)));
            let slice = FlowSlice {
                coin: of_ports.map(|(_, coin)| coin).unwrap_or_default(),
                level: 0,
                drawn,
            };
            levels_max.push(of_ports.map_or(0, |(part, _)| level_max(&part.asked, slice)));
            of.push((
                part.map_or_else(String::new, |part| part.name.clone()),
                slice,
            ));
        }
        let said = vec![
            MonitorReport {
                rate: 1.0,
                ..MonitorReport::default()
            };
            of.len()
        ];
        let (history, notes) = Default::default();
        NetworkSampling {
            shares: SampleShares::new(&levels_max),
            of,
            began: Instant::now(),
            said,
            history,
            notes,
        }
    }

    /// Handles a message of a monitor.
    pub fn heed(&mut self, heard: &ProcessReport) {
        match heard {
            ProcessReport::Counted(at, counted) => self.hear(*at, counted),
            ProcessReport::Gone(at) => self.shares.gone(*at),
        }
    }

    /// Handles the counters of a monitor.
    fn hear(&mut self, monitor: usize, counted: &[(String, u64)]) {
        let before = self.said[monitor];
        let said = &mut self.said[monitor];
        for (name, n) in counted {
            match name.as_str() {
                "sample_ppm" => said.rate = *n as f64 / 1e6,
                "packets" => said.packets = *n,
                "strays" => said.strays = *n,
                "lost" => said.lost = *n,
                "slice_level" => said.level = (*n).min(FlowSlice::LEVEL_MAX.into()) as u8,
                _ => {}
            }
        }
        let said = *said;
        self.shares.said(self.began.elapsed(), monitor, said);
        if said.rate != before.rate {
            self.keep(
                monitor,
                said.rate,
                said.lost.saturating_sub(before.lost),
                self.shares.levels()[monitor],
            );
        }
    }

    /// Executes due actions.
    pub fn look(&mut self, monitors: &mut [RemoteProcess], switches: &mut PlanSwitches) {
        let mut actions = Vec::new();
        if let Some(went) = switches.changed() {
            actions.extend(self.shares.copied(self.began.elapsed(), went));
        }
        actions.extend(self.shares.look(self.began.elapsed()));
        for action in actions {
            match action {
                ShareAction::Tell { monitor, level } => {
                    monitors[monitor].slice(self.of[monitor].1.at(level))
                }
                ShareAction::Copy(levels) => {
                    let slice = |((switch, slice), level): (&(String, FlowSlice), u8)| {
                        (switch.clone(), slice.at(level))
                    };
                    let slices: BTreeMap<String, FlowSlice> =
                        self.of.iter().zip(levels).map(slice).collect();
                    switches.slice(&slices);
                }
            }
        }
        for change in self.shares.take_changes() {
            self.tell(&change, &monitors[change.monitor].host);
        }
    }

    fn tell(&mut self, change: &ShareChange, host: &str) {
        let ShareChange {
            monitor,
            level,
            rate,
            frozen,
        } = change;
        let switch = &self.of[*monitor].0;
        let part = match level {
            0 => "all".to_owned(),
            level => format!("1/{}", 1u32 << level),
        };
        self.notes.push(match frozen {
            Some(why) => format!("{switch} keeps copying {part} of the flows to the monitor on {host}: {why}"),
            None => format!(
                "{switch} copies {part} of the flows to the monitor on {host}, which processed {:.1} % of them",
                rate * 100.0
            ),
        });
        self.keep(*monitor, *rate, 0, *level);
    }

    fn keep(&mut self, monitor: usize, rate: f64, lost: u64, level: u8) {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let ts = Timestamp(i64::try_from(now.as_nanos()).unwrap_or(i64::MAX));
        let copied = share(level);
        self.history.add(sampling_control::RateChange {
            ts,
            worker: monitor,
            rate,
            backlog: 0.0,
            lost,
            ceiling: 1.0,
            copied,
        });
    }
}
