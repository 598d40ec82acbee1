//! Jobs on switches that do not respond or have rules of an exploration: two switches in memory, with copies to a port
//! of each.

use std::sync::{Arc, Mutex};

use mirror::ModelPacket;
use mirror::openflow::{FlowMatch, read_dump, read_rule};
use mirror::ovsdb::PortMirror;

use super::*;
use crate::backend::{Out, SwitchBackend, SwitchCapabilities};
use crate::controller::changed;
use crate::copy_job::SelectionMethod;

const SERVER: u16 = 7;
const NAMES: [&str; 2] = ["near", "far"];

/// A switch in memory.
#[derive(Default)]
struct MemorySwitch {
    rules: Vec<FlowRule>,
    /// Does not respond.
    is_silent: bool,
    /// Rejects changes of rules.
    refuses: bool,
}

#[derive(Clone, Default)]
struct FakeBackend(Arc<Mutex<MemorySwitch>>);

impl FakeBackend {
    fn change<T>(&self, act: impl FnOnce(&mut MemorySwitch) -> T) -> T {
        act(&mut self.0.lock().expect("no thread panics"))
    }

    fn answers<T>(&self, act: impl FnOnce(&mut MemorySwitch) -> T) -> Result<T, SwitchError> {
        self.change(|memory| {
            if memory.is_silent {
                Err(SwitchError::Silent {
                    program: "the switch".to_owned(),
                    seconds: 10,
                })
            } else {
                Ok(act(memory))
            }
        })
    }

    /// Jobs with rules on the switch.
    fn jobs(&self) -> BTreeSet<u32> {
        let job = |rule: &FlowRule| rule.cookie.owner().map(|owner| owner.job);
        self.change(|memory| memory.rules.iter().filter_map(job).collect())
    }
}

impl SwitchBackend for FakeBackend {
    fn capabilities(&self) -> SwitchCapabilities {
        SwitchCapabilities {
            leases: true,
            truncates: true,
            mirrors: false,
        }
    }

    fn list(&mut self) -> Result<ObservedSwitch, SwitchError> {
        let port = |number| {
            (
                number,
                format!("v{number}"),
                FloodSetting::No,
                mirror::model::PortVlans::All,
            )
        };
        let ports = [1, 7, 8, 9].map(port).to_vec();
        self.answers(|memory| ObservedSwitch {
            rules: memory.rules.clone(),
            ports,
            mirrors: Vec::new(),
            bonds: Vec::new(),
            records: Vec::new(),
        })
    }

    fn apply(&mut self, operations: &[RuleOperation]) -> Result<(), SwitchError> {
        let refused = || SwitchError::Refused {
            program: "the switch".to_owned(),
            said: "no".to_owned(),
        };
        let is_change = |operation: &RuleOperation| !matches!(operation, RuleOperation::Renew(..));
        self.answers(|memory| {
            if memory.refuses && operations.iter().any(is_change) {
                Err(refused())
            } else {
                memory.rules = changed(std::mem::take(&mut memory.rules), operations);
                Ok(())
            }
        })?
    }

    fn trace(&mut self, _: &ModelPacket) -> Result<Option<Vec<Out>>, SwitchError> {
        self.answers(|_| None)
    }

    fn keep_floods_from(&mut self, _: u32) -> Result<(), SwitchError> {
        self.answers(|_| ())
    }

    fn add_mirror(&mut self, _: &PortMirror) -> Result<(), SwitchError> {
        self.answers(|_| ())
    }

    fn remove_mirror(&mut self, _: &str) -> Result<(), SwitchError> {
        self.answers(|_| ())
    }
}

fn network() -> ([FakeBackend; 2], RuleReconciler) {
    let fakes = [FakeBackend::default(), FakeBackend::default()];
    let site = |(name, fake): (&str, &FakeBackend)| {
        fake.change(|memory| {
            memory.rules = read_dump("priority=0,actions=NORMAL").expect("a rule")
        });
        SwitchSite {
            name: name.to_owned(),
            backend: Box::new(fake.clone()),
            tunnel_address: None,
        }
    };
    let sites = NAMES.into_iter().zip(&fakes).map(site).collect();
    (
        fakes,
        RuleReconciler::new(SERVER, 10, sites, NetworkMap::default()),
    )
}

