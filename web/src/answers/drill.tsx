// Details of a value: quality, its query, and its tuples; details of a tuple: its flow. Data comes from stored tuples or
// the recording; without any, the page offers to store tuples from now on.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Refused, ask, askKept, catalog, lasting, may } from "../api/client";
import type { Column, Row } from "../api/cells";
import type { AccountEvent, Job, Jobs, PastAnswer } from "../api/schema";
import { butNot, clauses, condition, counted, only, parsersOf, tuples, type Period } from "../results/clauses";
import { clock, duration, heading, many, millis, numeric, percentage, raw, shown, time, visible } from "../common/format";
import type { Result } from "../results/model";
import { KeptPackets, Packets } from "./conversation";
import { Copy, Dialog, Notice, Text, said } from "../common/components";
import { go } from "../common/route";

/** Number of tuples shown. */
const TUPLES_MAX = 100;
/** Time before and after a tuple in which its flow is searched. */
const AROUND_NS = 600_000_000_000n;
/** Columns that all tuples have and that the list shows. */
const COMMON = ["id", "ts", "client_ip", "client_port", "server_ip", "server_port", "transport", "quality", "client_guessed", "ts_end", "community_id", "tunnel", "tunnel_id", "tunnel_src", "tunnel_dst", "vlan_id", "proxied_client_ip", "proxied_client_port", "proxied_server_ip", "proxied_server_port", "encrypted", "tls_sni", "tls_alpn", "agents_missing"];
const SHOWN = ["client_ip", "client_port", "server_ip", "quality"];
/** Columns that repeat others. */
const DULL = ["host", "path", "http_version", "url_query"];
const OWN_MAX = 7;
/** Parsers with tuples of whole flows. */
const WHOLE_FLOW = ["tcp_conn_time", "flow"];

export interface Behind {
  /** The query, and the recording that was queried. */
  query: string;
  recording: string;
  result: Result;
  row: Row;
  /** The column of the opened number. */
  at: number;
  /** The period of the row; null: the whole recording. */
  period: Period | null;
  isOpen: boolean;
  account: AccountEvent | null;
  isRedacted: boolean;
  close(): void;
  /** Opens an alert rule over this number. */
  alert?(): void;
}

type Told = PastAnswer["results"][number];
const firstOf = (answer: PastAnswer): Told | undefined => answer.results[0];

export default function Drill(props: Behind) {
  const { query, recording, result, row, at, close } = props;
  const tuple = useSignal<{ columns: Column[]; row: Row } | null>(null);
  const column = result.columns[at] as Column;
  const title = tuple.value ? "Flow" : result.processor === null ? "Tuple" : `${heading(column)} of ${visible(result.key(row)) || "all"}`;
  // A row without a processor is a tuple.
  const opened = tuple.value ?? (result.processor === null ? { columns: result.columns, row } : null);
  return (
    <Dialog title={title} close={close} kind="drawer">
      {opened ? (
        <Flow {...opened} query={query} recording={recording} back={tuple.value ? () => (tuple.value = null) : null} />
      ) : (
        <Beneath {...props} open={(columns, row) => (tuple.value = { columns, row })} />
      )}
    </Dialog>
  );
}

