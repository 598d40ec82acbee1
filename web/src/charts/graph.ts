// Edges of a map: clients and servers, grouping of hosts, and the share of each edge in its caller's time.
import type { Row } from "../api/cells";
import type { Agent } from "../api/schema";
import type { Kind } from "../results/comparison";
import { many, number, numeric, percentage } from "../common/format";
import type { Result } from "../results/model";

/** Client-only hosts shown individually; further ones are merged. */
const CLIENTS_MAX = 12;
/** Number of hosts above which they are grouped by network by default. */
const HOSTS_MAX = 60;

export interface Edge {
  client: string;
  server: string;
  /** Port and protocol. */
  service: string;
  count: number;
  /** Per second, if the result has rates. */
  rate: number | null;
  failing: number;
  p50: number | null;
  p99: number | null;
  /** Quantile of the total times, if the parser has them. */
  total: number | null;
  bytes: number | null;
  /** Sum of the total times, or of the response times without them, in ns. */
  time: number | null;
  /** Share in the time of its client; null: no request to the client was captured. */
  share: number | null;
  /** Change against the earlier period, and its significance. */
  change: { kind: Kind; word: string; evidence: number } | null;
  /** The result and row of its numbers. */
  of: { result: Result; row: Row; query: string }[];
}

/** Rows with clients and servers as edges between addresses. */
export function edgesOf(result: Result, rows: Row[], query: string, protocol = ""): Edge[] {
  const at = (name: string) => result.at(name);
  const slow = result.columns.findIndex((column) => /^p99(?!_total)/.test(column.name));
  const time = slow >= 0 ? slow : result.columns.findIndex((column) => column.unit === "ns" && !column.name.startsWith("time"));
  const value = (row: Row, name: string) => numeric(row[at(name)] ?? null);
  return rows.map((row) => {
    const port = at("server_port") < 0 ? null : row[at("server_port")];
    const spoken = row[at("application")] ?? row[at("protocol")] ?? protocol;
    const count = value(row, "count") ?? 0;
    const success = value(row, "success");
    const sizes = result.columns.flatMap(({ name, unit }) => (/^(?:sum_)?(?:request|response|client|server|value|packet)_bytes$/.test(name) && unit === "bytes" ? [value(row, name) ?? 0] : []));
    return {
      client: String(row[at("client_ip")]),
      server: String(row[at("server_ip")]),
      service: [port, typeof spoken === "string" ? spoken : null].filter((part) => part !== null && part !== undefined && part !== "").join(" ") || "requests",
      count,
      rate: value(row, "rate"),
      failing: success === null ? 0 : (1 - success) * count,
      p50: value(row, "p50_ns"),
      p99: time < 0 ? null : numeric(row[time] ?? null),
      total: value(row, "p99_total_time_ns"),
      bytes: sizes.length === 0 ? null : sizes.reduce((sum, n) => sum + n, 0),
      time: value(row, "total_time_ns") ?? value(row, "time_ns"),
      share: null,
      change: null,
      of: [{ result, row, query }],
    };
  });
}

export const failing = (edge: Edge) => (edge.count > 0 ? edge.failing / edge.count : 0);
/** The time by which edges are ranked. */
export const slowness = (edge: Edge) => edge.total ?? edge.p99 ?? -1;
export const keyOf = (edge: Edge) => `${edge.client}→${edge.server} ${edge.service}`;

const ns = (value: number) => number("ns", value);
/** An edge as one line of text. */
export const said = (edge: Edge) =>
  [
    edge.change && edge.change.kind !== "same" ? edge.change.word : "",
    edge.rate !== null ? `${many(edge.rate)}/s` : many(edge.count),
    edge.p99 !== null ? `p99 ${ns(edge.p99)}` : "",
    edge.total !== null && (edge.p99 === null || ns(edge.total) !== ns(edge.p99)) ? `p99 total ${ns(edge.total)}` : "",
    failing(edge) > 0 ? `${percentage(failing(edge))} errors` : "",
    edge.share !== null ? `${(edge.share * 100).toFixed(0)} % of caller's time` : "",
  ].filter(Boolean).join(" · ");

export type Grouping = "" | "host" | "24" | "16" | "name" | `label.${string}`;

/** The network of an address: IPv4 by prefix length, IPv6 always /64. */
function network(address: string, bits: "24" | "16"): string {
  const v4 = /^(\d+)\.(\d+)\.(\d+)\.\d+$/.exec(address);
  if (v4) return bits === "24" ? `${v4[1]}.${v4[2]}.${v4[3]}.0/24` : `${v4[1]}.${v4[2]}.0.0/16`;
  const full = address.split("::")[0]?.split(":").slice(0, 4).join(":") ?? address;
  return `${full}::/64`;
}

/** Names and labels of hosts, from agents and DNS. */
export class Names {
  private readonly byAddress = new Map<string, string>();
  private readonly labeled = new Map<string, Record<string, string>>();
  readonly labels: string[];

  constructor(agents: Agent[], found: Map<string, string>) {
    for (const [address, name] of found) this.byAddress.set(address, name);
    for (const agent of agents) {
      for (const address of agent.addresses) {
        const bare = address.replace(/\/\d+$/, "");
        if (/^127\.|^::1$|^fe80/.test(bare)) continue;
        this.byAddress.set(bare, agent.name);
        this.labeled.set(bare, agent.labels);
      }
    }
    this.labels = [...new Set(agents.flatMap((agent) => Object.keys(agent.labels)))].sort();
  }

