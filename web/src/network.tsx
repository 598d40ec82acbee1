// The network: agents with their counters and jobs, and the server's health.
import type { ComponentChildren } from "preact";
import { ask, Refused, type Agent, type Job } from "./api";
import { bytes, duration, many } from "./format";
import { Empty, Notice, State, Text, said, useAsked } from "./parts";
import { link } from "./route";

/** Loss counters in words. Other counters are not losses. */
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
  ["connections_evicted", "connections without a token closed to make room"],
  ["links_broken", "agents' connections that were cut"],
  ["queries_given_up", "queries of the past given up"],
  ["query_rows_left_out", "rows left out of queries of the past"],
  ["alert_groups_left_out", "groups without an alert, since there were too many"],
  ["notifications_lost", "notifications lost"],
  ["action_groups_left_out", "groups that actions did not follow, since there were too many"],
];

interface Rule { job: string | null; cookie: string; table: number; priority: number; matches: string; actions: string; lease_seconds: number }
interface Mirror { job: string | null; name: string; ports: string[]; to: string | null }
interface Switch { name: string; tier: string; reached: string | null; agent: string | null; rules: Rule[]; mirrors: Mirror[] }
interface Monitor { agent: string; host: string; switch: string; interfaces: string[]; clients: string[]; servers: string[]; mbps: number; cores: number }
interface Planned { job: string; state: string; mode: string; why: string; lacks: string[]; not_covered: string[]; monitors: Monitor[]; proof: string }
interface View { is_known: boolean; switches: Switch[]; jobs: Planned[] }

/** Rules and mirrors on switches, by job. */
function Switches({ all, of }: { all: Switch[]; of: (id: string | null) => ComponentChildren }) {
  const rows = all.flatMap((one) => [
    ...one.rules.map((rule) => <tr key={`${rule.cookie} ${rule.table} ${rule.matches}`}><td><Text of={one.name} /></td><td>{of(rule.job)}</td><td><code><Text of={rule.matches} /></code></td><td><code><Text of={rule.actions} /></code></td><td class="n">{rule.lease_seconds} s</td><td><code><Text of={rule.cookie} /></code></td></tr>),
    ...one.mirrors.map((mirror) => <tr key={mirror.name}><td><Text of={one.name} /></td><td>{of(mirror.job)}</td><td>all of ports <Text of={mirror.ports.join(", ")} /></td><td>mirror to <Text of={mirror.to ?? "–"} /></td><td class="n">–</td><td><code><Text of={mirror.name} /></code></td></tr>),
  ]);
  return (
    <section class="card">
      <h2>Switches</h2>
      <p>{all.map((one) => <span class="tag" key={one.name}><Text of={`${one.name}, ${one.tier}, ${one.reached === null ? "not reached" : `by ${one.reached}`}${one.agent === null ? "" : `, agent ${one.agent}`}`} /></span>)}</p>
      {rows.length === 0 ? <p class="muted">No switch copies anything.</p> : (
        <div class="scroll" tabIndex={0} role="region" aria-label="Rules in force">
          <table class="plain wide">
            <thead><tr><th scope="col">switch</th><th scope="col">for</th><th scope="col">packets</th><th scope="col">what is done</th><th scope="col" class="n">lease</th><th scope="col">cookie</th></tr></thead>
            <tbody>{rows}</tbody>
          </table>
        </div>
      )}
    </section>
  );
}

/** Placement of a job's monitors, with reasons. */
function Plan({ of, title }: { of: Planned; title: ComponentChildren }) {
  return (
    <section class="card">
      <h2>{title} <State of={of.state} /></h2>
      <p>Copied: <Text of={of.mode} />. <span class="muted"><Text of={of.why} />{of.proof && <>; <Text of={of.proof} /></>}</span></p>
      {[...of.lacks, ...of.not_covered].map((lack) => <p class="muted small" key={lack}>Lacks: <Text of={lack} /></p>)}
      <div class="scroll" tabIndex={0} role="region" aria-label="Monitors">
        <table class="plain wide">
          <thead><tr><th scope="col">agent</th><th scope="col">host</th><th scope="col">reads at</th><th scope="col">packets of</th><th scope="col">flows</th><th scope="col" class="n">expected</th></tr></thead>
          <tbody>{of.monitors.map((one) => (
            <tr key={one.agent}><td><Text of={one.agent} /></td><td><Text of={one.host} /></td><td><Text of={one.interfaces.join(", ")} /></td><td><Text of={one.switch} /></td><td><Text of={`${one.clients.join(", ") || "anybody"} → ${one.servers.join(", ") || "anybody"}`} /></td><td class="n">{one.mbps.toFixed(1)} Mb/s, {one.cores.toFixed(3)} cores</td></tr>
          ))}</tbody>
        </table>
      </div>
    </section>
  );
}

export function Network() {
  const { answer, error } = useAsked(async (signal) => {
    const [agents, jobs, counters, view] = await Promise.all([
      ask<{ agents: Agent[] }>("GET", "/api/v1/agents", undefined, { signal }),
      ask<{ jobs: Job[] }>("GET", "/api/v1/jobs?limit=1000", undefined, { signal }),
      // Null: the token is for some networks, and counters are of all jobs and agents.
      ask<Record<string, number>>("GET", "/api/v1/counters", undefined, { signal }).catch((refused) => {
        if (refused instanceof Refused && refused.status === 403) return null;
        throw refused;
      }),
      ask<View>("GET", "/api/v1/network", undefined, { signal }),
    ]);
    return { agents: agents.agents, jobs: new Map(jobs.jobs.map((job) => [job.id, job])), counters, view };
  }, [], 3000);
  const counters = answer?.counters ?? {};
  const lost = LOSSES.filter(([name]) => (counters[name] ?? 0) > 0);
  const of = (id: string | null) => id === null ? <span class="muted">all jobs</span> : <a href={link("job", id)}><Text of={answer?.jobs.get(id)?.name || `job ${id}`} /></a>;
  return (
    <div class="page">
      <header class="head"><h1>Network</h1><p class="muted">Who looks at which packets, and how the server does.</p></header>
      {error !== undefined && <Notice kind="bad">{said(error)} {answer && "What is shown is older."}</Notice>}
      {answer?.counters && (
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
      {answer?.view.is_known && <Switches all={answer.view.switches} of={of} />}
      {answer?.view.jobs.map((job) => <Plan key={job.job} of={job} title={of(job.job)} />)}
      {answer && (
        <section class="card">
          <h2>Left out since the server was started</h2>
          {lost.length === 0 ? <p class="muted">Nothing.</p> : <dl class="pairs">{lost.map(([name, what]) => <div><dt>{what}</dt><dd>{many(counters[name] ?? 0)}</dd></div>)}</dl>}
        </section>
      )}
    </div>
  );
}
