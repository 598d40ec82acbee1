// A job's result, live: rows, charts, and the data quality: losses, sampling, missing agents, open windows.
import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, lasting, may, me } from "../api/client";
import type { Row } from "../api/cells";
import type { AccountEvent, Job } from "../api/schema";
import { colourOf } from "../common/colors";
import { Quality } from "./quality";
import { whole, withHist } from "../results/clauses";
import { EARLIER, periodsOf } from "../results/comparison";
import { clock, csv, duration, heading, many, millis, numeric, percentage, time, visible } from "../common/format";
import { Model, WINDOW_ROWS_MAX, sorted, type Result, type Win } from "../results/model";
import { isMap } from "../results/edges";
import { useLater } from "../common/lazy";
import { Copy, Empty, Notice, State, Text, said } from "../common/components";
import { drop, go, keep, link, param, route } from "../common/route";
import { Stream } from "../api/stream";
import { useRemote } from "../results/server_rows";
import { Strip, isApproximate } from "../charts/window_bar";
import { Table } from "../charts/table";

const VIEWS = [["table", "Table"], ["time", "Over time"], ["spread", "Distribution"], ["heat", "Heat map"], ["map", "Map"]] as const;
const DRAWN_MAX = 8;
const FIVE_MINUTES_NS = 300_000_000_000n;
/** Interval at which the page renews the lease of a job that it shows. */
const RENEW_MS = 60_000;

