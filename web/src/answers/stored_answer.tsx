// The answer to a query of stored data or a recording; static, below the query.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Row } from "../api/cells";
import type { PastAnswer } from "../api/schema";
import { colourOf } from "../common/colors";
import { csv, time, visible } from "../common/format";
import { isMap } from "../results/edges";
import { useLater } from "../common/lazy";
import { Result, sorted, type Sort } from "../results/model";
import { Copy, Empty, Notice } from "../common/components";
import { Table } from "../charts/table";

const NO_COURSE = new Map<string, (number | null)[]>();

export function Past({ answer, query }: { answer: PastAnswer; query: string }) {
  const at = useRef<HTMLElement>(null);
  useEffect(() => at.current?.scrollIntoView({ block: "nearest" }), [answer]);
  const between = (from: string, to: string) => `${time(from).slice(0, 19)} to ${time(to).slice(0, 19)} UTC`;
  return (
    <section aria-label="Result" class="past-answer" ref={at}>
      <h2>{answer.recording === null ? "Stored data" : "Recording"}</h2>
      <p class="muted small">
        {answer.since_ns && answer.until_ns ? between(answer.since_ns, answer.until_ns) : ""}
        {answer.baseline_since_ns && answer.baseline_until_ns ? `, compared with ${between(answer.baseline_since_ns, answer.baseline_until_ns)}` : ""}
      </p>
      {answer.notes.map((note) => (note.startsWith("answered from the") ? <p class="muted small">{visible(note)}</p> : <Notice>{visible(note)}</Notice>))}
      {answer.results.map((told, i) => <One key={i} told={told} place={i} answer={answer} query={query} />)}
    </section>
  );
}

function One({ told, place, answer, query }: { told: PastAnswer["results"][number]; place: number; answer: PastAnswer; query: string }) {
  const sort = useSignal<Sort | null>(null);
  const picked = useSignal<string[]>([]);
  const opened = useSignal<{ row: Row; at: number } | null>(null);
  const result = new Result(place, told.processor, told.columns, told.keys, told.rows.length);
  const isDrawn = isMap(result) && result.at("window_start") < 0;
  const [behind] = useLater(() => import("./lazy_details"), opened.value !== null);
  const [map] = useLater(() => import("../charts/map"), isDrawn);
  const at = sort.value ? result.at(sort.value.by) : -1;
  const rows = at >= 0 && sort.value ? sorted(told.rows, at, sort.value.down) : told.rows;
  if (told.rows.length === 0) return <Empty title="No rows"><p class="muted">No data of this period matches the query.</p></Empty>;
  const [start, end] = [result.at("window_start"), result.at("window_end")];
  const periodOf = (row: Row) =>
    start >= 0 && row[start] !== null ? { since: String(row[start]), until: String(row[end]) } : answer.since_ns && answer.until_ns ? { since: answer.since_ns, until: answer.until_ns } : null;
  const open = (row: Row, at: number) => (opened.value = { row, at });
  return (
    <>
      <div class="tools"><strong>{told.processor ?? "tuples"}</strong> <span class="muted grow">{told.rows.length} rows{told.left_out > 0 ? `, ${told.left_out} more not shown` : ""}</span> <Copy text={() => csv(told.columns, rows)}>Copy CSV</Copy></div>
      <Table
        result={result} rows={rows} sort={sort.value} onSort={(to) => (sort.value = to)} picked={picked.value} colour={colourOf} course={NO_COURSE} measure={result.measure} isOpen={false} showWindows
        onPick={(key) => (picked.value = picked.value.includes(key) ? picked.value.filter((other) => other !== key) : [...picked.value, key])}
        {...(answer.baseline_since_ns ? {} : { onOpen: open })}
      />
      {isDrawn && map && <map.Map_ result={result} rows={told.rows} query={query} {...(answer.baseline_since_ns ? {} : { onOpen: open })} />}
      {opened.value && behind && (
        <behind.Drill query={query} recording={answer.recording ?? ""} result={result} {...opened.value} period={periodOf(opened.value.row)} isOpen={false} account={null} isRedacted={false} close={() => (opened.value = null)} />
      )}
    </>
  );
}
