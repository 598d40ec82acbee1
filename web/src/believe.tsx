// Quality of an answer: packets by outcome, certainty of tuples, and counters of each agent.
import { ask } from "./api";
import { bytes, duration, many, millis, percentage, time, visible } from "./format";
import type { Account } from "./model";
import { State, Text, useAsked } from "./parts";

interface AgentAccount {
  agent: string;
  state: string;
  reason: string | null;
  counters: Record<string, number>;
  records_lost: number;
  tuples_lost: number;
}

/** The packet counters of an answer. */
export function Believe({ account, job, isEnded }: { account: Account | null; job: string; isEnded: boolean }) {
  const { answer } = useAsked((signal) => ask<{ agents: AgentAccount[] }>("GET", `/api/v1/jobs/${encodeURIComponent(job)}/agents`, undefined, { signal }), [job, isEnded], isEnded ? 0 : 3000);
  const agents = answer?.agents ?? [];
  if (!account) return <div class="card"><p class="muted">No agent has told yet what it has seen.</p></div>;
  const parts: [string, number, string][] = [
    ["given to parsers", account.parsed, "var(--accent)"],
    ["not asked for", account.filtered, "var(--faint)"],
    ["not of the sample", account.sampled_out, "#cc79a7"],
    ["dropped", account.dropped, "var(--bad)"],
    ["unreadable", account.undecodable, "#b08900"],
  ];
  const sum = parts.reduce((all, [, n]) => all + n, 0);
  const tuples = Object.entries(account.quality).sort(([, a], [, b]) => b - a);
  const all = tuples.reduce((n, [, more]) => n + more, 0);
  return (
    <section class="card believe" aria-label="Account">
      <h2>Account of packets</h2>
      <p class="muted small">
        {many(account.received)} received{sum === 0 ? "" : sum === account.received ? ", which is the sum of what became of them" : ", and what became of some is not told yet"}; {account.lost_before_us > 0 ? `${many(account.lost_before_us)} were lost before us` : "none were lost before us"}.
        {account.records_lost > 0 && ` ${many(account.records_lost)} records of agents never came${account.tuples_lost > 0 ? `, with ${many(account.tuples_lost)} tuples` : ""}.`}
        {sum === 0 && account.received > 0 && " What became of each is counted at the agents."}
      </p>
      {sum > 0 && (
        <>
          <div class="stack" aria-hidden="true">{parts.map(([, n, colour]) => n > 0 && <span style={{ flexGrow: String(n), background: colour }} />)}</div>
          <dl class="pairs">
            {parts.map(([what, n, colour]) => <div><dt><span class="dot" aria-hidden="true" style={{ background: colour }} /> {what}</dt><dd>{many(n)}</dd></div>)}
          </dl>
        </>
      )}
      {all > 0 && (
        <>
          <h2>How sure each tuple is</h2>
          <dl class="pairs">{tuples.map(([what, n]) => <div><dt>{visible(what).replaceAll("_", " ")}</dt><dd>{percentage(n / all)}</dd></div>)}</dl>
        </>
      )}
      {agents.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Agents">
          <table class="plain">
            <caption>Agents</caption>
            <thead><tr><th scope="col">agent</th><th scope="col">state</th><th scope="col" class="n">packets</th><th scope="col" class="n">bytes</th><th scope="col" class="n">tuples</th><th scope="col" class="n">lost</th><th scope="col">why</th></tr></thead>
            <tbody>
              {agents.map((one) => (
                <tr>
                  <th scope="row"><Text of={one.agent} /></th>
                  <td><State of={one.state} /></td>
                  <td class="n">{many(one.counters["packets"] ?? 0)}</td>
                  <td class="n">{bytes(one.counters["bytes"] ?? 0)}</td>
                  <td class="n">{many(one.counters["tuples"] ?? 0)}</td>
                  <td class="n">{many((one.counters["lost"] ?? 0) + one.records_lost)}</td>
                  <td><Text of={one.reason ?? ""} /></td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {account.watermark_ns && <p class="muted small">The packets' clock stands at {time(account.watermark_ns)} UTC, {duration(Math.max(0, Date.now() - millis(account.watermark_ns)) * 1e6)} behind this browser's.</p>}
    </section>
  );
}
