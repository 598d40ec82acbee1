// Diagram of a query: packets, parsers with their columns, blocks, outputs; estimated cost; and the same as text.
import type { ExplainAnswer } from "../api/schema";
import { clauses } from "../results/clauses";
import { bytes, many, visible } from "../common/format";
import { Text } from "../common/components";

const [WIDTH, LINE, GAP, PAD] = [300, 17, 26, 9];

interface Box {
  title: string;
  lines: string[];
  kind: string;
}

/** Wraps text at spaces; the rest is counted. */
function wrapped(words: string[], most: number, lines: number): string[] {
  const found: string[] = [];
  words.forEach((word, i) => {
    const last = found.at(-1);
    if (found.length > lines) return;
    if (last !== undefined && last.length + word.length + 2 <= most) found[found.length - 1] = `${last}, ${word}`;
    else if (found.length < lines) found.push(word.slice(0, most));
    else found.push(`… ${words.length - i} more`);
  });
  return found;
}

/** Truncated text with the full text as a tooltip. */
function Words({ of, most, ...place }: { of: string; most: number; x: string; y: number; class?: string }) {
  const text = visible(of);
  return <text {...place}>{text.length <= most ? text : <>{`${text.slice(0, most - 1)}…`}<title>{text}</title></>}</text>;
}

/** At most three side by side. */
const few = (all: Box[]) => (all.length <= 3 ? all : [...all.slice(0, 2), { title: `and ${all.length - 2} more`, lines: [], kind: all[0]!.kind }]);

function Stage({ boxes, y, height }: { boxes: Box[]; y: number; height: number }) {
  const w = (WIDTH - (boxes.length - 1) * 8) / boxes.length;
  return (
    <>
      {boxes.map((box, i) => (
        <g class={`stage ${box.kind}`} transform={`translate(${(i * (w + 8)).toFixed(1)} ${y})`}>
          <rect width={w.toFixed(1)} height={height} rx="7" />
          <Words of={box.title} most={Math.floor((w - 16) / 8.2)} x="10" y={PAD + 11} class="title" />
          {box.lines.map((line, n) => <Words of={line} most={Math.floor((w - 16) / 6.4)} x="10" y={PAD + 11 + (n + 1) * LINE} />)}
        </g>
      ))}
    </>
  );
}

function stages(of: ExplainAnswer, query: string, packets: string): Box[][] {
  const said = clauses(query);
  const clause = (...words: string[]) => said.filter(({ word }) => words.includes(word)).map(({ word, body }) => `${word} ${body}`.replace(/\s+/g, " "));
  const each = of.parsers.length > 1 ? 20 : 42;
  const found: Box[][] = [[{ title: "packets", lines: [packets, ...clause("FROM", "TO", "SAMPLE", "SINCE", "UNTIL")], kind: "packets" }]];
  found.push(few(of.parsers.map(({ name, columns }) => ({ title: name, lines: wrapped(columns, each, 4), kind: "parser" }))));
  if (of.parsers.length > 1) found.push([{ title: "join", lines: ["by flow id"], kind: "block" }]);
  const where = clause("WHERE");
  if (where.length > 0) found.push([{ title: "filter", lines: where, kind: "block" }]);
  if (of.processors.length === 0) found.push([{ title: "tuples", lines: ["one row per tuple", ...clause("ORDER", "LIMIT")], kind: "result" }]);
  else found.push(few(of.processors.map((name) => ({ title: name, lines: name.includes("-") && of.processors.length === 1 ? [name.split("-").join(" → ")] : [], kind: "result" }))));
  return found;
}

export function Picture({ of, query, packets }: { of: ExplainAnswer; query: string; packets: string }) {
  const all = stages(of, query, packets);
  const heights = all.map((boxes) => PAD * 2 + LINE - 2 + Math.max(...boxes.map((box) => box.lines.length)) * LINE);
  let y = 0;
  const ys = heights.map((height) => {
    const at = y;
    y += height + GAP;
    return at;
  });
  const center = (boxes: Box[], i: number) => ((i + 0.5) * (WIDTH + 8)) / boxes.length - 4;
  return (
    <svg class="plan-picture" viewBox={`-1 -1 ${WIDTH + 2} ${y - GAP + 2}`} role="img" aria-label={`Plan: packets, then ${of.parsers.map(({ name }) => name).join(" and ")} then ${of.processors.join(", ") || "tuples"}`}>
      <defs><marker id="on" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z" class="tip" /></marker></defs>
      {all.slice(0, -1).flatMap((boxes, i) => {
        const next = all[i + 1] as Box[];
        return boxes.flatMap((_, a) => next.map((_, b) => <path class="flow" d={`M${center(boxes, a)} ${(ys[i] ?? 0) + (heights[i] ?? 0)}L${center(next, b)} ${(ys[i + 1] ?? 0) - 1}`} marker-end="url(#on)" />));
      })}
      {all.map((boxes, i) => <Stage boxes={boxes} y={ys[i] ?? 0} height={heights[i] ?? 0} />)}
    </svg>
  );
}

/** The diagram and the estimated cost of a query. */
export default function Plan({ of, query }: { of: ExplainAnswer | null; query: string }) {
  const isSql = /^\s*SELECT\b/i.test(query);
  if (!of) {
    return (
      <section class="card">
        <h2>Plan</h2>
        <p class="muted small">Shown when the query is valid.</p>
      </section>
    );
  }
  // An agent without traffic has no estimate.
  const busy = of.agents.filter(({ estimate }) => estimate.packets_per_second > 0);
  const cost = busy[0] ?? { agent: "", estimate: of.estimate };
  const { packets_per_second: packets, cores, memory_bytes: memory } = cost.estimate;
  return (
    <section class="card plan">
      <h2>Plan</h2>
      <Picture of={of} query={of.parse_spelling} packets={`${many(packets)}/s ${busy.length > 0 ? `at ${cost.agent}` : "assumed"}`} />
      <p class="small muted">Estimated cost{cost.agent === "" ? " per host" : <> on <Text of={cost.agent} /></>}: {cores < 0.01 ? "0.01" : cores.toFixed(2)} cores, {bytes(memory)} of memory.</p>
      <details>
        <summary>{isSql ? "With PARSE" : "In SQL"}</summary>
        {(isSql ? [of.parse_spelling] : of.sql_spelling).map((text) => <pre tabIndex={0}>{text === null ? "SQL cannot express this processor." : visible(text).replaceAll("\\n", "\n")}</pre>)}
      </details>
      <details>
        <summary>As text</summary>
        <pre tabIndex={0}>{visible(of.text).replaceAll("\\n", "\n")}</pre>
      </details>
    </section>
  );
}
