// The page of a job: its result, live, with the state of its stream.
import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, lasting, may, me } from "../api/client";
import type { AccountEvent, Job } from "../api/schema";
import { Stream } from "../api/stream";
import { duration, many, millis, visible } from "../common/format";
import { Model } from "../results/model";
import { Copy, Empty, Notice, State, Text, said } from "../common/components";
import { go, link, param } from "../common/route";
import { FiringHere } from "./firing";
import { Quality } from "./quality";
import { Chip, View, ns } from "./view";

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

  const pause = () => {
    isPaused.value = !isPaused.value;
    if (!isPaused.value) {
      model.current?.apply(waiting.current);
      waiting.current = [];
      behind.value = 0;
    }
  };

  useEffect(() => {
    const onKey = (event: Event) => {
      if ((event as CustomEvent<KeyboardEvent>).detail.key !== " ") return;
      pause();
      (event as CustomEvent<KeyboardEvent>).detail.preventDefault();
    };
    addEventListener("pagekey", onKey);
    return () => removeEventListener("pagekey", onKey);
  });

  const stateOf = useComputed(() => stream.value?.state.value ?? { is: "connecting" as const });
  const one = job.value;
  const held = model.current;
  if (error.value !== "" && !one) {
    return <div class="page"><h1>Job {visible(id)}</h1><Notice kind="bad">{error.value}</Notice><p><a href={link("jobs")}>All jobs</a></p></div>;
  }
  const state = stateOf.value;
  const jobState = held?.state || one?.state || "";
  const stop = () => void ask("DELETE", `/api/v1/jobs/${encodeURIComponent(id)}`).catch((why) => (error.value = said(why)));
  const result = held?.results[Number(param("result", "0"))];
  const rowsAt = `/api/v1/jobs/${encodeURIComponent(id)}/rows?limit=10000&result=${result?.place ?? 0}`;
  return (
    <div class="page answer">
      <header class="head">
        <p class="crumb"><a href={link("jobs")}>Jobs</a> / {visible(id)}</p>
        <div class="title">
          <h1><Text of={one?.name || `Job ${id}`} /> {jobState !== "" && <State of={jobState} />}</h1>
          <div class="actions">
            <button type="button" onClick={() => go("ask", "", { q: one?.query ?? "" })}>Edit query</button>
            <Copy text={() => location.href}>Copy link</Copy>
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
      <View
        query={one?.query ?? ""}
        title={one?.name || `Job ${id}`}
        file={`job-${id}`}
        results={held?.results ?? []}
        isLoaded={held?.hasSnapshot ?? false}
        job={one}
        recording=""
        account={held?.account ?? null}
        isRedacted={one?.redacted ?? false}
        period={one ? { since: one.created_ns, until: one.ended_ns ?? ns(now.value) } : null}
        state={(
          <Chip kind={isPaused.value || state.is !== "live" ? "warn" : jobState === "ended" ? "" : "good"}>
            {isPaused.value ? `paused, ${behind.value} updates pending` : state.is !== "live" ? "not live" : jobState === "ended" ? "complete" : held?.account?.lag_ns ? `live, ${duration(Math.max(0, Number(held.account.lag_ns)))} behind` : "live"}
          </Chip>
        )}
        more={<><FiringHere job={id} /><button type="button" class="quiet" aria-expanded={details.value} onClick={() => (details.value = !details.value)}>Quality details</button></>}
        details={details.value ? <Quality account={held?.account ?? null} job={id} isEnded={jobState === "ended"} /> : null}
        tools={(
          <>
            <button type="button" aria-pressed={isPaused.value} class={isPaused.value ? "loud" : ""} onClick={pause} disabled={jobState === "ended" && !isPaused.value}>{isPaused.value ? `Resume (${behind.value})` : "Pause"}</button>
            {result && result.windows.size > 0 && <><a class="button" href={`${rowsAt}&format=csv`} download={`job-${id}.csv`}>CSV</a><a class="button" href={`${rowsAt}&format=parquet`} download={`job-${id}.parquet`}>Parquet</a></>}
          </>
        )}
        nothing={<Nothing account={held?.account ?? null} state={jobState} reason={held?.reason ?? null} job={one} />}
      />
    </div>
  );
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
