// Correctness of what the page shows: `node web/test/honest.mjs PROGRAM [FOLDER FOR PICTURES] [FLAGS]`. Windows larger
// than the page's bounds, failing requests, losses, gaps, empty answers. Responses that the demonstration does not have
// are simulated; expected values are computed here and compared with the server's.
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { assert, begin, until } from "./browse.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const [program, pictures, ...flags] = process.argv.slice(2);
let isAway = false;
// The server has no job 77: its stream, reconnected while the page leaves the job, is not found.
const isOfSimulatedJob = ({ url }) => url.includes("/stream?jobs=77");
const isExcused = (error) => isOfSimulatedJob(error) || (isAway && /refused|Failed to load resource|net::ERR/.test(error.text));
const { folder, origin, address, token, browser, open, enter, api, picture, step, end } = await begin(program, pictures, flags, isExcused);
const page = await open();
await enter(page);

const SECOND = 1_000_000_000n;
const column = ([name, type, unit]) => ({ name, type, unit, doc: "" });
const COLUMNS = [["window_start", "i64", "epoch_ns"], ["window_end", "i64", "epoch_ns"], ["path", "text", ""], ["count", "u64", ""], ["p99_ns", "i64", "ns"], ["lost", "f64", "fraction"], ["agents_missing", "text", ""], ["approximate", "bool", ""]].map(column);
const BEGAN = BigInt(Math.floor(Date.now() / 1000)) * SECOND - 600n * SECOND;
const JOB = { id: "77", name: "large", query: "PARSE http PROCESS (diff-group: group=path, w=10s)", kind: "standing", state: "running", reason: null, outcome: null, owner: "admin", on: {}, redacted: false, interfaces: [], capture_filter: null, lease_seconds: null, keep: "results", bus: null, created_ns: String(BEGAN), ended_ns: null, outlets: [] };
const ACCOUNT = { job: "77", watermark_ns: null, lag_ns: "1000000", received: 1000, parsed: 0, filtered: 0, sampled_out: 0, dropped: 0, undecodable: 0, lost_before_us: 0, tuples: 10, records_lost: 0, tuples_lost: 0, quality: {}, sample_rate: 1 };

/** A response with these rows, paged, sorted, and searched as requested. */
async function answering(rows, { job = JOB, account = ACCOUNT, isLive = false } = {}) {
  const at = (name) => COLUMNS.findIndex((one) => one.name === name);
  const closed = isLive ? [] : rows.slice(-1);
  const results = [{ processor: "diff-group", columns: COLUMNS, keys: 1, total: isLive ? "0" : String(rows.length), closed: { start: closed[0]?.[0] ?? null, end: closed[0]?.[1] ?? null, rows: closed }, open: { start: null, end: null, rows: [] } }];
  const snapshot = { job: "77", state: job.state, reason: null, outcome: null, account, results };
  const events = [["snapshot", snapshot]];
  // A live window has up to a thousand rows.
  for (const start of isLive ? new Set(rows.map(([start]) => start)) : []) {
    const all = rows.filter((one) => one[0] === start);
    events.push(["window", { job: "77", result: 0, start, end: all[0][1], state: "closed", rows: all.slice(0, 1000), rows_left_out: Math.max(0, all.length - 1000) }]);
  }
  const body = events.map(([kind, data], i) => `event: ${kind}\nid: 1:${i}\ndata: ${JSON.stringify(data)}\n\n`).join("");
  await page.route("**/api/v1/stream?**", () => undefined);
  await page.route("**/api/v1/stream?**", (route) => route.fulfill({ contentType: "text/event-stream", body }), { times: 1 });
  await page.route("**/api/v1/jobs/77", (route) => route.fulfill({ json: job }));
  await page.route("**/api/v1/jobs/77/agents", (route) => route.fulfill({ json: { agents: [] } }));
  await page.route("**/api/v1/jobs/77/rows?**", (route) => {
    const asked = new URL(route.request().url()).searchParams;
    const [since, before] = [asked.get("since"), asked.get("until")];
    let found = rows.filter((row) => (!since || BigInt(row[0]) >= BigInt(since)) && (!before || BigInt(row[0]) < BigInt(before)));
    const limit = Math.min(10_000, Number(asked.get("limit") ?? 1000));
    if (!asked.has("offset")) {
      const from = asked.has("after") ? Number(asked.get("after")) + 1 : 0;
      return route.fulfill({ json: { rows: found.slice(from, from + limit), next: from + limit < found.length ? String(from + limit - 1) : null, matches: null } });
    }
    const text = asked.get("find")?.toLowerCase();
    if (text) found = found.filter((row) => row[at("path")].toLowerCase().includes(text));
    if (asked.has("sort")) {
      const by = at(asked.get("sort"));
      const sign = asked.get("order") === "desc" ? -1 : 1;
      found = found.map((row, i) => [row, i]).sort(([a, i], [b, j]) => sign * (Number(a[by]) - Number(b[by])) || i - j).map(([row]) => row);
    }
    const from = Number(asked.get("offset"));
    return route.fulfill({ json: { rows: found.slice(from, from + limit), next: null, matches: String(found.length) } });
  });
  await page.goto(`${origin}/#/jobs`);
  await page.goto(`${origin}/#/job/77`);
  await page.getByRole("heading", { level: 1, name: /large/ }).waitFor();
}

