//! Single rules by hand; invariants for all policies under random loads.

use super::*;

const SECOND: i64 = 1_000_000_000;

fn policy() -> ScalingPolicy {
    ScalingPolicy {
        upper: 100.0,
        lower: 25.0,
        min: 1,
        max: 4,
        step: 1,
        up_for_ns: 0,
        down_for_ns: 2 * SECOND,
        backoff_ns: 3 * SECOND,
        groups_max: 3,
    }
}

fn window(second: i64, values: &[(&str, f64)]) -> LoadWindow {
    LoadWindow {
        start_ns: second * SECOND,
        end_ns: (second + 1) * SECOND,
        values: values
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value))
            .collect(),
        rest: Some(0.0),
        ..LoadWindow::default()
    }
}

fn said(decision: Option<ScalingDecision>) -> String {
    let Some(ScalingDecision {
        version,
        direction,
        changes,
    }) = decision
    else {
        return "-".into();
    };
    let changes = changes
        .iter()
        .map(|change| format!(" {}:{}>{}", change.group, change.from, change.to));
    format!("{version} {direction:?}{}", changes.collect::<String>())
}

/// Compares the decisions for a load of `a` per second.
fn check(policy: &ScalingPolicy, loads: &[f64], expected: &[&str]) {
    let mut standing = ScalingState::default();
    let take = |(second, load): (usize, &f64)| {
        said(standing.take(
            policy,
            &window(second as i64, &[("a", *load)]),
            ExecutorState::Free,
        ))
    };
    let found: Vec<String> = loads.iter().enumerate().map(take).collect();
    assert_eq!(found, expected, "{loads:?}");
}

#[test]
fn load_adds_and_takes_away_one_by_one() {
    // Load above one replica's limit; load for two replicas; a backoff of three seconds.
    check(
        &policy(),
        &[100.0, 101.0, 250.0, 250.0, 250.0, 250.0, 300.0],
        &["-", "1 Up a:1>2", "-", "-", "2 Up a:2>3", "-", "-"],
    );
    // Below a quarter for two consecutive seconds.
    check(
        &policy(),
        &[150.0, 40.0, 60.0, 40.0, 60.0, 40.0, 40.0, 40.0],
        &["1 Up a:1>2", "-", "-", "-", "-", "-", "2 Down a:2>1", "-"],
    );
    check(
        &ScalingPolicy {
            step: 9,
            ..policy()
        },
        &[350.0, 9000.0],
        &["1 Up a:1>4", "-"],
    );
    check(
        &ScalingPolicy {
            up_for_ns: 2 * SECOND,
            ..policy()
        },
        &[150.0, 90.0, 150.0, 150.0],
        &["-", "-", "-", "1 Up a:1>2"],
    );
    check(
        &ScalingPolicy { min: 2, ..policy() },
        &[150.0, 250.0],
        &["-", "1 Up a:2>3"],
    );
    // Never exceeds the maximum, even for infinity and NaN.
    check(
        &ScalingPolicy {
            max: 2,
            step: 9,
            ..policy()
        },
        &[f64::INFINITY, f64::NAN],
        &["1 Up a:1>2", "-"],
    );
}

#[test]
fn adding_comes_first_and_groups_change_together() {
    let policy = policy();
    let mut standing = ScalingState::default();
    let mut take = |second, values: &[(&str, f64)]| {
        said(standing.take(&policy, &window(second, values), ExecutorState::Free))
    };
    assert_eq!(
        take(0, &[("a", 150.0), ("b", 150.0), ("c", 5.0)]),
        "1 Up a:1>2 b:1>2"
    );
    assert_eq!(take(1, &[("b", 250.0)]), "-");
    assert_eq!(take(2, &[("b", 250.0)]), "-");
    assert_eq!(take(3, &[("b", 250.0)]), "2 Up b:2>3");
    for second in 4..6 {
        assert_eq!(take(second, &[("b", 250.0)]), "-");
    }
    assert_eq!(take(6, &[("b", 250.0)]), "3 Down a:2>1");
}

#[test]
fn unknown_load_removes_no_replica() {
    let policy = policy();
    let mut first = ScalingState::default();
    first.take(&policy, &window(0, &[("a", 150.0)]), ExecutorState::Free);
    let run = |change: &dyn Fn(LoadWindow) -> LoadWindow| {
        let mut standing = first.clone();
        let take = |second| {
            standing
                .take(&policy, &change(window(second, &[])), ExecutorState::Free)
                .is_some()
        };
        (1..10).any(take)
    };
    assert!(run(&|window| window));
    // Agents are missing; or the list is full and the group may be just below it.
    assert!(!run(&|window| LoadWindow {
        missing: vec!["web".into()],
        ..window
    }));
    assert!(!run(&|window| LoadWindow {
        rest: Some(60.0),
        ..window
    }));
    assert!(!run(&|window| LoadWindow {
        rest: None,
        ..window
    }));
    assert!(run(&|window| LoadWindow {
        rest: Some(40.0),
        ..window
    }));
}

