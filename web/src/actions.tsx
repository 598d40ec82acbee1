// Actions: number of replicas per group, decisions, and their state.
import { useSignal } from "@preact/signals";
import { ask, may } from "./api";
import { ago, plain, visible } from "./format";
import { Dialog, Empty, Notice, State, Text, said, useAsked } from "./parts";
import { link } from "./route";
import { OfJob, useStanding } from "./standing";

interface Action {
  id: string;
  name: string;
  job_id: string;
  state: string;
  problem: string | null;
  servers: string[];
  groups: { group: string; replicas: number; value: number }[];
  groups_left_out: number;
  action: { value: string; upper: number; lower: number | null; servers: string[]; to: string[] };
}

interface Decision {
  version: number;
  direction: "begin" | "up" | "down";
  decided_ns: string;
  done_ns: string | null;
  servers: string[];
  changes: { group: string; from: number; to: number; value: number }[];
}

export function Actions() {
  const { answer, error, again } = useAsked((signal) => ask<{ actions: Action[] }>("GET", "/api/v1/actions", undefined, { signal }), [], 3000);
  const failed = useSignal("");
  const making = useSignal(false);
  const looked = useSignal<Action | null>(null);
  const remove = (action: Action) => void ask("DELETE", `/api/v1/actions/${action.id}`).then(again, (why) => (failed.value = said(why)));
  return (
    <section>
      <header class="head">
        <h2>Actions</h2>
        <p class="muted">An action decides by an answer's rows how many replicas each group is to have, and has that carried out.</p>
        {may("run") && <div class="actions"><button type="button" onClick={() => (making.value = true)}>New action</button></div>}
      </header>
      {error !== undefined && <Notice kind="bad">{said(error)}</Notice>}
      {failed.value !== "" && <Notice kind="bad">{failed.value}</Notice>}
      {making.value && <NewAction close={() => (making.value = false)} made={again} />}
      {looked.value && <Decisions of={looked.value} close={() => (looked.value = null)} />}
      {answer && answer.actions.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Actions">
          <table class="plain wide">
            <thead><tr><th scope="col">action</th><th scope="col">answer</th><th scope="col">load of a replica</th><th scope="col">state</th><th scope="col">servers used</th><th scope="col">replicas</th><th scope="col">tells</th><th scope="col"><span class="hidden">act</span></th></tr></thead>
            <tbody>
              {answer.actions.map((action) => (
                <tr key={action.id}>
                  <th scope="row"><Text of={action.name} /></th>
                  <td><a href={link("job", action.job_id)}>{action.job_id}</a></td>
                  <td><code><Text of={action.action.value} /></code> {plain(action.action.lower ?? action.action.upper / 4)} to {plain(action.action.upper)}</td>
                  <td><State of={action.state} />{action.problem && <span class="muted small why"><Text of={action.problem} /></span>}</td>
                  <td><Text of={action.servers.join(", ")} /> <span class="muted">of {action.action.servers.length}</span></td>
                  <td><Replicas of={action} /></td>
                  <td><Text of={action.action.to.join(", ")} /></td>
                  <td class="nowrap">
                    <button type="button" aria-label={visible(`Decisions of ${action.name}`)} onClick={() => (looked.value = action)}>Decisions</button>{" "}
                    {may("run") && <button type="button" aria-label={visible(`Remove ${action.name}`)} onClick={() => confirm(visible(`Remove the action ${action.name}? What stands by it stays.`)) && remove(action)}>Remove</button>}
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
function Replicas({ of }: { of: Action }) {
  const most = [...of.groups].sort((a, b) => b.replicas - a.replicas || b.value - a.value);
  return (
    <>
      {most.slice(0, 3).map(({ group, replicas }) => <span class="tag"><Text of={group} /> × {replicas}</span>)}
      {most.length > 3 && <span class="muted"> and {most.length - 3} more</span>}
      {most.length === 0 && <span class="muted">none has more than without load</span>}
      {of.groups_left_out > 0 && <span class="muted small why">{of.groups_left_out} groups are not followed: there are too many</span>}
    </>
  );
}

function Decisions({ of, close }: { of: Action; close: () => void }) {
  const { answer, error } = useAsked((signal) => ask<{ decisions: Decision[] }>("GET", `/api/v1/actions/${of.id}/decisions?limit=50`, undefined, { signal }), [], 3000);
  const words = { begin: "as without load", up: "more", down: "fewer" };
  return (
    <Dialog title={`Decisions of ${of.name}`} close={close}>
      {error !== undefined && <Notice kind="bad">{said(error)}</Notice>}
      {answer && answer.decisions.length === 0 && <Empty title="Nothing is decided yet" />}
      <ol class="list" reversed>
        {answer?.decisions.map((one) => (
          <li key={one.version} value={one.version}>
            <strong>{words[one.direction]}</strong> <span class="muted">{ago(one.decided_ns)}{one.done_ns === null && ", not carried out yet"}, on <Text of={one.servers.join(", ")} /></span>{" "}
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
          const body = { name: text("name"), job: text("job"), upper: Number(text("upper")), lower, servers: words("servers"), to: words("to"), ...given };
          ask("POST", "/api/v1/actions", body).then(() => { made(); close(); }, (why) => (failed.value = said(why)));
        }}
      >
        <label>Name <input name="name" required maxLength={200} placeholder="hot" /></label>
        <OfJob label="By the rows of" what="An action" jobs={jobs} />
        <label>Load <input name="value" class="mono" placeholder="count" /></label>
        <label>One replica more above <input name="upper" type="number" min="0" step="any" required placeholder="500" /></label>
        <label>One less below <input name="lower" type="number" min="0" step="any" placeholder="a quarter of that" /></label>
        <label>Servers <input name="servers" required class="mono" placeholder="web1 web2 web3" /></label>
        <label>Tells <input name="to" required class="mono" placeholder="content proxy" /></label>
        <label>After a decision none for <input name="backoff" class="mono" placeholder="10s" /></label>
        {failed.value !== "" && <Notice kind="bad">{failed.value}</Notice>}
        <button class="primary" disabled={!jobs?.length}>Begin</button>
      </form>
    </Dialog>
  );
}