const row = (start, path, count, ms, lost = null, missing = null, rough = false) => [String(start), String(start + 10n * SECOND), path, count, String(Math.round(ms * 1e6)), lost, missing, rough];
/** Restores the server's own responses when the answer is closed. */
async function away() {
  await page.goto(`${origin}/#/jobs`);
  await page.getByRole("heading", { level: 1, name: "Jobs" }).waitFor();
  await page.unrouteAll({ behavior: "ignoreErrors" });
}

/** The colors of a picture, row by row. */
async function pixels(shot) {
  const alone = await open();
  await alone.goto("about:blank");
  const found = await alone.evaluate(async (data) => {
    const image = new Image();
    image.src = `data:image/png;base64,${data}`;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [image.width, image.height];
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    const { data: all, width, height } = context.getImageData(0, 0, image.width, image.height);
    return { width, height, all: [...all] };
  }, shot.toString("base64"));
  await alone.close();
  return { ...found, at: (x, y) => found.all.slice((y * found.width + x) * 4, (y * found.width + x) * 4 + 3) };
}

await step("numbers are rounded as in the terminal", async () => {
  const { build } = await import("esbuild");
  await build({ entryPoints: [join(root, "src/common/format.ts")], outfile: join(folder, "format.mjs"), bundle: true, format: "esm", logLevel: "error" });
  const { number } = await import(join(folder, "format.mjs"));
  const cases = readFileSync(join(dirname(root), "crates/sinks/src/numbers.tsv"), "utf8").split("\n").filter(Boolean).map((line) => line.split("\t"));
  const wrong = cases.filter(([unit, value, text]) => number(unit, Number(value)) !== text).map(([unit, value, text]) => `${value} ${unit}: ${number(unit, Number(value))}, not ${text}`);
  assert(cases.length > 40 && wrong.length === 0, wrong.join("\n"));
});

await step("the server sorts and searches as requested", async () => {
  await until("windows", async () => (await api("jobs/1/rows?limit=1")).rows.length > 0);
  const all = await api("jobs/1/rows?limit=10000");
  const at = (name) => all.columns.findIndex((one) => one.name === name);
  const [start, url, p99] = ["window_start", "url_template", "p99_ns"].map(at);
  const first = all.rows[0][start];
  const mine = all.rows.filter((one) => one[start] === first && one[url].toLowerCase().includes("c")).sort((a, b) => Number(b[p99]) - Number(a[p99]));
  const told = await api(`jobs/1/rows?result=0&since=${first}&until=${BigInt(first) + 1n}&sort=p99_ns&order=desc&find=C&offset=1&limit=2`);
  assert(told.matches === String(mine.length) && JSON.stringify(told.rows) === JSON.stringify(mine.slice(1, 3)), JSON.stringify([told, mine]));
});

