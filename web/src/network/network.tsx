// The network: agents with their counters and jobs, and the server's health.
import type { ComponentChildren } from "preact";
import { ask, Refused } from "../api/client";
import type { Agents, Counters, Jobs, NetworkJob, NetworkSwitch, NetworkView } from "../api/schema";
import { bytes, duration, many } from "../common/format";
import { Empty, Notice, State, Text, said, useAsked } from "../common/components";
import { link } from "../common/route";

/** Loss counters in words. Other counters are not losses. */
const LOSSES: [keyof Counters, string][] = [
  ["rows_dropped", "rows deleted by retention"],
  ["rows_unkept", "rows not stored"],
  ["rows_unshown", "rows omitted from live streams"],
  ["segments_damaged", "damaged history segments"],
  ["jobs_refused", "jobs refused: limit reached"],
  ["streams_refused", "live streams refused: limit reached"],
  ["requests_refused", "requests refused: rate limit"],
  ["connections_waited", "connections delayed: limit reached"],
  ["handshakes_failed", "failed TLS handshakes"],
  ["heads_refused", "connections closed: malformed request"],
  ["connections_evicted", "unauthenticated connections closed: limit reached"],
  ["links_broken", "agent connections closed: protocol error"],
  ["queries_given_up", "queries of stored data aborted: time limit"],
  ["query_rows_left_out", "rows omitted from queries of stored data"],
  ["alert_groups_left_out", "groups without an alert: limit reached"],
  ["notifications_lost", "notifications lost"],
  ["action_groups_left_out", "groups not tracked by actions: limit reached"],
];

/** Rules and mirrors on switches, by job. */
function Switches({ all, of }: { all: NetworkSwitch[]; of: (id: string | null) => ComponentChildren }) {
  const rows = all.flatMap((one) => [
    ...one.rules.map((rule) => <tr key={`${rule.cookie} ${rule.table} ${rule.matches}`}><td><Text of={one.name} /></td><td>{of(rule.job)}</td><td><code><Text of={rule.matches} /></code></td><td><code><Text of={rule.actions} /></code></td><td class="n">{rule.lease_seconds} s</td><td><code><Text of={rule.cookie} /></code></td></tr>),
    ...one.mirrors.map((mirror) => <tr key={mirror.name}><td><Text of={one.name} /></td><td>{of(mirror.job)}</td><td>ports <Text of={mirror.ports.join(", ")} /></td><td>mirror to <Text of={mirror.to ?? "–"} /></td><td class="n">–</td><td><code><Text of={mirror.name} /></code></td></tr>),
  ]);
  return (
    <section class="card">
      <h2>Switches</h2>
      <p>{all.map((one) => <span class="tag" key={one.name}><Text of={`${one.name}, ${one.tier}, ${one.reached === null ? "not reachable" : `via ${one.reached}`}${one.agent === null ? "" : `, agent ${one.agent}`}`} /></span>)}</p>
      {rows.length === 0 ? <p class="muted">No active rules or mirrors.</p> : (
        <div class="scroll" tabIndex={0} role="region" aria-label="Active rules">
          <table class="plain wide">
            <thead><tr><th scope="col">switch</th><th scope="col">job</th><th scope="col">packets</th><th scope="col">action</th><th scope="col" class="n">lease</th><th scope="col">cookie</th></tr></thead>
            <tbody>{rows}</tbody>
          </table>
        </div>
      )}
    </section>
  );
}

/** Placement of a job's monitors, with reasons. */
function Plan({ of, title }: { of: NetworkJob; title: ComponentChildren }) {
  return (
    <section class="card">
      <h2>{title} <State of={of.state} /></h2>
      <p>Mirrored: <Text of={of.mode} />. <span class="muted"><Text of={of.why} />{of.proof && <>; <Text of={of.proof} /></>}</span></p>
      {[...of.lacks, ...of.not_covered].map((lack) => <p class="muted small" key={lack}>Missing: <Text of={lack} /></p>)}
      <div class="scroll" tabIndex={0} role="region" aria-label="Monitors">
        <table class="plain wide">
          <thead><tr><th scope="col">agent</th><th scope="col">host</th><th scope="col">interfaces</th><th scope="col">switch</th><th scope="col">flows</th><th scope="col" class="n">expected load</th></tr></thead>
          <tbody>{of.monitors.map((one) => (
            <tr key={one.agent}><td><Text of={one.agent} /></td><td><Text of={one.host} /></td><td><Text of={one.interfaces.join(", ")} /></td><td><Text of={one.switch} /></td><td><Text of={`${one.clients.join(", ") || "any"} → ${one.servers.join(", ") || "any"}`} /></td><td class="n">{one.mbps.toFixed(1)} Mb/s, {one.cores.toFixed(3)} cores</td></tr>
          ))}</tbody>
        </table>
      </div>
    </section>
  );
}

