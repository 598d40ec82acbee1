// A new alert rule from a result or one of its numbers: columns of the result, and a preview over past windows.
import { useSignal } from "@preact/signals";
import { ask } from "../api/client";
import type { Column, Row } from "../api/cells";
import type { Job, ReceiverList, RuleRequest, RuleShown } from "../api/schema";
import { alone, literal, live, windowOf } from "../results/clauses";
import { duration, heading, many, millis, numeric, span, visible } from "../common/format";
import type { Result } from "../results/model";
import { Dialog, Notice, Text, said, useAsked } from "../common/components";
import { link } from "../common/route";
import { besideTime, firedIn, limitOf, threshold, writtenNumber, type Condition } from "./alert_rule";

/** Windows of the preview that are drawn. */
const BARS_MAX = 120;
const DURATIONS: [value: string, title: string, ns: number][] = [["", "at once", 0], ["30s", "after 30 s", 3e10], ["1m", "after 1 minute", 6e10], ["5m", "after 5 minutes", 3e11], ["15m", "after 15 minutes", 9e11]];

interface Props {
  query: string;
  /** The job whose rows are evaluated, if it is a standing one; otherwise the rule starts one. */
  job: Job | null;
  result: Result;
  /** The row and column of the opened number, if any. */
  row: Row | null;
  at: number;
  close(): void;
}

/** Whether a higher value of a column is worse. */
const isWorseAbove = (column: Column) => column.name !== "success" && !/ratio|hit/.test(column.name);

export default function AlertOn({ query, job, result, row, at, close }: Props) {
  const measures = result.measures;
  const keys = result.keyColumns;
  const column = useSignal(at);
  const shown = result.columns[column.value] as Column;
  const known = row ? numeric(row[at]) : highest(result, at);
  const isAbove = useSignal(isWorseAbove(shown));
  const limit = useSignal(known === null ? "" : writtenNumber(shown, threshold(known, isAbove.value)));
  const isOwn = useSignal(row !== null && keys.length > 0);
  const least = useSignal("");
  const held = useSignal("");
  const name = useSignal(`${heading(shown)}${row && keys.length > 0 ? ` of ${visible(result.key(row))}` : ""}`.slice(0, 200));
  const failed = useSignal("");
  const made = useSignal<RuleShown | null>(null);
  const { answer: receivers } = useAsked((signal) => ask<ReceiverList>("GET", "/api/v1/receivers", undefined, { signal }).catch((): ReceiverList => ({ receivers: [] })), []);
  const chosen = useSignal<string[]>([]);
  const group = row && isOwn.value ? keys.map((key) => (row[key] === null ? `${result.columns[key]!.name} IS NULL` : `${result.columns[key]!.name} = ${literal(result.columns[key]!, row[key]!)}`)).join(" and ") : "";
  const counts = result.at("count") >= 0 && shown.name !== "count";
  const condition = `${shown.name} ${isAbove.value ? ">" : "<"} ${limit.value.trim()}${least.value === "" ? "" : ` and count >= ${least.value}`}`;
  const length = windowOf(query, result.place);
  const isStanding = job !== null && job.kind === "standing" && job.state !== "ended";
  const choose = (to: number) => {
    const next = result.columns[to] as Column;
    column.value = to;
    isAbove.value = isWorseAbove(next);
    const value = row ? numeric(row[to]) : highest(result, to);
    limit.value = value === null ? "" : writtenNumber(next, threshold(value, isAbove.value));
  };
  const create = () => {
    failed.value = "";
    const beside = result.columns[result.at(besideTime(shown.name, result.columns) ?? "")];
    const summary = `${keys.map((key) => `{${result.columns[key]!.name}}`).join(" ")}${keys.length > 0 ? ": " : ""}${heading(shown)} is {${shown.name}}${beside ? `, ${heading(beside)} {${beside.name}}` : ""}`;
    const body: RuleRequest = {
      name: name.value.trim(),
      ...(isStanding ? { job: job.id } : { query: live(alone(query, result.place)), redact: job?.redacted ?? true, on: job?.on ?? {} }),
      ...(isStanding && job.query !== alone(job.query, result.place) ? { result: String(result.place) } : {}),
      when: group === "" ? condition : `${condition} WHERE ${group}`,
      for: held.value || null,
      receivers: chosen.value,
      annotations: { summary },
    };
    ask<RuleShown>("POST", "/api/v1/alert-rules", body).then((rule) => (made.value = rule), (why) => (failed.value = said(why)));
  };
  if (made.value) {
    return (
      <Dialog title="Alert rule created" close={close}>
        <p><Text of={made.value.name} />: <code><Text of={made.value.rule.when} /></code></p>
        <p class="muted small">The rule evaluates every closed window of <a href={link("job", made.value.job_id)}>job {made.value.job_id}</a>. Firing alerts are counted in the navigation.</p>
        <div class="tools"><a class="button primary" href={link("alerts")}>Show alerts</a></div>
      </Dialog>
    );
  }
  return (
    <Dialog title="Alert on this" close={close} kind="wide">
      {length === "" ? <Notice kind="warn">Alerts need windows: add <code>w=10s</code> to the query.</Notice> : (
        <form class="fields" onSubmit={(event) => { event.preventDefault(); create(); }}>
          <div class="line-form">
            <label>Column
              <select value={shown.name} onChange={(event) => choose(result.at(event.currentTarget.value))}>{measures.map((one) => <option value={result.columns[one]!.name}>{heading(result.columns[one]!)}</option>)}</select>
            </label>
            <label>is
              <select value={isAbove.value ? "above" : "below"} onChange={(event) => (isAbove.value = event.currentTarget.value === "above")}><option value="above">above</option><option value="below">below</option></select>
            </label>
            <label>Limit <input required class="mono" size={12} value={limit.value} onInput={(event) => (limit.value = event.currentTarget.value)} /></label>
            <label>Fires <select value={held.value} onChange={(event) => (held.value = event.currentTarget.value)}>{DURATIONS.map(([value, title]) => <option value={value}>{title}</option>)}</select></label>
            {counts && <label>Minimum count <input type="number" min="0" step="1" value={least.value} placeholder="none" onInput={(event) => (least.value = event.currentTarget.value)} /></label>}
          </div>
          {row && keys.length > 0 && <label class="check"><input type="checkbox" checked={isOwn.value} onChange={(event) => (isOwn.value = event.currentTarget.checked)} /> Only for <bdi class="mono">{visible(result.key(row))}</bdi></label>}
          <Preview result={result} condition={{ column: column.value, isAbove: isAbove.value, limit: limitOf(limit.value), least: Number(least.value), group: group === "" || !row ? null : result.key(row), held: Number(DURATIONS.find(([value]) => value === held.value)?.[2] ?? 0) }} />
          <label>Name <input required maxLength={200} value={name.value} onInput={(event) => (name.value = event.currentTarget.value)} /></label>
          {receivers && receivers.receivers.length > 0 && (
            <fieldset><legend>Receivers</legend>{receivers.receivers.map((one) => <label class="check"><input type="checkbox" checked={chosen.value.includes(one.name)} onChange={(event) => (chosen.value = event.currentTarget.checked ? [...chosen.value, one.name] : chosen.value.filter((other) => other !== one.name))} /> <Text of={one.name} /></label>)}</fieldset>
          )}
          <p class="muted small">{isStanding ? <>Evaluates the rows of standing job {job.id}.</> : "Starts a standing job with this query, which ends with the rule."}</p>
          {failed.value !== "" && <Notice kind="bad">{failed.value}</Notice>}
          <div class="tools"><button class="primary">Create rule</button></div>
        </form>
      )}
    </Dialog>
  );
}