const PATHS = 12_000;
const SLOW = 11_321;
for (const isLive of [false, true]) await step(`12,000 paths, sorted by ${isLive ? "the server" : "the page"}: worst first, each found once`, async () => {
  const large = Array.from({ length: PATHS }, (_, i) => (i === SLOW ? row(BEGAN + 10n * SECOND, "/the/slow/one", 1, 500) : row(BEGAN + 10n * SECOND, `/p/${i}`, 1 + (i % 5), 1 + (i % 5000) / 1000)));
  await answering([row(BEGAN, "/before", 1, 900), ...large], { isLive });
  await page.locator(`.rows[aria-rowcount="${PATHS + 1}"]`).waitFor();
  const first = page.locator(".rows tbody .pick").first();
  await until("the worst", async () => (await first.textContent()) === "/the/slow/one");
  await page.getByText(isLive ? /^12000 rows, sorted and searched by the server/ : /^12000 of 12000 rows/).waitFor();
  await picture(page, "large-window");
  const expected = large.map((one, i) => [one, i]).sort(([a, i], [b, j]) => Number(b[4]) - Number(a[4]) || i - j).map(([one]) => one[2]);
  const seen = await page.evaluate(async (count) => {
    const scroll = document.querySelector(".table-scroll");
    const found = new Map();
    while (found.size < count) {
      const rows = [...document.querySelectorAll(".rows tbody tr[aria-rowindex]")];
      for (const one of rows) {
        const path = one.querySelector(".pick bdi")?.textContent;
        if (path) found.set(Number(one.getAttribute("aria-rowindex")) - 2, path);
      }
      const next = [...Array(count).keys()].find((i) => !found.has(i));
      if (next === undefined) break;
      scroll.scrollTop = next * 34;
      await new Promise((done) => setTimeout(done, 20));
    }
    return [...Array(count).keys()].map((i) => found.get(i));
  }, PATHS);
  const differs = seen.findIndex((path, i) => path !== expected[i]);
  assert(differs < 0, `row ${differs} is ${seen[differs]}, not ${expected[differs]}`);
  await page.locator(".table-scroll").evaluate((at) => (at.scrollTop = 0));
  await page.getByRole("searchbox").fill("SLOW/one");
  await page.locator('.rows[aria-rowcount="2"]').waitFor();
  await until("it is found", async () => (await first.textContent()) === "/the/slow/one");
  await page.getByRole("searchbox").fill("nobody has this");
  await page.getByText(isLive ? "The server searched all rows of the window." : "Searched all 12000 rows.").waitFor();
  await page.getByRole("searchbox").fill("");
  // A small window is sorted by the page.
  await page.locator(".strip .bars button").first().click();
  await page.getByText(/^1 of 1 rows/).waitFor();
  await away();
});

await step("50,000 rows are held, older ones are counted", async () => {
  await answering(Array.from({ length: 60_000 }, (_, i) => row(BEGAN + BigInt(Math.floor(i / 1000)) * 10n * SECOND, `/p/${i}`, 1, 1)));
  await page.getByText(/50 windows loaded; 10000 older rows/).waitFor();
  await page.locator(".strip .bars button").nth(1).click();
  await page.getByText(/^1000 of 1000 rows/).waitFor();
  // The size of the oldest window is known to the server only.
  await page.locator(".strip .bars button").first().click();
  await page.getByText(/^1000 rows, sorted and searched by the server/).waitFor();
  await away();
});

