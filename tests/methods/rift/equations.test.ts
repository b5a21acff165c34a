import { describe, expect, it } from "vitest";
import {
  computeInitialStd,
  createHull,
  findModifiableWords,
  hullSchema,
  logMixtureWeights,
  mixEmbeddings,
  packHull,
  searchHull,
} from "../../../src/hull/convex-hull.js";
import { mixTensors } from "../../../src/methods/mixout.js";
import { computeWeightDistance } from "../../../src/methods/ptwd.js";
import { infoNceLoss } from "../../../src/methods/rift/info-nce.js";
import { MemoryQueue } from "../../../src/methods/rift/memory-queue.js";
import { project } from "../../../src/methods/rift/projection-heads.js";
import { klDivergencePerExample } from "../../../src/nn/index.js";
import { cat, free, grad, randn, scope, seedGenerator, type Tensor, tensor } from "../../../src/tensor/index.js";
import reference from "../../fixtures/methods/rift-family.json" with { type: "json" };
import { expectClose, expectComputed } from "../../rounding.js";
import { expectValues, from } from "./values.js";

describe("equation 8: the convex hull", () => {
  const { embeddings, counts, start, head, entropy, decay, shares, mixed, after, gain } = reference.hull;
  const [rows, length, width] = [2, 3, 4];

  /**
   * Packs the fixture's dense candidates [row, position, candidate]. Every position is a modifiable
   * word.
   */
  function packFixture() {
    const host = packHull(
      counts.map((row) => ({
        tokenPositions: Int32Array.from(row.keys()),
        wordIndices: Int32Array.from(row.keys()),
        candidateIds: row.map((count) => new Int32Array(count)),
      })),
      length,
      width,
    );
    const all = from(embeddings); // [row, position, candidate, hidden]
    const words = (dense: Tensor): Tensor => cat([dense, dense], 0).narrow(0, 0, host.candidateIds.shape[0]!);
    return {
      start: words(from(start).reshape(rows * length, width)),
      embedding: { text: all.select(2, 0), candidates: words(all.reshape(rows * length, width, all.size(-1))) },
      hull: createHull((name) => tensor(host[name].values, host[name].shape)),
    };
  }
  const dense = (packed: Tensor): Tensor => packed.narrow(0, 0, rows * length).reshape(rows, length, width);
  const searchOptions = hullSchema.parse({
    innerLearningRate: 1,
    innerWeightDecay: decay,
    entropyWeight: entropy,
    candidatesPerWord: width,
  });
  const classify = (embedded: Tensor): Tensor => embedded.tanh().mean([1]).matmul(from(head));

  it("computes mixture weights by a softmax over the candidates and mixes the candidates", () => {
    scope(() => {
      const { start, embedding, hull } = packFixture();
      const ours = logMixtureWeights(start, hull.candidateMask).exp();
      expectValues(dense(ours), shares);
      expectValues(mixEmbeddings(embedding, hull, ours), mixed);
    });
  });

  it.each([1, 10] as const)("takes %i Adam steps like PyTorch", (steps) => {
    scope(() => {
      const { start, embedding, hull } = packFixture();
      const clean = classify(embedding.text);
      const found = searchHull(
        embedding,
        hull,
        start,
        (embedded) => klDivergencePerExample(clean, classify(embedded)).sum(),
        {
          ...searchOptions,
          innerSteps: steps,
        },
      );
      expectValues(dense(found), after[String(steps) as "1" | "10"]);
      const reached = klDivergencePerExample(clean, classify(mixEmbeddings(embedding, hull, found)))
        .sum()
        .item();
      if (steps === 10) expectClose(reached, gain.after);
      expect(gain.after).toBeGreaterThan(gain.before);
      expect(found.requiresGrad).toBe(false);
    });
  });

  it("prefers single candidates if the entropy has a large weight", () => {
    scope(() => {
      const { start, embedding, hull } = packFixture();
      const search = { ...searchOptions, innerSteps: 30, innerWeightDecay: 0, entropyWeight: 10 };
      const sharp = searchHull(embedding, hull, start, (embedded) => classify(embedded).mul(0).sum(), search);
      expect(Math.min(...sharp.amax([-1]).toFloat32Array())).toBeGreaterThan(0.99);
    });
  });

  it("packs the modifiable words of a batch and leaves the others in place", () => {
    const tokens = new Map([
      ["good", 10],
      ["great", 11],
      ["film", 12],
      ["a", 13],
    ]);
    const words = findModifiableWords(
      [["a"], ["good", "great"], ["film"]],
      [1, 2, 3],
      (word) => tokens.get(word) ?? -1,
    );
    expect(words).toEqual({
      tokenPositions: Int32Array.of(2),
      wordIndices: Int32Array.of(1),
      candidateIds: [Int32Array.of(10, 11)],
    });
    const none = { tokenPositions: new Int32Array(), wordIndices: new Int32Array(), candidateIds: [] };
    const hull = packHull([none, words], 5, 3);
    expect(hull.candidateIds.shape).toEqual([3, 3]);
    expect([...hull.candidateIds.values].slice(0, 3)).toEqual([10, 11, 0]);
    expect([...hull.candidateMask.values]).toEqual([1, 1, 0, 1, 0, 0, 1, 0, 0]);
    expect([...hull.index.values]).toEqual([0, 1, 2, 3, 4, 5, 6, 10, 8, 9]);
  });

  it("starts with almost uniform mixture weights", () => {
    expectClose(computeInitialStd(300, 10), Math.sqrt(2 / 3000));
  });
});