  of(address: string): string {
    return this.byAddress.get(address) ?? address;
  }

  group(address: string, by: Grouping): string {
    if (by === "24" || by === "16") return network(address, by);
    // web-1 and web-2 are web; so is web3.shop.example.
    if (by === "name") return this.of(address) === address ? network(address, "24") : this.of(address).replace(/\..*$/, "").replace(/[-_]?\d+$/, "");
    if (by.startsWith("label.")) return this.labeled.get(address)?.[by.slice(6)] ?? network(address, "24");
    return this.of(address);
  }
}

/** Whether an edge matches the search text. */
export function matches(edge: Edge, names: Names, find: string): boolean {
  const needle = find.trim().toLowerCase();
  return needle === "" || [edge.client, edge.server, names.of(edge.client), names.of(edge.server), edge.service].some((text) => text.toLowerCase().includes(needle));
}

/** The default grouping. */
export function usual(edges: Edge[]): Grouping {
  const servers = new Set(edges.map(({ server }) => server));
  const count = (by: "24" | "16") => new Set([...servers].map((address) => network(address, by))).size;
  return servers.size <= HOSTS_MAX ? "host" : count("24") <= HOSTS_MAX ? "24" : "16";
}

/** Edges between groups. Hosts of the group `open` stay separate. */
export function together(edges: Edge[], names: Names, by: Grouping, open: string): { edges: Edge[]; members: Map<string, Set<string>> } {
  const servers = new Set(edges.map(({ server }) => server));
  const clients = new Set(edges.map(({ client }) => client).filter((host) => !servers.has(host)));
  const crowd = new Set([...clients].map((host) => names.group(host, by))).size > CLIENTS_MAX;
  const members = new Map<string, Set<string>>();
  const place = (host: string) => {
    const group = names.group(host, by);
    let at = group === open ? names.of(host) : group;
    if (crowd && clients.has(host) && group !== open) at = `clients (${clients.size})`;
    (members.get(at) ?? members.set(at, new Set()).get(at)!).add(host);
    return at;
  };
  const found = new Map<string, Edge>();
  for (const edge of edges) {
    const [client, server] = [place(edge.client), place(edge.server)];
    const key = `${client}\u0000${server}\u0000${edge.service}`;
    const into = found.get(key);
    if (!into) {
      found.set(key, { ...edge, client, server, of: [...edge.of] });
      continue;
    }
    const add = (a: number | null, b: number | null) => (a === null && b === null ? null : (a ?? 0) + (b ?? 0));
    const most = (a: number | null, b: number | null) => (a === null ? b : b === null ? a : Math.max(a, b));
    into.count += edge.count;
    into.failing += edge.failing;
    into.rate = add(into.rate, edge.rate);
    into.bytes = add(into.bytes, edge.bytes);
    into.time = add(into.time, edge.time);
    into.p50 = null;
    into.p99 = most(into.p99, edge.p99);
    into.total = most(into.total, edge.total);
    if ((edge.change?.evidence ?? -1) > (into.change?.evidence ?? -1)) into.change = edge.change;
    into.of.push(...edge.of);
  }
  const all = [...found.values()];
  const answering = new Map<string, number>();
  for (const edge of all) if (edge.time !== null) answering.set(edge.server, (answering.get(edge.server) ?? 0) + edge.time);
  for (const edge of all) {
    const of = answering.get(edge.client) ?? 0;
    edge.share = of > 0 && edge.time !== null && edge.client !== edge.server ? edge.time / of : null;
  }
  return { edges: all.sort((a, b) => (b.change?.evidence ?? 0) - (a.change?.evidence ?? 0) || b.count - a.count), members };
}

/** A service of a host. */
const serviceOf = ({ server, service }: Edge) => `${server}\u0000${service}`;
/** Advantage of edges that were drawn before, so that a refresh does not exchange similar ones. */
const DRAWN_BEFORE = 2;

/**
 * The edges to draw: the busiest caller of each service, failing and changed ones, and the busiest others, `most` in all if the
 * services allow it. The rest is counted by service.
 */
export function choose(all: Edge[], before: Set<string>, most: number): { edges: Edge[]; hidden: Map<string, Edge[]> } {
  const weight = (edge: Edge) => edge.count * (before.has(keyOf(edge)) ? DRAWN_BEFORE : 1);
  const byWeight = [...all].sort((a, b) => weight(b) - weight(a) || (keyOf(a) < keyOf(b) ? -1 : 1));
  const chosen = new Set<Edge>();
  const called = new Set<string>();
  for (const edge of byWeight) {
    if (called.has(serviceOf(edge))) continue;
    called.add(serviceOf(edge));
    chosen.add(edge);
  }
  const isMarked = (edge: Edge) => failing(edge) > 0 || (edge.change !== null && edge.change.kind !== "same");
  for (const edge of [...all.filter(isMarked), ...byWeight]) if (chosen.size < most) chosen.add(edge);
  const hidden = new Map<string, Edge[]>();
  for (const edge of all) if (!chosen.has(edge)) (hidden.get(serviceOf(edge)) ?? hidden.set(serviceOf(edge), []).get(serviceOf(edge))!).push(edge);
  return { edges: all.filter((edge) => chosen.has(edge)), hidden };
}

/** The callers of a service that are not drawn. */
export const hiddenOf = (hidden: Map<string, Edge[]>, server: string, service: string) => hidden.get(`${server}\u0000${service}`) ?? [];
