import type { OnnxGraph, OnnxNode, OnnxTensor } from "./onnx-file.js";

/** 8-bit weights with one scale per row or column of a matrix. */
interface QuantizedMatrix {
  readonly values: Int8Array;
  readonly scales: Float32Array;
}

/**
 * The largest weight of a product. Processors without VNNI add two products in 16 bits, which
 * saturate above 2 · 255 · 64 = 32,640. Unsigned weights take twice as long.
 */
const maxProductLevel = 63;
const maxLevel = 127;

function toFloats({ bytes }: OnnxTensor): Float32Array {
  return new Float32Array(bytes.slice().buffer);
}

/** value ≈ scale · stored, with scale = largest absolute value / highest level in its row. */
function quantizeMatrix(matrix: OnnxTensor, by: "row" | "column", levels: number): QuantizedMatrix {
  const [rows, columns] = matrix.shape as [number, number];
  const floats = toFloats(matrix);
  const scales = new Float32Array(by === "row" ? rows : columns);
  const getGroup = (i: number): number => (by === "row" ? Math.floor(i / columns) : i % columns);
  for (let i = 0; i < floats.length; i++) {
    const group = getGroup(i);
    scales[group] = Math.max(scales[group]!, Math.abs(floats[i]!) / levels);
  }
  const values = Int8Array.from(floats, (value, i) => {
    const scale = scales[getGroup(i)]!;
    return scale === 0 ? 0 : Math.max(-levels, Math.min(levels, Math.round(value / scale)));
  });
  return { values, scales };
}

/** Collects the nodes and constants that replace a part of the graph. */
class Replacement {
  readonly nodes: OnnxNode[] = [];
  readonly initializers: Map<string, OnnxTensor>;

  constructor(graph: OnnxGraph) {
    this.initializers = new Map(graph.initializers);
  }

  constant(name: string, type: OnnxTensor["type"], shape: readonly number[], values: ArrayBufferView): string {
    const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    if (!this.initializers.has(name)) this.initializers.set(name, { type, shape, bytes });
    return name;
  }

  add(operator: string, inputs: string[], outputs: string[], attributes: OnnxNode["attributes"] = {}): string {
    this.nodes.push({ operator, inputs, outputs, attributes });
    return outputs[0]!;
  }
}

/** Quantizes a graph to 8 bits: weights once per column, inputs of products at run time. */
export function quantizeGraph(graph: OnnxGraph): OnnxGraph {
  const replacement = new Replacement(graph);
  const quantized = new Map<string, QuantizedMatrix>();
  const inputs = new Map<string, string>();
  const getMatrix = (name: string | undefined): OnnxTensor | null => {
    const found = name === undefined ? undefined : graph.initializers.get(name);
    return found?.type === "float32" && found.shape.length === 2 ? found : null;
  };
  const getQuantized = (name: string, by: "row" | "column"): QuantizedMatrix => {
    const levels = by === "row" ? maxLevel : maxProductLevel;
    const found = quantized.get(name) ?? quantizeMatrix(graph.initializers.get(name)!, by, levels);
    quantized.set(name, found);
    return found;
  };

  for (const node of graph.nodes) {
    const [first, second] = node.inputs as [string, string];
    const [output] = node.outputs as [string];
    if (node.operator === "MatMul" && getMatrix(second) && !graph.initializers.has(first)) {
      const { shape } = getMatrix(second)!;
      const { values, scales } = getQuantized(second, "column");
      const weight = replacement.constant(`${second}.quantized`, "int8", shape, values);
      const weightScale = replacement.constant(`${second}.scale`, "float32", [shape[1]!], scales);
      const zero = replacement.constant("zero_point", "int8", [], Int8Array.of(0));
      const input = inputs.get(first) ?? `${first}.quantized`;
      if (!inputs.has(first))
        replacement.add("DynamicQuantizeLinear", [first], [input, `${first}.scale`, `${first}.zero`]);
      inputs.set(first, input);
      const product = replacement.add("MatMulInteger", [input, weight, `${first}.zero`, zero], [`${output}.integer`]);
      const float = replacement.add("Cast", [product], [`${output}.float`], { to: 1 });
      const scale = replacement.add("Mul", [`${first}.scale`, weightScale], [`${output}.scale`]);
      replacement.add("Mul", [float, scale], [output]);
    } else if (node.operator === "Gather" && node.attributes.axis === 0 && getMatrix(first)) {
      const { shape } = getMatrix(first)!;
      const { values, scales } = getQuantized(first, "row");
      const table = replacement.constant(`${first}.quantized`, "int8", shape, values);
      const scale = replacement.constant(`${first}.scale`, "float32", [shape[0]!, 1], scales);
      const rows = replacement.add("Gather", [table, second], [`${output}.integer`], { axis: 0 });
      const float = replacement.add("Cast", [rows], [`${output}.float`], { to: 1 });
      const rowScale = replacement.add("Gather", [scale, second], [`${output}.scale`], { axis: 0 });
      replacement.add("Mul", [float, rowScale], [output]);
    } else replacement.nodes.push(node);
  }
  const used = new Set(replacement.nodes.flatMap((node) => node.inputs));
  const initializers = new Map([...replacement.initializers].filter(([name]) => used.has(name)));
  return { ...graph, nodes: replacement.nodes, initializers };
}
