import { z } from "zod";
import { noRepeat } from "../constraints/words.js";
import { defineAttack } from "../define-attack.js";
import { createGoal, goalOptions } from "../goals.js";
import { beamSearch } from "../searches/beam.js";
import { changeNames } from "../transformations/change-names.js";
import { changeNumbers } from "../transformations/change-numbers.js";
import { contractWords, expandContractions } from "../transformations/contractions.js";

export const checklist = defineAttack({
  name: "checklist",
  summary: "contractions, expansions, other numbers and other names, which should not matter",
  paper: "Ribeiro et al. 2020, Beyond Accuracy: Behavioral Testing of NLP Models (arXiv:2005.04118)",
  options: z.strictObject(goalOptions),
  resources: ["labels"],
  differences: "Names and locations are found in lists of common ones, not by a model of named entities.",
  build: (options, { labels }) => ({
    goal: createGoal(options, labels),
    transformations: [contractWords, expandContractions, changeNumbers, changeNames],
    constraints: [noRepeat],
    search: beamSearch(1),
  }),
});
