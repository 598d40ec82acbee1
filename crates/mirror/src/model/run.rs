//! A box of packets through the tables of one switch.

use std::collections::BTreeMap;

use super::switch::{FloodSetting, SwitchModel};
use crate::openflow::{FlowAction, FlowMatch, FlowRule};
use crate::packets::{MaskedBits, MatchField, PacketCube, PacketRegion};

/// Maximum depth of nested tables, as in Open vSwitch.
const DEPTH_MAX: usize = 64;

/// Conditions outside the model, one bit of [`MatchField::Other`] each. The numbering is valid for one comparison.
#[derive(Clone, Debug, Default)]
pub struct UnmodeledTerms(Vec<String>);

impl UnmodeledTerms {
    /// Bit of a condition; `None`: too many.
    fn bit(&mut self, text: String) -> Option<u128> {
        let at = self
            .0
            .iter()
            .position(|known| *known == text)
            .unwrap_or_else(|| {
                self.0.push(text);
                self.0.len() - 1
            });
        (at < 128).then(|| 1 << at)
    }

    /// Whether there were more conditions than bits.
    #[must_use]
    pub fn are_too_many(&self) -> bool {
        self.0.len() > 128
    }

    /// Conditions that hold for a packet.
    pub fn holding(&self, set: u128) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .enumerate()
            .filter(move |(i, _)| *i < 128 && set >> i & 1 == 1)
            .map(|(_, text)| text.as_str())
    }
}

/// Effect on a packet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PacketEffect {
    /// Output to a port.
    Output {
        /// Port number.
        port: u32,
        /// Maximum bytes.
        max_len: Option<u32>,
        /// State of the packet.
        state: PathState,
    },
    /// Output to the learned port of its destination, or flooding.
    Normal(PathState),
    /// Sent to the controller.
    Controller(String, PathState),
    /// Unknown.
    Unknown(String),
}

/// State of a packet on its path.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathState {
    /// Fields set to other values.
    pub set: BTreeMap<MatchField, u128>,
    /// Other changes.
    pub changes: Vec<String>,
}

impl PathState {
    /// Known bits of a field, for a packet of this box.
    #[must_use]
    pub fn get(&self, cube: &PacketCube, field: MatchField) -> MaskedBits {
        self.set.get(&field).map_or_else(
            || cube.get(field),
            |value| MaskedBits::new(*value, field.full()),
        )
    }
}

/// A matched rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleStep {
    /// Table number.
    pub table: u8,
    /// Index of the rule; `None`: none matched.
    pub rule: Option<usize>,
}

/// Packets with the same treatment.
#[derive(Clone, Debug)]
pub struct PacketClass {
    /// Packets, as they entered.
    pub region: PacketRegion,
    /// State of the packets.
    pub state: PathState,
    /// Effects, in order.
    pub effects: Vec<PacketEffect>,
    /// Matched rules.
    pub steps: Vec<RuleStep>,
}

