// Data quality of a result: packets by outcome, certainty of tuples, and counters of each agent.
import { ask } from "../api/client";
import type { AccountEvent, AgentAccounts } from "../api/schema";
import { bytes, duration, many, millis, percentage, time, visible } from "../common/format";
import { State, Text, useAsked } from "../common/components";

/** The packet counters of a job. */
export function Quality({ account, job, isEnded }: { account: AccountEvent | null; job: string; isEnded: boolean }) {
  const { answer } = useAsked((signal) => ask<AgentAccounts>("GET", `/api/v1/jobs/${encodeURIComponent(job)}/agents`, undefined, { signal }), [job, isEnded], isEnded ? 0 : 3000);
  const agents = answer?.agents ?? [];
  const exporters = agents.flatMap((one) => (one.exporters ?? []).map((exporter) => ({ ...exporter, agent: one.agent })));
  const exports = agents.flatMap((one) => Object.entries(one.counters).filter(([name]) => name.startsWith("exports.")).map(([name, n]) => ({ agent: one.agent, name: name.slice("exports.".length), n })));
  if (!account) return <div class="card"><p class="muted">No counters from agents yet.</p></div>;
  const parts: [string, number, string][] = [
    ["parsed", account.parsed, "var(--accent)"],
    ["filtered", account.filtered, "var(--faint)"],
    ["sampled out", account.sampled_out, "#cc79a7"],
    ["dropped", account.dropped, "var(--bad)"],
    ["undecodable", account.undecodable, "#b08900"],
  ];
  const sum = parts.reduce((all, [, n]) => all + n, 0);
  const tuples = Object.entries(account.quality).sort(([, a], [, b]) => b - a);
  const all = tuples.reduce((n, [, more]) => n + more, 0);
  return (
    <section class="card believe" aria-label="Packet counters">
      <h2>Packet counters</h2>
      <p class="muted small">
        {many(account.received)} received{sum === 0 ? "" : sum === account.received ? ", all accounted for" : `, ${many(Math.abs(account.received - sum))} not accounted for yet`}; {many(account.lost_before_us)} lost before capture.
        {account.records_lost > 0 && ` ${many(account.records_lost)} records lost at agents${account.tuples_lost > 0 ? `, with ${many(account.tuples_lost)} tuples` : ""}.`}
        {sum === 0 && account.received > 0 && " Outcomes are counted on the agents only."}
      </p>
      {sum > 0 && (
        <>
          <div class="stack" aria-hidden="true">{parts.map(([, n, color]) => n > 0 && <span style={{ flexGrow: String(n), background: color }} />)}</div>
          <dl class="pairs">
            {parts.map(([what, n, color]) => <div><dt><span class="dot" aria-hidden="true" style={{ background: color }} /> {what}</dt><dd>{many(n)}</dd></div>)}
          </dl>
        </>
      )}
      {all > 0 && (
        <>
          <h2>Tuple quality</h2>
          <dl class="pairs">{tuples.map(([what, n]) => <div><dt>{visible(what).replaceAll("_", " ")}</dt><dd>{percentage(n / all)}</dd></div>)}</dl>
        </>
      )}
      {agents.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Agents">
          <table class="plain">
            <caption>Agents</caption>
            <thead><tr><th scope="col">agent</th><th scope="col">state</th><th scope="col" class="n">packets</th><th scope="col" class="n">bytes</th><th scope="col" class="n">tuples</th><th scope="col" class="n">lost</th><th scope="col">reason</th></tr></thead>
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
      {exports.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Export messages">
          <table class="plain">
            <caption>Export messages</caption>
            <thead><tr><th scope="col">agent</th><th scope="col">counter</th><th scope="col" class="n">count</th></tr></thead>
            <tbody>{exports.map((one) => <tr><th scope="row"><Text of={one.agent} /></th><td><Text of={one.name.replaceAll("_", " ")} /></td><td class="n">{many(one.n)}</td></tr>)}</tbody>
          </table>
        </div>
      )}
      {exporters.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Exporters">
          <table class="plain">
            <caption>Exporters with the largest losses</caption>
            <thead><tr><th scope="col">exporter</th><th scope="col">domain</th><th scope="col">protocol</th><th scope="col" class="n">received</th><th scope="col" class="n">lost</th><th scope="col" class="n">restarts</th><th scope="col" class="n">clock off by</th><th scope="col">agent</th></tr></thead>
            <tbody>
              {exporters.map((one) => (
                <tr>
                  <th scope="row"><Text of={one.exporter} /></th>
                  <td>{one.domain}</td>
                  <td><Text of={one.protocol} /></td>
                  <td class="n">{many(one.received)}</td>
                  <td class="n">{many(one.lost)}</td>
                  <td class="n">{many(one.restarts)}</td>
                  <td class="n">{one.clock_offset_ns === null ? "" : duration(Number(one.clock_offset_ns))}</td>
                  <td><Text of={one.agent} /></td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {account.watermark_ns && <p class="muted small">Watermark: {time(account.watermark_ns)} UTC, {duration(Math.max(0, Date.now() - millis(account.watermark_ns)) * 1e6)} behind this browser's clock.</p>}
    </section>
  );
}
