import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

/** A file and names in it, as a document quotes them: `path` `name` `name` … */
interface Reference {
  readonly file: string;
  readonly names: string[];
}

/** The references of one line. Names belong to the file before them. */
function readReferences(line: string): Reference[] {
  const found: Reference[] = [];
  for (const [, quoted] of line.matchAll(/`([^`]+)`/g)) {
    if (/^(src|tests)\/.+\.ts$/.test(quoted!)) found.push({ file: quoted!, names: [] });
    else if (/^\w+$/.test(quoted!)) found.at(-1)?.names.push(quoted!);
  }
  return found;
}

function expectToExist({ file, names }: Reference): void {
  expect(existsSync(file), file).toBe(true);
  const text = readFileSync(file, "utf8");
  for (const name of names)
    expect(text, `${file}: ${name}`).toMatch(new RegExp(`\\b(function\\*?|class|const) ${name}\\b|\\b${name}\\(`));
}

test("every equation of docs/explanation/fidelity.md leads to a file and to a name in it", () => {
  const rows = readFileSync("docs/explanation/fidelity.md", "utf8")
    .split("\n")
    .filter((line) => line.startsWith("|"));
  const references = rows.flatMap((row) => readReferences(row.split(/(?<!\\)\|/).at(-2) ?? ""));
  expect(references).not.toEqual([]);
  references.forEach(expectToExist);
});

test("docs/explanation/fidelity.md has a verdict and a place in the code for each point", () => {
  const rows = readFileSync("docs/explanation/fidelity.md", "utf8")
    .split("\n## ")
    .filter((section) => /^(RIFT|ROSE)\n/.test(section))
    .flatMap((section) => section.split("\n### ").filter((part) => part.includes("| place |")))
    .flatMap((part) => part.split("\n").filter((line) => line.startsWith("| ")))
    .map((line) => line.split(/(?<!\\)\|/).slice(1, -1))
    .filter(([place]) => place?.trim() !== "place");
  expect(rows).not.toEqual([]);
  for (const cells of rows) {
    expect(cells, cells.join("|")).toHaveLength(4);
    expect(
      cells.filter((cell) => cell.trim() === ""),
      cells.join("|"),
    ).toEqual([]);
    expect(cells[2], cells.join("|")).toMatch(/^ (paper|released|option|differs)\b/);
    // Only a line of the authors' code can prove what it does.
    if (cells[2]!.startsWith(" released")) expect(cells.join("|")).toMatch(/\w+\.(py|sh)\b/);
    expect(readReferences(cells[3]!).length, cells.join("|")).toBeGreaterThan(0);
  }
});

/** The settings in the list of docs/explanation/fidelity.md that follows a sentence. */
function readExceptions(sentence: string): string[] {
  const [, rest = ""] = readFileSync("docs/explanation/fidelity.md", "utf8").split(sentence);
  const items = rest.trimStart().split("\n\n")[0]!.split("\n");
  return items.flatMap((item) => [...item.matchAll(/`(\w+: [^`]+)`/g)].map(([, setting]) => setting!));
}

test("the sweeps of the papers have the exceptions that docs/explanation/fidelity.md lists", () => {
  const names = readdirSync("experiments").filter((name) => /^(rift|rose)-/.test(name));
  expect(names).toHaveLength(18);
  const sweeps = names.map((name) => readFileSync(join("experiments", name), "utf8"));
  const isUsed = (setting: string): boolean => sweeps.some((sweep) => sweep.includes(setting));
  const released = readExceptions("though a paper has another value:");
  expect(released).toHaveLength(4);
  expect(released.filter((setting) => !isUsed(setting))).toEqual([]);
  const own = readExceptions("the released code does something else:");
  expect(own).toHaveLength(4);
  expect(own.filter(isUsed)).toEqual([]);
});

/** The numbered steps of a trace of docs/explanation/architecture.md. */
function readTrace(command: string): string[] {
  const text = readFileSync("docs/explanation/architecture.md", "utf8");
  const section = text.split(/^## /m).find((part) => part.startsWith(`\`temper ${command}\``)) ?? "";
  return section.split("\n").filter((line) => /^\d+\. /.test(line));
}

/** The order of the layers in docs/explanation/architecture.md, from the top. */
function readLayers(): string[] {
  const text = readFileSync("docs/explanation/architecture.md", "utf8");
  return [...text.matchAll(/^\| `src\/(\w+)` \|/gm)].map(([, layer]) => layer!);
}

test.each(["train", "attack", "sweep"])("the trace of %s leads down through existing functions", (command) => {
  const layers = readLayers();
  const hops = readTrace(command).map((line) => {
    expect(line).toMatch(/^\d+\. `src\/[\w/-]+\.ts` `\w+`: /);
    return readReferences(line.slice(0, line.indexOf(": ")))[0]!;
  });
  expect(hops).not.toEqual([]);
  for (const hop of hops) {
    expect(hop.names).toHaveLength(1);
    expectToExist(hop);
  }
  const depths = hops.map(({ file }) => layers.indexOf(file.split("/")[1]!));
  expect(depths).not.toContain(-1);
  expect(depths).toEqual(depths.toSorted((a, b) => a - b));
});
