//! A flow rule.

use std::fmt;

use super::action::FlowAction;
use super::cookie::RuleCookie;
use crate::packets::PacketCube;

/// Match of a rule: a box, and conditions outside the model as text.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowMatch {
    /// Box.
    pub cube: PacketCube,
    /// Other conditions, sorted.
    pub other: Vec<String>,
}

impl From<PacketCube> for FlowMatch {
    fn from(cube: PacketCube) -> FlowMatch {
        FlowMatch {
            cube: cube.canonical(),
            other: Vec::new(),
        }
    }
}

/// See the module documentation.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowRule {
    /// Table number.
    pub table: u8,
    /// Priority; the highest matching rule applies.
    pub priority: u16,
    /// Cookie.
    pub cookie: RuleCookie,
    /// Match.
    pub matched: FlowMatch,
    /// Actions; empty: drop.
    pub actions: Vec<FlowAction>,
    /// Seconds without a packet after which the rule expires; 0: never.
    pub idle_timeout: u16,
    /// Seconds after which the rule expires; 0: never.
    pub hard_timeout: u16,
}

impl FlowRule {
    /// Identity of a rule on a switch.
    #[must_use]
    pub fn key(&self) -> (u8, u16, &FlowMatch) {
        (self.table, self.priority, &self.matched)
    }

    /// Text of the actions.
    #[must_use]
    pub fn actions_text(&self) -> String {
        let texts: Vec<String> = self.actions.iter().map(ToString::to_string).collect();
        if texts.is_empty() {
            "drop".to_owned()
        } else {
            texts.join(",")
        }
    }

    /// Output ports in its actions.
    pub fn outputs(&self) -> impl Iterator<Item = u32> + '_ {
        self.actions.iter().filter_map(|action| match action {
            FlowAction::Output { port, .. } => Some(*port),
            _ => None,
        })
    }
}

impl fmt::Display for FlowRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cookie={},table={},priority={}",
            self.cookie, self.table, self.priority
        )?;
        for (name, seconds) in [
            ("idle_timeout", self.idle_timeout),
            ("hard_timeout", self.hard_timeout),
        ] {
            if seconds != 0 {
                write!(f, ",{name}={seconds}")?;
            }
        }
        let matched = self.matched.to_string();
        if !matched.is_empty() {
            write!(f, ",{matched}")?;
        }
        write!(f, ",actions={}", self.actions_text())
    }
}
