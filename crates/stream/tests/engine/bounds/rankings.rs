//! Rankings at memory limits: Space-Saving within its bounds, and long keys.

use super::*;

fn check_space_saving(p: &Pipeline, weight: fn(u64) -> u64, splits: usize) {
    let (rows, truth) = skewed(7, 6000, weight);
    let flow = dataflow(vec![p.clone()]);
    let mut workers: Vec<Engine> = (0..splits)
        .map(|_| Engine::worker(&flow, EngineConfig::default()))
        .collect();
    let mut out = Vec::new();
    for (i, chunk) in rows.chunks(100).enumerate() {
        workers[i % splits].push(0, &batch_of(&flow.inputs[0].schema, chunk), &mut out);
    }
    let mut engine = Engine::new(&flow, EngineConfig::default());
    workers
        .iter_mut()
        .for_each(|w| engine.attach(w.detach_all()));
    engine.finish(&mut out);
    assert!(engine.counters().groups_overflowed > 0);
    let first = if p.window.is_some() { 2 } else { 0 };
    let mut last = u64::MAX;
    let lines = rows_of(&out, Some(0));
    for line in &lines {
        let Plain::Text(path) = &line[first] else {
            panic!("a path")
        };
        let got = u64_of(&line[first + 2]);
        let Plain::F64(error) = &line[line.len() - 1] else {
            panic!("a bound")
        };
        assert_eq!(line[line.len() - 2], Plain::Bool(true));
        assert!(
            truth[path] <= got && got - *error as u64 <= truth[path],
            "{path}: {got} − {error}, not {}",
            truth[path]
        );
        assert!(got <= last);
        last = got;
    }
    let mut heaviest: Vec<_> = truth.iter().map(|(path, n)| (*n, path)).collect();
    heaviest.sort_unstable_by(|a, b| b.cmp(a));
    let listed: Vec<Plain> = lines.iter().map(|l| l[first].clone()).collect();
    assert!(
        heaviest[..3]
            .iter()
            .all(|(_, path)| listed.contains(&Plain::Text((*path).clone())))
    );
}

#[test]
fn rankings_keep_the_heavy_groups_within_their_bounds() {
    let by_count = Pipeline {
        top_k: Some(TopK { k: 5, by: 0 }),
        groups_max: 200,
        ..pipeline(
            Some(N),
            &[PATH],
            vec![AggregateFunction::Count, AggregateFunction::Avg],
        )
    };
    let by_sum = Pipeline {
        aggregates: vec![
            AggregateFunction::Sum.into(),
            AggregateFunction::Count.into(),
        ],
        ..by_count.clone()
    };
    let signed = Pipeline {
        values: vec![plan::AggregatedValue {
            column: column(DELTA),
            unit: tuple::Unit::None,
        }],
        ..by_sum.clone()
    };
    // One window with all rows; each of its four panes has part of the groups.
    let sliding = Pipeline {
        window: Some(Window {
            size_ns: 40,
            slide_ns: 10,
            lateness_ns: 0,
        }),
        ..by_count.clone()
    };
    // With one chunk per worker, no worker exceeds the limit; only the collecting engine does.
    for splits in [1, 3, 60] {
        check_space_saving(&by_count, |_| 1, splits);
        check_space_saving(&by_sum, |n| n, splits);
        check_space_saving(&signed, |n| n, splits);
    }
    let (rows, truth) = skewed(7, 6000, |_| 1);
    let (out, _) = run(
        &dataflow(vec![sliding]),
        EngineConfig::default(),
        &rows,
        100,
    );
    let whole = rows_of(&out, Some(0))
        .into_iter()
        .filter(|l| l[0] == Plain::I64(0));
    for line in whole {
        let Plain::Text(path) = &line[2] else {
            panic!("{line:?}")
        };
        let Plain::F64(error) = &line[line.len() - 1] else {
            panic!("{line:?}")
        };
        let got = u64_of(&line[4]);
        assert!(
            truth[path] <= got && got - *error as u64 <= truth[path],
            "{path}: {got} − {error}, not {}",
            truth[path]
        );
    }
}

