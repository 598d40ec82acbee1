//! SINCE, UNTIL, and BASELINE: their meaning, and errors.

use super::{check_errors, checked};
use crate::period::{BaselinePeriod, PeriodMoment, TimePeriod};

const HOUR: i64 = 3_600_000_000_000;
/// 2026-11-22T10:00:00Z
const TEN: i64 = 1_795_341_600_000_000_000;

#[test]
fn times_are_relative_or_absolute() {
    let check = |rest: &str, since, until| {
        let period = checked(&format!("PARSE http {rest}")).period;
        assert_eq!(period, TimePeriod { since, until }, "{rest}");
    };
    let before = |ns| Some(PeriodMoment::BeforeEnd(ns));
    check("", None, None);
    check("SINCE 2h", before(2 * HOUR), None);
    check(
        "SINCE '2h' UNTIL '30m ago'",
        before(2 * HOUR),
        before(HOUR / 2),
    );
    check(
        "UNTIL '90ms' SINCE 1d",
        before(24 * HOUR),
        before(90_000_000),
    );
    check(
        "SINCE '2026-11-22T10:00'",
        Some(PeriodMoment::At(TEN)),
        None,
    );
    check(
        "SINCE '2026-11-22 12:00+02:00' UNTIL 1h",
        Some(PeriodMoment::At(TEN)),
        before(HOUR),
    );
    check(
        "SINCE 2026-11-22 UNTIL '2026-11-22T10:00:00Z'",
        Some(PeriodMoment::At(TEN - 10 * HOUR)),
        Some(PeriodMoment::At(TEN)),
    );
}

#[test]
fn baselines_are_settled() {
    let check = |rest: &str, own: (i64, Option<i64>), baseline: (i64, i64)| {
        let query = checked(&format!("PARSE http {rest} PROCESS (count)"));
        let bounds = query.period.settle(TEN);
        assert_eq!(
            (bounds.since_ns, bounds.until_ns),
            (Some(own.0), own.1),
            "{rest}"
        );
        let settled = query.baseline.expect("a baseline").settle(bounds, TEN);
        assert_eq!(
            (settled.since_ns, settled.until_ns),
            (Some(baseline.0), Some(baseline.1)),
            "{rest}"
        );
    };
    assert_eq!(
        checked("PARSE http SINCE 1h BASELINE 1d PROCESS (count)").baseline,
        Some(BaselinePeriod::Earlier(24 * HOUR))
    );
    check(
        "SINCE 1h BASELINE 1d",
        (TEN - HOUR, None),
        (TEN - 25 * HOUR, TEN - 24 * HOUR),
    );
    check(
        "SINCE 2h BASELINE '2h' UNTIL 1h",
        (TEN - 2 * HOUR, Some(TEN - HOUR)),
        (TEN - 4 * HOUR, TEN - 3 * HOUR),
    );
    check(
        "SINCE 1h BASELINE SINCE 3h",
        (TEN - HOUR, None),
        (TEN - 3 * HOUR, TEN - HOUR),
    );
    check(
        "SINCE '2026-11-22T09:00' BASELINE SINCE 4h UNTIL 3h",
        (TEN - HOUR, None),
        (TEN - 4 * HOUR, TEN - 3 * HOUR),
    );
}

#[test]
fn wrong_periods() {
    let check =
        |rest: &str, errors: &[(&str, &str)]| check_errors(&format!("PARSE http {rest}"), errors);
    check("SINCE 5", &[("5", "write 5h or 5m")]);
    check(
        "SINCE yesterday",
        &[(
            "yesterday",
            "`yesterday` is not a time: expected a duration before the end",
        )],
    );
    check("SINCE", &[("", "a duration before the end")]);
    check("SINCE 0s", &[("0s", "is not a time")]);
    check("SINCE 1h SINCE 2h", &[("SINCE", "SINCE is given twice")]);
    check("SINCE 1h UNTIL 2h", &[("2h", "UNTIL is not after SINCE")]);
    check(
        "SINCE 2026-11-22 UNTIL 2026-11-22",
        &[("2026-11-22", "UNTIL is not after SINCE")],
    );
    check("SINSE 2h", &[("SINSE", "did you mean `SINCE`?")]);
    check("BASELINE 1d PROCESS (count)", &[("BASELINE", "add SINCE")]);
    check("SINCE 1h BASELINE 1d", &[("BASELINE", "add PROCESS")]);
    check(
        "SINCE 1h BASELINE PROCESS (count)",
        &[("PROCESS", "an offset such as 1d")],
    );
    check(
        "SINCE 1h BASELINE soon PROCESS (count)",
        &[("soon", "`soon` is not a duration")],
    );
    check(
        "SINCE 1h BASELINE SINCE 2h UNTIL 3h PROCESS (count)",
        &[("3h", "UNTIL is not after SINCE")],
    );
}
