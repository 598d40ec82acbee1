// The route, readable, after `#` in the address: links restore the view, and proxies do not log it. Opening a link starts
// nothing.
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
    // Invalid escapes match nothing.
  }
  return { page: page || "ask", id: known, params: new URLSearchParams(search) };
}

export const route = signal<Route>(read());
addEventListener("hashchange", () => (route.value = read()));

export function link(page: string, id = "", params: Record<string, string> = {}): string {
  const search = new URLSearchParams(Object.entries(params).filter(([, value]) => value !== "")).toString();
  return `#/${page}${id === "" ? "" : `/${encodeURIComponent(id)}`}${search === "" ? "" : `?${search}`}`;
}

/** Navigates with a history entry. */
export function go(page: string, id = "", params: Record<string, string> = {}): void {
  location.hash = link(page, id, params);
}

/** Updates the address without a history entry. */
export function keep(params: Record<string, string>): void {
  // The current route; navigation may have happened meanwhile.
  const now = read();
  const all = { ...Object.fromEntries(now.params), ...params };
  history.replaceState(null, "", link(now.page, now.id, all));
  route.value = read();
}

/** Removes keys from the address. */
export const drop = (...names: string[]) => keep(Object.fromEntries(names.map((name) => [name, ""])));

export const param = (name: string, otherwise = "") => route.value.params.get(name) ?? otherwise;
