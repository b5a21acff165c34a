import type { PreparedInput, Victim } from "./victim.js";

/** Texts per call, so that progress is visible. */
const maxCallSize = 1024;

/** Returns one row of probabilities per text, in the same order. */
export async function scoreTexts<Prepared extends PreparedInput>(
  victim: Victim<Prepared>,
  texts: readonly (readonly string[])[],
  onProgress: (done: number) => void = () => undefined,
): Promise<Float32Array[]> {
  const inputs = texts.map((each) => victim.prepare(() => each));
  // The victim expects inputs of similar length together, so sort them and restore the order of the
  // answers.
  const order = [...inputs.keys()].sort((a, b) => inputs[a]!.length - inputs[b]!.length || a - b);
  const rows = new Array<Float32Array>(inputs.length);
  const size = Math.min(maxCallSize, victim.maxBatchSize);
  for (let start = 0; start < order.length; start += size) {
    const call = order.slice(start, start + size);
    const answers = await victim.probabilities(call.map((i) => inputs[i]!));
    for (const [i, input] of call.entries()) rows[input] = answers[i]!;
    onProgress(start + call.length);
  }
  return rows;
}
