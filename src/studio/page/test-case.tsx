interface TestCase {
  /** A run folder, or the address of an endpoint. */
  readonly reference: string;
  readonly texts: readonly string[];
  readonly attacked: readonly string[];
  readonly label: string;
}

function formatTexts(texts: readonly string[]): string {
  return JSON.stringify(texts.length === 1 ? texts[0] : texts);
}

/** A test that fails as long as the attacked text fools the model. */
export function formatTestCase({ reference, texts, attacked, label }: TestCase): string {
  const name = JSON.stringify(`keeps the label ${label} when words are swapped`);
  const inputs = `const texts = [\n  ${formatTexts(texts)},\n  ${formatTexts(attacked)},\n];`;
  if (/^https?:/.test(reference))
    return `import assert from "node:assert/strict";
import { test } from "node:test";

${inputs}
test(${name}, async () => {
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ texts });
  const response = await fetch(${JSON.stringify(reference)}, { method: "POST", headers, body });
  const { probabilities } = await response.json();
  const [before, after] = probabilities.map((row) => row.indexOf(Math.max(...row)));
  assert.equal(after, before);
});
`;
  return `import assert from "node:assert/strict";
import { test } from "node:test";
import { loadClassifier } from "temper-nlp";

${inputs}
test(${name}, async () => {
  const model = await loadClassifier(${JSON.stringify(reference)});
  const labels = (await model.classify(texts)).map((prediction) => prediction.label);
  model.close();
  assert.deepEqual(labels, [${JSON.stringify(label)}, ${JSON.stringify(label)}]);
});
`;
}
