// A custom certificate: upper and lower case cannot change the prediction of a model that reads lower case.
//
//     npx tsx examples/custom-certificate.ts runs/reviews
import { certify, z } from "temper-nlp";
import { defineCertificate, findLargestScore, isUndecided } from "temper-nlp/certificates";

const lowerCase = defineCertificate({
  name: "lower-case",
  summary: "upper and lower case cannot change the prediction (any model)",
  covers: "any changes between upper and lower case",
  options: z.strictObject({}),
  recorded: {},
  line: { undecided: z.boolean() },
  create: ({ minMargin }) => ({
    rows: [{ substitutions: 0, insertions: 0, name: "same letters" }],
    *certify({ texts }) {
      // Whoever runs the certificate answers with the scores of the model, one row per text.
      const [scores] = yield [texts.map((text) => text.toLowerCase())];
      return { predicted: findLargestScore(scores!), undecided: isUndecided(scores!, minMargin) };
    },
    isCertified: ({ undecided }) => !undecided,
  }),
});

const { clean, certified } = await certify({ model: process.argv[2]!, kind: { definition: lowerCase } });
console.log(clean, certified[0]!.name, certified[0]!.accuracy);
