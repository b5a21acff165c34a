import { copyFileSync, existsSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import type { Attacker } from "../../src/attacks/attacker.js";
import { JournalWriter, readJournal } from "../../src/attacks/journal.js";
import { createPoolAttacker, SearchPool } from "../../src/attacks/pool.js";
import type { AttackResult } from "../../src/attacks/result.js";
import { type RunAttackOptions, readTiming, runAttack } from "../../src/attacks/run-attack.js";
import { verifyJournal } from "../../src/attacks/verify.js";
import { UserError } from "../../src/errors.js";
import { parseSubstitutionTable } from "../../src/text/substitutions.js";
import { temporaryFolder } from "../temporary.js";
import { attack, collect, hashed, type ScriptedInput, scriptedVictim, targetOfChoices } from "./scripted.js";

const folder = temporaryFolder();

const targets = Array.from({ length: 14 }, (_, i) =>
  targetOfChoices(
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
const whole = join(folder, "whole.jsonl");

async function evolve(pool: SearchPool<ScriptedInput>): Promise<Attacker> {
  return createPoolAttacker(pool, await attack("genetic", { population: 4, iterations: 3 }));
}

async function run(journal: string, change: Partial<RunAttackOptions> = {}): Promise<void> {
  await runAttack({
    attacker: await evolve(new SearchPool(scriptedVictim(2, hashed(2)), { concurrency: 4 })),
    attackExamples: targets,
    numExamples: targets.length,
    seed: 3,
    hashes: { substitutions: "s" },
    settings: { task: "toy" },
    journalPath: journal,
    ...change,
  });
}

beforeAll(() => run(whole));

describe("the journal", () => {
  test("resumed after a cut at any byte is the same file", async () => {
    const bytes = readFileSync(whole);
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 0, max: bytes.length }),
        fc.integer({ min: 1, max: 20 }),
        async (cut, searches) => {
          const path = join(folder, "cut.jsonl");
          writeFileSync(path, bytes.subarray(0, cut));
          await run(path, {
            resume: true,
            attacker: await evolve(new SearchPool(scriptedVictim(2, hashed(2)), { concurrency: searches })),
          });
          expect(readFileSync(path).equals(bytes)).toBe(true);
        },
      ),
      { numRuns: 40 },
    );
  });

  test("reports only the new results of a resumed run", async () => {
    const path = join(folder, "partial.jsonl");
    const lines = readFileSync(whole, "utf8").split(/(?<=\n)/);
    writeFileSync(path, lines.slice(0, 7).join(""));
    const seen: string[] = [];
    await run(path, { resume: true, onResult: (result, done) => seen.push(`${done} ${result.id}`) });
    expect(seen[0]).toBe("7 id 6");
    expect(seen).toHaveLength(8);
    expect(await readTiming(path)).toMatchObject({ forwarded: expect.any(Number) });
  });

  test("is not overwritten without resume, nor continued with another model, table, seed or option", async () => {
    const path = join(folder, "other.jsonl");
    copyFileSync(whole, path);
    await expect(run(path)).rejects.toThrow("--resume");
    const other = { ...scriptedVictim(2, hashed(2)), hashes: { model: "n", tokenizer: "t" } };
    await expect(run(path, { resume: true, attacker: await evolve(new SearchPool(other)) })).rejects.toThrow(
      'made with another model: "m" there, "n" now',
    );
    await expect(run(path, { resume: true, hashes: { substitutions: "z" } })).rejects.toThrow("another substitutions");
    await expect(run(path, { resume: true, seed: 4 })).rejects.toThrow("another seed");
    await expect(run(path, { resume: true, budget: 4 })).rejects.toThrow("another budget");
    expect(readFileSync(path).equals(readFileSync(whole))).toBe(true);
  });

  test("with a damaged line in the middle is not continued", async () => {
    const path = join(folder, "damaged.jsonl");
    writeFileSync(path, readFileSync(whole, "utf8").replace("wörd3", "word3"));
    await expect(run(path, { resume: true })).rejects.toThrow(/damaged.jsonl:5: this line was changed/);
  });

  test("of texts without any substitute is refused before the work", async () => {
    const path = join(folder, "closed.jsonl");
    const closed = targets.map((target) => ({ ...target, replacements: target.words.map((word) => [word]) }));
    await expect(run(path, { attackExamples: closed })).rejects.toThrow(
      "none of the words of 14 examples has a substitute",
    );
  });
});