export function Answer({ id }: { id: string }) {
  const job = useSignal<Job | null>(null);
  const error = useSignal("");
  const model = useRef<Model | null>(null);
  const [, setVersion] = useState(0);
  const stream = useSignal<Stream | null>(null);
  const isPaused = useSignal(false);
  const behind = useSignal(0);
  const waiting = useRef<Parameters<Model["apply"]>[0]>([]);
  const find = useSignal(param("find"));
  const details = useSignal(false);
  const now = useSignal(Date.now());

  useEffect(() => {
    const gone = new AbortController();
    const held = new Model(id, () => setVersion((n) => n + 1), gone.signal);
    model.current = held;
    const opened = new Stream([id], (events) => {
      if (isPaused.value) {
        waiting.current.push(...events);
        // Bounds the rows kept while the tab is hidden; closed windows are loaded again from the history.
        if (waiting.current.length > 2000) waiting.current = waiting.current.filter((event) => event.kind !== "account").slice(-2000);
        behind.value = waiting.current.length;
        return;
      }
      held.apply(events);
      setVersion((n) => n + 1);
    });
    stream.value = opened;
    const tick = setInterval(() => (now.value = Date.now()), 1000);
    const renew = setInterval(() => {
      const one = job.value;
      if (one && one.lease_seconds !== null && held.state !== "ended" && may("run") && one.owner === me.value?.name) {
        void ask("POST", `/api/v1/jobs/${encodeURIComponent(id)}/renew`).catch(() => undefined);
      }
    }, RENEW_MS);
    return () => {
      gone.abort();
      opened.close();
      clearInterval(tick);
      clearInterval(renew);
    };
  }, []);

  // Loaded again at the end, for the end time.
  useEffect(() => {
    const abort = new AbortController();
    const failed = (why: unknown) => abort.signal.aborted || (error.value = typeof why === "string" ? why : said(why));
    void lasting(() => ask<Job>("GET", `/api/v1/jobs/${encodeURIComponent(id)}`), abort.signal, (why) => failed(`${said(why)} Retrying…`)).then((found) => ([job.value, error.value] = [found, ""]), failed);
    return () => abort.abort();
  }, [model.current?.state === "ended"]);

  const view = param("view", "table");
  const [draw] = useLater(() => import("../charts/lazy_charts"), view !== "table");

  // Opened values and the comparison are part of the address.
  const opened = route.value.params.get("open");
  const isCompared = param("vs") !== "";
  const [opening] = useLater(() => import("./lazy_details"), opened !== null || isCompared);

  const pause = () => {
    isPaused.value = !isPaused.value;
    if (!isPaused.value) {
      model.current?.apply(waiting.current);
      waiting.current = [];
      behind.value = 0;
    }
  };

  const result = model.current?.results[Number(param("result", "0"))];
  const windows = result?.inOrder ?? [];
  const isWindowed = windows.some((window) => window.start !== "");
  const wanted = param("at");
  const window = windows.find((one) => one.start === wanted) ?? result?.newestClosed ?? windows.at(-1);
  const isNewest = !windows.some((one) => one.start === wanted);

  useEffect(() => {
    const onKey = (event: Event) => {
      const key = (event as CustomEvent<KeyboardEvent>).detail.key;
      const at = VIEWS[Number(key) - 1];
      if (at) keep({ view: at[0] });
      else if (key === " ") pause();
      else if ((key === "[" || key === "]") && window) {
        const i = windows.indexOf(window) + (key === "[" ? -1 : 1);
        const next = windows[i];
        if (next) keep({ at: next.start });
      } else return;
      (event as CustomEvent<KeyboardEvent>).detail.preventDefault();
    };
    addEventListener("pagekey", onKey);
    return () => removeEventListener("pagekey", onKey);
  });

  const stateOf = useComputed(() => stream.value?.state.value ?? { is: "connecting" as const });
  const one = job.value;
  const held = model.current;
  const measures = result?.measures ?? [];
  const asked = param("measure");
  const measure = result ? (measures.find((at) => result.columns[at]?.name === asked) ?? result.measure) : -1;
  // Worst first, unless the query or the user has chosen an order.
  const hasOrder = !result || measure < 0 || result.at("rank") >= 0 || /\border\s+by\b/i.test(one?.query ?? "");
  const chosen = param("sort") || (hasOrder ? "none" : `-${result?.columns[measure]?.name}`);
  const sort = chosen === "none" ? null : { by: chosen.replace(/^-/, ""), down: chosen.startsWith("-") };
  const remote = useRemote(id, result, window, sort, find.value);
  if (error.value !== "" && !one) {
    return <div class="page"><h1>Job {visible(id)}</h1><Notice kind="bad">{error.value}</Notice><p><a href={link("jobs")}>All jobs</a></p></div>;
  }
  let rows: Row[] = remote?.rows ?? window?.rows ?? [];
  if (!remote && result && find.value !== "") {
    const needle = find.value.toLowerCase();
    const at = result.searched;
    rows = rows.filter((row) => at.some((i) => row[i] !== null && String(row[i]).toLowerCase().includes(needle)));
  }
  if (!remote && result && sort && result.at(sort.by) >= 0) rows = sorted(rows, result.at(sort.by), sort.down);
  const isWorstFirst = remote && result && sort?.down && find.value === "" && result.at(sort.by) === measure;
  const largest = result && measure >= 0 ? (isWorstFirst ? rows.slice(0, 100).filter(Boolean) : sorted(window?.rows ?? [], measure, true)).map((row) => result.key(row)) : [];
  const picked = param("groups") === "" ? [] : param("groups").split("\u001f");
  const drawn = [...new Set(picked.length > 0 ? picked : largest)].slice(0, DRAWN_MAX);
  const course = new Map<string, (number | null)[]>();
  if (result && isWindowed && measure >= 0) {
    const last = windows.slice(-40);
    last.forEach((window, i) => {
      for (const row of window.rows) {
        const key = result.key(row);
        const values = course.get(key) ?? last.map(() => null);
        values[i] = numeric(row[measure]);
        course.set(key, values);
      }
    });
  }
  // Rankings: ranks in the previous closed window.
  const previous = window ? windows[windows.indexOf(window) - 1] : undefined;
  const rank = result?.at("rank") ?? -1;
  const ranks = result && rank >= 0 && previous && isWindowed ? new Map(previous.rows.map((row) => [result.key(row), numeric(row[rank]) ?? 0])) : null;
  const [from, to] = [param("from"), param("to")];
  const times = periodsOf(param);
  const newest = result?.newestClosed;
  const compare = (vs: string) => {
    if (vs === "" || (from !== "" && to !== "")) return keep({ vs });
    // Default period: the loaded windows, at most five minutes.
    const end = newest?.end || ns(Date.now());
    const first = windows[0]?.start || String(BigInt(end) - FIVE_MINUTES_NS);
    const since = BigInt(end) - FIVE_MINUTES_NS > BigInt(first) ? BigInt(end) - FIVE_MINUTES_NS : BigInt(first);
    keep({ vs, from: String(since), to: end });
  };
  const here = remote?.rows ?? window?.rows ?? [];
  const open = (row: Row, at: number) => {
    if (result && window) keep({ open: result.processor === null ? String(here.indexOf(row)) : result.key(row), of: result.columns[at]?.name ?? "", at: window.start });
  };
  const openedRow = opened === null || !result ? undefined : here.find((row) => row && result.key(row) === opened) ?? (result.processor === null ? here[Number(opened)] : undefined);
  const openedAt = result && param("of") !== "" ? result.at(param("of")) : measure;
  const missing = result && window ? (window.rows.map((row) => row[result.at("agents_missing")]).find((cell) => typeof cell === "string") as string | undefined) : undefined;
  const state = stateOf.value;
  const jobState = held?.state || one?.state || "";
  const pick = (key: string) => keep({ groups: (picked.includes(key) ? picked.filter((other) => other !== key) : [...picked, key].slice(-DRAWN_MAX)).join("\u001f") });
  const stop = () => void ask("DELETE", `/api/v1/jobs/${encodeURIComponent(id)}`).catch((why) => (error.value = said(why)));
  const body = () => document.querySelector("section.body") as Element;
  const save = () =>
    void import("./lazy_details").then(({ finding, hand }) => {
      if (!result || !window) return;
      const worth = [...document.querySelectorAll(".trust .chip")].map((chip) => chip.textContent ?? "");
      const foot = document.querySelector(".foot-note")?.textContent ?? "";
      hand(`job-${id}.html`, "text/html", finding({ title: one?.name || `Job ${id}`, query: one?.query ?? "", result, window, rows, worth, foot }, body()));
    });
  const lost = lossOf(result, window, held?.account ?? null);

  return (
    <div class="page answer">
      <header class="head">
        <p class="crumb"><a href={link("jobs")}>Jobs</a> / {visible(id)}</p>
        <div class="title">
          <h1><Text of={one?.name || `Job ${id}`} /> {jobState !== "" && <State of={jobState} />}</h1>
          <div class="actions">
            <button type="button" onClick={() => go("ask", "", { q: one?.query ?? "" })}>Edit query</button>
            <Copy text={() => location.href}>Copy link</Copy>
            {result && window && <button type="button" title="Query, charts, rows, and data quality in one HTML file" onClick={save}>Save as HTML</button>}
            {may("run") && jobState !== "ended" && jobState !== "" && <button type="button" class="danger" onClick={stop}>Stop</button>}
          </div>
        </div>
        <pre class="query" tabIndex={0}><code><Text of={one?.query ?? ""} /></code></pre>
      </header>
      {error.value !== "" && <Notice kind="bad">{error.value}</Notice>}
      {held && (jobState === "ended" || held.reason) && held.hasSnapshot && (held.outcome === "failed" || held.reason) && (
        <Notice kind={held.outcome === "failed" ? "bad" : "info"}>{jobState === "ended" ? `Ended (${held.outcome ?? "finished"}): ` : ""}<Text of={held.reason ?? ""} /></Notice>
      )}
      {held?.gaps.map((gap) => <Notice kind="warn"><Text of={gap} /></Notice>)}
      {state.is === "waiting" && (
        <Notice kind="warn">
          Not live: <Text of={state.why} />. Retrying in {Math.max(0, Math.ceil((state.until - now.value) / 1000))} s; the rows shown may be outdated.{" "}
          <button type="button" onClick={() => stream.value?.now()}>Retry now</button>
        </Notice>
      )}
      {state.is === "over" && <Notice kind="bad"><Text of={state.why} /></Notice>}

      <div class="trust" role="group" aria-label="Data quality">
        <Chip kind={isPaused.value || state.is !== "live" ? "warn" : jobState === "ended" ? "" : "good"}>
          {isPaused.value ? `paused, ${behind.value} updates pending` : state.is !== "live" ? "not live" : jobState === "ended" ? "complete" : held?.account?.lag_ns ? `live, ${duration(Math.max(0, Number(held.account.lag_ns)))} behind` : "live"}
        </Chip>
        {window && isWindowed && <Chip kind={window.open ? "warn" : ""}>{clock(window.start)}–{clock(window.end)} UTC, {window.open ? "open" : "closed"}</Chip>}
        {held?.account && <>
        <Chip kind={lost.share > 0 ? "bad" : ""}>{lost.text}</Chip>
        <Chip kind={(held?.account?.sample_rate ?? 1) < 1 ? "warn" : ""}>{(held?.account?.sample_rate ?? 1) < 1 ? `1 flow in ${(1 / (held?.account?.sample_rate ?? 1)).toFixed(1).replace(/\.0$/, "")}` : "no sampling"}</Chip>
        </>}
        {window && <Chip kind={missing ? "bad" : ""}>{missing ? <>missing: <Text of={missing} /></> : "all agents"}</Chip>}
        {window && result && isApproximate(window, result.at("approximate")) && <Chip kind="">approximate</Chip>}
        {quality(held?.account ?? null)}
        <button type="button" class="quiet" aria-expanded={details.value} onClick={() => (details.value = !details.value)}>Quality details</button>
      </div>
      {details.value && <Quality account={held?.account ?? null} job={id} isEnded={jobState === "ended"} />}

      {held && held.results.length > 1 && (
        <div class="tabs" role="group" aria-label="Results">
          {held.results.map((other, i) => <button type="button" aria-pressed={other === result} onClick={() => keep({ result: String(i), sort: "", measure: "", groups: "" })}>{other.processor ?? "tuples"}</button>)}
        </div>
      )}
      <div class="tools">
        <div class="segmented" role="group" aria-label="View">
          {VIEWS.map(([name, title]) => (name !== "map" || (result && isMap(result))) && <button type="button" aria-pressed={view === name} onClick={() => keep({ view: name })}>{title}</button>)}
        </div>
        {measures.length > 1 && view !== "spread" && view !== "heat" && view !== "map" && result && (
          <label class="inline">Measure
            <select value={result.columns[measure]?.name} onChange={(event) => keep({ measure: event.currentTarget.value })}>
              {measures.map((at) => <option value={result.columns[at]?.name}>{heading(result.columns[at]!)}</option>)}
            </select>
          </label>
        )}
        <label class="inline grow"><span class="hidden">Search rows</span>
          <input type="search" placeholder="Search  /" value={find.value} onInput={(event) => { find.value = event.currentTarget.value; keep({ find: find.value }); }} />
        </label>
        {isWindowed && (
          <label class="inline">Compare with
            <select value={param("vs")} onChange={(event) => compare(event.currentTarget.value)}>{EARLIER.map(([name, title]) => <option value={name}>{title}</option>)}</select>
          </label>
        )}
        <button type="button" aria-pressed={isPaused.value} class={isPaused.value ? "loud" : ""} onClick={pause} disabled={jobState === "ended" && !isPaused.value}>{isPaused.value ? `Resume (${behind.value})` : "Pause"}</button>
        {result && window && (
          <>
            {view !== "table" && <button type="button" onClick={() => void import("./lazy_details").then(({ picture }) => picture(`job-${id}`, body()))}>Save image</button>}
            <Copy text={() => csv(result.columns, rows)}>Copy CSV</Copy>
            <a class="button" href={`/api/v1/jobs/${encodeURIComponent(id)}/rows?format=csv&limit=10000&result=${result.place}`} download={`job-${id}.csv`}>CSV</a>
            <a class="button" href={`/api/v1/jobs/${encodeURIComponent(id)}/rows?format=parquet&limit=10000&result=${result.place}`} download={`job-${id}.parquet`}>Parquet</a>
          </>
        )}
      </div>
      {isWindowed && result && window && <Strip result={result} windows={windows} at={window.start} onAt={(start) => keep({ at: start })} newest={isNewest} onNewest={() => keep({ at: "" })} from={from} to={to} mark={param("mark")} onRange={(from, to) => keep({ from, to })} />}
      {isWindowed && result && (from !== "" || isCompared) && (
        <Chosen query={one?.query ?? ""} compare={compare} />
      )}
      {result && times && (opening ? <opening.Compare query={one?.query ?? ""} place={result.place} {...times} /> : <Skeleton />)}

      <section aria-label="Result" class="body">
        {!held?.hasSnapshot ? (
          <Skeleton />
        ) : !result || !window ? (
          <Nothing account={held.account} state={jobState} reason={held.reason} job={one} />
        ) : view === "table" ? (
          remote?.error !== undefined && rows.length === 0 ? (
            <Notice kind="bad">{said(remote.error)}</Notice>
          ) : remote && remote.matches === undefined ? (
            <Skeleton />
          ) : rows.length === 0 ? (
            <Empty title={find.value !== "" ? "No matching rows" : "No rows in this window"}><p class="muted">{find.value !== "" ? (remote ? "The server searched all rows of the window." : window.left > 0 ? `Searched the ${window.rows.length} loaded rows of the open window.` : `Searched all ${window.rows.length} rows.`) : "No traffic in this window matched the query."}</p></Empty>
          ) : (
            <Table result={result} rows={rows} need={remote?.need} sort={sort} onSort={(to) => keep({ sort: to ? `${to.down ? "-" : ""}${to.by}` : "none" })} picked={picked} onPick={pick} colour={colourOf} course={course} measure={measure} isOpen={window.open} ranks={ranks} onOpen={open} />
          )
        ) : !draw ? (
          <Skeleton />
        ) : view === "time" ? (
          !isWindowed || measure < 0 ? (
            <Empty title="No windows"><p>This chart needs windows: add <code>w=10s</code> to the query.</p></Empty>
          ) : (
            <draw.Chart result={result} windows={windows} keys={drawn} measure={measure} at={window.start} onAt={(start: string) => keep({ at: start })} onRange={(from: string, to: string) => keep({ from, to })} />
          )
        ) : view === "map" ? (
          isMap(result) ? <draw.Map_ result={result} rows={rows} query={one?.query ?? ""} onOpen={open} /> : <Empty title="No clients and servers in the rows"><p>The map needs <code>group=client_ip, server_ip</code>.</p></Empty>
        ) : draw.spreadColumn(result) < 0 ? (
          <Empty title="No histogram in this result">
            <p>This view needs the block <code>hist</code> or <code>cdf</code>.{" "}
              <button type="button" onClick={() => go("ask", "", { q: withHist(one?.query ?? "", result.place) })}>Query with a histogram</button></p>
          </Empty>
        ) : view === "spread" ? (
          <draw.Spread result={result} rows={window.rows} keys={drawn.length > 0 ? drawn : window.rows.slice(0, 4).map((row) => result.key(row))} />
        ) : (
          <draw.Heat result={result} windows={windows} group={drawn[0] ?? result.key(window.rows[0] ?? [])} />
        )}
      </section>
      {one && result && window && openedRow && openedAt >= 0 && opening && (
        <opening.Drill query={one.query} recording="" result={result} row={openedRow} at={openedAt} period={window.start === "" ? { since: one.created_ns, until: one.ended_ns ?? ns(now.value) } : { since: window.start, until: window.end }} isOpen={window.open} account={held?.account ?? null} isRedacted={one.redacted} close={() => drop("open", "of")} />
      )}
      {result && window && (
        <p class="muted small foot-note">
          {remote ? `${remote.matches ?? "…"} ${find.value === "" ? "" : "matching "}rows, sorted and searched by the server${remote.matches !== undefined && remote.matches > rows.length ? `; the first ${rows.length} are shown` : ""}` : `${rows.length} of ${window.rows.length + window.left} rows`}{isWindowed ? ` in this window, ${windows.length} windows loaded` : ""}
          {!remote && window.left > 0 ? `; ${window.left} ${window.open ? "available after the window closes" : "not loaded"}` : ""}
          {result.leftOut > 0 ? `; ${result.leftOut} older rows not loaded, available from the API` : ""}
          {view !== "table" && windows.some(({ left }) => left > 0) ? `; charts show up to ${WINDOW_ROWS_MAX} rows per window` : ""}
          {view !== "table" && view !== "map" && largest.length > drawn.length ? `; ${drawn.length} of ${largest.length} groups drawn, select others in the table` : ""}.
          {one?.redacted ? " Texts that may identify a person are redacted." : ""}
        </p>
      )}
    </div>
  );
}