#[test]
fn negative_values_widen_the_bound() {
    let p = Pipeline {
        top_k: Some(TopK { k: 3, by: 0 }),
        groups_max: 64,
        ..pipeline(Some(DELTA), &[PATH], vec![AggregateFunction::Sum])
    };
    let mut random = Random(3);
    let mut truth: BTreeMap<String, i64> = BTreeMap::new();
    let rows: Vec<Row> = (0..3000)
        .map(|_| {
            let path = format!("/{}", random.next(20) * random.next(20));
            let delta = random.next(60) as i64 - 5;
            *truth.entry(path.clone()).or_default() += delta;
            Row {
                delta: Some(delta),
                path: Some(path),
                ..Row::default()
            }
        })
        .collect();
    let (out, _) = run(&dataflow(vec![p]), EngineConfig::default(), &rows, 100);
    for line in rows_of(&out, Some(0)) {
        let Plain::Text(path) = &line[0] else {
            panic!()
        };
        let Plain::I64(got) = &line[2] else { panic!() };
        let Plain::F64(error) = &line[4] else {
            panic!()
        };
        assert!(
            truth[path] <= *got && got - *error as i64 <= truth[path],
            "{path}: {got} − {error}"
        );
    }
}

#[test]
fn rankings_by_unsaved_aggregates_are_marked() {
    let p = Pipeline {
        top_k: Some(TopK { k: 2, by: 0 }),
        groups_max: 64,
        ..pipeline(Some(N), &[PATH], vec![AggregateFunction::Max])
    };
    let rows: Vec<Row> = (0..200).map(|i| get(&format!("/{i}"), i, 0)).collect();
    let (out, _) = run(&dataflow(vec![p]), EngineConfig::default(), &rows, 64);
    let lines = rows_of(&out, Some(0));
    assert_eq!(lines.len(), 2);
    assert!(lines.iter().all(|l| l[3] == Plain::Bool(true)
        && l[4] == Plain::Null
        && l[0] != Plain::Text(OTHER.into())));
}

#[test]
fn long_keys_are_bounded_in_bytes() {
    let p = pipeline(None, &[PATH], vec![AggregateFunction::Count]);
    let rows: Vec<Row> = (0..500)
        .map(|i| get(&format!("/{i}{}", "x".repeat(1000)), 0, 0))
        .collect();
    let config = EngineConfig {
        key_bytes_max: 20_000,
        ..EngineConfig::default()
    };
    let (out, counters) = run(&dataflow(vec![p]), config, &rows, 64);
    assert!((15..=20).contains(&(rows_of(&out, Some(0)).len() - 1)));
    assert!(counters.groups_overflowed >= 480);
}

#[test]
fn rankings_of_long_keys_are_bounded_too() {
    let p = Pipeline {
        top_k: Some(TopK { k: 3, by: 0 }),
        groups_max: 100,
        ..pipeline(None, &[PATH], vec![AggregateFunction::Count])
    };
    // Short keys first, then increasingly long ones, and one heavy key.
    let path = |i: u64| {
        if i.is_multiple_of(3) {
            "/heavy".into()
        } else {
            format!("/{i}{}", "x".repeat(i as usize))
        }
    };
    let rows: Vec<Row> = (0..2000).map(|i| get(&path(i), 0, 0)).collect();
    for key_bytes_max in [0, 1, 5000, 100_000] {
        let config = EngineConfig {
            key_bytes_max,
            ..EngineConfig::default()
        };
        let flow = dataflow(vec![p.clone()]);
        let mut workers = [
            Engine::worker(&flow, config.clone()),
            Engine::worker(&flow, config.clone()),
        ];
        for (i, chunk) in rows.chunks(100).enumerate() {
            workers[i % 2].push(0, &batch_of(&flow.inputs[0].schema, chunk), &mut Vec::new());
        }
        let mut engine = Engine::new(&flow, config);
        let mut out = Vec::new();
        workers
            .iter_mut()
            .for_each(|w| engine.attach(w.detach_all()));
        engine.push(0, &batch_of(&flow.inputs[0].schema, &rows), &mut out);
        engine.finish(&mut out);
        let lines = rows_of(&out, Some(0));
        assert!(lines.iter().all(|l| l[3] == Plain::Bool(true)));
        // Without memory for keys, a pane has one group; the rest is in the pool, and there is no bound.
        match lines.iter().find(|l| l[0] == Plain::Text("/heavy".into())) {
            Some(heavy) => assert!(
                u64_of(&heavy[2]) >= 1334 || heavy[4] == Plain::Null,
                "{heavy:?}"
            ),
            None => assert!(
                key_bytes_max < 100 && lines.iter().all(|l| l[4] == Plain::Null),
                "{lines:?}"
            ),
        }
    }
}