describe("verify", () => {
  const victim = scriptedVictim(2, hashed(2));

  test("confirms a whole journal", async () => {
    const { lines, outcomes } = await verifyJournal(whole, victim);
    expect(lines).toBe(14);
    expect(outcomes.success).toBeGreaterThan(0);
    expect(outcomes.skipped).toBeGreaterThan(0);
    expect(outcomes.skipped + outcomes.success + outcomes.failed).toBe(14);
  });

  test("rejects it after any single edit of a byte, inserted, removed or changed", async () => {
    const bytes = readFileSync(whole);
    const path = join(folder, "edited.jsonl");
    const edit = fc.record({
      at: fc.integer({ min: 0, max: bytes.length - 1 }),
      byte: fc.integer({ min: 0, max: 255 }),
      kind: fc.constantFrom("change", "insert", "remove"),
    });
    await fc.assert(
      fc.asyncProperty(edit, async ({ at, byte, kind }) => {
        const put = kind === "remove" ? Buffer.alloc(0) : Buffer.of(byte);
        const edited = Buffer.concat([bytes.subarray(0, at), put, bytes.subarray(kind === "insert" ? at : at + 1)]);
        fc.pre(!edited.equals(bytes));
        writeFileSync(path, edited);
        await expect(verifyJournal(path, victim)).rejects.toThrow(UserError);
      }),
      { numRuns: 150 },
    );
  });

  test("rejects lines dropped, repeated or exchanged, and names the line", async () => {
    const lines = readFileSync(whole, "utf8").split(/(?<=\n)/);
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

  test("rejects what another victim does not confirm, and another model's journal", async () => {
    await expect(verifyJournal(whole, scriptedVictim(2, hashed(2, "salt")))).rejects.toThrow(
      /whole.jsonl:2: the original text has probabilities/,
    );
    await expect(verifyJournal(whole, { ...victim, hashes: { model: "n" } })).rejects.toThrow("another model");
  });

  test("rejects a line that was written anew with a checksum that fits", async () => {
    const path = join(folder, "forged.jsonl");
    const forge = async (change: (result: AttackResult, before: AttackResult) => object): Promise<void> => {
      const entries = await collect(readJournal(whole));
      writeFileSync(path, "");
      const writer = await JournalWriter.open(path, entries[0]!.header);
      entries.forEach(({ result }, i) => {
        writer.append((i === 3 ? { ...result, ...change(result, entries[2]!.result) } : result) as AttackResult);
      });
      writer.close();
    };
    const forgeries: [Parameters<typeof forge>[0], string][] = [
      [() => ({ outcome: "undecided" }), "outcome: "],
      [() => ({ before: undefined }), "before: expected array"],
      [() => ({ label: 7 }), "label: expected one of the classes, received 7"],
      [({ words }) => ({ fieldSizes: [words.length + 1] }), "fieldSizes: expected the words of each field"],
      [(_, { id }) => ({ id }), "the example id 2 was attacked in a line before; expected each once"],
    ];
    for (const [change, message] of forgeries) {
      await forge(change);
      await expect(verifyJournal(path, victim)).rejects.toThrow(`forged.jsonl:5: ${message}`);
    }
  });

  test("holds the edits to the table where one is given", async () => {
    const entries = {
      good: ["great", "fine"],
      "\\ufffd\ufffd": ['quote"'],
      end: ["stop"],
      ...Object.fromEntries(targets.map((_, i) => [`wörd${i}`, ["xx"]])),
    };
    const table = parseSubstitutionTable({ ...entries, end: [] }, "table");
    const path = join(folder, "table.jsonl");
    await run(path, { hashes: { substitutions: table.hash } });
    await expect(verifyJournal(path, victim, { substitutions: table })).rejects.toThrow(/is no substitute of/);
  });

  test("says what is wrong with a file that is no journal", async () => {
    const path = join(folder, "none.jsonl");
    await expect(verifyJournal(path, victim)).rejects.toThrow("there is no such file");
    for (const text of ["hello\n", "{}\n", '{"a":1}\n{"b":2}\n']) {
      writeFileSync(path, text);
      await expect(verifyJournal(path, victim)).rejects.toThrow("expected the header of an attack journal");
    }
    truncateSync(path);
    await expect(verifyJournal(path, victim)).rejects.toThrow("the journal is empty");
    expect(existsSync(path)).toBe(true);
  });
});