/** The selected period, its comparison, and actions on it. */
function Chosen({ query, compare }: { query: string; compare(vs: string): void }) {
  const [from, to, mark, vs] = [param("from"), param("to"), param("mark"), param("vs")];
  const field = (name: string, title: string) => {
    const value = /^\d{1,19}$/.test(param(name)) ? time(param(name)).slice(0, 19).replace(" ", "T") : "";
    return (
      <label class="inline">{title}
        <input type="datetime-local" step="1" value={value} onChange={(event) => { const ms = Date.parse(`${event.currentTarget.value}Z`); if (Number.isFinite(ms) && ms > 0) keep({ [name]: String(BigInt(ms) * 1_000_000n) }); }} />
      </label>
    );
  };
  const isWhole = /^\d{1,19}$/.test(from) && /^\d{1,19}$/.test(to);
  return (
    <div class="tools chosen" role="group" aria-label="Selected period">
      {isWhole && <span><strong>{time(from).slice(0, 19)} – {clock(to)}</strong> UTC</span>}
      {field("from", "From")}{field("to", "to")}
      {vs === "range" && <>{field("bfrom", "compared with")}{field("bto", "to")}</>}
      {isWhole && <button type="button" onClick={() => go("ask", "", { q: whole(query, { since: from, until: to }) })}>Query the whole period</button>}
      {isWhole && vs === "" && <button type="button" class="primary" onClick={() => compare("before")}>Compare with previous period</button>}
      {isWhole && <button type="button" title="Mark a change, such as a release, to compare the time after it with the same time before it" onClick={() => keep({ mark: from })}>Mark start</button>}
      {vs === "mark" && mark === "" && <span class="muted">No mark set. Select a period that starts with the change, then choose Mark start.</span>}
      {vs === "range" && !(param("bfrom") && param("bto")) && <span class="muted">Enter start and end of the other period.</span>}
      <button type="button" onClick={() => drop("from", "to", "vs", "bfrom", "bto", "mark")}>Clear</button>
    </div>
  );
}

