// The query editor: text, errors, explanation, and target. The browser stores the text; nothing runs until the user
// starts it.
import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { ask, catalog, lasting, may } from "../api/client";
import type { Agents, CheckAnswer, ExplainAnswer, Job, JobRequest, Jobs, Problem, Recordings } from "../api/schema";
import { isPast } from "../results/clauses";
import { bytes, visible } from "../common/format";
import { useLater } from "../common/lazy";
import { Empty, Notice, State, Text, said, useAsked } from "../common/components";
import Plan from "./plan";
import { SendFile } from "../recordings/upload";
import { go, keep, link, param, route } from "../common/route";
import type { Editor } from "./editor";
import { EXAMPLES, adapted, nameOf, type Example } from "./examples";
import { useSeen } from "./seen";

const DRAFT = "draft";
const HISTORY = "history";
const HISTORY_MAX = 100;

/** A statement in SQL in the spelling with PARSE, whose clauses derived queries change; other queries unchanged. */
async function withParse(text: string): Promise<string> {
  if (!/^\s*SELECT\b/i.test(text)) return text;
  return (await ask<CheckAnswer>("POST", "/api/v1/check", { text })).parse_spelling ?? text;
}

interface Past {
  query: string;
  job: string;
  /** The recording that was queried. */
  in?: string;
  at: number;
}

function past(): Past[] {
  try {
    const read: unknown = JSON.parse(localStorage.getItem(HISTORY) ?? "[]");
    return Array.isArray(read) ? (read as Past[]).filter((one) => typeof one?.query === "string") : [];
  } catch {
    return [];
  }
}

function remember(one: Past): void {
  const all = [one, ...past().filter((other) => other.query !== one.query)].slice(0, HISTORY_MAX);
  localStorage.setItem(HISTORY, JSON.stringify(all));
}

const names = (labels: Record<string, string>) => Object.entries(labels).map(([name, value]) => `${name}=${value}`);

const Examples = ({ of, put }: { of: Example[]; put(query: string): void }) => (
  <ul class="examples">
    {of.map(({ question, query }) => (
      <li>
        <button type="button" class="example" onClick={() => put(query)}>
          <strong>{question}</strong>
          <code>{query}</code>
        </button>
      </li>
    ))}
  </ul>
);