/// A job that copies packets to a TCP port at this switch.
fn job(id: u32, switch: &str, matched: &str, monitor: u32) -> CopyJob {
    let asked: FlowMatch = mirror::openflow::read_match(matched);
    let tap = CopyTap {
        switch: switch.to_owned(),
        asked: vec![asked.cube],
        how: SelectionMethod::Rules(Vec::new()),
        part: mirror::PacketPart::Whole,
        monitor: format!("monitor {id}"),
        to: CopyRoute::Port(format!("v{monitor}")),
    };
    CopyJob {
        id,
        generation: 1,
        taps: vec![tap],
    }
}

/// Two jobs on the first switch.
fn at_work() -> ([FakeBackend; 2], RuleReconciler) {
    let (fakes, mut carrier) = network();
    carrier
        .start(job(1, "near", "tcp,tp_dst=80", 8))
        .expect("it does");
    carrier
        .start(job(2, "near", "tcp,tp_dst=81", 9))
        .expect("it does");
    assert_eq!(fakes[0].jobs(), [1, 2].into());
    (fakes, carrier)
}

fn is_silent(fake: &FakeBackend, is_silent: bool) {
    fake.change(|memory| memory.is_silent = is_silent);
}

#[test]
fn others_stay_when_a_switch_does_not_answer_to_one_that_starts() {
    let ([near, far], mut carrier) = at_work();
    is_silent(&far, true);
    let refused = carrier
        .start(job(3, "near", "tcp,tp_dst=82", 7))
        .expect_err("one is away");
    assert_eq!(
        refused.to_string(),
        "switch far: the switch did not respond for 10 s"
    );
    assert_eq!((near.jobs(), carrier.lost().len()), ([1, 2].into(), 0));
    carrier.renew();
    is_silent(&far, false);
    carrier
        .start(job(3, "near", "tcp,tp_dst=82", 7))
        .expect("it answers again");
    assert_eq!((near.jobs(), carrier.lost().len()), ([1, 2, 3].into(), 0));
}

#[test]
fn others_stay_when_a_switch_does_not_answer_to_one_that_stops() {
    let ([near, far], mut carrier) = at_work();
    is_silent(&far, true);
    carrier.stop((1, 1)).expect_err("one is away");
    carrier.renew();
    assert_eq!((near.jobs(), carrier.lost().len()), ([1, 2].into(), 0));
    // Rules of the silent switch are removed as soon as the removal can be proved.
    is_silent(&far, false);
    carrier.renew();
    assert_eq!((near.jobs(), carrier.lost().len()), ([2].into(), 0));
}

/// Changes of a switch are undone; if that is impossible, too, no job continues.
#[test]
fn jobs_end_when_changes_cannot_be_undone() {
    let ([near, far], mut carrier) = at_work();
    far.change(|memory| memory.refuses = true);
    let mut both = job(3, "near", "tcp,tp_dst=82", 7);
    both.taps.extend(job(3, "far", "tcp,tp_dst=82", 7).taps);
    carrier.start(both).expect_err("one refuses");
    assert_eq!(
        (near.jobs(), carrier.lost().len()),
        ([1, 2].into(), 0),
        "it was taken back"
    );
    near.change(|memory| memory.refuses = true);
    carrier.stop((1, 1)).expect_err("it refuses");
    assert_eq!(carrier.lost().keys().collect::<Vec<_>>(), [&(2, 1)]);
}

/// Harmful rules of others end jobs.
#[test]
fn jobs_end_when_forwarding_is_unknown() {
    let ([near, _], mut carrier) = at_work();
    let strange = |line: &str| read_rule(line).expect("a rule");
    near.change(|memory| memory.rules.push(strange("priority=9,tcp,actions=group:1")));
    carrier.renew();
    assert_eq!(
        carrier.lost().keys().collect::<Vec<_>>(),
        [&(1, 1), &(2, 1)]
    );
}

#[test]
fn exploration_rules_have_no_owner() {
    let ([near, _], mut carrier) = at_work();
    let cookie = mirror::openflow::RuleCookie::of_exploration(SERVER + 1);
    let learns = format!(
        "cookie={cookie},table=0,priority=65535,dl_type=0x88b5,actions=learn(table=253,priority=1,cookie={cookie},NXM_OF_IN_PORT[])"
    );
    let rule = read_rule(&learns).expect("a rule");
    near.change(|memory| memory.rules.push(rule.clone()));
    carrier.renew();
    assert!(carrier.lost().is_empty(), "{:?}", carrier.lost());
    carrier
        .start(job(3, "near", "tcp,tp_dst=82", 7))
        .expect("it does");
    carrier.stop((1, 1)).expect("it does");
    assert_eq!(near.jobs(), [0, 2, 3].into());
    assert!(near.change(|memory| memory.rules.contains(&rule)));
}
