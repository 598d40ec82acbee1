//! BUDGET.

use crate::test_schemas::schemas;
use crate::{check_for_network, render};

fn budget(text: &str) -> Result<(Option<f64>, Option<f64>), String> {
    let query = check_for_network(text, &schemas(), &()).map_err(|errors| render(&errors, text))?;
    Ok((query.budget.cpu, query.budget.bandwidth_mbps))
}

#[test]
fn budgets_are_read() {
    for (clause, cpu, bandwidth) in [
        ("", None, None),
        ("BUDGET cpu=5%", Some(0.05), None),
        ("BUDGET cpu=0.05", Some(0.05), None),
        (
            "budget bandwidth=1.5Gbps, CPU = 100%",
            Some(1.0),
            Some(1500.0),
        ),
        ("BUDGET bandwidth=300kbps PROCESS (count)", None, Some(0.3)),
    ] {
        assert_eq!(
            budget(&format!("PARSE http_get {clause}")),
            Ok((cpu, bandwidth)),
            "{clause}"
        );
    }
}

#[test]
fn invalid_budgets_are_reported() {
    for (clause, word) in [
        ("BUDGET", "expected cpu=5%"),
        ("BUDGET cpu", "expected `=`"),
        ("BUDGET cpu=", "expected a limit"),
        ("BUDGET cpu=5", "is not a limit for cpu"),
        ("BUDGET cpu=0%", "is not a limit for cpu"),
        ("BUDGET bandwidth=100", "such as 100Mbps"),
        ("BUDGET bandwidth=-1Mbps", "is not a limit for bandwidth"),
        ("BUDGET memory=1GiB", "expected cpu or bandwidth"),
        ("BUDGET cpu=5%, cpu=6%", "limited twice"),
        ("BUDGET cpu=5% BUDGET cpu=5%", "BUDGET is given twice"),
    ] {
        let said = budget(&format!("PARSE http_get {clause}")).expect_err(clause);
        assert!(said.contains(word), "{clause}: {said}");
    }
}

/// Without a network plan, BUDGET is not silently ignored.
#[test]
fn budget_without_a_network_is_an_error() {
    let text = "PARSE http_get BUDGET cpu=5%";
    let errors = crate::check(text, &schemas(), &()).expect_err("a budget");
    let said = render(&errors, text);
    assert!(
        said.contains("this query has no network") && said.contains("^^^^^^"),
        "{said}"
    );
    assert!(said.contains("--network FILE"), "{said}");
}