/** The highest value of a column in the newest closed window. */
function highest(result: Result, at: number): number | null {
  const values = (result.newestClosed?.rows ?? []).flatMap((row) => numeric(row[at]) ?? []);
  return values.length === 0 ? null : Math.max(...values);
}

/** When the rule would have fired in the loaded windows. */
function Preview({ result, condition }: { result: Result; condition: Omit<Condition, "limit"> & { limit: number | null } }) {
  const windows = result.inOrder.filter((window) => !window.open && window.start !== "");
  const [first, last] = [windows[0], windows.at(-1)];
  if (!first || !last) return <p class="muted small">No closed windows for a preview yet.</p>;
  const { limit } = condition;
  if (limit === null) return <p class="muted small">A preview needs a number as the limit, such as 50ms.</p>;
  const found = firedIn(result, windows, { ...condition, limit });
  const partly = windows.filter(({ left }) => left > 0).length;
  return (
    <section class="preview" aria-label="Preview">
      <p>
        <strong>{found.alerts.length === 0 ? "Would not have fired" : `Would have fired ${found.alerts.length === 1 ? "once" : `${many(found.alerts.length)} times`}`}</strong>{" "}
        <span class="muted">in {span(first.start, last.end)} UTC, {windows.length} windows; condition met in {found.met.size} of them{partly > 0 ? `; ${partly} windows are loaded in part` : ""}</span>
      </p>
      <div class="fired" aria-hidden="true">{windows.slice(-BARS_MAX).map(({ start, end }) => <i class={found.firing.has(start) ? "firing" : found.met.has(start) ? "met" : ""} title={span(start, end)} />)}</div>
      {found.alerts.length > 0 && (
        <ol class="list small">
          {found.alerts.slice(0, 5).map((one) => <li><bdi class="mono">{visible(one.key)}</bdi> <span class="muted">{span(one.since, one.until)} UTC, {duration((millis(one.until) - millis(one.since)) * 1e6)}</span></li>)}
          {found.alerts.length > 5 && <li class="muted">and {many(found.alerts.length - 5)} more</li>}
        </ol>
      )}
    </section>
  );
}
