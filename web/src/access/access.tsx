// Tokens, the audit log, and the API's permissions.
import { useSignal } from "@preact/signals";
import { ask, may, me } from "../api/client";
import type { Audit, NewToken, Role, TokenRequest, Tokens } from "../api/schema";
import { ago, time, visible } from "../common/format";
import { Copy, Notice, Text, said, useAsked } from "../common/components";

/** The parts of the API description that the page shows. */
type Api = { paths: Record<string, Record<string, { summary?: string; description?: string; tags?: string[] }>> };

const ROLES: [Role, string][] = [
  ["view", "read results and agents"],
  ["run", "view, start jobs, stop own jobs"],
  ["raw", "run, read tuples and unredacted texts"],
  ["admin", "everything"],
  ["agent", "connect as the agent of this name"],
];

export default function Access() {
  const isAdmin = may("admin");
  const { answer, error, again } = useAsked(async (signal) => {
    const [tokens, audit] = isAdmin
      ? await Promise.all([ask<Tokens>("GET", "/api/v1/tokens", undefined, { signal }), ask<Audit>("GET", "/api/v1/audit?limit=50", undefined, { signal })])
      : [{ tokens: [] }, { entries: [] }];
    return { ...tokens, ...audit };
  }, [isAdmin], 5000);
  const { answer: api } = useAsked((signal) => ask<Api>("GET", "/api/v1/openapi.json", undefined, { signal }), []);
  const secret = useSignal<NewToken | null>(null);
  const failed = useSignal("");
  const calls = Object.entries(api?.paths ?? {}).flatMap(([path, methods]) => Object.entries(methods).map(([method, what]) => ({ path, method: method.toUpperCase(), what: what.summary || what.description || "", tag: what.tags?.[0] ?? "" })));
  const tags = [...new Set(calls.map((call) => call.tag))];
  return (
    <div class="page">
      <header class="head"><h1>Access</h1><p class="muted">Logged in as <strong><Text of={me.value?.name ?? ""} /></strong>, role {me.value?.role}.</p></header>
      {error !== undefined && <Notice kind="bad">{said(error)}</Notice>}
      {failed.value !== "" && <Notice kind="bad">{failed.value}</Notice>}
      {!isAdmin && <Notice>Tokens and the audit log need the role admin.</Notice>}
      {secret.value && (
        <Notice kind="warn">
          Token of <Text of={secret.value.name} />, shown only once: <code class="secret">{secret.value.secret}</code> <Copy text={() => secret.value?.secret ?? ""}>Copy</Copy>{" "}
          <button type="button" onClick={() => (secret.value = null)}>Dismiss</button>
        </Notice>
      )}
      {isAdmin && (
        <section>
          <h2>Tokens</h2>
          <div class="scroll" tabIndex={0} role="region" aria-label="Tokens">
            <table class="plain wide">
              <thead><tr><th scope="col">name</th><th scope="col">role</th><th scope="col">networks</th><th scope="col">created</th><th scope="col">expires</th><th scope="col"><span class="hidden">actions</span></th></tr></thead>
              <tbody>
                {answer?.tokens.map((token) => (
                  <tr key={token.id}>
                    <th scope="row"><Text of={token.name} /></th>
                    <td>{token.role}</td>
                    <td>{token.networks.length === 0 ? <span class="muted">all</span> : token.networks.join(", ")}</td>
                    <td class="muted">{ago(token.created_ns)}</td>
                    <td>{token.expires_ns ? `${time(token.expires_ns).slice(0, 16)} UTC` : <span class="muted">never</span>}</td>
                    <td>{token.name !== me.value?.name && <button type="button" aria-label={visible(`Revoke ${token.name}`)} onClick={() => confirm(visible(`Revoke the token ${token.name}? Its sessions and streams end immediately.`)) && void ask("DELETE", `/api/v1/tokens/${token.id}`).then(again, (why) => (failed.value = said(why)))}>Revoke</button>}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          <form
            class="line-form"
            onSubmit={(event) => {
              event.preventDefault();
              const at = event.currentTarget;
              const form = new FormData(at);
              const days = Number(form.get("days"));
              const body: TokenRequest = { name: String(form.get("name")).trim(), role: form.get("role") as Role, networks: String(form.get("networks") ?? "").split(/[\s,]+/).filter(Boolean), expires_in_seconds: days > 0 ? Math.round(days * 86_400) : null };
              failed.value = "";
              ask<NewToken>("POST", "/api/v1/tokens", body).then((made) => { secret.value = made; at.reset(); again(); }, (why) => (failed.value = said(why)));
            }}
          >
            <label>Name <input name="name" required pattern="[A-Za-z0-9_.\-]{1,64}" title="letters, digits, - _ ." /></label>
            <label>Role <select name="role">{ROLES.map(([role, what]) => <option value={role}>{role}: {what}</option>)}</select></label>
            <label>Networks <input name="networks" placeholder="all or 10.1.0.0/16" /></label>
            <label>Valid for days <input name="days" type="number" min="0" step="any" placeholder="unlimited" /></label>
            <button class="primary">Create token</button>
          </form>
        </section>
      )}
      {isAdmin && answer && (
        <section>
          <h2>Audit log</h2>
          <div class="scroll" tabIndex={0} role="region" aria-label="Audit log">
            <table class="plain wide">
              <thead><tr><th scope="col">time (UTC)</th><th scope="col">token</th><th scope="col">operation</th><th scope="col">object</th><th scope="col">outcome</th></tr></thead>
              <tbody>{answer.entries.map((entry) => <tr key={entry.id}><td class="muted nowrap">{time(entry.at_ns).slice(0, 19)}</td><td><Text of={entry.who} /></td><td><code>{entry.act}</code></td><td><Text of={entry.object} /></td><td><Text of={entry.outcome} /></td></tr>)}</tbody>
            </table>
          </div>
        </section>
      )}
      <section>
        <h2>API</h2>
        <p class="muted">Operations for programs, as used by this page: <a href="/api/v1/openapi.json">description</a> (OpenAPI 3.1). Send a token in the header <code>Authorization: Bearer …</code>. <a href="/LICENSES.txt">Licenses</a> of the libraries in this page.</p>
        {tags.map((tag) => (
          <details>
            <summary>{tag || "other"} <span class="muted">{calls.filter((call) => call.tag === tag).length}</span></summary>
            <dl class="api">{calls.filter((call) => call.tag === tag).map((call) => <div><dt><code><b>{call.method}</b> {call.path}</code></dt><dd>{call.what}</dd></div>)}</dl>
          </details>
        ))}
      </section>
    </div>
  );
}
