import { cpSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test, vi } from "vitest";
import { attack } from "../../../src/actions/attack/attack.js";
import { calibrate } from "../../../src/actions/calibrate.js";
import { certify } from "../../../src/actions/certify.js";
import { compare } from "../../../src/actions/compare.js";
import { evaluate } from "../../../src/actions/evaluate.js";
import { gate } from "../../../src/actions/gate/gate.js";
import { loadClassifier } from "../../../src/actions/predict/text-classifier.js";
import { verify } from "../../../src/actions/verify/verify.js";
import { readJournal } from "../../../src/attacks/journal.js";
import { Rng } from "../../../src/base/rng.js";
import { hashVote } from "../../../src/methods/index.js";
import { getTieMargin } from "../../../src/proofs/certificates/index.js";
import { report as writeReport } from "../../../src/report/index.js";
import { readCertificateReports } from "../../../src/runs/certificate-folder.js";
import { RunFolder } from "../../../src/runs/run-folder.js";
import { readMetrics } from "../../../src/runs/run-metrics.js";
import { serve as serveModel } from "../../../src/serve/serve-model.js";
import { seal, unseal } from "../../attacks/sealed.js";
import { invoke } from "../../cli/invoke.js";
import { computeTolerance, expectComputedAsync, measureAsyncSpread } from "../../rounding.js";
import { temporaryFolder } from "../../temporary.js";
import { createReviews, postTexts, trainCertified, words } from "./certified-run.js";
import { editWords } from "./synthetic.js";

const folder = temporaryFolder();
const runtime = { device: "cpu", threads: 1 };
let voting: string;
let plain: string;

beforeAll(async () => {
  voting = await trainCertified(folder, "voting", [hashVote({ groups: 7 })]);
  plain = await trainCertified(folder, "plain", []);
});

async function post(url: string, texts: readonly unknown[]): Promise<Record<string, unknown[]>> {
  return (await postTexts(url, texts)).answer as Record<string, unknown[]>;
}

test("a run with hash-vote is evaluated by its vote, in training and afterwards", async () => {
  const { test: trained } = (await (await RunFolder.open(voting)).results())!;
  const evaluated = await evaluate({ ...runtime, model: voting });
  expect(evaluated.accuracy).toBe(trained.accuracy);
  expect(evaluated.outcomes).toEqual(trained.outcomes);
  const certified = await certify({ ...runtime, model: voting, out: join(folder, "all") });
  expect(certified.examples).toBe(evaluated.examples);
  expect(certified.clean).toBe(evaluated.accuracy);
});

test("predict and serve answer by the vote, with the number of edits that cannot change it", async () => {
  const texts = createReviews(40, "served").map(({ text }) => text);
  await using classifier = await loadClassifier(voting, runtime);
  const predictions = await classifier.classify(texts);
  await using served = await serveModel({ ...runtime, model: voting, port: 0 });
  const answer = await post(served.url, texts);
  expect(answer.predictions).toEqual(predictions.map(({ label }) => label));
  expect(answer.certified).toEqual(predictions.map(({ certified }) => certified));
  const robust = texts.filter((_, i) => predictions[i]!.certified!.edits! >= 1);
  expect(robust.length).toBeGreaterThan(0);
  const rng = new Rng("serve");
  for (const text of robust.slice(0, 4)) {
    const edited = Array.from({ length: 50 }, () =>
      editWords(text.split(" "), { substitutions: 1, insertions: 0 }, rng, words).join(" "),
    );
    const [label] = (await post(served.url, [text])).predictions!;
    expect(new Set((await post(served.url, edited)).predictions)).toEqual(new Set([label]));
  }
  const { stdout } = await invoke(["predict", voting, "--threads", "1", "--json"], `${texts[0]}\n`);
  expect(JSON.parse(stdout)).toMatchObject({ label: predictions[0]!.label, certified: predictions[0]!.certified });
  // A text without words has no vote, and no certificate.
  const [empty] = await classifier.classify(["?!"]);
  expect(empty).toMatchObject({ probabilities: { negative: 0.5, positive: 0.5 }, certified: { edits: 0 } });
});

