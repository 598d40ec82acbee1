// The answer to a query of stored data or a recording, in the views of a job's result. Its address has the query with the
// times that were answered: opening it reads the same data again.
import { useEffect, useState } from "preact/hooks";
import { askKept, lasting } from "../api/client";
import type { PastAnswer } from "../api/schema";
import { clauses, dated, windowOf, type Period } from "../results/clauses";
import { many, span, visible } from "../common/format";
import { Result } from "../results/model";
import { Copy, Empty, Notice, Text, said } from "../common/components";
import { go, keep, link, param } from "../common/route";
import { Differences } from "./lazy_details";
import { Chip, Skeleton, View } from "./view";

interface Loaded {
  /** The query in the address. */
  query: string;
  recording: string;
  answer: PastAnswer;
  results: Result[];
}

/** The rows of an answer by window. */
function resultsOf(answer: PastAnswer): Result[] {
  return answer.results.map((told, place) => {
    const result = new Result(place, told.processor, told.columns, told.keys, told.rows.length);
    for (const window of result.windowsOf(told.rows)) result.put(window);
    result.leftOut += told.left_out;
    return result;
  });
}

const between = (since: string | null, until: string | null): Period | null => (since !== null && until !== null ? { since, until } : null);

export default function Stored() {
  const [query, recording] = [param("q"), param("in")];
  const [loaded, setLoaded] = useState<Loaded | null>(null);
  const [error, setError] = useState<unknown>(undefined);
  const [times, setTimes] = useState(0);
  useEffect(() => {
    if (query === "" || (loaded?.query === query && loaded.recording === recording && times === 0)) return;
    const abort = new AbortController();
    setError(undefined);
    lasting(() => askKept(query, recording, undefined, abort.signal), abort.signal, setError).then((answer) => {
      const own = between(answer.since_ns, answer.until_ns);
      // Relative times would name other data tomorrow.
      const fixed = own && clauses(query).some(({ word }) => word === "SINCE") ? dated(query, own, between(answer.baseline_since_ns, answer.baseline_until_ns)) : query;
      setError(undefined);
      setLoaded({ query: fixed, recording, answer, results: resultsOf(answer) });
      if (fixed !== query) keep({ q: fixed });
    }, (why) => abort.signal.aborted || setError(why));
    return () => abort.abort();
  }, [query, recording, times]);
  const here = loaded?.query === query && loaded.recording === recording ? loaded : null;
  const answer = here?.answer;
  const period = answer ? between(answer.since_ns, answer.until_ns) : null;
  const title = recording === "" ? "Stored data" : "Recording";
  const rows = answer?.results.reduce((sum, one) => sum + one.rows.length, 0) ?? 0;
  return (
    <div class="page answer past-answer">
      <header class="head">
        <p class="crumb"><a href={link("ask", "", { q: query, in: recording })}>Query</a> / {title.toLowerCase()}</p>
        <div class="title">
          <h1>{title}</h1>
          <div class="actions">
            <button type="button" onClick={() => go("ask", "", { q: query, in: recording })}>Edit query</button>
            <Copy text={() => location.href}>Copy link</Copy>
            <button type="button" onClick={() => setTimes((n) => n + 1)}>Query again</button>
          </div>
        </div>
        <pre class="query" tabIndex={0}><code><Text of={query} /></code></pre>
      </header>
      {error !== undefined && <Notice kind="bad">{said(error)}</Notice>}
      {answer && answer.baseline_since_ns === null && answer.notes.map((note) => (note.startsWith("answered from the") ? <p class="muted small">{visible(note)}</p> : <Notice>{visible(note)}</Notice>))}
      {!answer ? error === undefined && <Skeleton /> : answer.baseline_since_ns !== null ? (
        <section class="compare" aria-label="Comparison">{answer.results.map((_, place) => <Differences key={place} answer={answer} place={place} />)}</section>
      ) : (
        <View
          query={query}
          title={title}
          file={recording === "" ? "stored-data" : "recording"}
          results={here!.results}
          isLoaded
          job={null}
          recording={recording}
          account={null}
          isRedacted={false}
          period={period}
          state={<Chip kind="">{period ? `${span(period.since, period.until)} UTC` : "whole recording"}</Chip>}
          more={<><Chip kind="">{many(answer.tuples)} tuples read</Chip>{answer.job !== null && <a class="chip" href={link("job", answer.job)}>{answer.from === "rows" ? "rows" : "tuples"} of job {answer.job}</a>}</>}
          details={null}
          tools={null}
          nothing={<Empty title="No rows"><p class="muted">{rows === 0 ? "No data of this period matches the query." : ""}</p></Empty>}
        />
      )}
      {answer && windowOf(query, 0) === "" && answer.baseline_since_ns === null && <p class="muted small">Without windows (w=10s) there is no view over time.</p>}
    </div>
  );
}
