import { join } from "node:path";
import { parseHTML } from "linkedom";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { z } from "zod";
import { attack } from "../../../src/actions/attack/attack.js";
import { createTextAttacker, type WatchedResult } from "../../../src/actions/attack/attack-text.js";
import { verify } from "../../../src/actions/verify/verify.js";
import {
  attackNames,
  beamSearch,
  defineAttack,
  deleteWord,
  insertWords,
  rankWordsAndReplace,
  type Transformation,
  untargeted,
} from "../../../src/attacks/index.js";
import { readJournal } from "../../../src/attacks/journal.js";
import type { AttackResult } from "../../../src/attacks/result.js";
import { parseSpec } from "../../../src/base/spec.js";
import { splitChangedText } from "../../../src/evaluation/changed-text.js";
import { renderBlindTexts, renderChangedText, renderOriginalText } from "../../../src/report/diff.js";
import type { SearchMessage } from "../../../src/studio/api.js";
import { JournalSearch } from "../../../src/studio/journal-search.js";
import { LoadedPlaygroundModel } from "../../../src/studio/playground-model.js";
import { RatingStore } from "../../../src/studio/ratings.js";
import { type TinyVictim, tinyVictim } from "../../attacks/tiny-victim.js";
import { chooseExtent } from "../../extent.js";
import { expectClose } from "../../rounding.js";
import { temporaryFolder } from "../../temporary.js";
import { writeMaskedLm } from "../substitutions/masked-lm.js";

const folder = temporaryFolder();
let victim: TinyVictim;
let other: TinyVictim;
let playground: LoadedPlaygroundModel;
let models: { sentenceEncoder: string; maskedLm: string };

beforeAll(async () => {
  const maskedLm = await writeMaskedLm(join(folder, "masked-lm"));
  victim = await tinyVictim(join(folder, "word"), { tokenization: "word" }, 8);
  other = await tinyVictim(join(folder, "subword"), { seed: 1 }, 8);
  models = { sentenceEncoder: join(folder, "word/tiny-bert"), maskedLm };
  vi.stubEnv("TEMPER_CACHE", join(folder, "cache"));
  playground = await LoadedPlaygroundModel.load(victim.run);
});
beforeEach(() => vi.stubEnv("TEMPER_CACHE", join(folder, "cache")));
afterEach(() => vi.unstubAllEnvs());
afterAll(() => playground.close());

/** Small populations, so that every attack takes little time. */
const small = "population=4,iterations=2";
const options: Readonly<Record<string, string>> = {
  ...{ genetic: small, alzantot: small, "faster-alzantot": small, iga: small, pso: small, leap: small },
  ...{ random: "samples=5", exhaustive: "maxCandidates=30", "bad-characters": "population=3,iterations=2" },
  ...{ guard: "benignLabel=positive,paddingWords=5,maxAddedWords=3,maxQueries=60", bae: "variant=I,similarity=-1" },
  ...{ clare: "similarity=-1", charmer: "edits=1,places=2" },
};

/** Attacks without random draws, which depend on the ID of the example. */
const deterministic = new Set(["pwws", "greedy", "exhaustive", "textfooler", "input-reduction", "hotflip", "a2t"]);

/** An attack whose only change is one of these. */
const mergeWords: Transformation = {
  name: "two words as one",
  kind: "merge",
  apply: (text, positions) =>
    positions
      .filter((position) => position + 1 < text.length)
      .map((position) => text.apply({ kind: "merge", position, word: "dull" })),
};
const define = (name: string, transformation: Transformation) =>
  defineAttack({
    ...{ name, summary: name, paper: "none", options: z.strictObject({}), resources: [] },
    build: () => ({
      goal: untargeted,
      transformations: [transformation],
      constraints: [],
      search: name === "merging" ? beamSearch(1) : rankWordsAndReplace({ by: "delete" }),
    }),
  })();
const custom = [
  define("inserting", insertWords(["dull"])),
  define("deleting", deleteWord),
  define("merging", mergeWords),
];

const [numExamples, queryBudget] = [chooseExtent(2, 4), chooseExtent(30, 60)];
const all = [...attackNames, ...custom];
const specs = all.map((given) =>
  typeof given === "string" && options[given] ? (`${given}:${options[given]}` as const) : given,
);
const names = all.map((given) => (typeof given === "string" ? given : given.name));
const journals = () => names.map((name) => join(victim.run, "attacks", `${name}.jsonl`));

async function readResults(path: string): Promise<AttackResult[]> {
  const results: AttackResult[] = [];
  for await (const { result } of readJournal(path)) results.push(result);
  return results;
}