impl PacketClass {
    /// A class without effects.
    #[must_use]
    pub fn new(region: PacketRegion, state: PathState) -> PacketClass {
        PacketClass {
            region,
            state,
            effects: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// Known bits of a field of its packets.
    #[must_use]
    pub fn get(&self, field: MatchField) -> MaskedBits {
        self.state.get(&self.region.cube, field)
    }

    fn to(&mut self, port: u32, max_len: Option<u32>) {
        self.effects.push(PacketEffect::Output {
            port,
            max_len,
            state: self.state.clone(),
        });
    }
}

impl SwitchModel {
    /// Runs a class through the tables; returns disjoint classes.
    #[must_use]
    pub fn run(&self, class: PacketClass, terms: &mut UnmodeledTerms) -> Vec<PacketClass> {
        let entered = class.get(MatchField::InPort);
        if entered.mask == MatchField::InPort.full() && self.is_mirror_output(entered.value as u32)
        {
            return vec![class];
        }
        self.lookup(class, 0, terms, 0)
    }

    fn lookup(
        &self,
        mut class: PacketClass,
        table: u8,
        terms: &mut UnmodeledTerms,
        depth: usize,
    ) -> Vec<PacketClass> {
        if depth >= DEPTH_MAX {
            class.effects.push(PacketEffect::Unknown(
                "tables that resubmit to each other endlessly".to_owned(),
            ));
            return vec![class];
        }
        let mut rest = Some(class.region.clone());
        let mut found = Vec::new();
        for (place, rule) in self
            .rules
            .iter()
            .enumerate()
            .filter(|(_, rule)| rule.table == table)
        {
            let Some(left) = &rest else { break };
            let Some(condition) = self.condition(&rule.matched, &class.state, terms) else {
                continue;
            };
            if let Some(region) = left.and(&condition) {
                let mut part = PacketClass {
                    region,
                    ..class.clone()
                };
                part.steps.push(RuleStep {
                    table,
                    rule: Some(place),
                });
                found.extend(self.act(part, rule, &rule.actions, terms, depth));
            }
            rest = left.without(&condition);
        }
        found.extend(rest.map(|region| {
            class.region = region;
            class.steps.push(RuleStep { table, rule: None });
            class
        }));
        found
    }

    /// Packets that match, in terms of their state on entry; `None`: none.
    fn condition(
        &self,
        matched: &FlowMatch,
        state: &PathState,
        terms: &mut UnmodeledTerms,
    ) -> Option<PacketCube> {
        let mut cube = matched.cube;
        for (field, value) in &state.set {
            if !cube.get(*field).admits(*value) {
                return None;
            }
            cube = cube.with_bits(*field, MaskedBits::default());
        }
        for text in &matched.other {
            let after = if state.changes.is_empty() {
                String::new()
            } else {
                format!(" after {}", state.changes.join(","))
            };
            // Without a free bit nothing is proved; see `UnmodeledTerms::are_too_many`.
            if let Some(bit) = terms.bit(format!("{}: {text}{after}", self.name)) {
                let bits = cube.get(MatchField::Other);
                cube = cube.with_bits(
                    MatchField::Other,
                    MaskedBits::new(bits.value | bit, bits.mask | bit),
                );
            }
        }
        Some(cube)
    }

    fn act(
        &self,
        mut class: PacketClass,
        rule: &FlowRule,
        actions: &[FlowAction],
        terms: &mut UnmodeledTerms,
        depth: usize,
    ) -> Vec<PacketClass> {
        for (i, action) in actions.iter().enumerate() {
            match action {
                FlowAction::Resubmit { port, table } => {
                    let table = table.unwrap_or(rule.table);
                    return self.elsewhere(
                        class,
                        (*port, table),
                        (rule, &actions[i + 1..]),
                        terms,
                        depth,
                    );
                }
                FlowAction::Goto(table) => return self.lookup(class, *table, terms, depth + 1),
                action => self.apply(&mut class, action),
            }
        }
        vec![class]
    }

    /// Runs another table, and then the following actions.
    fn elsewhere(
        &self,
        mut class: PacketClass,
        (port, table): (Option<u32>, u8),
        (rule, rest): (&FlowRule, &[FlowAction]),
        terms: &mut UnmodeledTerms,
        depth: usize,
    ) -> Vec<PacketClass> {
        let before = class.state.set.get(&MatchField::InPort).copied();
        if let Some(port) = port {
            class.state.set.insert(MatchField::InPort, port.into());
        }
        let mut after = Vec::new();
        for mut part in self.lookup(class, table, terms, depth + 1) {
            if port.is_some() {
                match before {
                    Some(before) => part.state.set.insert(MatchField::InPort, before),
                    None => part.state.set.remove(&MatchField::InPort),
                };
            }
            after.extend(self.act(part, rule, rest, terms, depth));
        }
        after
    }

    fn apply(&self, class: &mut PacketClass, action: &FlowAction) {
        let entered = class.get(MatchField::InPort);
        let is_entrance = |port: u32| {
            entered.mask == MatchField::InPort.full() && entered.value == u128::from(port)
        };
        match action {
            // A packet is not sent to its input port unless explicitly.
            FlowAction::Output { port, .. } if is_entrance(*port) => {}
            FlowAction::Output { port, max_len } => class.to(*port, *max_len),
            FlowAction::InPort => class.to(entered.value as u32, None),
            FlowAction::All | FlowAction::Flood => {
                let is_all = *action == FlowAction::All;
                let ports = self
                    .ports
                    .iter()
                    .filter(|port| is_all || port.flooded == FloodSetting::Yes);
                let ports: Vec<u32> = ports
                    .map(|port| port.number)
                    .filter(|port| !is_entrance(*port))
                    .collect();
                ports.into_iter().for_each(|port| class.to(port, None));
            }
            FlowAction::Normal => class
                .effects
                .push(PacketEffect::Normal(class.state.clone())),
            FlowAction::Controller(text) => {
                class
                    .effects
                    .push(PacketEffect::Controller(text.clone(), class.state.clone()));
            }
            FlowAction::Set { field, value, .. } => {
                class.state.set.insert(*field, *value);
            }
            FlowAction::Change(text) => class.state.changes.push(text.clone()),
            FlowAction::Unknown(text) => class.effects.push(PacketEffect::Unknown(text.clone())),
            // These actions continue in another table and are handled earlier.
            FlowAction::Resubmit { .. } | FlowAction::Goto(_) => {}
        }
    }
}
