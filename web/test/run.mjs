// The page in a browser, with the program's demonstration: `node web/test/run.mjs PROGRAM [FOLDER FOR PICTURES] [FLAGS]`.
// Each step prints its subject; the first failure ends the run. Requests to other hosts, policy violations, and console
// errors are failures.
import { execFileSync, spawnSync } from "node:child_process";
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { assert, begin } from "./browse.mjs";
import { violations as axe } from "./looks.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const [program, pictures, ...flags] = process.argv.slice(2);
/** A capture to upload, with a hostile file name. */
const CAPTURE = join(dirname(root), "captures/shop/in.pcap");
const HOSTILE = "<img src=x onerror=alert(1)>\u202egnp.pcap";
/** A missing job. */
const NO_JOB = "999999";
let isAway = false;
/** A parser without stored data: queries for it are refused. */
const UNKEPT = "tcp_conn_time";
const isExcused = ({ text, url, body }) => (text === "refused: 409" && (body?.includes(UNKEPT) || url.endsWith("/packets"))) || (isAway && /refused|Failed to load resource|net::ERR/.test(text)) || url.includes(NO_JOB);
const { folder, shelf, address, origin, token, open, api, picture: taken, step, end, stop, again } = await begin(program, pictures, flags, isExcused);
const page = await open();
const picture = (name) => taken(page, name);
const began = Date.now();

/** The program's output as JSON lines. */
function printed(...args) {
  const ran = spawnSync(program, [...args, "-q"], { encoding: "utf8", maxBuffer: 1 << 26 });
  assert(ran.status === 0, `${args.join(" ")}: ${ran.stderr}`);
  return ran.stdout.split("\n").filter(Boolean).map((line) => JSON.parse(line));
}

/** Accessibility by axe, in light and dark mode and on a small screen; nothing exceeds the screen's width. */
async function looksRight(name) {
  const small = async () => {
    await page.setViewportSize({ width: 360, height: 740 });
    await page.waitForTimeout(150);
    const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    await picture(`${name}-360`);
    assert(over <= 0, `${name} is ${over} px wider than a small screen`);
    await violations(`${name}, 360 px`);
    await page.setViewportSize({ width: 1280, height: 860 });
    await page.waitForTimeout(150);
  };
  await picture(`${name}-light`);
  await violations(`${name}, light`);
  await small();
  await page.emulateMedia({ colorScheme: "dark" });
  await page.waitForTimeout(150);
  await picture(`${name}-dark`);
  await violations(`${name}, dark`);
  await page.emulateMedia({ colorScheme: "light" });
}

async function violations(where) {
  const found = await axe(page);
  assert(found.length === 0, `axe, ${where}:\n${found.join("\n")}`);
}

const heading = (text) => page.getByRole("heading", { level: 1, name: text }).waitFor();
const go = (name) => page.getByRole("navigation").getByRole("link", { name, exact: true }).click();

/** A receiver of replicas that acknowledges. */
const replicas = { told: [], server: createServer((request, response) => request.on("data", (bytes) => replicas.told.push(String(bytes))).on("end", () => response.end())) };
await new Promise((done) => replicas.server.listen(0, "127.0.0.1", done));
replicas.url = `webhook+http://127.0.0.1:${replicas.server.address().port}/#secret-file=${join(folder, "key")}`;
writeFileSync(join(folder, "key"), "of at least twenty-four characters");

await step("setup: a recording and a capture to upload", () => {
  printed("record", "PARSE http", "-r", CAPTURE, "-o", join(shelf, "shop"));
  copyFileSync(CAPTURE, join(folder, HOSTILE));
});

await step("a login link works and is removed from the address bar", async () => {
  await page.goto(address);
  await heading("Query");
  assert(!page.url().includes("token"), page.url());
  const cookie = (await page.context().cookies()).find((cookie) => cookie.name === "netalytics");
  assert(cookie?.httpOnly && cookie.sameSite === "Strict", JSON.stringify(cookie));
});

await step("the page has its policy, is compressed, and is cached", async () => {
  const response = await page.request.get(`${origin}/`, { headers: { "accept-encoding": "gzip" } });
  const policy = response.headers()["content-security-policy"];
  assert(policy.includes("default-src 'none'") && policy.includes("require-trusted-types-for 'script'") && !policy.includes("unsafe"), policy);
  assert(response.headers()["content-encoding"] === "gzip", "not compressed");
  const again = await page.request.get(`${origin}/`, { headers: { "if-none-match": response.headers().etag } });
  assert(again.status() === 304, `${again.status()}`);
  const script = /assets\/main-[^"]+\.js/.exec(await response.text())?.[0];
  const kept = await page.request.get(`${origin}/${script}`);
  assert(kept.headers()["cache-control"].includes("immutable"), kept.headers()["cache-control"]);
});

const editor = page.locator(".editor-host .cm-content");
async function write(text) {
  await editor.click();
  await page.keyboard.press("Control+a");
  await page.keyboard.press("Delete");
  await page.keyboard.type(text, { delay: 5 });
}

await step("errors have their position, also after an emoji, and a fix", async () => {
  await write("PARSE http WHERE path = '😀' PROCESS (group-count: group=url_templat");
  const problem = page.locator(".problem").first();
  await problem.waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "use url_template" }).click();
  await page.waitForFunction(() => document.querySelector(".editor-host").shadowRoot.querySelector(".cm-content").textContent.includes("group=url_template)"), undefined, { timeout: 5000 }).catch(async () => {
    throw new Error(await editor.textContent());
  });
  await page.locator(".plan svg").waitFor();
});

await step("completions are offered; Tab accepts one", async () => {
  await write("PARSE ht");
  const offered = page.locator(".editor-host .cm-tooltip-autocomplete li");
  await offered.filter({ hasText: /^http$/ }).waitFor();
  let text = "";
  for (let i = 0; i < 20 && !text.startsWith("PARSE http"); i += 1) {
    await page.keyboard.press("Tab");
    text = await editor.textContent();
  }
  assert(/^PARSE http/.test(text), text);
});

await step("Query: accessibility and layout", async () => {
  await write("PARSE http PROCESS (group-count-quantile: group=url_template, q=0.5, 0.99, w=1s), (group-hist: group=url_template, w=1s)");
  await page.keyboard.press("Escape");
  await page.locator(".plan svg").waitFor();
  await page.getByText("Standing jobs", { exact: true }).waitFor();
  await looksRight("ask");
});

