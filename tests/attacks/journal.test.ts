import { createHash } from "node:crypto";
import { copyFileSync, existsSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import type { ReadyAttack } from "../../src/attacks/define-attack.js";
import { readJournal } from "../../src/attacks/journal.js";
import { SearchPool } from "../../src/attacks/pool.js";
import { type JournalOptions, readTiming, runAttack } from "../../src/attacks/run-attack.js";
import { verifyJournal } from "../../src/attacks/verify.js";
import { UserError } from "../../src/base/errors.js";
import { summarizeJournal } from "../../src/evaluation/attack-summary.js";
import { parseSubstitutionTable } from "../../src/text/substitutions.js";
import { temporaryFolder } from "../temporary.js";
import { collect, createExample, createTableAttack, hashed, scriptedVictim } from "./scripted.js";
import { seal, unseal } from "./sealed.js";

const folder = temporaryFolder();

const examples = Array.from({ length: 14 }, (_, i) =>
  createExample(
    `id ${i}`,
    [
      ["Good", "Great", "Fine"],
      [`wörd${i}`, "x\u2028"],
      ["\\ufffd\ufffd", 'quote"'],
      ["end", "stop"],
    ],
    i % 2,
  ),
);
const complete = join(folder, "complete.jsonl");

const createPool = (): SearchPool => new SearchPool(scriptedVictim(2, hashed(2)), { concurrency: 4 });

const createGenetic = (hash = "s", list = examples): Promise<ReadyAttack> =>
  createTableAttack("genetic:population=4,iterations=3", list, [], hash);

async function run(journal: string, change: Partial<JournalOptions> = {}): Promise<void> {
  await runAttack({
    attack: await createGenetic(),
    pool: createPool(),
    examples,
    seed: 3,
    settings: { task: "toy" },
    journalPath: journal,
    ...change,
  });
}

beforeAll(() => run(complete));

describe("a journal", () => {
  test("truncated at any byte and resumed is the same file", async () => {
    const bytes = readFileSync(complete);
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 0, max: bytes.length }),
        fc.integer({ min: 1, max: 20 }),
        async (length, concurrency) => {
          const path = join(folder, "truncated.jsonl");
          writeFileSync(path, bytes.subarray(0, length));
          await run(path, {
            resume: true,
            pool: new SearchPool(scriptedVictim(2, hashed(2)), { concurrency }),
          });
          expect(readFileSync(path).equals(bytes)).toBe(true);
        },
      ),
      { numRuns: 40 },
    );
  });

  test("reports only the new results of a resumed run", async () => {
    const path = join(folder, "partial.jsonl");
    const lines = readFileSync(complete, "utf8").split(/(?<=\n)/);
    writeFileSync(path, lines.slice(0, 7).join(""));
    const seen: string[] = [];
    await run(path, { resume: true, onResult: (result, done) => seen.push(`${done} ${result.id}`) });
    expect(seen[0]).toBe("7 id 6");
    expect(seen).toHaveLength(8);
    expect(await readTiming(path)).toMatchObject({ evaluations: expect.any(Number) });
  });

  test("is not overwritten without resume, nor continued with a different model, table, seed or option", async () => {
    const path = join(folder, "other.jsonl");
    copyFileSync(complete, path);
    await expect(run(path)).rejects.toThrow("--resume");
    const other = { ...scriptedVictim(2, hashed(2)), hashes: { model: "n", tokenizer: "t" } };
    await expect(run(path, { resume: true, pool: new SearchPool(other) })).rejects.toThrow(
      'written with a different model: "m", now "n"',
    );
    const changes: [Partial<JournalOptions>, string][] = [
      [{ attack: await createGenetic("z") }, "a different substitutions"],
      [{ seed: 4 }, "a different seed"],
      [{ budget: 4 }, "a different budget: none, now 4"],
    ];
    for (const [change, message] of changes)
      await expect(run(path, { resume: true, ...change })).rejects.toThrow(message);
    expect(readFileSync(path).equals(readFileSync(complete))).toBe(true);
  });

  test("of fewer examples is extended to what a run on all of them writes", async () => {
    const hashFirst = (count: number): string => `first ${count}`;
    const [whole, extended] = [join(folder, "whole.jsonl"), join(folder, "extended.jsonl")];
    await run(whole, { hashFirst });
    const first = { examples: examples.slice(0, 5), hashFirst };
    await run(extended, first);
    // The smaller journal need not be finished.
    truncateSync(extended, readFileSync(extended).length - 3);
    const seen: string[] = [];
    await run(extended, { hashFirst, resume: true, onResult: (result) => seen.push(result.id) });
    expect(seen[0]).toBe("id 4");
    expect(readFileSync(extended).equals(readFileSync(whole))).toBe(true);
    await expect(run(extended, { ...first, resume: true })).rejects.toThrow("a different examples: 14, now 5");
    const other = (count: number): string => `other ${count}`;
    await run(join(folder, "other-texts.jsonl"), { ...first, hashFirst: other });
    await expect(run(join(folder, "other-texts.jsonl"), { hashFirst, resume: true })).rejects.toThrow(
      'a different data: "other 5", now "first 5"',
    );
  });

  test("with a changed line is not continued", async () => {
    const path = join(folder, "damaged.jsonl");
    writeFileSync(path, readFileSync(complete, "utf8").replace("wörd3", "word3"));
    await expect(run(path, { resume: true })).rejects.toThrow(
      /damaged.jsonl:5: the line does not match its checksum. Restore the file/,
    );
  });

  test("is not started for texts without any substitute", async () => {
    const path = join(folder, "fixed.jsonl");
    const attack = await createGenetic("s", []);
    await expect(run(path, { attack })).rejects.toThrow("no word of 14 examples has a substitute");
  });
});

