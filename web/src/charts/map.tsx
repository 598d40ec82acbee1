// The map view: hosts in layers with their services. Red: errors; dashed: new or gone; thick: many requests. Each edge
// opens its numbers; a table has the same data.
import { useSignal } from "@preact/signals";
import type { Column, Row } from "../api/cells";
import { parsersOf } from "../results/clauses";
import { heading, number, shown, visible } from "../common/format";
import { Names, edgesOf, failing, keyOf, matches, said, together, usual, type Edge, type Grouping } from "./graph";
import { layers } from "./layers";
import type { Result } from "../results/model";
import { go, keep, param } from "../common/route";

/** Maximum edges drawn; the rest is counted. */
const EDGES_MAX = 60;
const WORST_MAX = 8;
const [BOX, HEAD, ROW, GAP, BETWEEN] = [206, 30, 26, 22, 190];
const FOLD = 160;
const NOBODY = new Names([], new Map());

/** The map of one result's rows. */
export const Map_ = ({ result, rows, query, onOpen }: { result: Result; rows: Row[]; query: string; onOpen?(row: Row, at: number): void }) => (
  <Drawn all={edgesOf(result, rows, query)} names={NOBODY} {...(onOpen ? { onOpen: (edge: Edge, at: number) => onOpen(edge.of[0]!.row, at) } : {})} />
);

interface Props {
  all: Edge[];
  names: Names;
  /** Opens a number of an edge. */
  onOpen?(edge: Edge, at: number): void;
}

/** Search and filters, and the drawing of the result. */
export function Drawn({ all, names, onOpen }: Props) {
  const find = useSignal(param("host"));
  const by = (param("by") || usual(all)) as Grouping;
  const open = param("group");
  const found = all.filter((edge) => matches(edge, names, find.value));
  const { edges, members } = together(found, names, by, open);
  const hosts = new Set(all.flatMap(({ client, server }) => [client, server])).size;
  return (
    <>
      <div class="tools map-tools">
        <label class="inline grow"><span class="hidden">Search hosts and services</span>
          <input type="search" placeholder="Search hosts and services  /" value={find.value} onInput={(event) => { find.value = event.currentTarget.value; keep({ host: find.value }); }} />
        </label>
        <label class="inline">Group hosts
          <select value={by} onChange={(event) => keep({ by: event.currentTarget.value, group: "" })}>
            <option value="host">no grouping</option>
            <option value="name">by name</option>
            <option value="24">by /24</option>
            <option value="16">by /16</option>
            {names.labels.map((label) => <option value={`label.${label}`}>by {visible(label)}</option>)}
          </select>
        </label>
        {open !== "" && <button type="button" onClick={() => keep({ group: "" })}>Close <bdi>{visible(open)}</bdi></button>}
        <span class="muted small">{hosts} hosts, {all.length} edges{find.value !== "" ? `, ${found.length} found` : ""}</span>
      </div>
      {edges.length === 0 ? <p class="muted">{find.value === "" ? "No requests." : "No matching host or service."}</p> : <Picture edges={edges} members={members} {...(onOpen ? { onOpen } : {})} />}
    </>
  );
}

