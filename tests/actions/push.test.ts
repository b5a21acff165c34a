import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { env, pipeline } from "@huggingface/transformers";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { listEvalResults } from "../../src/actions/model-card.js";
import { loadClassifier } from "../../src/actions/predict/text-classifier.js";
import { createPushedFiles } from "../../src/actions/push.js";
import { loadModel } from "../../src/models/index.js";
import { RunFolder } from "../../src/runs/run-folder.js";
import { free } from "../../src/tensor/index.js";
import { loadTokenizer, SUBWORD_TOKENIZER } from "../../src/text/tokenizer.js";
import { tinyVictim } from "../attacks/tiny-victim.js";
import { chooseExtent } from "../extent.js";
import { writeRun } from "../report/run-folder.js";
import { expectClose, measureProbabilitySpread } from "../rounding.js";
import { temporaryFolder } from "../temporary.js";
import { reviews } from "../tiny-run.js";

const folder = temporaryFolder();
const cases = [
  { tokenization: "subword", head: "hf" },
  { tokenization: "word", head: "hf" },
  { tokenization: "word", head: "mlp" },
] as const;

/** Texts whose words and pieces differ: words outside the vocabulary consist of known pieces. */
const texts = [
  ...reviews(40, "pushed").map(({ text }) => text.replace("film", "film's").replace("plot", "PLOT!")),
  "a [SEP] good-bad film",
  "wasn't é",
];

async function writePushed(run: string, out: string): Promise<string> {
  const opened = await RunFolder.open(run);
  for (const { path, content } of await createPushedFiles(opened, (await opened.results())!)) {
    mkdirSync(dirname(join(out, path)), { recursive: true });
    const bytes = content instanceof URL ? readFileSync(content) : Buffer.from(await content.arrayBuffer());
    writeFileSync(join(out, path), bytes);
  }
  return out;
}

// The last case runs in make test-long.
describe.each(cases.slice(0, chooseExtent(2, 3)))(
  "the folder that push uploads, $tokenization tokens, $head head",
  ({ tokenization, head }) => {
    const name = `${tokenization}-${head}`;

    test("gives the predictions of the run in transformers.js", async () => {
      const { run } = await tinyVictim(join(folder, name), { tokenization, head });
      const pushed = await writePushed(run, join(folder, `${name}-pushed`));
      await using classifier = await loadClassifier(run, { device: "cpu", threads: 1 });
      const expected = await classifier.classify(texts);
      const spread = await measureProbabilitySpread(classifier, texts);
      env.allowRemoteModels = false;
      env.localModelPath = folder;
      const classify = await pipeline("text-classification", basename(pushed), { dtype: "fp32" });
      for (const [i, text] of texts.entries()) {
        const { probabilities, truncated } = expected[i]!;
        // transformers.js cuts off the last special token of a truncated text.
        if (truncated) continue;
        const answers = (await classify(text, { top_k: 2 })) as { label: string; score: number }[];
        expect(answers.length).toBe(2);
        for (const { label, score } of answers) expectClose(score, probabilities[label]!, { scale: 1, spread }, text);
      }
      await classify.dispose();
    });

    test("is read by Temper with the same tokens and settings", async () => {
      const [source, pushed] = [join(folder, name, "tiny-bert"), join(folder, `${name}-pushed`)];
      expect(readdirSync(pushed).includes(SUBWORD_TOKENIZER)).toBe(tokenization === "word");
      const [before, after] = [await loadTokenizer(source), await loadTokenizer(pushed)];
      expect(after.hash).toBe(before.hash);
      expect(after.special).toEqual(before.special);
      const model = await loadModel(pushed);
      expect([model.tokenization, model.architecture.head]).toEqual([tokenization, head]);
      free(model.weights);
    });

    test("says if transformers does not have the head", () => {
      const read = (file: string): string => readFileSync(join(folder, `${name}-pushed`, file), "utf8");
      const { temper } = JSON.parse(read("config.json")) as { temper: { note?: string } };
      const library = head === "mlp" ? "library_name: temper-nlp" : "library_name: transformers";
      expect(read("README.md")).toContain(library);
      if (head === "hf") expect(temper.note).toBeUndefined();
      else {
        expect(temper.note).toContain("transformers does not have the classification head");
        expect(read("README.md")).toContain(temper.note);
      }
    });
  },
);

test("results of a dataset on the hub are written for its leaderboard, and of others not", async () => {
  const write = async (name: string, task: string): Promise<ReturnType<typeof listEvalResults>> => {
    const run = await RunFolder.open(await writeRun(join(folder, name), { task, accuracy: 0.75 }));
    return listEvalResults(run, (await run.results())!);
  };
  const [first] = await write("hub-run", "hf:owner/reviews");
  expect(first!.path).toBe(".eval_results/accuracy.yaml");
  expect(parse(first!.content)).toMatchObject([
    { dataset: { id: "owner/reviews", task_id: "default" }, value: 75, notes: expect.stringContaining("Accuracy") },
  ]);
  expect(await write("own-run", "spam")).toEqual([]);
});
