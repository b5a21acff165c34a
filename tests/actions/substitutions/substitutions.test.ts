import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { buildLmConstraint } from "../../../src/actions/substitutions/build-lm-constraint.js";
import { substitutions as buildSubstitutions } from "../../../src/actions/substitutions/substitutions.js";
import { listen } from "../../../src/base/events.js";
import { Rng } from "../../../src/base/rng.js";
import { loadLmConstraint } from "../../../src/text/lm-constraint.js";
import { loadSubstitutions } from "../../../src/text/load-substitutions.js";
import { invoke } from "../../cli/invoke.js";
import { temporaryFolder } from "../../temporary.js";

const folder = temporaryFolder();
let files = 0;
function write(content: string, extension = "txt"): string {
  const path = join(folder, `${++files}.${extension}`);
  writeFileSync(path, content);
  return path;
}
const newPath = (): string => join(folder, "tables", `${++files}.json`);
const readTable = (path: string): Record<string, string[]> => JSON.parse(readFileSync(path, "utf8"));

describe("a table from vectors", () => {
  test("has the nearest neighbors below the squared distance, nearest first", async () => {
    // On a line, the squared distances of 0 to the others are 0.04, 0.25, 0.4900…, 0.5041 and 1.
    const vectors = write("zero 0 0\nNear 0.2 0\n, 0.1 0\nhalf 0.5 0\nedge 0.7 0\nfar 0.71 0\none 1 0\nnear 9 9\n");
    const out = newPath();
    expect(await buildSubstitutions({ vectors, out })).toEqual({ out, words: 6, wordsWithSubstitutes: 6 });
    expect(readTable(out)).toEqual({
      zero: ["near", "half", "edge"],
      near: ["zero", "half", "edge", "far"],
      half: ["edge", "far", "near", "zero", "one"],
      edge: ["far", "half", "one", "near", "zero"],
      far: ["edge", "half", "one", "near"],
      one: ["far", "edge", "half"],
    });
    const substitutions = await loadSubstitutions(out);
    expect(substitutions.getSubstitutes("Zero")).toEqual(["Near", "Half", "Edge"]);
    const limited = newPath();
    const vocabulary = write("zero\nhalf\nedge\nfar\n");
    await buildSubstitutions({ vectors, out: limited, maxNeighbors: 1, maxDistance: 0.3, vocabulary });
    expect(readTable(limited)).toEqual({ zero: ["half"], half: ["edge"], edge: ["far"], far: ["edge"] });
  });

  test("equals an exhaustive search, also if it was stopped and continued", async () => {
    const rng = new Rng(0);
    const count = 2500;
    const rows = Array.from({ length: count }, () => Array.from({ length: 5 }, () => rng.normal() / 3));
    const text = rows.map((row, i) => `w${i} ${row.map((value) => value.toFixed(6)).join(" ")}`).join("\n");
    const vectors = write(`${count} 5\n${text}\n`);
    const exact = rows.map((row) => row.map((value) => Math.fround(Number(value.toFixed(6)))));
    const getDistance = (i: number, j: number): number =>
      exact[i]!.reduce((sum, value, k) => sum + (value - exact[j]![k]!) ** 2, 0);
    const nearest = (i: number): string[] =>
      exact
        .map((_, j) => ({ j, distance: getDistance(i, j) }))
        .filter(({ j, distance }) => j !== i && distance < 0.5)
        .sort((a, b) => a.distance - b.distance || a.j - b.j)
        .slice(0, 8)
        .map(({ j }) => `w${j}`);

    const out = newPath();
    const stop = new AbortController();
    const stages: string[] = [];
    const onProgress = ({ stage, done }: { stage: string; done: number }): void => {
      stages.push(`${stage} ${done}`);
      if (stage === "neighbors") stop.abort();
    };
    await expect(
      buildSubstitutions({ vectors, out }, { ...listen({ progress: onProgress }), signal: stop.signal }),
    ).rejects.toThrow(/Stopped after 1024 of 2500 words\. They are kept in .*\.part\./);
    expect([existsSync(out), existsSync(`${out}.part`)]).toEqual([false, true]);
    // A marked block shows that the next call reads it instead of searching again.
    const [[key, block] = ["", []], ...rest] = readFileSync(`${out}.part`, "utf8")
      .split("\n")
      .filter(Boolean)
      .map((line) => JSON.parse(line) as [string, number[][]]);
    expect(rest).toEqual([]);
    writeFileSync(`${out}.part`, `${JSON.stringify([key, block.with(5, [7])])}\n`);
    await buildSubstitutions({ vectors, out });
    expect(existsSync(`${out}.part`)).toBe(false);
    const table = readTable(out);
    expect(Object.keys(table)).toHaveLength(count);
    for (const i of [0, 1, 1023, 1024, 2047, 2499]) expect(table[`w${i}`]).toEqual(nearest(i));
    const again = newPath();
    await buildSubstitutions({ vectors, out: again });
    expect(table.w5).toEqual(["w7"]);
    expect({ ...readTable(again), w5: ["w7"] }).toEqual(table);
    expect(stages[0]).toMatch(/^read /);
  });

  test.each([
    ["a 1 2\nb 1\n", /:2: expected a word and 2 numbers, received "b 1"/],
    ["a 1 2\nb 1 x\n", /:2: expected finite numbers, received "b 1 x"/],
    ["a 1 2\n", /found 1 of the words/],
    ["word\n", /:1: expected a word and its numbers/],
  ])("explains %j", async (content, message) => {
    await expect(buildSubstitutions({ vectors: write(content), out: newPath() })).rejects.toThrow(message);
  });

  test("is never replaced, and a missing file is explained without a trace", async () => {
    const existing = write("{}", "json");
    const { code, stderr } = await invoke(["substitutions", "build", "--vectors", "none.txt", "--out", existing]);
    expect([code, stderr]).toEqual([2, expect.stringMatching(/already exists. Remove it first/)]);
    const out = newPath();
    const missing = await invoke(["substitutions", "build", "--vectors", "none.txt", "--out", out]);
    expect([missing.code, missing.stderr]).toEqual([
      2,
      "temper: cannot read the vectors none.txt: there is no such file or folder; check the path\n",
    ]);
    expect([existsSync(out), existsSync(`${out}.part`)]).toEqual([false, false]);
  });
});

