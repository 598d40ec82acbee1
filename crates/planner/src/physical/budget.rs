//! Limits of a plan. They restrict the choice: the cheapest way within them is taken, and if there is none, the query
//! is rejected with the figure. An aggregator never causes a rejection: it is placed only where its host has room
//! within BUDGET in addition to the host's monitor, and only if it saves something.

use std::fmt;

use plan::Budget;

use super::value::PhysicalPlan;

/// Why a plan is too much.
#[derive(Clone, Debug, PartialEq)]
pub enum Exceeded {
    /// A host has to give more of its cores than it may.
    Cpu {
        /// The host.
        host: String,
        /// What it would give, 0 to 1.
        needs: f64,
        /// What it may.
        most: f64,
    },
    /// Links get more than they may.
    Bandwidth {
        /// What they would get in Mb/s: copies and results.
        needs: f64,
        /// What they may.
        most: f64,
    },
}

/// The first bound that a plan breaks.
pub(super) fn exceeded(plan: &PhysicalPlan, budget: Budget) -> Option<Exceeded> {
    if let Some(most) = budget.cpu {
        let share = |monitor: &super::MonitorPart| monitor.cores / monitor.host_cores;
        let worst = plan.monitors.iter().max_by(|a, b| share(a).total_cmp(&share(b)))?;
        if share(worst) > most {
            return Some(Exceeded::Cpu { host: worst.host.clone(), needs: share(worst), most });
        }
    }
    let needs = plan.taken.copied.0.iter().sum::<f64>() + plan.taken.results_mbps;
    budget.bandwidth_mbps.filter(|most| needs > *most).map(|most| Exceeded::Bandwidth { needs, most })
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exceeded::Cpu { host, needs, most } => write!(
                f,
                "the monitor on {host} would take {:.2} % of its cores, and BUDGET allows {:.4} %",
                needs * 100.0,
                // 0.29 × 100 is not 29 to the last bit.
                (most * 1e6).round() / 1e4
            ),
            Exceeded::Bandwidth { needs, most } => {
                write!(f, "copies and results would take {needs:.2} Mb/s, and BUDGET allows {most} Mb/s")
            }
        }
    }
}
