import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { train } from "../../../src/actions/train/train.js";
import { verify } from "../../../src/actions/verify/verify.js";
import { hashVote } from "../../../src/methods/index.js";
import { evaluationResultSchema } from "../../../src/runs/results.js";
import { chooseExtent } from "../../extent.js";
import { listMutations } from "../../mutations.js";
import { createReviews, trainCertified } from "../../proofs/certificates/certified-run.js";
import { temporaryFolder } from "../../temporary.js";
import { tinyRun } from "../../tiny-run.js";

const folder = temporaryFolder();
const runtime = { device: "cpu", threads: 1 };
let plain = "";

beforeAll(async () => {
  // Every fourth label is wrong, so that scores are not saturated: they differ by more than rounding.
  const rows = createReviews(400, "noisy").map(
    ({ text }, i) => `${text}\t${i % 2 === Number(i % 8 < 2) ? "good" : "bad"}`,
  );
  const data = join(folder, "noisy.tsv");
  writeFileSync(data, `text\tlabel\n${rows.join("\n")}\n`);
  plain = join(folder, "plain");
  await train({ ...(await tinyRun(folder, { data, train: { epochs: 4 } })), out: plain });
});

const read = (run: string) => JSON.parse(readFileSync(join(run, "results.json"), "utf8"));

/** Verifies a run whose test result was replaced, and restores it. */
async function verifyChanged(run: string, test: unknown): Promise<Awaited<ReturnType<typeof verify>>> {
  const path = join(run, "results.json");
  const original = readFileSync(path, "utf8");
  writeFileSync(path, JSON.stringify({ ...JSON.parse(original), test }));
  try {
    return await verify({ ...runtime, journals: [run] });
  } finally {
    writeFileSync(path, original);
  }
}

test("test texts are classified again, and the test result is computed", async () => {
  const voting = await trainCertified(folder, "votes", [hashVote({ groups: 5 })]);
  for (const run of [plain, voting]) {
    const { examples, task } = read(run).test;
    expect(await verify({ ...runtime, journals: [run] })).toMatchObject([
      {
        journal: join(run, "results.json"),
        lines: examples,
        classes: [
          { count: examples, what: `texts of ${task} classified again`, isVerified: true },
          { count: 1, what: "test result recomputed", isVerified: true },
          { count: 1, what: "validation result, with what training says of itself", isVerified: false },
          { what: "events of training with losses and validation values", isVerified: false },
        ],
      },
    ]);
  }
});

test("every field of a test result is computed again", async () => {
  const result = read(plain).test;
  const unnoticed = new Set<string>();
  let mutated = 0;
  const mutations = listMutations(evaluationResultSchema, result);
  for (const { path, value } of mutations.filter((_, i) => i % chooseExtent(8, 1) === 0)) {
    mutated++;
    const found = await verifyChanged(plain, value).catch(() => null);
    if (found) unnoticed.add(path);
  }
  console.log(`${mutated} fields were changed`);
  expect([...unnoticed]).toEqual([]);
});

test("numbers that the result of an earlier version lacks are counted", async () => {
  const { auc: _, ...rest } = read(plain).test;
  const [{ classes }] = (await verifyChanged(plain, rest)) as [Awaited<ReturnType<typeof verify>>[number]];
  const what = "numbers that the test result lacks (auc)";
  expect(classes).toContainEqual({ count: 1, what, isVerified: false });
});

test("a result of another host holds within the rounding of scores, a better one does not", async () => {
  const result = read(plain).test;
  const moved = structuredClone(result);
  moved.metrics["log-loss"] += 1e-6;
  moved.auc = moved.operatingPoints.auc;
  for (const point of moved.operatingPoints.curve) if (point.threshold !== null) point.threshold += 1e-6;
  expect((await verifyChanged(plain, moved))[0]!.classes).toContainEqual({
    count: 1,
    what: "test result recomputed",
    isVerified: true,
  });
  const { correct } = result.outcomes;
  const better = { ...result, outcomes: { ...result.outcomes, correct: correct.replace("0", "1") } };
  expect(better).not.toEqual(result);
  const text = correct.indexOf("0") + 1;
  await expect(verifyChanged(plain, better)).rejects.toThrow(`answers otherwise to text ${text}.`);
  moved.operatingPoints.curve[0].recall = 0.5;
  await expect(verifyChanged(plain, moved)).rejects.toThrow("the model has no point");
});

test("a result whose texts are gone or others is not verified", async () => {
  const run = join(folder, "moved");
  cpSync(plain, run, { recursive: true });
  const config = readFileSync(join(run, "config.yaml"), "utf8");
  writeFileSync(join(run, "config.yaml"), config.replace("noisy.tsv", "nowhere.tsv"));
  // The numbers of a guard, of an analysis and of AdvGLUE are in tables and reports, too.
  const { test } = read(run);
  writeFileSync(
    join(run, "advglue.json"),
    JSON.stringify({ task: "advglue", part: "sst2", drop: 0, glue: test, advglue: test }),
  );
  const calibration = { threshold: 0.5, fpr: 0.01, examples: 99, positiveLabel: "good", windows: null };
  writeFileSync(join(run, "calibration.json"), JSON.stringify(calibration));
  mkdirSync(join(run, "analysis"));
  writeFileSync(join(run, "analysis", "landscape.svg"), "<svg/>");
  const found = await verify({ ...runtime, journals: [run] });
  const missing = "texts of a test result, whose data is not here";
  expect(found.map(({ classes }) => classes.map(({ what }) => what))).toEqual([
    [
      missing,
      "validation result, with what training says of itself",
      "events of training with losses and validation values",
      "threshold of a guard, with its operating points",
      "files of analyses",
    ],
    [missing, missing],
  ]);
  expect(found.flatMap(({ classes }) => classes).some(({ isVerified }) => isVerified)).toBe(false);
  const result = read(plain).test;
  const other = { ...result, outcomes: { ...result.outcomes, examples: "0".repeat(64) } };
  await expect(verifyChanged(plain, other)).rejects.toThrow("its test texts are not those of");
});