test("calibrate sets a threshold that keeps its promise, and evaluate and serve use it", async () => {
  const benign = join(folder, "benign.txt");
  const fresh = createReviews(200, "benign").filter(({ label }) => label === "negative");
  writeFileSync(benign, fresh.map(({ text }) => `${text}\n`).join(""));
  const args = ["calibrate", plain, "--benign", benign, "--fpr", "0.05", "--threads", "1", "--json"];
  const { code, stdout, stderr } = await invoke(args);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  const calibration = JSON.parse(stdout) as { threshold: number; fpr: number; examples: number };
  expect((await invoke(args.slice(0, -1))).stdout).toMatch(/On average .* With this sample, it can be more/);
  expect(calibration).toMatchObject({ fpr: 0.05, examples: 100, positiveLabel: "positive", windows: null });
  await using classifier = await loadClassifier(plain, runtime);
  // The 96th smallest of 100: ceil(101 * 0.95).
  const computeThreshold = async (): Promise<number> => {
    const answers = await classifier.classify(fresh.map(({ text }) => text));
    return answers.map((each) => each.probabilities.positive!).sort((a, b) => a - b)[95]!;
  };
  // Calibration has other batches.
  await expectComputedAsync(computeThreshold, calibration.threshold);
  const { guard } = await evaluate({ ...runtime, model: plain });
  expect(guard).toMatchObject({ threshold: calibration.threshold, positiveLabel: "positive", fpr: 0.05 });
  expect(guard!.recall).toBeGreaterThan(0.5);
  // A calibrated run is compared at its operating points, and its card has them.
  const run = await RunFolder.open(plain);
  await expectOperatingPoints(run);
  expect(readFileSync(join(plain, "model/README.md"), "utf8")).toMatch(/\| Recall at 1\.0% false positives \| .*% \|/);
  await using served = await serveModel({ ...runtime, model: plain, port: 0 });
  const texts = createReviews(20, "flagged").map(({ text }) => text);
  const { flagged, probabilities, certified } = await post(served.url, texts);
  expect(flagged).toEqual((probabilities as number[][]).map(([, positive]) => positive! > calibration.threshold));
  expect(certified).toBeUndefined();
});

/** Expects the operating points of the guard as it is used, which `evaluate` computes. */
async function expectOperatingPoints(run: RunFolder, guard: object = {}): Promise<void> {
  const metrics = await readMetrics(run);
  const compute = async (): Promise<number[]> => {
    const { auc, recallAtFpr, operatingPoints } = await evaluate({ ...runtime, model: run.folder, ...guard });
    return [auc!, recallAtFpr!["0.01"]!, operatingPoints!.fprAtRecall["0.95"]!];
  };
  const found = ["auc", "recall-at-fpr:0.01", "fpr-at-recall:0.95"].map((id) => metrics.get(id)!.value);
  await expectComputedAsync(compute, found);
}

