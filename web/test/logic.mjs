// Tests of the page's logic without a browser: `node web/test/logic.mjs`. Expected values come from slow, obvious versions
// and from construction.
import { build } from "esbuild";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const folder = mkdtempSync(join(tmpdir(), "netalytics-logic-"));
const SECOND = 1_000_000_000n;

function assert(is, what) {
  if (!is) throw new Error(what);
}
const same = (a, b, what = "") => assert(JSON.stringify(a) === JSON.stringify(b), `${what} ${JSON.stringify(a)}, not ${JSON.stringify(b)}`);

// The modules read the address and the storage of a browser when loaded.
globalThis.location = { hash: "" };
globalThis.addEventListener ??= () => undefined;
async function load(name) {
  const outfile = join(folder, `${name.replaceAll("/", "-")}.mjs`);
  await build({ entryPoints: [join(root, "src", `${name}.ts`)], outfile, bundle: true, format: "esm", logLevel: "error" });
  return import(outfile);
}

/** Random numbers that are equal in every run. */
function random(seed) {
  let state = seed;
  return (below) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((state / 2_147_483_648) * below);
  };
}

const tests = {
  async "data of a conversation is text or hexadecimal, and tuples belong to the turn in which they begin"() {
    const { begunIn, bytesOf, hexLines, isTextual, textLines } = await load("answers/turns");
    const hex = (text) => Buffer.from(text, "latin1").toString("hex");
    same([...bytesOf("00ff7a")], [0, 255, 122]);
    same([...bytesOf("")], []);
    same(textLines(bytesOf(hex("GET / HTTP/1.1\r\nHost: a\r\n"))), ["GET / HTTP/1.1", "Host: a"]);
    same(textLines(bytesOf(hex("\u001b[31m\\n\n")))[0], "\\x1b[31m\\n");
    same([isTextual(bytesOf(hex("+OK\r\n"))), isTextual(bytesOf("1603010200"))], [true, false]);
    same(hexLines(bytesOf(hex("0123456789abcdef\u0000z"))), ["0000  30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66  0123456789abcdef", `0010  00 7a${" ".repeat(42)}  .z`]);
    const turn = (from, first_ns, last_ns) => ({ from, first_ns, last_ns, bytes: 0, missing: 0, data: "" });
    const turns = [turn("client", "10", "20"), turn("server", "20", "30"), turn("client", "40", "40")];
    same(begunIn(turns, [{ ts: "10" }, { ts: "20" }, { ts: "40" }, { ts: "41" }]), [[{ ts: "10" }, { ts: "20" }], [], [{ ts: "40" }]]);
  },
  async "times have the precision and the dates that they need"() {
    const { axisTimes, clock, span } = await load("common/format");
    const at = (text) => String(BigInt(Date.parse(text)) * 1_000_000n);
    same(clock(at("2026-01-02T03:04:05Z")), "03:04:05");
    same(clock(at("2026-01-02T03:04:05.250Z")), "03:04:05.250");
    same(span(at("2026-01-02T03:04:05Z"), at("2026-01-02T03:04:15Z")), "2026-01-02 03:04:05–03:04:15");
    same(span(at("2026-01-02T23:59:55Z"), at("2026-01-03T00:00:05Z")), "2026-01-02 23:59:55 – 2026-01-03 00:00:05");
    const today = `${new Date().toISOString().slice(0, 10)}T01:02:03Z`;
    same(span(at(today), at(today)), "01:02:03–01:02:03");
    const seconds = (...all) => axisTimes(all.map((text) => Date.parse(text) / 1000));
    same(seconds("2026-01-02T03:00:00Z", "2026-01-02T03:01:00Z"), ["03:00", "03:01"]);
    same(seconds("2026-01-02T03:00:10Z", "2026-01-02T03:01:10Z"), ["03:00:10", "03:01:10"]);
    same(seconds("2026-01-02T03:00:00Z", "2026-01-02T03:00:00.500Z"), ["03:00:00.000", "03:00:00.500"]);
    same(seconds("2026-01-02T20:00:00Z", "2026-01-03T02:00:00Z"), ["01-02 20:00", "01-03 02:00"]);
    same(seconds("2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"), ["2026-01-02", "2026-01-03"]);
  },

  async "a logarithmic axis has round positions"() {
    const { logTicks } = await load("common/format");
    same(logTicks(3e3, 2e8), [1e4, 1e5, 1e6, 1e7, 1e8]);
    same(logTicks(0.03, 4), [0.05, 0.1, 0.2, 0.5, 1, 2]);
    same(logTicks(95, 180), [100]);
  },

  async "an alert states the same statistic of the response time and of the total time"() {
    const { besideTime } = await load("answers/alert_rule");
    const beside = (name, ...others) => besideTime(name, [name, ...others].map((name) => ({ name })));
    same(beside("p99_ns", "p50_ns", "p99_total_time_ns"), "p99_total_time_ns");
    same(beside("p99_total_time_ns", "p99_ns"), "p99_ns");
    same(beside("p99_total_time_ns", "p99_response_time_ns"), "p99_response_time_ns");
    same(beside("avg_response_time_ns", "avg_total_time_ns"), "avg_total_time_ns");
    same([beside("p50_ns", "p99_total_time_ns"), beside("count", "p99_total_time_ns"), beside("p99_bytes", "p99_total_time_ns")], [undefined, undefined, undefined]);
  },

  async "the measure is p99 of the total time, if there is one"() {
    const { Result } = await load("results/model");
    const measure = (...names) => {
      const result = new Result(0, "diff-group", names.map((name) => ({ name, type: "i64", unit: name.endsWith("_ns") ? "ns" : "", doc: "" })), 0, 0);
      return names[result.measure];
    };
    same(measure("count", "avg_ns", "p99_ns", "p99_total_time_ns"), "p99_total_time_ns");
    same(measure("count", "avg_ns", "p50_ns", "p99_ns"), "p99_ns");
  },

  async "a proposed limit is round, near, and not exceeded by the value"() {
    const { limitOf, threshold, writtenNumber } = await load("answers/alert_rule");
    const next = random(1);
    for (let i = 0; i < 2000; i += 1) {
      const value = (1 + next(999_999)) * 10 ** (next(9) - 3);
      const [above, below] = [threshold(value, true), threshold(value, false)];
      assert(above >= value && above <= value * 1.7, `${above} for ${value}`);
      assert(below <= value && below >= value / 1.7, `${below} for ${value}`);
    }
    const column = (unit) => ({ name: "p99_ns", type: "i64", unit, doc: "" });
    for (const [value, text] of [[5e7, "50ms"], [1.5e6, "1500us"], [2e9, "2s"], [700, "700ns"], [1.5e9, "1500ms"]]) {
      same(writtenNumber(column("ns"), value), text);
      same(limitOf(text), value);
    }
    same(writtenNumber(column("bytes"), 1500), "1500");
    same([limitOf("5%"), limitOf(" 2 kB "), limitOf("1e3"), limitOf("x"), limitOf(""), limitOf("5 parsecs")], [0.05, 2000, 1000, null, null, null]);
  },

  async "past alerts are those that a slow evaluation finds"() {
    const { firedIn } = await load("answers/alert_rule");
    const { Result } = await load("results/model");
    const columns = [["window_start", "i64", "epoch_ns"], ["window_end", "i64", "epoch_ns"], ["page", "text", ""], ["count", "u64", ""], ["p99_ns", "i64", "ns"]].map(([name, type, unit]) => ({ name, type, unit, doc: "" }));
    const result = new Result(0, "diff-group", columns, 1, 0);
    const next = random(7);
    for (let run = 0; run < 300; run += 1) {
      const pages = ["/a", "/b", "/c"];
      const windows = Array.from({ length: 1 + next(25) }, (_, i) => {
        const [start, end] = [String(BigInt(i) * 10n * SECOND), String(BigInt(i + 1) * 10n * SECOND)];
        const rows = pages.filter(() => next(4) > 0).map((page) => [start, end, page, next(5), next(5) === 0 ? null : String(next(100) * 1_000_000)]);
        return { start, end, open: false, rows, left: 0 };
      });
      const condition = { column: 4, isAbove: next(2) === 0, limit: next(100) * 1e6, least: next(4), group: next(3) === 0 ? "/b" : null, held: next(4) * 1e10 };
      const found = firedIn(result, windows, condition);
      // For each group and window: the number of consecutive windows up to it that meet the condition.
      const meets = (page, i) => windows[i].rows.some((row) => row[2] === page && (condition.group === null || page === condition.group) && row[3] >= condition.least && row[4] !== null && (condition.isAbove ? Number(row[4]) > condition.limit : Number(row[4]) < condition.limit));
      const expected = [];
      const firing = new Set();
      for (const page of pages) {
        for (let i = 0; i < windows.length; i += 1) {
          let began = i;
          while (began >= 0 && meets(page, began)) began -= 1;
          const length = i - began;
          if (length === 0 || length * 1e10 < condition.held) continue;
          firing.add(windows[i].start);
          const isFirst = length === 1 || (length - 1) * 1e10 < condition.held;
          if (isFirst) {
            let last = i;
            while (last + 1 < windows.length && meets(page, last + 1)) last += 1;
            expected.push({ key: page, since: windows[began + 1].start, until: windows[last].end });
          }
        }
      }
      const text = (all) => all.map((one) => JSON.stringify(one, Object.keys(one).sort())).sort();
      same(text(found.alerts), text(expected), `run ${run}:`);
      same([...found.firing].sort(), [...firing].sort());
    }
  },

  async "every service keeps a caller; a refresh keeps edges and order"() {
    const { choose, keyOf, hiddenOf } = await load("charts/graph");
    const { layers } = await load("charts/layers");
    const next = random(3);
    const edge = (client, server, count, failing = 0) => ({ client, server, service: "80 http", count, failing, rate: null, p50: null, p99: 1, total: null, bytes: null, time: null, share: null, change: null, of: [] });
    const all = Array.from({ length: 2000 }, (_, i) => edge(`c${i % 40}`, `s${i % 500}`, 1 + next(1000), i === 77 ? 1 : 0));
    const { edges, hidden } = choose(all, new Set(), 80);
    const servers = new Set(all.map(({ server }) => server));
    same(new Set(edges.map(({ server }) => server)).size, servers.size, "services:");
    same(edges.length + [...hidden.values()].reduce((sum, list) => sum + list.length, 0), all.length);
    for (const server of servers) {
      const most = Math.max(...all.filter((one) => one.server === server).map(({ count }) => count));
      assert(edges.some((one) => one.server === server && one.count === most), `the busiest caller of ${server} is not drawn`);
      same(edges.filter((one) => one.server === server).length + hiddenOf(hidden, server, "80 http").length, 4);
    }
    // Few services: failing edges first, then the busiest; numbers that change a little exchange none.
    const few = Array.from({ length: 300 }, (_, i) => edge(`c${i}`, `s${i % 5}`, 100 + next(20), i === 299 ? 1 : 0));
    const first = choose(few, new Set(), 60).edges;
    assert(first.length === 60 && first.includes(few[299]), "a failing edge is not drawn");
    const later = few.map((one) => ({ ...one, count: one.count + next(20) }));
    same(choose(later, new Set(first.map(keyOf)), 60).edges.map(keyOf).sort(), first.map(keyOf).sort(), "after a refresh:");
    // Order: known hosts stay in theirs, new ones are added.
    const pairs = (list) => list.map(({ client, server }) => ({ from: client, to: server }));
    const hosts = (list) => [...new Set(list.flatMap(({ client, server }) => [client, server]))];
    const before = layers(hosts(first), pairs(first));
    const earlier = new Map(before.flatMap((layer) => layer.map((host, i) => [host, i])));
    const more = [...first, edge("new", "s1", 5), edge("c7", "another", 5)];
    const after = layers(hosts(more), pairs(more), earlier);
    before.forEach((layer, i) => same(after[i].filter((host) => earlier.has(host)), layer, `layer ${i}:`));
    same(after.flat().length, before.flat().length + hosts(more).length - hosts(first).length);
  },

  async "examples adapt to seen protocols"() {
    const { EXAMPLES, adapted, nameOf } = await load("editor/examples");
    assert(adapted([]).every(({ isSeen }) => !isSeen), "nothing was seen");
    const found = adapted(["redis", "mysql_query"]);
    assert(found[0].query.includes("mysql_query") && found[0].isSeen, JSON.stringify(found[0]));
    assert(found.some(({ query, isSeen }) => isSeen && query.startsWith("PARSE redis ")), "a seen protocol has no example");
    assert(found.filter(({ query }) => query.includes("PARSE http")).every(({ isSeen }) => !isSeen), "http was not seen");
    for (const { question, query } of EXAMPLES) same(nameOf(` ${query.replace("PROCESS", "\n PROCESS")}`, found), question);
    same(nameOf("PARSE http", found), "");
  },

  async "a stored answer's address has absolute times"() {
    const { dated, live, windowOf, within } = await load("results/clauses");
    const own = { since: "1795647114000000001", until: "1795647124000000000" };
    const baseline = { since: "1795647104000000000", until: "1795647114000000001" };
    const times = "SINCE '2026-11-25T22:51:54.000000001Z' UNTIL '2026-11-25T22:52:04.000000000Z'";
    same(dated("PARSE http SINCE 10m WHERE status = 200 PROCESS (diff-group: w=10s)", own, null), `PARSE http WHERE status = 200 ${times} PROCESS (diff-group: w=10s)`);
    same(dated("PARSE http SINCE 1h BASELINE SINCE 3h UNTIL 2h PROCESS (rate)", own, baseline), `PARSE http ${times} BASELINE SINCE '2026-11-25T22:51:44.000000000Z' UNTIL '2026-11-25T22:51:54.000000001Z' PROCESS (rate)`);
    same(within("PARSE http LIMIT 5 ROWS PROCESS (rate: w=1s)", own), `PARSE http ${times} PROCESS (rate: w=1s)`);
    same(live("PARSE http SINCE 1h LIMIT 5 ROWS PROCESS (rate: w=1s)"), "PARSE http PROCESS (rate: w=1s)");
    same([windowOf("PARSE http PROCESS (rate: w=1s), (group-count: group=url, w = 10s, slide=1s)", 1), windowOf("PARSE http PROCESS (rate)", 0), windowOf("PARSE http", 0)], ["10s", "", ""]);
  },

  async "the builder writes parser, conditions, groups, and window"() {
    const { built, typed, usual } = await load("editor/built_query");
    const parser = { name: "http", doc: "", key: "url_template", value: "response_time_ns", version: 1, families: [], fields: [{ name: "response_time_ns", type: "i64", unit: "ns", doc: "" }] };
    same(built(usual(parser)), "PARSE http PROCESS (diff-group: group=url_template, w=10s)");
    same(built({ ...usual(parser), conditions: [{ field: "status", op: ">=", value: "500" }, { field: "host", op: "is null", value: "" }], show: "group-count-quantile", groups: ["url_template", "client_ip"], value: "total_time_ns", window: "" }), "PARSE http WHERE status >= 500 and host is null PROCESS (group-count-quantile: group=url_template, client_ip, value=total_time_ns, q=0.5, 0.99)");
    same(built({ ...usual(parser), show: "service-map", window: "1m" }), "PARSE http PROCESS (service-map: w=1m)");
    same(built({ ...usual(parser), show: "" }), "PARSE http");
    const text = { name: "url", type: "text", unit: "", doc: "" };
    same([typed(text, "it's"), typed(text, "'GET'"), typed({ ...text, type: "i64", unit: "ns" }, " 50ms ")], ["'it''s'", "'GET'", "50ms"]);
  },
};

let failed = 0;
for (const [name, test] of Object.entries(tests)) {
  try {
    await test();
    console.log(`ok ${name}`);
  } catch (error) {
    failed += 1;
    console.error(`FAILED: ${name}\n${error.stack ?? error}`);
  }
}
rmSync(folder, { recursive: true, force: true });
process.exit(failed === 0 ? 0 : 1);
