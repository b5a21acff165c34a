import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { attack } from "../../../src/actions/attack/attack.js";
import { readJournal } from "../../../src/attacks/journal.js";
import { temporaryFolder } from "../../temporary.js";

// What TextAttack 0.3.11 found on a victim of word weights (tests/fixtures/README.md).
const fixtures = "tests/fixtures/textattack";
const folder = temporaryFolder();

interface Fixture {
  /** Without it, texts of unknown words would be ties, which TextAttack decides for the first class. */
  readonly bias: number;
  readonly weights: Readonly<Record<string, number>>;
  readonly table: Readonly<Record<string, readonly string[]>>;
  readonly examples: readonly { readonly id: string; readonly label: number; readonly text: string }[];
}
interface FrozenLine {
  readonly id: string;
  readonly outcome: string;
  readonly queries: number;
  readonly text: string;
}

const { bias, weights, table, examples } = JSON.parse(readFileSync(join(fixtures, "victim.json"), "utf8")) as Fixture;

function classify(texts: readonly unknown[]): number[][] {
  return texts.map((text) => {
    const words =
      String(text)
        .toLowerCase()
        .match(/[a-z]+/g) ?? [];
    const sum = words.reduce((total, word) => total + (weights[word] ?? 0), bias);
    return [1 / (1 + Math.exp(sum)), 1 / (1 + Math.exp(-sum))];
  });
}

test.each(["pwws", "textfooler"])("%s finds what TextAttack 0.3.11 found, with as many queries", async (name) => {
  vi.stubEnv("TEMPER_CACHE", join(folder, "cache"));
  const [path, substitutions, out] = ["data.jsonl", "table.json", name].map((file) => join(folder, file));
  const rows = examples.map(({ text, label }) => JSON.stringify({ text, label: ["no", "yes"][label] }));
  writeFileSync(path!, `${rows.join("\n")}\n`);
  writeFileSync(substitutions!, JSON.stringify(table));
  await attack({
    model: classify,
    attacks: [{ name, options: { compat: "textattack" } }],
    out: out!,
    data: { path: path!, textColumn: ["text"], labelColumn: "label" },
    substitutions: substitutions!,
    sentenceEncoder: "tests/fixtures/bert-tiny",
    device: "cpu",
    threads: 1,
  });
  vi.unstubAllEnvs();
  const found = new Map<string, Omit<FrozenLine, "id" | "outcome"> & { readonly isFooled: boolean }>();
  for await (const { result } of readJournal(join(out!, `${name}.jsonl`)))
    found.set(result.texts[0]!, {
      isFooled: result.outcome === "success",
      queries: result.queries,
      text: result.finalTexts[0]!,
    });
  const frozen = readFileSync(join(fixtures, `${name}.jsonl`), "utf8")
    .trim()
    .split("\n");
  const lines = frozen.map((line) => JSON.parse(line) as FrozenLine);
  expect(examples.map(({ text }) => found.get(text))).toEqual(
    lines.map(({ outcome, queries, text }) => ({
      isFooled: outcome === "successful",
      queries,
      text,
    })),
  );
});
