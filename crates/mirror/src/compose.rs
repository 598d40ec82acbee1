//! Compiles jobs to rules of one switch. Packets requested by several jobs are copied to all their targets: every
//! intersection has its own rule, above those of the larger boxes, so the highest matching rule has all targets.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use crate::mode::PacketPart;
use crate::openflow::{CookieOwner, FlowAction, FlowMatch, FlowRule, RuleCookie};
use crate::packets::{MatchField, PacketCube};

/// Copies that a job requests from a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchCopy {
    /// Number of the job.
    pub job: u32,
    /// Generation of the job.
    pub generation: u8,
    /// Requested packets.
    pub asked: Vec<PacketCube>,
    /// Input ports; empty: any.
    pub ports: Vec<u32>,
    /// Part of each packet.
    pub part: PacketPart,
    /// Output port for copies: the monitor's, or a tunnel's.
    pub target: u32,
}

/// End of a tunnel for copies: its packets go only to a monitor's port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelExit {
    /// Number of the job.
    pub job: u32,
    /// Generation of the job.
    pub generation: u8,
    /// Port of the tunnel.
    pub tunnel: u32,
    /// Port of the monitor.
    pub target: u32,
}

/// Placement of the copies relative to the switch's own rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleLayout {
    /// Table 0 is ours: its rules copy and continue in this table.
    FirstTable {
        /// Number of that table.
        next: u8,
    },
    /// Table 0 has other rules: each of ours does the same as the rule below it, and copies.
    Beside {
        /// Rules of table 0, without ours.
        rules: Vec<FlowRule>,
    },
}

impl RuleLayout {
    /// Layout for these rules of others: if table 0 sends everything to another table, it is ours.
    #[must_use]
    pub fn of(others: &[FlowRule]) -> RuleLayout {
        let table: Vec<&FlowRule> = others.iter().filter(|rule| rule.table == 0).collect();
        match table.as_slice() {
            [only] if only.matched == FlowMatch::default() => match only.actions.as_slice() {
                [
                    FlowAction::Resubmit {
                        port: None,
                        table: Some(next),
                    }
                    | FlowAction::Goto(next),
                ] if *next > 0 => RuleLayout::FirstTable { next: *next },
                _ => RuleLayout::Beside {
                    rules: vec![(*only).clone()],
                },
            },
            rules => RuleLayout::Beside {
                rules: rules.iter().map(|rule| (*rule).clone()).collect(),
            },
        }
    }
}

impl SwitchCopy {
    /// Requested packets with the input ports.
    #[must_use]
    pub fn asked_at(&self) -> Vec<PacketCube> {
        let at = |port: &u32| {
            self.asked
                .iter()
                .map(|cube| cube.with(MatchField::InPort, (*port).into()))
                .collect::<Vec<PacketCube>>()
        };
        match self.ports.as_slice() {
            [] => self.asked.clone(),
            ports => ports.iter().flat_map(at).collect(),
        }
    }
}

/// Owner, lease and layout of rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyTerms {
    /// Number of the server that owns the rules.
    pub server: u16,
    /// Seconds after which a rule expires unless renewed; 0: never.
    pub lease: u16,
    /// Placement relative to other rules.
    pub layout: RuleLayout,
    /// Maximum number of rules.
    pub rules_max: usize,
}

/// Default maximum of rules per switch.
pub const RULES_MAX: usize = 4096;
/// Lowest priority of our rules in our own table.
const BASE: u16 = 0x4000;

/// Reason why no rules can be composed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ComposeError {
    /// Too many rules would be needed.
    #[error("more than {0} rules would be needed on one switch")]
    TooManyRules(usize),
    /// OpenFlow cannot express a match.
    #[error("{0}")]
    NoMatch(String),
    /// Rules of others have the highest priorities.
    #[error("no priority is available above a foreign rule that matches requested packets: {0}")]
    NoPriority(Box<FlowRule>),
    /// A job needs too many action lists.
    #[error("job {0} would need more than 256 different lists of actions")]
    TooManyActions(u32),
}

/// Targets and owner of a class of packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct CopyClass {
    /// Part of each packet per target.
    targets: BTreeMap<u32, PacketPart>,
    /// The first job with its generation.
    owner: Option<(u32, u8)>,
}

impl CopyClass {
    fn of(copy: &SwitchCopy) -> CopyClass {
        let targets = BTreeMap::from([(copy.target, copy.part)]);
        CopyClass {
            targets,
            owner: Some((copy.job, copy.generation)),
        }
    }

    fn and(mut self, other: &CopyClass) -> CopyClass {
        for (target, part) in &other.targets {
            // The largest requested part is copied for all jobs.
            let most = self.targets.entry(*target).or_insert(*part);
            *most = (*most).max(*part);
        }
        self.owner = self.owner.into_iter().chain(other.owner).min();
        self
    }

