import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { constraintsSchema } from "../../src/attacks/constraints.js";
import { type AttackSuiteOptions, runAttackSuite } from "../../src/runs/attack-suite.js";
import { loadVictim } from "../../src/runs/load-victim.js";
import { loadSubstitutions } from "../../src/text/substitutions.js";
import { reviewExamples, type TinyVictim, tinyVictim } from "../attacks/tiny-victim.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();
let made: TinyVictim;

beforeAll(async () => {
  made = await tinyVictim(folder);
}, 120_000);
beforeEach(() => vi.stubEnv("TEMPER_CACHE", join(folder, "cache")));
afterEach(() => vi.unstubAllEnvs());

async function planOf(out: string, count: number): Promise<AttackSuiteOptions> {
  return {
    loadedVictim: await loadVictim(made.run, { device: "cpu", threads: 1 }),
    task: { name: "reviews", labels: ["negative", "positive"], modifiableFields: [0] },
    split: "test",
    examples: reviewExamples(count),
    attacks: [{ name: "greedy", options: {} }],
    substitutions: await loadSubstitutions(made.substitutions),
    constraints: constraintsSchema.parse({}),
    seed: 0,
    out: join(folder, out),
  };
}

test("memory does not grow with the examples", async () => {
  setFlagsFromString("--expose-gc");
  const collectGarbage = runInNewContext("gc") as () => void;
  const heap = (): number => {
    collectGarbage();
    return process.memoryUsage().heapUsed + process.memoryUsage().arrayBuffers;
  };
  const plan = await planOf("memory", 100);
  // The same hundred texts again and again: the cache of scores, which has a bound of its own, is full of them at once.
  const examples = Array.from({ length: 4500 }, (_, i) => ({ ...plan.examples[i % 100]!, id: String(i) }));
  const sizes = new Map<number, number>();
  await runAttackSuite({
    ...plan,
    examples,
    callbacks: {
      onResult(done) {
        if (done === 300 || done === 4500) sizes.set(done, heap());
      },
    },
  });
  plan.loadedVictim.close();
  // A result in full takes a kilobyte or two: 4,200 of them would be four megabytes and more.
  expect(sizes.get(4500)! - sizes.get(300)!).toBeLessThan(2_500_000);
});

test("a journal is not continued with other texts", async () => {
  const plan = await planOf("texts", 8);
  await runAttackSuite(plan);
  const other = plan.examples.map((example, i) => (i === 7 ? { ...example, texts: ["the very good scene"] } : example));
  await expect(runAttackSuite({ ...plan, examples: other, resume: true })).rejects.toThrow(
    "the journal was made with another data",
  );
  plan.loadedVictim.close();
});

test("a victim that answers the same text in two ways is told of", async () => {
  const plan = await planOf("moody", 12);
  const { victim } = plan.loadedVictim;
  let calls = 0;
  const moody = {
    ...victim,
    probabilities: async (inputs: Parameters<typeof victim.probabilities>[0]) => {
      const rows = await victim.probabilities(inputs);
      return calls++ % 2 ? rows.map((row) => row.map((value, i) => 0.9 * value + (i === 0 ? 0.1 : 0))) : rows;
    },
  };
  const { sanity } = await runAttackSuite({
    ...plan,
    loadedVictim: { ...plan.loadedVictim, victim: moody },
    cache: false,
  });
  plan.loadedVictim.close();
  expect(sanity.map(({ name }) => name)).toContain("dropout");
});
