import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { attack } from "../../src/actions/attack/attack.js";
import { attackRequestSchema } from "../../src/actions/attack/attack-request.js";
import { applyProtocol, limitModification } from "../../src/actions/attack/published-protocols.js";
import { verify } from "../../src/actions/verify/verify.js";
import { readJournal } from "../../src/attacks/journal.js";
import { createRecipeAttack, loadAttack } from "../../src/attacks/load-attack.js";
import { type TinyVictim, tinyVictim } from "../attacks/tiny-victim.js";
import { invoke } from "../cli/invoke.js";
import { temporaryFolder } from "../temporary.js";
import { writeMaskedLm } from "./masked-lm.js";

const folder = temporaryFolder();
let victim: TinyVictim;

beforeAll(async () => {
  await writeMaskedLm(join(folder, "masked-lm"));
  victim = await tinyVictim(join(folder, "victim"));
});
beforeEach(() => vi.stubEnv("TEMPER_CACHE", join(folder, "cache")));
afterEach(() => vi.unstubAllEnvs());

const parse = (request: object) => attackRequestSchema.parse(applyProtocol({ model: "m", ...request } as never));

test("textdefender has the attacks and limits of its publication, unless the request has others", () => {
  const { attacks, sample, constraints } = parse({ protocol: "textdefender" });
  expect(attacks.map(({ name }) => name)).toEqual(["textfooler", "textbugger", "bert-attack"]);
  expect(attacks[0]!.options).toMatchObject({ neighbors: 50, similarity: 0.840845057, wordSimilarity: -1 });
  expect(attacks[1]!.options).toMatchObject({ neighbors: 50, characters: false });
  expect(attacks[2]!.options).toMatchObject({ candidates: 50 });
  expect(sample.numExamples).toBe(1000);
  expect(constraints).toMatchObject({ queriesPerWord: 50, queryBudget: null });
  const rates = ["imdb", "ag-news", "sst2"].map(
    (task) => limitModification(parse({ protocol: "textdefender" }), task).constraints.maxModificationRate,
  );
  expect(rates).toEqual([0.1, 0.3, 0.3]);
  const own = { queryBudget: 9, maxModificationRate: 0.2 };
  const kept = parse({ protocol: "textdefender", attacks: ["pwws"], constraints: own });
  expect(kept).toMatchObject({ attacks: [{ name: "pwws" }], constraints: { ...own, queriesPerWord: null } });
  expect(limitModification(kept, "imdb").constraints).toMatchObject(own);
  expect(limitModification(parse({}), "imdb").constraints.maxModificationRate).toBe(1);
});

test("TextBugger without characters only swaps words", async () => {
  const resources = { neighbors: { hash: "none", getSubstitutes: () => [] }, encoder: {}, labels: ["0", "1"] } as never;
  const count = async (spec: string) =>
    createRecipeAttack(await loadAttack(spec), resources).recipe.transformations.length;
  expect([await count("textbugger"), await count("textbugger:characters=false")]).toEqual([5, 1]);
});

test("--protocol textdefender keeps its limits, prints its columns and can be verified", async () => {
  const out = join(folder, "out");
  const encoder = ["--sentence-encoder", join(folder, "victim/tiny-bert"), "--masked-lm", join(folder, "masked-lm")];
  const argv = ["attack", victim.run, "--data", victim.data, "--protocol", "textdefender", "--num-examples", "6"];
  const options = ["--substitutions", victim.substitutions, "--out", out, "--threads", "1"];
  const { code, stdout, stderr } = await invoke([...argv, ...encoder, ...options]);
  expect([code, stderr]).toEqual([0, expect.stringContaining("Pass --vectors FILE")]);
  expect(stdout).toMatch(/textdefender +Clean% +AUA% +Suc% +#Query +texts/);
  expect(stdout).toMatch(/textfooler +\d+\.\d +\d+\.\d +\d+\.\d +\d+\.\d +6/);
  const names = ["textfooler", "textbugger", "bert-attack"];
  const journals = names.map((name) => join(out, `${name}.jsonl`));
  for (const path of journals)
    for await (const { header, result } of readJournal(path)) {
      expect(header.settings).toMatchObject({
        budget: { perWord: 50 },
        maxModificationRate: 0.3,
        protocol: "textdefender",
      });
      expect(result.queries).toBeLessThanOrEqual(50 * result.words.length);
      expect(result.edits.length).toBeLessThanOrEqual(Math.ceil(0.3 * result.words.length));
    }
  expect(await verify({ journals, model: victim.run, device: "cpu", threads: 1 })).toHaveLength(3);
  const { request } = JSON.parse(readFileSync(join(out, "report.json"), "utf8")) as { request: object };
  expect(request).toMatchObject({
    protocol: "textdefender",
    constraints: { queriesPerWord: 50, maxModificationRate: 0.3 },
  });
});

test("a total budget and one per word exclude each other, and unknown protocols are rejected", async () => {
  const constraints = { queryBudget: 9, queriesPerWord: 9 };
  await expect(attack({ model: victim.run, constraints, out: join(folder, "bad") })).rejects.toThrow("received both");
  const unknown = await invoke(["attack", victim.run, "--protocol", "textfender"]);
  expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringContaining("textdefender")]);
});
