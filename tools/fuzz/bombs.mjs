// node tools/fuzz/bombs.mjs [WORD…]: small hostile inputs that aim at time, memory or the stack. Each is
// given to the real command, which must end within 20 s of processor time and 1.5 GB, with an answer or a clear error.
import { spawn } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { writeSeeds } from "./seeds.mjs";
import { sealLines } from "./targets.mjs";

const root = resolve(import.meta.dirname, "../..");
const seeds = join(root, "build", "fuzz", "seeds");
const work = mkdtempSync(join(tmpdir(), "temper-bombs-"));
const maxSeconds = 20;
const maxKilobytes = 1.5e6;
Object.assign(process.env, { OMP_NUM_THREADS: "1", HF_HUB_OFFLINE: "1", TEMPER_CACHE: join(work, "cache") });
await writeSeeds(seeds, (path) => import(`${root}/dist/${path}.js`), join(root, "tests", "fixtures"));

const brackets = (count) => "[".repeat(count) + "]".repeat(count);
const nested = (count) => `{"format":${brackets(count)}}`;
const laughs = [..."abcdefghi"]
  .map((key, i) => `${key}: &${key} [${new Array(9).fill(i === 0 ? "x" : `*${"abcdefghi"[i - 1]}`).join(",")}]`)
  .join("\n");
const keys = (count) => `model: x\n${Array.from({ length: count }, (_, i) => `k${i}: 1`).join("\n")}\n`;
const table = ["--data", join(seeds, "reviews.tsv"), "--text-column", "text", "--label-column", "label"];
const cpu = ["--device", "cpu", "--threads", "1", "--quiet"];

function write(folder, name, content) {
  mkdirSync(dirname(join(folder, name)), { recursive: true });
  writeFileSync(join(folder, name), content);
  return join(folder, name);
}

/** A command on a config or a sweep. */
const config = (text) => (folder) => ["train", "--config", write(folder, "c.yaml", text), "--out", join(folder, "out")];
const sweep = (text) => (folder) => ["sweep", write(folder, "s.yaml", text), "--dry-run", "--no-estimate"];
const grid = (content) => `model: ${seeds}/bert-tiny\ndata: ${seeds}/reviews.tsv\ngrid:\n${content}\n`;

/** A command on a copy of the run in which one file is changed. */
const run = (command, name, change) => (folder) => {
  const copy = join(folder, "runs", "one");
  cpSync(join(seeds, "runs/one"), copy, { recursive: true });
  const path = join(copy, name);
  const content = change(readFileSync(path), path);
  if (content !== undefined) writeFileSync(path, content);
  return command(copy, folder);
};
const listRuns = (copy) => ["runs", dirname(copy)];
const report = (copy, folder) => ["report", copy, "--out", join(folder, "r.html")];
const verify = (copy) => ["verify", join(copy, "attacks/pwws.jsonl"), "--model", copy, ...cpu];
const predict = (copy) => ["predict", join(copy, "model"), ...cpu];
const evaluate = (copy) => ["evaluate", join(copy, "model"), ...table, ...cpu];
const resume = (copy) => ["train", "--resume", "--out", copy, "--quiet"];
const changeJson = (change) => (bytes) => {
  const value = JSON.parse(bytes);
  change(value);
  return JSON.stringify(value);
};
const changeJournal = (change) => (bytes) => {
  const lines = bytes.toString().trimEnd().split("\n");
  const values = lines.map((line) => JSON.parse(line.replace(/,"checksum":"\w+"\}$/, "}")));
  change(values);
  return sealLines(values.map((value) => JSON.stringify(value)));
};
const allNaN = (bytes) => {
  for (let i = 8 + Number(bytes.readBigUInt64LE()); i + 4 <= bytes.length; i += 4) bytes.writeFloatLE(Number.NaN, i);
  return bytes;
};
const linkTo = (target) => (_, path) => {
  rmSync(path);
  symlinkSync(target, path);
};
const journal = "attacks/pwws.jsonl";
const newestState = "checkpoints/step-00000008/state.json";

