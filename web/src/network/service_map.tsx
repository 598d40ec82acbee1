// The service map over all protocols with stored tuples, live, in the past, or compared with an earlier period. Each protocol is
// queried separately (`service-map`), as by the terminal's `map`.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ask, askKept, lasting, may } from "../api/client";
import type { Agents, Jobs, PastAnswer } from "../api/schema";
import { against, clauses, moment, parsersOf, written, type Period } from "../results/clauses";
import { EARLIER, periodsOf, readCompared } from "../results/comparison";
import { span, visible } from "../common/format";
import { Names, edgesOf, failing, type Edge } from "../charts/graph";
import { useLater } from "../common/lazy";
import { Drawn, Twin } from "../charts/map";
import { Result } from "../results/model";
import { Copy, Empty, Notice, said, useAsked } from "../common/components";
import { keep, link, param } from "../common/route";

const LENGTHS: [string, string][] = [["1m", "last minute"], ["5m", "last 5 minutes"], ["30m", "last 30 minutes"], ["6h", "last 6 hours"], ["24h", "last 24 hours"]];
const NS: Record<string, bigint> = { m: 60_000_000_000n, h: 3_600_000_000_000n };
const REFRESH_MS = 20_000;
/** The result of one protocol. */
const ROWS_MAX = 10_000;
const DNS = "PARSE dns WHERE query_type in ('A', 'AAAA') and answer_count > 0 PROCESS (group-count: group=query_name, answers)";

/** Parsers that duplicate requests of others. */
const BELOW = /^(?:tcp_|packet$|flow$|rpc$)/;

/** Protocol names as in the terminal's map. */
const protocolOf = (parser: string) => parser.replace(/_(query|get|conn_time)$/, "");

interface Found {
  edges: Edge[];
  names: Names;
  own: Period;
  texts: string[];
  notes: string[];
  failed: string[];
}

async function load(signal: AbortSignal, last: string, times: { own: Period; baseline: Period } | null, sofar: (found: Found) => void): Promise<Found> {
  const [{ jobs }, { agents }] = await Promise.all([
    ask<Jobs>("GET", "/api/v1/jobs?limit=1000", undefined, { signal }),
    ask<Agents>("GET", "/api/v1/agents", undefined, { signal }),
  ]);
  const now = BigInt(Math.floor(Date.now() / 1000)) * 1_000_000_000n;
  const length = BigInt(last.slice(0, -1)) * (NS[last.slice(-1)] ?? 60_000_000_000n);
  const own = times?.own ?? { since: String(now - length), until: String(now) };
  const parsers = !may("run") ? [] : [...new Set(jobs.filter((job) => job.keep === "tuples").map((job) => parsersOf(job.query)).filter((list) => list.length === 1).map(([one]) => one!))].filter((parser) => !BELOW.test(parser));
  const found: Found = { edges: [], names: new Names([], new Map()), own, texts: [], notes: [], failed: [] };
  const called = new Map<string, string>();
  for (const parser of parsers) {
    const query = parser === "dns" ? DNS : `PARSE ${parser} PROCESS (service-map)`;
    const within = (query: string) => written([...clauses(query).slice(0, -1), { word: "SINCE", body: moment(own.since) }, { word: "UNTIL", body: moment(own.until) }, ...clauses(query).slice(-1)]);
    let told: PastAnswer;
    try {
      const text = times && parser !== "dns" ? against(query, times.own, times.baseline) : within(query);
      told = await lasting(() => askKept(text, "", ROWS_MAX, signal), signal);
      if (parser !== "dns") found.texts.push(text);
    } catch (error) {
      if (signal.aborted) throw error;
      found.failed.push(`${parser}: ${said(error)}`);
      continue;
    }
    const first = told.results[0];
    if (!first) continue;
    const result = new Result(0, first.processor, first.columns, first.keys, first.rows.length);
    if (parser === "dns") {
      for (const row of first.rows) for (const address of String(row[result.at("answers")] ?? "").split(",")) if (!called.has(address)) called.set(address, String(row[result.at("query_name")]));
      continue;
    }
    found.notes.push(...told.notes.filter((note) => !found.notes.includes(note) && !note.startsWith("answered from the tuples")));
    const edges = edgesOf(result, first.rows, query, protocolOf(parser));
    if (times) {
      const changes = new Map(readCompared(first).rows.map((one) => [one.row, one]));
      for (const edge of edges) {
        const one = changes.get(edge.of[0]!.row);
        if (one) edge.change = { kind: one.kind, word: one.word, evidence: one.kind === "same" ? 0 : one.evidence };
      }
    }
    found.edges.push(...edges);
    sofar({ ...found, edges: [...found.edges], names: new Names(agents, called) });
  }
  found.names = new Names(agents, called);
  return found;
}