const ns = (ms: number) => String(BigInt(ms) * 1_000_000n);

const Chip = ({ kind, children }: { kind: string; children: any }) => <span class={`chip ${kind}`}>{children}</span>;

const Skeleton = () => <div class="skeleton" role="status"><span class="hidden">Loading…</span>{[80, 64, 72, 50, 60].map((width) => <div style={{ width: `${width}%` }} />)}</div>;

function lossOf(result: Result | undefined, window: Win | undefined, account: AccountEvent | null): { share: number; text: string } {
  const at = result?.at("lost") ?? -1;
  const share = at < 0 || !window ? 0 : Math.max(0, ...window.rows.map((row) => numeric(row[at]) ?? 0));
  if (share > 0) return { share, text: `${percentage(share)} lost in this window` };
  const before = account?.lost_before_us ?? 0;
  const dropped = account?.dropped ?? 0;
  const records = account?.records_lost ?? 0;
  const tuples = account?.tuples_lost ?? 0;
  if (records > 0) return { share: 1, text: `${tuples > 0 ? `${many(tuples)} tuples` : `${many(records)} records`} lost at agents since start` };
  if (before + dropped > 0) return { share: (before + dropped) / Math.max(1, account?.received ?? 1), text: `${many(before + dropped)} packets lost since start` };
  return { share: 0, text: "no losses" };
}

