import { z } from "zod";
import { defineAttack } from "../define-attack.js";
import { inputReduction as goal } from "../goals.js";
import { beamSearch } from "../searches/beam.js";
import { deleteWord } from "../transformations/delete-word.js";

export const inputReduction = defineAttack({
  name: "input-reduction",
  summary: "deletes as many words as possible without changing the prediction",
  paper: "Feng et al. 2018, Pathologies of Neural Models (arXiv:1804.07781)",
  options: z.strictObject({
    beamWidth: z.int().min(1).default(5).describe("texts that are kept after each deletion (paper)"),
  }),
  resources: [],
  differences: "Words are deleted by their effect on the confidence, not by gradients, so any victim can be reduced.",
  build: ({ beamWidth }) => ({
    goal,
    transformations: [deleteWord],
    constraints: [],
    search: beamSearch(beamWidth),
  }),
});
