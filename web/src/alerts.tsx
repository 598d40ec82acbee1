// Alerts: firing alerts, rules, silences, receivers, and actions.
import { useSignal } from "@preact/signals";
import { Actions } from "./actions";
import { ask, may, type Cell } from "./api";
import { ago, raw, visible } from "./format";
import { Dialog, Empty, Notice, State, Text, said, useAsked } from "./parts";
import { link } from "./route";
import { OfJob, useStanding } from "./standing";

interface Alert {
  rule: string;
  rule_id: string;
  job: string;
  reason: string;
  state: string;
  held: string | null;
  silenced_by: string[];
  labels: Record<string, string>;
  annotations: Record<string, string>;
  values: Record<string, Cell>;
  fingerprint: string;
  since_ns: string;
  fired_ns: string | null;
  resolved_ns: string | null;
}

interface Rule {
  id: string;
  name: string;
  owner: string;
  job_id: string;
  state: string;
  problem: string | null;
  pending: number;
  firing: number;
  seen_ns: string | null;
  rule: { when: string; for?: string | null; receivers: string[]; on_no_data: string };
}

interface Silence {
  id: number;
  matchers: string[];
  starts_ns: string;
  ends_ns: string;
  comment: string;
  author: string;
}

interface Receiver {
  name: string;
  to: string;
  waiting: number;
  sent: number;
  problem: string | null;
}