    fn actions(&self) -> Vec<FlowAction> {
        let copy = |(target, part): (&u32, &PacketPart)| FlowAction::Output {
            port: *target,
            max_len: match part {
                PacketPart::First(bytes) => Some((*bytes).into()),
                PacketPart::Whole => None,
            },
        };
        self.targets.iter().map(copy).collect()
    }
}

/// Rules that copy the requested packets.
///
/// # Errors
/// See [`ComposeError`].
pub fn compose(copies: &[SwitchCopy], terms: &CopyTerms) -> Result<Vec<FlowRule>, ComposeError> {
    compose_ends(copies, &[], terms)
}

/// Like [`compose`], for a switch that also has tunnel ends.
///
/// # Errors
/// See [`ComposeError`].
pub fn compose_ends(
    copies: &[SwitchCopy],
    landings: &[TunnelExit],
    terms: &CopyTerms,
) -> Result<Vec<FlowRule>, ComposeError> {
    let classes = classes(copies, terms.rules_max)?;
    let ranks = ranks(&classes);
    let mut rules = guards(copies, landings);
    match &terms.layout {
        RuleLayout::FirstTable { next } => {
            for (cube, class) in &classes {
                let mut actions = class.actions();
                actions.push(FlowAction::Resubmit {
                    port: None,
                    table: Some(*next),
                });
                let priority = BASE + ranks[cube];
                rules.push((
                    FlowRule {
                        priority,
                        matched: (*cube).into(),
                        actions,
                        ..FlowRule::default()
                    },
                    class.owner,
                ));
            }
        }
        RuleLayout::Beside { rules: others } => rules.extend(beside(&classes, &ranks, others)?),
    }
    if rules.len() > terms.rules_max {
        return Err(ComposeError::TooManyRules(terms.rules_max));
    }
    for (rule, _) in &rules {
        rule.matched.check().map_err(ComposeError::NoMatch)?;
    }
    own(rules, terms)
}

/// All intersections of the requested boxes with their jobs.
fn classes(
    copies: &[SwitchCopy],
    max: usize,
) -> Result<BTreeMap<PacketCube, CopyClass>, ComposeError> {
    let mut classes: BTreeMap<PacketCube, CopyClass> = BTreeMap::new();
    for copy in copies {
        for cube in copy.asked_at() {
            let class = CopyClass::of(copy);
            let common = classes.iter().filter_map(|(other, theirs)| {
                Some((other.and(&cube)?, theirs.clone().and(&class)))
            });
            let new: Vec<(PacketCube, CopyClass)> = common.chain([(cube, class.clone())]).collect();
            for (cube, class) in new {
                let known = classes.remove(&cube).unwrap_or_default();
                classes.insert(cube, class.and(&known));
            }
            if classes.len() > max {
                return Err(ComposeError::TooManyRules(max));
            }
        }
    }
    let all = classes.clone();
    // A class with the same targets as the surrounding one needs no rule.
    classes.retain(|cube, class| {
        let mut around = all
            .iter()
            .filter(|(other, _)| *other != cube && other.contains(cube))
            .peekable();
        around.peek().is_none() || around.any(|(_, other)| other.targets != class.targets)
    });
    Ok(classes)
}

/// Nesting depth of each class.
fn ranks(classes: &BTreeMap<PacketCube, CopyClass>) -> BTreeMap<PacketCube, u16> {
    let mut cubes: Vec<&PacketCube> = classes.keys().collect();
    cubes.sort_by_key(|cube| cube.given());
    let mut ranks: BTreeMap<PacketCube, u16> = BTreeMap::new();
    for cube in cubes {
        let above = ranks
            .iter()
            .filter(|(other, _)| other.contains(cube))
            .map(|(_, rank)| rank + 1)
            .max();
        ranks.insert(*cube, above.unwrap_or(0));
    }
    ranks
}

type Owned = (FlowRule, Option<(u32, u8)>);

/// Rules for ports of copies. A monitor's port only receives: no packet from it is forwarded, and no address is learned
/// there. Packets from a tunnel go only to its monitor: the switch neither learns from them nor floods them.
fn guards(copies: &[SwitchCopy], landings: &[TunnelExit]) -> Vec<Owned> {
    // Per port: the first job that needs the rule, and its actions.
    let mut ports: BTreeMap<u32, ((u32, u8), Vec<FlowAction>)> = BTreeMap::new();
    let receiving = copies
        .iter()
        .map(|copy| (copy.target, (copy.job, copy.generation), Vec::new()));
    let landed = landings.iter().flat_map(|end| {
        let owner = (end.job, end.generation);
        [
            (end.target, owner, Vec::new()),
            (end.tunnel, owner, vec![FlowAction::output(end.target)]),
        ]
    });
    for (port, owner, actions) in receiving.chain(landed) {
        let known = ports.entry(port).or_insert((owner, Vec::new()));
        known.0 = known.0.min(owner);
        known.1.extend(
            actions
                .into_iter()
                .filter(|action| !known.1.contains(action))
                .collect::<Vec<_>>(),
        );
    }
    let guard = |(port, (owner, actions)): (u32, ((u32, u8), Vec<FlowAction>))| {
        let matched = FlowMatch::from(PacketCube::ALL.with(MatchField::InPort, port.into()));
        (
            FlowRule {
                priority: u16::MAX,
                matched,
                actions,
                ..FlowRule::default()
            },
            Some(owner),
        )
    };
    ports.into_iter().map(guard).collect()
}

