import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { describeAttacks } from "../src/attacks/describe-attacks.js";
import { methods } from "../src/methods/index.js";
import { taskNames } from "../src/tasks/index.js";
import { invoke } from "./cli/invoke.js";

const documents = [
  "README.md",
  "CONTRIBUTING.md",
  "CHANGELOG.md",
  "SECURITY.md",
  ...readdirSync("docs", { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md") && !name.startsWith("node_modules"))
    .map((name) => join("docs", name)),
];
const readme = readFileSync("README.md", "utf8");

/** The rows of the table whose first heading is given, cell by cell. */
function readTable(text: string, heading: string): string[][] {
  const lines = text.split("\n");
  const start = lines.findIndex((line) => line.startsWith(`| ${heading} |`));
  const end = lines.findIndex((line, i) => i > start && !line.startsWith("|"));
  return lines.slice(start + 2, end).map((line) => line.split(" | ").map((cell) => cell.replace(/^\| | \|$/g, "")));
}

test.each(documents)("links of %s lead to existing files and headings", (document) => {
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

test.each(documents)("files named in %s exist", (document) => {
  const text = readFileSync(document, "utf8");
  const paths = [...text.matchAll(/`((?:src|tests|scripts|native|examples|experiments|docs)\/[\w./-]+\.\w+)`/g)];
  const missing = paths.map(([, path]) => path!).filter((path) => !/NAME|\*/.test(path) && !existsSync(path));
  expect(missing).toEqual([]);
});

test("the README is short", () => {
  expect(readme.trimEnd().split("\n").length).toBeLessThanOrEqual(110);
});

test("the table of docs/guide/methods.md equals the registry", () => {
  const rows = readTable(readFileSync("docs/guide/methods.md", "utf8"), "method").map(
    ([name, file, summary, paper]) => ({
      name,
      file,
      summary,
      paper,
    }),
  );
  const expected = [...methods.values()].map(({ name, summary, paper }) => {
    const inFolder = `src/methods/${name}/${name}.ts`;
    const file = existsSync(inFolder) ? inFolder : `src/methods/${name}.ts`;
    return { name: `\`${name}\``, file: `[${file}](../../${file})`, summary, paper };
  });
  expect(rows).toEqual(expected);
});

test("the table of docs/guide/attacks.md equals the registry of attacks", () => {
  const rows = readTable(readFileSync("docs/guide/attacks.md", "utf8"), "attack");
  const expected = describeAttacks().map(({ name, summary, paper, differences }) => [
    ...[`\`${name}\``, summary, paper],
    differences ?? "–",
  ]);
  expect(rows).toEqual(expected);
});

test("the table of docs/reference/commands.md lists every command", async () => {
  const { stdout } = await invoke(["--help"]);
  const commands = [...stdout.matchAll(/^ {2}([a-z]+) (?:\[|<|\s)/gm)]
    .map(([, name]) => name!)
    .filter((name) => name !== "help");
  const listed = readTable(readFileSync("docs/reference/commands.md", "utf8"), "command").map(([name]) =>
    name!.replaceAll("`", ""),
  );
  expect(listed.toSorted()).toEqual(commands.toSorted());
});

test("docs/reference/licenses.md lists the license of every task", () => {
  const listed = readTable(readFileSync("docs/reference/licenses.md", "utf8"), "task").flatMap(([name]) =>
    name!.split(", ").map((task) => task.replaceAll("`", "").replace("…", "")),
  );
  const installedWithTemper = ["spam"];
  const isListed = (task: string): boolean =>
    listed.some((name) => (name.endsWith(":") ? task.startsWith(name) : task === name));
  expect(taskNames.filter((task) => !installedWithTemper.includes(task) && !isListed(task))).toEqual([]);
});

test("the map of the code lists every folder of src/", () => {
  const folders = readdirSync("src", { withFileTypes: true }).filter((entry) => entry.isDirectory());
  const map = readFileSync("docs/explanation/architecture.md", "utf8");
  for (const { name } of folders) expect(map).toContain(`\`src/${name}\``);
});

test("the README links both papers by their full titles", () => {
  const text = readme.replaceAll(/\s+/g, " ");
  expect(text).toContain("[How Should Pre-Trained Language Models Be Fine-Tuned Towards Adversarial Robustness?](http");
  expect(text).toContain("[ROSE: Robust Selective Fine-tuning for Pre-trained Language Models](http");
});

test("the citation file is YAML with both papers and the version of the package", () => {
  const { references, version } = parse(readFileSync("CITATION.cff", "utf8")) as {
    references: { title: string; year: number }[];
    version: string;
  };
  expect(references.map(({ year }) => year)).toEqual([2021, 2022]);
  expect(version).toBe((JSON.parse(readFileSync("package.json", "utf8")) as { version: string }).version);
  expect(readFileSync("CHANGELOG.md", "utf8")).toContain(`## ${version}\n`);
});

/** The TypeScript snippets of a document as files. A snippet can name its path in its first line. */
function readSnippets(document: string): Map<string, string> {
  const snippets = [...readFileSync(document, "utf8").matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(([, text]) => text!);
  return new Map(
    snippets.map((text, i) => {
      const path = /^\/\/ (\S+\.ts)\n/.exec(text)?.[1] ?? `examples/${basename(document, ".md")}-${i}.ts`;
      return [path, text];
    }),
  );
}

/** Type-checks files against the compiled types, as users of the package do. Returns the compiler's messages. */
function compile(snippets: ReadonlyMap<string, string>): string[] {
  // Inside the checkout, so that the compiler finds the packages.
  mkdirSync("build", { recursive: true });
  const folder = mkdtempSync(join("build", "snippets-"));
  try {
    for (const [path, text] of snippets) {
      mkdirSync(join(folder, dirname(path)), { recursive: true });
      writeFileSync(join(folder, path), text);
    }
    const { exports } = JSON.parse(readFileSync("package.json", "utf8")) as {
      exports: Record<string, { types: string }>;
    };
    const paths = Object.entries(exports).map(([name, { types }]) => [
      name.replace(".", "temper-nlp"),
      [resolve(types)],
    ]);
    // A snippet that names a path of src/ sees the modules beside it.
    const rootDirs = [resolve(folder, "src"), resolve("dist")];
    const compilerOptions = { noUnusedLocals: false, paths: Object.fromEntries(paths), rootDirs };
    const config = { extends: resolve("tsconfig.json"), compilerOptions, include: ["**/*.ts"], exclude: [] };
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(config));
    const { stdout } = spawnSync(
      process.execPath,
      ["node_modules/typescript-7/bin/tsc", "-p", folder, "--pretty", "false"],
      {
        encoding: "utf8",
      },
    );
    return stdout.trim().split("\n");
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test("examples/quick-start.ts contains the program of the guide", () => {
  const [text] = readSnippets("docs/guide/first-hour.md").values();
  const program = text!.slice(text!.indexOf("const run"));
  expect(program).toContain("await compare({ runs: [run.folder");
  expect(readFileSync("examples/quick-start.ts", "utf8")).toContain(program);
});

const guides = documents.filter((name) => /^(README|CONTRIBUTING)|^docs.guide/.test(name));

test("every code block of the README, the guide and CONTRIBUTING.md is executed, compiled or an output", () => {
  const tests: Readonly<Record<string, RegExp>> = {
    "tests/guide-commands.test.ts": /^sh |^yaml .*first-hour/,
    "tests/docs.test.ts": /^ts |^text /,
    "tests/examples/contributing.test.ts": /^js CONTRIBUTING/,
    "tests/examples/documents.test.ts": /^js .*(deploy|guards)|^yaml .*ci/,
    "tests/sweeps/read-sweep.test.ts": /^yaml .*(sweeps|tutorial)/,
  };
  const blocks = guides.flatMap((document) =>
    [...readFileSync(document, "utf8").matchAll(/^( *```.*)\n[\s\S]*?^ *```$/gm)].map(
      ([, start]) => `${start!.replace(/^```/, "")} ${document}`,
    ),
  );
  expect(blocks.length).toBeGreaterThan(50);
  expect(blocks.filter((block) => !Object.values(tests).some((pattern) => pattern.test(block)))).toEqual([]);
  for (const [name, pattern] of Object.entries(tests))
    for (const block of blocks.filter((each) => pattern.test(each) && /^(js|yaml)/.test(each)))
      expect(readFileSync(name, "utf8").includes(block.replace(/^.*[ /]/, "")), `${name}: ${block}`).toBe(true);
});

test("the TypeScript snippets of the README, the guide and CONTRIBUTING.md compile", () => {
  const snippets = new Map(guides.flatMap((name) => [...readSnippets(name)]));
  expect(snippets.size).toBe(4);
  // Readers define `examples` themselves; examples/quick-start.ts shows how.
  const program = "examples/first-hour-0.ts";
  snippets.set(program, `declare const examples: { text: string; label: string }[];\n${snippets.get(program)}`);
  // The last one shows that mistakes are found.
  snippets.set("examples/wrong.ts", "export const wrong: number = 'text';");
  expect(compile(snippets)).toEqual([expect.stringMatching(/examples\/wrong\.ts.*: Type 'string' is not/)]);
});
