// Small valid files to damage: a tiny BERT, tables, a finished run with an attack, a proof, certificates and
// checkpoints, its ONNX export, a sweep.
import { createHash } from "node:crypto";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const filler = ["a", "the", "film", "plot", "was", "and", "very"];
const table = { good: ["fine", "cold"], bad: ["dull", "warm"], film: ["plot"], was: ["and"] };

/** One folder for each kind of file that a tokenizer is read from. */
export const tokenizerFolders = ["roberta-tiny", "bert-bare", "deberta-v2-bare"];

/** Writes the seeds unless they are there. `load` imports a module of the library by its path. */
export async function writeSeeds(folder, load, fixtures) {
  const version = createHash("sha256")
    .update(readFileSync(new URL(import.meta.url)))
    .digest("hex")
    .slice(0, 10);
  const done = join(folder, `done-${version}`);
  if (existsSync(done)) return;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const name of ["bert-tiny", "roberta-tiny"])
    cpSync(join(fixtures, name), join(folder, name), { recursive: true });
  for (const name of tokenizerFolders.filter((each) => each.endsWith("-bare")))
    cpSync(join(fixtures, "tokenizers", name), join(folder, name), { recursive: true });
  for (const name of readdirSync(join(fixtures, "tasks")))
    if (name.endsWith(".parquet")) cpSync(join(fixtures, "tasks", name), join(folder, name));
  // The labels of the model must be those of the tables.
  const config = join(folder, "bert-tiny", "config.json");
  const id2label = { 0: "bad", 1: "good", 2: "mixed" };
  writeFileSync(config, JSON.stringify({ ...JSON.parse(readFileSync(config, "utf8")), id2label, label2id: undefined }));
  const rows = Array.from({ length: 60 }, (_, i) => ({
    text: `${filler[i % 7]} ${["bad", "fine", "good"][i % 3]} ${filler[(3 * i) % 7]} film ${i}`,
    label: ["bad", "mixed", "good"][i % 3],
  }));
  const lines = (separator) => rows.map(({ text, label }) => `${text}${separator}${label}\n`).join("");
  writeFileSync(join(folder, "reviews.tsv"), `text\tlabel\n${lines("\t")}`);
  writeFileSync(join(folder, "reviews.csv"), `text,label\n${lines(",")}`);
  writeFileSync(join(folder, "reviews.json"), JSON.stringify(rows));
  writeFileSync(join(folder, "reviews.jsonl"), rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
  writeFileSync(join(folder, "table.json"), JSON.stringify(table));
  const { train } = await load("actions/train/train");
  const { attack } = await load("actions/attack/attack");
  const { gate } = await load("actions/gate/gate");
  const { exact } = await load("actions/exact/exact");
  const { certify } = await load("actions/certify");
  const { exportModel } = await load("actions/export");
  const { audit } = await load("audit/audit");
  // Paths in the seeds are relative, so that kept inputs do not name folders of this host.
  const before = process.cwd();
  process.chdir(folder);
  try {
    const [run, common] = ["runs/one", { device: "cpu", threads: 1 }];
    const columns = { textColumn: ["text"], labelColumn: "label" };
    const data = { data: "reviews.tsv", ...columns, substitutions: "table.json" };
    const settings = { epochs: 8, batchSize: 8, learningRate: 0.003, saveSteps: 4, saveTotalLimit: 20 };
    // Canonical forms are certified for models that read them.
    await train({ model: "bert-tiny", ...data, ...common, normalize: "canonical", train: settings, out: run });
    const source = { data: { path: data.data, ...columns }, substitutions: data.substitutions };
    const createRequest = (numExamples) => ({ model: run, ...source, numExamples, ...common });
    await gate({ ...createRequest(4), baseline: run, lock: "gate.lock", out: "gate" });
    await attack({ ...createRequest(10), ...common, cache: false });
    await exact({ ...createRequest(3), maxChanges: 2 });
    for (const kind of ["canonical", "hash-vote"]) {
      const model = kind === "canonical" ? run : "runs/vote";
      if (model !== run)
        await train({
          model: "bert-tiny",
          ...data,
          ...common,
          methods: ["hash-vote:groups=3"],
          train: settings,
          out: model,
        });
      await certify({ model, kind, numExamples: 6, ...common, out: join(run, "certificates") });
    }
    const sizes = { attacks: ["pwws"], numExamples: 4, queryBudget: 20, maxChanges: 0, minutes: 1 };
    await audit({ model: run, ...data, ...sizes, ...common, out: "audits/one" });
    await exportModel({ model: run, out: "exported", threads: 1 });
  } finally {
    process.chdir(before);
  }
  writeFileSync(done, "");
}

/** A sweep as an object, which is damaged before it becomes YAML. */
export const sweepSeed = {
  title: "Small",
  model: "m",
  task: "sst2",
  device: "cpu",
  train: { epochs: 1, batchSize: 8 },
  rows: {
    plain: { title: "Plain" },
    drop: { methods: ["r-drop"], grid: { "methods.r-drop.alpha": [0.5, 1] }, columns: { b: { maxLength: 32 } } },
  },
  columns: { a: { title: "A", maxTrainSamples: 40 }, b: null },
  averages: { mean: ["a", "b"] },
  grid: { "train.learningRate": [1e-5, 2e-5] },
  seeds: [0, 1],
  select: { metric: "accuracy" },
  baseline: "plain",
  metrics: ["accuracy"],
  evaluation: { attacks: { pwws: {}, genetic: { population: 4 } }, numExamples: 4, analyses: [{ kind: "distance" }] },
  profiles: { small: { seeds: [0], rows: { drop: null } } },
  slurm: { partition: "gpu", gpus: 1, time: "4:00:00", memory: "16G" },
};
