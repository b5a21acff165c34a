import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { beforeAll, expect, test, vi } from "vitest";
import type { AttackReport } from "../../../src/actions/attack/attack.js";
import { attack } from "../../../src/actions/attack/attack.js";
import type { AttackCallbacks, AttackRequest } from "../../../src/actions/attack/attack-request.js";
import { listen } from "../../../src/base/events.js";
import { serve } from "../../../src/serve/serve-model.js";
import { type TinyVictim, tinyVictim } from "../../attacks/tiny-victim.js";
import { testLong } from "../../long.js";
import { temporaryFolder } from "../../temporary.js";
import { reviews } from "../../tiny-run.js";

const folder = temporaryFolder();
let victim: TinyVictim;

beforeAll(async () => {
  victim = await tinyVictim(folder);
});
beforeAll(() => vi.stubEnv("TEMPER_CACHE", join(folder, "cache")));

function writeData(name: string, rows: readonly { text: string; label: string }[]): string {
  const path = join(folder, name);
  writeFileSync(path, ["text\tlabel", ...rows.map(({ text, label }) => `${text}\t${label}`)].join("\n"));
  return path;
}

function attackWithGreedy(
  request: Partial<AttackRequest> & { data: string; out: string },
  callbacks?: AttackCallbacks,
): Promise<AttackReport> {
  const defaults = {
    model: victim.run,
    substitutions: victim.substitutions,
    attacks: ["greedy"],
    device: "cpu",
  } as const;
  return attack({ ...defaults, ...request, out: join(folder, request.out) }, callbacks);
}

testLong("memory does not grow with the number of examples", async () => {
  setFlagsFromString("--expose-gc");
  const collectGarbage = runInNewContext("gc") as () => void;
  const measureHeap = (): number => {
    collectGarbage();
    return process.memoryUsage().heapUsed + process.memoryUsage().arrayBuffers;
  };
  const count = 4500;
  // The same hundred texts are repeated, so that the score cache, which has its own limit, stays small.
  const rows = reviews(100, "memory");
  const data = writeData(
    "many.tsv",
    Array.from({ length: count }, (_, i) => rows[i % 100]!),
  );
  const sizes = new Map<number, number>();
  await attackWithGreedy(
    { data, out: "memory", numExamples: count, threads: 1 },
    listen({
      progress({ done }) {
        if (done === 300 || done === count) sizes.set(done, measureHeap());
      },
    }),
  );
  // A complete result takes one or two kilobytes.
  expect(sizes.get(count)! - sizes.get(300)!).toBeLessThan(600 * count);
});

test("an attack on 12 examples is extended to 20 without repeating any", async () => {
  const data = writeData("extended.tsv", reviews(40, "extended"));
  await attackWithGreedy({ data, out: "extended", numExamples: 12 });
  const onAttackStart = vi.fn();
  const extended = await attackWithGreedy({ data, out: "extended", numExamples: 20, resume: true }, { onAttackStart });
  expect(onAttackStart).toHaveBeenCalledWith("greedy", 12, 20, expect.anything());
  const fresh = await attackWithGreedy({ data, out: "fresh", numExamples: 20 });
  expect(extended.examples).toBe(20);
  expect(extended.worstCase).toBe(fresh.worstCase);
  expect(readFileSync(join(folder, "extended/greedy.jsonl"))).toEqual(readFileSync(join(folder, "fresh/greedy.jsonl")));
});

test("a victim that classifies the same text in two ways is reported", async () => {
  await using served = await serve({ model: victim.run, port: 0, device: "cpu" });
  let calls = 0;
  const original = globalThis.fetch;
  vi.stubGlobal("fetch", async (...args: Parameters<typeof fetch>) => {
    const response = await original(...args);
    const { probabilities } = (await response.json()) as { probabilities: number[][] };
    const isOdd = calls++ % 2 === 1;
    const rows = probabilities.map((row) => row.map((value, i) => (isOdd ? 0.9 * value + (i === 0 ? 0.1 : 0) : value)));
    return new Response(JSON.stringify({ probabilities: rows }));
  });
  const data = writeData("odd.tsv", reviews(12, "odd"));
  const { sanity } = await attackWithGreedy({ model: served.url, data, out: "odd", cache: false });
  vi.unstubAllGlobals();
  expect(sanity.map(({ name }) => name)).toContain("dropout");
});

