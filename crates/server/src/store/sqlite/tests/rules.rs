//! Rules with their notifications, silences, and actions with their decisions.

use super::TestStore;
use crate::job::JobId;
use crate::store::sqlite::{
    ActionChange, CommitProgress, NewNotification, NewRule, RuleChange, StoredAction, StoredRule,
};

impl TestStore {
    fn rule(&self, name: &str) -> Option<StoredRule> {
        let new = NewRule {
            name: name.into(),
            owner: "admin".into(),
            job: JobId(1),
            body: "{}".into(),
        };
        self.store.alerts.add_rule(&new).expect("the store")
    }

    /// Keys of waiting notifications of a receiver.
    fn waiting(&self, receiver: &str) -> Vec<String> {
        let waiting = self.store.alerts.waiting(receiver, usize::MAX >> 1);
        waiting
            .expect("the store")
            .into_iter()
            .map(|of| of.of.key)
            .collect()
    }
}

fn news(receiver: &str, key: &str) -> NewNotification {
    NewNotification {
        receiver: receiver.into(),
        key: key.into(),
        body: "{}".into(),
    }
}

fn change(rule: i64, subjects: &[(&str, Option<&str>)], keys: &[&str]) -> RuleChange {
    RuleChange {
        rule,
        seen_ns: Some(5),
        left_out: 1,
        told: keys.len() as i64,
        alerts: subjects
            .iter()
            .map(|(subject, body)| ((*subject).to_owned(), body.map(str::to_owned)))
            .collect(),
        news: keys.iter().map(|key| news("mail", key)).collect(),
    }
}

#[test]
fn changes_of_rules_are_made_together_or_not_at_all() {
    let test = TestStore::new();
    let rule = test.rule("slow").expect("a rule").id;
    let good = change(rule, &[("a", Some("1"))], &["k1"]);
    let bad = change(rule + 1, &[("b", Some("1"))], &["k2"]);
    test.store
        .alerts
        .change_rules(&[good.clone(), bad])
        .expect_err("no such rule");
    assert!(test.waiting("mail").is_empty());
    assert!(
        test.store.alerts.rules().expect("the store")[0]
            .alerts
            .is_empty()
    );
    test.store.alerts.change_rules(&[good]).expect("changed");
    let stored = test.reopened().alerts.rules().expect("the store").remove(0);
    assert_eq!(
        (stored.seen_ns, stored.left_out, stored.told),
        (Some(5), 1, 1)
    );
    assert_eq!(stored.alerts.get("a").map(String::as_str), Some("1"));
    assert_eq!(test.waiting("mail"), ["k1"]);
}

/// A window that is evaluated again after a crash makes the same notifications.
#[test]
fn a_repeated_notification_waits_once() {
    let test = TestStore::new();
    let rule = test.rule("slow").expect("a rule").id;
    for _ in 0..3 {
        let again = change(rule, &[("a", Some("1")), ("b", None)], &["k1", "k2"]);
        test.store.alerts.change_rules(&[again]).expect("changed");
    }
    assert_eq!(test.waiting("mail"), ["k1", "k2"]);
    let counts = test.store.alerts.waiting_counts().expect("the store");
    assert_eq!(counts, [("mail".to_owned(), 2)].into());
}

#[test]
fn a_rule_and_its_alerts_are_replaced_or_removed_together() {
    let test = TestStore::new();
    let rule = test.rule("slow").expect("a rule").id;
    assert!(test.rule("slow").is_none(), "the name is taken");
    let alerts = &test.store.alerts;
    alerts
        .change_rules(&[change(rule, &[("a", Some("1")), ("b", Some("2"))], &[])])
        .expect("changed");
    alerts
        .replace_rule_text(rule, JobId(2), "{\"text\":1}")
        .expect("replaced");
    let stored = || alerts.rules().expect("the store");
    assert_eq!((stored()[0].job, stored()[0].alerts.len()), (JobId(2), 2));
    alerts
        .replace_rule(&change(rule, &[("a", None)], &["resolved"]), JobId(3), "{}")
        .expect("replaced");
    assert_eq!((stored()[0].job, stored()[0].alerts.len()), (JobId(3), 0));
    alerts
        .change_rules(&[change(rule, &[("c", Some("3"))], &[])])
        .expect("changed");
    alerts
        .remove_rule(&change(rule, &[], &["gone"]))
        .expect("removed");
    assert!(stored().is_empty());
    assert_eq!(test.number("SELECT count(*) FROM alerts"), 0);
    assert_eq!(test.waiting("mail"), ["resolved", "gone"]);
    assert!(
        test.rule("slow").expect("a rule").id > rule,
        "numbers are not used again"
    );
}

#[test]
fn the_oldest_notifications_are_dropped_beyond_the_limit() {
    let test = TestStore::new();
    let rule = test.rule("slow").expect("a rule").id;
    let mut all = change(rule, &[], &[]);
    all.news = (0..5000)
        .map(|n| news(["mail", "chat"][n % 2], &format!("k{n}")))
        .collect();
    test.store.alerts.change_rules(&[all]).expect("changed");
    let alerts = &test.store.alerts;
    assert_eq!(alerts.bound_outbox(5000).expect("the store"), 0);
    assert_eq!(alerts.bound_outbox(3).expect("the store"), 4997);
    assert_eq!(
        (test.waiting("mail"), test.waiting("chat")),
        (vec!["k4998".into()], vec!["k4997".into(), "k4999".into()])
    );
    assert_eq!(alerts.bound_outbox(0).expect("the store"), 3);
    assert_eq!(alerts.bound_outbox(0).expect("the store"), 0);
}

