/** A row of numbers: a Float32Array or a list. */
interface Row<Same> extends Iterable<number> {
  map(transform: (value: number) => number): Same;
}

export function softmax<Same extends Row<Same>>(logits: Same): Same {
  let highest = Number.NEGATIVE_INFINITY;
  for (const logit of logits) highest = Math.max(highest, logit);
  const exponentials = logits.map((logit) => Math.exp(logit - highest));
  let sum = 0;
  for (const each of exponentials) sum += each;
  return exponentials.map((each) => each / sum);
}