describe("equation 10: the information loss", () => {
  const { tau, labels, student, teacher, parameters, queue, filled, cases } = reference.information;

  it.each(cases.map((each) => [each.name, each] as const))(
    "%s: value and gradients of features and projections",
    (_name, expected) => {
      scope(() => {
        const weights = new Map(Object.entries(parameters).map(([name, value]) => [name, from(value).requiresGrad_()]));
        const features = from(student).requiresGrad_();
        const classes = expected.conditional ? from(labels, "integers") : from(labels, "integers").mul(0);
        const entries = from(queue).reshape(6, 4);
        const entryClasses = tensor(Int32Array.from(filled.flat(), (used, i) => (used ? Math.floor(i / 2) : -1)));
        const candidateClasses = expected.queue ? cat([classes, entryClasses], 0) : classes;
        const score = (anchors: Tensor, others: Tensor): Tensor => anchors.matmul(others.t()).div(tau);
        const compute = (): Map<string, Tensor> => {
          const students = project(weights, "student", features, classes);
          const teachers = project(weights, "teacher", from(teacher), classes);
          const candidates = expected.queue ? cat([teachers, entries], 0) : teachers;
          const loss =
            expected.normalize === "teachers"
              ? infoNceLoss(score(students, candidates), classes, candidateClasses)
              : infoNceLoss(score(teachers, students), classes, classes);
          const [feature, ...rest] = grad(loss, [features, ...weights.values()]) as [Tensor, ...Tensor[]];
          return new Map([
            ["value", loss],
            ["feature", feature],
            ...[...weights.keys()].map((name, i) => [name, rest[i]!] as const),
          ]);
        };
        const { value, feature, parameters: gradients } = expected;
        expectComputed(compute, { value, feature, ...gradients });
      });
    },
  );

  it("equals a calculation by hand for two classes and three examples", () => {
    scope(() => {
      // Examples 0 and 2 have class 0, example 1 has class 1. Scores between classes (9) must not
      // count.
      const scores = tensor([1, 9, 0, 9, 5, 9, 2, 9, 4], [3, 3]);
      const classes = tensor(Int32Array.of(0, 1, 0));
      const class0 = (Math.log(Math.E + 1) - 1 + (Math.log(Math.exp(2) + Math.exp(4)) - 4)) / 2 - Math.log(2);
      // Example 1 is alone in its class, so its loss is log e^5 - 5 - log 1 = 0.
      expectClose(infoNceLoss(scores, classes, classes).item(), class0 / 2);
    });
  });
});

