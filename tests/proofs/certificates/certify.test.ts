import { existsSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { certify } from "../../../src/actions/certify.js";
import { loadClassifier } from "../../../src/actions/predict/text-classifier.js";
import { Rng } from "../../../src/base/rng.js";
import { hashVote } from "../../../src/methods/index.js";
import {
  certifyHashVote,
  coversEdits,
  createCertificate,
  findCertificate,
  getTieMargin,
  runScoring,
} from "../../../src/proofs/certificates/index.js";
import type { CertificateReport } from "../../../src/runs/certificate-folder.js";
import { Interrupted } from "../../../src/train/index.js";
import { invoke } from "../../cli/invoke.js";
import { temporaryFolder } from "../../temporary.js";
import { createReviews, trainCertified, words } from "./certified-run.js";
import { editWords } from "./synthetic.js";

const folder = temporaryFolder();
const runtime = { device: "cpu", threads: 1 };
let voting: string;

beforeAll(async () => {
  voting = await trainCertified(folder, "voting", [hashVote({ groups: 7 })]);
});

describe("certify --kind hash-vote", () => {
  test("prints the contract as JSON", async () => {
    const args = ["certify", voting, "--kind", "hash-vote", "--num-examples", "40", "--threads", "1", "--json"];
    const { code, stdout, stderr } = await invoke(args);
    expect(stderr).toBe("");
    expect(code).toBe(0);
    const report = JSON.parse(stdout) as CertificateReport;
    expect(Object.keys(report).slice(0, 4)).toEqual(["kind", "examples", "clean", "certified"]);
    expect(report).toMatchObject({ kind: "hash-vote", examples: 40 });
    expect(report.clean).toBeGreaterThan(0.8);
    const [one, two] = report.certified;
    expect(one).toMatchObject({ substitutions: 1, insertions: 0 });
    expect(Object.keys(one!)).toEqual(["substitutions", "insertions", "accuracy", "interval"]);
    expect(one!.accuracy).toBeLessThanOrEqual(report.clean);
    expect(one!.accuracy).toBeGreaterThan(0);
    expect(two!.accuracy).toBeLessThanOrEqual(one!.accuracy);
    expect(one!.interval.low).toBeLessThan(one!.accuracy);
    // Seven groups cannot withstand eight changes.
    expect(report.certified.find(({ substitutions }) => substitutions === 4)?.accuracy).toBe(0);
  });

  test("no random edits within the certified radius change the vote", async () => {
    await using classifier = await loadClassifier(voting, runtime);
    const options = { groups: 7, hashSeed: 0, numLabels: 2, minMargin: getTieMargin("fp32") };
    const vote = (texts: readonly string[]) =>
      runScoring(
        texts.map((text) => certifyHashVote([text], options)),
        (fields) => classifier.score(fields),
      );
    const rng = new Rng("soundness");
    let trials = 0;
    let flipped = 0;
    for (const { text } of createReviews(30, "fresh")) {
      const [certificate] = await vote([text]);
      const tryEdits = async (substitutions: number, insertions: number): Promise<number> => {
        const edited = Array.from({ length: 80 }, () =>
          editWords(text.split(" "), { substitutions, insertions }, rng, words).join(" "),
        );
        return (await vote(edited)).filter(({ label }) => label !== certificate!.label).length;
      };
      for (const [substitutions, insertions] of [
        [1, 0],
        [0, 1],
        [0, 2],
        [1, 1],
        [0, 3],
      ] as const)
        if (coversEdits(certificate!, { substitutions, insertions })) {
          trials += 80;
          expect(await tryEdits(substitutions, insertions)).toBe(0);
        }
      flipped += await tryEdits(6, 0);
    }
    expect(trials).toBeGreaterThan(2000);
    // The same edits do change votes outside the radius, so the test could fail.
    expect(flipped).toBeGreaterThan(10);
  });

  test("a journal that was cut off anywhere is continued to the same bytes", async () => {
    const request = { ...runtime, model: voting, numExamples: 40 };
    const undisturbed = join(folder, "undisturbed");
    const report = await certify({ ...request, out: undisturbed });
    const journal = readFileSync(join(undisturbed, "hash-vote.jsonl"));
    const out = join(folder, "killed");
    const stop = new AbortController();
    const stopped = certify({ ...request, out }, { signal: stop.signal, onEvent: () => stop.abort() });
    await expect(stopped).rejects.toThrow(Interrupted);
    const path = join(out, "hash-vote.jsonl");
    const partial = readFileSync(path);
    expect(partial.length).toBeLessThan(journal.length);
    // A crash in the middle of a line.
    truncateSync(path, partial.length - 10);
    const resumed = await certify({ ...request, out, resume: true });
    expect(readFileSync(path)).toEqual(journal);
    expect({ ...resumed, journal: "" }).toEqual({ ...report, journal: "" });
    // A smaller sample is the start of a larger one.
    const grown = join(folder, "grown");
    await certify({ ...request, numExamples: 32, out: grown });
    await certify({ ...request, out: grown, resume: true });
    expect(readFileSync(join(grown, "hash-vote.jsonl"))).toEqual(journal);
  });

  test("a journal is not overwritten, mixed with other options, or continued after a change", async () => {
    const out = join(folder, "damaged");
    const request = { ...runtime, model: voting, numExamples: 8, out };
    await certify(request);
    await expect(certify(request)).rejects.toThrow(/already exists\. Pass --resume/);
    await expect(certify({ ...request, seed: 1, resume: true })).rejects.toThrow(/different seed: 0, now 1/);
    const path = join(out, "hash-vote.jsonl");
    const lines = readFileSync(path, "utf8").split("\n");
    lines[2] = lines[2]!.replace(/"changeableGroups":-?\d+/, '"changeableGroups":9');
    writeFileSync(path, lines.join("\n"));
    await expect(certify({ ...request, resume: true })).rejects.toThrow(/hash-vote.jsonl:3: the line does not match/);
  });

  test("a table for people names the edits, the interval and the journal", async () => {
    const out = join(folder, "table");
    const { code, stdout } = await invoke(["certify", voting, "--num-examples", "10", "--edits", "2", "--out", out]);
    expect(code).toBe(0);
    expect(stdout).toContain("10 texts, certificate hash-vote");
    expect(stdout).toMatch(/no edits +\d+\.\d%/);
    expect(stdout).toMatch(/2 substitutions +\d+\.\d%/);
    expect(stdout).toMatch(/1 insertion or deletion +\d+\.\d%/);
    expect(stdout).not.toContain("3 substitutions");
    expect(stdout).toContain("This is a proof");
  });
});

describe("other certificates", () => {
  test("windows certify any model", async () => {
    const request = { ...runtime, model: voting, numExamples: 20 };
    const certifyWindows = (positiveLabel: string) =>
      certify({ ...request, kind: `windows:size=4,positiveLabel=${positiveLabel}` });
    const windows = await certifyWindows("negative");
    expect(windows.guard!.threshold).toBe(0.5);
    expect(windows.certified[0]!.accuracy).toBeLessThanOrEqual(windows.guard!.recall!);
    await expect(certifyWindows("spam")).rejects.toThrow(/--positive-label: expected/);
  });
});

test("invalid requests say what to do", async () => {
  const expectError = async (args: readonly string[], message: RegExp): Promise<void> => {
    const { code, stderr } = await invoke(["certify", ...args]);
    expect({ code, isClear: message.test(stderr), stderr }).toMatchObject({ code: 2, isClear: true });
  };
  await expectError([voting, "--kind", "windows:size=0"], /--kind windows: size: expected/);
  await expectError([voting, "--kind", "canonical:alpha=1"], /--kind canonical: unknown key alpha/);
  await expectError(
    [voting, "--kind", "canonical", "--out", join(folder, "none")],
    /--kind canonical: expected a model that reads canonical forms.*--normalize canonical/s,
  );
  expect(existsSync(join(folder, "none"))).toBe(false);
  await expectError([join(folder, "tiny-bert")], /has no classification head/);
  await expectError([voting, "--edits", "0"], /Expected an integer from 1/);
  await expectError(
    [voting, "--kind", "magic"],
    /--kind: unknown certificate "magic"\. Use one of hash-vote, canonical, windows\./,
  );
  await expectError(["http://127.0.0.1:9/"], /expected a model, received an endpoint/);
  await expect(certify({ model: voting, edits: 0 })).rejects.toThrow(/edits/);
});

test("no number in the header of a journal makes its verification endless", () => {
  const shared = { numLabels: 2, editableFields: [0], minMargin: 0 };
  const vote = { kind: "hash-vote", ...shared, maxEdits: 5, groups: 7, hashSeed: 0, hashVersion: 1 };
  const windows = { kind: "windows", ...shared, size: 32, positiveLabel: 1, threshold: 0.5 };
  for (const options of [vote, windows]) {
    const create = (changes: object): unknown =>
      createCertificate(findCertificate(options.kind, "journal"), { ...options, ...changes }, "journal");
    expect(create({})).toBeDefined();
    for (const key of ["numLabels", "maxEdits", "groups", "size"])
      if (key in options) expect(() => create({ [key]: 2 ** 31 })).toThrow(new RegExp(`journal: ${key}`));
  }
});
