//! A checked query as a plan. Names, types and defaults are the checker's; decided here are the columns that monitors
//! fill, and where conditions are applied: before a join whatever concerns one input only.

use plan::{
    AddressMatch, Aggregate, Column, Compare, Dataflow, GroupBy, Input, Limit, Literal, MonitorSpec,
    ParserUse, Pipeline, Plan, Predicate, Profile, Sample, TopK, Value, Window,
};
use query::checked;
use tuple::{FieldId, common};

/// The plan of a query.
#[must_use]
pub fn lower(query: &checked::Query) -> Plan {
    let (before_join, filter) = placed_conditions(query);
    let pipelines: Vec<Pipeline> = query.processors.iter().map(|p| pipeline(query, p)).collect();
    let mut dataflow = Dataflow { inputs: Vec::new(), filter, pipelines };
    for (i, (input, filters)) in query.inputs.iter().zip(before_join).enumerate() {
        let filter = all_of(filters);
        let columns = columns(query, &dataflow, i, filter.as_ref());
        dataflow.inputs.push(Input { schema: input.schema.clone(), columns, filter });
    }
    let parsers =
        dataflow.inputs.iter().map(|i| ParserUse { schema: i.schema.clone(), columns: i.columns.clone() });
    let monitor = MonitorSpec {
        parsers: parsers.collect(),
        clients: query.from.iter().map(address).collect(),
        servers: query.to.iter().map(address).collect(),
        limit: Limit { packets: query.limit.packets, nanos: query.limit.nanos },
        sample: sample(query.sample),
        sample_seed: 0,
    };
    Plan { query: query.text.clone(), monitor, dataflow }
}

/// The conditions of each input, and what is left for after the join. Without a join WHERE stays where it is.
fn placed_conditions(query: &checked::Query) -> (Vec<Vec<Predicate>>, Option<Predicate>) {
    let mut before: Vec<Vec<Predicate>> =
        query.inputs.iter().map(|i| i.filter.iter().map(predicate).collect()).collect();
    let filter = query.filter.as_ref().map(predicate);
    if query.inputs.len() < 2 {
        return (before, filter);
    }
    let parts = match filter {
        Some(Predicate::And(parts)) => parts,
        other => other.into_iter().collect(),
    };
    let mut after = Vec::new();
    for part in parts {
        match only_input(&part) {
            Some(input) => before[input].push(part),
            None => after.push(part),
        }
    }
    (before, all_of(after))
}

fn all_of(mut parts: Vec<Predicate>) -> Option<Predicate> {
    if parts.len() > 1 { Some(Predicate::And(parts)) } else { parts.pop() }
}

/// The input whose columns a predicate reads, if it is one only.
fn only_input(predicate: &Predicate) -> Option<usize> {
    let mut inputs = Vec::new();
    read_by(predicate, &mut |column| inputs.push(column.input));
    let first = *inputs.first()?;
    inputs.iter().all(|i| *i == first).then_some(usize::from(first))
}

