//! Checks whether the stored tuples of a job contain all data of a query.

use plan::{AddressMatch, Dataflow, Plan, Predicate, SampleMode, TimeBounds};
use planner::{PlanInput, PlanOptions};
use query::CheckedQuery;
use tuple::FieldId;

use crate::job::Job;
use crate::job::columns::ColumnHead;
use crate::store::access::lies_in;
use crate::store::sqlite::KeptResult;

/// Start and exclusive end, in nanoseconds since the epoch.
pub(crate) type Period = (i64, i64);

/// A job for messages: its number, and its name if it has one.
pub(super) fn named(job: &Job) -> String {
    match job.spec.name.as_str() {
        "" => format!("job {}", job.id),
        name => format!("job {} ({name})", job.id),
    }
}

/// A query over stored tuples.
pub struct CoveredQuery {
    /// Dataflow with one input.
    pub dataflow: Dataflow,
    /// Columns of the input with the corresponding stored columns.
    pub columns: Vec<(FieldId, FieldId)>,
    /// Sampling of the stored tuples.
    pub sample: SampleMode,
    /// Number of conditions of the job: the more, the fewer tuples must be read.
    pub narrowness: usize,
}

/// Plan of a query over tuples with this sampling and within a period.
pub fn plan_of(query: &CheckedQuery, sample: SampleMode, (since, until): Period) -> Plan {
    let query = CheckedQuery {
        sample,
        ..query.clone()
    };
    let bounds = TimeBounds {
        since_ns: Some(since),
        until_ns: Some(until),
    };
    let input = PlanInput::Tuples {
        first_ts: Some(since),
    };
    let plan = planner::lower_with(
        &query,
        &PlanOptions {
            input,
            bounds,
            ..PlanOptions::default()
        },
    );
    Plan {
        dataflow: stream::flat(&plan.dataflow),
        ..plan
    }
}

