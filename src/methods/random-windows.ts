import { z } from "zod";
import { countSchema } from "../base/validate.js";
import { listWindowSizes } from "../proofs/certificates/index.js";
import type { Example } from "../tasks/example.js";
import { findWords } from "../text/find-words.js";
import { defineMethod } from "./define-method.js";

/** Trains on random windows of texts, which a guard scores. Pairs of texts stay as they are. */
export const randomWindows = defineMethod({
  name: "random-windows",
  summary: "trains on random windows of each text, for a guard that scores windows",
  paper: "for the guards of temper calibrate --windows; Kumar et al. 2023 (erase-and-check) have the same aim",
  cost: { gpu: "0.5 (an epoch: 4.1)", cpu: "0.6 (an epoch: 5.2)" },
  options: z.strictObject({
    size: countSchema.max(1000).default(32).describe("maximum words per window, as of --windows"),
    copies: countSchema.default(8).describe("windows of each text"),
  }),
  create: ({ size, copies }) => ({
    name: "random-windows",
    traits: { exclusiveRoles: { examples: "replaces each text by windows" } },
    transformExamples(examples, _task, rng) {
      const sizes = listWindowSizes(size);
      return examples.flatMap((example): Example[] => {
        const [text, second] = example.texts;
        const words = findWords(text!);
        const fitting = sizes.filter((each) => each <= words.length);
        if (second !== undefined || fitting.length === 0) return [example];
        return Array.from({ length: copies }, (_, copy): Example => {
          const id = `${example.id}#${copy}`;
          const draw = rng.fork(id);
          const count = fitting[draw.integer(fitting.length)]!;
          const start = draw.integer(words.length - count + 1);
          const window = text!.slice(words[start]!.start, words[start + count - 1]!.end);
          return { ...example, id, texts: [window] };
        });
      });
    },
  }),
});