function Beneath({ query, recording, result, row, at, period, isOpen, account, isRedacted, alert, open }: Behind & { open(columns: Column[], row: Row): void }) {
  const column = result.columns[at] as Column;
  const where = condition(query, result, row);
  const found = useSignal<Told | null>(null);
  const mix = useSignal<[string, number][] | null>(null);
  const failed = useSignal<unknown>(null);
  const notes = useSignal<string[]>([]);
  const ordered = useSignal("");
  const fields = useSignal<string[]>([]);
  const again = useSignal(0);
  useEffect(() => {
    const abort = new AbortController();
    void lasting(async () => {
      const known = await catalog();
      const parsers = known.parsers.filter((one) => parsersOf(query).includes(one.name));
      fields.value = [...new Set(parsers.flatMap((one) => one.fields.filter((field) => ["text", "ip", "bool"].includes(field.type) || /port|status|code/.test(field.name)).map((field) => field.name)))];
      // Worst first: tuples ordered by the duration of the opened number.
      const bare = column.name.replace(/^(?:p[\d.]+|avg|max|min|sum|time)_?/, "");
      const durations = parsers.flatMap((one) => one.fields.filter((field) => field.unit === "ns").map((field) => field.name));
      const by = durations.find((name) => name === bare) ?? (column.unit === "ns" ? (durations.find((name) => /response_time|duration/.test(name)) ?? durations[0]) : undefined);
      ordered.value = by ?? "";
      const [list, sure] = await Promise.all([
        askKept(tuples(query, where, period, by ? `${by} DESC` : "ts DESC", TUPLES_MAX), recording, TUPLES_MAX, abort.signal),
        askKept(counted(query, where, period, "(group-count: group=quality)"), recording, undefined, abort.signal),
      ]);
      found.value = firstOf(list) ?? null;
      notes.value = list.notes;
      const told = firstOf(sure);
      const [q, n] = ["quality", "count"].map((name) => told?.columns.findIndex((one) => one.name === name) ?? -1);
      mix.value = (told?.rows ?? []).map((one): [string, number] => [String(one[q!] ?? "?"), numeric(one[n!]) ?? 0]);
      failed.value = null;
    }, abort.signal, (why) => (failed.value = why)).catch((why) => (why as Error).name === "AbortError" || (failed.value = why));
    return () => abort.abort();
  }, [query, where, period?.since, again.value]);

  const end = (name: string | undefined) => (name === undefined ? null : (row[result.at(name)] ?? null));
  const [low, high] = [end(column.low), end(column.high)];
  const cell = (name: string) => (result.at(name) < 0 ? null : (row[result.at(name)] ?? null));
  const all = (mix.value ?? []).reduce((sum, [, n]) => sum + n, 0);
  const count = numeric(cell("count"));
  const rate = account?.sample_rate ?? 1;
  const isWindow = result.at("window_start") >= 0;
  const quality: [string, string][] = [
    ["value", `${cell("approximate") === true ? "~" : ""}${shown(column, row[at])}`],
    ["95 % interval", low !== null || high !== null ? `${low === null ? "?" : shown(column, low)} – ${high === null ? "?" : shown(column, high)}` : rate < 1 ? "not available" : "not needed: no sampling"],
    ["window", isWindow && period ? `${clock(period.since)} – ${clock(period.until)} UTC, ${isOpen ? "open: provisional" : "closed"}` : period ? `whole period ${time(period.since).slice(0, 19)} – ${time(period.until).slice(0, 19)} UTC` : "whole recording"],
    ["losses", numeric(cell("lost")) ? `${percentage(numeric(cell("lost")) ?? 0)} of this window` : account && account.records_lost > 0 ? `${many(account.records_lost)} records at agents since start` : account && account.lost_before_us + account.dropped > 0 ? `${many(account.lost_before_us + account.dropped)} packets since start` : "none known"],
    ["sampling", rate < 1 ? `1 flow in ${(1 / rate).toFixed(1).replace(/\.0$/, "")}` : "none"],
    ["agents", typeof cell("agents_missing") === "string" ? `missing: ${visible(String(cell("agents_missing")))}` : "complete"],
  ];
  const kept = clauses(query).length > 0 ? only(query, where) : query;
  return (
    <>
      <section class="believe" aria-label="Quality">
        <h3>Quality</h3>
        <dl class="pairs one">
          {quality.map(([what, is]) => <div><dt>{what}</dt><dd>{is}</dd></div>)}
          {mix.value && all > 0 && <div><dt>stored tuples</dt><dd>{all}{count !== null && count !== all && rate >= 1 ? `; the row counts ${count}${account && !isWindow && count < all ? " (agents start shortly after their job)" : ""}` : ""}</dd></div>}
          {mix.value && all > 0 && <div><dt>tuple quality</dt><dd>{mix.value.sort((a, b) => b[1] - a[1]).map(([what, n]) => `${visible(what).replaceAll("_", " ")} ${percentage(n / all)}`).join(", ")}</dd></div>}
        </dl>
      </section>
      <section>
        <h3>Query for this value</h3>
        <pre class="query" tabIndex={0}><code>{visible(kept)}</code></pre>
        <div class="tools">
          <button type="button" onClick={() => go("ask", "", { q: kept, in: recording })}>Query this only</button>
          {where !== "" && <button type="button" onClick={() => go("ask", "", { q: butNot(query, where), in: recording })}>Exclude this</button>}
          {where !== "" && <Copy text={() => `WHERE ${where}`}>Copy WHERE</Copy>}
          {alert && result.measures.includes(at) && <button type="button" onClick={alert}>Alert on this</button>}
          <label class="inline">Group by
            <select value="" onChange={(event) => go("ask", "", { q: counted(query, where, null, `(group-count: group=${event.currentTarget.value}${recording === "" ? ", w=10s" : ""})`), in: recording })}>
              <option value="">select…</option>
              {fields.value.map((name) => <option value={name}>{name}</option>)}
            </select>
          </label>
        </div>
      </section>
      <section aria-label="Tuples">
        <h3>Tuples</h3>
        {failed.value !== null ? (
          <Unkept why={failed.value} query={query} again={() => { failed.value = null; again.value += 1; }} />
        ) : !found.value ? (
          <p class="muted" role="status">Reading stored data…</p>
        ) : found.value.rows.length === 0 ? (
          <>
            <p class="muted">No stored tuples.{isRedacted ? " Redacted texts use a key per job: texts of one job do not match tuples stored by another." : ""}</p>
            {notes.value.map((note) => <p class="muted small">{visible(note)}</p>)}
          </>
        ) : (
          <List told={found.value} by={ordered.value} open={open} />
        )}
      </section>
    </>
  );
}

