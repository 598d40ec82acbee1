// Large answers: `node web/test/large.mjs PROGRAM [FOLDER FOR PICTURES] [FLAGS]`. With 50,000 rows in an answer, and with
// 500 services on the map, no task of the page's main thread takes longer than a fifth of a second of CPU time, on
// slower machines in proportion. The answers are simulated.
import { assert, begin } from "./browse.mjs";
import { longestTask, slowness } from "./tasks.mjs";

const [program, pictures, ...flags] = process.argv.slice(2);
const { folder, origin, browser, open, enter, picture, step, end } = await begin(program, pictures, flags);
const LONGEST_MS = 200;
const [WINDOWS, GROUPS] = [100, 500];
const ROWS = WINDOWS * GROUPS;
const SECOND = 1_000_000_000n;
const SINCE = 1_795_647_114n * SECOND;
const began = Date.now();
const page = await open();
await enter(page);

const columnsOf = (all) => all.map(([name, type, unit]) => ({ name, type, unit, doc: "" }));
const TIMES = ["min", "avg", "max", "p50", "p95", "p99", "p99_total_time"].map((name) => [`${name}_ns`, name === "avg" ? "f64" : "i64", "ns"]);
const times = (i) => TIMES.map((_, at) => (at === 1 ? (i + 1) * 1_000.5 : String((i + 1) * 1_000 * (at + 1))));
const shuffled = (i, of) => (i * 7919) % of;
const answer = (result) => ({ job: "1", recording: null, from: "tuples", since_ns: String(SINCE), until_ns: String(SINCE + 60n * SECOND), baseline_since_ns: null, baseline_until_ns: null, tuples: ROWS, notes: [], results: [{ left_out: 0, ...result }] });
const windowed = answer({
  processor: "diff-group",
  keys: 1,
  columns: columnsOf([["window_start", "i64", "epoch_ns"], ["window_end", "i64", "epoch_ns"], ["url_template", "text", ""], ["count", "u64", ""], ...TIMES, ["approximate", "bool", ""]]),
  rows: Array.from({ length: ROWS }, (_, i) => {
    const start = SINCE + BigInt(Math.floor(i / GROUPS)) * SECOND;
    return [String(start), String(start + SECOND), `/shop/{id}/page/${i % GROUPS}`, 1 + shuffled(i, 977), ...times(shuffled(i, 9973)), false];
  }),
});
const whole = answer({
  processor: "diff-group",
  keys: 1,
  columns: columnsOf([["url_template", "text", ""], ["count", "u64", ""], ...TIMES, ["approximate", "bool", ""]]),
  rows: Array.from({ length: ROWS }, (_, i) => [`/shop/{id}/page/${i}`, 1 + shuffled(i, 977), ...times(shuffled(i, ROWS)), false]),
});
const tuples = answer({
  processor: null,
  keys: 0,
  columns: columnsOf([["id", "u64", "id"], ["ts", "i64", "epoch_ns"], ["client_ip", "ip", ""], ["server_ip", "ip", ""], ["method", "text", ""], ["url", "text", ""], ["status", "u64", ""], ["response_time_ns", "i64", "ns"], ["total_time_ns", "i64", "ns"]]),
  rows: Array.from({ length: ROWS }, (_, i) => [String(10n ** 18n + BigInt(i)), String(SINCE + BigInt(i) * 1_000_000n), `10.0.${i % 200}.${i % 250}`, "10.1.0.1", "GET", `shop.example/page/${i}`, 200, String(shuffled(i, ROWS) * 1000), String(shuffled(i, ROWS) * 1500)]),
});
const distribution = answer({
  processor: "group-hist",
  keys: 1,
  columns: columnsOf([["window_start", "i64", "epoch_ns"], ["window_end", "i64", "epoch_ns"], ["url_template", "text", ""], ["hist_ns", "json", "ns"], ["approximate", "bool", ""]]),
  rows: Array.from({ length: ROWS }, (_, i) => {
    const start = SINCE + BigInt(Math.floor(i / GROUPS)) * SECOND;
    return [String(start), String(start + SECOND), `/shop/{id}/page/${i % GROUPS}`, Array.from({ length: 6 }, (_, at) => [(at + 1) * 1_000_000 + shuffled(i, 97) * 10_000, 1 + (i % 5)]), false];
  }),
});
// 500 services of 250 hosts, called by gateways and by each other.
const address = (i) => `10.${Math.floor(i / 120)}.${Math.floor(i / 40) % 3}.${1 + (i % 40)}`;
const map = answer({
  processor: "service-map",
  keys: 3,
  columns: columnsOf([["client_ip", "ip", ""], ["server_ip", "ip", ""], ["server_port", "u64", ""], ["count", "u64", ""], ["rate", "f64", "per_second"], ["success", "f64", "fraction"], ["time_ns", "i64", "ns"], ["p50_ns", "i64", "ns"], ["p99_ns", "i64", "ns"], ["total_time_ns", "i64", "ns"], ["p99_total_time_ns", "i64", "ns"]]),
  rows: Array.from({ length: 2500 }, (_, i) => {
    const service = i % 500;
    const server = Math.floor(service / 2);
    const caller = i < 500 ? server % 7 : shuffled(i, Math.max(1, server));
    return [i < 500 ? `192.0.2.${1 + caller}` : address(caller), address(server), 8000 + (service % 2), 10 + shuffled(i, 991), 1.5, i % 50 === 7 ? 0.9 : 1, String(4_000_000 + i), "1000000", String(2_000_000 + i * 100), String(5_000_000 + i), String(3_000_000 + i * 120)];
  }),
});

