//! ERROR and BUDGET of SAMPLE auto.

use plan::{RateGoal, SampleMode};

use super::checked;
use crate::test_schemas::schemas;
use crate::{check_for_network, complete, render};

#[test]
fn goals_are_read() {
    for (clauses, error, cpu) in [
        ("SAMPLE auto", None, None),
        ("SAMPLE auto ERROR 5%", Some(0.05), None),
        ("sample AUTO error 0.02", Some(0.02), None),
        ("SAMPLE auto BUDGET cpu=2%", None, Some(0.02)),
        (
            "BUDGET cpu=2% SAMPLE auto ERROR 5% LIMIT 1m",
            Some(0.05),
            Some(0.02),
        ),
    ] {
        let query = checked(&format!("PARSE http_get {clauses} PROCESS (count: w=1s)"));
        assert_eq!(query.goal, RateGoal { error, cpu }, "{clauses}");
        assert_eq!(query.sample, SampleMode::Auto);
        assert_eq!(query.budget, plan::NetworkBudget::default(), "{clauses}");
        assert_eq!(query.without_goal("here").is_ok(), !query.goal.is_set());
    }
}

/// In a network, a budget is that of the plan.
#[test]
fn a_budget_of_a_network_is_no_goal() {
    let text = "PARSE http_get SAMPLE auto BUDGET cpu=2% PROCESS (count: w=1s)";
    let query = check_for_network(text, &schemas(), &()).expect("a query");
    assert_eq!(query.budget.cpu, Some(0.02));
    assert!(!query.goal.is_set());
}

#[test]
fn goals_without_a_relative_error_are_refused() {
    for (clauses, words) in [
        ("SAMPLE auto ERROR 5%", "add PROCESS"),
        ("SAMPLE auto ERROR 5% PROCESS count", "w=10s"),
        (
            "SAMPLE auto BUDGET cpu=5% PROCESS count",
            "BUDGET chooses the rate",
        ),
        (
            "SAMPLE auto ERROR 5% PROCESS (distinct: key=url, w=1s)",
            "ERROR needs a count",
        ),
        (
            "SAMPLE auto ERROR 100% PROCESS (count: w=1s)",
            "is not a relative error",
        ),
        (
            "SAMPLE * ERROR 5% PROCESS (count: w=1s)",
            "SAMPLE auto ERROR 5%",
        ),
    ] {
        let text = format!("PARSE http_get {clauses}");
        let errors = crate::check(&text, &schemas(), &()).expect_err(clauses);
        let said = render(&errors, &text);
        assert!(said.contains(words), "{clauses}: {said}");
    }
}

#[test]
fn error_is_completed_behind_auto_only() {
    let has = |text: &str| {
        complete(text, &schemas())
            .candidates
            .contains(&"ERROR".to_owned())
    };
    assert!(has("PARSE http_get SAMPLE auto ") && has("PARSE http_get SAMPLE auto e"));
    assert!(!has("PARSE http_get SAMPLE 0.1 ") && !has("PARSE http_get TO h1 "));
}