/// A rule for each class combined with each rule it overlaps, in the order of both, and one for the class alone, whose
/// packets would be dropped.
fn beside(
    classes: &BTreeMap<PacketCube, CopyClass>,
    ranks: &BTreeMap<PacketCube, u16>,
    others: &[FlowRule],
) -> Result<Vec<Owned>, ComposeError> {
    // Rules that match none of the classes are compatible at any priority.
    let meets = |rule: &&FlowRule| {
        classes
            .keys()
            .any(|cube| cube.and(&rule.matched.cube).is_some())
    };
    let others: Vec<&FlowRule> = others.iter().filter(meets).collect();
    let priorities: BTreeSet<u16> = others.iter().map(|rule| rule.priority).collect();
    let top = priorities.last().copied().unwrap_or(0);
    let depth = ranks
        .values()
        .max()
        .map_or(0, |rank| usize::from(*rank) + 1);
    // Each rule of others has its own range of priorities; the lowest is for packets without a rule.
    let priority = |floor: usize, rank: u16| {
        let priority = usize::from(top) + 1 + floor * depth + usize::from(rank);
        let highest = || {
            others
                .iter()
                .max_by_key(|rule| rule.priority)
                .map(|rule| Box::new((*rule).clone()))
        };
        let priority = u16::try_from(priority).ok().filter(|p| *p < u16::MAX);
        priority.ok_or_else(|| ComposeError::NoPriority(highest().unwrap_or_default()))
    };
    let mut rules = Vec::new();
    for (cube, class) in classes {
        let rank = ranks[cube];
        let is_covered = others
            .iter()
            .any(|rule| rule.matched.other.is_empty() && rule.matched.cube.contains(cube));
        if !is_covered {
            let matched = FlowMatch::from(*cube);
            let nothing = FlowRule {
                priority: priority(0, rank)?,
                matched,
                actions: class.actions(),
                ..FlowRule::default()
            };
            rules.push((nothing, class.owner));
        }
        for other in &others {
            let Some(both) = cube.and(&other.matched.cube) else {
                continue;
            };
            let floor = 1 + priorities.range(..other.priority).count();
            let matched = FlowMatch {
                cube: both.canonical(),
                other: other.matched.other.clone(),
            };
            // A meter precedes all actions of a list: packets that it drops are not copied.
            let is_meter = |action: &&FlowAction| matches!(action, FlowAction::Change(text) if text.starts_with("meter:"));
            let (meters, rest): (Vec<&FlowAction>, Vec<&FlowAction>) =
                other.actions.iter().partition(is_meter);
            let copied = class.actions();
            let actions = meters
                .into_iter()
                .chain(&copied)
                .chain(rest)
                .cloned()
                .collect();
            rules.push((
                FlowRule {
                    priority: priority(floor, rank)?,
                    matched,
                    actions,
                    ..FlowRule::default()
                },
                class.owner,
            ));
        }
    }
    Ok(rules)
}

/// Adds the lease and cookies, one per job and action list.
fn own(rules: Vec<Owned>, terms: &CopyTerms) -> Result<Vec<FlowRule>, ComposeError> {
    let mut lists: BTreeMap<(u32, u8), BTreeSet<Vec<FlowAction>>> = BTreeMap::new();
    for (rule, owner) in &rules {
        lists
            .entry(owner.unwrap_or_default())
            .or_default()
            .insert(rule.actions.clone());
    }
    let own = |(mut rule, owner): Owned| {
        let (job, generation) = owner.unwrap_or_default();
        let place = lists[&(job, generation)]
            .iter()
            .position(|list| *list == rule.actions)
            .unwrap_or(0);
        let actions = u8::try_from(place).map_err(|_| ComposeError::TooManyActions(job))?;
        rule.cookie = RuleCookie::of(CookieOwner {
            server: terms.server,
            job,
            generation,
            actions,
        });
        // Rules that send into a tunnel expire before those at its end, so that no packet from it is without a rule.
        let takes_from_tunnel = rule.priority == u16::MAX && !rule.actions.is_empty();
        rule.hard_timeout = if takes_from_tunnel {
            terms.lease.saturating_mul(2)
        } else {
            terms.lease
        };
        Ok(rule)
    };
    let mut rules: Vec<FlowRule> = rules.into_iter().map(own).collect::<Result<_, _>>()?;
    rules.sort();
    Ok(rules)
}
