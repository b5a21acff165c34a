import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { z } from "zod";
import { createTextAttacker } from "../../src/actions/attack/attack-text.js";
import { verify } from "../../src/actions/verify/verify.js";
import {
  attackNames,
  beamSearch,
  defineAttack,
  deleteWord,
  insertWords,
  rankWordsAndReplace,
  type Transformation,
  untargeted,
} from "../../src/attacks/index.js";
import { readJournal } from "../../src/attacks/journal.js";
import type { AttackResult } from "../../src/attacks/result.js";
import { splitChangedText } from "../../src/evaluation/changed-text.js";
import { renderChangedText, renderOriginalText } from "../../src/report/diff.js";
import { JournalSearch, toAttackedText } from "../../src/studio/journal-search.js";
import { LoadedPlaygroundModel } from "../../src/studio/playground-model.js";
import { RatingStore } from "../../src/studio/ratings.js";
import { attackFlat as attack, toRequest } from "../attack-request.js";
import { type TinyVictim, tinyVictim } from "../attacks/tiny-victim.js";
import { temporaryFolder } from "../temporary.js";
import { writeMaskedLm } from "./masked-lm.js";

const folder = temporaryFolder();
let victim: TinyVictim;
let other: TinyVictim;
let playground: LoadedPlaygroundModel;
let models: { sentenceEncoder: string; maskedLm: string };
/** Every change that an attack made. */
const edits: AttackResult["edits"][] = [];

beforeAll(async () => {
  const maskedLm = await writeMaskedLm(join(folder, "masked-lm"));
  victim = await tinyVictim(join(folder, "word"), { tokenization: "word" }, 8);
  other = await tinyVictim(join(folder, "subword"), { seed: 1 }, 8);
  models = { sentenceEncoder: join(folder, "word/tiny-bert"), maskedLm };
  vi.stubEnv("TEMPER_CACHE", join(folder, "cache"));
  playground = await LoadedPlaygroundModel.load(victim.run, []);
}, 120_000);
beforeEach(() => vi.stubEnv("TEMPER_CACHE", join(folder, "cache")));
afterEach(() => vi.unstubAllEnvs());
afterAll(() => playground.close());

/** Small populations, so that every attack takes little time. */
const small = "population=4,iterations=2";
const options: Readonly<Record<string, string>> = {
  ...{ genetic: small, alzantot: small, "faster-alzantot": small, iga: small, pso: small, leap: small },
  ...{ random: "samples=5", exhaustive: "maxCandidates=30", "bad-characters": "population=3,iterations=2" },
  ...{ evasion: "benignLabel=positive,paddingWords=5,maxAddedWords=3", bae: "variant=I,similarity=-1" },
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

test.each([...attackNames, ...custom])(
  "%o works in every place",
  async (given) => {
    const name = typeof given === "string" ? given : given.name;
    const spec = typeof given !== "string" ? given : options[name] ? `${name}:${options[name]}` : name;
    const runtime = { device: "cpu", threads: 1, precision: "fp32", queryBudget: 60, ...models } as const;
    const report = await attack({ model: victim.run, data: victim.data, attacks: [spec], numExamples: 4, ...runtime });
    expect(Object.keys(report.attacks)).toContain(name);
    expect(JSON.parse(JSON.stringify(report)).request.attacks[0].name).toBe(name);
    const journal = join(victim.run, "attacks", `${name}.jsonl`);
    const results: AttackResult[] = [];
    for await (const { result } of readJournal(journal)) results.push(result);
    expect(results).toHaveLength(4);
    edits.push(...results.map((result) => result.edits));

    await verify({ journals: [journal], model: victim.run, device: "cpu", threads: 1 });

    for (const result of results) {
      const { finalTexts, finalWords, texts } = result;
      // The report and the studio show the final text, word for word.
      const shown = splitChangedText(result).fields.map((pieces) => pieces.map(({ text }) => text).join(""));
      expect(shown).toEqual(finalTexts);
      const { fields } = toAttackedText(result);
      expect(fields.map((pieces) => pieces.map(({ text }) => text).join(""))).toEqual(finalTexts);
      const isNew = finalWords.filter((word, i) => result.words[result.origins[i]!] !== word);
      expect(fields.flat().flatMap(({ text, was }) => (was === undefined ? [] : [text]))).toEqual(isNew);
      for (const html of [renderChangedText(result), renderOriginalText(result, new Set([0]))])
        expect(String(html)).not.toContain("undefined");
      if (result.outcome === "skipped") expect(finalTexts).toEqual(texts);
    }

    const ratings = new RatingStore(join(folder, "ratings"), new JournalSearch());
    const pairs = await ratings.listPairs(victim.run, name, "rater");
    const fooled = results.filter(({ outcome }) => outcome === "success");
    expect(
      pairs
        .map(({ first, second }) =>
          [first, second]
            .map((each) => each.join("\n"))
            .sort()
            .join("|"),
        )
        .sort(),
    ).toEqual(
      fooled
        .map((result) =>
          [result.texts, result.finalTexts]
            .map((each) => each.join("\n"))
            .sort()
            .join("|"),
        )
        .sort(),
    );

    // A text that is typed has the result that it has in a dataset: of the same seed and stream.
    const attacked = results.find(({ outcome }) => outcome !== "skipped")!;
    const attacker = await createTextAttacker(toRequest({ model: victim.run, attacks: [spec], ...runtime }));
    const [typed] = await attacker.attack(attacked.texts, { label: attacked.label });
    attacker.close();
    expect(typed).toMatchObject({ attack: name, result: { texts: attacked.texts, before: attacked.before } });
    if (deterministic.has(name))
      expect(typed!.result).toMatchObject({ queries: attacked.queries, finalTexts: attacked.finalTexts });
    if (typeof spec === "string") {
      const steps: number[] = [];
      const onStep = ({ queries }: { readonly queries: number }): void => void steps.push(queries);
      const watched = await playground.attack(attacked.texts, spec, { label: attacked.label, onStep }, models);
      expect(watched.finalTexts).toHaveLength(1);
      // An attack by gradients has no texts to watch.
      if (name !== "ascc") expect(steps.at(-1)).toBeGreaterThan(0);
    }

    const transferred = join(folder, "transfer", name);
    const settings = { device: "cpu", threads: 1, precision: "fp32", out: transferred, numExamples: 4 } as const;
    await attack({ model: other.run, data: victim.data, attacks: ["greedy"], transferFrom: [journal], ...settings });
    const lines = readFileSync(join(transferred, `transfer-${name}.jsonl`), "utf8")
      .trim()
      .split("\n")
      .slice(1);
    for (const [i, line] of lines.entries()) {
      const result = JSON.parse(line) as AttackResult;
      if (result.outcome !== "skipped") expect(result.finalTexts).toEqual(results[i]!.finalTexts);
    }
  },
  60_000,
);

test("insertions, deletions and merges were among the changes", () => {
  const all = edits.flat();
  expect(all.some(({ from }) => from === "")).toBe(true);
  expect(all.some(({ to }) => to === "")).toBe(true);
  const isMerge = edits.some((list) =>
    list.some(
      ({ position, to }) => to === "dull" && list.some((next) => next.position === position + 1 && next.to === ""),
    ),
  );
  expect(isMerge).toBe(true);
});
