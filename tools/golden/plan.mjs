// What the golden values cover: the stacks of methods, and which attacks run on which model.

/** Methods that substitute words train with a table and one token per word. */
const inHull = ["--tokenization", "word", "--substitutions", "TABLE"];
const search = "ascc:innerSteps=2,candidatesPerWord=3";
const small = "projectionHiddenSize=8,projectionSize=4";

/** The method stacks of the tests and of the papers, innermost first. @type {Record<string, string[]>} */
const methodStacks = {
  standard: [],
  ascc: [search],
  "ascc, ten steps": ["ascc"],
  "ascc and rift": [search, `rift:${small}`],
  "ascc and rift with a queue": [search, `rift:${small},queueSize=4`],
  "rift alone": [`rift:${small}`],
  "rift, students": [`rift:${small},negatives=students,conditional=false`],
  "rift, separate pass": [search, `rift:${small},separatePass=true`],
  "rose ensemble": ["rose"],
  "rose first": ["rose:variant=first"],
  "rose first, elements": ["rose:variant=first,granularity=element"],
  "rose second": ["rose:variant=second"],
  "rose, automatic": ["rose:updateRatio=auto,gamma=auto"],
  "rose, released code": ["rose:thresholdRule=quantile,maskedParameters=all"],
  "r-drop": ["r-drop"],
  "r-drop, summed": ["r-drop:reduction=sum"],
  "r-drop and rose": ["r-drop", "rose:updateRatio=0.5"],
  mixout: ["mixout"],
  ptwd: ["ptwd"],
  "ptwd and mixout": ["ptwd", "mixout"],
  "child-tuning D": ["child-tuning"],
  "child-tuning F": ["child-tuning:variant=F"],
  smart: ["smart"],
  "smart, released code": ["smart:projection=code,stepSize=1"],
  freelb: ["freelb"],
};

/** Stacks with settings of their own. @type {Record<string, { methods: string[], settings: string[] }>} */
const otherStacks = {
  "standard, accumulated": { methods: [], settings: ["--set", "train.gradientAccumulationSteps=2"] },
  "rose, accumulated": { methods: ["rose"], settings: ["--set", "train.gradientAccumulationSteps=2"] },
  "rift, balanced": { methods: [`rift:${small}`], settings: ["--set", "train.batchSampler=class-balanced"] },
  "standard, words": { methods: [], settings: ["--tokenization", "word"] },
};

/** @type {{ name: string, methods: string[], settings: string[] }[]} */
export const stacks = [
  ...Object.entries(methodStacks).map(([name, methods]) => ({
    ...{ name, methods },
    settings: methods.some((method) => /^(ascc|rift)/.test(method)) ? inHull : [],
  })),
  ...Object.entries(otherStacks).map(([name, { methods, settings }]) => ({
    ...{ name, methods },
    settings: [...settings, ...(methods.length > 0 && /^rift/.test(methods[0] ?? "") ? inHull : [])],
  })),
];

/** Attacks that choose substitutes from a table. */
const tableAttacks = [
  "pwws",
  "pwws:adaptive=true",
  "pwws:saliencyWord=NULL",
  "genetic:population=8,iterations=5",
  "greedy",
  "random:samples=20",
  "exhaustive:maxCandidates=400",
];
const evolution = "population=6,iterations=4";
/** One per recipe, with small populations. */
const recipes = [
  "textfooler",
  "deepwordbug",
  "textbugger",
  "pruthi",
  "input-reduction",
  "checklist",
  "bad-characters:population=6,iterations=3",
  `leap:${evolution}`,
  `pso:${evolution}`,
  `alzantot:${evolution}`,
  `faster-alzantot:${evolution}`,
  `iga:${evolution}`,
  "hotflip:flips=5,beamWidth=3",
  "a2t",
  "evasion:benignLabel=positive,paddingWords=20,maxAddedWords=5",
];
/** Recipes that ask a masked language model, with fewer candidates, because each is encoded as a sentence. */
const maskedRecipes = ["bae:candidates=8", "bert-attack:candidates=6", "clare:candidates=3"];
const variants = [
  "textfooler:target=positive",
  "textfooler:hardLabel=true",
  "textfooler:similarity=0.5",
  "deepwordbug:target=negative",
  "bad-characters:kind=invisible,changes=2,population=4,iterations=3",
  "bad-characters:kind=deletions,population=4,iterations=3",
  "bad-characters:kind=reorderings,population=4,iterations=3",
  "evasion:benignLabel=negative,placement=insert,paddingWords=0,maxAddedWords=4",
  "evasion:benignLabel=positive,characters=false,paddingWords=0,maxAddedWords=4",
];
const maskedVariants = [
  "bae:variant=I,candidates=6,similarity=0.5",
  "bae:variant=R+I,candidates=6,similarity=0.5",
  "bae:variant=R/I,candidates=6,similarity=0.5",
  "clare:candidates=3,similarity=0.3",
];
/** In the way of TextAttack 0.3.11. */
const compatible = [
  ...["pwws", "textfooler", "deepwordbug", "textbugger", "input-reduction", "a2t", "pruthi"],
  ...["leap", "pso", "alzantot", "faster-alzantot", "iga"].map((name) => `${name}:${evolution}`),
  ...["bae:candidates=6", "bert-attack:candidates=6", "bad-characters:population=4,iterations=3"],
].map((spec) => `${spec}${spec.includes(":") ? "," : ":"}compat=textattack`);

/**
 * Groups of attacks: on a model, with examples of its data. `table`: with the substitutions of the JSON file.
 * @type {{ name: string, model: string, examples: number, specs: string[], table?: boolean }[]}
 */
export const attackGroups = [
  { name: "word, WordNet", model: "word", examples: 16, specs: [...tableAttacks, "ascc"] },
  { name: "word, table", model: "word", examples: 24, table: true, specs: [...tableAttacks, "ascc"] },
  { name: "word, recipes", model: "word", examples: 8, specs: recipes },
  { name: "word, masked language model", model: "word", examples: 4, specs: maskedRecipes },
  { name: "subword, WordNet", model: "subword", examples: 16, specs: tableAttacks },
  { name: "subword, table", model: "subword", examples: 24, table: true, specs: tableAttacks },
  { name: "subword, recipes", model: "subword", examples: 16, specs: [...recipes, ...variants] },
  { name: "subword, recipes over a table", model: "subword", examples: 12, table: true, specs: ["textfooler", "a2t"] },
  {
    name: "subword, masked language model",
    model: "subword",
    examples: 6,
    specs: [...maskedRecipes, ...maskedVariants],
  },
  { name: "subword, compat", model: "subword", examples: 6, specs: compatible },
  {
    ...{ name: "pairs", model: "pair", examples: 6 },
    specs: [
      ...["pwws", "greedy", "genetic:population=6,iterations=3", "textfooler", "deepwordbug", "input-reduction"],
      ...["checklist", "hotflip:flips=4,beamWidth=2", "clare:candidates=2", `pso:${evolution}`],
      "evasion:benignLabel=entailment,paddingWords=5,maxAddedWords=3",
    ],
  },
  {
    ...{ name: "MiniLM, words", model: "minilm-word", examples: 4 },
    specs: [...tableAttacks.filter((spec) => !spec.startsWith("exhaustive")), "exhaustive:maxCandidates=60", "ascc"],
  },
  {
    ...{ name: "MiniLM, subwords", model: "minilm-subword", examples: 4 },
    // Those with few queries: the others take minutes on a model of this size.
    specs: ["pwws", "textfooler", "deepwordbug", "textbugger", "pruthi"],
  },
];