describe("verifyJournal", () => {
  const victim = scriptedVictim(2, hashed(2));

  test("confirms a complete journal", async () => {
    const { lines, outcomes } = await verifyJournal(complete, victim);
    expect(lines).toBe(14);
    expect(outcomes.success).toBeGreaterThan(0);
    expect(outcomes.skipped).toBeGreaterThan(0);
    expect(outcomes.skipped + outcomes.success + outcomes.failed).toBe(14);
  });

  test("rejects a journal in which any byte was inserted, removed or changed", async () => {
    const bytes = readFileSync(complete);
    const path = join(folder, "edited.jsonl");
    const edit = fc.record({
      at: fc.integer({ min: 0, max: bytes.length - 1 }),
      byte: fc.integer({ min: 0, max: 255 }),
      kind: fc.constantFrom("change", "insert", "remove"),
    });
    await fc.assert(
      fc.asyncProperty(edit, async ({ at, byte, kind }) => {
        const inserted = kind === "remove" ? Buffer.alloc(0) : Buffer.of(byte);
        const edited = Buffer.concat([
          bytes.subarray(0, at),
          inserted,
          bytes.subarray(kind === "insert" ? at : at + 1),
        ]);
        fc.pre(!edited.equals(bytes));
        writeFileSync(path, edited);
        await expect(verifyJournal(path, victim)).rejects.toThrow(UserError);
      }),
      { numRuns: 150 },
    );
  });

  test("rejects missing, repeated and swapped lines, and names the line", async () => {
    const lines = readFileSync(complete, "utf8").split(/(?<=\n)/);
    const path = join(folder, "moved.jsonl");
    const variants: [string[], number][] = [
      [lines.toSpliced(4, 1), 5],
      [lines.toSpliced(4, 0, lines[3]!), 5],
      [[...lines.slice(0, 4), lines[5]!, lines[4]!, ...lines.slice(6)], 5],
      [lines.slice(0, -1), 14],
    ];
    for (const [changed, line] of variants) {
      writeFileSync(path, changed.join(""));
      await expect(verifyJournal(path, victim)).rejects.toThrow(`moved.jsonl:${line}:`);
    }
  });

  test("rejects a journal that the victim does not confirm, and one of a different model", async () => {
    await expect(verifyJournal(complete, scriptedVictim(2, hashed(2, "salt")))).rejects.toThrow(
      /complete.jsonl:2: the journal records probabilities .* for the original text/,
    );
    await expect(verifyJournal(complete, { ...victim, hashes: { model: "n" } })).rejects.toThrow("a different model");
  });

  test("checks the edits against the substitution table", async () => {
    const entries = {
      good: ["great", "fine"],
      "\\ufffd\ufffd": ['quote"'],
      end: ["stop"],
      ...Object.fromEntries(examples.map((_, i) => [`wörd${i}`, ["xx"]])),
    };
    const table = parseSubstitutionTable({ ...entries, end: [] }, "table");
    const path = join(folder, "table.jsonl");
    await run(path, { attack: await createGenetic(table.hash) });
    await expect(verifyJournal(path, victim, { substitutions: table })).rejects.toThrow(/is not a substitute for/);
  });

  test("describes what is wrong with a file that is not a journal", async () => {
    const path = join(folder, "none.jsonl");
    await expect(verifyJournal(path, victim)).rejects.toThrow("there is no such file");
    for (const text of ["hello\n", "{}\n", '{"a":1}\n{"b":2}\n']) {
      writeFileSync(path, text);
      await expect(verifyJournal(path, victim)).rejects.toThrow("expected the header of an attack journal");
    }
    truncateSync(path);
    await expect(verifyJournal(path, victim)).rejects.toThrow("is empty");
    expect(existsSync(path)).toBe(true);
  });
});