describe("a constraint from released scores", () => {
  const scores = [
    "0\tThe movie was good .",
    "0\t1\tmovie\t-10.0",
    "0\t1\tfilm\t-14.5",
    "0\t1\tkino\t-15.1",
    "0\t1\tcinema\t-inf",
    "0\t3\tgood\t-20",
    "0\t3\tgreat\t-25",
    "1\tzzz film",
    "1\t0\tzzz\t-inf",
    "1\t0\tyyy\t-3",
    "1\t0\txxx\t-inf",
  ].join("\n");

  test("keeps what is at most 5 less likely, as the released code does", async () => {
    const out = newPath();
    const path = write(`${scores}\n`);
    expect(await buildLmConstraint({ scores: path, out })).toEqual({ out, texts: 2, scored: 6, allowed: 3 });
    expect(readTable(out)).toEqual({
      "the movie was good .": { "0": [], "1": ["film"], "2": [], "3": ["great"], "4": [] },
      "zzz film": { "0": ["yyy"], "1": [] },
    });
    const constraint = await loadLmConstraint(out);
    expect(constraint.getAllowedSubstitutes("The movie was good.", [{ start: 4, end: 9 }])).toEqual([["film"]]);
    const strict = newPath();
    const table = write('{"movie": ["cinema"], "good": ["great"], "zzz": []}', "json");
    await buildLmConstraint({ scores: path, out: strict, minDifference: -6, substitutions: table });
    expect(readTable(strict)["the movie was good ."]).toEqual({ "0": [], "1": [], "2": [], "3": ["great"], "4": [] });
  });

  test("a stopped build continues after the last finished text, with the same result", async () => {
    // Carriage returns and letters of several bytes: the position must be exact.
    const text = (i: number): string => `${i}\tthé movie ${i}\r\n${i}\t1\tmovie\t-10\r\n${i}\t1\tfilm\t-${9 + i}\r\n`;
    const path = write([0, 1, 2, 3].map(text).join(""));
    const [whole, out, stop] = [newPath(), newPath(), new AbortController()];
    await buildLmConstraint({ scores: path, out: whole });
    const seen: number[] = [];
    const stopped = buildLmConstraint(
      { scores: path, out },
      { signal: stop.signal, ...listen({ progress: ({ done }) => seen.push(done) === 2 && stop.abort() }) },
    );
    await expect(stopped).rejects.toThrow(/Finished texts are kept in/);
    expect(existsSync(out)).toBe(false);
    const rest: number[] = [];
    await buildLmConstraint({ scores: path, out }, listen({ progress: ({ done }) => rest.push(done) }));
    expect(rest).toHaveLength(2);
    expect(rest[0]).toBeGreaterThan(seen[1]!);
    expect(readTable(out)).toEqual(readTable(whole));
    expect(existsSync(`${out}.part`)).toBe(false);
  });

  test("a line after the last finished text keeps its number in an error", async () => {
    const path = write("0\ta b\n0\t1\tb\t-1\n1\tc d\n1\t1\td\thigh\n");
    for (const _ of ["from the start", "continued"])
      await expect(buildLmConstraint({ scores: path, out: `${path}.json` })).rejects.toThrow(/:4: expected a log-prob/);
  });

  test.each([
    ["0\t1\tmovie\t-10\n", /:1: expected "NUMBER<tab>TEXT" before the first score/],
    ["0\ta b\n0\t2\tc\t-1\n", /:2: expected a position within the text/],
    ["0\ta b\n0\t1\tc\thigh\n", /:2: expected a log-probability at the end/],
    ["0\ta b\n0\t1\tc\n", /:2: expected "NUMBER<tab>POSITION<tab>WORD<tab>SCORE"/],
    ["\n", /no text found/],
  ])("explains %j and writes nothing", async (content, message) => {
    const out = newPath();
    await expect(buildLmConstraint({ scores: write(content), out })).rejects.toThrow(message);
    expect(existsSync(out)).toBe(false);
  });

  test("is printed by the command", async () => {
    const out = newPath();
    const { code, stdout } = await invoke(["substitutions", "lm-constraint", "--scores", write(scores), "--out", out]);
    expect([code, stdout]).toEqual([0, `${out}: 2 texts; 50.0% of the substitutes are allowed\n`]);
  });
});
