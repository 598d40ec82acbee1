// Who asks whom: rows that name a client and a server, as hosts in layers with the services that they offer. What fails is red, what
// carries much is thick; every edge opens its numbers, and the table has the same rows.
import { useSignal } from "@preact/signals";
import type { Column, Row } from "./api";
import { many, number, numeric, percentage, shown, visible } from "./format";
import { layers } from "./layers";
import type { Result } from "./model";
import { go } from "./route";
import { heading } from "./table";

/** Edges that are drawn; the others are counted. */
const EDGES_MAX = 60;
/** Hosts that only ask, and are shown one by one; more are folded. */
const CLIENTS_MAX = 12;
const [BOX, HEAD, ROW, GAP, BETWEEN] = [190, 30, 26, 22, 190];
const CLIENTS = "clients";

interface Drawn {
  client: string;
  server: string;
  service: string;
  count: number;
  /** Of a second, where the result says it. */
  rate: number | null;
  failing: number;
  p99: number | null;
  rows: Row[];
}

function edgesOf(result: Result, rows: Row[]): Drawn[] {
  const at = (name: string) => result.at(name);
  const [client, server, port] = [at("client_ip"), at("server_ip"), at("server_port")];
  const slow = result.columns.findIndex((column) => /^p99/.test(column.name));
  const time = slow >= 0 ? slow : result.columns.findIndex((column) => column.unit === "ns" && !column.name.startsWith("time"));
  const servers = new Set(rows.map((row) => String(row[server])));
  const onlyAsk = new Set(rows.map((row) => String(row[client])).filter((host) => !servers.has(host)));
  const found = new Map<string, Drawn>();
  for (const row of rows) {
    const from = onlyAsk.size > CLIENTS_MAX && onlyAsk.has(String(row[client])) ? `${CLIENTS} (${onlyAsk.size})` : String(row[client]);
    const spoken = row[at("protocol")] ?? row[at("spoken")];
    const service = [port < 0 ? null : row[port], typeof spoken === "string" ? spoken : null].filter((part) => part !== null && part !== undefined).join(" ") || "asked";
    const key = `${from}\u0000${String(row[server])}\u0000${service}`;
    const edge = found.get(key) ?? { client: from, server: String(row[server]), service, count: 0, rate: null, failing: 0, p99: null, rows: [] };
    const count = numeric(row[at("count")]) ?? 0;
    const rate = numeric(row[at("rate")]);
    const success = numeric(row[at("success")]);
    const p99 = time < 0 ? null : numeric(row[time]);
    edge.count += count;
    if (rate !== null) edge.rate = (edge.rate ?? 0) + rate;
    if (success !== null) edge.failing += (1 - success) * count;
    if (p99 !== null) edge.p99 = Math.max(edge.p99 ?? p99, p99);
    edge.rows.push(row);
    found.set(key, edge);
  }
  return [...found.values()].sort((a, b) => b.count - a.count);
}

const share = (edge: Drawn) => (edge.count > 0 ? edge.failing / edge.count : 0);

