import { defineMethod } from "./define-method.js";
import { createFreelb, createFreelbOptions } from "./freelb.js";

export const freelbPlus = defineMethod({
  name: "freelb-plus",
  summary: "FreeLB++: FreeLB with 30 small steps and no bound of the norm",
  paper:
    "Li et al. 2021, Searching for an Effective Defender: Benchmarking Defense against Adversarial Word Substitution",
  cost: { gpu: "28", cpu: "29" },
  options: createFreelbOptions({ steps: 30, stepSize: 0.03, initMagnitude: 0.05, maxNorm: 0 }),
  create: (options) => createFreelb("freelb-plus", options),
});