let told = windowed;
await page.route("**/api/v1/query", (route) => {
  const { query, limit } = route.request().postDataJSON();
  if (/service-map/.test(query)) return route.fulfill({ json: /PARSE http\b/.test(query) ? map : answer({ ...map.results[0], rows: [] }) });
  // The tuples of a number, and their quality.
  const isDetail = /quality/.test(query) || limit === 100;
  return route.fulfill({ json: isDetail ? answer({ ...tuples.results[0], rows: tuples.results[0].rows.slice(0, limit ?? 4) }) : told });
});

const longest = [];
/** How many times slower than the reference the machine is; measured before each step. */
let factor = 1;
/** Acts, and records the longest task. */
async function timed(what, act) {
  const { cpu, wall } = await longestTask(browser, page, folder, act);
  longest.push({ what, cpu });
  console.log(`   ${String(Math.round(cpu)).padStart(5)} ms of the processor, ${String(Math.round(wall)).padStart(5)} ms by the clock, limit ${Math.round(LONGEST_MS * factor)} ms: ${what}`);
}
function judge() {
  const late = longest.splice(0).filter(({ cpu }) => !(cpu > 0 && cpu <= LONGEST_MS * factor));
  assert(late.length === 0, late.map(({ what, cpu }) => `${what}: a task of ${cpu.toFixed(0)} ms, at most ${(LONGEST_MS * factor).toFixed(0)}`).join("\n"));
}

const rows = page.locator(".rows tbody tr:not([aria-hidden])");
/** Two frames, so that what an action has caused is drawn. */
const drawn = () => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
const button = (name) => page.getByRole("button", { name, exact: true }).first();
const press = (name) => async () => {
  await button(name).click();
  await drawn();
};
/** Types a text that few rows have. */
const search = (text, field = page.getByRole("searchbox")) => async () => {
  await field.click();
  await page.keyboard.type(text, { delay: 30 });
  await drawn();
};
async function arrive(query, shows, view = "table") {
  await page.goto(`${origin}/#/jobs`);
  await page.getByRole("heading", { level: 1, name: "Jobs" }).waitFor();
  await page.evaluate((at) => (location.hash = at), `#/answer?view=${view}&q=${encodeURIComponent(query)}`);
  await page.locator(shows).first().waitFor();
  await drawn();
}

