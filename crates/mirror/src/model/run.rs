//! A box of packets through the tables of one switch.

use std::collections::BTreeMap;

use super::switch::{Flooded, Switch};
use crate::openflow::{Action, Match, Rule};
use crate::packets::{Bits, Cube, Field, Region};

/// Maximum depth of nested tables, as in Open vSwitch.
const DEPTH_MAX: usize = 64;

/// Conditions outside the model, one bit of [`Field::Other`] each. The numbering is valid for one comparison.
#[derive(Clone, Debug, Default)]
pub struct Terms(Vec<String>);

impl Terms {
    /// Bit of a condition; `None`: too many.
    fn bit(&mut self, text: String) -> Option<u128> {
        let at = self.0.iter().position(|known| *known == text).unwrap_or_else(|| {
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
pub enum Effect {
    /// Output to a port.
    Output {
        /// Port number.
        port: u32,
        /// Maximum bytes.
        max_len: Option<u32>,
        /// State of the packet.
        state: State,
    },
    /// Output to the learned port of its destination, or flooding.
    Normal(State),
    /// Sent to the controller.
    Controller(String, State),
    /// Unknown.
    Unknown(String),
}

/// State of a packet on its path.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct State {
    /// Fields set to other values.
    pub set: BTreeMap<Field, u128>,
    /// Other changes.
    pub changes: Vec<String>,
}

impl State {
    /// Known bits of a field, for a packet of this box.
    #[must_use]
    pub fn get(&self, cube: &Cube, field: Field) -> Bits {
        self.set.get(&field).map_or_else(|| cube.get(field), |value| Bits::new(*value, field.full()))
    }
}

/// A matched rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step {
    /// Table number.
    pub table: u8,
    /// Index of the rule; `None`: none matched.
    pub rule: Option<usize>,
}

/// Packets with the same treatment.
#[derive(Clone, Debug)]
pub struct Class {
    /// Packets, as they entered.
    pub region: Region,
    /// Their state.
    pub state: State,
    /// Effects, in order.
    pub effects: Vec<Effect>,
    /// Matched rules.
    pub steps: Vec<Step>,
}

impl Class {
    /// A class without effects.
    #[must_use]
    pub fn new(region: Region, state: State) -> Class {
        Class { region, state, effects: Vec::new(), steps: Vec::new() }
    }

    /// Known bits of a field of its packets.
    #[must_use]
    pub fn get(&self, field: Field) -> Bits {
        self.state.get(&self.region.cube, field)
    }

    fn to(&mut self, port: u32, max_len: Option<u32>) {
        self.effects.push(Effect::Output { port, max_len, state: self.state.clone() });
    }
}

impl Switch {
    /// Runs a class through the tables; returns disjoint classes.
    #[must_use]
    pub fn run(&self, class: Class, terms: &mut Terms) -> Vec<Class> {
        let entered = class.get(Field::InPort);
        if entered.mask == Field::InPort.full() && self.is_mirror_output(entered.value as u32) {
            return vec![class];
        }
        self.lookup(class, 0, terms, 0)
    }

    fn lookup(&self, mut class: Class, table: u8, terms: &mut Terms, depth: usize) -> Vec<Class> {
        if depth >= DEPTH_MAX {
            class.effects.push(Effect::Unknown("tables that send to each other without end".to_owned()));
            return vec![class];
        }
        let mut rest = Some(class.region.clone());
        let mut found = Vec::new();
        for (place, rule) in self.rules.iter().enumerate().filter(|(_, rule)| rule.table == table) {
            let Some(left) = &rest else { break };
            let Some(condition) = self.condition(&rule.matched, &class.state, terms) else { continue };
            if let Some(region) = left.and(&condition) {
                let mut part = Class { region, ..class.clone() };
                part.steps.push(Step { table, rule: Some(place) });
                found.extend(self.act(part, rule, &rule.actions, terms, depth));
            }
            rest = left.without(&condition);
        }
        found.extend(rest.map(|region| {
            class.region = region;
            class.steps.push(Step { table, rule: None });
            class
        }));
        found
    }

    /// Packets that match, in terms of their state on entry; `None`: none.
    fn condition(&self, matched: &Match, state: &State, terms: &mut Terms) -> Option<Cube> {
        let mut cube = matched.cube;
        for (field, value) in &state.set {
            if !cube.get(*field).admits(*value) {
                return None;
            }
            cube = cube.with_bits(*field, Bits::default());
        }
        for text in &matched.other {
            let after = if state.changes.is_empty() {
                String::new()
            } else {
                format!(" after {}", state.changes.join(","))
            };
            // Without a free bit nothing is proved; see `Terms::are_too_many`.
            if let Some(bit) = terms.bit(format!("{}: {text}{after}", self.name)) {
                let bits = cube.get(Field::Other);
                cube = cube.with_bits(Field::Other, Bits::new(bits.value | bit, bits.mask | bit));
            }
        }
        Some(cube)
    }

    fn act(
        &self,
        mut class: Class,
        rule: &Rule,
        actions: &[Action],
        terms: &mut Terms,
        depth: usize,
    ) -> Vec<Class> {
        for (i, action) in actions.iter().enumerate() {
            match action {
                Action::Resubmit { port, table } => {
                    let table = table.unwrap_or(rule.table);
                    return self.elsewhere(class, (*port, table), (rule, &actions[i + 1..]), terms, depth);
                }
                Action::Goto(table) => return self.lookup(class, *table, terms, depth + 1),
                action => self.apply(&mut class, action),
            }
        }
        vec![class]
    }

    /// Runs another table, and then the following actions.
    fn elsewhere(
        &self,
        mut class: Class,
        (port, table): (Option<u32>, u8),
        (rule, rest): (&Rule, &[Action]),
        terms: &mut Terms,
        depth: usize,
    ) -> Vec<Class> {
        let before = class.state.set.get(&Field::InPort).copied();
        if let Some(port) = port {
            class.state.set.insert(Field::InPort, port.into());
        }
        let mut after = Vec::new();
        for mut part in self.lookup(class, table, terms, depth + 1) {
            if port.is_some() {
                match before {
                    Some(before) => part.state.set.insert(Field::InPort, before),
                    None => part.state.set.remove(&Field::InPort),
                };
            }
            after.extend(self.act(part, rule, rest, terms, depth));
        }
        after
    }

    fn apply(&self, class: &mut Class, action: &Action) {
        let entered = class.get(Field::InPort);
        let is_entrance =
            |port: u32| entered.mask == Field::InPort.full() && entered.value == u128::from(port);
        match action {
            // A packet is not sent to its input port unless explicitly.
            Action::Output { port, .. } if is_entrance(*port) => {}
            Action::Output { port, max_len } => class.to(*port, *max_len),
            Action::InPort => class.to(entered.value as u32, None),
            Action::All | Action::Flood => {
                let is_all = *action == Action::All;
                let ports = self.ports.iter().filter(|port| is_all || port.flooded == Flooded::Yes);
                let ports: Vec<u32> =
                    ports.map(|port| port.number).filter(|port| !is_entrance(*port)).collect();
                ports.into_iter().for_each(|port| class.to(port, None));
            }
            Action::Normal => class.effects.push(Effect::Normal(class.state.clone())),
            Action::Controller(text) => {
                class.effects.push(Effect::Controller(text.clone(), class.state.clone()));
            }
            Action::Set { field, value, .. } => {
                class.state.set.insert(*field, *value);
            }
            Action::Change(text) => class.state.changes.push(text.clone()),
            Action::Unknown(text) => class.effects.push(Effect::Unknown(text.clone())),
            // These continue elsewhere and are handled before.
            Action::Resubmit { .. } | Action::Goto(_) => {}
        }
    }
}
