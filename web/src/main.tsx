// Entry point: login, routes, and the frame of every page: navigation, theme, keyboard shortcuts.
import { render } from "preact";
import { signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Refused, logIn, logOut, me, version, whoAmI } from "./api/client";
import { Answer } from "./answers/answer";
import { useFiring } from "./answers/firing";
import { Ask } from "./editor/query_page";
import { Jobs } from "./jobs/jobs";
import { many } from "./common/format";
import { Later } from "./common/lazy";
import { Network } from "./network/network";
import { Dialog, Notice, Text, said } from "./common/components";
import { go, link, route } from "./common/route";

const PLACES = [
  { page: "ask", name: "Query", key: "a", icon: "M4 5h16v10H9l-5 4z" },
  { page: "jobs", name: "Jobs", key: "j", icon: "M5 19V9m7 10V5m7 14v-7" },
  { page: "map", name: "Map", key: "m", icon: "M4 4h5v5H4zm11 0h5v5h-5zM9 15h6v5H9zM9 6.5h6M7 9l4 6m6-6-4 6" },
  { page: "network", name: "Network", key: "n", icon: "M12 4v5m0 0-6 6m6-6 6 6M4 15h4v4H4zm12 0h4v4h-4zM10 2h4v4h-4z" },
  { page: "alerts", name: "Alerts", key: "l", icon: "M6 16V11a6 6 0 0 1 12 0v5l2 2H4zm4 4h4" },
  { page: "recordings", name: "Recordings", key: "r", icon: "M4 6h16v12H4zm4 9a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zm8 0a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zm-8 0h8" },
  { page: "access", name: "Access", key: "t", icon: "M14 10a4 4 0 1 0-3.5 4L12 15.5V18h2v2h4v-3l-4.4-4.4c.3-.8.4-1.6.4-2.6z" },
];

const theme = signal<"auto" | "light" | "dark">((localStorage.getItem("theme") as "light" | "dark" | null) ?? "auto");
const singleKeys = signal(localStorage.getItem("keys") !== "off");
const help = signal(false);
/** Why a token was rejected. */
const refused = signal("");

function setTheme(to: "auto" | "light" | "dark"): void {
  theme.value = to;
  if (to === "auto") localStorage.removeItem("theme");
  else localStorage.setItem("theme", to);
  document.documentElement.dataset.theme = to;
  dispatchEvent(new Event("themechange"));
}

function Login() {
  const busy = useSignal(false);
  return (
    <main class="login">
      <form
        class="card"
        onSubmit={(event) => {
          event.preventDefault();
          const token = String(new FormData(event.currentTarget).get("token") ?? "").trim();
          busy.value = true;
          refused.value = "";
          logIn(token)
            .catch((why) => (refused.value = said(why)))
            .finally(() => (busy.value = false));
        }}
      >
        <h1><Logo /> netalytics</h1>
        <p class="muted">Which service is slow, for whom, and why: from the network alone.</p>
        <label>
          Token
          <input type="password" name="token" autocomplete="off" required autofocus aria-describedby="token-help" />
        </label>
        <p class="muted small" id="token-help">
          The first token is in <code>admin.token</code> in the server's data directory; admins create others. The page exchanges it for a cookie that scripts cannot read.
        </p>
        {refused.value !== "" && <Notice kind="bad">{refused.value}</Notice>}
        <button class="primary" disabled={busy.value}>{busy.value ? "Logging in…" : "Log in"}</button>
      </form>
    </main>
  );
}

const Logo = () => (
  <svg class="logo" viewBox="0 0 32 32" aria-hidden="true">
    <rect width="32" height="32" rx="7" />
    <path d="M6 20h5l3-11 5 15 3-9h4" />
  </svg>
);

const KEYS: [string, string][] = [
  ["?", "keyboard shortcuts"],
  ["a j m n l r t", "Query, Jobs, Map, Network, Alerts, Recordings, Access"],
  ["Ctrl Enter", "run the query"],
  ["/", "search"],
  ["[ ]", "previous, next window"],
  ["Space", "pause, resume"],
  ["1 2 3 4 5", "table, over time, distribution, heat map, map; on the map page 1 graph, 2 table"],
  ["g", "logarithmic axis"],
  ["+ - 0", "zoom in, zoom out, fit (map)"],
];

function Keys() {
  return (
    <Dialog title="Keyboard shortcuts" close={() => (help.value = false)}>
      <dl class="keys">
        {KEYS.map(([keys, what]) => (
          <>
            <dt>{keys.split(" ").map((key) => <kbd>{key}</kbd>)}</dt>
            <dd>{what}</dd>
          </>
        ))}
      </dl>
      <label class="check">
        <input
          type="checkbox"
          checked={singleKeys.value}
          onChange={(event) => {
            singleKeys.value = event.currentTarget.checked;
            localStorage.setItem("keys", singleKeys.value ? "on" : "off");
          }}
        />
        Enable single-key shortcuts
      </label>
    </Dialog>
  );
}