/// The columns of one input that anybody reads, ascending.
fn columns(
    query: &checked::Query,
    dataflow: &Dataflow,
    input: usize,
    own: Option<&Predicate>,
) -> Vec<FieldId> {
    let schema = &query.inputs[input].schema;
    if dataflow.pipelines.is_empty() {
        // At what rate a flow was sampled is for those who scale.
        return schema.ids().filter(|id| *id != common::SAMPLE_RATE).collect();
    }
    let mut fields = Vec::new();
    let mut read = |column: Column| {
        if usize::from(column.input) == input {
            fields.push(column.field);
        }
    };
    for predicate in own.into_iter().chain(&dataflow.filter) {
        read_by(predicate, &mut read);
    }
    for pipeline in &dataflow.pipelines {
        pipeline.value.iter().for_each(|v| read(v.column));
        pipeline.group.iter().for_each(|g| read(g.column));
        pipeline.aggregates.iter().for_each(|a| match a {
            Aggregate::Distinct(column) => read(*column),
            Aggregate::Success(predicate) => read_by(predicate, &mut read),
            _ => {}
        });
        if let Some(profile) = &pipeline.profile {
            profile.columns().for_each(&mut read);
            profile.predicates().for_each(|p| read_by(p, &mut read));
        }
    }
    let joined = query.inputs.len() > 1;
    let profiled = dataflow.pipelines.iter().any(|p| p.profile.is_some());
    // Intervals of a sampled result come from the spread between flows; a file's operations follow each other in one.
    if joined || profiled || query.sample != checked::Sample::All {
        fields.push(common::ID);
    }
    // At changing rates every tuple says its own; of a joined one the first input does.
    if query.sample == checked::Sample::Auto && input == 0 {
        fields.push(common::SAMPLE_RATE);
    }
    let timed =
        |p: &Pipeline| p.window.is_some() || p.profile.is_some() || p.aggregates.contains(&Aggregate::Rate);
    if joined || dataflow.pipelines.iter().any(timed) {
        fields.push(common::TS_END);
    }
    fields.sort_unstable();
    fields.dedup();
    fields
}

/// Leaves the columns called `field` out of a plan that shows them with all others. `false`: the query reads one itself.
#[must_use]
pub fn leave_out(plan: &mut Plan, field: &str) -> bool {
    let Dataflow { inputs, filter, pipelines } = &mut plan.dataflow;
    for (i, input) in inputs.iter_mut().enumerate() {
        let Some(id) = input.schema.find(field).filter(|id| input.columns.contains(id)) else { continue };
        let mut needed = !pipelines.is_empty();
        let mut read = |c: Column| needed |= (usize::from(c.input), c.field) == (i, id);
        input.filter.iter().chain(&*filter).for_each(|p| read_by(p, &mut read));
        if needed {
            return false;
        }
        input.columns.retain(|column| *column != id);
        plan.monitor.parsers[i].columns.retain(|column| *column != id);
    }
    true
}

/// Calls `read` with every column of a predicate.
pub(crate) fn read_by(predicate: &Predicate, read: &mut dyn FnMut(Column)) {
    match predicate {
        Predicate::And(parts) | Predicate::Or(parts) => parts.iter().for_each(|p| read_by(p, read)),
        Predicate::Not(inner) => read_by(inner, read),
        Predicate::Compare { column, .. } | Predicate::Like { column, .. } | Predicate::In { column, .. } => {
            read(*column)
        }
        Predicate::IsNull(column) => read(*column),
    }
}

fn pipeline(query: &checked::Query, processor: &checked::Processor) -> Pipeline {
    let value = processor.value.map(|c| Value { column: column(c), unit: query.field(c).unit });
    Pipeline {
        name: processor.name.clone(),
        value,
        value_required: processor.diff,
        group: groups(query, &processor.group),
        aggregates: processor.aggregates.iter().map(aggregate).collect(),
        top_k: processor.top_k.map(|t| TopK { k: t.k, by: t.by }),
        window: processor.window.map(window),
        groups_max: processor.groups_max,
        profile: processor.profile.as_ref().map(profile),
    }
}

fn profile(profile: &checked::Profile) -> Profile {
    Profile {
        operation: column(profile.operation),
        reads: predicate(&profile.reads),
        writes: predicate(&profile.writes),
        success: profile.success.as_ref().map(predicate),
        status: profile.status.map(column),
        response_time: profile.response_time.map(column),
        read_bytes: profile.read_bytes.map(column),
        write_bytes: profile.write_bytes.map(column),
        size: profile.size.map(column),
        offset: profile.offset.map(column),
        file: profile.file.map(column),
        aligned: profile.aligned.map(column),
        checksums: profile.checksums.map(column),
        object: profile.object.map(column),
        client: column(profile.client),
        k: profile.k,
        near: profile.near,
    }
}

