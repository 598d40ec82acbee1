// Actions: number of replicas per group, decisions, and their state.
import { useSignal } from "@preact/signals";
import { ask, may } from "../api/client";
import type { ActionList, ActionRequest, ActionShown, DecisionList } from "../api/schema";
import { ago, plain, visible } from "../common/format";
import { Dialog, Empty, Notice, State, Text, said, useAsked } from "../common/components";
import { link } from "../common/route";
import { OfJob, useStanding } from "../jobs/standing_jobs";

export function Actions() {
  const { answer, error, again } = useAsked((signal) => ask<ActionList>("GET", "/api/v1/actions", undefined, { signal }), [], 3000);
  const failed = useSignal("");
  const making = useSignal(false);
  const looked = useSignal<ActionShown | null>(null);
  const remove = (action: ActionShown) => void ask("DELETE", `/api/v1/actions/${action.id}`).then(again, (why) => (failed.value = said(why)));
  return (
    <section>
      <header class="head">
        <h2>Actions</h2>
        <p class="muted">An action sets the number of replicas per group from a job's rows.</p>
        {may("run") && <div class="actions"><button type="button" onClick={() => (making.value = true)}>New action</button></div>}
      </header>
      {error !== undefined && <Notice kind="bad">{said(error)}</Notice>}
      {failed.value !== "" && <Notice kind="bad">{failed.value}</Notice>}
      {making.value && <NewAction close={() => (making.value = false)} made={again} />}
      {looked.value && <Decisions of={looked.value} close={() => (looked.value = null)} />}
      {answer && answer.actions.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Actions">
          <table class="plain wide">
            <thead><tr><th scope="col">action</th><th scope="col">job</th><th scope="col">load per replica</th><th scope="col">state</th><th scope="col">servers in use</th><th scope="col">replicas</th><th scope="col">outlets</th><th scope="col"><span class="hidden">actions</span></th></tr></thead>
            <tbody>
              {answer.actions.map((action) => (
                <tr key={action.id}>
                  <th scope="row"><Text of={action.name} /></th>
                  <td><a href={link("job", action.job_id)}>{action.job_id}</a></td>
                  <td><code><Text of={action.action.value ?? "count"} /></code> {plain(action.action.lower ?? action.action.upper / 4)} to {plain(action.action.upper)}</td>
                  <td><State of={action.state} />{action.problem && <span class="muted small why"><Text of={action.problem} /></span>}</td>
                  <td><Text of={action.servers.join(", ")} /> <span class="muted">of {action.action.servers.length}</span></td>
                  <td><Replicas of={action} /></td>
                  <td><Text of={action.action.to.join(", ")} /></td>
                  <td class="nowrap">
                    <button type="button" aria-label={visible(`Decisions of ${action.name}`)} onClick={() => (looked.value = action)}>Decisions</button>{" "}
                    {may("run") && <button type="button" aria-label={visible(`Remove ${action.name}`)} onClick={() => confirm(visible(`Remove the action ${action.name}? The current replicas stay.`)) && remove(action)}>Remove</button>}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

/** The groups with most replicas, and the number of others. */
function Replicas({ of }: { of: ActionShown }) {
  const most = [...of.groups].sort((a, b) => b.replicas - a.replicas || b.value - a.value);
  return (
    <>
      {most.slice(0, 3).map(({ group, replicas }) => <span class="tag"><Text of={group} /> × {replicas}</span>)}
      {most.length > 3 && <span class="muted"> and {most.length - 3} more</span>}
      {most.length === 0 && <span class="muted">none above the minimum</span>}
      {of.groups_left_out > 0 && <span class="muted small why">{of.groups_left_out} groups not tracked: limit reached</span>}
    </>
  );
}

function Decisions({ of, close }: { of: ActionShown; close: () => void }) {
  const { answer, error } = useAsked((signal) => ask<DecisionList>("GET", `/api/v1/actions/${of.id}/decisions?limit=50`, undefined, { signal }), [], 3000);
  const words = { begin: "initial", up: "scale up", down: "scale down" };
  return (
    <Dialog title={`Decisions of ${of.name}`} close={close}>
      {error !== undefined && <Notice kind="bad">{said(error)}</Notice>}
      {answer && answer.decisions.length === 0 && <Empty title="No decisions yet" />}
      <ol class="list" reversed>
        {answer?.decisions.map((one) => (
          <li key={one.version} value={one.version}>
            <strong>{words[one.direction]}</strong> <span class="muted">{ago(one.decided_ns)}{one.done_ns === null && ", not completed"}, on <Text of={one.servers.join(", ")} /></span>{" "}
            {one.changes.map(({ group, from, to, value }) => <span class="tag"><Text of={group} /> {from} → {to} at {plain(value)}</span>)}
          </li>
        ))}
      </ol>
    </Dialog>
  );
}

function NewAction({ close, made }: { close: () => void; made: () => void }) {
  const jobs = useStanding();
  const failed = useSignal("");
  return (
    <Dialog title="New action" close={close}>
      <form
        class="fields"
        onSubmit={(event) => {
          event.preventDefault();
          const form = new FormData(event.currentTarget);
          const text = (name: string) => String(form.get(name) ?? "").trim();
          const words = (name: string) => text(name).split(/[\s,]+/).filter((word) => word !== "");
          const given = Object.fromEntries(["value", "backoff"].filter((name) => text(name) !== "").map((name) => [name, text(name)]));
          const lower = text("lower") === "" ? null : Number(text("lower"));
          const body: ActionRequest = { name: text("name"), job: text("job"), upper: Number(text("upper")), lower, servers: words("servers"), to: words("to"), ...given };
          ask("POST", "/api/v1/actions", body).then(() => { made(); close(); }, (why) => (failed.value = said(why)));
        }}
      >
        <label>Name <input name="name" required maxLength={200} placeholder="hot" /></label>
        <OfJob jobs={jobs} />
        <label>Load column <input name="value" class="mono" placeholder="count" /></label>
        <label>Add a replica above <input name="upper" type="number" min="0" step="any" required placeholder="500" /></label>
        <label>Remove a replica below <input name="lower" type="number" min="0" step="any" placeholder="default: a quarter of that" /></label>
        <label>Servers <input name="servers" required class="mono" placeholder="web1 web2 web3" /></label>
        <label>Outlets <input name="to" required class="mono" placeholder="content proxy" /></label>
        <label>Minimum time between decisions <input name="backoff" class="mono" placeholder="10s" /></label>
        {failed.value !== "" && <Notice kind="bad">{failed.value}</Notice>}
        <button class="primary" disabled={!jobs?.length}>Create action</button>
      </form>
    </Dialog>
  );
}
