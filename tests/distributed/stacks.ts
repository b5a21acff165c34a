import type { MethodSpec } from "../../src/methods/index.js";

/** A training with several processes. */
export interface Stack {
  readonly name: string;
  readonly methods: readonly MethodSpec[];
  readonly settings?: Readonly<Record<string, unknown>>;
}

const spec = (name: string, options: MethodSpec["options"] = {}): MethodSpec => ({ name, options });
const small = { projectionHiddenSize: 8, projectionSize: 4 };
const search = spec("ascc", { innerSteps: 2, candidatesPerWord: 3 });

/** Every method, and the combinations that the papers use. */
export const stacks: readonly Stack[] = [
  { name: "standard", methods: [] },
  { name: "rift", methods: [search, spec("rift", { ...small, queueSize: 4 })] },
  { name: "rose", methods: [spec("r-drop"), spec("rose", { updateRatio: 0.5 })] },
  { name: "standard, accumulated", methods: [], settings: { gradientAccumulationSteps: 2 } },
  { name: "ptwd and mixout", methods: [spec("ptwd"), spec("mixout")] },
  { name: "r-drop, summed", methods: [spec("r-drop", { reduction: "sum" })] },
  { name: "rose first", methods: [spec("rose", { variant: "first" })] },
  { name: "rose second", methods: [spec("rose", { variant: "second" })] },
  { name: "child-tuning D", methods: [spec("child-tuning")] },
  { name: "child-tuning F", methods: [spec("child-tuning", { variant: "F" })] },
  { name: "smart", methods: [spec("smart")] },
  { name: "smart, released code", methods: [spec("smart", { projection: "code", stepSize: 1 })] },
  { name: "freelb", methods: [spec("freelb")] },
  { name: "ascc", methods: [search] },
  { name: "lora", methods: [spec("lora", { rank: 2 }), spec("rose", { updateRatio: 0.5 })] },
  { name: "rift, students", methods: [spec("rift", { ...small, negatives: "students", conditional: false })] },
  { name: "rift, balanced", methods: [spec("rift", small)], settings: { batchSampler: "class-balanced" } },
  { name: "hash-vote", methods: [spec("hash-vote", { groups: 3, margin: 1 })] },
  { name: "discrete-adversarial", methods: [spec("discrete-adversarial", { interval: 2 })] },
  { name: "energy and mof", methods: [spec("energy", { margin: -1 }), spec("mof", { interval: 2, benignLabel: "c" })] },
];
