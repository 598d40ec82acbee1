//! Compiles jobs to rules of one switch. Packets requested by several jobs are copied to all their targets: every
//! intersection has its own rule, above those of the larger boxes, so the highest matching rule has all targets.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use crate::mode::Part;
use crate::openflow::{Action, Cookie, Match, Owner, Rule};
use crate::packets::{Cube, Field};

/// Copies that a job requests from a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Number of the job.
    pub job: u32,
    /// Generation of the job.
    pub generation: u8,
    /// Requested packets.
    pub asked: Vec<Cube>,
    /// Input ports; empty: any.
    pub ports: Vec<u32>,
    /// Part of each packet.
    pub part: Part,
    /// Output port for copies: the monitor's, or a tunnel's.
    pub target: u32,
}

/// End of a tunnel for copies: its packets go only to a monitor's port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Landing {
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
pub enum Layout {
    /// Table 0 is ours: its rules copy and continue in this table.
    FirstTable {
        /// Number of that table.
        next: u8,
    },
    /// Table 0 has other rules: each of ours does the same as the rule below it, and copies.
    Beside {
        /// Rules of table 0, without ours.
        rules: Vec<Rule>,
    },
}

impl Layout {
    /// Layout for these rules of others: if table 0 sends everything to another table, it is ours.
    #[must_use]
    pub fn of(others: &[Rule]) -> Layout {
        let table: Vec<&Rule> = others.iter().filter(|rule| rule.table == 0).collect();
        match table.as_slice() {
            [only] if only.matched == Match::default() => match only.actions.as_slice() {
                [Action::Resubmit { port: None, table: Some(next) } | Action::Goto(next)] if *next > 0 => {
                    Layout::FirstTable { next: *next }
                }
                _ => Layout::Beside { rules: vec![(*only).clone()] },
            },
            rules => Layout::Beside { rules: rules.iter().map(|rule| (*rule).clone()).collect() },
        }
    }
}

impl Copy {
    /// Requested packets with the input ports.
    #[must_use]
    pub fn asked_at(&self) -> Vec<Cube> {
        let at = |port: &u32| {
            self.asked.iter().map(|cube| cube.with(Field::InPort, (*port).into())).collect::<Vec<Cube>>()
        };
        match self.ports.as_slice() {
            [] => self.asked.clone(),
            ports => ports.iter().flat_map(at).collect(),
        }
    }
}

/// Owner, lease and layout of rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Number of the server that owns the rules.
    pub server: u16,
    /// Seconds after which a rule expires unless renewed; 0: never.
    pub lease: u16,
    /// Placement relative to other rules.
    pub layout: Layout,
    /// Maximum number of rules.
    pub rules_max: usize,
}

/// Default maximum of rules per switch.
pub const RULES_MAX: usize = 4096;
/// Lowest priority of our rules in our own table.
const BASE: u16 = 0x4000;

/// Reason why there are no rules.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// Too many rules would be needed.
    #[error("more than {0} rules would be needed on one switch")]
    TooManyRules(usize),
    /// OpenFlow cannot express a match.
    #[error("{0}")]
    NoMatch(String),
    /// Rules of others have the highest priorities.
    #[error("no priority is left above a rule of others that matches packets that are asked for: {0}")]
    NoPriority(Box<Rule>),
    /// A job needs too many action lists.
    #[error("job {0} would need more than 256 different lists of actions")]
    TooManyActions(u32),
}

/// Targets and owner of a class of packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Class {
    /// Part of each packet per target.
    targets: BTreeMap<u32, Part>,
    /// The first job with its generation.
    owner: Option<(u32, u8)>,
}

impl Class {
    fn of(copy: &Copy) -> Class {
        let targets = BTreeMap::from([(copy.target, copy.part)]);
        Class { targets, owner: Some((copy.job, copy.generation)) }
    }

    fn and(mut self, other: &Class) -> Class {
        for (target, part) in &other.targets {
            // The largest requested part is copied for all jobs.
            let most = self.targets.entry(*target).or_insert(*part);
            *most = (*most).max(*part);
        }
        self.owner = self.owner.into_iter().chain(other.owner).min();
        self
    }

    fn actions(&self) -> Vec<Action> {
        let copy = |(target, part): (&u32, &Part)| Action::Output {
            port: *target,
            max_len: match part {
                Part::First(bytes) => Some((*bytes).into()),
                Part::Whole => None,
            },
        };
        self.targets.iter().map(copy).collect()
    }
}