function Shell() {
  const page = { job: "jobs", answer: "ask" }[route.value.page] ?? route.value.page;
  const firing = useFiring().length;
  useEffect(() => {
    const name = PLACES.find((place) => place.page === page)?.name ?? "netalytics";
    document.title = `${route.value.page === "job" ? `Job ${route.value.id}` : name} · netalytics`;
  }, [page, route.value.id]);
  return (
    <div class="shell">
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>Skip to content</a>
      <nav aria-label="Pages">
        <a class="brand" href={link("ask")}><Logo /> <span>netalytics</span></a>
        <ul>
          {PLACES.map((place) => (
            <li>
              <a href={link(place.page)} aria-current={page === place.page ? "page" : undefined}>
                <svg viewBox="0 0 24 24" aria-hidden="true"><path d={place.icon} /></svg>
                <span>{place.name}</span>
                {place.page === "alerts" && firing > 0 && <span class="badge" title={`${firing} firing`}>{many(firing)}<span class="hidden"> firing</span></span>}
              </a>
            </li>
          ))}
        </ul>
        <div class="foot">
          <label class="theme">
            <span class="hidden">Theme</span>
            <select value={theme.value} onChange={(event) => setTheme(event.currentTarget.value as "auto")}>
              <option value="auto">system theme</option>
              <option value="light">light theme</option>
              <option value="dark">dark theme</option>
            </select>
          </label>
          <button type="button" class="quiet" onClick={() => (help.value = true)}>Shortcuts</button>
          <button type="button" class="quiet" onClick={() => void logOut()}>Log out</button>
          <p class="muted small who"><Text of={me.value?.name ?? ""} />, role {me.value?.role}<br />version {version.value}</p>
        </div>
      </nav>
      <main id="main" tabIndex={-1}>{place()}</main>
      {help.value && <Keys />}
    </div>
  );
}

function place() {
  const { page, id } = route.value;
  switch (page) {
    case "job": return <Answer key={id} id={id} />;
    case "answer": return <Later key="answer" load={() => import("./answers/stored_answer")} />;
    case "jobs": return <Jobs />;
    case "map": return <Later key="map" load={() => import("./network/service_map")} />;
    case "recordings": return <Later key="recordings" load={() => import("./recordings/recordings")} />;
    case "network": return <Network />;
    case "alerts": return <Later key="alerts" load={() => import("./alerts/alerts")} />;
    case "access": return <Later key="access" load={() => import("./access/access")} />;
    default: return <Ask />;
  }
}

function Page() {
  if (me.value === undefined) return <main class="login"><p class="muted">{away.value === "" ? "Connecting…" : away.value}</p></main>;
  return me.value === null ? <Login /> : <Shell />;
}

const away = signal("");

/** Whether key presses belong to the focused element. */
export function isTyping(event: KeyboardEvent): boolean {
  const target = event.composedPath()[0] as HTMLElement;
  return event.ctrlKey || event.metaKey || event.altKey || target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
}

addEventListener("keydown", (event) => {
  // The dialog's close event comes shortly after closing.
  if (!me.value || !singleKeys.value || isTyping(event) || (help.value && document.querySelector("dialog[open]"))) return;
  if (event.key === "?") help.value = true;
  else if (event.key === "/") {
    const find = document.querySelector<HTMLInputElement>("input[type=search]");
    if (!find) return;
    find.focus();
  } else {
    const place = PLACES.find((place) => place.key === event.key);
    if (place) go(place.page);
    else dispatchEvent(new CustomEvent("pagekey", { detail: event }));
    if (!place) return;
  }
  event.preventDefault();
});

/** Logs in with a token in the address, and removes it from the address and the browser's history. */
async function enter(): Promise<void> {
  const token = /^#token=(.+)$/.exec(location.hash)?.[1];
  if (token === undefined) return;
  history.replaceState(null, "", "#/ask");
  route.value = { page: "ask", id: "", params: new URLSearchParams() };
  refused.value = "";
  try {
    await logIn(decodeURIComponent(token));
  } catch (why) {
    refused.value = said(why);
  }
}

async function begin(): Promise<void> {
  addEventListener("hashchange", () => void enter());
  await enter();
  for (;;) {
    try {
      await whoAmI();
      return;
    } catch (error) {
      away.value = error instanceof Refused && error.status !== 0 ? error.message : "The server is not responding. Retrying…";
      await new Promise((after) => setTimeout(after, 2000));
    }
  }
}

setTheme(theme.value);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new Event("themechange")));
render(<Page />, document.getElementById("page") as HTMLElement);
void begin();