export function Map_({ result, rows, query }: { result: Result; rows: Row[]; query: string }) {
  const chosen = useSignal("");
  const all = edgesOf(result, rows);
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
    let y = (height - (heights[i] ?? 0)) / 2;
    for (const host of layer) {
      place.set(host, { x: 45 + i * (BOX + BETWEEN), y, layer: i });
      y += heightOf(host) + GAP;
    }
  });
  const most = Math.max(...edges.map((edge) => edge.count), 1);
  const unit = (result.columns.find((column) => /^p99/.test(column.name)) ?? { unit: "ns" as const }).unit;
  const keyOf = (edge: Drawn) => `${edge.client}→${edge.server} ${edge.service}`;
  const open = edges.find((edge) => keyOf(edge) === chosen.value);
  const said = (edge: Drawn) => [edge.rate !== null ? `${many(edge.rate)}/s` : many(edge.count), edge.p99 !== null ? `p99 ${number(unit, edge.p99)}` : "", share(edge) > 0 ? `${percentage(share(edge))} fail` : ""].filter(Boolean).join(" · ");
  const worst = [...edges].sort((a, b) => share(b) - share(a) || (b.p99 ?? 0) - (a.p99 ?? 0)).slice(0, 6);
  return (
    <div class="map">
      <div class="map-scroll" tabIndex={0} role="region" aria-label="Map">
        <svg width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="group" aria-label={`${hosts.length} hosts, ${edges.length} edges; the table view has the same as rows`}>
          <defs>
            <marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z" class="tip" /></marker>
          </defs>
          {edges.map((edge) => {
            const [a, b] = [place.get(edge.client), place.get(edge.server)];
            if (!a || !b) return null;
            const y1 = a.y + HEAD / 2;
            const y2 = b.y + HEAD + ((services.get(edge.server)?.indexOf(edge.service) ?? 0) + 0.5) * ROW;
            // Within a host, and backwards, an edge goes around.
            const isBack = b.layer <= a.layer;
            const [x1, x2] = [a.x + BOX, isBack ? b.x + BOX : b.x];
            const bend = isBack ? 60 : Math.max(50, (x2 - x1) / 2);
            const path = `M${x1} ${y1}C${x1 + bend} ${y1} ${isBack ? x2 + bend : x2 - bend} ${y2} ${x2} ${y2}`;
            const kind = share(edge) > 0 ? "failing" : "";
            return (
              <g class={`edge ${kind} ${keyOf(edge) === chosen.value ? "chosen" : ""}`} key={keyOf(edge)} role="button" tabindex={0} aria-label={`${visible(edge.client)} asks ${visible(edge.server)}, ${visible(edge.service)}: ${said(edge)}`}
                onClick={() => (chosen.value = keyOf(edge))} onKeyDown={(event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); event.stopPropagation(); chosen.value = keyOf(edge); } }}>
                <path d={path} class="near" />
                <path d={path} class="line" stroke-width={(1 + 4 * Math.sqrt(edge.count / most)).toFixed(1)} marker-end="url(#tip)" />
              </g>
            );
          })}
          {hosts.map((host) => {
            const at = place.get(host);
            if (!at) return null;
            return (
              <g class="host" key={host} transform={`translate(${at.x} ${at.y})`}>
                <rect width={BOX} height={heightOf(host)} rx="9" />
                <text x="12" y="20" class="name">{visible(host).slice(0, 24)}</text>
                {services.get(host)?.map((service, i) => {
                  const into = edges.filter((edge) => edge.server === host && edge.service === service);
                  const worstOf = Math.max(...into.map((edge) => edge.p99 ?? -1));
                  return (
                    <g>
                      <line x1="0" x2={BOX} y1={HEAD + i * ROW} y2={HEAD + i * ROW} class="grid" />
                      <text x="12" y={HEAD + i * ROW + 17}>{visible(service).slice(0, 16)}</text>
                      <text x={BOX - 12} y={HEAD + i * ROW + 17} text-anchor="end" class={into.some((edge) => share(edge) > 0) ? "bad" : ""}>{worstOf >= 0 ? number(unit, worstOf) : ""}</text>
                    </g>
                  );
                })}
              </g>
            );
          })}
        </svg>
      </div>
      <div class="beside-map">
        <section>
          <h2>Worst first</h2>
          <ol class="list">
            {worst.map((edge) => (
              <li><button type="button" class="past" aria-pressed={keyOf(edge) === chosen.value} onClick={() => (chosen.value = keyOf(edge))}>
                <code><bdi>{visible(edge.client)}</bdi> → <bdi>{visible(edge.server)}</bdi> {visible(edge.service)}</code><span class={`small block ${share(edge) > 0 ? "failing-text" : "muted"}`}>{said(edge)}</span>
              </button></li>
            ))}
          </ol>
          {all.length > edges.length && <p class="muted small">{all.length - edges.length} edges with fewer requests are not drawn; the table has them.</p>}
        </section>
        {open && (
          <section class="card">
            <h2><bdi>{visible(open.client)}</bdi> → <bdi>{visible(open.server)}</bdi></h2>
            {open.rows.length === 1 ? (
              <dl class="pairs one">{result.columns.map((column: Column, i) => (open.rows[0]?.[i] === null || ["window_start", "window_end", "approximate"].includes(column.name) ? null : <div><dt>{heading(column)}</dt><dd>{shown(column, open.rows[0]?.[i])}</dd></div>))}</dl>
            ) : <p>{open.rows.length} rows: {said(open)}</p>}
            <button type="button" onClick={() => go("ask", "", { q: narrowed(query, open) })}>Ask about this only</button>
          </section>
        )}
      </div>
    </div>
  );
}

/** The same question of one edge: FROM and TO say so. */
function narrowed(query: string, edge: Drawn): string {
  const parsers = /^\s*PARSE\s+([\w\s,]+?)(?=\s+(?:SELECT|FROM|TO|WHERE|SAMPLE|LIMIT|SINCE|UNTIL|PROCESS)\b|\s*$)/i.exec(query)?.[1]?.trim() ?? "http";
  const from = edge.client.startsWith(CLIENTS) ? "" : ` FROM ${edge.client}`;
  const port = /^\d+/.exec(edge.service)?.[0];
  return `PARSE ${parsers}${from} TO ${edge.server}${port ? `:${port}` : ""} PROCESS (diff-group: w=10s)`;
}
