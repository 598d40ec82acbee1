// Comparison of two periods (BASELINE); significant differences first.
import { askKept } from "../api/client";
import type { PastAnswer } from "../api/schema";
import { against, alone, type Period } from "../results/clauses";
import { readCompared, shownIn, worse, type Change } from "../results/comparison";
import { clock, heading, time, visible } from "../common/format";
import { Copy, Empty, Notice, said, useAsked } from "../common/components";
import { go } from "../common/route";

const ROWS_MAX = 500;

const between = ({ since, until }: Period, day = false) => `${day ? `${time(since).slice(0, 10)} ` : ""}${clock(since)}–${clock(until)}`;

export function Compare({ query, recording, place, own, baseline }: { query: string; recording: string; place: number; own: Period; baseline: Period }) {
  const text = against(alone(query, place), own, baseline);
  const { answer, error } = useAsked<PastAnswer>((signal) => askKept(text, recording, ROWS_MAX, signal), [text, recording]);
  return (
    <section class="compare" aria-label="Comparison">
      <Periods own={own} baseline={baseline} />
      {error !== undefined ? <Notice kind="bad">{said(error)}</Notice> : !answer ? <p class="muted" role="status">Reading stored data…</p> : <Differences answer={answer} place={0} />}
      <div class="tools"><button type="button" onClick={() => go("ask", "", { q: text, in: recording })}>Edit query</button><Copy text={() => text}>Copy query</Copy></div>
    </section>
  );
}

const Periods = ({ own, baseline }: { own: Period; baseline: Period }) => (
  <p><strong>{between(own, true)} UTC</strong> compared with <strong>{between(baseline, time(own.since).slice(0, 10) !== time(baseline.since).slice(0, 10))}</strong></p>
);

/** The compared rows of an answer with a baseline. */
export function Differences({ answer, place }: { answer: PastAnswer; place: number }) {
  const told = answer.results[place];
  if (!told) return null;
  const { measures, rows } = readCompared(told);
  const differing = rows.filter(({ kind }) => kind !== "same").length;
  const isSaid = rows.some(({ changes }) => changes.some(({ differs }) => differs !== null));
  return (
    <>
      {isSaid && <p class="muted">{differing} of {rows.length} groups differ significantly, strongest evidence first</p>}
      {answer.notes.map((note) => (note.startsWith("answered from the") ? <p class="muted small">{visible(note)}</p> : <Notice>{visible(note)}</Notice>))}
      {rows.length === 0 ? <Empty title="No rows in either period" /> : (
        <div class="scroll" tabIndex={0} role="region" aria-label="Compared rows">
          <table class="plain wide compared">
            <thead><tr><th scope="col">group</th><th scope="col">change</th>{measures.map((column) => <th scope="col" class="n" title={column.doc}>{heading(column)}</th>)}</tr></thead>
            <tbody>
              {rows.map(({ key, changes, kind, word }) => (
                <tr class={kind}>
                  <th scope="row"><bdi class="mono">{visible(key) || "all"}</bdi></th>
                  <td><span class={`change ${kind}`}>{visible(word)}</span></td>
                  {changes.map((change) => <td class="n nowrap"><Cell of={change} /></td>)}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <p class="muted small">▲ ▼: significant at 95 %; about one in twenty unchanged values is marked by chance. “?”: unknown. {told.left_out > 0 ? `${told.left_out} groups omitted.` : ""}</p>
    </>
  );
}

function Cell({ of: { column, now, before, ratio, differs } }: { of: Change }) {
  const up = (now ?? 0) > (before ?? 0);
  const bad = ratio === null ? null : worse(column, ratio);
  return (
    <>
      <span class={differs ? (bad === null ? "differs" : bad ? "differs worse" : "differs better") : ""}>
        {differs ? <><span aria-hidden="true">{up ? "▲ " : "▼ "}</span><span class="hidden">{up ? "more: " : "less: "}</span></> : differs === null && now !== null && before !== null ? "? " : ""}{shownIn(column, now)}
      </span>
      <span class="interval block">was {shownIn(column, before)}</span>
    </>
  );
}
