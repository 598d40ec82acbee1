// The map view: hosts in layers with their services. Red: errors; dashed: new or gone; thick: many requests. Each edge
// opens its numbers; a table has the same data.
import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Column, Row } from "../api/cells";
import { parsersOf } from "../results/clauses";
import { heading, many, number, shown, visible } from "../common/format";
import { useWidth } from "../common/components";
import { Names, choose, edgesOf, failing, hiddenOf, keyOf, matches, said, slowness, together, usual, type Edge, type Grouping } from "./graph";
import { layers } from "./layers";
import { useVirtualRows } from "./virtual_rows";
import type { Result } from "../results/model";
import { go, keep, param } from "../common/route";

/** Edges drawn, besides the busiest caller of each service; the rest is counted. */
const EDGES_MAX = 80;
const WORST_MAX = 8;
const EACH_MAX = 5;
/** Height of a layer in px above which it has several columns. */
const COLUMN_MAX = 2400;
const COLUMN_GAP = 34;
/** Smallest automatic zoom, and limits of the zoom. */
const [ZOOM_AUTO, ZOOM_MIN, ZOOM_MAX, ZOOM_STEP] = [0.6, 0.05, 3, 1.25];
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

interface Spot {
  x: number;
  y: number;
  layer: number;
}

interface Layout {
  hosts: string[];
  services: Map<string, string[]>;
  place: Map<string, Spot>;
  width: number;
  height: number;
}

/** Positions of hosts with their services. */
function layout(edges: Edge[], earlier: Map<string, number>): Layout {
  const hosts = [...new Set(edges.flatMap((edge) => [edge.client, edge.server]))];
  const services = new Map<string, string[]>(hosts.map((host) => [host, []]));
  for (const { server, service } of edges) if (!services.get(server)!.includes(service)) services.get(server)!.push(service);
  for (const all of services.values()) all.sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  const heightOf = (host: string) => HEAD + (services.get(host)?.length ?? 0) * ROW;
  const place = new Map<string, Spot>();
  let x = 45;
  let height = 80;
  const columns: { hosts: string[]; x: number; height: number; layer: number }[] = [];
  layers(hosts, edges.map(({ client, server }) => ({ from: client, to: server })), earlier).forEach((layer, at) => {
    let column: (typeof columns)[number] | undefined;
    for (const host of layer) {
      const more = heightOf(host) + GAP;
      if (!column || column.height + more > COLUMN_MAX) {
        if (column) x += BOX + COLUMN_GAP;
        columns.push((column = { hosts: [], x, height: -GAP, layer: at }));
      }
      column.hosts.push(host);
      column.height += more;
      height = Math.max(height, column.height);
    }
    x += BOX + BETWEEN;
  });
  for (const column of columns) {
    // Centered, and visible without scrolling.
    let y = 20 + Math.min((height - column.height) / 2, FOLD);
    for (const host of column.hosts) {
      place.set(host, { x: column.x, y, layer: column.layer });
      y += heightOf(host) + GAP;
    }
  }
  return { hosts, services, place, width: x - BETWEEN + 45, height: height + 40 };
}

/** The edges to draw and their layout; both keep what the previous ones had. */
function useLayout(all: Edge[]): { edges: Edge[]; hidden: Map<string, Edge[]>; of: Layout } {
  const before = useRef({ drawn: new Set<string>(), order: new Map<string, number>() });
  return useMemo(() => {
    const { edges, hidden } = choose(all, before.current.drawn, EDGES_MAX);
    const of = layout(edges, before.current.order);
    before.current = { drawn: new Set(edges.map(keyOf)), order: new Map([...of.place].map(([host, { x, y }]) => [host, x * 1e6 + y])) };
    return { edges, hidden, of };
  }, [all.map((edge) => `${keyOf(edge)} ${edge.count} ${said(edge)}`).join("\u0001")]);
}

/** Zoom by buttons, Ctrl and the wheel, or keys; panning by dragging. */
function useZoom({ width, height }: Layout) {
  const [region, room] = useWidth<HTMLDivElement>();
  /** `null`: automatic. */
  const zoom = useSignal<number | null>(null);
  const scale = zoom.value ?? (room === 0 ? 1 : Math.min(1, Math.max(ZOOM_AUTO, room / width)));
  const set = (to: number) => (zoom.value = Math.min(ZOOM_MAX, Math.max(ZOOM_MIN, to)));
  const fit = () => set(Math.min(1, room / width, (innerHeight * 0.75) / height));
  const latest = useRef({ scale, set });
  latest.current = { scale, set };
  useEffect(() => {
    const at = region.current;
    if (!at) return;
    const onWheel = (event: WheelEvent) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      latest.current.set(latest.current.scale * (event.deltaY < 0 ? ZOOM_STEP : 1 / ZOOM_STEP));
    };
    at.addEventListener("wheel", onWheel, { passive: false });
    return () => at.removeEventListener("wheel", onWheel);
  }, []);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "+") set(scale * ZOOM_STEP);
    else if (event.key === "-") set(scale / ZOOM_STEP);
    else if (event.key === "0") fit();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const onPointerDown = (event: PointerEvent) => {
    const at = region.current;
    if (!at || event.pointerType === "touch" || event.button !== 0 || (event.target as Element).closest(".edge, .group, .callers")) return;
    const from = { x: event.clientX + at.scrollLeft, y: event.clientY + at.scrollTop };
    const move = (event: PointerEvent) => at.scrollTo(from.x - event.clientX, from.y - event.clientY);
    const end = () => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", end);
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", end);
  };
  const buttons = (
    <div class="zoom" role="group" aria-label="Zoom">
      <button type="button" aria-label="Zoom out" onClick={() => set(scale / ZOOM_STEP)}>−</button>
      <button type="button" aria-label={`${Math.round(scale * 100)} %, original size`} onClick={() => set(1)}>{Math.round(scale * 100)} %</button>
      <button type="button" aria-label="Zoom in" onClick={() => set(scale * ZOOM_STEP)}>+</button>
      <button type="button" onClick={fit}>Fit</button>
    </div>
  );
  return { region, scale, buttons, onKeyDown, onPointerDown };
}

