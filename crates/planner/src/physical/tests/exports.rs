//! sFlow and IPFIX as ways: sampling rate, error, choice, and refusals.

use mirror::exporter::ExporterSlot;

use super::*;

/// Packets of one server, by client.
const CLIENTS: &str = "PARSE packet TO 10.60.1.3:80 PROCESS (group-sum: group=src_ip, w=10s)";

fn export_case(mode: NetworkMode) -> PlanTestCase {
    PlanTestCase {
        mode,
        expected: vec![ExpectedTraffic::parse("10.60.1.3:80=60Mbps").expect("traffic")],
        ..PlanTestCase::new(&without_sniffers())
    }
}

#[test]
fn exports_are_planned_where_counters_suffice() {
    let sflow = NetworkMode::Export(ExporterSlot::Sflow);
    let plan = export_case(sflow).plan(CLIENTS).expect("a plan");
    golden("export", &to_text(&plan));
    let part = plan.export.as_ref().expect("an export");
    // 12,500 packets/s in 10 s; 1,537 samples suffice for 5 %.
    assert_eq!((part.sampling, part.names().as_str()), (81, "leaf1"));
    let errors = [part.error(1.0), part.error(0.1)];
    assert!((errors[0] - 0.0496).abs() < 1e-4, "{errors:?}");
    assert!((errors[1] / errors[0] - 10_f64.sqrt()).abs() < 1e-9);
    assert!(plan.monitors.is_empty() && plan.switches.is_empty());
    assert_eq!(to_json(&plan)["export"]["sampling"], 81);
    let site = NetworkSite::parse(&without_sniffers()).expect("a site");
    assert!(to_svg(&plan, &site).contains("leaf1 exports"));
    let all = PlanTestCase {
        sampling: Some(1),
        ..export_case(sflow)
    };
    let all = all
        .plan(CLIENTS)
        .expect("a plan")
        .export
        .expect("an export");
    assert_eq!((all.sampling, all.error(0.1)), (1, 0.0));
    // Without a request it is listed with its cost and error, and not selected.
    let auto = export_case(NetworkMode::Auto)
        .plan(CLIENTS)
        .expect("a plan");
    assert_eq!(auto.export, None);
    let told = to_text(&auto);
    assert!(
        told.contains("sFlow samples of 1 in 81 packets: approximate; --mode sflow selects it: "),
        "{told}"
    );
    assert!(
        told.contains("95 % error in 10 s: about ±5.0 % of the total"),
        "{told}"
    );
    let packets = export_case(NetworkMode::Packets).plan(CLIENTS);
    assert!(!to_text(&packets.expect("a plan")).contains("sFlow"));
}

/// If copies exceed BUDGET, and an export does not.
#[test]
fn an_export_is_selected_within_the_budget() {
    let budget = |mbps| NetworkBudget {
        bandwidth_mbps: Some(mbps),
        ..NetworkBudget::default()
    };
    let case = |mbps| PlanTestCase {
        budget: budget(mbps),
        ..export_case(NetworkMode::Auto)
    };
    let plan = case(1.0).plan(CLIENTS).expect("a plan");
    let part = plan.export.as_ref().expect("an export");
    assert!(part.mbps < 1.0 && plan.choice.why.contains("BUDGET allows 1 Mb/s"));
    assert!(matches!(
        case(0.001).plan(CLIENTS),
        Err(PlanningError::OverBudget(_))
    ));
    assert_eq!(case(100.0).plan(CLIENTS).expect("a plan").export, None);
    // Response times are not in samples.
    let pages = case(1.0).plan(PAGES);
    assert!(
        matches!(pages, Err(PlanningError::OverBudget(_))),
        "{pages:?}"
    );
}

#[test]
fn exports_that_do_not_suffice_are_refused_with_the_reason() {
    let check = |slot, query: &str, why: &str| {
        let told = export_case(NetworkMode::Export(slot)).plan(query);
        let told = told.expect_err("an error").to_string();
        assert!(told.contains(why), "{query}: {told}");
    };
    let [sflow, ipfix] = [ExporterSlot::Sflow, ExporterSlot::Ipfix];
    check(sflow, PAGES, "sFlow has the tuples of PARSE packet only");
    check(ipfix, CLIENTS, "IPFIX has the tuples of PARSE flow only");
    let of = |what: &str| format!("PARSE {what}");
    let flows = "flow TO 10.60.1.3:80 PROCESS";
    for (query, why) in [
        (
            format!("{flows} (diff-group: group=client_ip)"),
            "IPFIX does not report duration_ns",
        ),
        (
            format!("{flows} (group-count: group=application)"),
            "IPFIX does not report application",
        ),
    ] {
        check(ipfix, &of(&query), why);
    }
    for (query, why) in [
        ("packet TO 10.60.1.3:80", "the result is tuples"),
        (
            "packet PROCESS (group-count: group=src_ip)",
            "counted at both switches",
        ),
        (
            "packet TO 10.60.1.3:80 SAMPLE auto PROCESS (group-count: group=src_ip)",
            "SAMPLE auto",
        ),
        (
            "packet TO 10.60.1.3:80 SAMPLE 0.1 PROCESS (group-count: group=src_ip)",
            "SAMPLE with a share",
        ),
    ] {
        check(sflow, &of(query), why);
    }
    let counts = format!("PARSE {flows} (group-count: group=client_ip)");
    let plan = export_case(NetworkMode::Export(ipfix)).plan(&counts);
    assert!(plan.expect("a plan").export.is_some());
    // Each switch counts the flows that it covers.
    let several =
        "PARSE flow TO 10.60.2.0/24:8000, 10.60.3.1:3306 PROCESS (group-count: group=client_ip)";
    let plan = export_case(NetworkMode::Export(ipfix)).plan(several);
    let part = plan.expect("a plan").export.expect("an export");
    assert_eq!(part.names(), "leaf2, leaf3");
    let exact = PlanTestCase {
        exact: true,
        ..export_case(NetworkMode::Export(sflow))
    };
    let told = exact.plan(CLIENTS).expect_err("an error").to_string();
    assert!(told.contains("would not be exact"), "{told}");
    // The operator's exporter stays.
    let occupied = PlanTestCase {
        occupied: vec![OccupiedSlot {
            switch: 0,
            slot: sflow,
            exporter: "sFlow is configured by the operator of the switch, to 10.0.0.9:6343"
                .to_owned(),
        }],
        ..export_case(NetworkMode::Export(sflow))
    };
    let told = occupied.plan(CLIENTS).expect_err("an error").to_string();
    assert!(
        told.contains("leaf1: sFlow is configured by the operator"),
        "{told}"
    );
    let controlled = without_sniffers().replace("ovsdb = \"unix:/run/leaf1/db.sock\"\n", "");
    let controlled = PlanTestCase {
        site: controlled,
        ..export_case(NetworkMode::Export(sflow))
    };
    let told = controlled.plan(CLIENTS).expect_err("an error").to_string();
    assert!(told.contains("no ovsdb for leaf1"), "{told}");
}