export function Network() {
  const { answer, error } = useAsked(async (signal) => {
    const [agents, jobs, counters, view] = await Promise.all([
      ask<Agents>("GET", "/api/v1/agents", undefined, { signal }),
      ask<Jobs>("GET", "/api/v1/jobs?limit=1000", undefined, { signal }),
      // Null: the token is for some networks, and counters are of all jobs and agents.
      ask<Counters>("GET", "/api/v1/counters", undefined, { signal }).catch((refused) => {
        if (refused instanceof Refused && refused.status === 403) return null;
        throw refused;
      }),
      ask<NetworkView>("GET", "/api/v1/network", undefined, { signal }),
    ]);
    return { agents: agents.agents, jobs: new Map(jobs.jobs.map((job) => [job.id, job])), counters, view };
  }, [], 3000);
  const counters = answer?.counters;
  const lost = LOSSES.filter(([name]) => (counters?.[name] ?? 0) > 0);
  const of = (id: string | null) => id === null ? <span class="muted">all jobs</span> : <a href={link("job", id)}><Text of={answer?.jobs.get(id)?.name || `job ${id}`} /></a>;
  return (
    <div class="page">
      <header class="head"><h1>Network</h1><p class="muted">Agents, switches, and the state of the server.</p></header>
      {error !== undefined && <Notice kind="bad">{said(error)} {answer && "The data shown is outdated."}</Notice>}
      {answer && counters && (
        <dl class="facts">
          <div><dt>agents</dt><dd>{counters.agents_connected}<span class="muted"> of {answer.agents.length}</span></dd></div>
          <div><dt>running jobs</dt><dd>{counters.jobs_unfinished}</dd></div>
          <div><dt>live streams</dt><dd>{counters.streams}</dd></div>
          <div><dt>stored results</dt><dd>{bytes(counters.history_bytes)}</dd></div>
          <div><dt>stored tuples</dt><dd>{bytes(counters.tuple_bytes)}</dd></div>
          <div><dt>uptime</dt><dd>{duration(counters.uptime_seconds * 1e9)}</dd></div>
        </dl>
      )}
      {answer && answer.agents.length === 0 && (
        <Empty title="No agents"><p>Queries need an agent. Start one on a host that receives the packets: <code>netalytics agent --server {location.origin} --token-file FILE</code></p></Empty>
      )}
      <ul class="agents">
        {answer?.agents.map((agent) => (
          <li class={`card agent${agent.connected ? "" : " away"}`} key={agent.name}>
            <header><h2><Text of={agent.name} /></h2> <State of={agent.connected ? "connected" : "disconnected"} /></header>
            <p class="rate"><strong>{agent.packets_per_second === null ? "–" : many(agent.packets_per_second)}</strong> <span class="muted">packets/s</span></p>
            <dl class="pairs">
              <div><dt>interfaces</dt><dd>{agent.interfaces.length === 0 ? "–" : agent.interfaces.map((name) => <code><Text of={name} /> </code>)}</dd></div>
              <div><dt>labels</dt><dd>{Object.entries(agent.labels).length === 0 ? "–" : Object.entries(agent.labels).map(([name, value]) => <span class="tag"><Text of={`${name}=${value}`} /></span>)}</dd></div>
              <div><dt>addresses</dt><dd>{agent.addresses.length === 0 ? "–" : agent.addresses.map((address) => <code><Text of={address} /> </code>)}</dd></div>
              <div><dt>capabilities</dt><dd>{agent.capabilities.map((what) => <span class="tag"><Text of={what} /></span>)}</dd></div>
              <div><dt>host</dt><dd>{agent.cores} cores, {bytes(agent.memory_bytes)}</dd></div>
              <div><dt>clock</dt><dd>{agent.clock_offset_ns === null ? "unknown" : `${Number(agent.clock_offset_ns) > 0 ? "+" : ""}${duration(Number(agent.clock_offset_ns))}`}</dd></div>
              <div><dt>version</dt><dd><Text of={agent.version} /></dd></div>
            </dl>
            <h3>Jobs</h3>
            {agent.jobs.length === 0 ? <p class="muted small">none</p> : (
              <ul class="list">{agent.jobs.map((id) => <li><a href={link("job", id)}><Text of={answer.jobs.get(id)?.name || `job ${id}`} /></a></li>)}</ul>
            )}
          </li>
        ))}
      </ul>
      {answer?.view.is_known && <Switches all={answer.view.switches} of={of} />}
      {answer?.view.jobs.map((job) => <Plan key={job.job} of={job} title={of(job.job)} />)}
      {answer && (
        <section class="card">
          <h2>Losses and refusals since the server started</h2>
          {lost.length === 0 ? <p class="muted">None.</p> : <dl class="pairs">{lost.map(([name, what]) => <div><dt>{what}</dt><dd>{many(counters?.[name] ?? 0)}</dd></div>)}</dl>}
        </section>
      )}
    </div>
  );
}