test("predict, evaluate and attack use the guard: windows, threshold and flags", async () => {
  vi.stubEnv("TEMPER_CACHE", join(folder, "cache"));
  const guarded = join(folder, "guarded");
  cpSync(plain, guarded, { recursive: true });
  rmSync(join(guarded, "calibration.json"), { force: true });
  const attackGuard = (changes: object): ReturnType<typeof attack> =>
    attack({ ...runtime, model: guarded, numExamples: 16, precision: "fp32", attackedLabel: "negative", ...changes });
  const attacks = ["guard:benignLabel=positive,characters=false,inside=false,paddingWords=40,maxQueries=200"];
  await expect(attackGuard({ attacks, calibrated: true, out: join(folder, "none") })).rejects.toThrow(
    /--calibrated: expected a run with a threshold/,
  );
  const benign = join(folder, "benign-positive.txt");
  // A window of one bad word has the largest score of all windows.
  const fresh = createReviews(400, "benign").filter(({ text }) => !/bad|dull|grey|cold/.test(text));
  writeFileSync(benign, fresh.map(({ text }) => `${text}\n`).join(""));
  const guard = { positiveLabel: "negative", windows: 4 };
  const calibration = await calibrate({ ...runtime, model: guarded, benign, fpr: 0.1, ...guard });
  const { guard: summary } = await evaluate({ ...runtime, model: guarded, ...guard });
  expect(summary).toMatchObject({ ...guard, fpr: 0.1, threshold: calibration.threshold });
  // The label that is flagged is the first of two, and texts are scored by windows.
  await expectOperatingPoints(await RunFolder.open(guarded), guard);
  const { guards } = await compare({ runs: [guarded, plain] });
  expect(guards.map(({ name, metrics }) => [name, metrics.length])).toEqual([
    [guarded, 5],
    [plain, 5],
  ]);
  const compared = await invoke(["compare", guarded, plain]);
  expect(compared.stdout).toMatch(/guarded, seed \d+: AUC .*recall at 1\.0% false positives [\d.]+% \(95% CI/);
  // Near ties are flagged, but not certified.
  expect(summary!.certifiedRecall).toBeLessThanOrEqual(summary!.recall!);
  expect(summary!.certifiedRecall).toBeGreaterThan(0);
  await using classifier = await loadClassifier(guarded, { ...runtime, ...guard });
  const texts = createReviews(30, "flags").map(({ text }) => text);
  for (const { flagged, certified, probabilities } of await classifier.classify(texts)) {
    expect(flagged).toBe(probabilities.negative! > calibration.threshold);
    expect(certified).toEqual({
      kind: "windows",
      edits: probabilities.negative! > calibration.threshold + getTieMargin("fp32") ? null : 0,
    });
  }
  const { stdout } = await invoke(["predict", guarded, "--windows", "4", "--threads", "1", "--json"], `${texts[0]}\n`);
  expect(JSON.parse(stdout)).toMatchObject({ flagged: expect.any(Boolean), certified: { kind: "windows" } });
  // Benign words before and after hide nothing that the guard with windows finds.
  const out = join(folder, "guard");
  const protectedReport = await attackGuard({ attacks, calibrated: true, out });
  const { recall } = protectedReport.attacks.guard!;
  expect(recall!.before).toBeGreaterThan(0);
  expect(recall!.underAttack).toBe(recall!.before);
  const [verified] = await verify({ ...runtime, journals: [join(out, "guard.jsonl")], model: guarded });
  expect(verified).toBeDefined();
  const open = await attackGuard({ attacks, queryBudget: 150, out: join(folder, "guard-open") });
  const { recall: openRecall, curve } = open.attacks.guard!;
  expect(openRecall!.underAttack).toBeLessThan(openRecall!.before);
  expect(open.curve).toEqual(curve);
  expect(curve!.map(({ queries }) => queries)).toEqual([1, 10, 100, 150]);
  const recalls = curve!.map(({ recall: left }) => left);
  expect(recalls).toEqual([...recalls].sort((a, b) => b - a));
  expect([recalls[0], recalls.at(-1)]).toEqual([openRecall!.before, openRecall!.underAttack]);
});

test("text before or after cannot lower the score of a guard with windows", async () => {
  await using served = await serveModel({ ...runtime, model: plain, port: 0, windows: 4, positiveLabel: "negative" });
  const rng = new Rng("windows");
  const texts = createReviews(10, "guard").map(({ text }) => text);
  const draw = (): string => Array.from({ length: 1 + rng.integer(20) }, () => "good").join(" ");
  const longer = texts.map((text) => `${draw()} ${text} ${draw()}`);
  const [before, after] = [await post(served.url, texts), await post(served.url, longer)];
  const getScores = ({ probabilities }: Record<string, unknown[]>): number[] =>
    (probabilities as number[][]).map(([negative]) => negative!);
  const spread = await measureAsyncSpread(async () => getScores(await post(served.url, longer)));
  const rounding = computeTolerance([1], { spread });
  for (const [i, score] of getScores(before).entries())
    expect(getScores(after)[i]).toBeGreaterThanOrEqual(score - rounding);
  const pair = await postTexts(served.url, [["first", "second"]]);
  expect(pair).toEqual({ status: 400, answer: { error: expect.stringContaining("a pair of texts") } });
  const certified = before.certified as { kind: string; edits: number | null }[];
  for (const [i, { kind, edits }] of certified.entries()) {
    expect(kind).toBe("windows");
    if (edits === null) expect(after.flagged![i]).toBe(true);
  }
  expect(certified.filter(({ edits }) => edits === null).length).toBeGreaterThan(2);
});

test("a calibration that cannot keep its promise is an error, and changes nothing", async () => {
  const stored = (): string => readFileSync(join(plain, "calibration.json"), "utf8");
  const before = stored();
  const few = join(folder, "few.txt");
  const fresh = createReviews(18, "few").map(({ text }) => text);
  writeFileSync(few, `${fresh.join("\n")}\n`);
  const request = { ...runtime, model: plain, benign: few, fpr: 0.05 };
  await expect(calibrate(request)).rejects.toThrow(/needs at least 19 benign texts, received 18/);
  await expect(calibrate({ ...request, fpr: 0 })).rejects.toThrow(/fpr/);
  await expect(calibrate({ ...request, fpr: 0.2, positiveLabel: "spam" })).rejects.toThrow(/--positive-label/);
  const run = await RunFolder.open(plain);
  const seen = join(folder, "seen.txt");
  const rows = readFileSync(run.config.data!, "utf8").split("\n").slice(1, 60);
  writeFileSync(seen, rows.map((row) => `${row.split("\t")[0]}\n`).join(""));
  await expect(calibrate({ ...request, benign: seen })).rejects.toThrow(/texts are in the train split/);
  await expect(calibrate({ ...request, model: "http://127.0.0.1:9" })).rejects.toThrow(/expected a run folder/);
  expect(stored()).toBe(before);
});

test("verify computes certificates again, and names the line that is forged", async () => {
  const out = join(folder, "verified");
  await certify({ ...runtime, model: voting, numExamples: 20, out });
  await certify({ ...runtime, model: voting, numExamples: 20, kind: "windows", out });
  const journals = ["hash-vote", "windows"].map((kind) => join(out, `${kind}.jsonl`));
  const { code, stdout, stderr } = await invoke([
    "verify",
    ...journals,
    "--model",
    voting,
    "--threads",
    "1",
    "--quiet",
  ]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout).toContain(
    "hash-vote.jsonl: 20 hash-vote certificates recomputed from model and text, 1 summary recomputed; not verified: 1 header",
  );
  const forged = join(folder, "forged.jsonl");
  writeForged(journals[0]!, forged, (line) => ({ ...line, changeableGroups: 3 }));
  await expect(verify({ ...runtime, journals: [forged], model: voting })).rejects.toThrow(
    /forged\.jsonl:\d+: changeableGroups: the journal says 3, the model gives -?\d/,
  );
  await expect(verify({ ...runtime, journals: [journals[0]!], model: plain })).rejects.toThrow(/a different model/);
  await expect(certify({ ...runtime, model: plain })).rejects.toThrow(
    /expected a run that was trained for this certificate, but .* was not trained for it\. .*--method hash-vote/,
  );
});

test("distinct words certify by their margins, leads are used everywhere, and verify computes both again", async () => {
  const leads = await trainCertified(folder, "leads", [hashVote({ groups: "words", clip: 1 })]);
  const out = join(folder, "leads-certified");
  const all = await certify({ ...runtime, model: leads, out });
  expect(all.clean).toBe((await evaluate({ ...runtime, model: leads })).accuracy);
  expect(all.certified[0]!.accuracy).toBeGreaterThan(0);
  const journal = join(out, "hash-vote.jsonl");
  await verify({ ...runtime, journals: [journal], model: leads });
  const forged = join(folder, "forged-margins.jsonl");
  writeForged(journal, forged, (line) => ({
    ...line,
    margins: (line.margins as number[]).map((margin) => margin + 1),
  }));
  await expect(verify({ ...runtime, journals: [forged], model: leads })).rejects.toThrow(/margins.*: the journal says/);
});

/** Changes the certificates of a journal and gives each line a valid checksum. */
function writeForged(from: string, to: string, change: (line: Record<string, unknown>) => object): void {
  const [header, ...lines] = unseal(readFileSync(from, "utf8"));
  writeFileSync(to, seal([header, ...lines.map(change)].map((line) => JSON.stringify(line))));
}

test("attacks attack the vote, never below its certificates, and the report shows both", async () => {
  vi.stubEnv("TEMPER_CACHE", join(folder, "cache"));
  const table = join(folder, "table.json");
  const others = words.filter((word) => word !== "unknown");
  writeFileSync(
    table,
    JSON.stringify(Object.fromEntries(words.map((word) => [word, others.filter((o) => o !== word).slice(0, 8)]))),
  );
  const numExamples = 20;
  await certify({ ...runtime, model: voting, numExamples });
  const common = { ...runtime, model: voting, numExamples, substitutions: table, minContextSimilarity: -1 };
  const report = await attack({ ...common, attacks: ["pwws"], precision: "fp32" });
  const [certified] = await readCertificateReports(join(voting, "certificates"), []);
  expect(report.clean).toBe(certified!.clean);
  const certificates = unseal(readFileSync(join(voting, "certificates", "hash-vote.jsonl"), "utf8"));
  for await (const { result } of readJournal(join(voting, "attacks", "pwws.jsonl"))) {
    if (result.outcome !== "success") continue;
    const line = certificates.find(({ id }) => id === result.id)!;
    expect(result.edits.length).toBeGreaterThan(Math.floor(Number(line.changeableGroups) / 2));
  }
  expect(report.attacks.pwws!.accuracyUnderAttack).toBeLessThan(report.clean);
  const out = join(folder, "report.html");
  await writeReport({ runs: [voting], out });
  const page = readFileSync(out, "utf8");
  expect(page).toContain("Certified accuracy");
  expect(page).toContain("Accuracy under pwws");
});

test("a gate requires certified accuracy of a run that was trained for it", async () => {
  vi.stubEnv("TEMPER_CACHE", join(folder, "cache"));
  const common = {
    ...{ model: voting, baseline: voting, maxDrop: 50, out: join(folder, "gate"), ...runtime },
    numExamples: 20,
    minContextSimilarity: -1,
    substitutions: join(folder, "table.json"),
  };
  const passed = await gate({ ...common, minCertified: 0, edits: 1 });
  const check = passed.checks.at(-1)!;
  expect(check).toMatchObject({ name: "certified accuracy under 1 word edit of at least 0.0%", verdict: "passed" });
  const regressed = await gate({ ...common, minCertified: 100, edits: 3 });
  expect(regressed.verdict).toBe("regressed");
  expect(regressed.checks.at(-1)).toMatchObject({ candidate: expect.any(Number), limit: 1 });
  await expect(gate({ ...common, model: plain, minCertified: 60 })).rejects.toThrow(/--min-certified: expected a run/);
});
