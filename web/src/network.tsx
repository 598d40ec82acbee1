// The network as the server knows it: its agents, what they see and run, and how the server itself does.
import { ask, type Agent, type Job } from "./api";
import { bytes, duration, many } from "./format";
import { Empty, Notice, State, Text, said, useAsked } from "./parts";
import { link } from "./route";

/** What had to be left out, in words. Everything else of the counters is no loss. */
const LOSSES: [string, string][] = [
  ["rows_dropped", "rows taken away by retention"],
  ["rows_unkept", "rows that could not be kept"],
  ["rows_unshown", "rows left out of live streams"],
  ["segments_damaged", "parts of the history that cannot be read"],
  ["jobs_refused", "jobs refused, since there were too many"],
  ["streams_refused", "live streams refused, since there were too many"],
  ["requests_refused", "requests that came too fast"],
  ["connections_waited", "times that connections had to wait"],
  ["handshakes_failed", "TLS handshakes that failed"],
  ["heads_refused", "connections that brought no request"],
  ["links_broken", "agents' connections that were cut"],
  ["queries_given_up", "queries of the past given up"],
  ["query_rows_left_out", "rows left out of queries of the past"],
  ["alert_groups_left_out", "groups without an alert, since there were too many"],
  ["notifications_lost", "notifications lost"],
];

export function Network() {
  const { answer, error } = useAsked(async (signal) => {
    const [agents, jobs, counters] = await Promise.all([
      ask<{ agents: Agent[] }>("GET", "/api/v1/agents", undefined, { signal }),
      ask<{ jobs: Job[] }>("GET", "/api/v1/jobs?limit=1000", undefined, { signal }),
      ask<Record<string, number>>("GET", "/api/v1/counters", undefined, { signal }),
    ]);
    return { agents: agents.agents, jobs: new Map(jobs.jobs.map((job) => [job.id, job])), counters };
  }, [], 3000);
  const counters = answer?.counters ?? {};
  const lost = LOSSES.filter(([name]) => (counters[name] ?? 0) > 0);
  return (
    <div class="page">
      <header class="head"><h1>Network</h1><p class="muted">Who looks at which packets, and how the server does.</p></header>
      {error !== undefined && <Notice kind="bad">{said(error)} {answer && "What is shown is older."}</Notice>}
      {answer && (
        <dl class="facts">
          <div><dt>agents</dt><dd>{counters["agents_connected"]}<span class="muted"> of {answer.agents.length}</span></dd></div>
          <div><dt>jobs that run</dt><dd>{counters["jobs_unfinished"]}</dd></div>
          <div><dt>live streams</dt><dd>{counters["streams"]}</dd></div>
          <div><dt>results kept</dt><dd>{bytes(counters["history_bytes"] ?? 0)}</dd></div>
          <div><dt>tuples kept</dt><dd>{bytes(counters["tuple_bytes"] ?? 0)}</dd></div>
          <div><dt>up for</dt><dd>{duration((counters["uptime_seconds"] ?? 0) * 1e9)}</dd></div>
        </dl>
      )}
      {answer && answer.agents.length === 0 && (
        <Empty title="No agent has come yet"><p>Without one no query runs. On a host that sees packets: <code>netalytics agent --server {location.origin} --token-file FILE</code></p></Empty>
      )}
      <ul class="agents">
        {answer?.agents.map((agent) => (
          <li class={`card agent${agent.connected ? "" : " away"}`} key={agent.name}>
            <header><h2><Text of={agent.name} /></h2> <State of={agent.connected ? "connected" : "gone"} /></header>
            <p class="rate"><strong>{agent.packets_per_second === null ? "–" : many(agent.packets_per_second)}</strong> <span class="muted">packets/s</span></p>
            <dl class="pairs">
              <div><dt>interfaces</dt><dd>{agent.interfaces.length === 0 ? "–" : agent.interfaces.map((name) => <code><Text of={name} /> </code>)}</dd></div>
              <div><dt>labels</dt><dd>{Object.entries(agent.labels).length === 0 ? "–" : Object.entries(agent.labels).map(([name, value]) => <span class="tag"><Text of={`${name}=${value}`} /></span>)}</dd></div>
              <div><dt>addresses</dt><dd>{agent.addresses.length === 0 ? "–" : agent.addresses.map((address) => <code><Text of={address} /> </code>)}</dd></div>
              <div><dt>can</dt><dd>{agent.capabilities.map((what) => <span class="tag"><Text of={what} /></span>)}</dd></div>
              <div><dt>host</dt><dd>{agent.cores} cores, {bytes(agent.memory_bytes)}</dd></div>
              <div><dt>clock</dt><dd>{agent.clock_offset_ns === null ? "not known" : `${Number(agent.clock_offset_ns) > 0 ? "+" : ""}${duration(Number(agent.clock_offset_ns))}`}</dd></div>
              <div><dt>version</dt><dd><Text of={agent.version} /></dd></div>
            </dl>
            <h3>Runs</h3>
            {agent.jobs.length === 0 ? <p class="muted small">nothing</p> : (
              <ul class="list">{agent.jobs.map((id) => <li><a href={link("job", id)}><Text of={answer.jobs.get(id)?.name || `job ${id}`} /></a></li>)}</ul>
            )}
          </li>
        ))}
      </ul>
      {answer && (
        <section class="card">
          <h2>Left out since the server was started</h2>
          {lost.length === 0 ? <p class="muted">Nothing.</p> : <dl class="pairs">{lost.map(([name, what]) => <div><dt>{what}</dt><dd>{many(counters[name] ?? 0)}</dd></div>)}</dl>}
        </section>
      )}
    </div>
  );
}
