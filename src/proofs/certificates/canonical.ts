import { z } from "zod";
import { canonicalize } from "../../text/canonicalize.js";
import { compareFields, defineCertificate, scoreTolerance } from "./define-certificate.js";
import { findLargestScore, isUndecided } from "./scoring.js";

/** The certificate of a model that reads canonical forms. All texts with the same form get the same answer. */
export const canonical = defineCertificate({
  name: "canonical",
  summary: "look-alike and invisible characters cannot change the prediction (any model)",
  covers:
    "any number of changes that keep the canonical form: compatibility and look-alike characters, invisible " +
    "characters, spaced letters and white space",
  options: z.strictObject({}),
  recorded: {},
  line: { undecided: z.boolean(), probability: z.number() },
  create: ({ minMargin }) => ({
    rows: [{ substitutions: 0, insertions: 0, name: "same canonical form" }],
    *certify({ texts }) {
      const [scores] = yield [texts.map(canonicalize)];
      const predicted = findLargestScore(scores!);
      return { predicted, undecided: isUndecided(scores!, minMargin), probability: scores![predicted]! };
    },
    isCertified: ({ undecided }) => !undecided,
    findDifference(recorded, computed) {
      if (computed.undecided) return null;
      return compareFields(recorded, computed, ["predicted", "probability"], scoreTolerance);
    },
  }),
});