/** A table with a task of its own. */
const data =
  (name, content, more = []) =>
  (folder) => [...["evaluate", join(seeds, "runs/one/model"), "--data", write(folder, name, content), ...more, ...cpu]];
const tenths = Array.from({ length: 10 }, (_, i) => (i + 1) / 20).join(", ");
const fractions = ["epochs", "learningRate", "weightDecay", "warmupRatio", "adamBeta1", "adamBeta2", "maxGradNorm"];

const bombs = {
  "yaml: aliases of aliases in a config": config(laughs),
  "yaml: aliases of aliases in a run": run(listRuns, "config.yaml", () => laughs),
  "yaml: alias without a target in a run": run(listRuns, "config.yaml", () => "model: *x\n"),
  "yaml: circle in a config": config("model: &a [*a]\n"),
  "yaml: circle in a sweep": sweep("model: x\nrows: &r { a: *r }\n"),
  "yaml: 100,000 open brackets": config(`model: ${"[".repeat(100_000)}`),
  "yaml: 20,000 levels": config(`model: ${brackets(20_000)}`),
  "yaml: 30,000 unknown keys": config(keys(30_000)),
  "yaml: key of 1 MB": config(`model: x\n? "${"k".repeat(1e6)}"\n: 1\n`),
  "yaml: 10^9 runs": sweep(grid([...fractions, "a", "b"].map((key) => `  train.${key}: [${tenths}]`).join("\n"))),
  "yaml: 10^7 runs": sweep(grid(fractions.map((key) => `  train.${key}: [${tenths}]`).join("\n"))),
  "yaml: 300,000 values": sweep(grid(`  maxTrainSamples: [${Array.from({ length: 300_000 }, (_, i) => i + 1)}]`)),
  "json: config.json of 20,000 levels": run(predict, "model/config.json", () => nested(20_000)),
  "json: config.json of 5,000,000 brackets": run(predict, "model/config.json", () => "[".repeat(5e6)),
  "json: results.json of 20,000 levels": run(listRuns, "results.json", () => nested(20_000)),
  "model: NaN weights, predict": run(predict, "model/model.safetensors", allNaN),
  "model: NaN weights, evaluate": run(evaluate, "model/model.safetensors", allNaN),
  "model: 2^31 - 1 layers": run(
    predict,
    "model/config.json",
    changeJson((value) => (value.num_hidden_layers = 2_147_483_647)),
  ),
  "model: 200,000 labels": run(
    predict,
    "model/config.json",
    changeJson((value) => (value.id2label = Object.fromEntries(Array.from({ length: 2e5 }, (_, i) => [i, `l${i}`])))),
  ),
  "model: two labels of one name": run(
    predict,
    "model/config.json",
    changeJson((value) => (value.id2label = { 0: "x", 1: "x", 2: "y" })),
  ),
  "journal: 10^9 words, report": run(
    report,
    journal,
    changeJournal((lines) => (lines[1].fieldSizes = [1e9])),
  ),
  "journal: 10^9 words, verify": run(
    verify,
    journal,
    changeJournal((lines) => (lines[1].fieldSizes = [1e9])),
  ),
  "journal: 500,000 empty fields": run(
    verify,
    journal,
    changeJournal((lines) => (lines[1].fieldSizes = [...lines[1].fieldSizes, ...new Array(500_000).fill(0)])),
  ),
  "journal: no settings": run(
    verify,
    journal,
    changeJournal((lines) => delete lines[0].settings),
  ),
  "journal: no hashes": run(
    verify,
    journal,
    changeJournal((lines) => delete lines[0].hashes),
  ),
  "journal: three texts": run(
    verify,
    journal,
    changeJournal((lines) => lines[1].texts.push("x", "y")),
  ),
  "journal: other queries": run(
    verify,
    journal,
    changeJournal((lines) => (lines[1].queries = 1)),
  ),
  "run: endless losses": run(report, "events.jsonl", (bytes) => `${bytes}{"step":1e308,"loss":1e999}\n`),
  "run: events.jsonl is /dev/zero": run(listRuns, "events.jsonl", linkTo("/dev/zero")),
  "run: config.json is /dev/zero": run(predict, "model/config.json", linkTo("/dev/zero")),
  "run: an empty environment": run(resume, "environment.json", () => "{}"),
  "run: hashes that name /dev/zero": run(
    resume,
    newestState,
    changeJson((value) => (value.hashes = { "../../../../../../../../dev/zero": "0" })),
  ),
  "run: an epoch of 10^15": run(
    resume,
    newestState,
    changeJson((value) => (value.state.epoch = 1e15)),
  ),
  "table: 5 MB of quotes": data("t.csv", `text,label\n${'"'.repeat(5e6)}`),
  "table: 1,000,000 columns": data("t.csv", `${",".repeat(1e6)}\n${",".repeat(1e6)}\n`),
  "table: a new key in each of 20,000 rows": data(
    "t.jsonl",
    Array.from({ length: 20_000 }, (_, i) => JSON.stringify({ [`k${i}`]: i })).join("\n"),
  ),
  "text: 16 MB without a space": () => [...["predict", join(seeds, "runs/one/model")], ...cpu],
};
const inputs = {
  "text: 16 MB without a space": "theandofinhe".repeat(16e6 / 12),
};

