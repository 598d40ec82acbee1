//! Limits of a plan. They restrict the choice: the cheapest way within them is selected, and if there is none, the
//! query is rejected with the figure. An aggregator never causes a rejection: it is placed only if its host has
//! capacity within BUDGET in addition to the host's monitor, and only if it saves something.

use std::fmt;

use plan::NetworkBudget;

use super::physical_plan::PhysicalPlan;

/// The limit exceeded by a plan.
#[derive(Clone, Debug, PartialEq)]
pub enum BudgetExceeded {
    /// CPU share of a host.
    Cpu {
        /// The host.
        host: String,
        /// Required share, 0 to 1.
        needs: f64,
        /// Maximum share.
        most: f64,
    },
    /// Additional traffic on links.
    Bandwidth {
        /// Required Mb/s: copies and results.
        needs: f64,
        /// Maximum Mb/s.
        most: f64,
    },
}

/// The first limit exceeded by a plan.
pub(super) fn exceeded(plan: &PhysicalPlan, budget: NetworkBudget) -> Option<BudgetExceeded> {
    if let Some(most) = budget.cpu {
        let share = |monitor: &super::MonitorPart| monitor.cores / monitor.host_cores;
        let worst = plan
            .monitors
            .iter()
            .max_by(|a, b| share(a).total_cmp(&share(b)))?;
        if share(worst) > most {
            return Some(BudgetExceeded::Cpu {
                host: worst.host.clone(),
                needs: share(worst),
                most,
            });
        }
    }
    let needs = plan.taken.copied.0.iter().sum::<f64>() + plan.taken.results_mbps;
    budget
        .bandwidth_mbps
        .filter(|most| needs > *most)
        .map(|most| BudgetExceeded::Bandwidth { needs, most })
}

impl fmt::Display for BudgetExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BudgetExceeded::Cpu { host, needs, most } => write!(
                f,
                "the monitor on {host} needs {:.2} % of its cores; BUDGET allows {:.4} %",
                needs * 100.0,
                // 0.29 × 100 is not exactly 29.
                (most * 1e6).round() / 1e4
            ),
            BudgetExceeded::Bandwidth { needs, most } => {
                write!(
                    f,
                    "copies and results need {needs:.2} Mb/s; BUDGET allows {most} Mb/s"
                )
            }
        }
    }
}