await step("incomplete windows are marked; windows are positioned by time", async () => {
  const windows = [0, 1, 2, 3, 8, 9].map((i) => row(BEGAN + BigInt(i) * 10n * SECOND, "/a", 100, 5, i === 2 ? 0.25 : null, i === 8 ? "web-1" : null, i === 0));
  await answering(windows, { account: { ...ACCOUNT, records_lost: 3 } });
  await page.getByText("3 records lost at agents since start").waitFor();
  assert((await page.locator(".chip.bad").count()) > 0, "a loss is not marked");
  const bars = page.locator(".strip .bars button");
  await page.waitForFunction(() => document.querySelectorAll(".strip .bars button").length === 6);
  const boxes = await bars.evaluateAll((all) => all.map((one) => one.getBoundingClientRect().x));
  const [one, across] = [boxes[1] - boxes[0], boxes[4] - boxes[3]];
  assert(Math.abs(across / one - 5) < 0.35, `five windows take ${across} px, one takes ${one}`);
  const red = async (i) => {
    const shot = await pixels(await bars.nth(i).screenshot());
    const [r, g] = shot.at(Math.floor(shot.width / 2), shot.height - 2);
    return r > 150 && g < 90;
  };
  assert((await red(2)) && (await red(4)) && !(await red(1)), "the mark of what is missing cannot be seen");
  await picture(page, "incomplete");
  const labels = await bars.evaluateAll((all) => all.map((one) => one.getAttribute("aria-label")));
  assert(labels.every((label, i) => label.includes("approximate") === (i === 0)), labels.join("\n"));
  await bars.nth(0).click();
  await page.locator(".chip", { hasText: "approximate" }).waitFor();
  await bars.nth(4).click();
  await page.getByText(/missing: web-1/).waitFor();
  // The selected window is shaded from its start to its end.
  await page.getByRole("button", { name: "Over time" }).click();
  await page.locator(".plot canvas").waitFor();
  await page.mouse.move(0, 0);
  await page.waitForTimeout(300);
  await picture(page, "chosen-window");
  const shot = await pixels(await page.locator(".plot .u-over").screenshot());
  const select = await page.evaluate(() => { const [, r, g, b] = /#(..)(..)(..)/.exec(getComputedStyle(document.documentElement).getPropertyValue("--select").trim()).map((hex) => parseInt(hex, 16)); return [r, g, b]; });
  const shaded = [...Array(shot.width).keys()].filter((x) => shot.at(x, 4).every((value, i) => Math.abs(value - select[i]) < 12));
  const [from, to] = [shaded[0] / shot.width, (shaded.at(-1) + 1) / shot.width];
  assert(Math.abs(from - 0.8) < 0.02 && Math.abs(to - 0.9) < 0.02, `shaded from ${from} to ${to} of the time, and it is 0.8 to 0.9`);
  await away();
});

await step("an empty result states the reason", async () => {
  const now = String(BigInt(Date.now()) * 1_000_000n);
  for (const [account, query, created, words] of [
    [{ received: 0, tuples: 0 }, JOB.query, now, "The job has just started"],
    [{ received: 0, tuples: 0 }, JOB.query, JOB.created_ns, "No packets received on the agents' interfaces"],
    [{ received: 5000, tuples: 0 }, JOB.query, JOB.created_ns, "none contain a protocol in PARSE"],
    [{ received: 5000, tuples: 7 }, "PARSE http WHERE status = 999 PROCESS (rate: w=1m)", JOB.created_ns, "WHERE excluded all of them"],
    [{ received: 5000, tuples: 7 }, "PARSE http WHERE status = 999 PROCESS (rate: w=1h)", JOB.created_ns, "The first window (1h) is still open"],
    [{ received: 5000, tuples: 7 }, "PARSE http PROCESS (rate)", JOB.created_ns, "Without w=, rows are available"],
  ]) {
    await answering([], { job: { ...JOB, query, created_ns: created }, account: { ...ACCOUNT, ...account } });
    await page.locator(".empty").getByText(words).waitFor();
    await away();
  }
  // The program itself, with a query that matches nothing.
  const job = await api("jobs", { query: "PARSE http WHERE status = 999 PROCESS (group-count: group=path, w=1s)" });
  await page.goto(`${origin}/#/job/${job.id}`);
  await page.getByText("WHERE excluded all of them").waitFor();
});

await step("an open window reports no missing agents; packets are counted", async () => {
  const job = await api("jobs", { query: "PARSE http PROCESS (group-count: group=path, w=1h)" });
  await page.goto(`${origin}/#/job/${job.id}`);
  await page.getByText(/UTC, open/).first().waitFor();
  await page.locator(".rows tbody .pick").first().waitFor();
  assert((await page.locator(".chip", { hasText: "missing" }).count()) === 0, "an agent at work is said to be missing");
  await page.locator(".chip", { hasText: "all agents" }).waitFor();
  await page.goto(`${origin}/#/network`);
  await until("a rate", async () => /^[1-9]/.test(await page.locator(".rate strong").first().textContent()));
});

await step("failed requests are retried on all pages", async () => {
  isAway = true;
  const now = BigInt(Math.floor(Date.now() / 1000)) * SECOND;
  const compared = `from=${now - 20n * SECOND}&to=${now - 10n * SECOND}&vs=before`;
  for (const [place, shown] of [
    [`job/1`, (page) => page.locator(".rows tbody .pick").first().waitFor()],
    [`job/1?${compared}`, (page) => page.locator(".compared tbody tr").first().waitFor()],
    ["map", (page) => page.locator(".edge").first().waitFor()],
    ["network", (page) => page.locator(".rate").first().waitFor()],
    ["jobs", (page) => page.locator("table tbody tr").first().waitFor()],
    ["recordings", (page) => page.getByRole("heading", { level: 1, name: "Recordings" }).waitFor()],
    ["alerts", (page) => page.getByText("No rules").waitFor()],
  ]) {
    await page.goto(`${origin}/#/access`);
    await page.getByRole("heading", { level: 1, name: "Access" }).waitFor();
    let failed = 0;
    await page.route("**/api/v1/**", (route) => { failed += 1; return route.abort(); });
    await page.goto(`${origin}/#/${place}`);
    await until(`a request that fails (${place})`, () => failed > 0);
    await page.waitForTimeout(2500);
    if (place === "job/1") {
      await page.getByText("The server is not responding").waitFor();
      await picture(page, "away");
    }
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await shown(page);
    await page.getByText("The server is not responding").waitFor({ state: "detached" });
  }
  isAway = false;
});

await step("a login link works on an open login page; a missing role is reported", async () => {
  const made = await api("tokens", { name: "looker", role: "view" });
  const context = await browser.newContext();
  const other = await context.newPage();
  await other.goto(origin);
  await other.getByLabel("Token").waitFor();
  await other.goto(`${origin}/#token=wrong`);
  await other.getByRole("alert").waitFor();
  await other.goto(`${origin}/#token=${made.secret}`);
  await other.getByRole("heading", { level: 1, name: "Query" }).waitFor();
  assert(!other.url().includes("token"), other.url());
  await other.goto(`${origin}/#/map`);
  await other.getByText("The map needs the role run").waitFor();
  assert((await other.getByText("No job stores tuples").count()) === 0, "jobs do keep tuples");
  await context.close();
});

await end(0);