function Picture({ edges: all, members, onOpen }: { edges: Edge[]; members: Map<string, Set<string>>; onOpen?: Props["onOpen"] }) {
  const chosen = useSignal(param("edge"));
  const choose = (edge: Edge) => {
    chosen.value = keyOf(edge);
    keep({ edge: chosen.value });
  };
  const { edges, hidden, of } = useLayout(all);
  const zoom = useZoom(of);
  const opened = all.find((edge) => keyOf(edge) === chosen.value);
  const isCompared = all.some(({ change }) => change !== null);
  const list = (title: string, worst: Edge[], none: string) => (
    <section>
      <h2>{title}</h2>
      {worst.length === 0 && <p class="muted small">{none}</p>}
      <ol class="list">
        {worst.map((edge) => (
          <li><button type="button" class="past" aria-pressed={keyOf(edge) === chosen.value} onClick={() => choose(edge)}>
            <code><bdi>{visible(edge.client)}</bdi> → <bdi>{visible(edge.server)}</bdi> {visible(edge.service)}</code><span class={`small block ${failing(edge) > 0 || edge.change?.kind === "worse" ? "failing-text" : "muted"}`}>{said(edge)}</span>
          </button></li>
        ))}
      </ol>
    </section>
  );
  return (
    <div class="map">
      <figure class="map-figure" data-caption="Rate or number of requests by thickness; dashed red: errors; numbers at edges: share of the caller's time">
        {zoom.buttons}
        <div class="map-scroll" ref={zoom.region} tabIndex={0} role="region" aria-label="Map" onKeyDown={zoom.onKeyDown} onPointerDown={zoom.onPointerDown}>
          <Graph edges={edges} all={all} hidden={hidden} of={of} scale={zoom.scale} members={members} chosen={chosen.value} choose={choose} />
        </div>
      </figure>
      <div class="beside-map">
        {opened && <One edge={opened} {...(onOpen ? { onOpen } : {})} />}
        {isCompared ? (
          list("Changes, worst first", all.filter(({ change }) => change && change.kind !== "same").slice(0, WORST_MAX), all.some(({ change }) => change?.word === "difference unknown") ? "Unknown: stored data does not cover both periods." : "No significant difference.")
        ) : (
          <>
            {list("Failing", all.filter((edge) => failing(edge) > 0).sort((a, b) => failing(b) - failing(a) || b.count - a.count).slice(0, EACH_MAX), "No errors.")}
            {list("Slowest", all.filter((edge) => slowness(edge) >= 0).sort((a, b) => slowness(b) - slowness(a)).slice(0, EACH_MAX), "No response times.")}
          </>
        )}
        {all.length > edges.length && <p class="muted small">{all.length - edges.length} edges with fewer requests are not drawn. Search, expand a group, or use the table to see them.</p>}
      </div>
    </div>
  );
}

interface Drawing {
  edges: Edge[];
  all: Edge[];
  hidden: Map<string, Edge[]>;
  of: Layout;
  scale: number;
  members: Map<string, Set<string>>;
  chosen: string;
  choose(edge: Edge): void;
}

/** Runs an action on a click, or on Enter or Space. */
const pressed = (act: () => void) => ({
  onClick: act,
  onKeyDown: (event: KeyboardEvent) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    event.stopPropagation();
    act();
  },
});

