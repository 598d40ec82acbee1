//! Validation of processors.

use tuple::{DataType, Field};

use super::{computations, ensure, types};
use crate::dataflow::{AggregateFunction, Pipeline, ProfileSpec, ResultSelection, Window};
use crate::expr::Column;
use crate::result::{self, IntervalMode};

/// Maximum groups of a ranking, and maximum rows of a window; queries are limited to the same.
const K_MAX: usize = 1_000_000;
/// Maximum value of a pipeline's group limit.
const GROUPS_MAX: usize = 100_000_000;
/// Maximum windows per tuple.
const OVERLAP_MAX: i64 = 1000;

/// Validates a pipeline; `field` returns the field of a column.
pub fn check<'a>(
    pipeline: &Pipeline,
    field: &dyn Fn(Column) -> Result<&'a Field, String>,
) -> Result<(), String> {
    ensure((1..=GROUPS_MAX).contains(&pipeline.groups_max), || {
        format!("{} groups at most", pipeline.groups_max)
    })?;
    pipeline.window.iter().try_for_each(window)?;
    if let Some(of) = &pipeline.profile {
        return profile(pipeline, of, field);
    }
    pipeline
        .values
        .iter()
        .try_for_each(|value| field(value.column).map(|_| ()))?;
    pipeline
        .group
        .iter()
        .try_for_each(|group| field(group.column).map(|_| ()))?;
    for aggregated in &pipeline.aggregates {
        let aggregate = &aggregated.aggregate;
        if aggregate.takes_value() {
            let value = pipeline
                .values
                .get(aggregated.value)
                .ok_or("an unknown value")?;
            let number = field(value.column)?;
            let is_number = matches!(
                number.data_type,
                DataType::U64 | DataType::I64 | DataType::F64
            );
            ensure(is_number, || format!("{} is not a number", number.name))?;
        }
        match aggregate {
            AggregateFunction::Quantile(q) => {
                ensure((0.0..=1.0).contains(q), || format!("{q} is not a quantile"))?
            }
            AggregateFunction::Distinct(column) => _ = field(*column)?,
            AggregateFunction::Success(predicate) | AggregateFunction::Ratio(predicate) => {
                types::condition(predicate, field)?;
            }
            _ => {}
        }
    }
    if let Some(top) = pipeline.top_k {
        let by = pipeline
            .aggregates
            .get(top.by)
            .ok_or("a ranking by a missing aggregate")?;
        ensure(!by.aggregate.is_distribution(), || {
            "a distribution cannot be ranked".into()
        })?;
        ensure((1..=K_MAX).contains(&top.k), || {
            format!("the first {} groups", top.k)
        })?;
    }
    selection(pipeline, field)
}

fn window(window: &Window) -> Result<(), String> {
    let Window {
        size_ns,
        slide_ns,
        lateness_ns,
    } = *window;
    let is_sound = size_ns > 0
        && slide_ns > 0
        && lateness_ns >= 0
        && size_ns % slide_ns == 0
        && size_ns / slide_ns <= OVERLAP_MAX;
    ensure(is_sound, || {
        format!("windows of {size_ns} ns every {slide_ns} ns, {lateness_ns} ns late")
    })
}

fn profile<'a>(
    pipeline: &Pipeline,
    profile: &ProfileSpec,
    field: &dyn Fn(Column) -> Result<&'a Field, String>,
) -> Result<(), String> {
    let is_alone = pipeline.values.is_empty()
        && pipeline.group.is_empty()
        && pipeline.aggregates.is_empty()
        && pipeline.top_k.is_none()
        && pipeline.selection == ResultSelection::default();
    ensure(is_alone, || "a profile has no groups and aggregates".into())?;
    ensure((1..=K_MAX).contains(&profile.k), || {
        format!("the {} hottest", profile.k)
    })?;
    profile
        .columns()
        .try_for_each(|column| field(column).map(|_| ()))?;
    profile
        .predicates()
        .try_for_each(|predicate| types::condition(predicate, field))
}

/// Validates HAVING and ORDER BY over the result columns.
fn selection<'a>(
    pipeline: &Pipeline,
    field: &dyn Fn(Column) -> Result<&'a Field, String>,
) -> Result<(), String> {
    let ResultSelection {
        computed,
        having,
        order_by,
        rows_max,
    } = &pipeline.selection;
    if pipeline.selection == ResultSelection::default() {
        return Ok(());
    }
    // The columns of the pipeline are already validated.
    let found = |column: Column| match field(column) {
        Ok(field) => field.clone(),
        Err(_) => Field::new("", DataType::U64, tuple::Unit::None, ""),
    };
    let schema = result::schema(pipeline, IntervalMode::None, &found);
    let own = |column: Column| {
        let place = usize::from(column.field.0);
        let field = schema.fields.get(place).filter(|_| column.input == 0);
        field.ok_or_else(|| "an unknown column of results".to_owned())
    };
    computations(computed, &own)?;
    let all = |column: Column| match column.computed_place() {
        Some(place) => computed
            .get(place)
            .map(|c| &c.field)
            .ok_or_else(|| "an unknown column".into()),
        None => own(column),
    };
    having
        .iter()
        .try_for_each(|having| types::condition(having, &all))?;
    for key in order_by {
        let field = all(key.column)?;
        ensure(field.data_type != DataType::Json, || {
            "a distribution cannot be ordered".into()
        })?;
    }
    ensure(
        rows_max.is_none_or(|max| (1..=K_MAX).contains(&max)),
        || "a number of rows".into(),
    )
}
