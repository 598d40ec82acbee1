// The answer to a query with SINCE: from what was kept, at once. It stands below the query and does not change.
import { useSignal } from "@preact/signals";
import type { Column, Row } from "./api";
import { colourOf } from "./colours";
import { csv, time, visible } from "./format";
import { Result, sorted } from "./model";
import { Copy, Empty, Notice } from "./parts";
import { Table, type Sort } from "./table";

export interface PastAnswer {
  job: string;
  from: string;
  since_ns: string;
  until_ns: string;
  baseline_since_ns: string | null;
  baseline_until_ns: string | null;
  tuples: string | null;
  notes: string[];
  results: { processor: string | null; keys: number; columns: Column[]; rows: Row[]; left_out: number }[];
}

/** Whether a query asks for what was kept. */
export const isPast = (query: string) => /\bSINCE\b/i.test(query.replace(/'(?:[^']|'')*'|"(?:[^"]|"")*"/g, "''"));

const NO_COURSE = new Map<string, (number | null)[]>();

export function Past({ answer }: { answer: PastAnswer }) {
  const between = (from: string, to: string) => `${time(from).slice(0, 19)} to ${time(to).slice(0, 19)} UTC`;
  return (
    <section aria-label="Answer" class="past-answer">
      <h2>What was kept says</h2>
      <p class="muted small">
        {between(answer.since_ns, answer.until_ns)}
        {answer.baseline_since_ns && answer.baseline_until_ns ? `, against ${between(answer.baseline_since_ns, answer.baseline_until_ns)}` : ""}
      </p>
      {answer.notes.map((note) => <Notice>{visible(note)}</Notice>)}
      {answer.results.map((told, i) => <One key={i} told={told} place={i} />)}
    </section>
  );
}

function One({ told, place }: { told: PastAnswer["results"][number]; place: number }) {
  const sort = useSignal<Sort | null>(null);
  const picked = useSignal<string[]>([]);
  const result = new Result(place, told.processor, told.columns, told.keys, told.rows.length);
  const at = sort.value ? result.at(sort.value.by) : -1;
  const rows = at >= 0 && sort.value ? sorted(told.rows, at, sort.value.down) : told.rows;
  if (told.rows.length === 0) return <Empty title="No row"><p class="muted">Nothing that was kept of that time is asked for.</p></Empty>;
  return (
    <>
      <div class="tools"><strong>{told.processor ?? "tuples"}</strong> <span class="muted grow">{told.rows.length} rows{told.left_out > 0 ? `, ${told.left_out} more are not shown` : ""}</span> <Copy text={() => csv(told.columns, rows)}>Copy CSV</Copy></div>
      <Table
        result={result} rows={rows} sort={sort.value} onSort={(to) => (sort.value = to)} picked={picked.value} colour={colourOf} course={NO_COURSE} measure={result.measure} isOpen={false} showWindows
        onPick={(key) => (picked.value = picked.value.includes(key) ? picked.value.filter((other) => other !== key) : [...picked.value, key])}
      />
    </>
  );
}
