import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test, vi } from "vitest";
import { attack } from "../../../src/actions/attack/attack.js";
import { attackRequestSchema } from "../../../src/actions/attack/attack-request.js";
import { formatAttackCommand } from "../../../src/actions/attack/format-attack-commands.js";
import { openAttackedVictim, prepareAttacks } from "../../../src/actions/attack/prepare-attack.js";
import { applyProtocol, limitModification } from "../../../src/actions/attack/published-protocols.js";
import { sampleAttacked } from "../../../src/actions/attack/sample-attacked.js";
import { verify } from "../../../src/actions/verify/verify.js";
import { readJournal } from "../../../src/attacks/journal.js";
import { equipAttack, loadAttack } from "../../../src/attacks/load-attack.js";
import { type TinyVictim, tinyVictim } from "../../attacks/tiny-victim.js";
import { invoke } from "../../cli/invoke.js";
import { temporaryFolder } from "../../temporary.js";
import { writeMaskedLm } from "../substitutions/masked-lm.js";

const folder = temporaryFolder();
let victim: TinyVictim;

beforeAll(async () => {
  await writeMaskedLm(join(folder, "masked-lm"));
  victim = await tinyVictim(join(folder, "victim"));
});
beforeAll(() => vi.stubEnv("TEMPER_CACHE", join(folder, "cache")));

const parse = (request: object) => attackRequestSchema.parse(applyProtocol({ model: "m", ...request } as never));

test("textdefender has the attacks and limits of its publication, unless the request has others", () => {
  const { attacks, ...request } = parse({ protocol: "textdefender" });
  expect(attacks.map(({ name }) => name)).toEqual(["textfooler", "textbugger", "bert-attack"]);
  expect(attacks[0]!.options).toMatchObject({ neighbors: 50, similarity: 0.840845057, wordSimilarity: -1 });
  expect(attacks[1]!.options).toMatchObject({ neighbors: 50, characters: false });
  expect(attacks[2]!.options).toMatchObject({ candidates: 50 });
  for (const { options } of attacks) expect(options).toMatchObject({ compat: "textattack", scores: "probabilities" });
  expect(request.numExamples).toBe(1000);
  expect(request).toMatchObject({ queriesPerWord: 50, queryBudget: null });
  const rates = ["imdb", "ag-news", "sst2"].map(
    (task) => limitModification(parse({ protocol: "textdefender" }), task).maxModificationRate,
  );
  expect(rates).toEqual([0.1, 0.3, 0.3]);
  const own = { queryBudget: 9, maxModificationRate: 0.2 };
  const kept = parse({ protocol: "textdefender", attacks: ["pwws"], ...own });
  expect(kept).toMatchObject({ attacks: [{ name: "pwws" }], ...own, queriesPerWord: null });
  expect(limitModification(kept, "imdb")).toMatchObject(own);
  const all = parse({ protocol: "textdefender", maxModificationRate: 1 });
  expect(limitModification(all, "imdb").maxModificationRate).toBe(1);
  expect(limitModification(parse({}), "imdb").maxModificationRate).toBe(null);
});

test("textdefender draws its sample from texts of at least five words", async () => {
  const texts = ["one two three four", "one two three four five", "short", "", "a b c d e f"];
  const examples = texts.map((text, i) => ({ id: String(i), texts: [text], label: 0 }));
  const task = {
    name: "toy",
    labels: ["0"],
    modifiableFields: [0],
    sourceNames: {},
    load: async () => examples,
  } as never;
  const options = { split: "test", numExamples: 5, seed: 0 } as const;
  const draw = async (protocol: "textdefender" | null): Promise<string[]> =>
    (await sampleAttacked(task, { ...options, protocol })).examples.map(({ id }) => id).sort();
  expect(await draw("textdefender")).toEqual(["1", "4"]);
  expect(await draw(null)).toEqual(["0", "1", "2", "3", "4"]);
  examples.splice(0, 5, { id: "0", texts: ["too short"], label: 0 });
  await expect(draw("textdefender")).rejects.toThrow("no text that is long enough for the protocol textdefender");
});

test("every attack of textdefender has the similarity constraint of the protocol", async () => {
  const resources = {
    substitutions: victim.substitutions,
    sentenceEncoder: join(folder, "victim/tiny-bert"),
    maskedLm: join(folder, "masked-lm"),
  };
  const request = parse({ model: victim.run, protocol: "textdefender", ...resources });
  await using opened = await openAttackedVictim(victim.run, request, {});
  const task = { labels: ["negative", "positive"], modifiableFields: [0] };
  const prepared = await prepareAttacks(request, opened, task, {});
  const name = "angular similarity of at least 0.840845057 in a window of 15 words";
  for (const each of prepared.attacks) {
    const { recipe } = equipAttack(each, prepared.resources, prepared.constraints);
    expect(
      recipe.constraints.map((constraint) => constraint.name),
      each.name,
    ).toContain(name);
  }
  expect(prepared.attacks.map((each) => each.name)).toEqual(["textfooler", "textbugger", "bert-attack"]);
});

test("TextBugger without characters only swaps words", async () => {
  const resources = { neighbors: { hash: "none", getSubstitutes: () => [] }, encoder: {}, labels: ["0", "1"] } as never;
  const count = async (spec: string) => equipAttack(await loadAttack(spec), resources).recipe.transformations.length;
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
    queriesPerWord: 50,
    maxModificationRate: 0.3,
  });
});

test("--max-modification-rate 1 wins over the protocol, and the repeated command has it", async () => {
  const out = join(folder, "all-words");
  const argv = ["attack", victim.run, "--data", victim.data, "--protocol", "textdefender", "--num-examples", "1"];
  const options = ["--attack", "pwws", "--max-modification-rate", "1", "--out", out, "--threads", "1"];
  const encoder = ["--sentence-encoder", join(folder, "victim/tiny-bert")];
  expect((await invoke([...argv, ...encoder, ...options])).code).toBe(0);
  for await (const { header } of readJournal(join(out, "pwws.jsonl")))
    expect(header.settings).toMatchObject({ maxModificationRate: 1, protocol: "textdefender" });
  const { request } = JSON.parse(readFileSync(join(out, "report.json"), "utf8")) as {
    request: Record<string, unknown>;
  };
  expect(formatAttackCommand(request)).toContain("--max-modification-rate 1");
  // Other requests record 1, too, if a sweep made them.
  expect(formatAttackCommand({ ...request, protocol: null })).not.toContain("--max-modification-rate");
});

test("a total budget and one per word exclude each other, and unknown protocols are rejected", async () => {
  const budgets = { queryBudget: 9, queriesPerWord: 9 };
  await expect(attack({ model: victim.run, ...budgets, out: join(folder, "bad") })).rejects.toThrow("received both");
  const unknown = await invoke(["attack", victim.run, "--protocol", "textfender"]);
  expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringContaining("textdefender")]);
});
