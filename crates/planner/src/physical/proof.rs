//! Proof of a plan on a model of the network: every requested packet is copied exactly once, and no other packet is
//! copied.

use std::collections::BTreeSet;

use mirror::{CopyExpectation, PacketPart as Bytes, StrayPolicy, prove};

use super::model::{self, monitor};
use super::parts::rules_on;
use super::physical_plan::{CopyProof, PacketPath, PhysicalPlan};
use super::request::PlanningProblem;
use crate::topology::HostId;

/// Maximum hosts: with more, the proof would delay the plan too much.
const PROVED_MAX: usize = 24;

impl PlanningProblem<'_> {
    /// Proves on the model that every requested packet is copied exactly once, and no other.
    pub(super) fn prove(&self, plan: &PhysicalPlan) -> Result<CopyProof, String> {
        if plan
            .switches
            .iter()
            .all(|part| part.way == PacketPath::Sniffer)
        {
            return Ok(CopyProof::NotNeeded);
        }
        let covered: BTreeSet<HostId> = plan
            .covered
            .iter()
            .flat_map(|covering| covering.hosts.iter().copied())
            .collect();
        if covered.len() > PROVED_MAX {
            return Ok(CopyProof::TooManyHosts);
        }
        let whole = plan.choice.mode.map_or(Bytes::Whole, |mode| mode.part);
        let wanted: Vec<CopyExpectation> = plan
            .switches
            .iter()
            .filter(|part| part.way != PacketPath::Sniffer)
            .map(|part| CopyExpectation {
                monitor: monitor(&part.name),
                enters: None,
                asked: part.asked.clone(),
                part: whole,
                others: match part.way {
                    PacketPath::Mirror { .. } => StrayPolicy::Tolerated,
                    PacketPath::Rules { .. }
                    | PacketPath::Tunnel { .. }
                    | PacketPath::Interface
                    | PacketPath::Sniffer => StrayPolicy::Never,
                },
            })
            .collect();
        let site = model::small(self.ask.site, &covered);
        // Forwarding rules name the hosts of the site, so rules next to them are generated again for the
        // representatives.
        let mut parts = plan.switches.clone();
        for part in parts.iter_mut().filter(|part| !part.rules.is_empty()) {
            if let Some(target) = model::target(part.way) {
                part.rules = rules_on(&site, part.switch, &part.asked, (whole, target))?;
            }
        }
        let before = model::network(&site, &parts, false);
        let after = model::network(&site, &parts, true);
        let proved = prove(&before, &after, &wanted, &|rule| rule.cookie.is_of(0));
        let proved = proved.map_err(|found| match found.first() {
            Some(example) => format!("the rules would have another effect: {example}"),
            None => "the rules could not be proved".to_owned(),
        })?;
        Ok(CopyProof::Holds(proved.classes))
    }
}