/// Rules that copy the requested packets.
///
/// # Errors
/// See [`Refused`].
pub fn compose(copies: &[Copy], terms: &Terms) -> Result<Vec<Rule>, Refused> {
    compose_ends(copies, &[], terms)
}

/// Like [`compose`], for a switch that also has tunnel ends.
///
/// # Errors
/// See [`Refused`].
pub fn compose_ends(copies: &[Copy], landings: &[Landing], terms: &Terms) -> Result<Vec<Rule>, Refused> {
    let classes = classes(copies, terms.rules_max)?;
    let ranks = ranks(&classes);
    let mut rules = guards(copies, landings);
    match &terms.layout {
        Layout::FirstTable { next } => {
            for (cube, class) in &classes {
                let mut actions = class.actions();
                actions.push(Action::Resubmit { port: None, table: Some(*next) });
                let priority = BASE + ranks[cube];
                rules.push((
                    Rule { priority, matched: (*cube).into(), actions, ..Rule::default() },
                    class.owner,
                ));
            }
        }
        Layout::Beside { rules: others } => rules.extend(beside(&classes, &ranks, others)?),
    }
    if rules.len() > terms.rules_max {
        return Err(Refused::TooManyRules(terms.rules_max));
    }
    for (rule, _) in &rules {
        rule.matched.check().map_err(Refused::NoMatch)?;
    }
    own(rules, terms)
}

/// All intersections of the requested boxes with their jobs.
fn classes(copies: &[Copy], max: usize) -> Result<BTreeMap<Cube, Class>, Refused> {
    let mut classes: BTreeMap<Cube, Class> = BTreeMap::new();
    for copy in copies {
        for cube in copy.asked_at() {
            let class = Class::of(copy);
            let common = classes
                .iter()
                .filter_map(|(other, theirs)| Some((other.and(&cube)?, theirs.clone().and(&class))));
            let new: Vec<(Cube, Class)> = common.chain([(cube, class.clone())]).collect();
            for (cube, class) in new {
                let known = classes.remove(&cube).unwrap_or_default();
                classes.insert(cube, class.and(&known));
            }
            if classes.len() > max {
                return Err(Refused::TooManyRules(max));
            }
        }
    }
    let all = classes.clone();
    // A class with the same targets as the surrounding one needs no rule.
    classes.retain(|cube, class| {
        let mut around = all.iter().filter(|(other, _)| *other != cube && other.contains(cube)).peekable();
        around.peek().is_none() || around.any(|(_, other)| other.targets != class.targets)
    });
    Ok(classes)
}

/// Nesting depth of each class.
fn ranks(classes: &BTreeMap<Cube, Class>) -> BTreeMap<Cube, u16> {
    let mut cubes: Vec<&Cube> = classes.keys().collect();
    cubes.sort_by_key(|cube| cube.given());
    let mut ranks: BTreeMap<Cube, u16> = BTreeMap::new();
    for cube in cubes {
        let above = ranks.iter().filter(|(other, _)| other.contains(cube)).map(|(_, rank)| rank + 1).max();
        ranks.insert(*cube, above.unwrap_or(0));
    }
    ranks
}

type Owned = (Rule, Option<(u32, u8)>);

/// Rules for ports of copies. A monitor's port only receives: no packet from it is forwarded, and no address is learned
/// there. Packets from a tunnel go only to its monitor: the switch neither learns from them nor floods them.
fn guards(copies: &[Copy], landings: &[Landing]) -> Vec<Owned> {
    // Per port: the first job that needs the rule, and its actions.
    let mut ports: BTreeMap<u32, ((u32, u8), Vec<Action>)> = BTreeMap::new();
    let receiving = copies.iter().map(|copy| (copy.target, (copy.job, copy.generation), Vec::new()));
    let landed = landings.iter().flat_map(|end| {
        let owner = (end.job, end.generation);
        [(end.target, owner, Vec::new()), (end.tunnel, owner, vec![Action::output(end.target)])]
    });
    for (port, owner, actions) in receiving.chain(landed) {
        let known = ports.entry(port).or_insert((owner, Vec::new()));
        known.0 = known.0.min(owner);
        known.1.extend(actions.into_iter().filter(|action| !known.1.contains(action)).collect::<Vec<_>>());
    }
    let guard = |(port, (owner, actions)): (u32, ((u32, u8), Vec<Action>))| {
        let matched = Match::from(Cube::ALL.with(Field::InPort, port.into()));
        (Rule { priority: u16::MAX, matched, actions, ..Rule::default() }, Some(owner))
    };
    ports.into_iter().map(guard).collect()
}

