// Alerts: firing alerts, rules, silences, receivers, and actions.
import { useSignal } from "@preact/signals";
import { Actions } from "./actions";
import { ask, may } from "../api/client";
import type { Cell } from "../api/cells";
import type { AlertList, ReceiverList, ReceiverState, RuleList, RuleRequest, SilenceList, SilenceRequest } from "../api/schema";
import { ago, raw, visible } from "../common/format";
import { Dialog, Empty, Notice, State, Text, said, useAsked } from "../common/components";
import { link } from "../common/route";
import { OfJob, useStanding } from "../jobs/standing_jobs";

export default function Alerts() {
  const { answer, error, again } = useAsked(async (signal) => {
    const get = <T,>(path: string) => ask<T>("GET", path, undefined, { signal });
    const [alerts, rules, silences, receivers] = await Promise.all([
      get<AlertList>("/api/v1/alerts?limit=1000"),
      get<RuleList>("/api/v1/alert-rules"),
      get<SilenceList>("/api/v1/silences"),
      get<ReceiverList>("/api/v1/receivers").catch((): ReceiverList => ({ receivers: [] })),
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
        <p class="muted">A rule evaluates a condition on a job's rows and fires when a group meets it for the given duration.</p>
        {may("run") && <div class="actions"><button type="button" class="primary" onClick={() => (making.value = true)}>New rule</button></div>}
      </header>
      {error !== undefined && <Notice kind="bad">{said(error)} {answer && "The data shown is outdated."}</Notice>}
      {failed.value !== "" && <Notice kind="bad">{failed.value}</Notice>}
      {making.value && <NewRule close={() => (making.value = false)} made={again} receivers={answer?.receivers ?? []} />}
      {answer && alerts.length === 0 && <Empty title={answer.rules.length === 0 ? "No rules" : "No alerts"}><p class="muted">{answer.rules.length === 0 ? "Create a rule to be notified when a job's rows meet a condition." : answer.rules.length === 1 ? "1 active rule." : `${answer.rules.length} active rules.`}</p></Empty>}
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
              {alert.state === "resolved" && alert.resolved_ns ? `resolved ${ago(alert.resolved_ns)}` : alert.fired_ns ? `fired ${ago(alert.fired_ns)}` : `condition met ${ago(alert.since_ns)}`} · <a href={link("job", alert.job)}>job</a>
              {may("run") && alert.state === "firing" && alert.silenced_by.length === 0 && (
                <> · <button type="button" class="quiet" onClick={() => act(ask("POST", "/api/v1/silences", { matchers: Object.entries(alert.labels).map(([name, value]) => `${name}=${value}`), for: "2h", comment: "created on the web page" } satisfies SilenceRequest))}>Silence for 2 hours</button></>
              )}
            </p>
            {Object.keys(alert.values).length > 0 && (
              <details><summary>Row</summary><dl class="pairs">{Object.entries(alert.values).filter(([, value]) => value !== null).map(([name, value]) => <div><dt><Text of={name} /></dt><dd><Text of={raw(value as Cell)} /></dd></div>)}</dl></details>
            )}
          </li>
        ))}
      </ul>
      {answer && answer.rules.length > 0 && (
        <section>
          <h2>Rules</h2>
          <div class="scroll" tabIndex={0} role="region" aria-label="Rules">
            <table class="plain wide">
              <thead><tr><th scope="col">rule</th><th scope="col">condition</th><th scope="col">state</th><th scope="col" class="n">pending</th><th scope="col" class="n">firing</th><th scope="col">receivers</th><th scope="col">job</th><th scope="col"><span class="hidden">actions</span></th></tr></thead>
              <tbody>
                {answer.rules.map((rule) => (
                  <tr key={rule.id}>
                    <th scope="row"><Text of={rule.name} /></th>
                    <td><code><Text of={rule.rule.when} /></code>{rule.rule.for && <span class="muted"> for {rule.rule.for}</span>}</td>
                    <td><State of={rule.state === "ok" && rule.firing > 0 ? "firing" : rule.state} />{rule.problem && <span class="muted small why"><Text of={rule.problem} /></span>}</td>
                    <td class="n">{rule.pending}</td>
                    <td class="n">{rule.firing}</td>
                    <td>{!rule.rule.receivers?.length ? <span class="muted">none</span> : <Text of={rule.rule.receivers.join(", ")} />}</td>
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
          <h2>Receivers</h2>
          <ul class="list">{answer.receivers.map((receiver) => <li><strong><Text of={receiver.name} /></strong> <span class="muted"><Text of={receiver.to} /> · {receiver.sent} sent, {receiver.waiting} queued</span>{receiver.problem && <Notice kind="warn"><Text of={receiver.problem} /></Notice>}</li>)}</ul>
        </section>
      )}
      <Actions />
    </div>
  );
}

function NewRule({ close, made, receivers }: { close: () => void; made: () => void; receivers: ReceiverState[] }) {
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
          const body: RuleRequest = { name: text("name"), job: text("job"), when: text("when"), for: text("for") || null, receivers: form.getAll("receiver").map(String), annotations: text("summary") ? { summary: text("summary") } : {} };
          ask("POST", "/api/v1/alert-rules", body).then(() => { made(); close(); }, (why) => (failed.value = said(why)));
        }}
      >
        <label>Name <input name="name" required maxLength={200} placeholder="slow pages" /></label>
        <OfJob jobs={jobs} />
        <label>Condition <input name="when" required class="mono" placeholder="p99_total_time > 50ms WHERE url_template != '/'" /></label>
        <label>Duration <input name="for" class="mono" placeholder="0s; for example 1m" /></label>
        <label>Summary <input name="summary" placeholder="{url_template}: p99 total {p99_total_time}, first byte {p99}" /></label>
        {receivers.length > 0 && <fieldset><legend>Receivers</legend>{receivers.map((receiver) => <label class="check"><input type="checkbox" name="receiver" value={receiver.name} /> <Text of={receiver.name} /></label>)}</fieldset>}
        {failed.value !== "" && <Notice kind="bad">{failed.value}</Notice>}
        <button class="primary" disabled={!jobs?.length}>Create rule</button>
      </form>
    </Dialog>
  );
}