function Picture({ edges: all, members, onOpen }: { edges: Edge[]; members: Map<string, Set<string>>; onOpen?: Props["onOpen"] }) {
  const chosen = useSignal(param("edge"));
  const choose = (edge: Edge) => {
    chosen.value = keyOf(edge);
    keep({ edge: chosen.value });
  };
  const edges = all.slice(0, EDGES_MAX);
  const hosts = [...new Set(edges.flatMap((edge) => [edge.client, edge.server]))];
  const services = new Map<string, string[]>(hosts.map((host) => [host, [...new Set(edges.filter((edge) => edge.server === host).map((edge) => edge.service))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }))]));
  const found = layers(hosts, edges.map(({ client, server }) => ({ from: client, to: server })));
  const heightOf = (host: string) => HEAD + (services.get(host)?.length ?? 0) * ROW;
  const heights = found.map((layer) => layer.reduce((sum, host) => sum + heightOf(host) + GAP, -GAP));
  const height = Math.max(...heights, 80) + 40;
  const width = found.length * BOX + (found.length - 1) * BETWEEN + 90;
  const place = new Map<string, { x: number; y: number; layer: number }>();
  found.forEach((layer, i) => {
    // Centered, and visible without scrolling.
    let y = Math.min((height - (heights[i] ?? 0)) / 2, FOLD);
    for (const host of layer) {
      place.set(host, { x: 45 + i * (BOX + BETWEEN), y, layer: i });
      y += heightOf(host) + GAP;
    }
  });
  const most = Math.max(...edges.map((edge) => edge.count), 1);
  const opened = all.find((edge) => keyOf(edge) === chosen.value);
  const isCompared = all.some(({ change }) => change !== null);
  const worst = isCompared
    ? all.filter(({ change }) => change && change.kind !== "same").slice(0, WORST_MAX)
    : [...all].sort((a, b) => failing(b) - failing(a) || (b.p99 ?? 0) - (a.p99 ?? 0)).slice(0, WORST_MAX);
  return (
    <div class="map">
      <div class="map-scroll" tabIndex={0} role="region" aria-label="Map">
        <svg width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="group" aria-label={`${hosts.length} hosts, ${edges.length} edges; the table shows the same data`}>
          <defs>
            <marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z" class="tip" /></marker>
          </defs>
          {edges.map((edge) => {
            const [a, b] = [place.get(edge.client), place.get(edge.server)];
            if (!a || !b) return null;
            const y1 = a.y + HEAD / 2;
            const y2 = b.y + HEAD + ((services.get(edge.server)?.indexOf(edge.service) ?? 0) + 0.5) * ROW;
            // Edges within a host, and backward edges, go around.
            const isBack = b.layer <= a.layer;
            const [x1, x2] = [a.x + BOX, isBack ? b.x + BOX : b.x];
            const bend = isBack ? 60 : Math.max(50, (x2 - x1) / 2);
            const path = `M${x1} ${y1}C${x1 + bend} ${y1} ${isBack ? x2 + bend : x2 - bend} ${y2} ${x2} ${y2}`;
            const kind = edge.change && edge.change.kind !== "same" ? edge.change.kind : failing(edge) > 0 ? "failing" : "";
            const label = edge.change && edge.change.kind !== "same" ? edge.change.kind : edge.share !== null ? `${(edge.share * 100).toFixed(0)} %` : "";
            return (
              <g class={`edge ${kind} ${keyOf(edge) === chosen.value ? "chosen" : ""}`} key={keyOf(edge)} role="button" tabindex={0} aria-label={`${visible(edge.client)} to ${visible(edge.server)}, ${visible(edge.service)}: ${label === "" ? "" : `${label}, `}${said(edge)}`}
                onClick={() => choose(edge)} onKeyDown={(event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); event.stopPropagation(); choose(edge); } }}>
                <path d={path} class="near" />
                <path d={path} class="line" stroke-width={(1 + 4 * Math.sqrt(edge.count / most)).toFixed(1)} marker-end="url(#tip)" />
                {label !== "" && !isBack && <text class="label" x={x2 - 14} y={y2 - 6} text-anchor="end">{label}</text>}
              </g>
            );
          })}
          {hosts.map((host) => {
            const at = place.get(host);
            if (!at) return null;
            const size = members.get(host)?.size ?? 1;
            const isGroup = size > 1 && !host.startsWith("clients (");
            return (
              <g class={`host${isGroup ? " group" : ""}`} key={host} transform={`translate(${at.x} ${at.y})`}
                {...(isGroup ? { role: "button", tabindex: 0, onClick: () => keep({ group: host }), onKeyDown: (event: KeyboardEvent) => event.key === "Enter" && keep({ group: host }) } : {})}>
                <rect width={BOX} height={heightOf(host)} rx="9" />
                <text x="12" y="20" class="name">{visible(host).slice(0, isGroup ? 17 : 24)}</text>
                {isGroup && <text x={BOX - 12} y="20" text-anchor="end">{size} hosts</text>}
                {services.get(host)?.map((service, i) => {
                  const into = edges.filter((edge) => edge.server === host && edge.service === service);
                  const worstOf = Math.max(...into.map((edge) => edge.p99 ?? -1));
                  return (
                    <g>
                      <line x1="0" x2={BOX} y1={HEAD + i * ROW} y2={HEAD + i * ROW} class="grid" />
                      <text x="12" y={HEAD + i * ROW + 17}>{visible(service).slice(0, 16)}</text>
                      <text x={BOX - 12} y={HEAD + i * ROW + 17} text-anchor="end" class={into.some((edge) => failing(edge) > 0) ? "bad" : ""}>{worstOf >= 0 ? number("ns", worstOf) : ""}</text>
                    </g>
                  );
                })}
              </g>
            );
          })}
        </svg>
      </div>
      <div class="beside-map">
        {opened && <One edge={opened} {...(onOpen ? { onOpen } : {})} />}
        <section>
          <h2>{isCompared ? "Changes, worst first" : "Edges, worst first"}</h2>
          {worst.length === 0 && <p class="muted small">{all.some(({ change }) => change?.word === "difference unknown") ? "Unknown: stored data does not cover both periods." : "No significant difference."}</p>}
          <ol class="list">
            {worst.map((edge) => (
              <li><button type="button" class="past" aria-pressed={keyOf(edge) === chosen.value} onClick={() => choose(edge)}>
                <code><bdi>{visible(edge.client)}</bdi> → <bdi>{visible(edge.server)}</bdi> {visible(edge.service)}</code><span class={`small block ${failing(edge) > 0 || edge.change?.kind === "worse" ? "failing-text" : "muted"}`}>{said(edge)}</span>
              </button></li>
            ))}
          </ol>
          {all.length > edges.length && <p class="muted small">{all.length - edges.length} edges with fewer requests are not drawn. Search, expand a group, or use the table to see them.</p>}
        </section>
      </div>
    </div>
  );
}