test("case-sensitive substitutes apply to every attack but genetic, and to the earlier journals of both", async () => {
  // All texts but the first are in capital letters.
  const upper = reviews(12, "case").map(({ text, label }, i) => ({ text: i === 0 ? text : text.toUpperCase(), label }));
  const data = writeData("case.tsv", upper);
  const request = { data, out: "case", attacks: ["greedy", "genetic:population=4,iterations=1"], threads: 1 } as const;
  const { attacks } = await attackWithGreedy({ ...request, caseSensitiveSubstitutes: true });
  const count = (name: string): number[] =>
    readFileSync(join(folder, "case", `${name}.jsonl`), "utf8")
      .trim()
      .split("\n")
      .slice(1)
      .map((line) => (JSON.parse(line) as { space: { modifiableWords: number } }).space.modifiableWords);
  expect(Object.keys(attacks)).toEqual(["greedy", "genetic"]);
  expect(
    count("greedy")
      .slice(1)
      .every((words) => words === 0),
  ).toBe(true);
  expect(
    count("genetic")
      .slice(1)
      .some((words) => words > 0),
  ).toBe(true);
  const again = await attackWithGreedy({ ...request, attacks: ["random"], caseSensitiveSubstitutes: true });
  expect(Object.keys(again.attacks).sort()).toEqual(["genetic", "greedy", "random"]);
  const other = await attackWithGreedy({ ...request, attacks: ["random"], out: "case", resume: true }).catch(String);
  expect(other).toMatch(/was written with a different substitutions/);
});

test("attacks a random sample by default, and a class-balanced one on request", async () => {
  const rows = reviews(60, "sampling").map((row, i) => ({ ...row, label: i % 10 === 0 ? "positive" : "negative" }));
  const data = writeData("sampling.tsv", rows);
  const listLabels = async (sampling?: "class-balanced"): Promise<number[]> => {
    const out = `sampling-${sampling ?? "default"}`;
    await attackWithGreedy({ data, out, numExamples: 10, threads: 1, ...(sampling && { sampling }) });
    const lines = readFileSync(join(folder, out, "greedy.jsonl"), "utf8")
      .trim()
      .split("\n")
      .slice(1);
    return lines.map((line) => (JSON.parse(line) as { label: number }).label);
  };
  const count = (labels: readonly number[]): number =>
    Math.min(...[0, 1].map((x) => labels.filter((y) => y === x).length));
  expect(count(await listLabels("class-balanced"))).toBe(5);
  expect(count(await listLabels())).toBeLessThan(4);
});

test("no file, folder or command contains the secrets of an endpoint", async () => {
  await using served = await serve({ model: victim.run, port: 0, device: "cpu" });
  const data = writeData("secret.tsv", reviews(4, "secret"));
  const cwd = process.cwd();
  const here = join(folder, "secret-cwd");
  mkdirSync(here);
  process.chdir(here);
  try {
    const url = `${served.url.replace("http://", "http://user:hunter2@")}?token=hunter2`;
    const endpoint = { headers: { "x-key": "hunter2", "x-other": "env:HOME" } };
    const { request } = await attack({
      ...{ model: url, data, endpoint, substitutions: victim.substitutions, attacks: ["greedy"] },
    });
    expect(request).toMatchObject({
      model: served.url,
      endpoint: { headers: { "x-key": "(not recorded)", "x-other": "env:HOME" } },
    });
  } finally {
    process.chdir(cwd);
  }
  const names = readdirSync(here, { recursive: true, encoding: "utf8" });
  expect(names).toContainEqual(expect.stringMatching(/^attacks\/endpoint-[0-9a-f]{12}$/));
  expect(names.join("\n")).not.toContain("hunter2");
  for (const name of names.filter((each) => /\.\w+$/.test(each)))
    expect(readFileSync(join(here, name), "utf8")).not.toContain("hunter2");
});