export default function Alerts() {
  const { answer, error, again } = useAsked(async (signal) => {
    const get = <T,>(path: string) => ask<T>("GET", path, undefined, { signal });
    const [alerts, rules, silences, receivers] = await Promise.all([
      get<{ alerts: Alert[] }>("/api/v1/alerts?limit=1000"),
      get<{ rules: Rule[] }>("/api/v1/alert-rules"),
      get<{ silences: Silence[] }>("/api/v1/silences"),
      get<{ receivers: Receiver[] }>("/api/v1/receivers").catch(() => ({ receivers: [] })),
    ]);
    return { ...alerts, ...rules, ...silences, ...receivers };
  }, [], 3000);
  const failed = useSignal("");
  const making = useSignal(false);
  const act = (promise: Promise<unknown>) => void promise.then(again, (why) => (failed.value = said(why)));
  const order = ["firing", "pending", "resolved"];
  const alerts = [...(answer?.alerts ?? [])].sort((a, b) => order.indexOf(a.state) - order.indexOf(b.state));
  return (
    <div class="page">
      <header class="head">
        <h1>Alerts</h1>
        <p class="muted">A rule is a condition on an answer's rows. It fires when it is true for as long as it says.</p>
        {may("run") && <div class="actions"><button type="button" class="primary" onClick={() => (making.value = true)}>New rule</button></div>}
      </header>
      {error !== undefined && <Notice kind="bad">{said(error)} {answer && "What is shown is older."}</Notice>}
      {failed.value !== "" && <Notice kind="bad">{failed.value}</Notice>}
      {making.value && <NewRule close={() => (making.value = false)} made={again} receivers={answer?.receivers ?? []} />}
      {answer && alerts.length === 0 && <Empty title={answer.rules.length === 0 ? "There is no rule yet" : "Nothing fires"}><p class="muted">{answer.rules.length === 0 ? "A rule watches an answer while nobody looks." : answer.rules.length === 1 ? "One rule watches." : `${answer.rules.length} rules watch.`}</p></Empty>}
      <ul class="alerts">
        {alerts.map((alert) => (
          <li class={`card alert ${alert.state}`} key={alert.fingerprint}>
            <header>
              <h2><Text of={alert.rule} /></h2> <State of={alert.state} />
              {alert.silenced_by.length > 0 && <span class="tag">silenced</span>}
              {alert.held && <span class="tag">held: <Text of={alert.held.replaceAll("_", " ")} /></span>}
            </header>
            <p>{Object.entries(alert.labels).filter(([name]) => name !== "alertname").map(([name, value]) => <span class="tag"><Text of={`${name}=${value}`} /></span>)}</p>
            {Object.values(alert.annotations).map((text) => <p><Text of={text} /></p>)}
            <p class="muted small">
              {alert.state === "resolved" && alert.resolved_ns ? `over ${ago(alert.resolved_ns)}` : alert.fired_ns ? `began to fire ${ago(alert.fired_ns)}` : `became true ${ago(alert.since_ns)}`} · <a href={link("job", alert.job)}>the answer</a>
              {may("run") && alert.state === "firing" && alert.silenced_by.length === 0 && (
                <> · <button type="button" class="quiet" onClick={() => act(ask("POST", "/api/v1/silences", { matchers: Object.entries(alert.labels).map(([name, value]) => `${name}=${value}`), for: "2h", comment: "from the page" }))}>Silence for two hours</button></>
              )}
            </p>
            {Object.keys(alert.values).length > 0 && (
              <details><summary>The row</summary><dl class="pairs">{Object.entries(alert.values).filter(([, value]) => value !== null).map(([name, value]) => <div><dt><Text of={name} /></dt><dd><Text of={raw(value)} /></dd></div>)}</dl></details>
            )}
          </li>
        ))}
      </ul>
      {answer && answer.rules.length > 0 && (
        <section>
          <h2>Rules</h2>
          <div class="scroll" tabIndex={0} role="region" aria-label="Rules">
            <table class="plain wide">
              <thead><tr><th scope="col">rule</th><th scope="col">condition</th><th scope="col">state</th><th scope="col" class="n">pending</th><th scope="col" class="n">firing</th><th scope="col">tells</th><th scope="col">answer</th><th scope="col"><span class="hidden">act</span></th></tr></thead>
              <tbody>
                {answer.rules.map((rule) => (
                  <tr key={rule.id}>
                    <th scope="row"><Text of={rule.name} /></th>
                    <td><code><Text of={rule.rule.when} /></code>{rule.rule.for && <span class="muted"> for {rule.rule.for}</span>}</td>
                    <td><State of={rule.state === "ok" && rule.firing > 0 ? "firing" : rule.state} />{rule.problem && <span class="muted small why"><Text of={rule.problem} /></span>}</td>
                    <td class="n">{rule.pending}</td>
                    <td class="n">{rule.firing}</td>
                    <td>{rule.rule.receivers.length === 0 ? <span class="muted">nobody</span> : <Text of={rule.rule.receivers.join(", ")} />}</td>
                    <td><a href={link("job", rule.job_id)}>{rule.job_id}</a></td>
                    <td>{may("run") && <button type="button" aria-label={visible(`Remove ${rule.name}`)} onClick={() => confirm(visible(`Remove the rule ${rule.name}?`)) && act(ask("DELETE", `/api/v1/alert-rules/${rule.id}`))}>Remove</button>}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </section>
      )}
      {answer && answer.silences.length > 0 && (
        <section>
          <h2>Silences</h2>
          <ul class="list">
            {answer.silences.map((silence) => (
              <li>
                {silence.matchers.map((matcher) => <span class="tag"><Text of={matcher} /></span>)} <span class="muted">until {new Date(Number(BigInt(silence.ends_ns) / 1_000_000n)).toISOString().slice(0, 16).replace("T", " ")} UTC, <Text of={silence.author} />{silence.comment && <>: <Text of={silence.comment} /></>}</span>{" "}
                {may("run") && <button type="button" class="quiet" onClick={() => act(ask("DELETE", `/api/v1/silences/${silence.id}`))}>End</button>}
              </li>
            ))}
          </ul>
        </section>
      )}
      {answer && answer.receivers.length > 0 && (
        <section>
          <h2>Who is told</h2>
          <ul class="list">{answer.receivers.map((receiver) => <li><strong><Text of={receiver.name} /></strong> <span class="muted"><Text of={receiver.to} /> · {receiver.sent} sent, {receiver.waiting} wait</span>{receiver.problem && <Notice kind="warn"><Text of={receiver.problem} /></Notice>}</li>)}</ul>
        </section>
      )}
      <Actions />
    </div>
  );
}

function NewRule({ close, made, receivers }: { close: () => void; made: () => void; receivers: Receiver[] }) {
  const jobs = useStanding();
  const failed = useSignal("");
  return (
    <Dialog title="New rule" close={close}>
      <form
        class="fields"
        onSubmit={(event) => {
          event.preventDefault();
          const form = new FormData(event.currentTarget);
          const text = (name: string) => String(form.get(name) ?? "").trim();
          const body = { name: text("name"), job: text("job"), when: text("when"), for: text("for") || null, receivers: form.getAll("receiver").map(String), annotations: text("says") ? { summary: text("says") } : {} };
          ask("POST", "/api/v1/alert-rules", body).then(() => { made(); close(); }, (why) => (failed.value = said(why)));
        }}
      >
        <label>Name <input name="name" required maxLength={200} placeholder="slow pages" /></label>
        <OfJob label="Of the rows of" what="A rule" jobs={jobs} />
        <label>When <input name="when" required class="mono" placeholder="p99 > 50ms WHERE url_template != '/'" /></label>
        <label>For <input name="for" class="mono" placeholder="at once; or 1m" /></label>
        <label>Says <input name="says" placeholder="{url_template} takes {p99}" /></label>
        {receivers.length > 0 && <fieldset><legend>Tells</legend>{receivers.map((receiver) => <label class="check"><input type="checkbox" name="receiver" value={receiver.name} /> <Text of={receiver.name} /></label>)}</fieldset>}
        {failed.value !== "" && <Notice kind="bad">{failed.value}</Notice>}
        <button class="primary" disabled={!jobs?.length}>Watch</button>
      </form>
    </Dialog>
  );
}