// All attacks share the requests, so that the models are loaded once.
beforeAll(async () => {
  const runtime = { device: "cpu", threads: 1, precision: "fp32", ...models } as const;
  const report = await attack({
    ...{ model: victim.run, data: victim.data, attacks: specs, numExamples, queryBudget, ...runtime },
  });
  expect(JSON.parse(JSON.stringify(report)).request.attacks.map(({ name }: { name: string }) => name)).toEqual(names);
  await verify({ journals: journals(), model: victim.run, device: "cpu", threads: 1 });
  for (const [i, path] of journals().entries()) found.set(names[i]!, await readResults(path));
  const attacker = await createTextAttacker({ model: victim.run, attacks: specs, queryBudget, ...runtime });
  for (const result of await attacker.attack(getAttacked().texts, { label: getAttacked().label }))
    typed.set(result.attack, result);
  attacker.close();
  const out = join(folder, "transfer");
  const settings = { device: "cpu", threads: 1, precision: "fp32", out, numExamples } as const;
  await attack({ model: other.run, data: victim.data, attacks: ["greedy"], transferFrom: journals(), ...settings });
});

const found = new Map<string, AttackResult[]>();
const typed = new Map<string, WatchedResult>();
/** The first text that the model classifies correctly, so that attacks change it. */
const getAttacked = (): AttackResult => found.get("greedy")!.find(({ outcome }) => outcome !== "skipped")!;

test.each(names)("%s works in every place", async (name) => {
  const results = found.get(name)!;
  expect(results).toHaveLength(numExamples);

  for (const result of results) {
    const { finalTexts, finalWords, texts } = result;
    // The report and the studio show the final text, word for word.
    const shown = splitChangedText(result).fields.map((pieces) => pieces.map(({ text }) => text).join(""));
    expect(shown).toEqual(finalTexts);
    const isNew = finalWords.filter((word, i) => result.words[result.origins[i]!] !== word);
    const marks = parseHTML(`<body>${renderChangedText(result).text}</body>`).document.querySelectorAll("ins");
    expect([...marks].map((mark) => mark.firstChild!.textContent)).toEqual(isNew);
    for (const html of [renderChangedText(result), renderOriginalText(result, new Set([0]))])
      expect(String(html)).not.toContain("undefined");
    if (result.outcome === "skipped") expect(finalTexts).toEqual(texts);
  }

  const ratings = new RatingStore(join(folder, "ratings"), new JournalSearch());
  const pairs = await ratings.listPairs(victim.run, name, "rater");
  const fooled = results.filter(({ outcome }) => outcome === "success");
  const sortPair = (...texts: readonly string[]): string => texts.toSorted().join("|");
  expect(pairs.map(({ first, second }) => sortPair(first, second)).sort()).toEqual(
    fooled
      .map(renderBlindTexts)
      .map(({ original, attacked }) => sortPair(original.text, attacked.text))
      .sort(),
  );

  // A text that is typed has the result that it has in a dataset: of the same seed and stream.
  const { texts, before, label } = getAttacked();
  expect(typed.get(name)).toMatchObject({ attack: name, result: { texts } });
  // Both are written with six decimals, and the batches have other shapes.
  expectClose(typed.get(name)!.result.before, before, { decimals: 6 - Math.log10(2) });
  if (deterministic.has(name)) {
    const { queries, finalTexts } = results.find((result) => result.texts[0] === texts[0])!;
    expect(typed.get(name)!.result).toMatchObject({ queries, finalTexts });
  }
  const spec = specs[names.indexOf(name)]!;
  if (typeof spec === "string") {
    const sent: SearchMessage[] = [];
    const { signal } = new AbortController();
    const send = (message: SearchMessage): void => void sent.push(message);
    await playground.attack({ texts, label, attack: parseSpec(spec, "attack"), models }, { signal, send });
    expect(sent.at(-1)).toMatchObject({ type: "end", texts: [expect.any(String)] });
    // An attack by gradients has no texts to watch.
    const steps = sent.filter((message) => message.type === "step");
    if (name !== "ascc") expect(steps.at(-1)!.queries).toBeGreaterThan(0);
  }

  const transferred = await readResults(join(folder, "transfer", `transfer-${name}.jsonl`));
  expect(transferred).toHaveLength(numExamples);
  for (const [i, result] of transferred.entries())
    if (result.outcome !== "skipped") expect(result.finalTexts).toEqual(results[i]!.finalTexts);
});

test("insertions, deletions and merges were among the changes", () => {
  const edits = [...found.values()].flat().map((result) => result.edits);
  const changes = edits.flat();
  expect(changes.some(({ from }) => from === "")).toBe(true);
  expect(changes.some(({ to }) => to === "")).toBe(true);
  const isMerge = edits.some((list) =>
    list.some(
      ({ position, to }) => to === "dull" && list.some((next) => next.position === position + 1 && next.to === ""),
    ),
  );
  expect(isMerge).toBe(true);
});