await step("a query runs and returns rows", async () => {
  await editor.click();
  await page.keyboard.press("Control+Enter");
  await page.waitForURL(/#\/job\/\d+/);
  await page.locator(".rows tbody .pick").first().waitFor();
});

let first;
await step("the table has the values of the API", async () => {
  const id = /job\/(\d+)/.exec(page.url())[1];
  first = id;
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByText(/paused/).waitFor();
  const shown = await page.evaluate(() => {
    const at = document.querySelector(".strip .bars [aria-pressed=true]").getAttribute("aria-label");
    const rows = [...document.querySelectorAll(".rows tbody tr:not([aria-hidden])")].map((row) => [row.querySelector(".pick bdi").textContent, row.querySelectorAll("td")[1].textContent]);
    return { at: at.slice(0, 8), rows };
  });
  const { columns, rows } = await api(`jobs/${id}/rows?limit=10000&result=0`);
  const at = (name) => columns.findIndex((column) => column.name === name);
  const kept = rows.filter((row) => new Date(Number(BigInt(row[at("window_start")]) / 1000000n)).toISOString().slice(11, 19) === shown.at);
  const mark = (row) => (row[at("approximate")] === true ? "~" : "");
  const expected = kept.map((row) => [row[at("url_template")], `${mark(row)}${row[at("count")]}`]);
  const key = (rows) => JSON.stringify(rows.toSorted?.() ?? [...rows].sort());
  assert(key(shown.rows) === key(expected) && expected.length > 0, `${JSON.stringify(shown)}\n${JSON.stringify(expected)}`);
  await page.getByRole("button", { name: /Resume/ }).click();
});

await step("rows are sorted, searched, and drawn; the address has the view", async () => {
  await page.getByRole("button", { name: "p99", exact: true }).click();
  await page.waitForURL(/sort=p99/);
  await page.keyboard.press("Escape");
  await page.getByRole("searchbox").fill("search");
  await page.waitForFunction(() => document.querySelectorAll(".rows tbody .pick").length === 1);
  await page.getByRole("searchbox").fill("");
  await page.getByRole("button", { name: "Quality details" }).click();
  await page.getByRole("heading", { name: "Packet counters" }).waitFor();
  await looksRight("answer-table");
  await page.getByRole("button", { name: "Quality details" }).click();
  await page.getByRole("button", { name: "Over time" }).click();
  await page.locator(".plot canvas").waitFor();
  await looksRight("answer-time");
});

/** The queries of stored data that are sent during an action. */
async function asking(act) {
  const asked = [];
  const note = (request) => request.url().endsWith("/api/v1/query") && asked.push(request.postDataJSON().query);
  page.on("request", note);
  await act();
  page.off("request", note);
  return asked;
}

/** Delays them; the returned function releases them. */
async function holding() {
  let letGo, seen;
  const [gone, first] = [new Promise((done) => (letGo = done)), new Promise((done) => (seen = done))];
  await page.route("**/api/v1/query", (route) => {
    seen();
    return gone.then(() => route.continue()).catch(() => undefined);
  });
  return async () => {
    await first;
    letGo();
    await page.unrouteAll({ behavior: "wait" });
  };
}

const cellOf = ({ columns, rows }, row, name) => rows[row][columns.findIndex((column) => column.name === name)];

await step("a value opens its tuples, a tuple its flow", async () => {
  await page.getByRole("button", { name: "Table", exact: true }).click();
  await page.locator(".strip .bars button").nth(-4).click();
  const row = page.locator(".rows tbody tr").filter({ has: page.locator(".pick") }).first();
  const group = await row.locator(".pick bdi").textContent();
  // The number of an approximate window has a mark; that of its stored tuples has none.
  const count = (await row.locator("td").nth(1).textContent()).replace("~", "");
  await row.locator("td.measure .number").focus();
  await page.keyboard.press("Enter");
  const drawer = page.getByRole("dialog");
  await drawer.locator(".tuples tbody tr").first().waitFor();
  assert(page.url().includes("open="), page.url());
  const sure = await drawer.locator(".pairs").first().textContent();
  assert(sure.includes(`stored tuples${count}`), `${group}: ${count}, ${sure}`);
  assert((await drawer.locator(".tuples tbody tr").count()) === Math.min(100, Number(count)), "not as many tuples as the number says");
  const query = await drawer.locator("pre.query").first().textContent();
  assert(query.includes(`WHERE url_template = '${group}'`), query);
  await looksRight("drill-number");
  await drawer.locator(".tuples .pick").first().click();
  await drawer.locator(".moments li").first().waitFor();
  const community = /follow (\S+) /.exec(await drawer.getByText("netalytics follow").textContent())[1];
  const shown = await drawer.locator(".moments li strong").allTextContents();
  const flow = printed("query", `PARSE http WHERE community_id = '${community}'`, "-r", CAPTURE);
  assert(shown.filter((parser) => parser === "http").length === flow.length && flow.length > 0, `${shown} and ${flow.length} in the terminal`);
  await looksRight("drill-flow");
  await page.reload();
  await page.getByRole("dialog").locator(".tuples tbody tr").first().waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Go to newest" }).click();
});

/** Runs a query from the page; returns the answer's number. */
async function run(query) {
  await page.goto(`${origin}/#/ask?q=${encodeURIComponent(query)}`);
  await page.waitForFunction((query) => document.querySelector(".editor-host")?.shadowRoot?.querySelector(".cm-content")?.textContent === query, query);
  await page.getByRole("button", { name: /^Run/ }).click();
  await page.waitForURL(/#\/job\/\d+/);
  return /job\/(\d+)/.exec(page.url())[1];
}

await step("without stored data the page offers to store tuples", async () => {
  await run(`PARSE ${UNKEPT} PROCESS (group-count: group=server_ip, w=1s)`);
  await page.locator(".rows tbody .number").first().click();
  await page.getByRole("dialog").getByText("no stored data answers this query").waitFor();
  await page.getByRole("button", { name: `Store tuples of ${UNKEPT} from now on` }).click();
  await page.getByText("stores them now").waitFor();
  await picture("drill-unkept");
  const { jobs } = await api("jobs?limit=1000");
  assert(jobs.some((job) => job.keep === "tuples" && job.query === `PARSE ${UNKEPT}`), "no job keeps them");
  await page.keyboard.press("Escape");
});

await step("a value without windows covers the whole job, with one query", async () => {
  const id = await run("PARSE http PROCESS (group-count: group=url_template)");
  await page.getByText(/packets received/).waitFor();
  // The job that stores tuples is a second behind.
  await page.waitForTimeout(3000);
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  const number = page.locator(".rows tbody .number").first();
  await number.waitFor();
  const asked = await asking(async () => {
    await number.click();
    await page.getByRole("dialog").locator(".tuples tbody tr").first().waitFor();
    // The page is rendered every second.
    await page.waitForTimeout(2500);
  });
  const { created_ns } = await api(`jobs/${id}`);
  const iso = new Date(Number(BigInt(created_ns) / 1_000_000n)).toISOString().slice(0, 19);
  assert(asked.length === 2 && asked.every((query) => query.includes(`SINCE '${iso}.`)), `${iso}: ${asked.join("\n")}`);
  const sure = await page.getByRole("dialog").locator(".pairs").first().textContent();
  assert(sure.includes(`windowwhole period ${iso.replace("T", " ")} – `), sure);
  await looksRight("drill-whole");
  await page.keyboard.press("Escape");
});

await step("a ranking shows changes of rank", async () => {
  const id = await run("PARSE http PROCESS (group-count-top-k: group=url_template, k=5, w=1s)");
  await page.locator(".strip .bars button").nth(2).waitFor();
  await page.locator(".moved").first().waitFor();
  await page.getByRole("button", { name: "Pause" }).click();
  await page.locator(".strip .bars button").nth(1).click();
  const [before, now] = await page.evaluate(() => [0, 1].map((i) => document.querySelectorAll(".strip .bars button")[i].getAttribute("aria-label").slice(0, 8)));
  const told = await api(`jobs/${id}/rows?limit=10000`);
  const at = (name) => told.columns.findIndex((column) => column.name === name);
  const of = (clock) => new Map(told.rows.filter((row) => new Date(Number(BigInt(row[at("window_start")]) / 1000000n)).toISOString().slice(11, 19) === clock).map((row) => [row[at("url_template")], row[at("rank")]]));
  const [from, to] = [of(before), of(now)];
  const moved = await page.evaluate(() => [...document.querySelectorAll(".rows tbody tr:not([aria-hidden])")].map((row) => [row.querySelector(".pick bdi").textContent, row.querySelector(".moved").textContent]));
  for (const [group, said] of moved) {
    const by = from.get(group) === undefined ? "new" : from.get(group) === to.get(group) ? "" : `${from.get(group) > to.get(group) ? "▲up " : "▼down "}${Math.abs(from.get(group) - to.get(group))}`;
    assert(said === by, `${group}: ${said}, and it is ${by}`);
  }
  assert(moved.length === 5, JSON.stringify(moved));
  await picture("ranking");
});

await step("a period is selected by dragging and compared with the previous one", async () => {
  const bars = page.locator(".strip .bars button");
  await page.getByRole("button", { name: /Resume/ }).click();
  await bars.nth(7).waitFor();
  // Nothing moves while dragging.
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByText(/paused/).waitFor();
  const drag = async (from, to) => {
    const [a, b] = [await bars.nth(from).boundingBox(), await bars.nth(to).boundingBox()];
    await page.mouse.move(a.x + a.width / 2, a.y + 20);
    await page.mouse.down();
    await page.mouse.move(b.x + b.width / 2, b.y + 20, { steps: 8 });
    await page.mouse.up();
  };
  await drag(-5, -3);
  await page.waitForURL(/from=\d+&to=\d+/);
  const [, from, to] = /from=(\d+)&to=(\d+)/.exec(page.url());
  assert(BigInt(to) - BigInt(from) === 3_000_000_000n, `${from} ${to}`);
  await page.getByRole("button", { name: "Compare with previous period" }).click();
  await page.locator(".compared tbody tr").first().waitFor();
  assert(page.url().includes("vs=before"), page.url());
  const iso = (ns) => `'${new Date(Number(ns / 1000000n)).toISOString().slice(0, 19)}Z'`;
  const [since, until] = [BigInt(from), BigInt(to)];
  const told = await api("query", { query: `PARSE http SINCE ${iso(since)} UNTIL ${iso(until)} BASELINE SINCE ${iso(since - (until - since))} UNTIL ${iso(since)} PROCESS (group-count-top-k: group=url_template, k=5)` });
  const expected = new Map(told.results[0].rows.map((_, i) => [cellOf(told.results[0], i, "url_template"), `${cellOf(told.results[0], i, "count")} was ${cellOf(told.results[0], i, "baseline_count") ?? "–"}`]));
  const shown = await page.evaluate(() => [...document.querySelectorAll(".compared tbody tr")].map((row) => [row.querySelector("th").textContent, row.querySelector("td.n").textContent.replace(/^.*(?:more: |less: )/, "").replace("was", " was").replace(/^\? /, "")]));
  assert(shown.length === expected.size && shown.every(([group, said]) => expected.get(group) === said), `${JSON.stringify(shown)} ${JSON.stringify([...expected])}`);
  await looksRight("compare");
  // A new period is queried when the drag ends; the old result is not shown below it.
  const letGo = await holding();
  const asked = await asking(async () => {
    await drag(-2, -5);
    await page.getByText("Reading stored data…").waitFor();
    assert((await page.locator(".compared").count()) === 0, "the answer to another question stands here");
    await letGo();
    await page.locator(".compared tbody tr").first().waitFor();
  });
  assert(asked.length === 1, `${asked.length} questions: ${asked.join("\n")}`);
  await page.reload();
  await page.locator(".compared tbody tr").first().waitFor();
  await page.getByRole("button", { name: "Clear" }).click();
  await page.locator(".compared").waitFor({ state: "detached" });
});

await step("distribution and heat map", async () => {
  await page.goto(`${origin}/#/job/${first}`);
  await page.getByRole("button", { name: "group-hist" }).click();
  await page.getByRole("button", { name: "Distribution" }).click();
  await page.locator(".spread rect").first().waitFor();
  await looksRight("answer-spread");
  await page.getByRole("button", { name: "Heat map" }).click();
  await page.locator(".heat canvas").nth(1).waitFor();
  await looksRight("answer-heat");
  const heat = await handed("Save PNG");
  assert(/\.png$/.test(heat.name) && readFileSync(heat.path).subarray(1, 4).toString() === "PNG", heat.name);
});

await step("the map of a job opens edges", async () => {
  await page.goto(`${origin}/#/ask?q=${encodeURIComponent("PARSE http PROCESS (group-count-success-quantile: group=client_ip, server_ip, server_port, q=0.99, w=1s)")}`);
  await page.waitForFunction(() => document.querySelector(".editor-host")?.shadowRoot?.textContent.includes("server_port"));
  await page.getByRole("button", { name: /^Run/ }).click();
  await page.waitForURL(/#\/job\/\d+/);
  await page.getByRole("button", { name: "Map", exact: true }).click();
  await page.locator(".edge").first().waitFor();
  await page.locator(".edge").first().focus();
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Query this edge" }).waitFor();
  await looksRight("answer-map");
});

/** The file that a button downloads. */
async function handed(button) {
  const coming = page.waitForEvent("download");
  await page.getByRole("button", { name: button, exact: true }).click();
  const download = await coming;
  const path = join(folder, download.suggestedFilename());
  await download.saveAs(path);
  return { name: download.suggestedFilename(), path };
}

/** The share of the drawn pixels that a saved picture and the browser's picture of the map have in common, at the best height. */
async function alike(path) {
  const shot = await page.locator(".map-scroll svg").screenshot();
  const blank = await open();
  const share = await blank.evaluate(async (files) => {
    const read = async (file) => {
      const image = new Image();
      image.src = `data:image/png;base64,${file}`;
      await image.decode();
      const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
      context.drawImage(image, 0, 0);
      const { data } = context.getImageData(0, 0, image.width, image.height);
      // Compared with the color of the last pixel of the first row: the background.
      const back = data.slice(4 * (image.width - 1), 4 * image.width);
      const drawn = Uint8Array.from({ length: image.width * image.height }, (_, i) => ([0, 1, 2].reduce((sum, part) => sum + Math.abs(data[4 * i + part] - back[part]), 0) > 30 ? 1 : 0));
      return { width: image.width, height: image.height, has: (x, y) => drawn[y * image.width + x] === 1 };
    };
    const [shown, saved] = await Promise.all(files.map(read));
    const near = (of, x, y) => [-1, 0, 1].some((dx) => [-1, 0, 1].some((dy) => of.has(x + dx, y + dy)));
    let best = 0;
    for (let top = 0; top <= saved.height - shown.height; top += 1) {
      let [all, same] = [0, 0];
      // Every seventh row, in both directions.
      for (let y = 2; y < shown.height - 2; y += 7)
        for (let x = 2; x < shown.width - 2; x += 1)
          for (const [one, other] of [[shown.has(x, y), near(saved, x + 20, y + top)], [saved.has(x + 20, y + top), near(shown, x, y)]]) if (one) [all, same] = [all + 1, same + other];
      best = Math.max(best, same / all);
    }
    return best;
  }, [shot.toString("base64"), readFileSync(path).toString("base64")]);
  await blank.close();
  return share;
}

await step("a saved result is one self-contained file", async () => {
  // The pictures are compared: all must be of the same window.
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByText(/paused/).waitFor();
  const map = await handed("Save SVG");
  const svg = readFileSync(map.path, "utf8");
  assert(/\.svg$/.test(map.name) && /<path/.test(svg) && !/class=/.test(svg), map.name);
  const id = /job\/(\d+)/.exec(page.url())[1];
  for (const words of [`Job ${id}`, "group-count-success-quantile", "Period: ", " UTC", "Quality: ", "packets received", page.url().replaceAll("&", "&amp;")]) assert(svg.includes(words), `the picture lacks ${words}`);
  const drawn = await handed("Save PNG");
  const share = await alike(drawn.path);
  assert(/\.png$/.test(drawn.name) && share > 0.95, `${drawn.name}: ${(100 * share).toFixed(1)} % of the pixels are those of the page`);
  const saved = await handed("Save as HTML");
  const text = readFileSync(saved.path, "utf8");
  assert(/\.html$/.test(saved.name) && !/<script|(?:src|href)="(?!data:)/.test(text), saved.name);
  const rows = await page.getByText(/rows in this window/).textContent();
  const alone = await open();
  await alone.goto(`file://${saved.path}`);
  assert((await alone.locator("tbody tr").count()) === Number(/^(\d+)/.exec(rows)[1]), `${await alone.locator("tbody tr").count()} of ${rows}`);
  assert((await alone.locator("pre").textContent()).includes("group-count-success-quantile") && (await alone.locator("svg").count()) === 1, "what was asked and drawn is not in it");
  const stated = await alone.locator("dl").textContent();
  for (const words of ["Period", "UTC", "Quality", "packets received", page.url()]) assert(stated.includes(words), `the file lacks ${words}: ${stated}`);
  assert(await alone.evaluate(() => document.querySelector("table").compareDocumentPosition(document.querySelector("svg")) === Node.DOCUMENT_POSITION_FOLLOWING), "the table is not first");

  if (pictures) await alone.screenshot({ path: join(pictures, "finding.png"), fullPage: true });
  await alone.close();
});

await step("queries derived from values are valid for any original query", async () => {
  const { build } = await import("esbuild");
  const bundled = join(folder, "clauses.mjs");
  await build({ entryPoints: [join(root, "src/results/clauses.ts"), join(root, "src/results/model.ts")], outdir: folder, outExtension: { ".js": ".mjs" }, bundle: true, format: "esm", logLevel: "error" });
  const { against, alone, butNot, clauses, condition, counted, only, tuples, whole, withHist, written } = await import(bundled);
  const { Result } = await import(join(folder, "model.mjs"));
  const of = { since: "1795647114000000001", until: "1795647124000000000" };
  const before = { since: "1795647104000000000", until: "1795647114000000001" };
  const column = (name, type) => ({ name, type, unit: "", doc: "" });
  const cases = [
    ["parse http process (diff-group: group=url_template, w=10s)", [["url_template", "text"]], ["/it's \" fine) -- no; PROCESS"], "url_template = '/it''s \" fine) -- no; PROCESS'"],
    ["PARSE http -- PROCESS (rate)\nFROM 10.0.0.0/8 TO *:80 WHERE path != 'a PROCESS b' and not (status in (200, 204)) PROCESS (group-count-top-k: group=status/100 AS class, k=3, w=1s) ORDER BY count DESC LIMIT 2 ROWS;", [["class", "u64"]], [2], "status/100 = 2"],
    ["PARSE http WHERE status > 1 WHERE method = \"GET\" SAMPLE 10% PROCESS (rate: w=1s), (group-count: group=subnet(client_ip, 24), host, w=2s, slide=1s)", [["subnet(client_ip, 24)", "text"], ["host", "text"]], ["10.0.0.0/24", null], "subnet(client_ip, 24) = '10.0.0.0/24' and host IS NULL", 1],
    ["PARSE mysql_query PROCESS (service-map: w=1s)", [["client_ip", "ip"], ["server_ip", "ip"], ["server_port", "u64"]], ["10.0.0.1", "2001:db8::1", 3306], "client_ip = 10.0.0.1 and server_ip = 2001:db8::1 and server_port = 3306"],
    ["PARSE http SINCE 1h BASELINE SINCE 3h UNTIL 2h PROCESS (group-count: group=client_guessed)", [["client_guessed", "bool"]], [true], "client_guessed = true"],
    ["PARSE tcp_conn_time, http PROCESS group-avg-top-3: group=url, w=1s".replace("PROCESS ", "PROCESS (") + ")", [["url", "text"]], ["\u202e/x"], "url = '\u202e/x'"],
  ];
  for (const [query, columns, cells, expected, place = 0] of cases) {
    const result = new Result(place, "group", [...columns.map(([name, type]) => column(name, type)), column("count", "u64")], columns.length, 1);
    const where = condition(query, result, [...cells, 1]);
    assert(where === expected, `${where}, not ${expected}`);
    const base = query.includes("SINCE") ? written(clauses(query).filter(({ word }) => !["SINCE", "BASELINE"].includes(word))) : query;
    const made = [only(query, where), butNot(query, where), tuples(query, where, of, "ts DESC", 5), counted(query, where, of, "(group-count: group=quality)"), against(base, of, before), whole(base, of)];
    for (const text of made) {
      const { diagnostics } = await api("check", { text });
      assert(diagnostics.length === 0, `${text}: ${JSON.stringify(diagnostics)}`);
    }
  }
  // Over the whole period: processors lose their windows, and nothing else changes.
  const times = /SINCE '.*?' UNTIL '.*?' /;
  for (const [query, expected] of [
    ["PARSE http WHERE url = '/search?w=5, slide=1' PROCESS (group-count: group=url, w=10s)", "PARSE http WHERE url = '/search?w=5, slide=1' PROCESS (group-count: group=url)"],
    ["PARSE packet WHERE window = 0 PROCESS (group-count: w=1.5s, slide=500ms, group=src_ip) HAVING (count > 3) ORDER BY count DESC, src_ip LIMIT 3 ROWS", "PARSE packet WHERE window = 0 PROCESS (group-count: group=src_ip) HAVING (count > 3) ORDER BY count DESC, src_ip LIMIT 3 ROWS"],
    ["PARSE http PROCESS (rate: w=250µs), (group-count: W = (10s), group=(status/100 AS class, url), lateness='2s') -- w=1s", "PARSE http PROCESS (rate), (group-count: group=(status/100 AS class, url))"],
    ["PARSE http WHERE url like '%: , w=1s)%' PROCESS rate, top-k", "PARSE http WHERE url like '%: , w=1s)%' PROCESS rate, top-k"],
  ]) {
    for (const text of [whole(query, of), against(query, of, before).replace(/BASELINE SINCE '.*?' UNTIL '.*?' /, "")]) assert(text.replace(times, "") === expected, `${text}, not ${expected}`);
  }
  const several = "PARSE http WHERE (status) = 200 PROCESS (rate: w=1s) HAVING (rate > 1) (group-count-top-k: group=url, k=3, w=1s) ORDER BY count";
  assert(alone(several, 1) === "PARSE http WHERE (status) = 200 PROCESS (group-count-top-k: group=url, k=3, w=1s) ORDER BY count", alone(several, 1));
  assert(withHist(several, 1) === "PARSE http WHERE (status) = 200 PROCESS (group-hist: group=url, w=1s) ORDER BY count", withHist(several, 1));
});

await step("a link restores the view and starts no job", async () => {
  const before = (await api("jobs?limit=1000")).jobs.length;
  await page.reload();
  await page.locator(".edge").first().waitFor();
  await page.goto(`${origin}/#/ask?q=${encodeURIComponent("PARSE http PROCESS (rate: w=1s)")}`);
  await page.waitForFunction(() => document.querySelector(".editor-host")?.shadowRoot?.textContent.includes("(rate: w=1s)"));
  await page.waitForTimeout(500);
  assert((await api("jobs?limit=1000")).jobs.length === before, "a link has started a job");
});

await step("a query of stored data is answered immediately", async () => {
  await page.goto(`${origin}/#/ask?q=${encodeURIComponent("PARSE http SINCE 10m PROCESS (diff-group: group=url_template, w=10s)")}`);
  await page.waitForFunction(() => document.querySelector(".editor-host")?.shadowRoot?.textContent.includes("SINCE 10m"));
  await page.getByRole("button", { name: /^Run/ }).click();
  await page.locator(".past-answer .rows tbody .pick").first().waitFor();
  await looksRight("past");
});

await step("observed values are offered as completions", async () => {
  await page.goto(`${origin}/#/ask`);
  await page.reload();
  await editor.waitFor();
  await write("PARSE http WHERE method = ");
  const offered = page.locator(".editor-host .cm-tooltip-autocomplete li");
  await offered.filter({ hasText: "'GET'" }).waitFor();
  await picture("values");
  await page.keyboard.press("Tab");
  assert((await editor.textContent()) === "PARSE http WHERE method = 'GET'", await editor.textContent());
});

await step("a capture is uploaded and queried; its name stays text", async () => {
  await page.getByLabel("Capture file to upload").setInputFiles(join(folder, HOSTILE));
  await page.waitForURL(/in=[0-9a-f]+/);
  await write("PARSE http PROCESS (group-count-quantile: group=url_template, q=0.99)");
  await page.keyboard.press("Escape");
  await page.keyboard.press("Control+Enter");
  await page.locator(".past-answer .rows tbody .pick").first().waitFor();
  const shown = await page.evaluate(() => [...document.querySelectorAll(".past-answer .rows tbody tr:not([aria-hidden])")].map((row) => [row.querySelector(".pick bdi").textContent, Number(row.querySelectorAll("td")[1].textContent)]));
  const rows = printed("query", "PARSE http PROCESS (group-count-quantile: group=url_template, q=0.99)", "-r", CAPTURE).map((row) => [row.url_template, row.count]);
  const sorted = (all) => JSON.stringify([...all].sort());
  assert(sorted(shown) === sorted(rows), `${sorted(shown)}\n${sorted(rows)}`);
  await page.locator(".past-answer .number").first().click();
  await page.getByRole("dialog").locator(".tuples .pick").first().click();
  const drawer = page.getByRole("dialog");
  await drawer.locator(".moments li").nth(1).waitFor();
  await drawer.getByRole("button", { name: "Conversation" }).click();
  await drawer.locator(".turns li").first().waitFor();
  // The flow by the terminal: what both sides sent, and the packets.
  const id = /follow (\S+) /.exec(await drawer.getByText("netalytics follow").textContent())[1];
  const file = join(folder, "followed.pcapng");
  const told = execFileSync(program, ["follow", id, "-r", CAPTURE, "-w", file, "--bytes-max", "all", "-q"], { encoding: "utf8" });
  const firsts = told.split("\n").filter((line, at, all) => /^[<>] /.test(line) && all[at - 1].startsWith("["));
  const turns = await drawer.locator(".turns li").evaluateAll((all) => all.map((turn) => `${turn.className === "client" ? ">" : "<"} ${turn.querySelector("pre").textContent.split("\n")[0]}`));
  assert(JSON.stringify(turns) === JSON.stringify(firsts), `${turns.join("\n")}\n${told}`);
  const [decoded] = await drawer.locator(".turns .client .what").allTextContents();
  assert(decoded.startsWith("http ") && decoded.includes("GET"), decoded);
  const saved = await handed("Download pcapng");
  assert(readFileSync(saved.path).equals(readFileSync(file)), `${saved.name} has other packets than the flow`);
  await drawer.getByLabel("Hexadecimal").check();
  assert((await drawer.locator(".turns pre").first().textContent()).startsWith("0000  47 45 54 20"), "not in hexadecimal");
  await looksRight("conversation");
  await page.keyboard.press("Escape");
  await looksRight("recording-asked");
  assert((await page.locator("main img").count()) === 0, "a file's name has become an element");
});

await step("packets of a live tuple come from agents that keep them", async () => {
  await run("PARSE http PROCESS (group-count: group=url_template, w=1s)");
  await page.locator(".strip .bars button").nth(2).waitFor();
  await page.locator(".rows tbody .number").first().click();
  const drawer = page.getByRole("dialog");
  await drawer.locator(".tuples .pick").first().click();
  await drawer.locator(".moments li").first().waitFor();
  const button = drawer.getByRole("button", { name: "Fetch packets from agents" });
  await button.click();
  await drawer.getByText("no connected agent keeps packets").waitFor();
  // Agents of the demonstration keep no packets: the answer of one that does is simulated with an upload.
  const sent = await fetch(`${origin}/api/v1/recordings?name=kept.pcap`, { method: "POST", headers: { authorization: `Bearer ${token}` }, body: readFileSync(CAPTURE) });
  const recording = await sent.json();
  const community_id = /follow (\S+) /.exec(await drawer.getByText("netalytics follow").textContent())[1];
  let asked;
  await page.route("**/api/v1/packets", (route) => {
    asked = route.request().postDataJSON();
    return route.fulfill({ status: 201, contentType: "application/json", body: JSON.stringify({ recording, agent: "web-1", community_id, notes: ["agent db-1: it did not reply"] }) });
  });
  await button.click();
  await drawer.getByText("agent db-1: it did not reply").waitFor();
  await page.unroute("**/api/v1/packets");
  const [flow] = printed("query", `PARSE flow WHERE community_id = '${community_id}'`, "-r", CAPTURE);
  assert(asked.transport === "tcp" && asked.client === `${flow.client_ip}:${flow.client_port}` && asked.server === `${flow.server_ip}:${flow.server_port}`, JSON.stringify(asked));
  await drawer.getByRole("button", { name: "Conversation" }).click();
  await drawer.locator(".turns li").first().waitFor();
  await looksRight("kept-packets");
  await page.keyboard.press("Escape");
  await api("recordings").then(({ recordings }) => assert(recordings.some(({ id }) => id === recording.id), "the upload is missing"));
});

await step("Recordings: accessibility, layout, and deletion", async () => {
  await go("Recordings");
  await heading("Recordings");
  await page.getByRole("rowheader", { name: "onerror" }).waitFor();
  await page.getByRole("rowheader", { name: "shop", exact: true }).waitFor();
  assert((await page.locator("main img").count()) === 0, "a file's name has become an element");
  await looksRight("recordings");
  await page.getByRole("button", { name: /^Delete <img/ }).click();
  await page.getByRole("button", { name: "Delete permanently" }).click();
  await page.getByRole("rowheader", { name: "onerror" }).waitFor({ state: "detached" });
  await page.getByRole("link", { name: "Query shop" }).click();
  await heading("Query");
  await editor.waitFor();
  await page.keyboard.press("Control+Enter");
  await page.locator(".past-answer .rows tbody tr").first().waitFor();
});

await step("the map has all protocols and opens edges", async () => {
  await go("Map");
  await heading("Map");
  for (const service of ["80 http", "3306 mysql", "11211 memcached"]) await page.locator(`.edge[aria-label*="${service}"]`).first().waitFor();
  const edges = await page.locator(".edge").evaluateAll((all) => all.map((edge) => edge.getAttribute("aria-label")));
  assert(["80 http", "3306 mysql", "11211 memcached"].every((service) => edges.some((said) => said.includes(service))), edges.join("\n"));
  await page.locator(".edge").first().focus();
  await page.keyboard.press("Enter");
  await page.locator(".beside-map .number").first().click();
  await page.getByRole("dialog").locator(".tuples tbody tr").first().waitFor();
  await page.keyboard.press("Escape");
  await looksRight("map");
  const letGo = await holding();
  await page.getByLabel("Compare with").selectOption("before");
  await page.getByText("Reading stored data…").waitFor();
  assert((await page.locator(".edge").count()) === 0, "the map of another time stands here");
  await letGo();
  await page.getByRole("heading", { name: "Changes, worst first" }).waitFor();
  await page.getByText("Loading more protocols…").waitFor({ state: "detached" });
  assert((await page.locator(".edge").count()) === edges.length, "edges are missing");
  await looksRight("map-compared");
  await page.getByRole("button", { name: "Table", exact: true }).click();
  await page.getByRole("region", { name: "Edges" }).waitFor();
  await looksRight("map-table");
  await page.getByRole("button", { name: "End comparison" }).click();
});

await step("the map of 500 services groups hosts", async () => {
  const columns = [["client_ip", "ip", ""], ["server_ip", "ip", ""], ["server_port", "u64", ""], ["count", "u64", ""], ["rate", "f64", "per_second"], ["success", "f64", "fraction"], ["time_ns", "i64", "ns"], ["p50_ns", "i64", "ns"], ["p99_ns", "i64", "ns"]].map(([name, type, unit]) => ({ name, type, unit, doc: "" }));
  // A host that is both server and client waits a quarter of its time.
  const chain = [["192.0.2.1", "198.51.100.1", 80, 100, 1.5, 1, "4000000", "1000000", "2000000"], ["198.51.100.1", "203.0.113.1", 81, 100, 1.5, 1, "1000000", "1000000", "2000000"]];
  const rows = Array.from({ length: 2000 }, (_, i) => [`10.${i % 7}.${i % 10}.${i % 50}`, `10.${10 + (i % 5)}.${i % 4}.${i % 125}`, 80 + (i % 3), 10 + i, 1.5, i === 7 ? 0.5 : 1, String(1_000_000 + i), "1000000", String(2_000_000 + i * 1000)]).concat(chain);
  await page.route("**/api/v1/query", (route) => route.fulfill({ json: { job: "1", recording: null, from: "tuples", since_ns: "1", until_ns: "2", baseline_since_ns: null, baseline_until_ns: null, tuples: 1, notes: [], results: /http/.test(route.request().postData()) ? [{ processor: "service-map", keys: 3, columns, rows, left_out: 0 }] : [] } }));
  await page.goto(`${origin}/#/map?last=30m`);
  await page.reload();
  await page.locator(".host.group").first().waitFor();
  assert((await page.locator(".host").count()) < 80, "too many boxes to read");
  await looksRight("map-500");
  await page.locator(".host.group").last().focus();
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: /^Close/ }).waitFor();
  await page.getByRole("button", { name: /^Close/ }).click();
  await page.getByRole("searchbox").fill("198.51.100.1");
  await page.getByText(/, 2 found$/).waitFor();
  await page.locator(".map-tools select").selectOption("host");
  await page.locator(".edge").nth(1).waitFor();
  const said = await page.locator(".edge").evaluateAll((all) => all.map((edge) => edge.getAttribute("aria-label")));
  assert(said.some((one) => one.includes("198.51.100.1 to 203.0.113.1") && one.includes("25 % of caller's time")), said.join("\n"));
  await picture("map-500-found");
  await page.unrouteAll({ behavior: "ignoreErrors" });
});

await step("differences from an earlier period are marked, worst first", async () => {
  const measure = (name, type, unit) => [[name, type, unit], [`baseline_${name}`, type, unit], [`difference_${name}`, "f64", unit], [`ratio_${name.replace("_ns", "")}`, "f64", ""], [`differs_${name.replace("_ns", "")}`, "bool", ""]];
  const columns = [["client_ip", "ip", ""], ["server_ip", "ip", ""], ["server_port", "u64", ""], ...measure("count", "u64", ""), ...measure("success", "f64", "fraction"), ...measure("p99_ns", "i64", "ns")].map(([name, type, unit]) => ({ name, type, unit, doc: "" }));
  const row = (server, count, before, p99, slow) => ["10.0.0.1", server, 80, count, before, (count ?? 0) - (before ?? 0), before ? (count ?? 0) / before : null, count !== before, 1, 1, 0, 1, false, p99, "1000000", 0, p99 === null ? null : Number(p99) / 1e6, slow];
  const rows = [row("10.0.0.2", 100, 100, "1000000", false), row("10.0.0.3", 100, 100, "4100000", true), row("10.0.0.4", 90, null, "1000000", null), row("10.0.0.5", null, 80, null, null)];
  await page.route("**/api/v1/query", (route) => route.fulfill({ json: { job: "1", recording: null, from: "tuples", since_ns: "1", until_ns: "2", baseline_since_ns: "1", baseline_until_ns: "2", tuples: 1, notes: [], results: /http/.test(route.request().postData()) ? [{ processor: "service-map", keys: 3, columns, rows, left_out: 0 }] : [] } }));
  await page.goto(`${origin}/#/map?vs=before&from=1795647114000000000&to=1795647124000000000`);
  await page.reload();
  await page.getByRole("heading", { name: "Changes, worst first" }).waitFor();
  const worst = await page.locator(".beside-map .list li").allTextContents();
  assert(worst.length === 3 && /10\.0\.0\.3 80 httpslower: p99 ×4\.10/.test(worst[0]), worst.join("\n"));
  for (const kind of ["worse", "new", "gone"]) assert((await page.locator(`.edge.${kind}`).count()) === 1, `no edge is marked as ${kind}`);
  await looksRight("map-changes");
  await page.unrouteAll({ behavior: "ignoreErrors" });
});

await step("names and queries stay text", async () => {
  const bad = `</code><img src=x onerror=alert(1)><script>alert(1)</script>\u202egnp`;
  const created = await api("jobs", { query: "PARSE http WHERE path = '<script>alert(1)</script>' PROCESS (group-count: group=path, w=1s)", name: bad, kind: "standing", lease_seconds: null });
  await go("Jobs");
  await page.getByText("<img src=x onerror=alert(1)>").first().waitFor();
  await page.goto(`${origin}/#/job/${created.id}?find=${encodeURIComponent("<script>alert(2)</script>")}&sort=%3Cimg&groups=%3Cimg`);
  await heading(/<img src=x/);
  assert((await page.locator("main img, main script").count()) === 0, "a text has become an element");
  assert((await page.locator("h1").textContent()).includes("\\u{202e}"), "what turns text around is not shown");
  await page.getByRole("button", { name: "Stop", exact: true }).click();
});

await step("a table of 50,000 rows renders visible rows only", async () => {
  const columns = [{ name: "url", type: "text", unit: "", doc: "" }, { name: "count", type: "u64", unit: "", doc: "" }, { name: "p99_ns", type: "u64", unit: "ns", doc: "" }];
  const rows = Array.from({ length: 50_000 }, (_, i) => [`/page/${i}`, i, String(i * 1000)]);
  const snapshot = { job: "1", state: "running", reason: null, outcome: null, account: null, results: [{ processor: "group", columns, keys: 1, total: "50000", closed: { start: null, end: null, rows: rows.slice(-10) }, open: { start: null, end: null, rows: [] } }] };
  // The notice appears once; a retry waits.
  await page.route("**/api/v1/stream?**", () => undefined);
  await page.route("**/api/v1/stream?**", (route) => route.fulfill({ contentType: "text/event-stream", body: `event: snapshot\nid: 1:1\ndata: ${JSON.stringify(snapshot)}\n\n` }), { times: 1 });
  await page.route("**/api/v1/jobs/1/rows?**", (route) => {
    const asked = new URL(route.request().url()).searchParams;
    const from = asked.has("after") ? Number(asked.get("after")) + 1 : 0;
    return route.fulfill({ json: { rows: rows.slice(from, from + Number(asked.get("limit"))) } });
  });
  await page.goto(`${origin}/#/jobs`);
  await page.goto(`${origin}/#/job/1?sort=-count`);
  await page.locator('.rows[aria-rowcount="50001"]').waitFor();
  assert((await page.locator(".rows tr").count()) < 120, "rows that nobody sees are drawn");
  await page.getByText("/page/49999", { exact: true }).waitFor();
  await page.locator(".table-scroll").evaluate((at) => (at.scrollTop = at.scrollHeight));
  await page.getByText("/page/0", { exact: true }).waitFor();
  await page.getByRole("searchbox").fill("/page/2500");
  await page.locator('.rows[aria-rowcount="12"]').waitFor();
  await page.unrouteAll({ behavior: "ignoreErrors" });
});

await step("sixty updates per second do not block the page", async () => {
  await page.goto(`${origin}/#/jobs`);
  await page.reload();
  await heading("Jobs");
  await page.evaluate(() => {
    const columns = [["window_start", "u64", "epoch_ns"], ["window_end", "u64", "epoch_ns"], ["url", "text", ""], ["count", "u64", ""], ["p99_ns", "u64", "ns"]].map(([name, type, unit]) => ({ name, type, unit, doc: "" }));
    const window_ = (i, n, state) => ({ job: "1", result: 0, state, start: String(BigInt(1.7e18) + BigInt(i) * 1_000_000_000n), end: String(BigInt(1.7e18) + BigInt(i + 1) * 1_000_000_000n), rows_left_out: 0, rows: Array.from({ length: 200 }, (_, row) => [String(BigInt(1.7e18) + BigInt(i) * 1_000_000_000n), String(BigInt(1.7e18) + BigInt(i + 1) * 1_000_000_000n), `/page/${row}`, n + row, String(row * 1000)]) });
    const snapshot = { job: "1", state: "running", reason: null, outcome: null, account: null, results: [{ processor: "group", columns, keys: 1, total: "0", closed: { start: null, end: null, rows: [] }, open: { start: null, end: null, rows: [] } }] };
    const own = globalThis.fetch;
    globalThis.longest = 0;
    new PerformanceObserver((list) => list.getEntries().forEach((entry) => (globalThis.longest = Math.max(globalThis.longest, entry.duration)))).observe({ entryTypes: ["longtask"] });
    globalThis.fetch = (url, more) => {
      if (!String(url).includes("/api/v1/stream")) return own(url, more);
      const text = new TextEncoder();
      let n = 0;
      const body = new ReadableStream({
        start(to) {
          const say = (kind, data) => to.enqueue(text.encode(`event: ${kind}\nid: 1:${n}\ndata: ${JSON.stringify(data)}\n\n`));
          say("snapshot", snapshot);
          const timer = setInterval(() => {
            n += 1;
            say("window", window_(Math.floor(n / 10), n, n % 10 === 9 ? "closed" : "open"));
            if (n >= 300) clearInterval(timer);
          }, 1000 / 60);
        },
      });
      return Promise.resolve(new Response(body, { headers: { "Content-Type": "text/event-stream" } }));
    };
  });
  await page.goto(`${origin}/#/job/1`);
  await page.locator(".rows tbody .pick").first().waitFor();
  await page.getByRole("button", { name: "Over time" }).click();
  await page.locator(".plot canvas").waitFor();
  await page.getByRole("button", { name: "Table", exact: true }).click();
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByText(/paused/).waitFor();
  await page.getByRole("button", { name: /Resume/ }).click();
  await page.waitForFunction(() => document.querySelectorAll(".strip .bars button").length >= 30);
  console.log(`          the longest task took ${Math.round(await page.evaluate(() => globalThis.longest))} ms`);
  await page.reload();
});

await step("the page works on a slow network", async () => {
  const slow = await open();
  const wire = await page.context().newCDPSession(slow);
  await wire.send("Network.enable");
  await wire.send("Network.setCacheDisabled", { cacheDisabled: true });
  await wire.send("Network.emulateNetworkConditions", { offline: false, latency: 400, downloadThroughput: 50_000, uploadThroughput: 50_000 });
  const from = Date.now();
  await slow.goto(`${origin}/#/job/1`);
  await slow.locator(".rows tbody .number").first().waitFor();
  const shown = Date.now() - from;
  await slow.getByRole("navigation").getByRole("link", { name: "Query", exact: true }).click();
  await slow.locator(".editor-host .cm-content").waitFor();
  console.log(`          rows after ${shown} ms, the editor after ${Date.now() - from} ms, at 400 kb/s`);
  await slow.close();
});

await step("an unknown job shows an error", async () => {
  await page.goto(`${origin}/#/job/${NO_JOB}`);
  await page.getByRole("alert").waitFor();
});

for (const [name, title] of [["Jobs", "Jobs"], ["Network", "Network"], ["Alerts", "Alerts"], ["Access", "Access"]]) {
  await step(`${name}: accessibility and layout`, async () => {
    await go(name);
    await heading(title);
    if (name === "Network") {
      // Every loss counter of the server is shown in words.
      const counters = await api("counters");
      const losses = Object.keys(counters).filter((one) => /_(left_out|lost|dropped|unkept|unshown|damaged|refused|failed|broken|given_up)$/.test(one));
      await page.route("**/api/v1/counters", (route) => route.fulfill({ json: { ...counters, ...Object.fromEntries(losses.map((one) => [one, 77])) } }));
      await page.waitForFunction((many) => [...document.querySelectorAll(".card .pairs dd")].filter((one) => one.textContent === "77").length === many, losses.length).catch(() => assert(false, `not all of ${losses} are told`));
      await picture("network-losses");
      await page.unrouteAll({ behavior: "ignoreErrors" });
    }
    if (name === "Alerts") {
      await page.getByRole("button", { name: "New rule" }).click();
      await page.getByLabel("Name").fill("slow pages");
      const web = (await api("jobs?limit=1000")).jobs.find((job) => job.name === "web");
      await page.locator("select[name=job]").selectOption(web.id);
      await page.getByLabel("Condition").fill("p99 > 1ms");
      await page.getByRole("button", { name: "Create rule", exact: true }).click();
      await page.getByRole("heading", { name: "Rules" }).waitFor();
      await page.getByRole("button", { name: "New action" }).click();
      for (const [label, text] of [["Name", "hot"], ["Add a replica above", "1"], ["Servers", "web1, web2"], ["Outlets", replicas.url]]) await page.getByLabel(label).fill(text);
      await page.locator("select[name=job]").selectOption(web.id);
      await page.getByRole("button", { name: "Create action", exact: true }).click();
      await page.getByRole("row", { name: /^hot / }).getByText("× 2").first().waitFor();
      await page.getByRole("button", { name: "Decisions of hot" }).click();
      await page.getByText("1 → 2 at").first().waitFor();
      const { decisions } = await api("actions/1/decisions");
      assert(await page.getByRole("dialog").locator("li").last().getAttribute("value") === "1", "the first decision is not the first");
      assert(replicas.told.length >= decisions.filter((one) => one.done_ns !== null).length, "more is said to be done than was told");
      await picture("decisions");
      await page.keyboard.press("Escape");
    }
    await page.locator(".skeleton").waitFor({ state: "detached" });
    await page.waitForTimeout(400);
    await looksRight(name.toLowerCase());
  });
}

await step("keyboard shortcuts", async () => {
  await page.keyboard.press("j");
  await heading("Jobs");
  await page.keyboard.press("?");
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.getByRole("searchbox").waitFor();
  await page.keyboard.press("/");
  // A dialog returns the focus shortly after closing.
  await page.waitForFunction(() => document.activeElement.type === "search");
});

async function logIn() {
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("navigation").waitFor();
}

await step("logout and login", async () => {
  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByLabel("Token").waitFor();
  await looksRight("login");
  await logIn();
});

await step("the page reconnects to a restarted server", async () => {
  await page.goto(`${origin}/#/job/1`);
  await page.locator(".chip.good").waitFor();
  await page.locator(".rows tbody .pick").first().waitFor();
  isAway = true;
  await stop();
  await page.getByText("Not live:").waitFor();
  await picture("reconnecting");
  assert((await page.locator(".rows tbody .pick").count()) > 0, "what was there is gone");
  await again();
  await page.locator(".chip.good").waitFor();
  await heading("web");
  isAway = false;
});

console.log(`all of it took ${((Date.now() - began) / 1000).toFixed(1)} s`);
await end(0);
