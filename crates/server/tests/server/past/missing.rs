//! Data that queries of the past lack: agents without data, columns and flows that no job keeps, jobs that never ran.

use super::*;

/// A server with tuples stored by three agents, of which the second disconnected halfway.
fn with_one_gone(query: &str) -> (Center, Crew) {
    let center = Center::start(GatewaySettings::default());
    let mut crew = Crew::start(&center, query, 3, 1);
    let body = json!({ "query": query, "kind": "standing", "keep": "tuples", "redact": false });
    let (status, made) = center.ask("POST", "/api/v1/jobs", Some(&body));
    assert_eq!(status, 201, "{made}");
    crew.say_half(&center, made["id"].as_str().expect("a number"));
    let all = "PARSE http SINCE '2026-01-01' PROCESS (count: w=100ms)";
    let asked = |center: &Center| {
        center
            .ask("POST", "/api/v1/query", Some(&json!({ "query": all })))
            .1
    };
    crew.kill(1);
    crew.say_one(0, usize::MAX);
    crew.say_one(2, usize::MAX);
    center.until("the others are through, and one is gone", |center| {
        let notes = asked(center)["notes"].to_string();
        let is_named = |agent: &str| notes.contains(&format!("agent {agent} sent no data"));
        (is_named("agent-1") && !is_named("agent-0") && !is_named("agent-2")).then_some(())
    });
    (center, crew)
}

#[test]
fn missing_agents_are_named_and_totals_have_no_upper_bound() {
    let (center, _crew) = with_one_gone("PARSE http SAMPLE 0.9");
    let query = "PARSE http SINCE '2026-01-01' PROCESS (count: w=100ms)";
    let (_, answer) = center.ask("POST", "/api/v1/query", Some(&json!({ "query": query })));
    let result = &answer["results"][0];
    let names: Vec<&str> = result["columns"]
        .as_array()
        .expect("columns")
        .iter()
        .filter_map(|c| c["name"].as_str())
        .collect();
    let at = |name: &str| names.iter().position(|known| *known == name).expect(name);
    let rows = result["rows"].as_array().expect("rows");
    let is_whole = |row: &&Value| row[at("agents_missing")].is_null();
    let (whole, lacking): (Vec<&Value>, Vec<&Value>) = rows.iter().partition(is_whole);
    assert!(!whole.is_empty() && !lacking.is_empty(), "{answer}");
    assert!(
        rows.first().is_some_and(|row| is_whole(&row)),
        "it was there at first: {answer}"
    );
    for row in lacking {
        assert_eq!(
            (&row[at("agents_missing")], &row[at("count_high")]),
            (&json!("agent-1"), &Value::Null)
        );
        assert!(row[at("count_low")].is_f64(), "{row}");
    }
}

#[test]
fn differences_are_not_significant_when_agents_were_missing() {
    let recording = record("PARSE http");
    let [first, a, ..] = quarters(recording.path());
    let (center, _crew) = with_one_gone("PARSE http");
    let judged = |(since, until): (&str, &str), (from, to): (&str, &str)| {
        let query = format!(
            "PARSE http SINCE '{since}' UNTIL '{until}' BASELINE SINCE '{from}' UNTIL '{to}' PROCESS (count)"
        );
        let (status, answer) =
            center.ask("POST", "/api/v1/query", Some(&json!({ "query": query })));
        assert_eq!(status, 200, "{answer}");
        let columns = answer["results"][0]["columns"]
            .as_array()
            .expect("columns")
            .clone();
        let at = columns
            .iter()
            .position(|c| c["name"] == "differs_count")
            .expect("a verdict");
        answer["results"][0]["rows"][0][at].clone()
    };
    // The agent was connected in the first quarter, and not on the day after.
    assert!(judged((&first, &a), (&first, &a)).is_boolean());
    // Nothing was stored before.
    assert_eq!(
        judged((&first, &a), ("2026-11-21T22:00", &first)),
        Value::Null
    );
    assert_eq!(
        judged(("2026-11-22T00:00", "2026-11-22T01:00"), (&first, &a)),
        Value::Null
    );
}

