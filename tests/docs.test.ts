import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { methods } from "../src/methods/index.js";
import { taskNames } from "../src/tasks/index.js";
import { invoke } from "./cli/invoke.js";

const documents = [
  "README.md",
  "CONTRIBUTING.md",
  ...readdirSync("docs")
    .filter((name) => name.endsWith(".md"))
    .map((name) => join("docs", name)),
];
const readme = readFileSync("README.md", "utf8");

/** The rows of the table whose first heading is given, cell by cell. */
function tableOf(text: string, heading: string): string[][] {
  const lines = text.split("\n");
  const start = lines.findIndex((line) => line.startsWith(`| ${heading} |`));
  const end = lines.findIndex((line, i) => i > start && !line.startsWith("|"));
  return lines.slice(start + 2, end).map((line) => line.split(" | ").map((cell) => cell.replace(/^\| | \|$/g, "")));
}

test.each(documents)("links of %s lead to what is there", (document) => {
  const text = readFileSync(document, "utf8");
  const headings = [...text.matchAll(/^#+ (.+)$/gm)].map(
    ([, heading]) =>
      `#${heading!
        .toLowerCase()
        .replace(/[^\w -]/g, "")
        .replaceAll(" ", "-")}`,
  );
  for (const [, target] of text.matchAll(/\]\(([^)]+)\)/g)) {
    if (/^https?:/.test(target!)) continue;
    if (target!.startsWith("#")) expect(headings).toContain(target);
    else expect(existsSync(join(dirname(document), target!.split("#")[0]!)), `${document}: ${target}`).toBe(true);
  }
});

test("the table of methods is the registry's", () => {
  const rows = tableOf(readme, "method").map(([name, file, summary, paper]) => ({ name, file, summary, paper }));
  const expected = [...methods.values()].map(({ name, summary, paper }) => {
    const file = `src/methods/${name}.ts`;
    return { name: `\`${name}\``, file: `[${file}](${file})`, summary, paper };
  });
  expect(rows).toEqual(expected);
});

test("every verb is in the table of verbs, and no other", async () => {
  const { stdout } = await invoke(["--help"]);
  const verbs = [...stdout.matchAll(/^ {2}([a-z]+) (?:\[|<|\s)/gm)]
    .map(([, name]) => name!)
    .filter((name) => name !== "help");
  const told = tableOf(readme, "verb").map(([name]) => name!.replaceAll("`", ""));
  expect(told.toSorted()).toEqual(verbs.toSorted());
});

test("docs/licenses.md lists every task", () => {
  const told = tableOf(readFileSync("docs/licenses.md", "utf8"), "task").flatMap(([name]) =>
    name!.split(", ").map((task) => task.replaceAll("`", "").replace("…", "")),
  );
  const builtIn = ["spam"];
  expect(
    taskNames.filter(
      (task) =>
        !builtIn.includes(task) && !told.some((name) => (name.endsWith(":") ? task.startsWith(name) : task === name)),
    ),
  ).toEqual([]);
});

test("every folder of src/ is on the map", () => {
  const folders = readdirSync("src", { withFileTypes: true }).filter((entry) => entry.isDirectory());
  for (const { name } of folders) expect(readme).toContain(`(src/${name})`);
});

test("the citation is YAML with both papers", () => {
  const { references } = parse(readFileSync("CITATION.cff", "utf8")) as {
    references: { title: string; year: number }[];
  };
  expect(references.map(({ year }) => year)).toEqual([2021, 2022]);
});
