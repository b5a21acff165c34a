import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { beforeAll, expect, test } from "vitest";
import { certify } from "../../../src/actions/certify.js";
import { exportModel } from "../../../src/actions/export.js";
import { loadClassifier, type TextClassifier } from "../../../src/actions/predict/text-classifier.js";
import { train } from "../../../src/actions/train/train.js";
import { verify } from "../../../src/actions/verify/verify.js";
import { hashVote } from "../../../src/methods/index.js";
import { canonicalize } from "../../../src/proofs/certificates/index.js";
import { serve } from "../../../src/serve/serve-model.js";
import { invoke } from "../../cli/invoke.js";
import { expectClose, measureAsyncSpread } from "../../rounding.js";
import { temporaryFolder } from "../../temporary.js";
import { tinyRun } from "../../tiny-run.js";
import { postTexts } from "./certified-run.js";

const folder = temporaryFolder();
const runtime = { device: "cpu", threads: 1 };
const run = join(folder, "canonical");

beforeAll(async () => {
  await train({ ...(await tinyRun(folder, { normalize: "canonical" })), out: run });
});

/** Changes of a text that keep its canonical form: a look-alike, an invisible character, spacing. */
const disguises: readonly ((text: string) => string)[] = [
  (text) => text.replaceAll("a", "\u0430").replaceAll("o", "\u043e"),
  (text) => [...text].join("\u200b"),
  (text) => text.replaceAll(" ", " \t\n "),
  (text) => text.replaceAll(/\b[a-z]{3,}\b/g, (word) => [...word].join(".")),
  (text) => text.normalize("NFD").replaceAll("f", "\uff46"),
  (text) => `\u202e${text}\u202c`,
];
const words = fc.constantFrom(
  "good",
  "bad",
  "film",
  "plot",
  "warm",
  "cold",
  "very",
  "the",
  "\u00e9t\u00e9",
  "\u041f\u0440\u0438",
);
const texts = fc.array(words, { minLength: 1, maxLength: 8 }).map((list) => list.join(" "));

async function classify(model: TextClassifier, text: string): Promise<readonly number[]> {
  const [prediction] = await model.classify([text]);
  return Object.values(prediction!.probabilities);
}

test("texts with the same canonical form get the same answer, in predict and serve", async () => {
  await using model = await loadClassifier(run, runtime);
  await using served = await serve({ ...runtime, model: run, port: 0 });
  const ask = async (list: readonly string[]): Promise<number[][]> => {
    const { answer } = await postTexts(served.url, list);
    return (answer as { probabilities: number[][] }).probabilities;
  };
  const spread = await measureAsyncSpread(() => ask(["good warm film", "bad cold plot", "the very good plot"]));
  await fc.assert(
    fc.asyncProperty(texts, fc.nat(disguises.length - 1), fc.nat(disguises.length - 1), async (text, first, second) => {
      const disguised = disguises[first]!(disguises[second]!(text));
      fc.pre(canonicalize(disguised) === canonicalize(text));
      expect(await classify(model, disguised)).toEqual(await classify(model, text));
      expect(await ask([disguised])).toEqual(await ask([text]));
      // A product of matrices may round two equal rows of a batch in two ways.
      const [own, other] = await ask([text, disguised]);
      expectClose(other!, own!, { spread });
    }),
    { numRuns: 60 },
  );
  // Other texts get other answers, so the test can fail.
  expect(await classify(model, "good warm film")).not.toEqual(await classify(model, "bad cold plot"));
});

test("the model says that it reads canonical forms, and its export does, too", async () => {
  const read = (path: string): { temper: Record<string, unknown> } =>
    JSON.parse(readFileSync(path, "utf8")) as { temper: Record<string, unknown> };
  expect(read(join(run, "model", "config.json")).temper).toMatchObject({
    normalize: "canonical",
    note: expect.stringContaining("canonical form"),
  });
  const out = join(folder, "exported");
  await exportModel({ model: run, out });
  expect(read(join(out, "config.json")).temper).toMatchObject({ normalize: "canonical" });
  await using exported = await loadClassifier(out, runtime);
  const [plain, disguised] = await exported.classify(["good warm film", "g\u200bood w\u0430rm f.i.l.m"]);
  expect(disguised).toEqual(plain);
});