/** The numbers of an edge. */
function One({ edge, onOpen }: { edge: Edge; onOpen?: Props["onOpen"] }) {
  const first = edge.of[0];
  if (!first) return null;
  const { result, row, query } = first;
  const isTold = (column: Column, i: number) => row[i] !== null && row[i] !== undefined && !["window_start", "window_end", "approximate", "agents_missing"].includes(column.name) && !/^(baseline|difference|ratio|differs)_/.test(column.name);
  return (
    <section class="card">
      <h2><bdi>{visible(edge.client)}</bdi> → <bdi>{visible(edge.server)}</bdi></h2>
      {edge.change && <p><span class={`change ${edge.change.kind}`}>{visible(edge.change.word)}</span></p>}
      {edge.of.length === 1 ? (
        <dl class="pairs one">
          {result.columns.map((column, i) => (isTold(column, i) ? (
            <div><dt>{heading(column)}</dt><dd>{onOpen && !result.keyColumns.includes(i) ? <button type="button" class="number" onClick={() => onOpen(edge, i)}>{shown(column, row[i])}</button> : shown(column, row[i])}</dd></div>
          ) : null))}
          {edge.share !== null && <div><dt>share of caller's time</dt><dd>{(edge.share * 100).toFixed(1)} %</dd></div>}
        </dl>
      ) : <p>{edge.of.length} edges between hosts: {said(edge)}</p>}
      {edge.of.length === 1 && <button type="button" onClick={() => go("ask", "", { q: narrowed(query, String(row[result.at("client_ip")]), String(row[result.at("server_ip")]), edge.service) })}>Query this edge</button>}
    </section>
  );
}

/** The same query for one edge, by FROM and TO. */
function narrowed(query: string, client: string, server: string, service: string): string {
  const port = /^\d+/.exec(service)?.[0];
  return `PARSE ${parsersOf(query).join(", ")} FROM ${client} TO ${server.includes(":") ? `[${server}]` : server}${port ? `:${port}` : ""} PROCESS (diff-group: w=10s)`;
}

/** The map's data as a table. */
export function Twin({ all, names, onOpen }: Props & { onOpen: NonNullable<Props["onOpen"]> }) {
  const find = param("host");
  const found = all.filter((edge) => matches(edge, names, find));
  const { edges } = together(found, names, "host", "");
  // Merged clients are separate rows.
  const rows = edges.flatMap((edge) => (edge.of.length === 1 ? [edge] : found.filter((one) => edge.of.includes(one.of[0]!)).map((one) => ({ ...one, client: names.of(one.client), server: names.of(one.server) }))));
  const numberOf = (edge: Edge, name: RegExp) => edge.of[0]!.result.columns.findIndex((column) => name.test(column.name));
  const cell = (edge: Edge, name: RegExp) => {
    const at = numberOf(edge, name);
    const { result, row } = edge.of[0]!;
    return at < 0 || row[at] === null ? "–" : <button type="button" class="number" onClick={() => onOpen(edge, at)}>{shown(result.columns[at] as Column, row[at])}</button>;
  };
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Edges">
      <table class="plain wide">
        <thead><tr><th scope="col">client</th><th scope="col">service</th><th scope="col">change</th><th scope="col" class="n">requests</th><th scope="col" class="n">rate</th><th scope="col" class="n">success</th><th scope="col" class="n">p50</th><th scope="col" class="n">p99</th><th scope="col" class="n">share of caller's time</th></tr></thead>
        <tbody>
          {rows.slice(0, 1000).map((edge) => (
            <tr>
              <th scope="row"><bdi class="mono">{visible(edge.client)}</bdi></th>
              <td><bdi class="mono">{visible(edge.server)}</bdi> {visible(edge.service)}</td>
              <td>{edge.change ? <span class={`change ${edge.change.kind}`}>{visible(edge.change.word)}</span> : <span class="muted">–</span>}</td>
              {[/^count$/, /^rate$/, /^success$/, /^p50/, /^p99/].map((name) => <td class="n nowrap">{cell(edge, name)}</td>)}
              <td class="n">{edge.share === null ? "–" : `${(edge.share * 100).toFixed(1)} %`}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > 1000 && <p class="muted small">{rows.length - 1000} more edges not shown.</p>}
    </div>
  );
}
