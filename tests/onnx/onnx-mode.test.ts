import { spawnSync } from "node:child_process";
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { beforeAll, expect, test, vi } from "vitest";
import { attack } from "../../src/actions/attack/attack.js";
import { evaluate } from "../../src/actions/evaluate.js";
import { exportModel } from "../../src/actions/export.js";
import { loadClassifier } from "../../src/actions/predict/text-classifier.js";
import { verify } from "../../src/actions/verify/verify.js";
import { readJournal } from "../../src/attacks/journal.js";
import type { AttackResult } from "../../src/attacks/result.js";
import { hashVote } from "../../src/methods/index.js";
import { serve } from "../../src/serve/serve-model.js";
import { type TinyVictim, tinyVictim } from "../attacks/tiny-victim.js";
import { main } from "../cli/built.js";
import { chooseExtent } from "../extent.js";
import { isLong } from "../long.js";
import { trainCertified } from "../proofs/certificates/certified-run.js";
import { expectClose, getProbabilities, measureProbabilitySpread } from "../rounding.js";
import { temporaryFolder } from "../temporary.js";
import { reviews } from "../tiny-run.js";

const folder = temporaryFolder();
// Words run in make test-long.
const tokenizations = (["subword", "word"] as const).slice(0, chooseExtent(1, 2));
const numExamples = chooseExtent(8, 20);
const victims: Record<"word" | "subword", { victim: TinyVictim; exported: string }> = {} as never;

beforeAll(async () => {
  vi.stubEnv("TEMPER_CACHE", join(folder, "cache"));
  for (const tokenization of tokenizations) {
    const victim = await tinyVictim(join(folder, tokenization), { tokenization }, 60);
    const exported = join(folder, `${tokenization}-onnx`);
    const { check } = await exportModel({ model: victim.run, out: exported, quantize: "int8", threads: 1 });
    expect(check!.model).toMatchObject({ sameLabels: 1 });
    victims[tokenization] = { victim, exported };
  }
  const voting = await trainCertified(join(folder, "subword"), "voting", [hashVote({ groups: 7 })]);
  await exportModel({ model: voting, out: join(folder, "voting-onnx"), threads: 1 });
});

async function readResults(path: string): Promise<AttackResult[]> {
  const results: AttackResult[] = [];
  for await (const { result } of readJournal(path)) results.push(result);
  return results;
}

/** What decides a comparison: probabilities differ in their last digits. */
function toOutcome({ id, outcome, queries, finalTexts, edits }: AttackResult) {
  return { id, outcome, queries, finalTexts, edits };
}

test.each(tokenizations)("a %s model decides the same on both backends", async (tokenization) => {
  const { victim, exported } = victims[tokenization];
  const texts = reviews(chooseExtent(300, 1000), "backends").map(({ text }) => text);
  await using original = await loadClassifier(victim.run, { device: "cpu", threads: 1 });
  await using onnx = await loadClassifier(exported, { threads: 1 });
  expect(onnx.labels).toEqual(original.labels);
  const [first, second] = [await original.classify(texts), await onnx.classify(texts)];
  expect(second.map(({ label }) => label)).toEqual(first.map(({ label }) => label));
  const spread = await measureProbabilitySpread(original, texts);
  expectClose(getProbabilities(second), getProbabilities(first), { spread });
});