test("canonical certificates are about the model as it is used, and verify computes them again", async () => {
  const plain = join(folder, "plain");
  const config = await tinyRun(folder);
  await train({ ...config, out: plain });
  const request = { ...runtime, kind: "canonical", numExamples: 20 };
  const report = await certify({ ...request, model: run });
  expect(report.certified).toMatchObject([{ name: "same canonical form" }]);
  expect(report.covers).toContain("the same visible and the same hidden text");
  expect(report.certified[0]!.accuracy).toBeLessThanOrEqual(report.clean);
  expect(await verify({ ...runtime, journals: [report.journal], model: run })).toMatchObject([
    { lines: expect.anything() },
  ]);
  await expect(certify({ ...request, model: plain })).rejects.toThrow(/expected a model that reads canonical forms/);
});

test("hidden text reaches the model, is reported, and can be refused", async () => {
  const payload = Array.from("bad cold plot", (each) => String.fromCodePoint(0xe0000 + each.charCodeAt(0))).join("");
  const text = `good warm film${payload}`;
  const hidden = { kind: "tags", text: "bad cold plot" };
  await using model = await loadClassifier(run, runtime);
  const [prediction, visible] = await model.classify([text, "good warm film"]);
  expect(prediction).toMatchObject({ hidden });
  expect(visible!.hidden).toBeUndefined();
  // The model reads the payload behind the visible text.
  expect(await classify(model, text)).toEqual(await classify(model, "good warm film bad cold plot"));
  await using open = await serve({ ...runtime, model: run, port: 0 });
  expect(await postTexts(open.url, ["good", text])).toMatchObject({ answer: { hidden: [null, hidden] } });
  await using strict = await serve({ ...runtime, model: run, port: 0, rejectHidden: true });
  expect(await postTexts(strict.url, ["good", text])).toEqual({
    status: 400,
    answer: { error: 'texts[1] has hidden text (tags: "bad cold plot"). Remove it.' },
  });
  const predicted = await invoke(["predict", run, "--json"], `fine\n${text}\n`);
  const lines = predicted.stdout.trim().split("\n");
  expect(lines.map((line) => (JSON.parse(line) as { hidden?: object }).hidden)).toEqual([undefined, hidden]);
  expect(predicted.stderr).toContain("1 text has hidden text");
  const rejected = await invoke(["predict", run, "--reject-hidden"], `fine\n${text}\n`);
  expect([rejected.code, rejected.stderr]).toEqual([
    2,
    expect.stringContaining('line 2 has hidden text (tags: "bad cold plot")'),
  ]);
  const data = join(folder, "hidden.tsv");
  writeFileSync(data, `text\tlabel\n${text}\tnegative\ngood film\tpositive\n`);
  const evaluated = await invoke(["evaluate", run, "--data", data, "--split", "test", "--json"]);
  expect(JSON.parse(evaluated.stdout)).toMatchObject({ hiddenTexts: 1 });
  expect(evaluated.stderr).toContain("1 of 2 texts");
});

test("a certificate of word edits cannot be combined with canonical forms", async () => {
  const config = await tinyRun(folder, { normalize: "canonical", methods: [hashVote({ groups: 3 })] });
  await expect(train({ ...config, out: join(folder, "both") })).rejects.toThrow(
    /normalize: canonical cannot be combined with a method for hash-vote certificates/,
  );
  const word = await tinyRun(folder, { normalize: "canonical", tokenization: "word" });
  await expect(train({ ...word, out: join(folder, "word") })).rejects.toThrow(/needs tokenization: subword/);
});
