// Two spam filters, one trained plainly and one to be hard to fool, and the same attack on both. All of it is done by the command line,
// whose commands are shown, so that they can be typed as well. What is done already is not done again, unless --fresh is given.
import { spawnSync } from "node:child_process";
import { rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import picocolors from "picocolors";
import { joinWords, readJournal } from "temper-nlp";

/** @typedef {import("temper-nlp").AttackResult} AttackResult */

const { values: given } = parseArgs({
  options: {
    fresh: { type: "boolean", default: false },
    seed: { type: "string", default: "0" },
    out: { type: "string", default: join("runs", "demo") },
    mails: { type: "string", default: "200" },
    set: { type: "string", multiple: true, default: [] },
  },
});
const { out, seed, mails } = given;
// By the terminal alone: left to itself the package colours a CI's log file too.
const pc = picocolors.createColors(process.stdout.isTTY === true && !process.env.NO_COLOR);
const main = resolve(import.meta.dirname, "../dist/cli/main.js");
const labels = ["ham", "spam"];
const standard = join(out, "standard");
const robust = join(out, "ascc");
const report = join(out, "report.html");
const settings = [
  "--config",
  "scripts/demo.yaml",
  "--seed",
  seed,
  ...given.set.flatMap((assignment) => ["--set", assignment]),
];

/**
 * @param {readonly string[]} args
 * @param {"inherit" | "ignore"} stdout
 */
function temper(args, stdout = "ignore") {
  console.log(pc.dim(`$ temper ${args.join(" ")}`));
  const { status } = spawnSync(process.execPath, [main, ...args], { stdio: ["ignore", stdout, "inherit"] });
  if (status !== 0) {
    console.error("\nThe demo stopped here. `make demo` goes on from it; `make demo FRESH=1` begins anew.");
    process.exit(status ?? 1);
  }
}

let step = 0;
/** @param {string} sentence */
function say(sentence) {
  console.log(`\n${pc.bold(pc.cyan(`${++step}/6`))} ${pc.bold(sentence)}`);
}

/** @param {string} folder */
async function resultsOf(folder) {
  /** @type {Map<string, AttackResult>} */
  const results = new Map();
  for await (const { result } of readJournal(join(folder, "attacks/pwws.jsonl"))) results.set(result.id, result);
  return results;
}

/** The mail that fools the plain filter with fewest changes, and not the robust one; spam before ham. */
async function tellingMail() {
  const [plain, hard] = [await resultsOf(standard), await resultsOf(robust)];
  const telling = [...plain.values()].flatMap((first) => {
    const second = hard.get(first.id);
    return first.outcome === "success" && second?.outcome === "failed" ? [{ first, second }] : [];
  });
  return telling.sort(({ first: a }, { first: b }) => b.label - a.label || a.edits.length - b.edits.length)[0];
}

const width = Math.min(process.stdout.columns || 100, 120);
const column = Math.floor((width - 3) / 2);

/**
 * A text in lines, the words at some places marked. Punctuation clings to its word, as in print.
 * @param {readonly string[]} words
 * @param {ReadonlySet<number>} marked
 * @param {number} room
 */
function wrap(words, marked, room) {
  /** @type {{ text: string, length: number }[]} */
  const chunks = [];
  words.forEach((word, i) => {
    const shown = marked.has(i) ? pc.bold(pc.underline(word)) : word;
    const before = words[i - 1] ?? "";
    const last = chunks.at(-1);
    if (last && joinWords([before, word]) === before + word) {
      last.text += shown;
      last.length += word.length;
    } else chunks.push({ text: shown, length: word.length });
  });
  /** @type {{ text: string, length: number }[]} */
  const lines = [];
  for (const chunk of chunks) {
    const line = lines.at(-1);
    if (line && line.length + 1 + chunk.length <= room) {
      line.text += ` ${chunk.text}`;
      line.length += 1 + chunk.length;
    } else lines.push({ ...chunk });
  }
  return lines;
}

/** @param {AttackResult} result */
function verdictOf({ label, before, after, outcome }) {
  const share = (/** @type {readonly number[]} */ row) => `${(100 * (row[label] ?? 0)).toFixed(0)} %`;
  const text = `${labels[label]} ${share(before)} -> ${share(after)}: ${outcome === "success" ? "fooled" : "held"}`;
  return { text: outcome === "success" ? pc.red(text) : pc.green(text), length: text.length };
}

/** @param {readonly [string, AttackResult][]} versions */
function sideBySide(versions) {
  const blocks = versions.map(([name, result]) => {
    const changed = new Set(result.edits.map(({ position }) => position));
    return [{ text: pc.bold(name), length: name.length }, verdictOf(result), ...wrap(result.final, changed, column)];
  });
  const height = Math.max(...blocks.map((block) => block.length));
  for (let i = 0; i < height; i++) {
    const cells = blocks.map((block) => block[i] ?? { text: "", length: 0 });
    console.log(
      cells
        .map(({ text, length }) => text + " ".repeat(column - length))
        .join(" | ")
        .trimEnd(),
    );
  }
}

const began = performance.now();
process.chdir(resolve(import.meta.dirname, ".."));
if (given.fresh) rmSync(out, { recursive: true, force: true });

say("Teach a small BERT to tell spam from ham in the usual way: 720 real mails, read twice.");
temper(["train", ...settings, "--out", standard, "--resume"]);

say("Teach another on the same mails that at every step meets the synonyms that mislead it most (ASCC).");
temper(["train", ...settings, "--method", "ascc:beta=4,innerSteps=3", "--out", robust, "--resume"]);

const attack = ["--attack", "pwws", "--num-examples", mails, "--seed", seed, "--resume"];
say(`Rewrite ${mails} unseen mails with synonyms from WordNet until the plain filter misreads them (PWWS).`);
temper(["attack", standard, ...attack]);

say("Try the same on the robust filter.");
temper(["attack", robust, ...attack]);

say("A mail that fools one and not the other:");
const mail = await tellingMail();
if (mail) {
  const { first: plain, second: hard } = mail;
  const changed = new Set([...plain.edits, ...hard.edits].map(({ position }) => position));
  console.log(pc.dim(`${plain.id}, original:`));
  for (const { text } of wrap(plain.words, changed, width)) console.log(text);
  console.log();
  sideBySide([
    ["standard", plain],
    ["ascc", hard],
  ]);
} else console.log("There is none among these mails.");

say("What it comes to, and a report with every attacked mail:");
temper(["compare", robust, standard], "inherit");
temper(["report", standard, robust, "--out", report]);
const seconds = Math.round((performance.now() - began) / 1000);
console.log(
  `\nDone in ${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}. The report is ${pc.bold(report)}`,
);
console.log(pc.dim(pathToFileURL(report).href));