describe("the memory queue", () => {
  it("keeps the last projections of each class, oldest first, and gives empty slots class -1", () => {
    const memoryQueue = new MemoryQueue("q.", 2, 3, 1, "cpu");
    const push = (values: number[], classes: number[]): void =>
      scope(() => memoryQueue.push(tensor(values, [values.length, 1]), tensor(Int32Array.from(classes))));
    const contents = (): [number[], number[]] =>
      scope(() => {
        const { entries, classes } = memoryQueue.contents();
        return [[...entries.toFloat32Array()], [...classes.toFloat32Array()]];
      });
    push([1, 2, 3], [0, 1, 0]);
    expect(contents()).toEqual([
      [expect.anything(), 1, 3, expect.anything(), expect.anything(), 2],
      [-1, 0, 0, -1, -1, 1],
    ]);
    push([4, 5, 6, 7], [0, 0, 1, 0]);
    expect(contents()[0].slice(0, 3)).toEqual([4, 5, 7]);
    expect(contents()[0].slice(4)).toEqual([2, 6]);
    expect(contents()[1]).toEqual([0, 0, 0, -1, 1, 1]);
    free(memoryQueue.buffers());
  });
});

describe("mixout of several tensors", () => {
  it.each(["cpu", "cuda:0"] as const)(
    "sets each element to one end of the mixture, with its gradient, grouped for %s",
    (device) => {
      const p = 0.6;
      scope(() => {
        seedGenerator("cpu", 5);
        const current = [[3, 4], [50], []].map((shape) => randn(shape).requiresGrad_());
        const before = current.map((tensor) => randn(tensor.shape));
        const pieces = mixTensors(device, current, before, p);
        const gradients = grad(
          pieces.map((piece) => piece.sum()),
          current,
        );
        let kept = 0;
        for (const [i, piece] of pieces.entries()) {
          expect(piece.shape).toEqual(current[i]?.shape);
          const [now, then, slope] = [current, before, gradients].map((list) => (list[i] as Tensor).toFloat32Array());
          for (const [j, value] of piece.toFloat32Array().entries()) {
            const is = slope?.[j] !== 0;
            kept += Number(is);
            const [w, u] = [now?.[j] as number, then?.[j] as number];
            if (is) expectClose(slope?.[j], 1 / (1 - p));
            const scale = (Math.abs(w) + Math.abs(u)) / (1 - p);
            expectClose(value, is ? (w - p * u) / (1 - p) : u, { terms: 2, scale });
          }
        }
        expect(kept).toBeGreaterThan(10);
        expect(kept).toBeLessThan(50);
      });
    },
  );
});

describe("pre-trained weight decay", () => {
  it.each(["cpu", "cuda:0"] as const)(
    "is the norm of the difference, with the gradient of PyTorch, grouped for %s",
    (device) => {
      const { lambda, now, before, value, gradients } = reference.distance;
      scope(() => {
        const leaves = now.map((each) => from(each).requiresGrad_());
        const ours = computeWeightDistance(
          device,
          leaves,
          before.map((each) => from(each)),
        ).mul(lambda);
        expectClose(ours.item(), value);
        for (const [i, gradient] of grad(ours, leaves).entries()) expectValues(gradient, gradients[i] as number[]);
      });
    },
  );

  it("has a finite gradient at the pre-trained weights", () => {
    scope(() => {
      const leaf = tensor([1, 2]).requiresGrad_();
      const [gradient] = grad(computeWeightDistance("cpu", [leaf], [leaf.detach()]), [leaf]) as [Tensor];
      expect([...gradient.toFloat32Array()]).toEqual([0, 0]);
    });
  });
});
