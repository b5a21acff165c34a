import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

/** Written tolerances that stay: the file, the line without spaces at its ends, and the reason. */
const allowed: readonly { readonly file: string; readonly line: string; readonly reason: string }[] = [];

const smallNumber = String.raw`\d[\d_.]*e-\d+|0?\.00\d*|2 \*\* -\d+`;
const toleranceName = String.raw`\w*(?:[Tt]olerance|[Ee]psilon)\w*|\w*Eps|eps`;
const comparison = String.raw`\.toBe(?:Less|Greater)Than(?:OrEqual)?\(`;

/** How a tolerance is written by hand: its number of decimals, a small number, or the name of one. */
const patterns = [
  /\b(?:toBeC|expect\.c)loseTo\(/,
  // A limit from above, on the same line or the next.
  new RegExp(String.raw`\.toBeLessThan(?:OrEqual)?\([^;]*?(?<![\w.])(?:${smallNumber})(?![\w.])`),
  new RegExp(String.raw`\.toBeLessThan(?:OrEqual)?\([^;]*?\b(?:${toleranceName})\b(?!\()`),
  // A limit that gives way: `value + 1e-6`, `limit - tolerance`.
  new RegExp(String.raw`${comparison}[^;]*? [+-] (?:${smallNumber})(?![\w.])`),
  new RegExp(String.raw`${comparison}[^;]*? [+-] (?:${toleranceName})\b`),
  // A comparison without a matcher.
  /Math\.abs\([^;]* <=? (?:\d[\d_.]*e-\d+|0?\.00\d*)(?![\w.])/,
];

/** Lists the lines on which statements with a written tolerance begin. */
function findTolerances(source: string): string[] {
  // A statement ends with a semicolon or at an empty line.
  const statements = source.split(/(?<=;)\n|\n\n/);
  return statements.flatMap((statement) => {
    const line = patterns.map((pattern) => pattern.exec(statement)).find((found) => found !== null);
    if (!line) return [];
    const before = statement.slice(0, line.index);
    return [`${before.slice(before.lastIndexOf("\n") + 1)}${statement.slice(line.index).split("\n", 1)[0]}`.trim()];
  });
}

test("a planted tolerance is found, in each form", () => {
  const planted = [
    "expect(loss).toBeCloseTo(0.6931, 4);",
    "expect({ loss }).toEqual({ loss: expect.closeTo(0.69) });",
    "expect(difference).toBeLessThan(1e-4);",
    "expect(difference, name).toBeLessThanOrEqual(2.5e-6 * scale);",
    "expect(difference).toBeLessThan(0.005);",
    "expect(difference).toBeLessThan(\n  0.001,\n);",
    "expect(difference).toBeLessThan(4 * 2 ** -23);",
    "expect(difference).toBeLessThan(tolerance);",
    "expect(difference).toBeLessThan(limits.maxTolerance);",
    "expect(difference).toBeLessThan(eps);",
    "expect(value).toBeGreaterThanOrEqual(limit - 1e-6);",
    "expect(value).toBeGreaterThan(limit - epsilon);",
    "expect(values.every((value) => Math.abs(value - 1) < 1e-6)).toBe(true);",
  ];
  for (const line of planted) expect(findTolerances(`const a = 1;\n${line}\nconst b = 2;\n`), line).toHaveLength(1);
  const fine = [
    "expectClose(loss, 0.6931, { decimals: 4 });",
    "expect(rate).toBeLessThan(0.07);",
    "expect(count).toBeLessThan(4 * Math.sqrt(count));",
    "expect(difference).toBeGreaterThan(1e-3);",
    "expect(value).toBeLessThan(rounding);",
    "expect(steps).toBeLessThan(100);",
    'const settings = { learningRate: 1e-4 };\n\nexpect(Object.keys(settings)).toContain("x");',
  ];
  for (const line of fine) expect(findTolerances(`${line}\n`), line).toEqual([]);
});

test("tolerances are computed by tests/rounding.ts, not written", () => {
  const files = readdirSync("tests", { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".ts"));
  const own = ["tolerances.test.ts", "rounding.ts"];
  const checked = files.filter((file) => !own.includes(file));
  const found = checked.flatMap((file) =>
    findTolerances(readFileSync(join("tests", file), "utf8")).map((line) => ({ file, line })),
  );
  const isAllowed = (each: { file: string; line: string }): boolean =>
    allowed.some(({ file, line }) => file === each.file && line === each.line);
  expect(found.filter((each) => !isAllowed(each))).toEqual([]);
  for (const { file, line, reason } of allowed) {
    expect(found, reason).toContainEqual({ file, line });
    expect(reason.length).toBeGreaterThan(20);
  }
});
