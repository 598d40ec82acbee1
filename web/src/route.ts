// Where one is: all of it stands behind `#` in the address, readable, so that a link shows the same, and proxies do not log it. A link
// is only looked at: nothing starts because of it.
import { signal } from "@preact/signals";

export interface Route {
  page: string;
  id: string;
  params: URLSearchParams;
}

function read(): Route {
  const [path = "", search = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const [page = "", id = ""] = path.split("/");
  let known = "";
  try {
    known = decodeURIComponent(id);
  } catch {
    // What cannot be read names nothing.
  }
  return { page: page || "ask", id: known, params: new URLSearchParams(search) };
}

export const route = signal<Route>(read());
addEventListener("hashchange", () => (route.value = read()));

export function link(page: string, id = "", params: Record<string, string> = {}): string {
  const search = new URLSearchParams(Object.entries(params).filter(([, value]) => value !== "")).toString();
  return `#/${page}${id === "" ? "" : `/${encodeURIComponent(id)}`}${search === "" ? "" : `?${search}`}`;
}

/** Goes somewhere; there is a way back. */
export function go(page: string, id = "", params: Record<string, string> = {}): void {
  location.hash = link(page, id, params);
}

/** Says in the address what has been chosen here; the way back is not made longer by it. */
export function keep(params: Record<string, string>): void {
  // Where one is by now: somebody may be on the way to another place.
  const now = read();
  const all = { ...Object.fromEntries(now.params), ...params };
  history.replaceState(null, "", link(now.page, now.id, all));
  route.value = read();
}

/** Takes out of the address what is not chosen any more. */
export const drop = (...names: string[]) => keep(Object.fromEntries(names.map((name) => [name, ""])));

export const param = (name: string, otherwise = "") => route.value.params.get(name) ?? otherwise;
