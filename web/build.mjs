// Bundles the page into dist/: index.html, favicon.svg, and assets/ with content hashes in their names, each with a gzip
// copy. Fails if the page exceeds its size limits.
import { build } from "esbuild";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const root = dirname(fileURLToPath(import.meta.url));
const dist = join(root, "dist");
const assets = join(dist, "assets");
/** Maximum bytes after gzip: in total, and before the editor and the charts are loaded. */
const LIMIT_ALL = 240_000;
const LIMIT_FIRST = 70_000;
/** Folders of src/ as in web/README.md: a file imports only from its own folder and those before it. */
const FOLDERS = [...readFileSync(join(root, "README.md"), "utf8").matchAll(/^\| `src\/([a-z]+)`/gm)].map(([, name]) => name);

if (existsSync(assets)) rmSync(assets, { recursive: true });
mkdirSync(assets, { recursive: true });
const result = await build({
  absWorkingDir: root,
  entryPoints: ["src/main.tsx", "src/style.css"],
  outdir: assets,
  entryNames: "[name]-[hash]",
  chunkNames: "[name]-[hash]",
  bundle: true,
  splitting: true,
  format: "esm",
  target: "es2022",
  minify: true,
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  metafile: true,
  logLevel: "warning",
});

const outputs = Object.entries(result.metafile.outputs);
const made = (entry) => basename(outputs.find(([, output]) => output.entryPoint === entry)[0]);
const page = readFileSync(join(root, "src/index.html"), "utf8")
  .replace("MAIN.js", made("src/main.tsx"))
  .replace("STYLE.css", made("src/style.css"));
writeFileSync(join(dist, "index.html"), page);
writeFileSync(join(dist, "favicon.svg"), readFileSync(join(root, "src/favicon.svg")));
writeFileSync(join(dist, "LICENSES.txt"), licenses());

let all = 0;
let first = 0;
for (const folder of [dist, assets]) {
  for (const name of readdirSync(folder)) {
    if (name.startsWith(".") || name.endsWith(".gz") || name === "assets") continue;
    const whole = readFileSync(join(folder, name));
    const small = gzipSync(whole, { level: 9, memLevel: 9 });
    writeFileSync(join(folder, `${name}.gz`), small);
    if (name.endsWith(".txt")) continue;
    all += small.length;
    if (!later().has(name)) first += small.length;
  }
}
console.log(`page: ${all} bytes in all, ${first} of them first`);
if (all > LIMIT_ALL || first > LIMIT_FIRST) {
  console.error(`page: too large; at most ${LIMIT_ALL} in all and ${LIMIT_FIRST} first`);
  process.exit(1);
}
const upward = Object.entries(result.metafile.inputs).flatMap(([file, { imports }]) => imports.filter(({ path }) => folder(file) < folder(path)).map(({ path }) => `${file} imports ${path}`));
if (upward.length > 0) {
  console.error(`page: imports against the order of folders (web/README.md):\n${upward.join("\n")}`);
  process.exit(1);
}

/** Position of a file's folder in the order of web/README.md; files of other packages come first. */
function folder(path) {
  const name = /^src\/(?:([a-z]+)\/)?/.exec(path);
  if (!name) return -1;
  const at = name[1] === undefined ? FOLDERS.length : FOLDERS.indexOf(name[1]);
  if (at < 0) throw new Error(`${path}: the folder is not in web/README.md`);
  return at;
}

/** Files that are loaded on demand: not imported by the entry. */
function later() {
  const main = outputs.find(([, output]) => output.entryPoint === "src/main.tsx")[0];
  const at_once = new Set();
  const visit = (name) => {
    if (at_once.has(name)) return;
    at_once.add(name);
    for (const { path, kind } of result.metafile.outputs[name].imports) if (kind === "import-statement") visit(path);
  };
  visit(main);
  return new Set(outputs.map(([name]) => name).filter((name) => name.endsWith(".js") && !at_once.has(name)).map((name) => basename(name)));
}

/** The licenses of all bundled packages. */
function licenses() {
  const names = new Set();
  for (const input of Object.keys(result.metafile.inputs)) {
    const found = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
    if (found) names.add(found[1]);
  }
  const texts = [...names].sort().map((name) => {
    const folder = join(root, "node_modules", name);
    const file = readdirSync(folder).find((file) => /^licen[cs]e/i.test(file));
    const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    return `${name} ${version} (${license})\n\n${file ? readFileSync(join(folder, file), "utf8").trim() : ""}\n`;
  });
  return texts.join("\n----\n\n");
}
