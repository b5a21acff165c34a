import type { Transformation } from "../protocol.js";
import { request } from "../requests.js";
import type { GradientSource } from "../resources.js";
import { replaceWords } from "./replace-words.js";

/** Replaces words of one token by the tokens that increase the loss most. */
export function flipByGradient(source: GradientSource, flips: number): Transformation {
  return {
    name: `${flips} flips per word by gradient`,
    kind: "swap",
    *apply(text, positions) {
      // Without a label, the loss is that of the predicted class.
      const [tokens] = yield* request(source, [{ texts: text.texts, label: null, flips }]);
      return replaceWords(text, positions, (_, i) => {
        const { field, start, end } = text.slots[positions[i]!]!;
        const token = tokens!.find((each) => each.field === field && each.start === start && each.end === end);
        return token?.flips ?? [];
      });
    },
  };
}
