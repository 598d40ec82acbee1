//! Connected agents that deliver nothing: a stopped one, and one with malformed records. The others' windows wait
//! for them for a limited time, and name them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use server::GatewaySettings;

use super::agent::FakeAgent;
use super::center::Center;
use super::feed::Said;
use super::{Crew, TOTALS, ways};

/// Includes the interval of checks and a busy machine.
const LIMIT: Duration = Duration::from_secs(20);

fn missing(row: &Value) -> Option<Value> {
    row.as_array().and_then(|cells| cells.last().cloned())
}

/// Three agents, of which the second sends `said`; waits for rows without it.
fn check(
    said: impl Fn(&[Said]) -> Vec<Said>,
    up_to: impl Fn(usize) -> usize,
    reason: &str,
) -> (Center, Crew, String) {
    let settings = GatewaySettings::default();
    // The capture is replayed faster than recorded.
    let pace = control::PaceSettings {
        patience_ns: 200_000_000,
        ..settings.pace
    };
    let center = Center::start(GatewaySettings { pace, ..settings });
    let mut crew = Crew::start(&center, TOTALS, 3, 1);
    let reports = crew.feeds[0].len();
    crew.agents[1].kill();
    let said = Arc::new(said(&crew.feeds[1]));
    crew.agents[1] = FakeAgent::start(super::Ways {
        boot: 77,
        ..ways(&center, 1, &crew.tokens[1], said, &crew.up_to[1])
    });
    center.agents(3);
    let job = center.job(TOTALS, "standing");
    crew.say(reports / 3);
    center.until("rows", |center| {
        (!center.rows(&job, 0).is_empty()).then_some(())
    });
    // The server notes positions once per second.
    std::thread::sleep(Duration::from_millis(2500));
    crew.say(reports * 2 / 3);
    crew.say_one(1, up_to(reports));
    let began = Instant::now();
    center.until("rows without it", |center| {
        (missing(center.rows(&job, 0).last()?) == Some(json!("agent-1"))).then_some(())
    });
    assert!(began.elapsed() < LIMIT, "{:?}", began.elapsed());
    let rows = center.rows(&job, 0);
    assert_eq!(
        missing(&rows[0]),
        Some(Value::Null),
        "it took part in the first ones"
    );
    // On a busy machine others may stall for a moment, too.
    center.until("the reason", |center| {
        center.show(&job)["reason"]
            .to_string()
            .contains(reason)
            .then_some(())
    });
    (center, crew, job)
}

#[test]
fn stalled_agents_are_named_and_awaited_again_when_they_resume() {
    let reason = "agent agent-1 is connected, but its results make no progress";
    let (center, crew, job) = check(<[Said]>::to_vec, |reports| reports / 3, reason);
    // The agent continues: its backlog is late, then rows are complete again.
    let reports = crew.feeds[0].len();
    crew.say_one(1, reports * 2 / 3);
    std::thread::sleep(Duration::from_millis(2500));
    crew.say(reports - 1);
    center.until("nobody is missing any more", |center| {
        (missing(center.rows(&job, 0).last()?) == Some(Value::Null)).then_some(())
    });
    let told = center.show(&job)["reason"].to_string();
    assert!(
        told.contains("arrived after their windows were closed"),
        "{told}"
    );
}

#[test]
fn unreadable_records_delay_other_agents_briefly() {
    let damaged = |said: &[Said]| {
        let from = said.len() / 3;
        let damage = |(n, (at, payload)): (usize, &Said)| {
            let mut payload = payload.clone();
            if n >= from {
                payload.iter_mut().skip(1).for_each(|byte| *byte ^= 0x55);
            }
            (*at, payload)
        };
        said.iter().enumerate().map(damage).collect()
    };
    let (center, _crew, job) = check(
        damaged,
        |reports| reports * 2 / 3,
        "records that cannot be read",
    );
    center.until("it makes no progress", |center| {
        center.show(&job)["reason"]
            .to_string()
            .contains("no progress")
            .then_some(())
    });
}

/// Results with the times of a clock that is years ahead: event time advances by an hour.
#[test]
fn times_far_ahead_count_as_an_hour_ahead() {
    let center = Center::start(GatewaySettings::default());
    let far_ns = 4_000_000_000_000_000_000;
    let far = || super::feed::say(far_ns, collect::ReportPart::default());
    let said: Vec<Said> = vec![far(), far()];
    let token = center.token("agent-9");
    let up_to = Arc::new(std::sync::atomic::AtomicUsize::new(1));
    let _agent = FakeAgent::start(ways(&center, 9, &token, Arc::new(said), &up_to));
    center.agents(1);
    center.job(TOTALS, "standing");
    let lag = center.until("event time is known", |center| {
        let metrics = center.ask("GET", "/metrics", None).1;
        let lines = metrics.as_str()?.lines();
        let line = lines
            .clone()
            .find(|line| line.starts_with("netalytics_job_lag_seconds{"))?;
        line.rsplit(' ').next()?.parse::<f64>().ok()
    });
    assert!((-3600.0..-3500.0).contains(&lag), "{lag}");
}