#[test]
fn while_a_decision_is_on_its_way_there_is_no_other() {
    let policy = policy();
    let mut standing = ScalingState::default();
    let load = [("a", 900.0)];
    assert!(
        standing
            .take(&policy, &window(0, &load), ExecutorState::Free)
            .is_some()
    );
    let waits = |standing: &mut ScalingState, seconds: std::ops::Range<i64>, hands| {
        seconds
            .map(|s| standing.take(&policy, &window(s, &load), hands).is_some())
            .collect::<Vec<_>>()
    };
    assert_eq!(waits(&mut standing, 1..9, ExecutorState::Busy), [false; 8]);
    // The backoff starts when the decision has been carried out.
    assert_eq!(
        waits(&mut standing, 9..12, ExecutorState::Free),
        [false, false, true]
    );
    // A window is evaluated only once.
    let before = standing.clone();
    assert_eq!(
        standing.take(&policy, &window(11, &load), ExecutorState::Free),
        None
    );
    assert_eq!(standing, before);
}

#[test]
fn groups_are_bounded() {
    let policy = policy();
    let mut standing = ScalingState::default();
    let loads = ["a", "b", "c", "d", "e"].map(|name| (name, 150.0));
    standing.take(&policy, &window(0, &loads), ExecutorState::Free);
    assert_eq!((standing.groups.len(), standing.left_out), (3, 2));
    for second in 1..20 {
        standing.take(&policy, &window(second, &[]), ExecutorState::Free);
    }
    assert_eq!((standing.groups.len(), standing.most(&policy)), (0, 1));
}

/// Seeded random numbers.
struct LoadDice(u64);

impl LoadDice {
    /// Uniform in [0, 1).
    fn share(&mut self) -> f64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn up_to(&mut self, most: u32) -> u32 {
        (self.share() * f64::from(most)) as u32
    }

    /// A random valid policy.
    fn policy(&mut self) -> ScalingPolicy {
        let upper = 1.0 + self.share() * 1000.0;
        let min = 1 + self.up_to(3);
        ScalingPolicy {
            upper,
            lower: upper * (0.02 + 0.48 * self.share()),
            min,
            max: min + self.up_to(10),
            step: 1 + self.up_to(4),
            up_for_ns: i64::from(self.up_to(4)) * SECOND,
            down_for_ns: i64::from(self.up_to(6)) * SECOND,
            backoff_ns: i64::from(self.up_to(6)) * SECOND,
            groups_max: 100,
        }
    }
}

/// A load within a band at most `upper / (2 × lower)` wide changes replicas in one direction only, then no more.
#[test]
fn a_noisy_load_never_moves_replicas_both_ways() {
    for seed in 0..2000 {
        let mut dice = LoadDice(seed);
        let policy = dice.policy();
        let width = policy.upper / (2.0 * policy.lower);
        let least = policy.upper * f64::from(policy.min) * (0.2 + 12.0 * dice.share());
        let mut standing = ScalingState::default();
        // The initial load is arbitrary: none, or a high one.
        let before = dice.share() * 20.0 * policy.upper;
        for second in 0..60 {
            standing.take(
                &policy,
                &window(second, &[("a", before)]),
                ExecutorState::Free,
            );
        }
        let mut directions = Vec::new();
        for second in 60..660 {
            // Within the band, often at its limits.
            let place = (dice.share() * 1.5 - 0.25).clamp(0.0, 1.0);
            let load = least * (1.0 + (width - 1.0) * place) * 0.999_999;
            let load = load.max(least);
            if let Some(decision) = standing.take(
                &policy,
                &window(second, &[("a", load)]),
                ExecutorState::Free,
            ) {
                directions.push(decision.direction);
            }
        }
        directions.dedup();
        assert!(
            directions.len() <= 1,
            "seed {seed}: {directions:?} {policy:?}"
        );
    }
}

/// For any load: at most one decision per backoff, replicas within their limits, each change consistent with the
/// previous state; and the same windows give the same decisions, also if the state is stored and loaded in between.
#[test]
fn limits_hold_under_any_load() {
    for seed in 0..500 {
        let mut dice = LoadDice(seed);
        let policy = dice.policy();
        let (mut standing, mut replicas, mut decided) =
            (ScalingState::default(), BTreeMap::new(), Vec::new());
        for second in 0..300 {
            let mut values = BTreeMap::new();
            for group in 0..5 {
                if dice.share() < 0.8 {
                    let spike = if dice.share() < 0.1 { 50.0 } else { 1.0 };
                    values.insert(
                        format!("/{group}"),
                        policy.upper * 4.0 * dice.share() * spike,
                    );
                }
            }
            let window = LoadWindow {
                values,
                ..window(second, &[])
            };
            let hands = if dice.share() < 0.2 {
                ExecutorState::Busy
            } else {
                ExecutorState::Free
            };
            let text = serde_json::to_string(&standing).expect("text");
            let mut again: ScalingState = serde_json::from_str(&text).expect("the same");
            let decision = standing.take(&policy, &window, hands);
            assert_eq!(again.take(&policy, &window, hands), decision, "seed {seed}");
            let Some(decision) = decision else { continue };
            assert_eq!(
                (hands, decision.version),
                (ExecutorState::Free, decided.len() as u64 + 1)
            );
            decided.push(window.end_ns);
            for change in decision.changes {
                let had = replicas
                    .insert(change.group, change.to)
                    .unwrap_or(policy.min);
                assert_eq!(had, change.from, "seed {seed}");
                assert!(
                    (policy.min..=policy.max).contains(&change.to),
                    "seed {seed}"
                );
                assert_eq!(
                    decision.direction == ScalingDirection::Up,
                    change.to > change.from,
                    "seed {seed}"
                );
            }
        }
        let is_apart = |two: &[i64]| two[1] - two[0] >= policy.backoff_ns;
        assert!(decided.windows(2).all(is_apart), "seed {seed}: {decided:?}");
    }
}