await step("50,000 rows in 100 windows: every view, order, and search", async () => {
  factor = await slowness(browser, page, folder);
  const query = "PARSE http PROCESS (diff-group: group=url_template, w=1s)";
  await timed("the rows arrive", () => arrive(query, ".rows tbody .pick"));
  await timed("sorted by count", press("count"));
  await timed("search", search("page/77"));
  await page.getByRole("searchbox").fill("");
  await timed("another window", async () => {
    await page.locator(".strip .bars button").nth(-9).click();
    await drawn();
  });
  await timed("a group is chosen", async () => {
    await page.locator(".rows tbody .pick").nth(2).click();
    await drawn();
  });
  await timed("over time", async () => {
    await button("Over time").click();
    await page.locator(".plot canvas").waitFor();
    await drawn();
  });
  await picture(page, "large-time");
  await timed("another measure over time", async () => {
    await page.getByLabel("Measure").selectOption("p50_ns");
    await drawn();
  });
  await page.getByLabel(/^Time/).selectOption("1m");
  await drawn();
  const plot = page.locator(".plot");
  await page.mouse.move(0, 0);
  const before = await plot.screenshot();
  for (const colorScheme of ["dark", "light"]) {
    await page.emulateMedia({ colorScheme });
    await drawn();
  }
  assert(before.equals(await plot.screenshot()), "another theme and back: the chart differs");
  await timed("alert, with its preview", async () => {
    await button("Alert on this").click();
    await page.getByRole("dialog").getByText(/^Would/).waitFor();
    await drawn();
  });
  judge();
});

await step("50,000 rows without windows: order, search, scrolling", async () => {
  factor = await slowness(browser, page, folder);
  told = whole;
  await timed("the rows arrive", () => arrive("PARSE http PROCESS (diff-group: group=url_template)", ".rows tbody .pick"));
  assert((await rows.count()) < 120, "rows that nobody sees are drawn");
  await timed("sorted by text", press("url template"));
  await timed("sorted by p50", press("p50"));
  await timed("search", search("page/77"));
  await page.getByRole("searchbox").fill("");
  await timed("scrolled to the end", async () => {
    await page.locator(".table-scroll").evaluate((at) => (at.scrollTop = at.scrollHeight));
    await drawn();
  });
  await timed("details of a number", async () => {
    await page.locator(".rows tbody .number").first().click();
    await page.getByRole("dialog").waitFor();
    await drawn();
  });
  await page.keyboard.press("Escape");
  judge();
});

await step("50,000 tuples: order and search", async () => {
  factor = await slowness(browser, page, folder);
  told = tuples;
  await timed("the tuples arrive", () => arrive("PARSE http", ".rows tbody tr"));
  await timed("sorted by time", press("response time"));
  await timed("search", search("page/77"));
  judge();
});

await step("50,000 distributions: heat map and distribution", async () => {
  factor = await slowness(browser, page, folder);
  told = distribution;
  const query = "PARSE http PROCESS (group-hist: group=url_template, w=1s)";
  await timed("the heat map", () => arrive(query, ".heat canvas", "heat"));
  await picture(page, "large-heat");
  await timed("the distribution", async () => {
    await button("Distribution").click();
    await page.locator(".spread canvas, .spread svg").first().waitFor();
    await drawn();
  });
  judge();
});

await step("500 services on the map: groups, hosts, search, table", async () => {
  factor = await slowness(browser, page, folder);
  const arrived = async (by) => {
    await page.goto(`${origin}/#/jobs`);
    await page.getByRole("heading", { level: 1, name: "Jobs" }).waitFor();
    await page.evaluate((at) => (location.hash = at), `#/map?by=${by}`);
    await page.locator(".edge").nth(20).waitFor();
    await page.getByText("Loading more protocols…").waitFor({ state: "detached" });
    await drawn();
  };
  await timed("the map by network", () => arrived("24"));
  await picture(page, "large-map-groups");
  await timed("the map by host", () => arrived("host"));
  const services = await page.locator(".host").count();
  assert(services > 250, `${services} hosts are drawn`);
  await picture(page, "large-map");
  await timed("an edge is chosen", async () => {
    await page.locator(".edge").nth(5).focus();
    await page.keyboard.press("Enter");
    await page.locator(".beside-map .card h2").first().waitFor();
    await drawn();
  });
  await timed("zoomed", async () => {
    for (let i = 0; i < 3; i += 1) await page.getByRole("button", { name: "Zoom in" }).click();
    await drawn();
  });
  await timed("search", search("10.1.2", page.getByPlaceholder(/^Search hosts/)));
  await page.getByPlaceholder(/^Search hosts/).fill("");
  await timed("the table of edges", async () => {
    await button("Table").click();
    await page.getByRole("region", { name: "Edges" }).waitFor();
    await drawn();
  });
  judge();
});

await page.unrouteAll({ behavior: "ignoreErrors" });
console.log(`all of it took ${((Date.now() - began) / 1000).toFixed(1)} s`);
await end(0);