/** The most informative columns of these tuples. */
function telling(told: { columns: Column[]; rows: Row[] }, by = ""): number[] {
  const says = (at: number) => told.rows.some((row) => row[at] !== null && row[at] !== "");
  const named = (names: string[]) => names.map((name) => told.columns.findIndex((column) => column.name === name)).filter((at) => at >= 0);
  const own = told.columns.flatMap((column, at) => (!COMMON.includes(column.name) && !DULL.includes(column.name) && !["json", "hashes"].includes(column.type) && says(at) ? [at] : []));
  const times = own.filter((at) => told.columns[at]?.unit === "ns");
  const first = [...named([by]), ...times.slice(0, 1)].slice(0, 1);
  return [...named(["ts"]), ...first, ...own.filter((at) => !first.includes(at)).slice(0, OWN_MAX), ...named(SHOWN)];
}

function List({ told, by, open }: { told: Told; by: string; open(columns: Column[], row: Row): void }) {
  const columns = telling(told, by);
  return (
    <>
      <div class="scroll tuples" tabIndex={0} role="region" aria-label="First tuples">
        <table class="plain">
          <thead><tr>{columns.map((at) => <th scope="col" title={told.columns[at]?.doc}>{heading(told.columns[at] as Column)}</th>)}</tr></thead>
          <tbody>
            {told.rows.map((row) => (
              <tr>
                {columns.map((at, i) => (
                  <td class="nowrap">{i === 0 ? <button type="button" class="pick" title="Show flow" onClick={() => open(told.columns, row)}>{shown(told.columns[at] as Column, row[at]).slice(11)}</button> : <bdi class="value">{shown(told.columns[at] as Column, row[at])}</bdi>}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="muted small">{told.rows.length === TUPLES_MAX ? `First ${TUPLES_MAX} tuples. ` : ""}Select a time to show its flow.</p>
    </>
  );
}

/** No stored data: the reason, and how to keep tuples. */
function Unkept({ why, query, again }: { why: unknown; query: string; again(): void }) {
  const begun = useSignal("");
  const failed = useSignal("");
  const isUnkept = why instanceof Refused && why.code === "not_kept";
  const parsers = parsersOf(query).join(", ");
  const keep = () => {
    const key = [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    ask<Job>("POST", "/api/v1/jobs", { query: `PARSE ${parsers}`, name: `tuples of ${parsers}`, kind: "standing", keep: "tuples" }, { headers: { "Idempotency-Key": key } }).then((job) => (begun.value = job.id), (error) => (failed.value = said(error)));
  };
  return (
    <>
      <Notice kind={isUnkept ? "info" : "bad"}>{said(why)}</Notice>
      {isUnkept && may("raw") && begun.value === "" && <p><button type="button" onClick={keep}>Store tuples of {parsers} from now on</button></p>}
      {begun.value !== "" && <p>Job {visible(begun.value)} stores them now; values of later windows can be opened. <button type="button" onClick={again}>Retry</button></p>}
      {failed.value !== "" && <Notice kind="bad">{failed.value}</Notice>}
    </>
  );
}

interface Moment {
  parser: string;
  ts: string;
  end: string;
  columns: Column[];
  row: Row;
}

/** The most informative columns of a tuple. */
const ownOf = ({ columns, row }: Moment) => telling({ columns, rows: [row] }).slice(1, OWN_MAX + 1).filter((at) => !COMMON.includes(columns[at]?.name ?? ""));

/** All columns of a tuple, and the other tuples of its flow. */
function Flow({ columns, row, query, recording, back }: { columns: Column[]; row: Row; query: string; recording: string; back: (() => void) | null }) {
  const cell = (name: string) => row[columns.findIndex((column) => column.name === name)] ?? null;
  const [id, community, ts, end] = ["id", "community_id", "ts", "ts_end"].map((name) => (cell(name) === null ? "" : String(cell(name))));
  const all = useSignal<Moment[] | null>(null);
  const problems = useSignal<string[]>([]);
  useEffect(() => {
    if (!id || !ts) return;
    const abort = new AbortController();
    void (async () => {
      const keeping = <T,>(load: () => Promise<T>) => lasting(load, abort.signal);
      const jobs = recording === "" ? (await keeping(() => ask<Jobs>("GET", "/api/v1/jobs?limit=1000", undefined, { signal: abort.signal }))).jobs : [];
      const kept = jobs.filter((job) => job.keep === "tuples").map((job) => parsersOf(job.query).join(", "));
      const lists = [...new Set(recording === "" ? kept : [...parsersOf(query), ...WHOLE_FLOW])].slice(0, 12);
      const around = recording === "" ? { since: String(BigInt(ts) - AROUND_NS), until: String(BigInt(end || ts) + AROUND_NS) } : null;
      // One parser at a time: the server limits concurrent queries.
      const found: Moment[] = [];
      for (const list of lists) {
        try {
          const told = firstOf(await keeping(() => askKept(tuples(`PARSE ${list}`, `id = ${id}${community ? ` and community_id = '${community}'` : ""}`, around, "ts", TUPLES_MAX), recording, TUPLES_MAX, abort.signal)));
          const at = (name: string) => told?.columns.findIndex((column) => column.name === name) ?? -1;
          for (const one of told?.rows ?? []) found.push({ parser: list, ts: String(one[at("ts")] ?? ts), end: String(one[at("ts_end")] ?? one[at("ts")] ?? ts), columns: told!.columns, row: one });
        } catch (why) {
          if ((why as Error).name === "AbortError") return;
          if (!(why instanceof Refused && why.status === 400)) problems.value = [...problems.value, `${list}: ${said(why)}`];
        }
      }
      all.value = found.sort((a, b) => (BigInt(a.ts) < BigInt(b.ts) ? -1 : 1));
    })().catch((why) => (why as Error).name === "AbortError" || (problems.value = [said(why)]));
    return () => abort.abort();
  }, [id, ts]);
  const start = all.value?.[0]?.ts ?? ts ?? "";
  const last = (all.value ?? []).reduce((most, one) => Math.max(most, millis(one.end)), 0);
  const length = Math.max(1, last - (start ? millis(start) : 0));
  const name = community || id || "";
  const endOf = (side: string) => {
    const ip = String(cell(`${side}_ip`) ?? "");
    return ip === "" || cell(`${side}_port`) === null ? "" : `${ip.includes(":") ? `[${ip}]` : ip}:${cell(`${side}_port`)}`;
  };
  const client = endOf("client");
  const server = endOf("server");
  const transport = String(cell("transport") ?? "");
  const isKept = recording === "" && ts !== "" && client !== "" && server !== "" && ["tcp", "udp"].includes(transport) && may("raw");
  const decoded = (all.value ?? []).filter(({ parser }) => !WHOLE_FLOW.includes(parser)).map((one) => ({
    ts: one.ts,
    text: [one.parser, ...ownOf(one).map((at) => `${heading(one.columns[at] as Column)} ${shown(one.columns[at] as Column, one.row[at])}`)].join("  "),
  }));
  return (
    <>
      {back && <p><button type="button" onClick={back}>← Back to the value</button></p>}
      <section>
        <h3>Tuple</h3>
        <dl class="pairs one tuple">
          {columns.map((column, at) => (row[at] === null || row[at] === undefined || ["hashes", "json"].includes(column.type) ? null : <div><dt title={column.doc}>{heading(column)}</dt><dd><bdi>{shown(column, row[at])}</bdi></dd></div>))}
        </dl>
      </section>
      <section aria-label="Flow">
        <h3>Stored tuples of the flow</h3>
        {problems.value.map((why) => <Notice kind="warn"><Text of={why} /></Notice>)}
        {!id ? <p class="muted">The row does not identify its flow. Add id and ts to SELECT, or omit SELECT.</p> : !all.value ? <p class="muted" role="status">Reading stored data…</p> : all.value.length === 0 ? <p class="muted">No other tuples.</p> : (
          <ol class="moments">
            {all.value.map((one) => {
              const own = ownOf(one);
              return (
                <li class={one.ts === ts && one.end === end ? "this" : ""}>
                  <span class="when muted small">+{duration(Number(BigInt(one.ts) - BigInt(start)))}</span>
                  <strong>{visible(one.parser)}</strong>{" "}
                  <span class="span" aria-hidden="true"><span style={{ marginLeft: `${((millis(one.ts) - millis(start)) / length) * 100}%`, width: `${Math.max(1, ((millis(one.end) - millis(one.ts)) / length) * 100)}%` }} /></span>
                  <span class="small what">{own.map((at) => <><span class="muted">{heading(one.columns[at] as Column)}</span> <bdi>{shown(one.columns[at] as Column, one.row[at])}</bdi> </>)}</span>
                </li>
              );
            })}
          </ol>
        )}
        {all.value && all.value.length > 0 && <p class="muted small">{all.value.length} tuples since {time(start)} UTC.</p>}
      </section>
      {name !== "" && (
        <section>
          <h3>Packets</h3>
          {recording !== "" && id && <Packets recording={recording} flow={id} decoded={decoded} />}
          {isKept && <KeptPackets flow={{ transport, client, server, since_ns: String(BigInt(ts!) - AROUND_NS), until_ns: String(BigInt(end || ts!) + AROUND_NS) }} ts={ts!} decoded={decoded} />}
          <p class="small muted">{recording === "" ? "Extract them from a capture:" : "In a terminal:"}</p>
          <pre class="query" tabIndex={0}><code>netalytics follow {raw(name)} -r FILE</code></pre>
          <div class="tools"><Copy text={() => `netalytics follow ${name} -r FILE`}>Copy command</Copy></div>
        </section>
      )}
    </>
  );
}
