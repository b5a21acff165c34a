import { expect, it } from "vitest";
import { didYouMean, findNearMatch } from "../../src/base/did-you-mean.js";

it("suggests the closest name, or nothing if no name is close", () => {
  const names = ["train", "evaluate", "predict", "learningRate"];
  expect(findNearMatch("trian", names)).toBe("train");
  expect(findNearMatch("learning-rate", names)).toBe("learningRate");
  expect(findNearMatch("Predikt", names)).toBe("predict");
  expect(findNearMatch("zebra", names)).toBeUndefined();
  expect(findNearMatch("x", names)).toBeUndefined();
  expect(findNearMatch("review", ["Customer, Name", "Review Text"])).toBe("Review Text");
  expect(didYouMean("evaluat", names)).toBe(' (did you mean "evaluate"?)');
  expect(didYouMean("zebra", names)).toBe("");
});
