// The views of a result: rows, charts, quality, comparison, details, files. Used for jobs, live, and for stored answers.
import type { ComponentChildren } from "preact";
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { may } from "../api/client";
import type { Row } from "../api/cells";
import type { AccountEvent, Job } from "../api/schema";
import { colorOf } from "../common/colors";
import { withHist, whole, type Period } from "../results/clauses";
import { EARLIER, periodsOf } from "../results/comparison";
import { csv, heading, many, numeric, percentage, span, time } from "../common/format";
import { WINDOW_ROWS_MAX, sorted, type Result, type Win } from "../results/model";
import { isMap } from "../results/edges";
import { useLater } from "../common/lazy";
import { Copy, Empty, Notice, Text, said } from "../common/components";
import { drop, go, keep, param, route } from "../common/route";
import { useRemote } from "../results/server_rows";
import { Strip, isApproximate } from "../charts/window_bar";
import { Table } from "../charts/table";
import { useEarlier } from "./earlier";

const VIEWS = [["table", "Table"], ["time", "Over time"], ["spread", "Distribution"], ["heat", "Heat map"], ["map", "Map"]] as const;
const DRAWN_MAX = 8;
/** Groups in distributions and heat maps unless the user has selected others. */
const SPREAD_GROUPS = 4;
const FIVE_MINUTES_NS = 300_000_000_000n;
/** Windows whose values the trend of a row shows. */
const TREND_WINDOWS = 40;
/** Times that charts show, and their length in ns. */
const SHOWN: [name: string, title: string, ns: bigint][] = [
  ["1m", "last minute", 60_000_000_000n],
  ["5m", "last 5 minutes", 300_000_000_000n],
  ["15m", "last 15 minutes", 900_000_000_000n],
  ["1h", "last hour", 3_600_000_000_000n],
  ["6h", "last 6 hours", 21_600_000_000_000n],
  ["24h", "last 24 hours", 86_400_000_000_000n],
];

export interface Shown {
  /** The query, in the spelling with PARSE. */
  query: string;
  title: string;
  /** Name of saved files, without an extension. */
  file: string;
  results: Result[];
  isLoaded: boolean;
  job: Job | null;
  /** The recording that was read; empty: none. */
  recording: string;
  account: AccountEvent | null;
  isRedacted: boolean;
  /** The period of rows without windows; null: the whole recording. */
  period: Period | null;
  /** The state of the data, before the chips of quality. */
  state: ComponentChildren;
  /** Further chips, and elements below them. */
  more: ComponentChildren;
  details: ComponentChildren;
  /** Buttons and links after those of the view. */
  tools: ComponentChildren;
  /** In place of rows. */
  nothing: ComponentChildren;
}

/** The windows that charts draw. */
function drawnWindows(windows: Win[], last: string, from: string, to: string): Win[] {
  const isWithin = (start: bigint, end: bigint) => windows.filter((window) => BigInt(window.start) >= start && BigInt(window.start) < end);
  if (last === "period" && from !== "" && to !== "") return isWithin(BigInt(from), BigInt(to));
  const length = SHOWN.find(([name]) => name === last)?.[2];
  const newest = windows.at(-1);
  if (length === undefined || !newest || newest.end === "") return windows;
  return isWithin(BigInt(newest.end) - length, BigInt(newest.end));
}

/** Values of the newest windows by group. */
function trends(result: Result, windows: Win[], measure: number): Map<string, (number | null)[]> {
  const found = new Map<string, (number | null)[]>();
  const last = windows.slice(-TREND_WINDOWS);
  last.forEach((window, i) => {
    for (const row of window.rows) {
      const key = result.key(row);
      const values = found.get(key) ?? last.map(() => null);
      values[i] = numeric(row[measure]);
      found.set(key, values);
    }
  });
  return found;
}