/// A rule for each class combined with each rule it overlaps, in the order of both, and one for the class alone, whose
/// packets would be dropped.
fn beside(
    classes: &BTreeMap<Cube, Class>,
    ranks: &BTreeMap<Cube, u16>,
    others: &[Rule],
) -> Result<Vec<Owned>, Refused> {
    // Rules that match none of the classes are compatible at any priority.
    let meets = |rule: &&Rule| classes.keys().any(|cube| cube.and(&rule.matched.cube).is_some());
    let others: Vec<&Rule> = others.iter().filter(meets).collect();
    let priorities: BTreeSet<u16> = others.iter().map(|rule| rule.priority).collect();
    let top = priorities.last().copied().unwrap_or(0);
    let depth = ranks.values().max().map_or(0, |rank| usize::from(*rank) + 1);
    // Each rule of others has its own range of priorities; the lowest is for packets without a rule.
    let priority = |floor: usize, rank: u16| {
        let priority = usize::from(top) + 1 + floor * depth + usize::from(rank);
        let highest = || others.iter().max_by_key(|rule| rule.priority).map(|rule| Box::new((*rule).clone()));
        let priority = u16::try_from(priority).ok().filter(|p| *p < u16::MAX);
        priority.ok_or_else(|| Refused::NoPriority(highest().unwrap_or_default()))
    };
    let mut rules = Vec::new();
    for (cube, class) in classes {
        let rank = ranks[cube];
        let is_covered =
            others.iter().any(|rule| rule.matched.other.is_empty() && rule.matched.cube.contains(cube));
        if !is_covered {
            let matched = Match::from(*cube);
            let nothing =
                Rule { priority: priority(0, rank)?, matched, actions: class.actions(), ..Rule::default() };
            rules.push((nothing, class.owner));
        }
        for other in &others {
            let Some(both) = cube.and(&other.matched.cube) else { continue };
            let floor = 1 + priorities.range(..other.priority).count();
            let matched = Match { cube: both.canonical(), other: other.matched.other.clone() };
            // A meter precedes all actions of a list: packets that it drops are not copied.
            let is_meter =
                |action: &&Action| matches!(action, Action::Change(text) if text.starts_with("meter:"));
            let (meters, rest): (Vec<&Action>, Vec<&Action>) = other.actions.iter().partition(is_meter);
            let copied = class.actions();
            let actions = meters.into_iter().chain(&copied).chain(rest).cloned().collect();
            rules.push((
                Rule { priority: priority(floor, rank)?, matched, actions, ..Rule::default() },
                class.owner,
            ));
        }
    }
    Ok(rules)
}

/// Adds the lease and cookies, one per job and action list.
fn own(rules: Vec<Owned>, terms: &Terms) -> Result<Vec<Rule>, Refused> {
    let mut lists: BTreeMap<(u32, u8), BTreeSet<Vec<Action>>> = BTreeMap::new();
    for (rule, owner) in &rules {
        lists.entry(owner.unwrap_or_default()).or_default().insert(rule.actions.clone());
    }
    let own = |(mut rule, owner): Owned| {
        let (job, generation) = owner.unwrap_or_default();
        let place = lists[&(job, generation)].iter().position(|list| *list == rule.actions).unwrap_or(0);
        let actions = u8::try_from(place).map_err(|_| Refused::TooManyActions(job))?;
        rule.cookie = Cookie::of(Owner { server: terms.server, job, generation, actions });
        // Rules that send into a tunnel expire before those at its end, so that no packet from it is without a rule.
        let takes_from_tunnel = rule.priority == u16::MAX && !rule.actions.is_empty();
        rule.hard_timeout = if takes_from_tunnel { terms.lease.saturating_mul(2) } else { terms.lease };
        Ok(rule)
    };
    let mut rules: Vec<Rule> = rules.into_iter().map(own).collect::<Result<_, _>>()?;
    rules.sort();
    Ok(rules)
}