function quality(account: AccountEvent | null) {
  const all = Object.values(account?.quality ?? {}).reduce((sum, n) => sum + n, 0);
  if (all === 0) return null;
  const exact = account?.quality["exact"] ?? 0;
  return <Chip kind={exact < all * 0.95 ? "warn" : ""}>{percentage(exact / all)} exact</Chip>;
}

/** Delay of the first window: agents may not have seen a packet yet. */
const MOMENT_MS = 15_000;
const UNITS: Record<string, number> = { ms: 1, s: 1e3, m: 6e4, h: 3.6e6 };

/** Why there are no rows: the stage that removed them. */
function Nothing({ account, state, reason, job }: { account: AccountEvent | null; state: string; reason: string | null; job: Job | null }) {
  const query = job?.query ?? "";
  const [, width, length, unit] = /\bw=((\d+)\s*(ms|s|m|h))/.exec(query) ?? [];
  const age = job === null ? 0 : Date.now() - millis(job.created_ns);
  const isClosed = age > MOMENT_MS + Number(length) * (UNITS[unit ?? ""] ?? NaN) && !/lateness/.test(query);
  const came = `${many(account?.received ?? 0)} packets received`;
  const clauses = ["WHERE", "HAVING"].filter((word) => new RegExp(`\\b${word}\\b`, "i").test(query)).join(" and ");
  let why = "No data from the agents yet.";
  if (state === "ended") why = "The job ended without matching traffic.";
  else if (state === "planned" || state === "arming") why = "No agent has started the job yet.";
  else if (account && account.received === 0) why = age < MOMENT_MS ? "The job has just started; no packets reported yet." : "No packets received on the agents' interfaces.";
  else if (account && account.parsed === 0 && account.filtered > 0) why = `${came}; FROM and TO excluded all of them.`;
  else if (account && account.tuples === 0) why = `${came}; none contain a protocol in PARSE.`;
  else if (account) why = `${came}, ${many(account.tuples)} tuples. ${!width ? "Without w=, rows are available when the job ends." : !isClosed ? `The first window (${width}) is still open.` : clauses ? `${clauses} excluded all of them.` : "No window has closed yet."}`;
  return <Empty title="No rows yet"><p>{why}</p>{reason && <p class="muted"><Text of={reason} /></p>}</Empty>;
}
