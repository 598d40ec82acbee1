//! Rules of several jobs, proved; and the operations between two sets.

use mirror::openflow::{FlowRule, read_dump};
use mirror::{PacketPart, RuleLayout, RuleOperation, compose, diff};

use crate::bed::{self, SERVER, copy, first_table, monitor, ports, rules, wanted};
use mirror::model::SwitchModel;

fn texts(rules: &[FlowRule]) -> Vec<String> {
    rules.iter().map(ToString::to_string).collect()
}

fn switch(own: &[&str]) -> SwitchModel {
    SwitchModel::new("s", ports(), rules(own))
}

/// Two jobs with overlapping requests.
#[test]
fn overlapping_packets_are_copied_to_both_jobs() {
    let one = copy(
        1,
        &["tcp,nw_dst=10.0.0.0/8", "tcp,nw_src=10.0.0.0/8"],
        PacketPart::Whole,
        9,
    );
    let two = copy(2, &["tcp,tp_dst=80"], PacketPart::First(128), 8);
    let found = first_table(&[one.clone(), two.clone()]);
    let shown: Vec<String> = texts(&found)
        .iter()
        .map(|text| text.replace("table=0,", "").replace("hard_timeout=30,", ""))
        .collect();
    assert_eq!(
        shown,
        [
            "cookie=0x6e61007000010102,priority=16384,tcp,nw_dst=10.0.0.0/8,actions=output:9,resubmit(,1)",
            "cookie=0x6e61007000010102,priority=16384,tcp,nw_src=10.0.0.0/8,actions=output:9,resubmit(,1)",
            "cookie=0x6e61007000020101,priority=16384,tcp,tp_dst=80,actions=output(port=8,max_len=128),resubmit(,1)",
            "cookie=0x6e61007000010101,priority=16385,tcp,nw_dst=10.0.0.0/8,tp_dst=80,actions=output(port=8,max_len=128),output:9,resubmit(,1)",
            "cookie=0x6e61007000010101,priority=16385,tcp,nw_src=10.0.0.0/8,tp_dst=80,actions=output(port=8,max_len=128),output:9,resubmit(,1)",
            "cookie=0x6e61007000010101,priority=16386,tcp,nw_src=10.0.0.0/8,nw_dst=10.0.0.0/8,tp_dst=80,actions=output(port=8,max_len=128),output:9,resubmit(,1)",
            "cookie=0x6e61007000010100,priority=65535,in_port=9,actions=drop",
            "cookie=0x6e61007000020100,priority=65535,in_port=8,actions=drop",
        ]
    );
    let mut switch = switch(&[
        "table=0,priority=0,actions=resubmit(,1)",
        "table=1,priority=0,actions=NORMAL",
    ]);
    switch.ports.push(monitor(8, "n"));
    let mut want = wanted(&[&one], "m");
    want.extend(wanted(&[&two], "n"));
    let proved = bed::prove(&switch, bed::with(&switch, found), &want);
    assert!(proved.is_ok(), "{}", proved.unwrap_err()[0]);
}

/// One action list, one cookie.
#[test]
fn rules_with_one_cookie_do_the_same() {
    let copies = [
        copy(
            1,
            &["tcp,nw_dst=10.0.0.0/8", "tcp,nw_src=10.0.0.0/8"],
            PacketPart::Whole,
            9,
        ),
        copy(1, &["udp"], PacketPart::First(64), 9),
        copy(
            2,
            &["tcp,tp_dst=80", "tcp,tp_src=80", "ip"],
            PacketPart::First(128),
            8,
        ),
    ];
    let found = first_table(&copies);
    for (i, one) in found.iter().enumerate() {
        assert!(one.cookie.is_of(SERVER) && one.hard_timeout == 30);
        assert!(
            found[i + 1..]
                .iter()
                .all(
                    |other| (other.cookie == one.cookie) == (other.actions == one.actions)
                        || other.cookie.owner().map(|o| o.job) != one.cookie.owner().map(|o| o.job)
                )
        );
    }
}

/// Combined with rules of others, each of which keeps its effect.
#[test]
fn beside_other_rules_each_is_shadowed() {
    let own = [
        "priority=0,actions=NORMAL",
        "priority=10,tcp,tp_dst=80,actions=output:2",
        "priority=10,arp,actions=FLOOD",
        "priority=20,ip,nw_src=10.9.0.0/16,actions=drop",
        "priority=30,ct_state=+new,tcp,actions=output:3",
    ];
    let switch = switch(&own);
    let one = copy(
        1,
        &["tcp,nw_dst=10.0.0.0/8", "tcp,nw_src=10.0.0.0/8"],
        PacketPart::Whole,
        9,
    );
    let layout = RuleLayout::Beside {
        rules: switch.rules.clone(),
    };
    let ours = compose(std::slice::from_ref(&one), &bed::terms(layout)).expect("rules");
    let proved = bed::prove(
        &switch,
        bed::with(&switch, ours.clone()),
        &wanted(&[&one], "m"),
    );
    assert!(proved.is_ok(), "{}", proved.unwrap_err()[0]);
    // Without the shadow of the rule of priority 20, its packets are forwarded or not copied.
    let fewer: Vec<FlowRule> = ours
        .into_iter()
        .filter(|rule| !rule.to_string().contains("10.9.0.0"))
        .collect();
    assert!(
        !bed::faults(bed::prove(
            &switch,
            bed::with(&switch, fewer),
            &wanted(&[&one], "m")
        ))
        .is_empty()
    );
}

