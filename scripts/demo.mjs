// Two spam filters, one trained in the standard way and one with ASCC, and the same attack on both. The demo only uses the command
// line and prints its commands. Finished steps are not repeated unless --fresh is given.
import { spawnSync } from "node:child_process";
import { rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import picocolors from "picocolors";
import { readJournal } from "temper-nlp/attacks";
import { formatSideBySide } from "../dist/cli/side-by-side.js";

/** @typedef {import("temper-nlp/attacks").AttackResult} AttackResult */

const { values: options } = parseArgs({
  options: {
    fresh: { type: "boolean", default: false },
    seed: { type: "string", default: "0" },
    out: { type: "string", default: join("runs", "demo") },
    "num-examples": { type: "string", default: "1000" },
    set: { type: "string", multiple: true, default: [] },
  },
});
const { out, seed, "num-examples": numExamples } = options;
// Colors only for a terminal: by default, the package also colors the log of a CI job.
const pc = picocolors.createColors(process.stdout.isTTY === true && !process.env.NO_COLOR);
const main = resolve(import.meta.dirname, "../dist/cli/main.js");
const labels = ["ham", "spam"];
const standard = join(out, "standard");
const robust = join(out, "ascc");
const report = join(out, "report.html");
const assignments = options.set.flatMap((assignment) => ["--set", assignment]);
const settings = ["--config", "scripts/demo.yaml", "--seed", seed, "--precision", "auto", ...assignments];

/**
 * @param {readonly string[]} args
 * @param {"inherit" | "ignore"} stdout
 */
function temper(args, stdout = "ignore") {
  console.log(pc.dim(`$ temper ${args.join(" ")}`));
  const { status } = spawnSync(process.execPath, [main, ...args], { stdio: ["ignore", stdout, "inherit"] });
  if (status !== 0) {
    console.error("\nThe demo stopped here. Run `make demo` to continue, or `make demo FRESH=1` to start over.");
    process.exit(status ?? 1);
  }
}

let step = 0;
/** @param {string} sentence */
function announce(sentence) {
  console.log(`\n${pc.bold(pc.cyan(`${++step}/6`))} ${pc.bold(sentence)}`);
}

/** @param {string} folder */
async function readResults(folder) {
  /** @type {Map<string, AttackResult>} */
  const results = new Map();
  for await (const { result } of readJournal(join(folder, "attacks/pwws.jsonl"))) results.set(result.id, result);
  return results;
}

/** Finds the spam that passes only the standard filter, with the fewest changes. */
async function findTellingEmail() {
  const [standardResults, robustResults] = [await readResults(standard), await readResults(robust)];
  const telling = [...standardResults.values()].flatMap((first) => {
    const second = robustResults.get(first.id);
    return first.outcome === "success" && second?.outcome === "failed" ? [{ first, second }] : [];
  });
  return telling.sort(({ first: a }, { first: b }) => a.edits.length - b.edits.length)[0];
}

const start = performance.now();
process.chdir(resolve(import.meta.dirname, ".."));
if (options.fresh) rmSync(out, { recursive: true, force: true });

announce("Fine-tune a small BERT as a spam filter with standard fine-tuning: 720 real emails, 2 epochs.");
temper(["train", ...settings, "--out", standard, "--resume"]);

announce("Fine-tune another one on the same emails with ASCC, against the worst-case synonyms at every step.");
// Two large steps of the adversary cost a fifth less than three small ones.
const method = "ascc:beta=4,innerSteps=2,innerLearningRate=3";
temper(["train", ...settings, "--method", method, "--out", robust, "--resume"]);

// Only people who write spam attack a spam filter. They may use every synonym, as in the paper of PWWS.
const synonyms = ["--min-context-similarity", "-1"];
const sample = ["--attacked-label", "spam", "--num-examples", numExamples, "--seed", seed];
const attack = ["--attack", "pwws", ...synonyms, ...sample, "--resume"];
announce("Attack the standard filter: replace words of the test spam with WordNet synonyms until it passes (PWWS).");
temper(["attack", standard, ...attack]);

announce("Attack the robust filter in the same way.");
temper(["attack", robust, ...attack]);

announce("Spam that passes only the standard filter:");
const email = await findTellingEmail();
if (email) {
  const { first, second } = email;
  console.log(pc.dim(first.id));
  console.log(formatSideBySide(process.stdout, labels, { standard: first, ascc: second }).trimEnd());
} else console.log("There is none in this sample.");

announce("The comparison, and a report with every attacked email:");
temper(["compare", robust, standard], "inherit");
temper(["report", standard, robust, "--out", report]);
const seconds = Math.round((performance.now() - start) / 1000);
const duration = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
console.log(`\nDone in ${duration}. The report is ${pc.bold(report)}`);
console.log(pc.dim(pathToFileURL(report).href));