export function Ask() {
  const text = useSignal(param("q") || localStorage.getItem(DRAFT) || EXAMPLES[0]!.query);
  const problems = useSignal<Problem[]>([]);
  const checkedText = useSignal("");
  const explained = useSignal<ExplainAnswer | null>(null);
  const refused = useSignal("");
  const busy = useSignal(false);
  const standing = useSignal(false);
  const name = useSignal("");
  const on = useSignal<string[]>([]);
  const raw = useSignal(false);
  const exported = useSignal(false);
  const interfaces = useSignal("");
  const filter = useSignal("");
  const shelf = useSignal<Recordings | null>(null);
  const history = useSignal(past());
  const host = useRef<HTMLDivElement>(null);
  const editor = useRef<Editor | null>(null);
  /** Text that the editor itself wrote into the address; not a request to load another query. */
  const own = useRef("");
  const docs = useRef(new Map<string, string>());
  const { answer: agents } = useAsked((signal) => ask<Agents>("GET", "/api/v1/agents", undefined, { signal }), [], 5000);
  const { answer: jobs } = useAsked((signal) => ask<Jobs>("GET", "/api/v1/jobs?limit=100", undefined, { signal }), [], 5000);
  const here = (agents?.agents ?? []).filter((agent) => agent.connected);
  const labels = [...new Set(here.flatMap((agent) => names(agent.labels)))].sort();
  const taking = here.filter((agent) => on.value.every((label) => names(agent.labels).includes(label)) && (!exported.value || agent.capabilities.includes("exports")));
  /** The selected recording; empty: live or stored data. */
  const source = param("in");
  const recording = shelf.value?.recordings.find(({ id }) => id === source);
  const gone = useRef(new AbortController());
  const look = () => void lasting(() => ask<Recordings>("GET", "/api/v1/recordings"), gone.current.signal).then((found) => (shelf.value = found), () => undefined);
  useEffect(() => {
    if (may("run")) look();
    return () => gone.current.abort();
  }, []);
  const seen = useSeen(recording ?? null, (jobs?.jobs ?? []).filter((job) => job.keep === "tuples"), source);
  const examples = adapted(seen.value);
  const isRight = useComputed(() => checkedText.value === text.value && problems.value.length === 0 && text.value.trim() !== "");

  const explain = async (query: string) => {
    try {
      explained.value = await ask<ExplainAnswer>("POST", "/api/v1/explain", { query });
    } catch {
      explained.value = null;
    }
  };

  const run = async () => {
    const typed = editor.current?.text() ?? text.value;
    if (typed.trim() === "" || busy.value) return;
    if (!may("run")) {
      refused.value = "Your token cannot start queries: this needs the role run.";
      return;
    }
    busy.value = true;
    refused.value = "";
    try {
      const query = await withParse(typed);
      if (source !== "" || isPast(query)) {
        remember({ query, job: "", in: source, at: Date.now() });
        go("answer", "", { q: query, in: source });
        return;
      }
      const body: JobRequest = {
        query,
        name: name.value.trim() || nameOf(query, examples),
        kind: standing.value ? "standing" : "one_off",
        on: Object.fromEntries(on.value.map((label) => label.split(/=(.*)/s).slice(0, 2))),
        redact: !raw.value,
        source: exported.value ? "exports" : "interfaces",
        interfaces: exported.value ? [] : interfaces.value.split(/[\s,]+/).filter(Boolean),
        capture_filter: filter.value.trim() || null,
        lease_seconds: standing.value ? null : 300,
      };
      const key = [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
      const job = await ask<Job>("POST", "/api/v1/jobs", body, { headers: { "Idempotency-Key": key } });
      remember({ query, job: job.id, in: "", at: Date.now() });
      go("job", job.id);
    } catch (error) {
      refused.value = said(error);
    } finally {
      busy.value = false;
    }
  };
  const latest = useRef(run);
  latest.current = run;

  useEffect(() => {
    let gone = false;
    void catalog().then((catalog) => {
      for (const parser of catalog.parsers) {
        docs.current.set(parser.name, parser.doc);
        for (const field of parser.fields) docs.current.set(field.name, field.doc);
      }
      for (const block of catalog.blocks) docs.current.set(block.name, block.doc);
      for (const one of catalog.arguments) docs.current.set(`${one.name}=`, one.default ? `${one.doc} (default: ${one.default})` : one.doc);
    }, () => undefined);
    void import("./editor").then(({ make }) => {
      if (gone || !host.current) return;
      editor.current = make(host.current, {
        text: text.value,
        changed: (now) => {
          text.value = now;
          localStorage.setItem(DRAFT, now);
        },
        checked: (found, of) => {
          problems.value = found;
          checkedText.value = of;
          if (found.length === 0 && of.trim() !== "") {
            own.current = of;
            keep({ q: of });
            void explain(of);
          }
        },
        run: () => void latest.current(),
        doc: (word) => docs.current.get(word) ?? docs.current.get(word.replace(/[:=( ]*$/, "")) ?? "",
      });
      editor.current.focus();
    });
    return () => {
      gone = true;
      editor.current?.destroy();
    };
  }, []);

  // A link to another query, or navigation back.
  const asked = route.value.params.get("q");
  useEffect(() => {
    if (asked !== null && asked !== own.current && editor.current && asked !== editor.current.text()) editor.current.set(asked);
  }, [asked]);

  const isBuilding = param("build") !== "";
  const [builder] = useLater(() => import("./builder"), isBuilding);
  const put = (query: string) => {
    editor.current?.set(query);
    editor.current?.focus();
    scrollTo({ top: 0 });
  };
  const watching = (jobs?.jobs ?? []).filter((job) => job.kind === "standing" && job.state !== "ended");

  return (
    <div class="page ask">
      <header class="head"><h1>Query</h1><div class="actions"><button type="button" aria-expanded={isBuilding} onClick={() => keep({ build: isBuilding ? "" : "1" })}>Query builder</button></div></header>
      <div class="two">
        <div>
          {isBuilding && builder && <builder.default text={text.value} recording={source} seen={seen.value} write={(query) => editor.current?.set(query)} />}
          <section class="card editor" aria-label="Query">
            <div ref={host} class="editor-host"><pre class="editor-wait">{visible(text.value).replaceAll("\\n", "\n")}</pre></div>
            <div class="problems" aria-live="polite">
              {problems.value.map((problem) => {
                const meant = /^did you mean `([^`]+)`/.exec(problem.hint ?? "")?.[1];
                const { start_utf16: from, end_utf16: to } = problem.place;
                return (
                  <p class="problem">
                    <span class="sign" aria-hidden="true">✕</span>
                    <span>
                      <Text of={problem.message} />
                      {problem.expected && <span class="muted"> · expected: <Text of={problem.expected} /></span>}
                      {problem.hint && !meant && <span class="muted"> · <Text of={problem.hint} /></span>}
                    </span>
                    {meant && checkedText.value === text.value && (
                      <button type="button" onClick={() => editor.current?.replace(from, to, meant)}>use <code>{visible(meant)}</code></button>
                    )}
                  </p>
                );
              })}
            </div>
            <div class="run">
              <button type="button" class="primary" disabled={busy.value} onClick={() => void run()}>
                {busy.value ? (source !== "" ? "Running…" : "Starting…") : standing.value ? "Start standing job" : "Run"} <kbd>Ctrl ⏎</kbd>
              </button>
              {shelf.value && (
                <label class="inline">Source
                  <select value={recording ? source : ""} onChange={(event) => keep({ in: event.currentTarget.value })}>
                    <option value="">live traffic</option>
                    {shelf.value.recordings.filter((one) => one.problem === null).map((one) => <option value={one.id}>{visible(one.name).slice(0, 60)}, {bytes(one.bytes)}</option>)}
                  </select>
                </label>
              )}
              {shelf.value && <SendFile max={shelf.value.upload_bytes_max} done={(one) => { look(); keep({ in: one.id }); }} />}
              {source === "" && <span class="muted">
                on {here.length === 0 ? "no agent" : taking.length === here.length ? (here.length === 1 ? <Text of={here[0]?.name ?? ""} /> : `all ${here.length} agents`) : `${taking.length} of ${here.length} agents`}
              </span>}
              {source !== "" && shelf.value && !recording && <span class="muted">The recording in this link was deleted, or is not visible to you.</span>}
              {source === "" && <details class="more">
                <summary>Options</summary>
                <div class="fields">
                  {labels.length > 0 && (
                    <fieldset>
                      <legend>Agents with these labels</legend>
                      {labels.map((label) => (
                        <label class="check">
                          <input
                            type="checkbox"
                            checked={on.value.includes(label)}
                            onChange={(event) => (on.value = event.currentTarget.checked ? [...on.value, label] : on.value.filter((other) => other !== label))}
                          />
                          <Text of={label} />
                        </label>
                      ))}
                    </fieldset>
                  )}
                  <label class="check"><input type="checkbox" checked={exported.value} onChange={(event) => (exported.value = event.currentTarget.checked)} /> Export messages of switches and routers (sFlow, NetFlow, IPFIX) that agents receive</label>
                  <label>Interfaces <input value={interfaces.value} disabled={exported.value} placeholder="all that the agent permits" onInput={(event) => (interfaces.value = event.currentTarget.value)} /></label>
                  <label>Capture filter <input value={filter.value} placeholder="tcp port 80" onInput={(event) => (filter.value = event.currentTarget.value)} /></label>
                  <label>Name <input value={name.value} maxLength={200} placeholder="optional" onInput={(event) => (name.value = event.currentTarget.value)} /></label>
                  <label class="check"><input type="checkbox" checked={standing.value} onChange={(event) => (standing.value = event.currentTarget.checked)} /> Standing job: runs until it is stopped</label>
                  <label class="check"><input type="checkbox" checked={raw.value} disabled={!may("raw")} onChange={(event) => (raw.value = event.currentTarget.checked)} /> Do not redact texts that may identify a person (role raw)</label>
                </div>
              </details>}
            </div>
            {refused.value !== "" && <Notice kind="bad">{refused.value}</Notice>}
            {agents && here.length === 0 && source === "" && <Notice kind="warn">No agent is connected, so queries cannot run. Start one on a host: <code>netalytics agent --server {location.origin}</code></Notice>}
          </section>

          <section>
            <h2>Examples</h2>
            {seen.value.length > 0 && <p class="muted small seen">{source === "" ? "Seen on the network" : "In this recording"}: {seen.value.map((one) => <span class="tag">{one}</span>)}</p>}
            <Examples of={examples.filter(({ isSeen }) => isSeen || seen.value.length === 0)} put={put} />
            {seen.value.length > 0 && <details><summary>Examples for other protocols</summary><Examples of={examples.filter(({ isSeen }) => !isSeen)} put={put} /></details>}
          </section>
        </div>

        <aside>
          {watching.length > 0 && (
            <section class="card">
              <h2>Standing jobs</h2>
              <ul class="list">
                {watching.map((job) => (
                  <li>
                    <a href={link("job", job.id)}><Text of={job.name || `job ${job.id}`} /></a> <State of={job.state} />
                    <code class="one-line"><Text of={job.query} /></code>
                  </li>
                ))}
              </ul>
            </section>
          )}
          <Plan of={isRight.value ? explained.value : null} query={checkedText.value} />
          <section class="card">
            <h2>History</h2>
            {history.value.length === 0 ? (
              <Empty title="No queries yet">
                <p class="muted small">This browser stores the queries that you run.</p>
              </Empty>
            ) : (
              <ul class="list">
                {history.value.slice(0, 12).map((one) => (
                  <li>
                    <button type="button" class="past" onClick={() => put(one.query)}><code><Text of={one.query} /></code></button>
                    <span class="muted small">{new Date(one.at).toISOString().slice(0, 16).replace("T", " ")} {one.job !== "" ? <> · <a href={link("job", one.job)}>job {visible(one.job)}</a></> : one.in ? " · recording" : " · stored data"}</span>
                  </li>
                ))}
              </ul>
            )}
          </section>
        </aside>
      </div>
    </div>
  );
}