export default function Services() {
  const last = LENGTHS.some(([name]) => name === param("last")) ? param("last") : "5m";
  const times = periodsOf(param);
  const of = times ? `${times.own.since}|${times.own.until}|${times.baseline.since}|${times.baseline.until}` : last;
  // The first time, protocols are shown as they arrive.
  const sofar = useSignal<{ of: string; found: Found } | undefined>(undefined);
  const { answer: whole, error } = useAsked((signal) => load(signal, last, times, (found) => { if (!signal.aborted) sofar.value = { of, found }; }), [of], times ? 0 : REFRESH_MS);
  const answer = whole ?? (sofar.value?.of === of ? sofar.value.found : undefined);
  const view = param("view", "graph");
  /** The period of an opened number stays when the map is refreshed. */
  const opened = useSignal<{ edge: Edge; at: number; period: Period | null } | null>(null);
  const [behind] = useLater(() => import("../answers/lazy_details"), opened.value !== null);
  const open = (edge: Edge, at: number) => (opened.value = { edge, at, period: answer?.own ?? null });
  const compare = (vs: string) => {
    if (vs === "") return keep({ vs: "", from: "", to: "", bfrom: "", bto: "" });
    const until = BigInt(Math.floor(Date.now() / 1000)) * 1_000_000_000n;
    const since = until - BigInt(last.slice(0, -1)) * (NS[last.slice(-1)] ?? 60_000_000_000n);
    keep({ vs, from: param("from") || String(since), to: param("to") || String(until) });
  };
  useEffect(() => {
    const onKey = (event: Event) => {
      const to = { 1: "graph", 2: "table" }[(event as CustomEvent<KeyboardEvent>).detail.key];
      if (to === undefined) return;
      keep({ view: to });
      (event as CustomEvent<KeyboardEvent>).detail.preventDefault();
    };
    addEventListener("pagekey", onKey);
    return () => removeEventListener("pagekey", onKey);
  }, []);
  const image = (format: "svg" | "png") => void import("../answers/lazy_details").then(({ picture }) => answer && picture("map", {
    title: "Map", query: answer.texts.join("\n"), measure: "", period: answer.own, isOpen: false, worth: [], foot: "", account: null, link: location.href,
  }, document.querySelector("section.body") as Element, format));
  const one = opened.value;
  const edges = answer?.edges ?? [];
  const bad = edges.filter((edge) => failing(edge) > 0).length;
  return (
    <div class="page services">
      <header class="head">
        <h1>Map</h1>
        <p class="muted">Clients and servers with request rates, errors, and response times.</p>
      </header>
      <div class="tools">
        <div class="segmented" role="group" aria-label="View">
          {[["graph", "Graph"], ["table", "Table"]].map(([name, title]) => <button type="button" aria-pressed={view === name} onClick={() => keep({ view: name! })}>{title}</button>)}
        </div>
        <label class="inline">Period <select value={last} disabled={times !== null} onChange={(event) => keep({ last: event.currentTarget.value })}>{LENGTHS.map(([name, title]) => <option value={name}>{title}</option>)}</select></label>
        <label class="inline">Compare with <select value={param("vs")} onChange={(event) => compare(event.currentTarget.value)}>{EARLIER.filter(([name]) => !["mark", "range"].includes(name) || name === param("vs")).map(([name, title]) => <option value={name}>{title}</option>)}</select></label>
        {times && <button type="button" onClick={() => compare("")}>End comparison</button>}
        {answer && <span class="muted small">{span(answer.own.since, answer.own.until)} UTC{times ? ` compared with ${span(times.baseline.since, times.baseline.until)}` : ""}{bad > 0 ? `, ${bad} edges with errors` : ""}</span>}
        {answer && !whole && error === undefined && <span class="muted small" role="status">Loading more protocols…</span>}
        {view === "graph" && edges.length > 0 && <><button type="button" onClick={() => image("png")}>Save PNG</button><button type="button" onClick={() => image("svg")}>Save SVG</button></>}
        {answer && answer.texts.length > 0 && <Copy text={() => answer.texts.join("\n")}>Copy queries</Copy>}
      </div>
      {error !== undefined && <Notice kind="bad">{said(error)} {answer && "The data shown is outdated."}</Notice>}
      {answer?.failed.map((why) => <Notice kind="warn">{why}</Notice>)}
      {answer && answer.notes.length > 0 && (
        <details class="small"><summary>{answer.notes.length === 1 ? "1 note" : `${answer.notes.length} notes`} on the stored data</summary><ul>{answer.notes.map((note) => <li class="muted">{visible(note)}</li>)}</ul></details>
      )}
      <section class="body" aria-label="Result">
        {!answer ? <p class="muted" role="status">Reading stored data…</p> : edges.length === 0 ? (
          <Empty title={!may("run") ? "The map needs the role run" : answer.failed.length > 0 ? "Stored data could not be read" : answer.texts.length === 0 ? "No job stores tuples" : "No requests in this period"}>
            <p class="muted">{!may("run") ? "Your token cannot query stored data." : answer.failed.length > 0 ? "The reasons are listed above." : answer.texts.length === 0 ? <>The map is computed from stored tuples. Start a job that stores them: <code>netalytics jobs start 'PARSE http' --standing --keep-tuples</code>. Or <a href={link("ask", "", { q: "PARSE http PROCESS (service-map: w=10s)" })}>query one protocol</a>; its result has a map.</> : "Select a longer period."}</p>
          </Empty>
        ) : view === "table" ? <Twin all={edges} names={answer.names} onOpen={open} /> : <Drawn all={edges} names={answer.names} onOpen={open} />}
      </section>
      {one && behind && (
        <behind.Drill recording="" {...one.edge.of[0]!} at={one.at} period={one.period} isOpen={false} account={null} isRedacted={false} close={() => (opened.value = null)} />
      )}
    </div>
  );
}
