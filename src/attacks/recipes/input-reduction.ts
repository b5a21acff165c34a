import { z } from "zod";
import { compatOption } from "../goals/create-goal.js";
import { inputReduction as goal } from "../goals/input-reduction.js";
import { defineRecipe } from "../recipe.js";
import { beamSearch } from "../searches/beam.js";
import { rankWordsAndReplace } from "../searches/word-importance-ranking.js";
import { deleteWord } from "../transformations/delete-word.js";

export const inputReduction = defineRecipe({
  name: "input-reduction",
  summary: "deletes as many words as possible without changing the prediction",
  paper: "Feng et al. 2018, Pathologies of Neural Models (arXiv:1804.07781)",
  options: z.strictObject({
    ...compatOption,
    beamWidth: z.int().min(1).default(5).describe("texts that are kept after each deletion (paper)"),
  }),
  resources: [],
  differences: "Words are deleted by their effect on the confidence, not by gradients, so any victim can be reduced.",
  build: ({ compat, beamWidth }) => ({
    goal,
    transformations: [deleteWord],
    constraints: [],
    search:
      compat === "textattack" ? rankWordsAndReplace({ by: "delete" }, { keepsPositions: true }) : beamSearch(beamWidth),
  }),
});
