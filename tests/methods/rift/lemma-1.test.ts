import { describe, expect, it } from "vitest";
import { infoNceLoss } from "../../../src/methods/rift/info-nce.js";
import { Rng, scope, type Tensor, tensor } from "../../../src/tensor/index.js";
import { computeTolerance, expectClose } from "../../rounding.js";

const repeatClasses = (count: number, classes: number): Int32Array =>
  Int32Array.from({ length: count }, (_, i) => i % classes);

function computeLoss(scores: Float32Array, classes: Int32Array): number {
  return scope(() => {
    const groups: Tensor = tensor(classes);
    return infoNceLoss(tensor(scores, [classes.length, classes.length]), groups, groups).item();
  });
}

describe("Lemma 1", () => {
  it("L_info is 0 for constant scores, for any batch", () => {
    for (const classes of [Int32Array.of(0), Int32Array.of(1, 1), Int32Array.of(0, 2, 0, 1, 0)])
      expectClose(computeLoss(new Float32Array(classes.length ** 2).fill(0.7), classes), 0, { scale: 1 });
  });

  it("L_info is at least -log N, and equal to it if every student identifies its teacher", () => {
    const rng = new Rng("scores");
    const [count, classes] = [12, 2];
    for (let trial = 0; trial < 50; trial++) {
      const scale = 10 ** (trial % 4);
      const scores = Float32Array.from({ length: count ** 2 }, () => scale * rng.normal());
      const rounding = computeTolerance(scores, {});
      expect(computeLoss(scores, repeatClasses(count, classes))).toBeGreaterThanOrEqual(
        -Math.log(count / classes) - rounding,
      );
    }
    const certain = Float32Array.from({ length: count ** 2 }, (_, i) => (i % (count + 1) === 0 ? 100 : 0));
    expectClose(computeLoss(certain, repeatClasses(count, classes)), -Math.log(count / classes));
  });

  /**
   * Given class y, T is a random symbol. S equals T, except that with probability `noise[y]` it is
   * another random symbol. So p(t|s,y)/p(t|y) and I(S;T|Y) are known.
   */
  const symbols = 8;
  const noise = [0.1, 0.4];
  const hit = (y: number): number => 1 - noise[y]! + noise[y]! / symbols;
  const miss = (y: number): number => noise[y]! / symbols;
  const information =
    noise.reduce(
      (sum, _, y) => sum + hit(y) * Math.log(hit(y) * symbols) + (symbols - 1) * miss(y) * Math.log(miss(y) * symbols),
      0,
    ) / noise.length;

  function bound(n: number, batches: number): number {
    const rng = new Rng("joint").fork(n);
    let sum = 0;
    for (let batch = 0; batch < batches; batch++) {
      const classes = repeatClasses(n * noise.length, noise.length);
      const teachers = classes.map(() => rng.integer(symbols));
      const students = teachers.map((t, i) => (rng.next() < noise[classes[i]!]! ? rng.integer(symbols) : t));
      const scores = new Float32Array(classes.length ** 2);
      for (const [i, s] of students.entries())
        for (const [j, t] of teachers.entries())
          scores[i * classes.length + j] = Math.log(symbols * (s === t ? hit(classes[i]!) : miss(classes[i]!)));
      sum -= computeLoss(scores, classes);
    }
    return sum / batches;
  }

  it("at the optimal score, -L_info is below I(S;T|Y) and approaches it as N grows", () => {
    const bounds = [2, 8, 32, 128].map((n) => bound(n, Math.ceil(2000 / n)));
    for (const value of bounds) expect(value).toBeLessThan(information + 0.03);
    for (let i = 1; i < bounds.length; i++) expect(bounds[i]).toBeGreaterThan(bounds[i - 1]!);
    expect(bounds.at(-1)).toBeGreaterThan(information - 0.05);
  });
});
