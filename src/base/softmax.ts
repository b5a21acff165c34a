export function softmax(logits: Float32Array): Float32Array {
  let highest = Number.NEGATIVE_INFINITY;
  for (const logit of logits) highest = Math.max(highest, logit);
  const exponentials = logits.map((logit) => Math.exp(logit - highest));
  let sum = 0;
  for (const each of exponentials) sum += each;
  return exponentials.map((each) => each / sum);
}
