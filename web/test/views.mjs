// Views of results, the builder, alerts from a number: `node web/test/views.mjs PROGRAM [FOLDER FOR PICTURES] [FLAGS]`.
// Expected numbers come from the API or the program's own output.
import { spawnSync } from "node:child_process";
import { copyFileSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { assert, begin, until } from "./browse.mjs";
import { violations } from "./looks.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const [program, pictures, ...flags] = process.argv.slice(2);
const CAPTURE = join(dirname(root), "captures/shop/in.pcap");
const { folder, shelf, origin, open, enter, api, picture, step, end } = await begin(program, pictures, flags);
copyFileSync(CAPTURE, join(shelf, "shop.pcap"));
const page = await open();
await enter(page);
const editor = page.locator(".editor-host .cm-content");

/** Accessibility and width on a small, a usual, and a large screen. */
async function looksRight(name) {
  for (const [width, height] of [[390, 844], [1280, 860], [2560, 1300]]) {
    await page.setViewportSize({ width, height });
    await page.waitForTimeout(200);
    await picture(page, `${name}-${width}`);
    const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert(over <= 0, `${name} is ${over} px wider than a screen of ${width} px`);
    const found = await violations(page);
    assert(found.length === 0, `axe, ${name}, ${width} px:\n${found.join("\n")}`);
  }
  await page.setViewportSize({ width: 1280, height: 860 });
}

/** The formats of the page. */
const { build } = await import("esbuild");
await build({ entryPoints: [join(root, "src/common/format.ts")], outfile: join(folder, "format.mjs"), bundle: true, format: "esm", logLevel: "error" });
const { number } = await import(join(folder, "format.mjs"));

const job = await api("jobs", { query: "PARSE http PROCESS (diff-group: group=url_template, w=1s), (group-hist: group=url_template, w=1s)", name: "pages" });
const told = async (result = 0) => {
  const { columns, rows } = await api(`jobs/${job.id}/rows?limit=10000&result=${result}`);
  const at = (name) => columns.findIndex((column) => column.name === name);
  return { rows, at };
};

await step("over time: the legend has the numbers of the API; logarithmic axis; a shorter time", async () => {
  await until("ten windows", async () => { const { rows, at } = await told(); return new Set(rows.map((row) => row[at("window_start")])).size > 10; });
  await page.goto(`${origin}/#/job/${job.id}?view=time&measure=p99_ns`);
  await page.locator(".plot canvas").waitFor();
  await page.getByRole("button", { name: "Pause" }).click();
  await page.locator(".strip .bars button").nth(4).click();
  await page.mouse.move(0, 0);
  const when = (await page.locator(".legend .when").textContent()).slice(0, 8);
  const legend = await page.locator(".legend tbody tr").evaluateAll((all) => all.map((row) => [row.querySelector("bdi").textContent, ...[...row.querySelectorAll("td")].map((cell) => cell.textContent)]));
  const { rows, at } = await told();
  const shownWindows = await page.locator(".strip .bars button:not(.open)").evaluateAll((all) => all.map((one) => one.getAttribute("aria-label").slice(0, 8)));
  const clock = (row) => new Date(Number(BigInt(row[at("window_start")]) / 1_000_000n)).toISOString().slice(11, 19);
  for (const [group, value, lowest, highest] of legend) {
    const own = rows.filter((row) => row[at("url_template")] === group && shownWindows.includes(clock(row)));
    const values = own.map((row) => Number(row[at("p99_ns")]));
    const now = own.find((row) => clock(row) === when);
    const expected = [now ? number("ns", Number(now[at("p99_ns")])) : "–", number("ns", Math.min(...values)), number("ns", Math.max(...values))];
    assert(JSON.stringify([value, lowest, highest]) === JSON.stringify(expected), `${group} at ${when}: ${[value, lowest, highest]}, not ${expected}`);
  }
  assert(legend.length >= 5, JSON.stringify(legend));
  await page.keyboard.press("g");
  await page.waitForURL(/scale=log/);
  assert(await page.getByLabel("Logarithmic").isChecked(), "the axis is not logarithmic");
  await looksRight("views-time");
  await page.locator("label", { hasText: /^Time/ }).locator("select").selectOption("1m");
  await page.waitForURL(/last=1m/);
  await page.getByRole("button", { name: /Resume/ }).click();
});

await step("keys select views, windows, the axis, and pause", async () => {
  await page.goto(`${origin}/#/job/${job.id}`);
  await page.locator(".rows tbody .pick").first().waitFor();
  await page.locator(".strip .bars button").nth(2).waitFor();
  const pressed = () => page.locator(".segmented [aria-pressed=true]").first().textContent();
  for (const [key, title] of [["2", "Over time"], ["3", "Distribution"], ["4", "Heat map"], ["1", "Table"]]) {
    await page.keyboard.press(key);
    await until(title, async () => (await pressed()) === title);
  }
  await page.keyboard.press("2");
  await page.keyboard.press("g");
  await page.waitForURL(/scale=log/);
  assert(await page.getByLabel("Logarithmic").isChecked(), "the axis is not logarithmic");
  await page.keyboard.press("g");
  await page.keyboard.press("[");
  await page.waitForURL(/at=\d+/);
  const at = () => BigInt(/at=(\d+)/.exec(page.url())[1]);
  // A key that comes before the page is rendered again repeats the last step.
  const move = async (key, isThere) => until(`a window by ${key}`, async () => (await page.keyboard.press(key), isThere()));
  const first = at();
  await move("[", () => at() < first);
  const second = at();
  await move("]", () => at() > second);
  await page.keyboard.press("Space");
  await page.getByText(/paused/).waitFor();
  await page.keyboard.press("Space");
  await page.getByText(/paused/).waitFor({ state: "detached" });
});

await step("a comparison draws the earlier period in the same chart", async () => {
  const { rows, at } = await until("enough windows", async () => { const all = await told(); return all.rows.length > 0 && BigInt(all.rows.at(-1)[all.at("window_end")]) - BigInt(all.rows[0][all.at("window_start")]) > 16_000_000_000n && all; });
  const to = BigInt(rows.at(-1)[at("window_start")]);
  const from = to - 6_000_000_000n;
  await page.goto(`${origin}/#/job/${job.id}?view=time&measure=count&from=${from}&to=${to}&vs=before`);
  await page.getByRole("columnheader", { name: "earlier lowest" }).waitFor();
  const shown = await page.locator(".legend tbody tr").evaluateAll((all) => all.map((row) => [row.querySelector("bdi").textContent, [...row.querySelectorAll("td")].map((cell) => cell.textContent).slice(-2)]));
  const before = await api("query", { query: `PARSE http SINCE '${new Date(Number((from - 6_000_000_000n) / 1_000_000n)).toISOString()}' UNTIL '${new Date(Number(from / 1_000_000n)).toISOString()}' PROCESS (diff-group: group=url_template, w=1s)` });
  const result = before.results[0];
  const place = (name) => result.columns.findIndex((column) => column.name === name);
  for (const [group, [lowest, highest]] of shown) {
    const counts = result.rows.filter((row) => row[place("url_template")] === group).map((row) => row[place("count")]);
    const expected = counts.length === 0 ? ["–", "–"] : [String(Math.min(...counts)), String(Math.max(...counts))];
    assert(lowest === expected[0] && highest === expected[1], `${group}: ${[lowest, highest]}, not ${expected}`);
  }
  assert(shown.length >= 5, JSON.stringify(shown));
  await page.locator("figure.chart").scrollIntoViewIfNeeded();
  await looksRight("views-compared");
});

await step("heat maps of several groups share one scale", async () => {
  await page.goto(`${origin}/#/job/${job.id}?view=heat&result=1`);
  await page.locator(".heat canvas").nth(4).waitFor();
  assert((await page.locator(".heat figure").count()) === 5, "four groups and a scale were expected");
  await page.getByRole("img", { name: /^Color scale: values per cell, from dark for 0 to bright for \d+$/ }).waitFor();
  await looksRight("views-heat");
});

await step("a recording has all views, files, and a link that reads it again", async () => {
  const query = "PARSE http PROCESS (diff-group: group=url_template, w=100ms)";
  const recording = (await api("recordings")).recordings.find(({ name }) => name === "shop.pcap").id;
  await page.goto(`${origin}/#/ask?in=${recording}&q=${encodeURIComponent(query)}`);
  await page.waitForFunction((query) => document.querySelector(".editor-host")?.shadowRoot?.querySelector(".cm-content")?.textContent === query, query);
  await page.getByRole("button", { name: /^Run/ }).click();
  await page.waitForURL(/#\/answer\?/);
  await page.locator(".rows tbody .pick").first().waitFor();
  await looksRight("views-recording");
  const { stdout } = spawnSync(program, ["query", query, "-r", CAPTURE, "-q", "--format", "jsonl"], { encoding: "utf8", maxBuffer: 1 << 26 });
  const rows = stdout.split("\n").filter(Boolean).map((line) => JSON.parse(line));
  const windows = [...new Set(rows.map((row) => row.window_start))].sort();
  await page.getByText(new RegExp(`${windows.length} windows loaded`)).waitFor();
  await page.locator(".strip .bars button").first().click();
  const first = rows.filter((row) => row.window_start === windows[Math.max(0, windows.length - 90)]);
  const counts = await page.evaluate(() => [...document.querySelectorAll(".rows tbody tr:not([aria-hidden])")].map((row) => [row.querySelector(".pick bdi").textContent, row.querySelectorAll("td")[1].textContent.replace("~", "")]));
  const sorted = (all) => JSON.stringify([...all].sort());
  assert(sorted(counts) === sorted(first.map((row) => [row.url_template, String(row.count)])), `${sorted(counts)}\n${sorted(first.map((row) => [row.url_template, row.count]))}`);
  await page.getByRole("button", { name: "Over time" }).click();
  await page.locator(".plot canvas").waitFor();
  await page.waitForURL(/view=time/);
  const link = page.url();
  await page.goto(`${origin}/#/jobs`);
  await page.goto(link);
  await page.locator(".plot canvas").waitFor();
  const coming = page.waitForEvent("download");
  await page.getByRole("button", { name: "Save as HTML" }).click();
  const path = join(folder, "recording.html");
  await (await coming).saveAs(path);
  const text = readFileSync(path, "utf8");
  for (const words of [query.replaceAll("'", "&#39;"), "Period", "UTC", link.split("#")[0]]) assert(text.includes(words), `the file lacks ${words}`);
});

await step("a query with a relative time has a link with absolute times", async () => {
  const jobs = (await api("jobs?limit=1000")).jobs.length;
  await page.goto(`${origin}/#/answer?q=${encodeURIComponent("PARSE http SINCE 10m PROCESS (group-count: group=url_template, w=1s)")}`);
  await page.locator(".rows tbody .pick").first().waitFor();
  const query = new URLSearchParams(page.url().split("?")[1]).get("q");
  assert(/^PARSE http SINCE '\d{4}-.*Z' UNTIL '\d{4}-.*Z' PROCESS/.test(query), query);
  const rows = () => page.locator(".foot-note").textContent();
  // Rows of the last seconds before the query may still be stored after it.
  let before, after = await rows();
  for (let reloads = 0; reloads < 5 && before !== after; reloads++) {
    before = after;
    await page.reload();
    await page.locator(".rows tbody .pick").first().waitFor();
    after = await rows();
  }
  assert(before === after, "the same link shows other rows");
  assert((await api("jobs?limit=1000")).jobs.length === jobs, "a link has started a job");
});

await step("an alert from a number: proposed limit, preview, badge", async () => {
  await page.goto(`${origin}/#/job/${job.id}?measure=p99_ns`);
  await page.getByRole("button", { name: "Table", exact: true }).click();
  const row = page.locator(".rows tbody tr").filter({ has: page.getByText("/checkout", { exact: true }) });
  await row.locator("td.measure .number").click();
  await page.getByRole("dialog").getByRole("button", { name: "Alert on this" }).click();
  const dialog = page.getByRole("dialog", { name: "Alert on this" });
  await dialog.waitFor();
  assert((await dialog.getByLabel("Limit").inputValue()) === "200ms", await dialog.getByLabel("Limit").inputValue());
  await dialog.getByText("Would not have fired").waitFor();
  await dialog.getByLabel("Limit").fill("100ms");
  await dialog.getByText(/^Would have fired/).first().waitFor();
  const { rows, at } = await told();
  const met = new Set(rows.filter((one) => one[at("url_template")] === "/checkout" && Number(one[at("p99_ns")]) > 100e6).map((one) => one[at("window_start")])).size;
  const said = Number(/condition met in (\d+)/.exec(await dialog.textContent())[1]);
  assert(Math.abs(said - met) <= 3 && said > 3, `condition met in ${said} windows, and it is ${met}`);
  await looksRight("views-alert");
  await dialog.getByLabel("Name").fill("slow checkout");
  await dialog.getByRole("button", { name: "Create rule" }).click();
  await page.getByRole("dialog", { name: "Alert rule created" }).waitFor();
  const { rules } = await api("alert-rules");
  assert(rules.length === 1 && rules[0].rule.when === "p99_ns > 100ms WHERE url_template = '/checkout'", JSON.stringify(rules));
  assert(rules[0].rule.annotations.summary === "{url_template}: p99 is {p99_ns}, p99 total time {p99_total_time_ns}", JSON.stringify(rules[0].rule.annotations));
  const alert = await until("an alert", async () => (await api("alerts?rule=slow%20checkout")).alerts.find(({ labels }) => labels.url_template));
  assert(/^\/checkout: p99 is \d+ ms, p99 total time \d+ ms$/.test(alert.annotations.summary), alert.annotations.summary);
  await page.keyboard.press("Escape");
  await page.getByRole("navigation").getByText("firing").waitFor({ state: "attached" });
  await page.goto(`${origin}/#/job/${rules[0].job_id}`);
  await page.getByRole("link", { name: /1 alert firing/ }).waitFor();
  await looksRight("views-firing");
});

await step("the builder writes a valid query with the most frequent values", async () => {
  await page.goto(`${origin}/#/ask?build=1&q=${encodeURIComponent("PARSE http PROCESS (rate: w=1s)")}`);
  const builder = page.getByRole("region", { name: "Query builder" });
  await builder.waitFor();
  await builder.getByLabel("Field").selectOption("method");
  await builder.getByRole("button", { name: /^'GET'/ }).click();
  const wants = async (text) => page.waitForFunction((text) => document.querySelector(".editor-host").shadowRoot.querySelector(".cm-content").textContent === text, text, { timeout: 8000 }).catch(async () => { throw new Error(`${await editor.textContent()}, not ${text}`); });
  await wants("PARSE http WHERE method = 'GET' PROCESS (diff-group: group=url, w=10s)");
  await builder.getByLabel("Field").selectOption("response_time_ns");
  await builder.getByLabel("Value").fill("1ms");
  await builder.getByRole("button", { name: "Add condition" }).click();
  await builder.getByLabel("Show").selectOption("group-count-quantile");
  await builder.getByLabel("Add a group").selectOption("client_ip");
  await builder.getByLabel("Window").selectOption("1s");
  await wants("PARSE http WHERE method = 'GET' and response_time_ns > 1ms PROCESS (group-count-quantile: group=url, client_ip, q=0.5, 0.99, w=1s)");
  await page.locator(".plan svg").waitFor();
  await looksRight("views-builder");
  // Every kind of every parser is a valid query.
  await build({ entryPoints: [join(root, "src/editor/built_query.ts"), join(root, "src/editor/examples.ts")], outdir: folder, outExtension: { ".js": ".mjs" }, bundle: true, format: "esm", logLevel: "error" });
  const { built, kindsOf, usual } = await import(join(folder, "built_query.mjs"));
  const { adapted } = await import(join(folder, "examples.mjs"));
  const { parsers } = await api("catalog");
  const queries = [...adapted(parsers.map(({ name }) => name)).map(({ query }) => query), ...parsers.flatMap((parser) => kindsOf(parser).map(({ name }) => built({ ...usual(parser), show: name })))];
  const refused = [];
  for (const text of new Set(queries)) {
    const { diagnostics } = await api("check", { text });
    if (diagnostics.length > 0) refused.push(`${text}: ${diagnostics[0].message}`);
  }
  assert(refused.length === 0, refused.join("\n"));
});

await step("examples are those of the network; they name their jobs; typing over a selection keeps the policy", async () => {
  await page.goto(`${origin}/#/ask`);
  await page.reload();
  await editor.waitFor();
  await page.getByText("Seen on the network").waitFor();
  await page.getByRole("button", { name: /^Slowest SQL statements/ }).click();
  await page.getByRole("button", { name: /^Run/ }).click();
  await page.getByRole("heading", { level: 1, name: /^Slowest SQL statements/ }).waitFor();
  await page.goto(`${origin}/#/ask`);
  await editor.click();
  await page.keyboard.press("Control+a");
  await page.keyboard.type("PARSE dns", { delay: 10 });
  assert((await editor.textContent()) === "PARSE dns", await editor.textContent());
});

await step("the map zooms and lists failing beside slow edges", async () => {
  await page.goto(`${origin}/#/map`);
  await page.locator(".edge").nth(3).waitFor();
  await page.getByRole("heading", { name: "Failing" }).waitFor();
  await page.getByRole("heading", { name: "Slowest" }).waitFor();
  const svg = page.locator(".map-scroll svg");
  await page.getByRole("button", { name: /original size/ }).click();
  const before = Number(await svg.getAttribute("width"));
  await page.getByRole("button", { name: "Zoom in" }).click();
  await until("a larger map", async () => Math.abs(Number(await svg.getAttribute("width")) / before - 1.25) < 0.01);
  await page.getByRole("region", { name: "Map" }).focus();
  await page.keyboard.press("0");
  await until("a map that fits", async () => page.evaluate(() => { const at = document.querySelector(".map-scroll"); return at.scrollWidth <= at.clientWidth; }));
  await page.keyboard.press("2");
  await page.getByRole("region", { name: "Edges" }).waitFor();
  await page.keyboard.press("1");
  await looksRight("views-map");
});

await end(0);