/** The processor time of a process in seconds, and the most memory in kilobytes. */
function readUse(pid, before) {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const peak = Math.max(before, Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0));
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  // In hundredths of a second, of the program and of the system for it.
  return { seconds: (Number(fields[11]) + Number(fields[12])) / 100, peak };
}

/** Runs a command. Returns how it ended, its seconds and its memory. */
function runCommand(args, input) {
  return new Promise((done) => {
    const started = performance.now();
    const child = spawn(process.execPath, [join(root, "dist/cli/main.js"), ...args], { cwd: work });
    let [output, reason, peak] = ["", null, 0];
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (chunk) => (output = (output + chunk).slice(0, 1e6)));
    child.stdin.on("error", () => undefined);
    child.stdin.end(input);
    let seconds = 0;
    const timer = setInterval(() => {
      try {
        ({ seconds, peak } = readUse(child.pid, peak));
      } catch {
        // It has just ended.
      }
      if (seconds > maxSeconds || performance.now() - started > 15_000 * maxSeconds)
        reason = `more than ${maxSeconds} s`;
      if (peak > maxKilobytes) reason = "more than 1.5 GB";
      if (reason) child.kill("SIGKILL");
    }, 50);
    child.once("close", (code, signal) => {
      clearInterval(timer);
      if (reason === null && signal) reason = `signal ${signal}`;
      if (reason === null && ![0, 1, 2].includes(code)) reason = `exit code ${code}`;
      if (/This is a bug|^\s+at .*:\d+:\d+|undefined 0\.0000/m.test(output)) reason ??= "a raw error";
      if (code !== 0 && output.length > 20_000) reason ??= `a message of ${output.length} characters`;
      done({ reason, code, seconds, peak, output });
    });
  });
}

let failures = 0;
const words = process.argv.slice(2);
const selected = Object.entries(bombs).filter(([name]) => words.every((word) => name.includes(word)));
for (const [i, [name, make]] of selected.entries()) {
  const folder = join(work, String(i));
  mkdirSync(folder);
  const { reason, code, seconds, peak, output } = await runCommand(make(folder), inputs[name] ?? "a good film\n");
  if (reason) failures++;
  const end = reason ? `FAILED, ${reason}` : `exit code ${code}`;
  const size = `${seconds.toFixed(1)} s, ${Math.round(peak / 1024)} MB`;
  console.log(`${name}: ${end}, ${size}: ${output.trim().slice(0, 160).replaceAll("\n", " / ")}`);
  rmSync(folder, { recursive: true });
}
console.log(`${selected.length} bombs, ${failures} failures`);
rmSync(work, { recursive: true });
process.exit(failures > 0 ? 1 : 0);
