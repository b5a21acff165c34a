import { z } from "zod";
import { UserError } from "../../base/errors.js";
import { canonicalize } from "../../text/canonicalize.js";
import { defineCertificate } from "./define-certificate.js";
import { findLargestScore, isUndecided } from "./scoring.js";

/** The certificate of a model that reads canonical forms. All texts with the same form get the same answer. */
export const canonical = defineCertificate({
  name: "canonical",
  summary: "look-alike and invisible characters cannot change the prediction (a model with normalize: canonical)",
  covers:
    "all texts with the same visible and the same hidden text, both in canonical form: any number of compatibility, " +
    "look-alike, framed, struck-through, upside-down and invisible characters, spaced letters and white space",
  options: z.strictObject({}),
  recorded: {},
  checkModel({ normalize }) {
    if (normalize !== "canonical")
      throw new UserError(
        "--kind canonical: expected a model that reads canonical forms, but this one reads texts as they are, so the " +
          "certificate would be about another model. Train one: temper train … --normalize canonical",
      );
  },
  line: { undecided: z.boolean(), probability: z.number() },
  create: ({ minMargin }) => ({
    rows: [{ substitutions: 0, insertions: 0, name: "same canonical form" }],
    *certify({ texts }) {
      const [scores] = yield [texts.map(canonicalize)];
      const predicted = findLargestScore(scores!);
      return { predicted, undecided: isUndecided(scores!, minMargin), probability: scores![predicted]! };
    },
    isCertified: ({ undecided }) => !undecided,
  }),
});