/// Group columns under the names of their fields; with their parsers' where two fields have one name.
fn groups(query: &checked::Query, columns: &[checked::Column]) -> Vec<GroupBy> {
    let name_of = |c: checked::Column| query.field(c).name.as_ref();
    let name = |c: checked::Column| match columns.iter().filter(|o| name_of(**o) == name_of(c)).count() {
        1 => name_of(c).to_owned(),
        _ => format!("{}.{}", query.inputs[usize::from(c.input)].schema.name, name_of(c)),
    };
    columns.iter().map(|c| GroupBy { column: column(*c), name: name(*c) }).collect()
}

fn aggregate(aggregate: &checked::Aggregate) -> Aggregate {
    match aggregate {
        checked::Aggregate::Count => Aggregate::Count,
        checked::Aggregate::Sum => Aggregate::Sum,
        checked::Aggregate::Avg => Aggregate::Avg,
        checked::Aggregate::Min => Aggregate::Min,
        checked::Aggregate::Max => Aggregate::Max,
        checked::Aggregate::Stddev => Aggregate::Stddev,
        checked::Aggregate::Rate => Aggregate::Rate,
        checked::Aggregate::Distinct(c) => Aggregate::Distinct(column(*c)),
        checked::Aggregate::Quantile(q) => Aggregate::Quantile(*q),
        checked::Aggregate::Hist => Aggregate::Hist,
        checked::Aggregate::Cdf => Aggregate::Cdf,
        checked::Aggregate::Success(condition) => Aggregate::Success(predicate(condition)),
    }
}

fn predicate(condition: &checked::Condition) -> Predicate {
    match condition {
        checked::Condition::And(parts) => Predicate::And(parts.iter().map(predicate).collect()),
        checked::Condition::Or(parts) => Predicate::Or(parts.iter().map(predicate).collect()),
        checked::Condition::Not(inner) => Predicate::Not(Box::new(predicate(inner))),
        checked::Condition::Compare(c, op, value) => {
            Predicate::Compare { column: column(*c), op: compare(*op), literal: literal(value) }
        }
        checked::Condition::Like(c, pattern) => {
            Predicate::Like { column: column(*c), pattern: pattern.clone() }
        }
        checked::Condition::In(c, values) => {
            Predicate::In { column: column(*c), literals: values.iter().map(literal).collect() }
        }
        checked::Condition::IsNull(c) => Predicate::IsNull(column(*c)),
    }
}

fn compare(op: checked::CompareOp) -> Compare {
    match op {
        checked::CompareOp::Eq => Compare::Eq,
        checked::CompareOp::Ne => Compare::Ne,
        checked::CompareOp::Lt => Compare::Lt,
        checked::CompareOp::Le => Compare::Le,
        checked::CompareOp::Gt => Compare::Gt,
        checked::CompareOp::Ge => Compare::Ge,
    }
}

fn literal(literal: &checked::Literal) -> Literal {
    match literal {
        checked::Literal::Bool(b) => Literal::Bool(*b),
        checked::Literal::U64(n) => Literal::U64(*n),
        checked::Literal::I64(n) => Literal::I64(*n),
        checked::Literal::F64(x) => Literal::F64(*x),
        checked::Literal::Text(text) => Literal::Text(text.clone()),
        checked::Literal::Net(ip, bits) => Literal::Net(*ip, *bits),
    }
}

fn column(column: checked::Column) -> Column {
    Column { input: column.input, field: column.field }
}

fn window(window: checked::Window) -> Window {
    Window { size_ns: window.size_ns, slide_ns: window.slide_ns, lateness_ns: window.lateness_ns }
}

fn address(address: &checked::Address) -> AddressMatch {
    AddressMatch { net: address.net, port: address.port }
}

fn sample(sample: checked::Sample) -> Sample {
    match sample {
        checked::Sample::All => Sample::All,
        checked::Sample::Auto => Sample::Auto,
        checked::Sample::Fraction(p) => Sample::Fraction(p),
    }
}
