#!/usr/bin/env node
// Compares two files of record.mjs, prints what differs, grouped by attack, and exits with 1 if something does.
//   node tools/golden/compare.mjs BEFORE.json AFTER.json [--examples 3] [--json]
// Outcomes, texts, queries and numbers of edits must be equal. Other numbers may differ by a relative 1e-6, and
// probabilities in journals by their last digit, because they are rounded to six.
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: { examples: { type: "string", default: "3" }, json: { type: "boolean", default: false } },
});
if (positionals.length !== 2) {
  console.error("Usage: node tools/golden/compare.mjs BEFORE.json AFTER.json [--examples 3] [--json]");
  process.exit(2);
}
const [before, after] = positionals.map((path) => JSON.parse(readFileSync(path, "utf8")));
const tolerance = 1e-6;
const roundingTolerance = 1.5e-6;
const exactKeys = new Set(["outcome", "queries", "edits", "texts", "final", "step"]);
const roundedKeys = new Set(["before", "after", "probabilities"]);

/** @typedef {{ path: string[], before: unknown, after: unknown }} Difference */

/** @param {unknown} value @returns {value is Record<string, unknown>} */
const isObject = (value) => typeof value === "object" && value !== null;

/** @param {number} a @param {number} b @param {string[]} path */
function areClose(a, b, path) {
  if (a === b) return true;
  if (path.some((key) => exactKeys.has(key))) return false;
  const allowed = tolerance * Math.max(Math.abs(a), Math.abs(b));
  return Math.abs(a - b) <= (path.some((key) => roundedKeys.has(key)) ? Math.max(allowed, roundingTolerance) : allowed);
}

/** Lists the differences of two values. @param {unknown} a @param {unknown} b @param {string[]} path @returns {Difference[]} */
function listDifferences(a, b, path) {
  if (typeof a === "number" && typeof b === "number" && areClose(a, b, path)) return [];
  if (!isObject(a) || !isObject(b)) return a === b ? [] : [{ path, before: a, after: b }];
  // A hash of lines says no more than the lines.
  const keys = [...new Set([...Object.keys(a), ...Object.keys(b)])].filter((key) => key !== "sha256");
  return keys.flatMap((key) => listDifferences(a[key], b[key], [...path, key]));
}

/** Differences of two lists of lines, by a longest common subsequence. @param {string[]} a @param {string[]} b */
function diffLines(a, b) {
  const lengths = Array.from({ length: a.length + 1 }, () => new Uint32Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--) {
      const row = /** @type {Uint32Array} */ (lengths[i]);
      const next = /** @type {Uint32Array} */ (lengths[i + 1]);
      row[j] = a[i] === b[j] ? Number(next[j + 1]) + 1 : Math.max(Number(next[j]), Number(row[j + 1]));
    }
  const lines = [];
  for (let i = 0, j = 0; i < a.length || j < b.length; )
    if (i < a.length && j < b.length && a[i] === b[j]) [i, j] = [i + 1, j + 1];
    else if (j >= b.length || (i < a.length && Number(lengths[i + 1]?.[j]) >= Number(lengths[i]?.[j + 1])))
      lines.push(`- ${a[i++]}`);
    else lines.push(`+ ${b[j++]}`);
  return lines;
}

/** The name of what a value belongs to: a stack, an attack on a model, … @param {string[]} path */
const getGroup = ([section, name, spec]) =>
  section === "attacks" && spec ? `${section}: ${name}: ${spec}` : `${section}: ${name}`;

/** @param {unknown} value */
function format(value) {
  const text = value === undefined ? "nothing" : JSON.stringify(value);
  return text.length > 300 ? `${text.slice(0, 300)}…` : text;
}

/** @type {Map<string, Difference[]>} */
const groups = new Map();
for (const section of new Set([...Object.keys(before), ...Object.keys(after)]))
  for (const name of new Set([...Object.keys(before[section] ?? {}), ...Object.keys(after[section] ?? {})])) {
    const differences = listDifferences(before[section]?.[name], after[section]?.[name], [section, name]);
    for (const difference of differences) {
      const group = getGroup(difference.path);
      groups.set(group, [...(groups.get(group) ?? []), difference]);
    }
  }

/** Prints the differences of an attack example by example. @param {Difference[]} differences */
function printExamples(differences) {
  const limit = Number(options.examples);
  const examples = new Map();
  for (const difference of differences) {
    const [, name, spec, results, id, ...rest] = difference.path;
    if (results !== "results" || id === undefined) {
      console.log(
        `  ${difference.path.slice(2).join(" / ")}: ${format(difference.before)} -> ${format(difference.after)}`,
      );
      continue;
    }
    const lines = examples.get(id) ?? [
      `  ${id}: ${before.attacks?.[name ?? ""]?.[spec ?? ""]?.results?.[id]?.texts?.join(" | ") ?? ""}`,
    ];
    examples.set(id, [...lines, `    ${rest.join(".")}: ${format(difference.before)} -> ${format(difference.after)}`]);
  }
  for (const lines of [...examples.values()].slice(0, limit)) console.log(lines.join("\n"));
  if (examples.size > limit) console.log(`  … and ${examples.size - limit} more examples`);
}

if (options.json) console.log(JSON.stringify(Object.fromEntries(groups), null, 1));
else
  for (const [group, differences] of groups) {
    console.log(`${group}: ${differences.length} ${differences.length === 1 ? "value differs" : "values differ"}`);
    const [section = "", name = ""] = /** @type {Difference} */ (differences[0]).path;
    const [old, now] = [before[section]?.[name]?.lines, after[section]?.[name]?.lines];
    if (typeof old?.[0] === "string" && typeof now?.[0] === "string") {
      const lines = diffLines(old, now);
      console.log(
        lines
          .slice(0, 40)
          .map((line) => `  ${line}`)
          .join("\n"),
      );
      if (lines.length > 40) console.log(`  … and ${lines.length - 40} more lines`);
    } else if (section === "attacks") printExamples(differences);
    else
      for (const { path, before: was, after: is } of differences.slice(0, 8))
        console.log(`  ${path.slice(2).join(" / ")}: ${format(was)} -> ${format(is)}`);
  }
const total = [...groups.values()].reduce((sum, { length }) => sum + length, 0);
if (!options.json) console.log(total === 0 ? "No differences." : `${total} differences in ${groups.size} groups.`);
process.exitCode = total === 0 ? 0 : 1;