/** Groups by their highest value in these windows, highest first. */
function highest(result: Result, windows: Win[], measure: number): string[] {
  const most = new Map<string, number>();
  for (const { rows } of windows) {
    for (const row of rows) {
      const value = numeric(row[measure]);
      const key = result.key(row);
      if (value !== null && value > (most.get(key) ?? -Infinity)) most.set(key, value);
    }
  }
  return [...most].sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1)).map(([key]) => key);
}

export function View({ query, title, file, results, isLoaded, job, recording, account, isRedacted, period, state, more, details, tools, nothing }: Shown) {
  const find = useSignal(param("find"));
  const alerting = useSignal<{ row: Row; at: number } | "" | null>(null);
  const body = useRef<HTMLElement>(null);
  const view = param("view", "table");
  const [draw] = useLater(() => import("../charts/lazy_charts"), view !== "table");
  // Opened values and the comparison are part of the address.
  const opened = route.value.params.get("open");
  const isCompared = param("vs") !== "";
  const [opening] = useLater(() => import("./lazy_details"), opened !== null || isCompared || alerting.value !== null);

  const result = results[Number(param("result", "0"))];
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
      else if (key === "g") keep({ scale: param("scale") === "log" ? "" : "log" });
      else if ((key === "[" || key === "]") && window) {
        const next = windows[windows.indexOf(window) + (key === "[" ? -1 : 1)];
        if (next) keep({ at: next.start });
      } else return;
      (event as CustomEvent<KeyboardEvent>).detail.preventDefault();
    };
    addEventListener("pagekey", onKey);
    return () => removeEventListener("pagekey", onKey);
  });

  const measures = result?.measures ?? [];
  const asked = param("measure");
  const measure = result ? (measures.find((at) => result.columns[at]?.name === asked) ?? result.measure) : -1;
  // Worst first, unless the query or the user has chosen an order.
  const hasOrder = !result || measure < 0 || result.at("rank") >= 0 || /\border\s+by\b/i.test(query);
  const chosen = param("sort") || (hasOrder ? "none" : `-${result?.columns[measure]?.name}`);
  const sort = chosen === "none" ? null : { by: chosen.replace(/^-/, ""), down: chosen.startsWith("-") };
  const remote = useRemote(job?.id ?? "", job ? result : undefined, window, sort, find.value);
  let rows: Row[] = remote?.rows ?? window?.rows ?? [];
  if (!remote && result && find.value !== "") {
    const needle = find.value.toLowerCase();
    const at = result.searched;
    rows = rows.filter((row) => at.some((i) => row[i] !== null && String(row[i]).toLowerCase().includes(needle)));
  }
  if (!remote && result && sort && result.at(sort.by) >= 0) rows = sorted(rows, result.at(sort.by), sort.down);
  const isWorstFirst = remote && result && sort?.down && find.value === "" && result.at(sort.by) === measure;
  const picked = param("groups") === "" ? [] : param("groups").split("\u001f");
  const course = result && isWindowed && measure >= 0 ? trends(result, windows, measure) : new Map<string, (number | null)[]>();
  // Rankings: ranks in the previous closed window.
  const previous = window ? windows[windows.indexOf(window) - 1] : undefined;
  const rank = result?.at("rank") ?? -1;
  const ranks = result && rank >= 0 && previous && isWindowed ? new Map(previous.rows.map((row) => [result.key(row), numeric(row[rank]) ?? 0])) : null;
  const [from, to] = [param("from"), param("to")];
  const times = periodsOf(param);
  const earlier = useEarlier(view === "time" ? result : undefined, query, recording, times);
  const last = param("last") || (times ? "period" : "");
  const shown = isWindowed ? drawnWindows(windows, last, from, to) : windows;
  // Charts over time draw the same groups in every window.
  const isOverTime = isWindowed && (view === "time" || view === "heat");
  const largest = !result || measure < 0 ? [] : isOverTime ? highest(result, shown, measure) : (isWorstFirst ? rows.slice(0, 100).filter(Boolean) : sorted(window?.rows ?? [], measure, true)).map((row) => result.key(row));
  const drawn = [...new Set(picked.length > 0 ? picked : largest)].slice(0, DRAWN_MAX);
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
  const pick = (key: string) => keep({ groups: (picked.includes(key) ? picked.filter((other) => other !== key) : [...picked, key].slice(-DRAWN_MAX)).join("\u001f") });
  const isChart = view === "time" || view === "spread" || view === "heat";
  const unit = result && measure >= 0 && isChart ? heading(result.columns[measure]!) : "";
  const rowPeriod: Period | null = !window || window.start === "" ? period : { since: window.start, until: window.end };
  const about = () => ({
    title,
    query,
    measure: view === "time" ? unit : "",
    period: view === "time" || view === "heat" ? (shown[0]?.start ? { since: shown[0].start, until: (shown.at(-1) as Win).end } : period) : rowPeriod,
    isOpen: window?.open ?? false,
    worth: [...document.querySelectorAll(".trust .chip")].map((chip) => chip.textContent ?? ""),
    foot: document.querySelector(".foot-note")?.textContent ?? "",
    account,
    link: location.href,
  });
  // The statements are those of the rows shown at the click; loading the code takes a moment.
  const save = () => {
    const of = about();
    if (result && window) void import("./lazy_details").then(({ finding, hand }) => hand(`${file}.html`, "text/html", finding({ ...of, result, rows }, body.current as Element)));
  };
  const image = (format: "svg" | "png") => {
    const of = about();
    void import("./lazy_details").then(({ picture }) => picture(file, of, body.current as Element, format));
  };
  const lost = lossOf(result, window, account);
  const rate = account?.sample_rate ?? 1;
  const alertAt = alerting.value === null || alerting.value === "" ? null : alerting.value;

  return (
    <>
      <div class="trust" role="group" aria-label="Data quality">
        {state}
        {window && isWindowed && <Chip kind={window.open ? "warn" : ""}>{span(window.start, window.end)} UTC, {window.open ? "open" : "closed"}</Chip>}
        {(account || lost.share > 0) && <Chip kind={lost.share > 0 ? "bad" : ""}>{lost.text}</Chip>}
        {account && <Chip kind={rate < 1 ? "warn" : ""}>{rate < 1 ? `1 flow in ${(1 / rate).toFixed(1).replace(/\.0$/, "")}` : "no sampling"}</Chip>}
        {window && (job || missing) && <Chip kind={missing ? "bad" : ""}>{missing ? <>missing: <Text of={missing} /></> : "all agents"}</Chip>}
        {window && result && isApproximate(window, result.at("approximate")) && <Chip kind="">approximate</Chip>}
        {exactness(account)}
        {more}
      </div>
      {details}

      {results.length > 1 && (
        <div class="tabs" role="group" aria-label="Results">
          {results.map((other, i) => <button type="button" aria-pressed={other === result} onClick={() => keep({ result: String(i), sort: "", measure: "", groups: "" })}>{other.processor ?? "tuples"}</button>)}
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
        {isWindowed && (view === "time" || view === "heat") && (
          <label class="inline">Time
            <select value={last} onChange={(event) => keep({ last: event.currentTarget.value })}>
              <option value="">all loaded windows</option>
              {from !== "" && <option value="period">selected period</option>}
              {SHOWN.map(([name, title]) => <option value={name}>{title}</option>)}
            </select>
          </label>
        )}
        {view === "time" && isWindowed && <label class="inline"><input type="checkbox" checked={param("scale") === "log"} onChange={(event) => keep({ scale: event.currentTarget.checked ? "log" : "" })} /> Logarithmic</label>}
        <label class="inline grow"><span class="hidden">Search rows</span>
          <input type="search" placeholder="Search  /" value={find.value} onInput={(event) => { find.value = event.currentTarget.value; keep({ find: find.value }); }} />
        </label>
        {isWindowed && (
          <label class="inline">Compare with
            <select value={param("vs")} onChange={(event) => compare(event.currentTarget.value)}>{EARLIER.map(([name, title]) => <option value={name}>{title}</option>)}</select>
          </label>
        )}
        {may("run") && result && window && result.processor !== null && measure >= 0 && recording === "" && <button type="button" onClick={() => (alerting.value = "")}>Alert on this</button>}
        {result && window && (
          <>
            <button type="button" title="Query, rows, charts, and data quality in one HTML file" onClick={save}>Save as HTML</button>
            {view !== "table" && <button type="button" onClick={() => image("png")}>Save PNG</button>}
            {(view === "spread" || view === "map") && <button type="button" onClick={() => image("svg")}>Save SVG</button>}
            <Copy text={() => csv(result.columns, rows)}>Copy CSV</Copy>
          </>
        )}
        {tools}
      </div>
      {isWindowed && result && window && <Strip result={result} windows={windows} at={window.start} onAt={(start) => keep({ at: start })} newest={isNewest} onNewest={() => keep({ at: "" })} from={from} to={to} mark={param("mark")} onRange={(from, to) => keep({ from, to })} />}
      {isWindowed && result && (from !== "" || isCompared) && <Chosen query={query} recording={recording} compare={compare} />}
      {result && times && (opening ? <opening.Compare query={query} recording={recording} place={result.place} {...times} /> : <Skeleton />)}

      <section aria-label="Result" class="body" ref={body}>
        {!isLoaded ? (
          <Skeleton />
        ) : !result || !window ? (
          nothing
        ) : view === "table" ? (
          remote?.error !== undefined && rows.length === 0 ? (
            <Notice kind="bad">{said(remote.error)}</Notice>
          ) : remote && remote.matches === undefined ? (
            <Skeleton />
          ) : rows.length === 0 ? (
            <Empty title={find.value !== "" ? "No matching rows" : "No rows in this window"}><p class="muted">{find.value !== "" ? (remote ? "The server searched all rows of the window." : window.left > 0 ? `Searched the ${window.rows.length} loaded rows of the open window.` : `Searched all ${window.rows.length} rows.`) : "No traffic in this window matched the query."}</p></Empty>
          ) : (
            <Table result={result} rows={rows} need={remote?.need} sort={sort} onSort={(to) => keep({ sort: to ? `${to.down ? "-" : ""}${to.by}` : "none" })} picked={picked} onPick={pick} color={colorOf} course={course} measure={measure} isOpen={window.open} ranks={ranks} onOpen={open} />
          )
        ) : !draw ? (
          <Skeleton />
        ) : view === "time" ? (
          !isWindowed || measure < 0 ? (
            <Empty title="No windows"><p>This chart needs windows: add <code>w=10s</code> to the query.</p></Empty>
          ) : (
            <>
              {earlier.error !== undefined && <Notice>{said(earlier.error)}</Notice>}
              <draw.Chart result={result} windows={shown} keys={drawn} measure={measure} isLogarithmic={param("scale") === "log"} earlier={earlier.answer ?? null} at={window.start} onAt={(start: string) => keep({ at: start })} onRange={(from: string, to: string) => keep({ from, to })} />
            </>
          )
        ) : view === "map" ? (
          isMap(result) ? <draw.Map_ result={result} rows={rows} query={query} onOpen={open} /> : <Empty title="No clients and servers in the rows"><p>The map needs <code>group=client_ip, server_ip</code>.</p></Empty>
        ) : draw.spreadColumn(result) < 0 ? (
          <Empty title="No histogram in this result">
            <p>This view needs the block <code>hist</code> or <code>cdf</code>.{" "}
              <button type="button" onClick={() => go("ask", "", { q: withHist(query, result.place), in: recording })}>Query with a histogram</button></p>
          </Empty>
        ) : view === "spread" ? (
          <draw.Spread result={result} rows={window.rows} keys={drawn.length > 0 ? drawn : draw.fullest(result, [window]).slice(0, SPREAD_GROUPS)} />
        ) : (
          <draw.Heat result={result} windows={shown} groups={picked.length > 0 ? drawn : draw.fullest(result, shown).slice(0, SPREAD_GROUPS)} />
        )}
      </section>
      {result && window && openedRow && openedAt >= 0 && opening && (
        <opening.Drill query={query} recording={recording} result={result} row={openedRow} at={openedAt} period={rowPeriod} isOpen={window.open} account={account} isRedacted={isRedacted} close={() => drop("open", "of")} {...(may("run") && recording === "" && result.processor !== null ? { alert: () => { drop("open", "of"); alerting.value = { row: openedRow, at: openedAt }; } } : {})} />
      )}
      {result && alerting.value !== null && opening && (
        <opening.AlertOn query={query} job={job} result={result} row={alertAt?.row ?? null} at={alertAt?.at ?? measure} close={() => (alerting.value = null)} />
      )}
      {result && window && (
        <p class="muted small foot-note">
          {remote ? `${remote.matches ?? "…"} ${find.value === "" ? "" : "matching "}rows, sorted and searched by the server${remote.matches !== undefined && remote.matches > rows.length ? `; the first ${rows.length} are shown` : ""}` : `${rows.length} of ${window.rows.length + window.left} rows`}{isWindowed ? ` in this window, ${windows.length} windows loaded` : ""}
          {!remote && window.left > 0 ? `; ${window.left} ${window.open ? "available after the window closes" : "not loaded"}` : ""}
          {result.leftOut > 0 ? `; ${result.leftOut} ${job ? "older rows not loaded, available from the API" : "more rows not shown"}` : ""}
          {view !== "table" && windows.some(({ left }) => left > 0) ? `; charts show up to ${WINDOW_ROWS_MAX} rows per window` : ""}
          {isChart && largest.length > drawn.length ? `; ${drawn.length} of ${largest.length} groups drawn, select others in the table` : ""}.
          {isRedacted ? " Texts that may identify a person are redacted." : ""}
        </p>
      )}
    </>
  );
}

/** The selected period, its comparison, and actions on it. */
function Chosen({ query, recording, compare }: { query: string; recording: string; compare(vs: string): void }) {
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
      {isWhole && <span><strong>{span(from, to)}</strong> UTC</span>}
      {field("from", "From")}{field("to", "to")}
      {vs === "range" && <>{field("bfrom", "compared with")}{field("bto", "to")}</>}
      {isWhole && <button type="button" onClick={() => go("ask", "", { q: whole(query, { since: from, until: to }), in: recording })}>Query the whole period</button>}
      {isWhole && vs === "" && <button type="button" class="primary" onClick={() => compare("before")}>Compare with previous period</button>}
      {isWhole && <button type="button" title="Mark a change, such as a release, to compare the time after it with the same time before it" onClick={() => keep({ mark: from })}>Mark start</button>}
      {vs === "mark" && mark === "" && <span class="muted">No mark set. Select a period that starts with the change, then choose Mark start.</span>}
      {vs === "range" && !(param("bfrom") && param("bto")) && <span class="muted">Enter start and end of the other period.</span>}
      <button type="button" onClick={() => drop("from", "to", "vs", "bfrom", "bto", "mark")}>Clear</button>
    </div>
  );
}

export const ns = (ms: number) => String(BigInt(ms) * 1_000_000n);

export const Chip = ({ kind, children }: { kind: string; children: ComponentChildren }) => <span class={`chip ${kind}`}>{children}</span>;

export const Skeleton = () => <div class="skeleton" role="status"><span class="hidden">Loading…</span>{[80, 64, 72, 50, 60].map((width) => <div style={{ width: `${width}%` }} />)}</div>;

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

function exactness(account: AccountEvent | null) {
  const all = Object.values(account?.quality ?? {}).reduce((sum, n) => sum + n, 0);
  if (all === 0) return null;
  const exact = account?.quality["exact"] ?? 0;
  return <Chip kind={exact < all * 0.95 ? "warn" : ""}>{percentage(exact / all)} exact</Chip>;
}
