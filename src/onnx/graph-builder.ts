import type { DType } from "../tensor/index.js";
import {
  getTypeNumber,
  type OnnxAttribute,
  type OnnxGraph,
  type OnnxNode,
  type OnnxTensor,
  type OnnxType,
  type OnnxValue,
} from "./onnx-file.js";
import { isSize, type SizeOrNumber } from "./size.js";

export function toOnnxType(dtype: DType): OnnxType {
  if (dtype === "float16" || dtype === "bfloat16" || dtype === "float64")
    throw new Error(`the model has ${dtype} tensors; expected float32`);
  return dtype;
}

function toBytes(type: OnnxType, values: readonly number[]): Uint8Array {
  if (type === "float32") return new Uint8Array(Float32Array.from(values).buffer);
  if (type === "int64") return new Uint8Array(BigInt64Array.from(values, BigInt).buffer);
  if (type === "int32") return new Uint8Array(Int32Array.from(values).buffer);
  return Uint8Array.from(values);
}

export class GraphBuilder {
  readonly #nodes: OnnxNode[] = [];
  readonly #initializers = new Map<string, OnnxTensor>();
  /** Results that are needed several times, by what they are. */
  readonly #cache = new Map<string, string>();
  readonly #shapeOf: string;

  constructor(shapeOf: string) {
    this.#shapeOf = shapeOf;
  }

  add(operator: string, inputs: readonly string[], attributes: OnnxNode["attributes"] = {}): string {
    return this.addMany(operator, inputs, attributes, 1)[0]!;
  }

  addMany(
    operator: string,
    inputs: readonly string[],
    attributes: Readonly<Record<string, OnnxAttribute>>,
    count: number,
  ): string[] {
    const index = this.#nodes.length;
    const outputs = Array.from({ length: count }, (_, i) => `v${index}${count > 1 ? `.${i}` : ""}`);
    this.#nodes.push({ operator, inputs, outputs, attributes });
    return outputs;
  }

  /** Transposes a result. Two transpositions become one. */
  transpose(name: string, perm: readonly number[]): string {
    const before = this.#nodes.find(({ operator, outputs }) => operator === "Transpose" && outputs[0] === name);
    const first = before?.attributes.perm as readonly number[] | undefined;
    if (!before || !first) return this.add("Transpose", [name], { perm });
    return this.add("Transpose", [before.inputs[0]!], { perm: perm.map((axis) => first[axis]!) });
  }

  /** Adds a constant with a name, once. The bytes are only computed if it is new. */
  addInitializer(name: string, create: () => OnnxTensor): string {
    if (!this.#initializers.has(name)) this.#initializers.set(name, create());
    return name;
  }

  /** Adds a constant list of numbers, or a scalar if the shape is empty. */
  constant(type: OnnxType, values: readonly number[], shape: readonly number[] = [values.length]): string {
    const name = `c:${type}:${shape}:${values}`;
    return this.addInitializer(name, () => ({ type, shape, bytes: toBytes(type, values) }));
  }

  scalar(type: OnnxType, value: number): string {
    return this.constant(type, [value], []);
  }

  cast(name: string, from: OnnxType, to: OnnxType): string {
    return from === to ? name : this.add("Cast", [name], { to: getTypeNumber(to) });
  }

  #once(key: string, create: () => string): string {
    const found = this.#cache.get(key) ?? create();
    this.#cache.set(key, found);
    return found;
  }

  /** The batch size (0) or the sequence length (1) as a list of one number. */
  #dimension(index: 0 | 1): string {
    return this.#once(`dimension ${index}`, () => {
      const shape = this.#once("shape", () => this.add("Shape", [this.#shapeOf]));
      return this.add("Gather", [shape, this.constant("int64", [index])], { axis: 0 });
    });
  }

  /** A number that may depend on the batch, as a list of one number of type int64. */
  size(size: SizeOrNumber): string {
    if (!isSize(size)) return this.constant("int64", [size]);
    return this.#once(`size ${size.constant} ${size.batch} ${size.length}`, () => {
      const multiply = (index: 0 | 1, factor: number): string[] => {
        if (factor === 0) return [];
        const dimension = this.#dimension(index);
        return [factor === 1 ? dimension : this.add("Mul", [dimension, this.constant("int64", [factor])])];
      };
      const terms = [...multiply(0, size.batch), ...multiply(1, size.length)];
      if (size.constant !== 0) terms.push(this.constant("int64", [size.constant]));
      return terms.reduce((sum, term) => this.add("Add", [sum, term]));
    });
  }

  /** A list of numbers that may depend on the batch, of type int64. */
  sizes(sizes: readonly SizeOrNumber[]): string {
    if (!sizes.some(isSize)) return this.constant("int64", sizes as number[]);
    const parts = sizes.map((size) => this.size(size));
    return parts.length === 1 ? parts[0]! : this.#once(`sizes ${parts}`, () => this.add("Concat", parts, { axis: 0 }));
  }

  /** Returns the graph without operators and constants that the outputs do not need. */
  build(inputs: readonly OnnxValue[], output: OnnxValue, from: string): OnnxGraph {
    this.#nodes.push({ operator: "Identity", inputs: [from], outputs: [output.name], attributes: {} });
    const needed = new Set([output.name]);
    const nodes = this.#nodes
      .toReversed()
      .filter((node) => {
        if (!node.outputs.some((name) => needed.has(name))) return false;
        for (const name of node.inputs) needed.add(name);
        return true;
      })
      .toReversed();
    return {
      nodes,
      inputs: inputs.filter(({ name }) => needed.has(name)),
      outputs: [output],
      initializers: new Map([...this.#initializers].filter(([name]) => needed.has(name))),
    };
  }
}