test.each(tokenizations)("attacks on a %s model end the same on both backends", async (tokenization) => {
  const { victim, exported } = victims[tokenization];
  const { data } = victim;
  const attacks = ["pwws", "greedy", "deepwordbug"] as const;
  const request = { attacks, data, numExamples, threads: 1, cache: false };
  const journals: Record<string, string> = {};
  for (const [backend, model] of Object.entries({ libtorch: victim.run, onnx: exported })) {
    const out = join(folder, "attacks", tokenization, backend);
    await attack({ ...request, model, out, device: "cpu", precision: "fp32" });
    journals[backend] = join(out, "pwws.jsonl");
    const [header] = readFileSync(journals[backend]!, "utf8").split("\n", 1);
    expect(header).toContain(`"backend":"${backend}"`);
  }
  for (const name of request.attacks) {
    const [first, second] = await Promise.all(
      Object.values(journals).map((path) => readResults(path.replace("pwws", name))),
    );
    expect(second!.map(toOutcome)).toEqual(first!.map(toOutcome));
  }
  expect((await readResults(journals.onnx!)).some(({ outcome }) => outcome === "success")).toBe(true);
  // Each backend confirms the journal of the other.
  const [done] = await verify({ journals: [journals.libtorch!], model: exported, threads: 1 });
  expect(done).toMatchObject({ lines: numExamples });
  await verify({ journals: [journals.onnx!], model: victim.run, threads: 1, device: "cpu" });
  // An export of another model does not.
  const other = join(folder, `${tokenization}-other`);
  cpSync(exported, other, { recursive: true });
  const config = readFileSync(join(other, "config.json"), "utf8");
  writeFileSync(join(other, "config.json"), config.replace(/"exportedFrom": \{[^}]*"model": "./, "$&0"));
  await expect(verify({ journals: [journals.libtorch!], model: other })).rejects.toThrow("different model");
});

test("the 8-bit file is a model, too", async () => {
  const model = join(victims.subword.exported, "onnx/model_quantized.onnx");
  const result = await evaluate({ model, threads: 1 });
  expect(result.accuracy).toBeGreaterThan(0.8);
});

test("no text changes the answers of an 8-bit model to others, so verify confirms its journals", async () => {
  const model = join(victims.subword.exported, "onnx/model_quantized.onnx");
  const texts = reviews(40, "quantized").map(({ text }) => text);
  await using classifier = await loadClassifier(model, { threads: 1 });
  const together = getProbabilities(await classifier.classify(texts));
  const alone = await Promise.all(texts.map((text) => classifier.classify([text])));
  expectClose(alone.flatMap(getProbabilities), together);
  const out = join(folder, "attacks", "quantized");
  const { data } = victims.subword.victim;
  await attack({ model, attacks: ["pwws"], data, numExamples, threads: 1, cache: false, out });
  const [verified] = await verify({ journals: [join(out, "pwws.jsonl")], model, threads: 1 });
  expect(verified).toMatchObject({ lines: numExamples });
});

test("serve answers with an exported model and with the vote of one", async () => {
  for (const [model, texts] of [
    [victims.subword.exported, ["the film was good"]],
    [join(folder, "voting-onnx"), ["good fine bright warm film plot good fine"]],
  ] as const) {
    await using server = await serve({ model, port: 0, threads: 1 });
    const headers = { "content-type": "application/json" };
    const response = await fetch(`${server.url}predict`, { method: "POST", headers, body: JSON.stringify({ texts }) });
    expect(await response.json()).toMatchObject({ predictions: ["positive"] });
  }
});

interface Invocation {
  readonly args: readonly string[];
  readonly input?: string;
}

/**
 * Runs command lines in one process without libtorch, without Python and with nothing on the PATH.
 * The last result lists the libraries that the process has loaded.
 */
function runWithoutLibtorch(invocations: readonly Invocation[]) {
  const program = `
    import { Readable, Writable } from "node:stream";
    import { run } from ${JSON.stringify(pathToFileURL(resolve(main)).href)};
    const results = [];
    for (const { args, input = "" } of ${JSON.stringify(invocations)}) {
      const create = () => {
        const stream = new Writable({ write(chunk, _, done) { stream.text += chunk; done(); } });
        return Object.assign(stream, { text: "" });
      };
      const [stdout, stderr] = [create(), create()];
      const code = await run(args, { stdin: Readable.from([Buffer.from(input)]), stdout, stderr });
      results.push({ code, stdout: stdout.text, stderr: stderr.text });
    }
    process.report.excludeNetwork = true;
    console.log(JSON.stringify({ results, libraries: process.report.getReport().sharedObjects }));`;
  const env = { TEMPER_BACKEND: "onnx", PATH: "/none", LIBTORCH: "/none", TEMPER_CACHE: join(folder, "cache") };
  const { stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", program], {
    ...{ encoding: "utf8", env, cwd: folder },
  });
  expect(stderr).toBe("");
  return JSON.parse(stdout) as {
    results: { code: number; stdout: string; stderr: string }[];
    libraries: string[];
  };
}

test("the program works without libtorch, Python and a PATH, and says what needs libtorch", () => {
  const { exported, victim } = victims.subword;
  const voting = join(folder, "voting-onnx");
  const threads = ["--threads", "1"];
  const few = ["--num-examples", "6", ...threads];
  const journal = join(exported, "attacks/pwws.jsonl");
  const gate = ["gate", exported, "--baseline", exported, "--data", victim.data, "--max-drop", "20"];
  const working: Invocation[] = [
    { args: ["predict", exported, "--json", ...threads], input: "the film was good\n" },
    { args: ["evaluate", exported, "--json", ...threads] },
    { args: ["attack", exported, ...few] },
    { args: ["verify", journal, "--model", exported, ...threads] },
    { args: [...gate, "--num-examples", "40", "--out", "gate", ...threads] },
    { args: ["attack", exported, "--input", "the film was good", ...threads] },
    { args: ["exact", exported, ...few] },
    { args: ["compare", exported, exported] },
    { args: ["certify", voting, "--kind", "hash-vote", "--json", ...few] },
    { args: ["calibrate", voting, "--benign", victim.data, "--fpr", "0.5", ...threads] },
  ];
  // Reading WordNet takes seconds, so its table is used in make test-long.
  const wordnet = ["attack", exported, "--substitutions", "wordnet", "--out", "filter", ...few];
  if (isLong) working.push({ args: wordnet });
  const filtered = ["--substitutions", "wordnet", "--min-context-similarity", "0.8", "--out", "y"];
  const failing: [readonly string[], RegExp][] = [
    [["evaluate", victim.run], /expected onnx\/model\.onnx .* temper export RUN --out FOLDER\n$/],
    [["train", "--model", exported, "--data", victim.data, "--out", "x"], /npx temper setup/],
    [["attack", exported, "--attack", "hotflip", "--out", "x"], /gradients.*npx temper setup/],
    [["attack", exported, "--attack", "textfooler", "--out", "x"], /--sentence-encoder: .*npx temper setup/],
    [["attack", exported, ...filtered], /--sentence-encoder: .*npx temper setup/],
    [["attack", exported, "--attack", "bae", "--masked-lm", "bert", "--out", "x"], /npx temper setup/],
    [["analyze", "landscape", victim.run, "--out", "x"], /npx temper setup/],
    [["evaluate", exported, "--device", "cuda"], /--device cuda: ONNX models run on the CPU/],
    [["evaluate", exported, "--precision", "bf16"], /--precision bf16: an ONNX model/],
  ];
  const { results, libraries } = runWithoutLibtorch([...working, ...failing.map(([args]) => ({ args }))]);
  const done = results.slice(0, working.length);
  for (const [i, { code, stderr }] of done.entries())
    expect([working[i]!.args, code, stderr]).toEqual([working[i]!.args, 0, stderr]);
  expect(JSON.parse(done[0]!.stdout)).toMatchObject({ label: "positive" });
  expect(JSON.parse(done[1]!.stdout)).toMatchObject({ split: "test" });
  if (isLong) expect(done.at(-1)!.stderr).toContain("not filtered by context");
  expect(done.slice(0, 5).map(({ stderr }) => stderr)).not.toContain("not filtered");
  for (const [i, [args, message]] of failing.entries()) {
    const { code, stderr } = results[working.length + i]!;
    expect([args, code, stderr]).toEqual([args, 2, expect.stringMatching(message)]);
    // On a busy host, a line says that the model is loaded before.
    expect(stderr).not.toMatch(/\n +at /);
  }
  expect(libraries.filter((name) => /onnxruntime/.test(name))).not.toEqual([]);
  expect(libraries.filter((name) => /torch|temper\.node/.test(name))).toEqual([]);
});