/// The query over the tuples of a job, or the reason why they do not cover it. `kept`: the job's query.
pub fn covers(
    job: &Job,
    result: &KeptResult,
    kept: &CheckedQuery,
    asked: &CheckedQuery,
    period: Period,
) -> Result<CoveredQuery, String> {
    let Some(made) = &job.tuples else {
        return Err(
            "it was started by an earlier version of the program, which did not record the version of its parsers"
                .into(),
        );
    };
    let parsers = |query: &CheckedQuery| -> Vec<(String, u16)> {
        query
            .inputs
            .iter()
            .map(|input| (input.schema.name.to_string(), input.schema.version))
            .collect()
    };
    let wanted = parsers(asked);
    let names = |parsers: &[(String, u16)]| {
        parsers
            .iter()
            .map(|(name, _)| name.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    if names(&made.parsers) != names(&wanted) {
        return Err(format!("it keeps tuples of {}", names(&made.parsers)));
    }
    if made.parsers != wanted {
        return Err(format!(
            "its tuples were made by another version of {}",
            names(&made.parsers)
        ));
    }
    if kept.rows.rows_max.is_some() || kept.limit != plan::QueryLimit::default() {
        return Err("its LIMIT excludes some tuples".into());
    }
    if !is_inside(&asked.from, &kept.from) {
        return Err("it keeps only tuples of some clients (FROM)".into());
    }
    if !is_inside(&asked.to, &kept.to) {
        return Err("it keeps only tuples of some servers (TO)".into());
    }
    if asked.sample != SampleMode::All && asked.sample != kept.sample {
        return Err(format!(
            "it keeps SAMPLE {}, and no other share of the flows",
            made.sample
        ));
    }
    let Plan { dataflow, .. } = plan_of(asked, kept.sample, period);
    let own = stream::flat(&planner::lower(kept).dataflow);
    let narrower = conditions(&own);
    let theirs = conditions(&dataflow);
    if !narrower.iter().all(|condition| theirs.contains(condition)) {
        return Err("its WHERE excludes some tuples that the query requests".into());
    }
    let columns = columns(&dataflow, &result.columns)?;
    let narrowness = narrower.len() + kept.from.len().min(1) + kept.to.len().min(1);
    Ok(CoveredQuery {
        dataflow,
        columns,
        sample: kept.sample,
        narrowness,
    })
}

/// Whether all requested endpoints are among the stored ones.
fn is_inside(asked: &[AddressMatch], kept: &[AddressMatch]) -> bool {
    let holds = |kept: &AddressMatch, asked: &AddressMatch| {
        let net = kept
            .net
            .is_none_or(|net| asked.net.is_some_and(|inner| lies_in(inner, net)));
        net && (kept.port.is_none() || kept.port == asked.port)
    };
    let is_kept = |asked: &AddressMatch| kept.iter().any(|kept| holds(kept, asked));
    kept.is_empty() || !asked.is_empty() && asked.iter().all(is_kept)
}

/// All conditions that every tuple of a dataflow meets.
fn conditions(dataflow: &Dataflow) -> Vec<&Predicate> {
    fn add<'p>(predicate: &'p Predicate, to: &mut Vec<&'p Predicate>) {
        match predicate {
            Predicate::And(parts) => parts.iter().for_each(|part| add(part, to)),
            other => to.push(other),
        }
    }
    let mut all = Vec::new();
    let of_inputs = dataflow
        .inputs
        .iter()
        .filter_map(|input| input.filter.as_ref());
    of_inputs
        .chain(&dataflow.filter)
        .for_each(|predicate| add(predicate, &mut all));
    all
}

fn columns(dataflow: &Dataflow, kept: &[ColumnHead]) -> Result<Vec<(FieldId, FieldId)>, String> {
    let input = &dataflow.inputs[0];
    let mut found = Vec::new();
    let mut missing: Vec<&str> = Vec::new();
    for id in &input.columns {
        let head = ColumnHead::of(input.schema.field(*id));
        let is_it =
            |kept: &ColumnHead| (&kept.name, &kept.data_type) == (&head.name, &head.data_type);
        match kept.iter().position(is_it) {
            Some(at) => found.push((*id, FieldId(at as u16))),
            None => missing.push(&input.schema.field(*id).name),
        }
    }
    if missing.is_empty() {
        Ok(found)
    } else {
        Err(format!("it does not keep {}", missing.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> CheckedQuery {
        query::check(text, &parsers::registry::schemas(), &()).expect("a query")
    }

    /// Whether tuples kept for `kept` contain those of `asked`, by FROM and TO.
    fn is_covered(kept: &str, asked: &str) -> bool {
        let kept = query(kept);
        let asked = query(asked);
        is_inside(&asked.from, &kept.from) && is_inside(&asked.to, &kept.to)
    }

    #[test]
    fn all_endpoints_contain_some() {
        assert!(is_covered("PARSE http", "PARSE http"));
        assert!(is_covered(
            "PARSE http",
            "PARSE http FROM 10.0.0.0/8 TO *:80"
        ));
        assert!(!is_covered("PARSE http TO *:80", "PARSE http"));
        assert!(!is_covered("PARSE http FROM 10.0.0.0/8", "PARSE http"));
    }

    #[test]
    fn a_network_contains_smaller_ones_of_its_family() {
        assert!(is_covered(
            "PARSE http FROM 10.0.0.0/8",
            "PARSE http FROM 10.1.0.0/16, 10.2.3.4"
        ));
        assert!(!is_covered(
            "PARSE http FROM 10.1.0.0/16",
            "PARSE http FROM 10.0.0.0/8"
        ));
        assert!(!is_covered(
            "PARSE http FROM 10.1.0.0/16",
            "PARSE http FROM 10.1.2.3, 10.2.2.3"
        ));
    }

    #[test]
    fn a_port_contains_itself_only() {
        assert!(is_covered(
            "PARSE http TO *:80",
            "PARSE http TO 10.0.0.1:80"
        ));
        assert!(is_covered(
            "PARSE http TO 10.0.0.1",
            "PARSE http TO 10.0.0.1:80"
        ));
        assert!(!is_covered(
            "PARSE http TO 10.0.0.1:80",
            "PARSE http TO 10.0.0.1"
        ));
        assert!(!is_covered("PARSE http TO *:80", "PARSE http TO *:81"));
        assert!(is_covered("PARSE http TO *:80, *:81", "PARSE http TO *:81"));
    }

    #[test]
    fn a_conjunction_is_the_conditions_of_its_parts() {
        let conditions_of = |text: &str| {
            let plan = planner::lower(&query(text));
            conditions(&stream::flat(&plan.dataflow)).len()
        };
        assert_eq!(conditions_of("PARSE http"), 0);
        assert_eq!(conditions_of("PARSE http WHERE status = 200"), 1);
        assert_eq!(
            conditions_of("PARSE http WHERE status = 200 and (method = 'GET' and host = 'a')"),
            3
        );
        assert_eq!(
            conditions_of("PARSE http WHERE status = 200 or method = 'GET'"),
            1
        );
    }
}
