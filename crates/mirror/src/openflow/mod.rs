//! Flow rules as values and as text of `ovs-ofctl`: printed for the switch, and parsed from its dumps.

pub mod action;
pub mod cookie;
mod fields;
mod print;
mod read;
pub mod rule;

pub use action::FlowAction;
pub use cookie::{CookieOwner, RuleCookie};
pub use print::flow;
pub use read::{RuleReadError, read_actions, read_dump, read_match, read_rule};
pub use rule::{FlowMatch, FlowRule};

#[cfg(test)]
mod tests;