#[test]
fn ports_of_entrance_may_be_chosen() {
    let mut one = copy(1, &["ip"], PacketPart::Whole, 9);
    one.ports = vec![1, 2, 3];
    let switch = switch(&[
        "table=0,priority=0,actions=resubmit(,1)",
        "table=1,priority=0,actions=NORMAL",
    ]);
    let ours = first_table(std::slice::from_ref(&one));
    assert_eq!(ours.len(), 4);
    assert!(bed::prove(&switch, bed::with(&switch, ours), &wanted(&[&one], "m")).is_ok());
}

#[test]
fn operations_transform_observed_into_desired_rules() {
    let one = copy(1, &["tcp,tp_dst=80"], PacketPart::Whole, 9);
    let two = copy(2, &["tcp,tp_dst=81"], PacketPart::Whole, 9);
    let both = first_table(&[one.clone(), two]);
    let only = first_table(&[one]);
    // In the format of the switch, with a foreign rule and a rule of another server.
    let dump = |rules: &[FlowRule]| {
        let line = |rule: &FlowRule| {
            rule.to_string()
                .replacen(",actions", " actions", 1)
                .replacen(",table", ", table", 1)
        };
        let mut lines: Vec<String> = rules.iter().map(line).collect();
        lines.push("cookie=0x5, table=0, priority=3,ip actions=drop".to_owned());
        lines.push("cookie=0x6e61008000010100, table=0, priority=4,ip actions=drop".to_owned());
        read_dump(&lines.join("\n")).expect("a dump")
    };
    assert_eq!(diff(&both, &dump(&both), SERVER), []);
    let fewer = diff(&only, &dump(&both), SERVER);
    assert!(fewer.iter().all(
        |op| matches!(op, RuleOperation::Delete(rule) if rule.to_string().contains("tp_dst=81"))
    ));
    assert_eq!(fewer.len(), 1);
    assert_eq!(
        fewer[0].to_string(),
        "delete_strict cookie=0x6e61007000020100/-1,table=0,priority=16384,tcp,tp_dst=81"
    );
    assert_eq!(diff(&both, &dump(&only), SERVER).len(), 1);
    assert_eq!(diff(&[], &dump(&both), SERVER).len(), both.len());
    // All rules with a cookie at once.
    let renewals = mirror::diff::renewals(&both);
    assert!(
        renewals.iter().any(|op| op.to_string()
            == "modify cookie=0x6e61007000020100/-1,actions=output:9,resubmit(,1)"),
        "{renewals:?}"
    );
}

/// Round trip in JSON.
#[test]
fn rules_travel_as_json() {
    let found = first_table(&[copy(1, &["tcp,tp_dst=80"], PacketPart::First(96), 9)]);
    let rule = FlowRule {
        hard_timeout: 0,
        ..found
            .into_iter()
            .find(|rule| rule.priority < 0xffff)
            .expect("one")
    };
    let json = mirror::json::rule_to_json(&rule);
    assert_eq!(
        json.to_string(),
        r#"{"table":0,"priority":16384,"cookie":"0x6e61007000010101","match":"tcp,tp_dst=80","actions":"output(port=9,max_len=96),resubmit(,1)"}"#
    );
    assert_eq!(mirror::json::rule_from_json(&json), Ok(rule));
    for wrong in [
        "[]",
        "{}",
        r#"{"cookie":"5","match":"","actions":""}"#,
        r#"{"cookie":"0x5","match":"priority=9","actions":""}"#,
        r#"{"cookie":"0x5","match":"","actions":"","table":256}"#,
    ] {
        assert!(
            mirror::json::rule_from_json(&serde_json::from_str(wrong).expect("JSON")).is_err(),
            "{wrong}"
        );
    }
}

/// Too many rules are rejected with a message.
#[test]
fn too_many_rules_are_rejected() {
    let many: Vec<String> = (0..40).map(|i| format!("tcp,tp_dst={i}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let few = mirror::compose::CopyTerms {
        rules_max: 10,
        ..bed::terms(RuleLayout::FirstTable { next: 1 })
    };
    assert_eq!(
        compose(&[copy(1, &many, PacketPart::Whole, 9)], &few),
        Err(mirror::ComposeError::TooManyRules(10))
    );
    let top = RuleLayout::Beside {
        rules: rules(&["priority=65535,ip,actions=drop"]),
    };
    let refused = compose(
        &[copy(1, &["ip"], PacketPart::Whole, 9)],
        &bed::terms(top.clone()),
    )
    .map(drop);
    assert!(
        refused
            .expect_err("no room")
            .to_string()
            .ends_with("priority=65535,ip,actions=drop")
    );
    // A rule that matches none of our packets is compatible.
    compose(&[copy(1, &["arp"], PacketPart::Whole, 9)], &bed::terms(top)).expect("room beside it");
}
