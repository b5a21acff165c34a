import { expect, it } from "vitest";
import { didYouMean, nearMiss } from "../src/near-miss.js";

it("finds the name that was meant, and none where nothing is near", () => {
  const names = ["train", "evaluate", "predict", "learningRate"];
  expect(nearMiss("trian", names)).toBe("train");
  expect(nearMiss("learning-rate", names)).toBe("learningRate");
  expect(nearMiss("Predikt", names)).toBe("predict");
  expect(nearMiss("zebra", names)).toBeUndefined();
  expect(nearMiss("x", names)).toBeUndefined();
  expect(didYouMean("evaluat", names)).toBe(' (did you mean "evaluate"?)');
  expect(didYouMean("zebra", names)).toBe("");
});