describe("a journal with forged lines and valid checksums", () => {
  type Line = Record<string, unknown>;
  const path = join(folder, "forged.jsonl");
  const victim = scriptedVictim(2, hashed(2));
  const readers = [() => collect(readJournal(path)), () => summarizeJournal(path)];
  const forge = (change: (lines: Line[]) => Line[]): void => {
    const lines = change(unseal(readFileSync(complete, "utf8")));
    writeFileSync(path, seal(lines.map((line) => JSON.stringify(line))));
  };
  const rejects = (reading: Promise<unknown>, message: RegExp) =>
    expect(reading).rejects.toThrow(
      expect.objectContaining({ name: "UserError", message: expect.stringMatching(message) }),
    );

  const unreadable: [string, Line, RegExp][] = [
    ["a billion words per field", { fieldSizes: [1e9] }, /fieldSizes: expected the number of words per field/],
    ["texts as probabilities", { before: ["x", "y"] }, /:2: before\[0\]: expected number/],
    ["no probabilities", { before: undefined }, /:2: before: expected array/],
    ["another outcome", { outcome: "x" }, /:2: outcome: /],
    ["two fields", { fieldSizes: [0, 4] }, /fieldSizes: expected one number per text/],
    ["no space", { space: null }, /:2: space/],
    [
      "a larger space",
      { space: { words: 4, modifiableWords: 4, substitutes: 1, log10Combinations: 40 } },
      /log10Combinations/,
    ],
    ["no queries", { queries: 0 }, /:2: queries/],
    ["an edit beyond the text", { edits: [{ position: 99, from: "a", to: "b" }] }, /edits/],
    ["an id that is a number", { id: 3 }, /:2: id: expected string/],
  ];
  test.each(unreadable)("with %s is rejected wherever it is read", async (_, change, message) => {
    forge((lines) => lines.with(1, { ...lines[1], ...change }));
    for (const read of [...readers, () => verifyJournal(path, victim)]) await rejects(read(), message);
  });

  test.each(["hashes", "settings"])("without %s in its header is rejected", async (key) => {
    forge((lines) => lines.with(0, { ...lines[0], [key]: undefined }));
    for (const read of readers) await rejects(read(), new RegExp(`:1: ${key}: expected`));
  });

  test("a sealed line that is not JSON is rejected", async () => {
    const [header] = unseal(readFileSync(complete, "utf8"));
    writeFileSync(path, seal([JSON.stringify(header), "{x}"]));
    await expect(collect(readJournal(path))).rejects.toThrow(UserError);
  });

  test("verify finds another label, repeated and other ids, and impossible queries", async () => {
    const check = async (change: Line, message: RegExp): Promise<void> => {
      forge((lines) => {
        const hash = createHash("sha256");
        for (const { id, texts, label } of lines.slice(1)) hash.update(`${JSON.stringify([id, texts, label])}\n`);
        (lines[0]!.hashes as Line).data = hash.digest("hex");
        const skipped = lines.findIndex(({ outcome }) => outcome === "skipped");
        return lines.with(skipped, { ...lines[skipped], ...change });
      });
      await rejects(verifyJournal(path, victim), message);
    };
    forge((lines) => lines);
    expect(await verifyJournal(path, victim)).toMatchObject({ lines: 14 });
    await check({ label: 7 }, /label: expected one of the classes, received 7/);
    await check({ id: "id 13" }, /example id 13 occurs in an earlier line/);
    await check({ id: "other" }, /the ids, texts or labels are not those of the attacked examples/);
    await check({ queries: 9 }, /9 queries are not possible for the outcome "skipped"/);
  });
});
