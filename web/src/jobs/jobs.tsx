// All jobs, running ones first, with links to their results.
import { useSignal } from "@preact/signals";
import { ask, may } from "../api/client";
import type { Job, Jobs as JobList } from "../api/schema";
import { ago, many, visible } from "../common/format";
import { Empty, Notice, State, Text, said, useAsked } from "../common/components";
import { keep, link, param } from "../common/route";

const PAGE = 100;

export function Jobs() {
  const state = param("state");
  const { answer, error, again } = useAsked((signal) => ask<JobList>("GET", `/api/v1/jobs?limit=${PAGE}${state ? `&state=${state}` : ""}`, undefined, { signal }), [state], 3000);
  const failed = useSignal("");
  const older = useSignal<Job[]>([]);
  const next = useSignal<string | null | undefined>(undefined);
  const find = param("find").toLowerCase();
  const all = [...(answer?.jobs ?? []), ...older.value].filter((job) => find === "" || `${job.name} ${job.query} ${job.owner}`.toLowerCase().includes(find));
  const rest = next.value === undefined ? answer?.next : next.value;
  return (
    <div class="page">
      <header class="head"><h1>Jobs</h1><p class="muted">All queries started on this server, with their stored rows.</p></header>
      <div class="tools">
        <div class="segmented" role="group" aria-label="State">
          {[["", "All"], ["running", "Running"], ["planned", "Planned"], ["ended", "Ended"]].map(([value, title]) => (
            <button type="button" aria-pressed={state === value} onClick={() => { older.value = []; next.value = undefined; keep({ state: value ?? "" }); }}>{title}</button>
          ))}
        </div>
        <label class="inline grow"><span class="hidden">Search</span><input type="search" placeholder="Search  /" value={param("find")} onInput={(event) => keep({ find: event.currentTarget.value })} /></label>
        <a class="button primary" href={link("ask")}>New query</a>
      </div>
      {error !== undefined && <Notice kind="bad">{said(error)} {answer && "The data shown is outdated."}</Notice>}
      {failed.value !== "" && <Notice kind="bad">{failed.value}</Notice>}
      {!answer ? null : all.length === 0 ? (
        <Empty title={find || state ? "No matching jobs" : "No jobs yet"}><p><a href={link("ask")}>Start a query</a></p></Empty>
      ) : (
        <div class="scroll" tabIndex={0} role="region" aria-label="Jobs">
          <table class="plain wide">
            <thead><tr><th scope="col" class="n">id</th><th scope="col">query</th><th scope="col">state</th><th scope="col">owner</th><th scope="col">started</th><th scope="col">outlets</th><th scope="col"><span class="hidden">actions</span></th></tr></thead>
            <tbody>
              {all.map((job) => (
                <tr key={job.id}>
                  <td class="n">{job.id}</td>
                  <td class="question">
                    <a href={link("job", job.id)}><Text of={job.name || "unnamed"} /></a>
                    <code class="one-line" title={visible(job.query)}><Text of={job.query} /></code>
                    {Object.keys(job.on).length > 0 && <span class="muted small">on {Object.entries(job.on).map(([name, value]) => <Text of={`${name}=${value} `} />)}</span>}
                  </td>
                  <td><State of={job.outcome === "failed" ? "failed" : job.state} />{job.reason && <span class="muted small why"><Text of={job.reason} /></span>}</td>
                  <td><Text of={job.owner} /></td>
                  <td class="muted nowrap">{ago(job.created_ns)}</td>
                  <td>{job.outlets.length === 0 ? <span class="muted">–</span> : job.outlets.map((outlet) => <div><Text of={outlet.to} /> <State of={outlet.state} /> <span class="muted small">{many(outlet.delivered)} rows{outlet.behind > 0 ? `, ${many(outlet.behind)} behind` : ""}</span></div>)}</td>
                  <td>{job.state !== "ended" && may("run") && (
                    <button type="button" aria-label={visible(`Stop ${job.name || job.id}`)} onClick={() => void ask("DELETE", `/api/v1/jobs/${job.id}`).then(again, (why) => (failed.value = said(why)))}>Stop</button>
                  )}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {rest && (
        <button type="button" onClick={() => void ask<JobList>("GET", `/api/v1/jobs?limit=${PAGE}&before=${rest}${state ? `&state=${state}` : ""}`).then((more) => { older.value = [...older.value, ...more.jobs]; next.value = more.next; }, (why) => (failed.value = said(why)))}>Load older jobs</button>
      )}
    </div>
  );
}