#[test]
fn missing_tuples_are_reported_with_the_way_to_keep_them() {
    let server = Server::start(TestFleet::new(Way::Note));
    let nothing = refused(&server, "PARSE http SINCE 2h PROCESS (rate)", 409);
    assert_eq!(nothing["code"], "not_kept");
    let words = nothing["message"].as_str().expect("words");
    assert!(
        words.contains("no job keeps tuples") && words.contains("'PARSE http' --keep-tuples"),
        "{words}"
    );
    let kept = [
        ("PARSE mysql_query", "it keeps tuples of mysql_query"),
        ("PARSE http TO *:8080", "only tuples of some servers (TO)"),
        (
            "PARSE http FROM 10.1.0.0/16",
            "only tuples of some clients (FROM)",
        ),
        ("PARSE http WHERE status >= 500", "its WHERE excludes some"),
        (
            "PARSE http SELECT ts_end, id, path, status",
            "it does not keep url_template",
        ),
    ];
    for (query, _) in kept {
        announce(&server, &keep(&server, query));
    }
    let query = "PARSE http SINCE 2h PROCESS (group-count: group=url_template)";
    let words = refused(&server, query, 409)["message"]
        .as_str()
        .expect("words")
        .to_owned();
    for (_, why) in kept {
        assert!(words.contains(why), "{words}");
    }
    // Queries that both can answer.
    for query in [
        "PARSE http SINCE 2h TO *:8080 PROCESS (rate)",
        "PARSE http SINCE 2h FROM 10.1.2.3 PROCESS (rate)",
        "PARSE http SINCE 2h WHERE status >= 500 AND status < 503 PROCESS (rate)",
        "PARSE http SINCE 2h WHERE path = '/' PROCESS (group-count: group=status)",
    ] {
        server
            .ask("POST", "/api/v1/query", Some(&json!({ "query": query })))
            .of(200);
    }
}

/// A job of the test: its columns are reported, but no tuples.
fn announce(server: &Server, job: &str) {
    let shown = server.get(&format!("/api/v1/jobs/{job}")).of(200).json();
    let plan = crate::gateway::plan_of(shown["query"].as_str().expect("a query"));
    let engine = stream::Engine::new(&plan.dataflow, stream::EngineConfig::default());
    let of = stream::TupleProjection::new(&plan.dataflow, &engine, 1 << 20);
    let (schema, columns) = of.columns();
    let table = server::ResultTable {
        processor: None,
        schema: schema.clone(),
        columns,
        keys: 0,
    };
    let job: JobId = job.parse().expect("a number");
    server.fleet.hub().open(job, &[table]).expect("noted");
    server
        .fleet
        .hub()
        .turn(job, JobState::Running, None)
        .expect("noted");
}

#[test]
fn a_job_that_never_ran_covers_no_time() {
    let server = Server::start(TestFleet::new(Way::Note));
    // The second job covers a longer period, but no monitor captures for it.
    let idle = keep(&server, "PARSE http");
    announce(&server, &idle);
    let id: JobId = idle.parse().expect("a number");
    server
        .fleet
        .hub()
        .turn(id, JobState::Arming, None)
        .expect("noted");
    let query = "PARSE http SINCE 1h PROCESS (count)";
    let words = refused(&server, query, 409)["message"]
        .as_str()
        .expect("words")
        .to_owned();
    assert!(
        words.contains(&format!("job {idle}: it has not run")),
        "{words}"
    );
    let busy = keep(&server, "PARSE http");
    announce(&server, &busy);
    let answer = server
        .ask("POST", "/api/v1/query", Some(&json!({ "query": query })))
        .of(200)
        .json();
    assert_eq!(answer["job"], busy, "{answer}");
}

#[test]
fn a_job_with_the_same_query_has_its_rows() {
    let server = Server::start(TestFleet::shop());
    let query = |period: &str| {
        format!("PARSE http {period} PROCESS (group-count: group=url_template, w=100ms)")
    };
    let body = json!({ "query": query(""), "kind": "standing" });
    let job = server.job_of(&body);
    let all = server.rows_at_end(&job);
    let asked = json!({ "query": query("SINCE '2026-01-01'") });
    let answer = server
        .ask("POST", "/api/v1/query", Some(&asked))
        .of(200)
        .json();
    assert_eq!(
        (
            &answer["from"],
            &answer["job"],
            &answer["results"][0]["rows"]
        ),
        (&json!("rows"), &json!(job), &all)
    );
    // Another query has no stored rows.
    let other = "PARSE http SINCE '2026-01-01' PROCESS (group-count: group=url_template, w=200ms)";
    assert_eq!(refused(&server, other, 409)["code"], "not_kept");
}
