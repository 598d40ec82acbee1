// Layered layout of hosts, clients on the left, with few crossings. Equal hosts and edges get equal positions; hosts of an
// earlier layout keep their order.

export interface Edge {
  from: string;
  to: string;
}

/** The layer of each host, and its position there. `earlier`: positions in the previous layout. */
export function layers(hosts: string[], edges: Edge[], earlier: Map<string, number> = new Map()): string[][] {
  const order = [...hosts].sort();
  const next = new Map<string, string[]>(order.map((host) => [host, []]));
  for (const { from, to } of edges) if (from !== to && !next.get(from)?.includes(to)) next.get(from)?.push(to);
  for (const all of next.values()) all.sort();
  // An edge that closes a cycle is drawn backward.
  const state = new Map<string, "open" | "done">();
  const sorted: string[] = [];
  const kept = new Map<string, string[]>(order.map((host) => [host, []]));
  const asked = new Set(edges.filter(({ from, to }) => from !== to).map(({ to }) => to));
  const visit = (host: string) => {
    state.set(host, "open");
    for (const to of next.get(host) ?? []) {
      if (state.get(to) === "open") continue;
      kept.get(host)?.push(to);
      if (!state.has(to)) visit(to);
    }
    state.set(host, "done");
    sorted.unshift(host);
  };
  for (const host of order) if (!asked.has(host)) visit(host);
  for (const host of order) if (!state.has(host)) visit(host);
  const layer = new Map<string, number>();
  for (const host of sorted) {
    const at = layer.get(host) ?? 0;
    layer.set(host, at);
    for (const to of kept.get(host) ?? []) layer.set(to, Math.max(layer.get(to) ?? 0, at + 1));
  }
  const found: string[][] = [];
  for (const host of order) (found[layer.get(host) ?? 0] ??= []).push(host);
  // Moves each host to the median of its neighbors, in several sweeps.
  const place = new Map<string, number>();
  const number = (all: string[]) => all.forEach((host, i) => place.set(host, i / Math.max(1, all.length - 1)));
  found.forEach(number);
  const joined = new Map<string, string[]>(order.map((host) => [host, []]));
  for (const { from, to } of edges) {
    joined.get(from)?.push(to);
    joined.get(to)?.push(from);
  }
  for (let times = 0; times < 6; times += 1) {
    for (const all of times % 2 === 0 ? found : [...found].reverse()) {
      const middle = new Map(all.map((host) => {
        const others = (joined.get(host) ?? []).filter((other) => layer.get(other) !== layer.get(host));
        return [host, others.length === 0 ? (place.get(host) ?? 0) : others.reduce((sum, other) => sum + (place.get(other) ?? 0), 0) / others.length];
      }));
      all.sort((a, b) => (middle.get(a) ?? 0) - (middle.get(b) ?? 0) || (a < b ? -1 : 1));
      number(all);
    }
  }
  return found.map((layer) => settled(layer, earlier));
}

/** Known hosts in their earlier order; new ones behind the host that they follow in the new order. */
function settled(layer: string[], earlier: Map<string, number>): string[] {
  const known = layer.filter((host) => earlier.has(host)).sort((a, b) => (earlier.get(a) ?? 0) - (earlier.get(b) ?? 0));
  if (known.length === 0) return layer;
  layer.forEach((host, i) => {
    if (earlier.has(host)) return;
    const before = layer[i - 1];
    known.splice(before === undefined ? 0 : known.indexOf(before) + 1, 0, host);
  });
  return known;
}
