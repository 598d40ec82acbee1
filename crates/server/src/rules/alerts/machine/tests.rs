//! Compares the machine with a slow, simple model that computes each state from all previous windows.

use proptest::prelude::*;

use super::*;

const STEP_NS: i64 = 10;

/// Whether a window meets the condition for a subject; `None`: not evaluated.
type Verdict = Option<bool>;

/// A window of a test: whether each group meets the condition, and whether an agent is missing.
#[derive(Clone, Debug)]
struct ExpectedWindow {
    groups: Vec<(u8, bool)>,
    lacks: bool,
}

fn window(at: usize, said: &ExpectedWindow) -> AlertWindow {
    let end_ns = (at as i64 + 1) * STEP_NS;
    let row = |is_true: bool| is_true.then(AlertDetails::default);
    AlertWindow {
        start_ns: end_ns - STEP_NS,
        end_ns,
        missing: if said.lacks {
            vec!["a".into()]
        } else {
            Vec::new()
        },
        groups: said
            .groups
            .iter()
            .map(|(group, is_true)| (group.to_string(), row(*is_true)))
            .collect(),
    }
}

fn verdict(policy: &AlertPolicy, subject: &AlertSubject, said: &ExpectedWindow) -> Verdict {
    let is_whole = !said.lacks || policy.on_missing_agents == OnMissingAgents::Judge;
    let is_empty = said.groups.is_empty();
    match subject {
        AlertSubject::MissingAgents => {
            (policy.on_missing_agents == OnMissingAgents::Alert).then_some(said.lacks)
        }
        AlertSubject::NoData if !is_empty => Some(false),
        AlertSubject::NoData if !is_whole => None,
        AlertSubject::NoData => match policy.on_no_data {
            OnNoData::Alert => Some(true),
            OnNoData::Resolve => Some(false),
            OnNoData::Hold => None,
        },
        // With missing agents, a condition met by the existing rows holds; one not met is undecided.
        AlertSubject::Group(group)
            if !is_whole && policy.on_missing_agents == OnMissingAgents::Alert =>
        {
            said.groups
                .iter()
                .any(|(of, is_true)| of.to_string() == *group && *is_true)
                .then_some(true)
        }
        AlertSubject::Group(_)
            if !is_whole || is_empty && policy.on_no_data != OnNoData::Resolve =>
        {
            None
        }
        AlertSubject::Group(group) => Some(
            said.groups
                .iter()
                .any(|(of, is_true)| of.to_string() == *group && *is_true),
        ),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpectedPhase {
    Nothing,
    Pending,
    Firing,
}

/// Verdicts of all windows for a subject; an initial window without rows gives none.
fn verdicts(
    policy: &AlertPolicy,
    subject: &AlertSubject,
    history: &[ExpectedWindow],
) -> Vec<Verdict> {
    let said = history.iter().enumerate();
    said.map(|(at, said)| {
        (at > 0 || !said.groups.is_empty())
            .then(|| verdict(policy, subject, said))
            .flatten()
    })
    .collect()
}

/// State of a subject after these verdicts, computed from all of them.
fn phase(policy: &AlertPolicy, verdicts: &[Verdict]) -> ExpectedPhase {
    let Some((last, before)) = verdicts.split_last() else {
        return ExpectedPhase::Nothing;
    };
    let was = phase(policy, before);
    let end = verdicts.len() as i64 * STEP_NS;
    let judged: Vec<(i64, bool)> = verdicts
        .iter()
        .enumerate()
        .filter_map(|(at, verdict)| Some((at as i64 * STEP_NS, (*verdict)?)))
        .collect();
    match (last, was) {
        (None, was) => was,
        (Some(true), ExpectedPhase::Firing) => ExpectedPhase::Firing,
        (Some(true), _) => {
            let run = judged
                .iter()
                .rev()
                .take_while(|(_, is_true)| *is_true)
                .last();
            let since = run.map_or(end, |(start, _)| *start);
            if end - since >= policy.for_ns {
                ExpectedPhase::Firing
            } else {
                ExpectedPhase::Pending
            }
        }
        (Some(false), ExpectedPhase::Firing) => {
            let last_true = judged
                .iter()
                .rev()
                .find(|(_, is_true)| *is_true)
                .map_or(0, |(start, _)| start + STEP_NS);
            if end - last_true >= policy.keep_firing_ns {
                ExpectedPhase::Nothing
            } else {
                ExpectedPhase::Firing
            }
        }
        (Some(false), _) => ExpectedPhase::Nothing,
    }
}

fn found(standing: &RuleState, subject: &AlertSubject) -> ExpectedPhase {
    match standing.alerts.get(subject).map(|alert| alert.state) {
        None | Some(AlertState::Resolved { .. }) => ExpectedPhase::Nothing,
        Some(AlertState::Pending) => ExpectedPhase::Pending,
        Some(AlertState::Firing { .. }) => ExpectedPhase::Firing,
    }
}

fn subjects() -> Vec<AlertSubject> {
    let groups = (0..3).map(|group| AlertSubject::Group(group.to_string()));
    groups
        .chain([AlertSubject::NoData, AlertSubject::MissingAgents])
        .collect()
}

fn policies() -> impl Strategy<Value = AlertPolicy> {
    let no_data = prop_oneof![
        Just(OnNoData::Alert),
        Just(OnNoData::Hold),
        Just(OnNoData::Resolve)
    ];
    let missing = prop_oneof![
        Just(OnMissingAgents::Alert),
        Just(OnMissingAgents::Hold),
        Just(OnMissingAgents::Judge)
    ];
    (0..5i64, 0..4i64, no_data, missing).prop_map(
        |(for_steps, keep_steps, on_no_data, on_missing_agents)| AlertPolicy {
            for_ns: for_steps * STEP_NS,
            keep_firing_ns: keep_steps * STEP_NS,
            on_no_data,
            on_missing_agents,
            groups_max: 10,
        },
    )
}

fn histories() -> impl Strategy<Value = Vec<ExpectedWindow>> {
    let group = prop::collection::vec((0..3u8, prop::bool::weighted(0.7)), 0..4);
    let said = (group, prop::bool::weighted(0.15)).prop_map(|(mut groups, lacks)| {
        groups.sort_by_key(|(group, _)| *group);
        groups.dedup_by_key(|(group, _)| *group);
        ExpectedWindow { groups, lacks }
    });
    prop::collection::vec(said, 0..40)
}

proptest! {
    #[test]
    fn machine_equals_a_simple_version(policy in policies(), history in histories()) {
        let mut standing = RuleState::default();
        let mut told: BTreeMap<AlertSubject, Vec<bool>> = BTreeMap::new();
        for (at, said) in history.iter().enumerate() {
            for (subject, alert) in standing.take(&policy, &window(at, said), &|_| false) {
                told.entry(subject).or_default().push(matches!(alert.state, AlertState::Firing { .. }));
            }
            for subject in subjects() {
                let verdicts = verdicts(&policy, &subject, &history[..=at]);
                prop_assert_eq!(found(&standing, &subject), phase(&policy, &verdicts), "{:?} after {}", subject, at);
            }
            // A window is evaluated only once.
            let before = standing.clone();
            prop_assert!(standing.take(&policy, &window(at, said), &|_| false).is_empty());
            prop_assert_eq!(&standing, &before);
        }
        for subject in subjects() {
            let mut expected = Vec::new();
            let verdicts = verdicts(&policy, &subject, &history);
            let is_firing = |upto: usize| phase(&policy, &verdicts[..upto]) == ExpectedPhase::Firing;
            for upto in 0..verdicts.len() {
                if is_firing(upto) != is_firing(upto + 1) {
                    expected.push(is_firing(upto + 1));
                }
            }
            prop_assert_eq!(told.remove(&subject).unwrap_or_default(), expected);
        }
    }

    #[test]
    fn silences_delay_alerts_and_keep_resolutions(
        policy in policies(), history in histories(), silenced in prop::collection::vec(any::<bool>(), 40),
    ) {
        let mut standing = RuleState::default();
        let mut known: BTreeMap<AlertSubject, bool> = BTreeMap::new();
        for (at, said) in history.iter().enumerate() {
            let is_silenced = |_: &AlertSubject| silenced[at];
            for (subject, alert) in standing.take(&policy, &window(at, said), &is_silenced) {
                let fires = matches!(alert.state, AlertState::Firing { .. });
                prop_assert!(!(fires && silenced[at]));
                // Firing and resolved alternate, starting with firing.
                prop_assert_eq!(known.insert(subject, fires).unwrap_or(false), !fires);
            }
            for subject in subjects() {
                let fires = found(&standing, &subject) == ExpectedPhase::Firing;
                let is_known = known.get(&subject).copied().unwrap_or(false);
                let is_right = if fires { is_known || silenced[at] } else { !is_known };
                prop_assert!(is_right);
            }
        }
    }
}

fn said(groups: &[(u8, bool)], lacks: bool) -> ExpectedWindow {
    ExpectedWindow {
        groups: groups.to_vec(),
        lacks,
    }
}

#[test]
fn missing_data_resolves_nothing_and_is_reported() {
    let policy = AlertPolicy {
        for_ns: 20,
        on_no_data: OnNoData::Resolve,
        groups_max: 10,
        ..AlertPolicy::default()
    };
    let mut standing = RuleState::default();
    let nobody = |_: &AlertSubject| false;
    for at in 0..2 {
        standing.take(&policy, &window(at, &said(&[(0, true)], false)), &nobody);
    }
    assert!(standing.stall(&policy, (20, 39), &nobody).is_empty());
    let told = standing.stall(&policy, (20, 40), &nobody);
    assert_eq!(
        told.iter()
            .map(|(subject, _)| subject.clone())
            .collect::<Vec<_>>(),
        [AlertSubject::NoData]
    );
    let group = &standing.alerts[&AlertSubject::Group("0".into())];
    assert_eq!(
        (group.held, matches!(group.state, AlertState::Firing { .. })),
        (Some(HoldReason::NoData), true)
    );
    // An empty window proves absence, unlike missing windows.
    let told = standing.take(&policy, &window(4, &said(&[], false)), &nobody);
    assert!(
        told.iter()
            .all(|(_, alert)| matches!(alert.state, AlertState::Resolved { .. }))
    );
    assert_eq!(told.len(), 2);
}

#[test]
fn groups_have_a_bound() {
    let policy = AlertPolicy {
        groups_max: 2,
        ..AlertPolicy::default()
    };
    let mut standing = RuleState::default();
    let told = standing.take(
        &policy,
        &window(0, &said(&[(0, true), (1, true), (2, true)], false)),
        &|_| false,
    );
    assert_eq!((told.len(), standing.left_out), (2, 1));
    // A resolved alert frees its slot.
    standing.take(
        &policy,
        &window(1, &said(&[(1, true), (2, true)], false)),
        &|_| false,
    );
    assert_eq!(
        found(&standing, &AlertSubject::Group("2".into())),
        ExpectedPhase::Firing
    );
}

#[test]
fn resolved_alerts_are_forgotten_later() {
    let policy = AlertPolicy {
        groups_max: 2,
        ..AlertPolicy::default()
    };
    let mut standing = RuleState::default();
    standing.take(&policy, &window(0, &said(&[(0, true)], false)), &|_| false);
    standing.take(&policy, &window(1, &said(&[(1, false)], false)), &|_| false);
    assert_eq!(standing.alerts.len(), 1);
    let mut late = window(1, &said(&[(1, false)], false));
    late.end_ns += SHOWN_NS;
    standing.take(&policy, &late, &|_| false);
    assert!(standing.alerts.is_empty());
}

#[test]
fn the_end_of_a_rule_ends_its_alerts() {
    let policy = AlertPolicy {
        for_ns: 20,
        groups_max: 2,
        ..AlertPolicy::default()
    };
    let mut standing = RuleState::default();
    standing.take(&policy, &window(0, &said(&[(0, true)], false)), &|_| false);
    standing.take(
        &policy,
        &window(1, &said(&[(0, true), (1, true)], false)),
        &|_| false,
    );
    let told = standing.end(20);
    assert_eq!(told.len(), 1);
    assert_eq!(standing.alerts.len(), 1);
}