function Graph({ edges, all, hidden, of: { hosts, services, place, width, height }, scale, members, chosen, choose }: Drawing) {
  const most = Math.max(...edges.map((edge) => edge.count), 1);
  const into = new Map<string, { slowest: number; isFailing: boolean }>();
  for (const edge of all) {
    const key = `${edge.server}\u0000${edge.service}`;
    const one = into.get(key) ?? { slowest: -1, isFailing: false };
    into.set(key, { slowest: Math.max(one.slowest, slowness(edge)), isFailing: one.isFailing || failing(edge) > 0 });
  }
  return (
    <svg width={Math.round(width * scale)} height={Math.round(height * scale)} viewBox={`0 0 ${width} ${height}`} role="group" aria-label={`${hosts.length} hosts, ${edges.length} edges; the table shows the same data`}>
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
          <g class={`edge ${kind} ${keyOf(edge) === chosen ? "chosen" : ""}`} key={keyOf(edge)} role="button" tabindex={0} aria-label={`${visible(edge.client)} to ${visible(edge.server)}, ${visible(edge.service)}: ${label === "" ? "" : `${label}, `}${said(edge)}`} {...pressed(() => choose(edge))}>
            <path d={path} class="near" />
            <path d={path} class="line" stroke-width={(1 + 4 * Math.sqrt(edge.count / most)).toFixed(1)} marker-end="url(#tip)" />
            {label !== "" && !isBack && <text class="label" x={x2 - 14} y={y2 - 6} text-anchor="end">{label}</text>}
          </g>
        );
      })}
      {hosts.map((host) => {
        const at = place.get(host);
        if (!at) return null;
        const own = services.get(host) ?? [];
        const size = members.get(host)?.size ?? 1;
        const isGroup = size > 1 && !host.startsWith("clients (");
        return (
          <g class={`host${isGroup ? " group" : ""}`} key={host} transform={`translate(${at.x} ${at.y})`} {...(isGroup ? { role: "button", tabindex: 0, ...pressed(() => keep({ group: host })) } : {})}>
            <rect width={BOX} height={HEAD + own.length * ROW} rx="9" />
            <text x="12" y="20" class="name">{visible(host).slice(0, isGroup ? 17 : 24)}</text>
            {isGroup && <text x={BOX - 12} y="20" text-anchor="end">{size} hosts</text>}
            {own.map((service, i) => {
              const one = into.get(`${host}\u0000${service}`);
              const left = hiddenOf(hidden, host, service);
              return (
                <g>
                  <line x1="0" x2={BOX} y1={HEAD + i * ROW} y2={HEAD + i * ROW} class="grid" />
                  <text x="12" y={HEAD + i * ROW + 17}>{visible(service).slice(0, 16)}</text>
                  <text x={BOX - 12} y={HEAD + i * ROW + 17} text-anchor="end" class={one?.isFailing ? "bad" : ""}>{one && one.slowest >= 0 ? number("ns", one.slowest) : ""}</text>
                  {left.length > 0 && <text x="-12" y={HEAD + i * ROW + 25} text-anchor="end" class="callers">{`+${many(left.length)}`}<title>{`${left.length} more callers with ${many(left.reduce((sum, edge) => sum + edge.count, 0))} requests`}</title></text>}
                </g>
              );
            })}
          </g>
        );
      })}
    </svg>
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
  const byRow = new Map(found.map((one) => [one.of[0]!.row, one]));
  const rows = edges.flatMap((edge) => (edge.of.length === 1 ? [edge] : edge.of.map(({ row }) => byRow.get(row)!).map((one) => ({ ...one, client: names.of(one.client), server: names.of(one.server) }))));
  const { scroll, drawn, before, behind } = useVirtualRows(rows.length);
  const columns = ["client", "service", "change", "requests", "rate", "success", "p50", "p99", "p99 total", "share of caller's time"];
  const space = (height: number) => height > 0 && <tr aria-hidden="true"><td colSpan={columns.length} style={{ height: `${height}px`, padding: 0 }} /></tr>;
  const numberOf = (edge: Edge, name: RegExp) => edge.of[0]!.result.columns.findIndex((column) => name.test(column.name));
  const cell = (edge: Edge, name: RegExp) => {
    const at = numberOf(edge, name);
    const { result, row } = edge.of[0]!;
    return at < 0 || row[at] === null ? "–" : <button type="button" class="number" onClick={() => onOpen(edge, at)}>{shown(result.columns[at] as Column, row[at])}</button>;
  };
  return (
    <div class="table-scroll" ref={scroll} tabIndex={0} role="region" aria-label="Edges">
      <table class="rows edges" aria-rowcount={rows.length + 1}>
        <thead><tr aria-rowindex={1}>{columns.map((name, i) => <th scope="col" class={i > 2 ? "n" : ""}>{name}</th>)}</tr></thead>
        <tbody>
          {space(before)}
          {drawn.map((place) => {
            const edge = rows[place]!;
            return (
              <tr key={place} aria-rowindex={place + 2}>
                <th scope="row"><bdi class="mono">{visible(edge.client)}</bdi></th>
                <td><bdi class="mono">{visible(edge.server)}</bdi> {visible(edge.service)}</td>
                <td>{edge.change ? <span class={`change ${edge.change.kind}`}>{visible(edge.change.word)}</span> : <span class="muted">–</span>}</td>
                {[/^count$/, /^rate$/, /^success$/, /^p50/, /^p99(?!_total)/, /^p99_total/].map((name) => <td class="n">{cell(edge, name)}</td>)}
                <td class="n">{edge.share === null ? "–" : `${(edge.share * 100).toFixed(1)} %`}</td>
              </tr>
            );
          })}
          {space(behind)}
        </tbody>
      </table>
    </div>
  );
}
