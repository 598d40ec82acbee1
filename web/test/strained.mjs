// The page under load: `node web/test/strained.mjs PROGRAM [FOLDER FOR PICTURES] [FLAGS]`. A slow network (400 kb/s, 400
// ms) with a slow processor (a sixth), on two screen sizes. Sixty simulated updates a second must not block the main
// thread for more than a fifth of a second of CPU time.
import { createServer, request } from "node:http";
import { assert, begin, until } from "./browse.mjs";
import { longestTask } from "./tasks.mjs";

const [program, pictures, ...flags] = process.argv.slice(2);
const { folder, origin, browser, known, open, enter, api, picture, step, end } = await begin(program, pictures, flags);
const ASKED = "PARSE http PROCESS (diff-group: group=path, w=1s)";
const LONGEST_MS = 200;
const UPDATES = 60;
const GROUPS = 200;
const began = Date.now();
const page = await open();
const devtools = await page.context().newCDPSession(page);

for (const [name, width, height] of [["wide", 1920, 1080], ["small", 360, 740]]) {
  await step(`slow network and processor, ${name}: the page is usable`, async () => {
    await page.setViewportSize({ width, height });
    await devtools.send("Network.enable");
    await devtools.send("Network.clearBrowserCache");
    await devtools.send("Network.emulateNetworkConditions", { offline: false, latency: 400, downloadThroughput: 50_000, uploadThroughput: 50_000 });
    await devtools.send("Emulation.setCPUThrottlingRate", { rate: 6 });
    await page.goto("about:blank");
    await enter(page);
    if (name === "wide") {
      const editor = page.locator(".editor-host .cm-content");
      await editor.click();
      await page.keyboard.press("Control+a");
      // When text is replaced by typing, Chromium tries to keep its style, which the policy forbids.
      await page.keyboard.press("Delete");
      await page.keyboard.type(ASKED);
      await page.keyboard.press("Escape");
    } else {
      await page.goto(`${origin}/#/ask?q=${encodeURIComponent(ASKED)}`);
      await page.waitForFunction(() => document.querySelector(".editor-host")?.shadowRoot?.textContent.includes("group=path"));
    }
    await page.getByRole("button", { name: /^Run/ }).click();
    await page.waitForURL(/#\/job\/\d+/);
    await page.locator(".rows tbody .pick").first().waitFor();
    await page.getByRole("button", { name: "Over time" }).click();
    await page.locator(".plot canvas").waitFor();
    await page.getByRole("searchbox").fill("check");
    await page.getByRole("button", { name: "Table", exact: true }).click();
    await until("one row", async () => (await page.locator(".rows tbody .pick").count()) === 1);
    const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert(over <= 0, `it is ${over} px wider than the screen`);
    await picture(page, `strained-${name}`);
    await page.getByRole("button", { name: "Stop", exact: true }).click();
  });
}
await devtools.send("Network.emulateNetworkConditions", { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: -1 });
await devtools.send("Emulation.setCPUThrottlingRate", { rate: 1 });

/** The server with a simulated stream of sixty events a second. */
const columns = [["window_start", "i64", "epoch_ns"], ["window_end", "i64", "epoch_ns"], ["url", "text", ""], ["count", "u64", ""], ["p99_ns", "u64", "ns"]].map(([name, type, unit]) => ({ name, type, unit, doc: "" }));
const sent = { n: 0 };
const SECOND = 1_000_000_000n;
function stream(response, job) {
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
  const from = BigInt(Math.floor(Date.now() / 1000) - 600) * SECOND;
  const rows = (window, n) => Array.from({ length: GROUPS }, (_, i) => [String(window), String(window + SECOND), `/page/${i}`, i + n, String((i + (n % 7)) * 100_000)]);
  const tell = (kind, data) => response.write(`event: ${kind}\nid: 1:${(sent.n += 1)}\ndata: ${JSON.stringify(data)}\n\n`);
  tell("snapshot", { job, state: "running", reason: null, outcome: null, account: null, results: [{ processor: "group", columns, keys: 1, total: "0", closed: { start: null, end: null, rows: [] }, open: { start: null, end: null, rows: [] } }] });
  let n = 0;
  const timer = setInterval(() => {
    n += 1;
    const window = from + BigInt(Math.floor(n / 6)) * SECOND;
    const isClosed = n % 6 === 5;
    tell("window", { job, result: 0, state: isClosed ? "closed" : "open", start: String(window), end: String(window + SECOND), rows: rows(window, n), rows_left_out: 0 });
  }, 1000 / UPDATES);
  response.on("close", () => clearInterval(timer));
}
const before = createServer((asked, response) => {
  const url = new URL(asked.url, origin);
  if (url.pathname === "/api/v1/stream") return stream(response, url.searchParams.get("jobs"));
  const headers = { ...asked.headers, host: new URL(origin).host, ...(asked.headers.origin ? { origin } : {}) };
  const passed = request(new URL(asked.url, origin), { method: asked.method, headers }, (from) => {
    response.writeHead(from.statusCode, from.headers);
    from.pipe(response);
  });
  passed.on("error", () => response.destroy());
  asked.pipe(passed);
});
await new Promise((done) => before.listen(0, "127.0.0.1", done));
const fast = `http://127.0.0.1:${before.address().port}`;
known.add(new URL(fast).host);

for (const [view, there] of [["table", ".rows tbody tr"], ["time", ".plot canvas"]]) {
  await step(`sixty updates per second, ${view}: the page stays responsive`, async () => {
    await page.setViewportSize({ width: 1280, height: 860 });
    const id = (await api("jobs?limit=1")).jobs[0].id;
    await page.goto("about:blank");
    await enter(page, fast);
    await page.goto(`${fast}/#/job/${id}?view=${view}`);
    await page.locator(there).first().waitFor();
    const from = sent.n;
    const { cpu, wall } = await longestTask(browser, page, folder, async () => {
      await until("updates", async () => sent.n - from > 2 * UPDATES);
      // The page responds meanwhile.
      await page.getByRole("button", { name: "Pause" }).click();
      await page.getByRole("button", { name: /^Resume/ }).click();
    });
    await picture(page, `updates-${view}`);
    console.log(`   the longest task took ${cpu.toFixed(0)} ms of the processor, ${wall.toFixed(0)} ms by the clock, of ${sent.n - from} updates with ${GROUPS} rows each`);
    assert(cpu > 0 && cpu < LONGEST_MS, `a task of ${cpu.toFixed(0)} ms`);
  });
}

before.close();
before.closeAllConnections();
console.log(`all of it took ${((Date.now() - began) / 1000).toFixed(1)} s`);
await end(0);