#[test]
fn notifications_of_a_receiver_are_in_order() {
    let test = TestStore::new();
    let rule = test.rule("slow").expect("a rule").id;
    for key in ["k2", "k1", "k3"] {
        test.store
            .alerts
            .change_rules(&[change(rule, &[], &[key])])
            .expect("changed");
    }
    let first = test
        .store
        .alerts
        .waiting("mail", 1)
        .expect("the store")
        .remove(0);
    assert_eq!(first.of.key, "k2");
    test.store
        .alerts
        .remove_notification(first.id)
        .expect("removed");
    assert_eq!(test.waiting("mail"), ["k1", "k3"]);
    // The same key again is another notification once the first was acknowledged.
    test.store
        .alerts
        .change_rules(&[change(rule, &[], &["k2"])])
        .expect("changed");
    assert_eq!(test.waiting("mail"), ["k1", "k3", "k2"]);
    assert!(test.waiting("chat").is_empty());
}

#[test]
fn silences_are_replaced_and_forgotten_after_their_end() {
    let test = TestStore::new();
    let alerts = &test.store.alerts;
    let first = alerts.keep_silence(None, 10, "a").expect("kept");
    let second = alerts.keep_silence(None, 20, "b").expect("kept");
    assert_eq!(
        alerts.keep_silence(Some(first), 30, "c").expect("kept"),
        first
    );
    alerts.forget_silences(20).expect("forgotten");
    let stored = || test.reopened().alerts.silences().expect("the store");
    assert_eq!(
        stored(),
        [(first, "c".to_owned()), (second, "b".to_owned())]
    );
    alerts.forget_silences(21).expect("forgotten");
    assert_eq!(stored(), [(first, "c".to_owned())]);
}

fn action(test: &TestStore, name: &str) -> Option<StoredAction> {
    let new = StoredAction {
        id: 0,
        name: name.into(),
        owner: "admin".into(),
        job: JobId(1),
        body: "{}".into(),
        created_ns: 5,
        standing: "first".into(),
    };
    test.store
        .actions
        .add(&new, &(1, "v1".into()))
        .expect("the store")
}

fn decide(test: &TestStore, action: i64, version: u64) {
    let change = ActionChange {
        action,
        standing: format!("s{version}"),
        decision: Some((version, format!("v{version}"))),
    };
    let progress = CommitProgress::default();
    let committed = test
        .store
        .frames
        .commit(JobId(1), &[], &progress, &[], &[change]);
    committed.expect("committed");
}

#[test]
fn decisions_are_carried_out_in_order() {
    let test = TestStore::new();
    let id = action(&test, "hot").expect("an action").id;
    assert!(action(&test, "hot").is_none(), "the name is taken");
    (2..=3).for_each(|version| decide(&test, id, version));
    // Again, as after a crash: the first content counts.
    decide(&test, id, 3);
    let actions = &test.store.actions;
    let next = || {
        actions
            .decision_waiting(id)
            .expect("the store")
            .map(|of| (of.version, of.body))
    };
    assert_eq!(next(), Some((1, "v1".into())));
    actions.reach_decision(id, 1, 2).expect("noted");
    actions.finish_decision(id, 1).expect("noted");
    actions.finish_decision(id, 3).expect("noted");
    assert_eq!(next(), Some((2, "v2".into())));
    actions.finish_decision(id, 2).expect("noted");
    assert_eq!(next(), None);
    let stored = test
        .reopened()
        .actions
        .decisions(id, None, 10)
        .expect("the store");
    let seen: Vec<_> = stored
        .iter()
        .map(|of| (of.version, of.reached, of.done_ns.is_some()))
        .collect();
    assert_eq!(seen, [(3, 0, true), (2, 0, true), (1, 2, true)]);
    assert_eq!(
        test.reopened().actions.all().expect("the store")[0].standing,
        "s3"
    );
}

#[test]
fn old_decisions_are_dropped_once_they_are_carried_out() {
    let test = TestStore::new();
    let id = action(&test, "hot").expect("an action").id;
    let other = action(&test, "cold").expect("an action").id;
    test.change(&format!(
        "WITH RECURSIVE n(v) AS (SELECT 2 UNION ALL SELECT v + 1 FROM n WHERE v < 1009)
         INSERT INTO decisions (action, version, body, decided_ns, done_ns)
         SELECT {id}, v, 'v', 1, iif(v = 7, NULL, 1) FROM n"
    ));
    decide(&test, id, 1010);
    let versions = |before, limit| {
        let page = test
            .store
            .actions
            .decisions(id, before, limit)
            .expect("the store");
        page.into_iter().map(|of| of.version).collect::<Vec<_>>()
    };
    let all = versions(None, 5000);
    // The first one and the seventh wait.
    assert_eq!((all.len(), all[0], &all[1000..]), (1002, 1010, &[7, 1][..]));
    assert_eq!(versions(Some(1010), 2), [1009, 1008]);
    assert_eq!(versions(Some(u64::MAX), 1), [1010]);
    assert_eq!(
        test.store
            .actions
            .decisions(other, None, 10)
            .expect("the store")
            .len(),
        1
    );
    test.store.actions.remove(id).expect("removed");
    assert_eq!(test.number("SELECT count(*) FROM decisions"), 1);
}
